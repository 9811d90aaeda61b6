/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floor of a latency. Both sides spin on a UDP socket, as programs that poll do; with --block they
 * sleep in recvfrom(), with --poll in poll(), as programs that wait for events do. With --lane the
 * sockets have the options of a lane's: one that receives (the client's at the next port), and one
 * that sends, which is connected. Datagrams go by the calls that such sockets take.
 * --size is the datagram's. With --lane --ack a datagram of ACK_SIZE bytes goes with each, in one
 * burst, as the ACK for the peer's message goes with the answer.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "bench.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum { WARM_UP = 1000, MAX_SIZE = 60000, ACK_SIZE = 12 + 4 + 4 /* BTH, AETH, ICRC */ };

/* As src/engine and the agent set them up: the filters, GRO, and what comes with a datagram. */
static void set_lane_options(int fd)
{
	struct sock_filter steer[] = {
		{BPF_LD | BPF_W | BPF_ABS, 0, 0, 4},
		{BPF_ALU | BPF_RSH | BPF_K, 0, 0, 14},
		{BPF_ALU | BPF_AND | BPF_K, 0, 0, 0}, /* the only member */
		{BPF_RET | BPF_A, 0, 0, 0},
	};
	struct sock_filter guard[] = {
		{BPF_LD | BPF_W | BPF_ABS, 0, 0, 8 + 4},
		{BPF_ALU | BPF_RSH | BPF_K, 0, 0, 14},
		{BPF_RET | BPF_K, 0, 0, UINT32_MAX},
	};
	const struct sock_fprog steer_prog = {.len = 4, .filter = steer};
	const struct sock_fprog guard_prog = {.len = 3, .filter = guard};
	const int one = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &steer_prog, sizeof(steer_prog)) ||
	    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &guard_prog, sizeof(guard_prog)) ||
	    setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof(one)) ||
	    setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof(one)))
		bench_die("socket option");
}

/* A socket that sends to the peer; segment: of a burst's datagrams, 0: one. */
static int open_sender(const struct sockaddr_in *peer, int segment)
{
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)) ||
	    connect(fd, (const struct sockaddr *)peer, sizeof(*peer)))
		bench_die("sender");
	return fd;
}

static void receive_as_lane(int fd, void *buf, size_t len, struct sockaddr_in *from)
{
	_Alignas(struct cmsghdr) char control[256];
	struct sockaddr_in any;
	struct iovec iov = {buf, len};
	ssize_t got;

	do {
		struct msghdr m = {
			.msg_name = from ? from : &any,
			.msg_namelen = sizeof(any),
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};

		got = recvmsg(fd, &m, MSG_DONTWAIT);
	} while (got < 0 && (errno == EAGAIN || errno == EINTR));
	if (got < 0)
		bench_die("receive");
}

static void receive(const struct bench_options *o, int fd, void *buf, size_t len,
		    struct sockaddr_in *from)
{
	socklen_t n = sizeof(*from);

	if (o->poll && poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1) < 0)
		bench_die("poll");
	if (o->lane)
		receive_as_lane(fd, buf, len, from);
	else if (!o->block)
		bench_recv_spinning(fd, buf, len, from);
	else if (recvfrom(fd, buf, len, 0, (struct sockaddr *)from, from ? &n : NULL) < 0)
		bench_die("receive");
}

static void transmit(const struct bench_options *o, int fd, void *buf, struct sockaddr_in *peer)
{
	const size_t len = o->size + (o->ack ? ACK_SIZE : 0);

	if (sendto(fd, buf, len, o->lane ? MSG_DONTWAIT : 0,
		   o->lane ? NULL : (struct sockaddr *)peer, o->lane ? 0 : sizeof(*peer)) < 0)
		bench_die("send");
}

/* The socket to send by; the server has received the first datagram. */
static int sender(const struct bench_options *o, int fd, struct sockaddr_in *peer)
{
	if (!o->lane)
		return fd;
	if (!o->host)
		peer->sin_port = htons((uint16_t)(o->port + 1));
	return open_sender(peer, o->ack ? (int)o->size : 0);
}

int main(int argc, char **argv)
{
	struct bench_options o = {.size = 24, .iters = 20000};
	static char buf[MAX_SIZE + ACK_SIZE];
	struct sockaddr_in peer;
	uint64_t *rtt;
	int fd, to = -1;

	bench_parse(&o, argc, argv);
	if (o.ack && (!o.lane || o.size < ACK_SIZE)) {
		fprintf(stderr, "udp-pingpong: --ack needs --lane, and --size of %d at least\n",
			ACK_SIZE);
		return 2;
	}
	fd = bench_socket(&o, &peer);
	if (o.lane)
		set_lane_options(fd);
	rtt = calloc(o.iters, sizeof(*rtt));
	if (!rtt)
		bench_die("memory");
	if (!o.host)
		bench_ready();
	for (unsigned i = 0; i < WARM_UP + o.iters; i++) {
		uint64_t begin = bench_now_ns();

		if (!o.host)
			receive(&o, fd, buf, sizeof(buf), &peer);
		if (to < 0)
			to = sender(&o, fd, &peer);
		transmit(&o, to, buf, &peer);
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
