/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floor of a latency. Both sides spin on a UDP socket, as programs that poll do; with --block they sleep in
 * recvfrom(), as programs that wait for events do. --size is the datagram's.
 */
#include <stdlib.h>
#include <sys/socket.h>

#include "bench.h"

enum { WARM_UP = 1000, MAX_SIZE = 60000 };

static void receive(const struct bench_options *o, int fd, void *buf, size_t len, struct sockaddr_in *from)
{
	socklen_t n = sizeof(*from);

	if (!o->block)
		bench_recv_spinning(fd, buf, len, from);
	else if (recvfrom(fd, buf, len, 0, (struct sockaddr *)from, from ? &n : NULL) < 0)
		bench_die("receive");
}

int main(int argc, char **argv)
{
	struct bench_options o = {.size = 24, .iters = 20000};
	static char buf[MAX_SIZE];
	struct sockaddr_in peer;
	uint64_t *rtt;
	int fd;

	bench_parse(&o, argc, argv);
	fd = bench_socket(&o, &peer);
	rtt = calloc(o.iters, sizeof(*rtt));
	if (!rtt)
		bench_die("memory");
	if (!o.host)
		bench_ready();
	for (unsigned i = 0; i < WARM_UP + o.iters; i++) {
		uint64_t begin = bench_now_ns();

		if (!o.host)
			receive(&o, fd, buf, sizeof(buf), &peer);
		if (sendto(fd, buf, o.size, 0, (struct sockaddr *)&peer, sizeof(peer)) < 0)
			bench_die("send");
		if (o.host)
			receive(&o, fd, buf, sizeof(buf), NULL);
		if (i >= WARM_UP)
			rtt[i - WARM_UP] = bench_now_ns() - begin;
	}
	if (o.host)
		bench_print_latency(rtt, o.iters);
	free(rtt);
	return 0;
}
