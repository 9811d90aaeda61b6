/* SPDX-License-Identifier: BSD-2-Clause */
/* Several threads on one context, and programs that fork. Most useful under ThreadSanitizer. */
#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dev.h"
#include "engine/lane-internal.h"
#include "verbs/context.h"
#include "verbs/cq.h"

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

static void *arm(void *cq)
{
	return (void *)(intptr_t)ibv_req_notify_cq(cq, 0);
}

/* One of them polls, and takes in the packet by that: the other one still waits for the event. */
TEST(threads, cq_armed_by_two__event_though_one_polls)
{
	struct ibv_send_wr *bad, wr = {.num_sge = 1, .opcode = IBV_WR_SEND};
	struct dev d, other;
	struct ibv_sge sge;
	struct pollfd fd;
	struct ibv_qp *to, *from;
	struct ibv_wc wc, none;
	struct lane *l;
	struct ibv_cq *cq;
	pthread_t t;
	void *ret;

	dev_open(&d);
	dev_open(&other);
	to = dev_qp(&d, IBV_QPT_RC, 0);
	from = dev_qp(&other, IBV_QPT_RC, 0);
	dev_connect(from, to);
	sge = dev_sge(&other, 0, 64);
	wr.sg_list = &sge;
	wr.send_flags = IBV_SEND_SIGNALED;
	fd = (struct pollfd){.fd = d.channel->fd, .events = POLLIN};
	l = vb_lane_of(&vb_cq_of(d.cq)->place);
	lane_thread_stop(l);
	for (unsigned i = 0; i < ROUNDS; i++) {
		dev_post_recv(&d, to, 2, 1024, 64);
		/* The first poll after arming looks at the sockets in this mode only. */
		lane_lock(l);
		l->progress.mode = PROGRESS_POLLED;
		lane_unlock(l);
		assert_int_equal(pthread_create(&t, NULL, arm, d.cq), 0);
		assert_int_equal(pthread_join(t, &ret), 0);
		assert_null(ret);
		assert_int_equal(ibv_req_notify_cq(d.cq, 0), 0);
		assert_int_equal(ibv_post_send(from, &wr, &bad), 0);
		dev_poll(d.cq);
		assert_int_equal(poll(&fd, 1, 20000), 1);
		assert_int_equal(ibv_get_cq_event(d.channel, &cq, &ret), 0);
		ibv_ack_cq_events(cq, 1);
		/* This thread alone makes the receiver go on. */
		while (ibv_poll_cq(other.cq, 1, &wc) == 0)
			assert_int_equal(ibv_poll_cq(d.cq, 1, &none), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_destroy_qp(from), 0);
	assert_int_equal(ibv_destroy_qp(to), 0);
	dev_close(&other);
	dev_close(&d);
}
