/* SPDX-License-Identifier: BSD-2-Clause */
/* Lanes and threads: which lane the objects of a thread are on, and that threads on different lanes
 * share no lock. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "engine/lane.h"
#include "lanes.h"
#include "verbs/qp.h"

enum { PATIENCE_S = 120 };

static struct dev d;

static struct lane *lane_of(const struct lanes_end *e)
{
	return vb_qp_of(e->qp)->lane;
}

/* ---- which lane ---- */

static void *make_two(void *arg)
{
	struct lanes_end *end = arg;

	lanes_pair(&d, &end[0], &end[1]);
	return NULL;
}

TEST(lanes_threads, no_setting__what_a_thread_makes_is_on_one_lane)
{
	struct lanes_end end[6];
	pthread_t t;
	cpu_set_t cpus;

	unsetenv("ROCEMU_LANES");
	dev_open(&d);
	make_two(&end[0]);
	assert_int_equal(pthread_create(&t, NULL, make_two, &end[2]), 0);
	pthread_join(t, NULL);
	make_two(&end[4]);
	assert_ptr_equal(lane_of(&end[0]), lane_of(&end[1]));
	assert_ptr_equal(lane_of(&end[0]), lane_of(&end[4]));
	assert_ptr_equal(lane_of(&end[0]), lane_of(&end[5]));
	assert_ptr_equal(lane_of(&end[2]), lane_of(&end[3]));
	assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	if (CPU_COUNT(&cpus) > 1)
		assert_ptr_not_equal(lane_of(&end[0]), lane_of(&end[2]));
	else
		assert_ptr_equal(lane_of(&end[0]), lane_of(&end[2]));
	lanes_check(&d, &end[2], &end[3]);
	for (unsigned i = 0; i < 6; i++)
		lanes_end_free(&end[i]);
	dev_close(&d);
}

/* ---- no lock in common ---- */

/* Two ends on one lane, since their CQs have one channel. */
struct pair {
	struct ibv_comp_channel *channel;
	struct lanes_end a, b;
};

static void pair_init(struct pair *p)
{
	p->channel = ibv_create_comp_channel(d.ctx);
	assert_non_null(p->channel);
	p->a.cq = ibv_create_cq(d.ctx, DEV_CQE, NULL, p->channel, 0);
	p->b.cq = ibv_create_cq(d.ctx, DEV_CQE, NULL, p->channel, 0);
	assert_true(p->a.cq && p->b.cq);
	p->a.qp = lanes_qp(&d, p->a.cq, p->a.cq, NULL);
	p->b.qp = lanes_qp(&d, p->b.cq, p->b.cq, NULL);
	assert_ptr_equal(lane_of(&p->a), lane_of(&p->b));
	dev_connect(p->a.qp, p->b.qp);
}

static void pair_fini(struct pair *p)
{
	lanes_end_free(&p->a);
	lanes_end_free(&p->b);
	assert_int_equal(ibv_destroy_comp_channel(p->channel), 0);
}

static void *use_pair(void *arg)
{
	struct pair *p = arg;
	struct ibv_cq *cq;
	void *user;

	for (unsigned i = 0; i < 50; i++) {
		assert_int_equal(ibv_req_notify_cq(p->a.cq, 0), 0);
		lanes_post_write(&d, &p->a, d.mr->rkey);
		assert_int_equal(ibv_get_cq_event(p->channel, &cq, &user), 0);
		ibv_ack_cq_events(cq, 1);
		assert_ptr_equal(cq, p->a.cq);
		assert_int_equal(dev_poll(cq).status, IBV_WC_SUCCESS);
		lanes_check(&d, &p->a, &p->b);
		lanes_check(&d, &p->b, &p->a);
	}
	return NULL;
}

/*
 * A thread with the lock of a lane does not block users of another one: no post, poll, arming or
 * event needs it.
 */
TEST(lanes_threads, one_lane_locked__data_path_of_the_other_goes_on)
{
	struct lane_stats stats;
	struct pair pair[2];
	struct timespec end;

	lanes_open(&d, 2);
	for (unsigned i = 0; i < 2; i++)
		pair_init(&pair[i]);
	assert_ptr_not_equal(lane_of(&pair[0].a), lane_of(&pair[1].a));
	for (unsigned i = 0; i < 2; i++) {
		struct lane *locked = lane_of(&pair[!i].a);
		pthread_t t;

		lane_lock(locked);
		assert_int_equal(pthread_create(&t, NULL, use_pair, &pair[i]), 0);
		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_sec += PATIENCE_S;
		assert_int_equal(pthread_timedjoin_np(t, NULL, &end), 0);
		lane_unlock(locked);
	}
	for (unsigned i = 0; i < 2; i++) {
		lane_get_stats(lane_of(&pair[i].a), &stats);
		assert_int_equal(stats.joins, 0);
		assert_int_equal(stats.caller_waits, 0);
		pair_fini(&pair[i]);
	}
	dev_close(&d);
}

/* ---- waits are counted ---- */

struct waiter {
	struct lane *lane;
	atomic_int tid; /* 0: it has not begun */
};

static void *take_lock(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->tid, gettid());
	lane_lock(w->lane);
	lane_unlock(w->lane);
	return NULL;
}

static bool sleeps(pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	if (f) {
		assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
		fclose(f);
	}
	return state == 'S';
}

TEST(lanes_threads, lock_taken_by_another_caller__counted_apart_from_the_lanes_thread)
{
	struct lane_stats before, stats;
	struct lanes_end a, b;
	struct waiter w = {0};
	pthread_t t;

	lanes_open(&d, 2);
	lanes_pair(&d, &a, &b);
	w.lane = lane_of(&a);
	lane_get_stats(w.lane, &before);
	lane_lock(w.lane);
	assert_int_equal(pthread_create(&t, NULL, take_lock, &w), 0);
	while (!atomic_load(&w.tid) || !sleeps(atomic_load(&w.tid)))
		sched_yield();
	lane_unlock(w.lane);
	pthread_join(t, NULL);
	lane_get_stats(w.lane, &stats);
	assert_int_equal(before.caller_waits, 0);
#ifdef __GLIBC__
	assert_int_equal(stats.caller_waits, 1);
#endif
	assert_true(stats.lock_waits > before.lock_waits);
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
}

/* ---- shared memory ---- */

static bool uses_rings(const struct lanes_end *e)
{
	struct lane_stats stats;

	lane_get_stats(lane_of(e), &stats);
	return stats.rx_rings && stats.tx_rings;
}

TEST(lanes_threads, by_shared_memory__rings_of_each_lane)
{
	struct lanes_end a, b;

	setenv("ROCEMU_WIRE", "shm", 1);
	lanes_open(&d, 2);
	lanes_pair(&d, &a, &b);
	unsetenv("ROCEMU_WIRE");
	assert_ptr_not_equal(lane_of(&a), lane_of(&b));
	do {
		lanes_check(&d, &a, &b);
		lanes_check(&d, &b, &a);
	} while (!uses_rings(&a) || !uses_rings(&b));
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
}
