/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floor of a latency whose receiver spins on memory, as ib_write_lat does: the main thread spins on
 * a counter that a second thread, blocked in recv(), counts up. The second thread requests a short
 * time slice, without which the spinning one would keep it waiting (Linux 6.12 and later; elsewhere
 * the call does no harm).
 */
#include <linux/sched.h>
#include <linux/types.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

enum { WARM_UP = 1000, MAX_SIZE = 60000, SLICE_NS = 100000 };

/* glibc has no header for it before 2.41; the layout is the kernel's (sched_setattr(2)). */
struct slice_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

struct side {
	int fd;
	_Atomic unsigned arrived;
	_Atomic unsigned short peer_port; /* network order; the server learns it */
};

static void *receive(void *arg)
{
	struct slice_attr attr = {
		.size = sizeof(attr),
		.nice = getpriority(PRIO_PROCESS, 0),
		.runtime = SLICE_NS,
	};
	struct side *s = arg;
	char buf[MAX_SIZE];

	if (syscall(SYS_sched_setattr, 0, &attr, 0) < 0)
		perror("no short slice");
	for (;;) {
		struct sockaddr_in from;
		socklen_t n = sizeof(from);

		if (recvfrom(s->fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &n) < 0)
			return NULL;
		atomic_store_explicit(&s->peer_port, from.sin_port, memory_order_relaxed);
		atomic_fetch_add_explicit(&s->arrived, 1, memory_order_release);
	}
}

static void wait_for(struct side *s, unsigned count)
{
	while (atomic_load_explicit(&s->arrived, memory_order_acquire) < count)
		;
}

int main(int argc, char **argv)
{
	struct bench_options o = {.size = 40, .iters = 20000};
	static char buf[MAX_SIZE];
	struct sockaddr_in peer;
	struct side s = {0};
	pthread_t thread;
	uint64_t *rtt;

	bench_parse(&o, argc, argv);
	s.fd = bench_socket(&o, &peer);
	rtt = calloc(o.iters, sizeof(*rtt));
	if (!rtt || pthread_create(&thread, NULL, receive, &s))
		bench_die("thread");
	if (!o.host) {
		peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		bench_ready();
	}
	for (unsigned i = 0; i < WARM_UP + o.iters; i++) {
		uint64_t begin = bench_now_ns();

		if (!o.host) {
			wait_for(&s, i + 1);
			peer.sin_port = atomic_load_explicit(&s.peer_port, memory_order_relaxed);
		}
		if (sendto(s.fd, buf, o.size, 0, (struct sockaddr *)&peer, sizeof(peer)) < 0)
			bench_die("send");
		if (o.host)
			wait_for(&s, i + 1);
		if (i >= WARM_UP)
			rtt[i - WARM_UP] = bench_now_ns() - begin;
	}
	if (o.host)
		bench_print_latency(rtt, o.iters);
	/* The other thread ends with the process. */
	return 0;
}
