/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that wait for completion events: they look for packets themselves for a while, or sleep,
 * or change over. */
#include "test.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "dev.h"
#include "engine/lane-internal.h"
#include "lanes.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/event.h"
#include "waits.h"

enum { PATIENCE_MS = 60000 };

static void make_polled(struct waits_end *e)
{
	waits_lane_polled(e->d.cq);
}

static void take_event(struct waits_end *e)
{
	struct ibv_cq *cq = NULL;
	void *user;

	assert_int_equal(ibv_get_cq_event(e->d.channel, &cq, &user), 0);
	assert_ptr_equal(cq, e->d.cq);
	ibv_ack_cq_events(cq, 1);
}

TEST(wait, nothing_comes_while_it_looks__sleeps_and_is_woken)
{
	struct waits_end a, b;

	waits_open_both(&a, &b);
	for (unsigned i = 0; i < 30; i++) {
		struct waits_thread w;

		make_polled(&b);
		waits_keen(&b);
		assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
		waits_start(&w, &b);
		if (i % 3)
			waits_until_asleep(&w);
		waits_send(&a, &b);
		pthread_join(w.thread, NULL);
		assert_int_equal(w.ret, 0);
		dev_poll(b.d.cq);
		dev_poll(a.send_cq);
	}
	waits_close_both(&a, &b);
}

/* The program armed the CQ and was expected to look; it sleeps in poll() instead. */
TEST(wait, sleeps_in_poll_where_it_looked_before__woken)
{
	struct waits_end a, b;

	waits_open_both(&a, &b);
	for (unsigned i = 0; i < 30; i++) {
		struct pollfd fd = {.fd = b.d.channel->fd, .events = POLLIN};

		make_polled(&b);
		waits_keen(&b);
		assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
		waits_send(&a, &b);
		assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
		take_event(&b);
		dev_poll(b.d.cq);
		dev_poll(a.send_cq);
	}
	waits_close_both(&a, &b);
}

static void *answer(void *arg)
{
	struct waits_end *ends = arg;

	for (unsigned i = 0; i < 1000; i++) {
		waits_keen(&ends[1]);
		take_event(&ends[1]);
		dev_poll(ends[1].d.cq);
		assert_int_equal(ibv_req_notify_cq(ends[1].d.cq, 0), 0);
		waits_send(&ends[1], &ends[0]);
		dev_poll(ends[1].send_cq);
	}
	return NULL;
}

TEST(wait, both_sides_look__each_message_has_its_event)
{
	struct waits_end ends[2];
	pthread_t t;

	waits_open_both(&ends[0], &ends[1]);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ibv_req_notify_cq(ends[i].d.cq, 0), 0);
	assert_int_equal(pthread_create(&t, NULL, answer, ends), 0);
	for (unsigned i = 0; i < 1000; i++) {
		waits_keen(&ends[0]);
		waits_send(&ends[0], &ends[1]);
		dev_poll(ends[0].send_cq);
		take_event(&ends[0]);
		dev_poll(ends[0].d.cq);
		assert_int_equal(ibv_req_notify_cq(ends[0].d.cq, 0), 0);
	}
	pthread_join(t, NULL);
	waits_close_both(&ends[0], &ends[1]);
}

/* One of them looks, for packets of all; the others sleep. */
TEST(wait, several_wait_in_one_context__each_is_woken)
{
	enum { CHANNELS = 3 };
	struct waits_end a, b[CHANNELS];
	struct waits_thread w[CHANNELS];

	waits_end_open(&a);
	waits_end_open(&b[0]);
	dev_connect(a.qp, b[0].qp);
	for (unsigned i = 1; i < CHANNELS; i++) {
		b[i] = b[0];
		b[i].d.channel = ibv_create_comp_channel(b[0].d.ctx);
		b[i].d.cq = ibv_create_cq(b[0].d.ctx, DEV_CQE, NULL, b[i].d.channel, 0);
		assert_non_null(b[i].d.cq);
		b[i].qp = dev_qp(&b[i].d, IBV_QPT_UC, 0);
	}
	dev_connect(b[1].qp, b[2].qp);
	for (unsigned round = 0; round < 30; round++) {
		for (unsigned i = 0; i < CHANNELS; i++) {
			waits_keen(&b[i]);
			assert_int_equal(ibv_req_notify_cq(b[i].d.cq, 0), 0);
			waits_start(&w[i], &b[i]);
		}
		waits_send(&a, &b[0]);
		pthread_join(w[0].thread, NULL);
		/* Receives that are flushed complete on the thread that does it. */
		for (unsigned i = 1; i < CHANNELS; i++) {
			struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

			assert_int_equal(ibv_modify_qp(b[i].qp, &attr, IBV_QP_STATE), 0);
			dev_post_recv(&b[0].d, b[i].qp, 1, 0, WAITS_LEN);
			pthread_join(w[i].thread, NULL);
			assert_int_equal(w[i].ret, 0);
			assert_int_equal(dev_poll(b[i].d.cq).status, IBV_WC_WR_FLUSH_ERR);
		}
		assert_int_equal(w[0].ret, 0);
		dev_poll(b[0].d.cq);
		dev_poll(a.send_cq);
	}
	for (unsigned i = 1; i < CHANNELS; i++) {
		assert_int_equal(ibv_destroy_qp(b[i].qp), 0);
		assert_int_equal(ibv_destroy_cq(b[i].d.cq), 0);
		assert_int_equal(ibv_destroy_comp_channel(b[i].d.channel), 0);
	}
	waits_close_both(&a, &b[0]);
}

/* The CQs of one channel are on two lanes: the one that waits does not look, and each lane's thread
 * raises its events. */
TEST(wait, cqs_of_two_lanes__each_event_arrives)
{
	struct ibv_cq *polled[2], *cq[2];
	struct ibv_qp *from[2], *to[2];
	struct waits_end e = {0};

	lanes_open(&e.d, 2);
	for (unsigned i = 0; i < 2; i++) {
		polled[i] = lanes_cq(&e.d);
		from[i] = lanes_qp(&e.d, polled[i], polled[i], NULL);
	}
	for (unsigned i = 0; i < 2; i++) {
		cq[i] = ibv_create_cq(e.d.ctx, DEV_CQE, NULL, e.d.channel, 0);
		assert_non_null(cq[i]);
		to[i] = lanes_qp(&e.d, polled[i], cq[i], NULL);
	}
	assert_ptr_not_equal(vb_lane_of(&vb_cq_of(cq[0])->place),
			     vb_lane_of(&vb_cq_of(cq[1])->place));
	for (unsigned i = 0; i < 2; i++)
		dev_connect(from[i], to[!i]);
	for (unsigned i = 0; i < 60; i++) {
		struct lanes_end sender = {.qp = from[i % 2], .cq = polled[i % 2]};
		struct ibv_cq *expected = cq[(i + 1) % 2];
		struct waits_thread w;

		for (unsigned k = 0; k < 2; k++) {
			waits_lane_polled(cq[k]);
			waits_channel_keen(e.d.channel);
			assert_int_equal(ibv_req_notify_cq(cq[k], 0), 0);
		}
		waits_start(&w, &e);
		if (i % 3)
			waits_until_asleep(&w);
		dev_post_recv(&e.d, to[(i + 1) % 2], 1, 0, WAITS_LEN);
		lanes_post_send(&e.d, &sender);
		pthread_join(w.thread, NULL);
		assert_int_equal(w.ret, 0);
		assert_int_equal(dev_poll(expected).status, IBV_WC_SUCCESS);
		assert_int_equal(dev_poll(sender.cq).status, IBV_WC_SUCCESS);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(from[i]), 0);
		assert_int_equal(ibv_destroy_qp(to[i]), 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_cq(polled[i]), 0);
		assert_int_equal(ibv_destroy_cq(cq[i]), 0);
	}
	dev_close(&e.d);
}

/* ---- a thread that gets no CPU time ---- */

static void pin_to_this_cpu(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

struct hog {
	unsigned cpu;
	atomic_bool runs, stop;
};

static void *use_cpu(void *arg)
{
	struct hog *h = arg;

	pin_to_this_cpu(h->cpu);
	atomic_store(&h->runs, true);
	while (!atomic_load(&h->stop))
		;
	return NULL;
}

struct poor {
	struct waits_end *a, *b;
	unsigned cpu;
	unsigned extra; /* events for what it polled */
};

/* Event, arm, poll, as ibv_rc_pingpong does; between the last two it has the CPU taken away. */
static void *arm_and_poll_late(void *arg)
{
	struct poor *p = arg;
	struct pollfd fd = {.fd = p->b->d.channel->fd, .events = POLLIN};

	pin_to_this_cpu(p->cpu);
	assert_int_equal(setpriority(PRIO_PROCESS, (id_t)gettid(), 19), 0);
	assert_int_equal(ibv_req_notify_cq(p->b->d.cq, 0), 0);
	for (unsigned i = 0; i < 10; i++) {
		uint64_t begin;

		waits_send(p->a, p->b);
		take_event(p->b);
		assert_int_equal(ibv_req_notify_cq(p->b->d.cq, 0), 0);
		for (begin = monotonic_ns(); monotonic_ns() - begin < 3000000;)
			sched_yield();
		dev_poll(p->b->d.cq);
		if (poll(&fd, 1, 0) == 1) {
			p->extra++;
			take_event(p->b);
			assert_int_equal(ibv_req_notify_cq(p->b->d.cq, 0), 0);
		}
		dev_poll(p->a->send_cq);
	}
	return NULL;
}

/*
 * A program that arms the CQ with a completion in it and polls that at once must have no event for
 * it, however long the kernel has something better to run in between (ibv_rc_pingpong -t -e and
 * ib_send_lat -e fail at such an event).
 */
TEST(wait, preempted_between_arming_and_polling__no_event_for_what_is_polled)
{
	struct hog h = {.cpu = (unsigned)sched_getcpu()};
	pthread_t hog, poor;
	struct poor p = {.cpu = h.cpu};
	struct waits_end a, b;

	waits_open_both(&a, &b);
	p.a = &a;
	p.b = &b;
	assert_int_equal(pthread_create(&hog, NULL, use_cpu, &h), 0);
	while (!atomic_load(&h.runs))
		sched_yield();
	assert_int_equal(pthread_create(&poor, NULL, arm_and_poll_late, &p), 0);
	pthread_join(poor, NULL);
	atomic_store(&h.stop, true);
	pthread_join(hog, NULL);
	assert_int_equal(p.extra, 0);
	waits_close_both(&a, &b);
}

static void *arm_and_work(void *arg)
{
	struct poor *p = arg;
	struct pollfd fd = {.fd = p->b->d.channel->fd, .events = POLLIN};

	waits_send(p->a, p->b);
	dev_poll(p->a->send_cq); /* so the receive completion is there */
	assert_int_equal(ibv_req_notify_cq(p->b->d.cq, 0), 0);
	while (poll(&fd, 1, 0) == 0)
		;
	take_event(p->b);
	return NULL;
}

/* One that has the CPU and does something else waits for the event. */
TEST(wait, busy_with_something_else_after_arming__event)
{
	struct poor p;
	struct waits_end a, b;
	pthread_t t;

	waits_open_both(&a, &b);
	p = (struct poor){.a = &a, .b = &b};
	assert_int_equal(pthread_create(&t, NULL, arm_and_work, &p), 0);
	pthread_join(t, NULL);
	dev_poll(b.d.cq);
	waits_close_both(&a, &b);
}

/* A loop that arms the CQ in each turn and polls it only after its event: arming again does not put
 * the event off again. By CPU time, since a thread that gets none may have its event late. */
TEST(wait, armed_in_each_turn_of_a_busy_loop__event_soon)
{
	enum { ROUNDS = 20, MOST_NS = 20000000 };
	uint64_t begin, used = 0;
	struct waits_end a, b;

	waits_open_both(&a, &b);
	for (unsigned i = 0; i < ROUNDS && used < ROUNDS * (uint64_t)MOST_NS; i++) {
		struct pollfd fd = {.fd = b.d.channel->fd, .events = POLLIN};

		waits_send(&a, &b);
		dev_poll(a.send_cq); /* so the receive completion is there */
		begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		while (poll(&fd, 1, 0) == 0)
			assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
		used += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
		take_event(&b);
		dev_poll(b.d.cq);
	}
	assert_true(used < ROUNDS * (uint64_t)MOST_NS);
	waits_close_both(&a, &b);
}

/*
 * The woken thread takes the lane's lock first. If the event became visible while the waking thread
 * still has it, two threads on one core would change over three times for each event.
 */
TEST(wait, event_raised_with_the_lock_held__visible_when_it_is_free)
{
	struct ibv_send_wr *bad, wr = {.num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_sge sge;
	struct pollfd fd;
	struct lane *l;
	struct waits_end a, b;

	waits_open_both(&a, &b);
	l = vb_lane_of(&vb_cq_of(b.d.cq)->place);
	fd = (struct pollfd){.fd = b.d.channel->fd, .events = POLLIN};
	sge = dev_sge(&a.d, 0, WAITS_LEN);
	wr.sg_list = &sge;
	dev_post_recv(&b.d, b.qp, 1, 0, WAITS_LEN);
	assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
	lane_lock(l); /* its thread waits meanwhile */
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	while (!evq_has(&vb_channel_of(b.d.channel)->events))
		lane_flush(l);
	assert_int_equal(poll(&fd, 1, 0), 0);
	lane_unlock(l);
	assert_int_equal(poll(&fd, 1, 0), 1);
	take_event(&b);
	dev_poll(b.d.cq);
	waits_close_both(&a, &b);
}
