/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does one context scale with threads? Each of N threads makes CQs, each with a pair of RC QPs that
 * are connected to each other, and writes over all of them. Rounds with one thread and with all of
 * them take turns; the medians, their ratio and the messages of all rounds are printed:
 *
 *	threads [THREADS [BYTES [ROUNDS [MILLISECONDS [CQS]]]]]
 *
 * With ROCEMU_LOG=debug each lane reports at the end how often its lock was waited for.
 * ROCEMU_LANES=1 shows what one lane for all does, and ROCEMU_LANES=2 with one thread and several
 * CQs what it costs to poll two.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "connect-qp.h"

enum {
	MAX_THREADS = 64,
	MAX_CQS = 64,
	MAX_ROUNDS = 99,
	MAX_BYTES = 1 << 20,
	DEPTH = 64,
	BATCH = 16
};

/* A CQ and a connection to the same process. */
struct flow {
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	unsigned out; /* writes that have not completed */
};

struct worker {
	pthread_t thread;
	struct ibv_pd *pd;
	struct flow flow[MAX_CQS];
	struct ibv_mr *mr;
	uint8_t *mem; /* what is written, and behind it where it goes to */
	uint64_t done;
};

static uint32_t bytes;
static unsigned cqs;
static union ibv_gid gid;
static uint64_t messages; /* of all rounds */
static atomic_bool stop;

static void die(const char *what)
{
	fprintf(stderr, "threads: %s: %s\n", what, strerror(errno));
	exit(1);
}

static unsigned number(int argc, char **argv, int at, unsigned otherwise, unsigned most)
{
	unsigned long n = argc > at ? strtoul(argv[at], NULL, 10) : otherwise;

	if (n < 1 || n > most) {
		fprintf(stderr, "threads: %s: expected 1 to %u\n", argv[at], most);
		exit(2);
	}
	return (unsigned)n;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void connect_to(struct ibv_qp *qp, uint32_t dest)
{
	const struct ibv_qp_attr attr = {
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = dest,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.ah_attr.grh.dgid = gid,
	};

	if (connect_qp(qp, attr))
		die("ibv_modify_qp");
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (!qp)
		die("ibv_create_qp");
	return qp;
}

static void *worker_init(void *arg)
{
	struct worker *w = arg;

	w->mem = calloc(2, bytes);
	w->mr = w->mem ? ibv_reg_mr(w->pd, w->mem, 2 * (size_t)bytes,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
		       : NULL;
	if (!w->mr)
		die("ibv_reg_mr");
	for (struct flow *f = w->flow; f < w->flow + cqs; f++) {
		f->cq = ibv_create_cq(w->pd->context, 2 * DEPTH, NULL, NULL, 0);
		if (!f->cq)
			die("ibv_create_cq");
		f->a = make_qp(w->pd, f->cq);
		f->b = make_qp(w->pd, f->cq);
		connect_to(f->a, f->b->qp_num);
		connect_to(f->b, f->a->qp_num);
	}
	return NULL;
}

static void worker_fini(struct worker *w)
{
	for (struct flow *f = w->flow; f < w->flow + cqs; f++)
		if (ibv_destroy_qp(f->a) || ibv_destroy_qp(f->b) || ibv_destroy_cq(f->cq))
			die("destroying");
	if (ibv_dereg_mr(w->mr))
		die("ibv_dereg_mr");
	free(w->mem);
}

/** A list of BATCH writes, of which the last one completes. */
static void post(const struct worker *w, struct flow *f)
{
	struct ibv_sge sge = {.addr = (uintptr_t)w->mem, .length = bytes, .lkey = w->mr->lkey};
	struct ibv_send_wr wr[BATCH], *bad;

	for (unsigned i = 0; i < BATCH; i++)
		wr[i] = (struct ibv_send_wr){
			.next = i + 1 < BATCH ? &wr[i + 1] : NULL,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = i + 1 < BATCH ? 0 : IBV_SEND_SIGNALED,
			.wr.rdma = {.remote_addr = (uintptr_t)w->mem + bytes, .rkey = w->mr->rkey},
		};
	errno = ibv_post_send(f->a, wr, &bad);
	if (errno)
		die("ibv_post_send");
	f->out += BATCH;
}

static void poll_one(struct worker *w, struct flow *f)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(f->cq, 1, &wc) == 0)
		return;
	errno = EIO;
	if (wc.status != IBV_WC_SUCCESS)
		die(ibv_wc_status_str(wc.status));
	f->out -= BATCH;
	w->done += BATCH;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned out = 0;

	w->done = 0;
	do {
		const bool more = !atomic_load_explicit(&stop, memory_order_relaxed);

		for (struct flow *f = w->flow; f < w->flow + cqs; f++) {
			while (more && f->out + BATCH <= DEPTH)
				post(w, f);
			if (f->out)
				poll_one(w, f);
		}
		out = more;
		for (unsigned i = 0; i < cqs; i++)
			out += w->flow[i].out;
	} while (out);
	return NULL;
}

/** Messages a second of the first n workers together. */
static double measure(struct worker *w, unsigned n, unsigned ms)
{
	const struct timespec span = {ms / 1000, (long)(ms % 1000) * 1000000};
	uint64_t start = now_ns(), done = 0;

	atomic_store(&stop, false);
	for (unsigned i = 0; i < n; i++)
		if (pthread_create(&w[i].thread, NULL, work, &w[i]))
			die("pthread_create");
	nanosleep(&span, NULL);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		done += w[i].done;
	}
	messages += done;
	return (double)done * 1e9 / (double)(now_ns() - start);
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_size);
	return v[n / 2];
}

int main(int argc, char **argv)
{
	const unsigned threads = number(argc, argv, 1, 2, MAX_THREADS);
	const unsigned rounds = number(argc, argv, 3, 5, MAX_ROUNDS);
	const unsigned ms = number(argc, argv, 4, 300, 60000);
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	static double one[MAX_ROUNDS], all[MAX_ROUNDS];
	static struct worker w[MAX_THREADS];
	struct ibv_pd *pd;

	bytes = number(argc, argv, 2, 64, MAX_BYTES);
	cqs = number(argc, argv, 5, 1, MAX_CQS);
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	if (!pd || ibv_query_gid(ctx, 1, 0, &gid))
		die("no device");
	/* Which lane objects are on may depend on the thread that makes them. */
	for (unsigned i = 0; i < threads; i++) {
		w[i].pd = pd;
		if (pthread_create(&w[i].thread, NULL, worker_init, &w[i]))
			die("pthread_create");
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(w[i].thread, NULL);
	for (unsigned i = 0; i < rounds; i++) {
		one[i] = measure(w, 1, ms);
		all[i] = measure(w, threads, ms);
	}
	printf("1 thread: %.0f messages/s\n%u threads: %.0f messages/s\nratio: %.2f\n"
	       "messages: %" PRIu64 "\n",
	       median(one, rounds), threads, median(all, rounds),
	       median(all, rounds) / median(one, rounds), messages);
	for (unsigned i = 0; i < threads; i++)
		worker_fini(&w[i]);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	ibv_free_device_list(list);
	return 0;
}
