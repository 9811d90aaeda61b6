/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the raw peers share: plain UDP programs without anything of rocemu, as floors and ceilings
 * for bench.py. Each is a server (no HOST) and a client; the server prints "ready" when it can be
 * reached.
 */
#ifndef BENCH_H
#define BENCH_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_options {
	const char *host; /* NULL: the server */
	uint16_t port;
	size_t size; /* bytes: of a datagram, or of payload in each */
	unsigned iters;
	unsigned seconds;
	size_t window;	  /* bytes in flight */
	unsigned burst;	  /* packets in a datagram of the kernel's, or in a call */
	unsigned message; /* packets in a message; 0: there are no messages */
	bool lane;	  /* a socket as a lane's */
	bool ack;	  /* with each datagram an ACK's, in one burst */
	bool block;	  /* sleep until a datagram comes; default: spin */
	bool poll;	  /* ... in poll() */
	bool epoll;	  /* ... in epoll_wait() */
};

/** Parse the command line into *o, which holds the defaults. Exits when it is wrong. */
void bench_parse(struct bench_options *o, int argc, char **argv);
/** Prints "PROGRAM: what: errno's text" and exits. */
void bench_die(const char *what) __attribute__((noreturn));
uint64_t bench_now_ns(void);
/** The server's socket bound to the port, the client's to any, a lane's to the next one; *peer is
 * the server's address for a client. */
int bench_socket(const struct bench_options *o, struct sockaddr_in *peer);
/** Spin until a datagram comes; *from may be NULL. Gives up (exits) after 10 s. @return its length.
 */
size_t bench_recv_spinning(int fd, void *buf, size_t len, struct sockaddr_in *from);
void bench_ready(void);
/** Prints median and average of n half round trips; sorts rtt_ns. */
void bench_print_latency(uint64_t *rtt_ns, unsigned n);

#endif
