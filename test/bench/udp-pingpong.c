/* SPDX-License-Identifier: BSD-2-Clause */
/* Floor of a latency whose receiver polls: both sides spin on a UDP socket. --size is the
 * datagram's. */
#include <stdlib.h>
#include <sys/socket.h>

#include "bench.h"

enum { WARM_UP = 1000, MAX_SIZE = 60000 };

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
			bench_recv_spinning(fd, buf, sizeof(buf), &peer);
		if (sendto(fd, buf, o.size, 0, (struct sockaddr *)&peer, sizeof(peer)) < 0)
			bench_die("send");
		if (o.host)
			bench_recv_spinning(fd, buf, sizeof(buf), NULL);
		if (i >= WARM_UP)
			rtt[i - WARM_UP] = bench_now_ns() - begin;
	}
	if (o.host)
		bench_print_latency(rtt, o.iters);
	free(rtt);
	return 0;
}
