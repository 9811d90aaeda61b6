/* SPDX-License-Identifier: BSD-2-Clause */
/* Several threads on one context, and programs that fork. Most useful under ThreadSanitizer. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dev.h"

enum { ROUNDS = 200, WORKERS = 4 };

static bool write_and_wait(struct dev *d, struct ibv_qp *qp, struct ibv_cq *cq, uint64_t id)
{
	struct ibv_sge sge = dev_sge(d, (uint32_t)(id % 64) * 64, 64);
	struct ibv_send_wr wr =
				   {
					   .wr_id = id,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_RDMA_WRITE,
					   .send_flags = IBV_SEND_SIGNALED,
				   },
			   *bad;
	struct ibv_wc wc;
	int n;

	wr.wr.rdma.rkey = d->mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)d->mem + 32768;
	if (ibv_post_send(qp, &wr, &bad))
		return false;
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	return n == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == id;
}

struct worker {
	struct dev *d;
	bool ok;
};

/* Makes, uses and destroys objects of its own on the context that all share. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct dev mine = {.ctx = w->d->ctx, .pd = w->d->pd};
	struct ibv_qp *a, *b;

	mine.cq = ibv_create_cq(mine.ctx, 16, NULL, NULL, 0);
	if (!mine.cq)
		return NULL;
	a = dev_qp(&mine, IBV_QPT_RC, 0);
	b = dev_qp(&mine, IBV_QPT_RC, 0);
	dev_connect(a, b);
	w->ok = true;
	for (uint64_t i = 0; i < ROUNDS && w->ok; i++)
		w->ok = write_and_wait(w->d, a, mine.cq, i);
	w->ok = !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(mine.cq) && w->ok;
	return NULL;
}

TEST(threads, each_with_its_qp_on_one_context__all_complete)
{
	struct worker w[WORKERS] = {{0}};
	pthread_t t[WORKERS];
	struct dev d;

	dev_open(&d);
	for (int i = 0; i < WORKERS; i++) {
		w[i].d = &d;
		assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
	}
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(t[i], NULL);
		assert_true(w[i].ok);
	}
	dev_close(&d);
}

struct shared {
	struct dev *d;
	struct ibv_qp *a;
	atomic_uint completed, failed;
};

/* Posts one at a time and takes whatever completion there is, its own or another's. */
static void *post_and_poll(void *arg)
{
	struct shared *s = arg;
	struct ibv_sge sge = dev_sge(s->d, 0, 8);
	struct ibv_send_wr wr =
				   {
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_RDMA_WRITE,
					   .send_flags = IBV_SEND_SIGNALED,
				   },
			   *bad;
	struct ibv_wc wc;

	wr.wr.rdma.rkey = s->d->mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)s->d->mem + 32768;
	for (unsigned posted = 0;
	     posted < ROUNDS || atomic_load(&s->completed) < WORKERS * ROUNDS;) {
		if (posted < ROUNDS && ibv_post_send(s->a, &wr, &bad) == 0)
			posted++;
		if (ibv_poll_cq(s->d->cq, 1, &wc) != 1)
			continue;
		atomic_fetch_add(&s->completed, 1);
		if (wc.status != IBV_WC_SUCCESS)
			atomic_fetch_add(&s->failed, 1);
	}
	return NULL;
}

TEST(threads, one_qp_and_one_cq__each_completion_seen_once)
{
	struct shared s = {0};
	pthread_t t[WORKERS];
	struct ibv_wc wc;
	struct ibv_qp *b;
	struct dev d;

	dev_open(&d);
	s.d = &d;
	s.a = dev_qp(&d, IBV_QPT_RC, 0);
	b = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(s.a, b);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, post_and_poll, &s), 0);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(atomic_load(&s.completed), WORKERS * ROUNDS);
	assert_int_equal(atomic_load(&s.failed), 0);
	assert_int_equal(ibv_poll_cq(d.cq, 1, &wc), 0);
	assert_int_equal(ibv_destroy_qp(s.a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	dev_close(&d);
}

/* ---- fork ---- */

static bool use_own_device(void)
{
	struct ibv_qp *a, *b;
	struct dev d;
	bool ok;

	dev_open(&d);
	a = dev_qp(&d, IBV_QPT_RC, 0);
	b = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(a, b);
	ok = write_and_wait(&d, a, d.cq, 7);
	ok = !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && ok;
	dev_close(&d);
	return ok;
}

TEST(fork, child_opens_its_own_device__both_work)
{
	struct ibv_qp *a, *b;
	struct dev d;
	pid_t child;
	int status;

#ifdef __SANITIZE_THREAD__
	print_message("skipped: ThreadSanitizer lets no forked child start threads\n");
	skip();
#endif
	dev_open(&d);
	a = dev_qp(&d, IBV_QPT_RC, 0);
	b = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(a, b);
	assert_true(write_and_wait(&d, a, d.cq, 1));
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		exit(use_own_device()
			     ? 0
			     : 1); /* exit(): the library's destructors run on the copies, too */
	for (uint64_t i = 0; i < ROUNDS; i++)
		assert_true(write_and_wait(&d, a, d.cq, i));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_true(write_and_wait(&d, a, d.cq, 2));
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	dev_close(&d);
}

TEST(fork, child_inherits_and_exits__parent_undisturbed)
{
	struct ibv_qp *a, *b;
	struct dev d;
	pid_t child;
	int status;

	dev_open(&d);
	a = dev_qp(&d, IBV_QPT_RC, 0);
	b = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(a, b);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(write_and_wait(&d, a, d.cq, 1));
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	dev_close(&d);
}
