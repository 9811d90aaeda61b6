/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What many connected queue pairs cost. Connects N RC QPs of the first device
 * to each other in pairs, sends one message over each pair, then waits for a
 * while in ibv_get_cq_event() and prints the CPU time that took:
 *
 *	idle-qps [QPS [SECONDS]]
 *
 * Or sends messages over 1 % of the pairs (one of them at least) and prints,
 * several times, what a message costs in CPU time, and the memory of a QP:
 *
 *	idle-qps --active QPS MESSAGES
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "connect-qp.h"

enum { MAX_QPS = 16000 };

static void die(const char *what)
{
	fprintf(stderr, "idle-qps: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void connect_to(struct ibv_qp *qp, uint32_t dest, const union ibv_gid *gid, enum ibv_mtu mtu)
{
	const struct ibv_qp_attr attr = {
		.path_mtu = mtu,
		.dest_qp_num = dest,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.ah_attr.grh.dgid = *gid,
	};

	if (connect_qp(qp, attr))
		die("ibv_modify_qp");
}

/** An empty SEND from a to b, to its completion on both sides. */
static void ping(struct ibv_qp *a, struct ibv_qp *b, struct ibv_cq *cq)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad_send;
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
	struct ibv_wc wc;

	if (ibv_post_recv(b, &recv, &bad_recv) || ibv_post_send(a, &send, &bad_send))
		die("post");
	for (int done = 0; done < 2;) {
		int n = ibv_poll_cq(cq, 1, &wc);

		errno = EIO;
		if (n < 0 || (n == 1 && wc.status != IBV_WC_SUCCESS))
			die(n == 1 ? ibv_wc_status_str(wc.status) : "ibv_poll_cq");
		done += n;
	}
}

static double cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/** Bytes of anonymous memory of the process that are in RAM. */
static long resident(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[128];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "RssAnon: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	if (kib < 0)
		die("RssAnon");
	return kib * 1024;
}

struct fixture {
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp **qps;
	int n;
	long bytes_before, bytes_after;
};

static void open_fixture(struct fixture *f, int n)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (!list || !list[0])
		die("no RDMA device");
	ctx = ibv_open_device(list[0]);
	if (!ctx || ibv_query_port(ctx, 1, &port) || ibv_query_gid(ctx, 1, 0, &gid))
		die("device");
	f->n = n;
	f->pd = ibv_alloc_pd(ctx);
	f->channel = ibv_create_comp_channel(ctx);
	attr.send_cq = attr.recv_cq = f->cq = ibv_create_cq(ctx, 16, NULL, f->channel, 0);
	f->qps = calloc((size_t)n, sizeof(*f->qps));
	if (!f->pd || !f->channel || !f->cq || !f->qps)
		die("CQ");
	for (int i = 0; i < n; i++) {
		/* The first pair opens what the process needs once: sockets, tables. */
		if (i == 2) {
			connect_to(f->qps[0], f->qps[1]->qp_num, &gid, port.active_mtu);
			connect_to(f->qps[1], f->qps[0]->qp_num, &gid, port.active_mtu);
			ping(f->qps[0], f->qps[1], f->cq);
			f->bytes_before = resident();
		}
		f->qps[i] = ibv_create_qp(f->pd, &attr);
		if (!f->qps[i])
			die("ibv_create_qp");
	}
	for (int i = n > 2 ? 2 : 0; i < n; i++)
		connect_to(f->qps[i], f->qps[i ^ 1]->qp_num, &gid, port.active_mtu);
	for (int i = 0; i < n; i += 2)
		ping(f->qps[i], f->qps[i + 1], f->cq);
	f->bytes_after = resident();
}

static void close_fixture(struct fixture *f)
{
	struct ibv_context *ctx = f->pd->context;

	for (int i = 0; i < f->n; i++)
		ibv_destroy_qp(f->qps[i]);
	free(f->qps);
	ibv_destroy_cq(f->cq);
	ibv_destroy_comp_channel(f->channel);
	ibv_dealloc_pd(f->pd);
	ibv_close_device(ctx);
}

/** CPU time of a message, over the first `pairs` pairs in turn. */
static double cost_ns(const struct fixture *f, int pairs, int messages)
{
	double begin = now_ns();

	for (int i = 0; i < messages; i++) {
		/* Spread over all that there are. */
		int pair = (int)((long)(i % pairs) * (f->n / 2) / pairs);

		ping(f->qps[2 * pair], f->qps[2 * pair + 1], f->cq);
	}
	return (now_ns() - begin) / messages;
}

static int measure_active(int n, int messages)
{
	enum { ROUNDS = 9 };
	struct fixture f = {0};
	int pairs = n / 100 / 2 > 0 ? n / 100 / 2 : 1;

	open_fixture(&f, n);
	printf("qps %d bytes_per_qp %ld\n", n,
	       n > 2 ? (f.bytes_after - f.bytes_before) / (n - 2) : 0);
	cost_ns(&f, pairs, messages / ROUNDS + 1); /* warm up */
	for (int i = 0; i < ROUNDS; i++)
		printf("pairs %d message_ns %.0f\n", pairs,
		       cost_ns(&f, pairs, messages / ROUNDS + 1));
	return 0;
}

/** Wait for a completion; there is none until the process ends. */
static void *wait_for_event(void *arg)
{
	const struct fixture *f = arg;
	struct ibv_cq *cq;
	void *user;

	if (ibv_req_notify_cq(f->cq, 0) || ibv_get_cq_event(f->channel, &cq, &user) == 0)
		die("an event without a completion");
	return NULL;
}

static void measure_idle(int n, int seconds)
{
	struct timespec pause = {.tv_sec = seconds};
	struct fixture f = {0};
	pthread_t waiting;
	double before;

	open_fixture(&f, n);
	before = cpu_ms();
	if (pthread_create(&waiting, NULL, wait_for_event, &f))
		die("pthread_create");
	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		;
	printf("qps %d seconds %d cpu_ms %.3f\n", n, seconds, cpu_ms() - before);
	pthread_cancel(waiting);
	pthread_join(waiting, NULL);
	close_fixture(&f); /* ROCEMU_LOG=debug then prints counters */
}

int main(int argc, char **argv)
{
	bool active = argc == 4 && strcmp(argv[1], "--active") == 0;
	int n = active ? atoi(argv[2]) : argc > 1 ? atoi(argv[1]) : 1000;
	int count = active ? atoi(argv[3]) : argc > 2 ? atoi(argv[2]) : 3;

	if (n < 2 || n > MAX_QPS || n % 2 || count < 1) {
		fprintf(stderr,
			"usage: idle-qps [QPS (even, 2-%d) [SECONDS]] or --active QPS MESSAGES\n",
			MAX_QPS);
		return 2;
	}
	if (active)
		return measure_active(n, count);
	measure_idle(n, count);
	return 0;
}
