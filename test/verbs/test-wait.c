/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that wait for completion events: they look for packets themselves for a while, or sleep,
 * or change over. */
#include "test.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
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

enum { LEN = 64, PATIENCE_MS = 60000 };

/* One end of a connection, with a context of its own. Send completions are polled and make no
 * events. */
struct end {
	struct dev d;
	struct ibv_cq *send_cq;
	struct ibv_qp *qp;
};

static void end_open(struct end *e)
{
	dev_open(&e->d);
	e->send_cq = ibv_create_cq(e->d.ctx, DEV_CQE, NULL, NULL, 0);
	assert_non_null(e->send_cq);
	e->qp = ibv_create_qp(e->d.pd, &(struct ibv_qp_init_attr){
					       .send_cq = e->send_cq,
					       .recv_cq = e->d.cq,
					       .cap = {.max_send_wr = DEV_WR,
						       .max_recv_wr = DEV_WR,
						       .max_send_sge = 1,
						       .max_recv_sge = 1},
					       .qp_type = IBV_QPT_RC,
				       });
	assert_non_null(e->qp);
}

static void end_close(struct end *e)
{
	assert_int_equal(ibv_destroy_qp(e->qp), 0);
	assert_int_equal(ibv_destroy_cq(e->send_cq), 0);
	dev_close(&e->d);
}

static void open_both(struct end *a, struct end *b)
{
	end_open(a);
	end_open(b);
	dev_connect(a->qp, b->qp);
}

static void close_both(struct end *a, struct end *b)
{
	end_close(a);
	end_close(b);
}

static void send_to(struct end *from, struct end *to)
{
	struct ibv_sge sge = dev_sge(&from->d, 0, LEN);
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};

	dev_post_recv(&to->d, to->qp, 1, 0, LEN);
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
}

/* As after many short waits: the next one begins with looking. */
static void make_channel_keen(struct ibv_comp_channel *ch)
{
	struct spin *s = &vb_channel_of(ch)->spin;

	atomic_store(&s->need, 1);
	atomic_store(&s->run, SPIN_NEED_MAX);
}

static void make_keen(struct end *e)
{
	make_channel_keen(e->d.channel);
}

/* The lane's thread leaves packets to those who poll. */
static void make_lane_polled(struct ibv_cq *cq)
{
	struct lane *l = vb_lane_of(&vb_cq_of(cq)->place);
	bool polled = false;

	while (!polled) {
		lane_lock(l);
		l->progress.need = 1;
		if (l->progress.mode == PROGRESS_ARMED)
			lane_thread_request(l, LANE_REQ_STOP_WATCHING);
		else
			polled = true;
		lane_unlock(l);
		assert_int_equal(ibv_poll_cq(cq, 1, &(struct ibv_wc){0}), 0);
	}
}

static void make_polled(struct end *e)
{
	make_lane_polled(e->d.cq);
}

static void take_event(struct end *e)
{
	struct ibv_cq *cq = NULL;
	void *user;

	assert_int_equal(ibv_get_cq_event(e->d.channel, &cq, &user), 0);
	assert_ptr_equal(cq, e->d.cq);
	ibv_ack_cq_events(cq, 1);
}

struct waiter {
	struct end *e;
	pthread_t thread;
	atomic_int tid; /* 0: it does not run yet */
	int ret, err;
};

static void *wait_for_event(void *arg)
{
	struct waiter *w = arg;
	struct ibv_cq *cq;
	void *user;

	atomic_store(&w->tid, gettid());
	w->ret = ibv_get_cq_event(w->e->d.channel, &cq, &user);
	w->err = errno;
	if (!w->ret)
		ibv_ack_cq_events(cq, 1);
	return NULL;
}

/* Sleeps it, as it does only when it has looked for long enough? */
static void wait_until_asleep(const struct waiter *w)
{
	char path[64], line[256];
	char state = 0;

	while (!atomic_load(&w->tid))
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", atomic_load(&w->tid));
	/* In read(2): a lock is another call, and a thread that runs has none. */
	while (state != '0') {
		FILE *f = fopen(path, "re");

		if (f && fgets(line, sizeof(line), f))
			state = strncmp(line, "0 ", 2) ? 0 : '0';
		if (f)
			fclose(f);
		sched_yield();
	}
}

static void start_waiter(struct waiter *w, struct end *e)
{
	*w = (struct waiter){.e = e};
	assert_int_equal(pthread_create(&w->thread, NULL, wait_for_event, w), 0);
}

TEST(wait, nothing_comes_while_it_looks__sleeps_and_is_woken)
{
	struct end a, b;

	open_both(&a, &b);
	for (unsigned i = 0; i < 30; i++) {
		struct waiter w;

		make_polled(&b);
		make_keen(&b);
		assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
		start_waiter(&w, &b);
		if (i % 3)
			wait_until_asleep(&w);
		send_to(&a, &b);
		pthread_join(w.thread, NULL);
		assert_int_equal(w.ret, 0);
		dev_poll(b.d.cq);
		dev_poll(a.send_cq);
	}
	close_both(&a, &b);
}

/* The program armed the CQ and was expected to look; it sleeps in poll() instead. */
TEST(wait, sleeps_in_poll_where_it_looked_before__woken)
{
	struct end a, b;

	open_both(&a, &b);
	for (unsigned i = 0; i < 30; i++) {
		struct pollfd fd = {.fd = b.d.channel->fd, .events = POLLIN};

		make_polled(&b);
		make_keen(&b);
		assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
		send_to(&a, &b);
		assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
		take_event(&b);
		dev_poll(b.d.cq);
		dev_poll(a.send_cq);
	}
	close_both(&a, &b);
}

static void *answer(void *arg)
{
	struct end *ends = arg;

	for (unsigned i = 0; i < 1000; i++) {
		make_keen(&ends[1]);
		take_event(&ends[1]);
		dev_poll(ends[1].d.cq);
		assert_int_equal(ibv_req_notify_cq(ends[1].d.cq, 0), 0);
		send_to(&ends[1], &ends[0]);
		dev_poll(ends[1].send_cq);
	}
	return NULL;
}

TEST(wait, both_sides_look__each_message_has_its_event)
{
	struct end ends[2];
	pthread_t t;

	open_both(&ends[0], &ends[1]);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ibv_req_notify_cq(ends[i].d.cq, 0), 0);
	assert_int_equal(pthread_create(&t, NULL, answer, ends), 0);
	for (unsigned i = 0; i < 1000; i++) {
		make_keen(&ends[0]);
		send_to(&ends[0], &ends[1]);
		dev_poll(ends[0].send_cq);
		take_event(&ends[0]);
		dev_poll(ends[0].d.cq);
		assert_int_equal(ibv_req_notify_cq(ends[0].d.cq, 0), 0);
	}
	pthread_join(t, NULL);
	close_both(&ends[0], &ends[1]);
}

/* One of them looks, for packets of all; the others sleep. */
TEST(wait, several_wait_in_one_context__each_is_woken)
{
	enum { CHANNELS = 3 };
	struct end a, b[CHANNELS];
	struct waiter w[CHANNELS];

	end_open(&a);
	end_open(&b[0]);
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
			make_keen(&b[i]);
			assert_int_equal(ibv_req_notify_cq(b[i].d.cq, 0), 0);
			start_waiter(&w[i], &b[i]);
		}
		send_to(&a, &b[0]);
		pthread_join(w[0].thread, NULL);
		/* Receives that are flushed complete on the thread that does it. */
		for (unsigned i = 1; i < CHANNELS; i++) {
			struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

			assert_int_equal(ibv_modify_qp(b[i].qp, &attr, IBV_QP_STATE), 0);
			dev_post_recv(&b[0].d, b[i].qp, 1, 0, LEN);
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
	close_both(&a, &b[0]);
}

/* The CQs of one channel are on two lanes: the one that waits does not look, and each lane's thread
 * raises its events. */
TEST(wait, cqs_of_two_lanes__each_event_arrives)
{
	struct ibv_cq *polled[2], *cq[2];
	struct ibv_qp *from[2], *to[2];
	struct end e = {0};

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
		struct waiter w;

		for (unsigned k = 0; k < 2; k++) {
			make_lane_polled(cq[k]);
			make_channel_keen(e.d.channel);
			assert_int_equal(ibv_req_notify_cq(cq[k], 0), 0);
		}
		start_waiter(&w, &e);
		if (i % 3)
			wait_until_asleep(&w);
		dev_post_recv(&e.d, to[(i + 1) % 2], 1, 0, LEN);
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

static void on_signal(int sig)
{
	(void)sig;
}

TEST(wait, signal_or_cancellation_after_looking__as_from_read)
{
	struct sigaction interrupt = {.sa_handler = on_signal};
	struct end a, b;
	struct waiter w;

#ifdef __SANITIZE_THREAD__
	print_message("skipped: ThreadSanitizer keeps signals back, and a call that they interrupt "
		      "goes on\n");
	skip();
#endif
	sigaction(SIGUSR2, &interrupt, NULL);
	open_both(&a, &b);
	for (unsigned i = 0; i < 20; i++) {
		make_keen(&b);
		assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
		start_waiter(&w, &b);
		wait_until_asleep(&w);
		if (i % 2)
			pthread_cancel(w.thread);
		else
			pthread_kill(w.thread, SIGUSR2);
		pthread_join(w.thread, NULL);
		if (i % 2 == 0) {
			assert_int_equal(w.ret, -1);
			assert_int_equal(w.err, EINTR);
		}
		/* The place of the one that looks is free, and the event is there for others. */
		make_keen(&b);
		start_waiter(&w, &b);
		send_to(&a, &b);
		pthread_join(w.thread, NULL);
		assert_int_equal(w.ret, 0);
		dev_poll(b.d.cq);
		dev_poll(a.send_cq);
	}
	close_both(&a, &b);
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
	struct end *a, *b;
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

		send_to(p->a, p->b);
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
	struct end a, b;

	open_both(&a, &b);
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
	close_both(&a, &b);
}

static void *arm_and_work(void *arg)
{
	struct poor *p = arg;
	struct pollfd fd = {.fd = p->b->d.channel->fd, .events = POLLIN};

	send_to(p->a, p->b);
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
	struct end a, b;
	pthread_t t;

	open_both(&a, &b);
	p = (struct poor){.a = &a, .b = &b};
	assert_int_equal(pthread_create(&t, NULL, arm_and_work, &p), 0);
	pthread_join(t, NULL);
	dev_poll(b.d.cq);
	close_both(&a, &b);
}

/* A loop that arms the CQ in each turn and polls it only after its event: arming again does not put
 * the event off again. By CPU time, since a thread that gets none may have its event late. */
TEST(wait, armed_in_each_turn_of_a_busy_loop__event_soon)
{
	enum { ROUNDS = 20, MOST_NS = 20000000 };
	uint64_t begin, used = 0;
	struct end a, b;

	open_both(&a, &b);
	for (unsigned i = 0; i < ROUNDS && used < ROUNDS * (uint64_t)MOST_NS; i++) {
		struct pollfd fd = {.fd = b.d.channel->fd, .events = POLLIN};

		send_to(&a, &b);
		dev_poll(a.send_cq); /* so the receive completion is there */
		begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		while (poll(&fd, 1, 0) == 0)
			assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
		used += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
		take_event(&b);
		dev_poll(b.d.cq);
	}
	assert_true(used < ROUNDS * (uint64_t)MOST_NS);
	close_both(&a, &b);
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
	struct end a, b;

	open_both(&a, &b);
	l = vb_lane_of(&vb_cq_of(b.d.cq)->place);
	fd = (struct pollfd){.fd = b.d.channel->fd, .events = POLLIN};
	sge = dev_sge(&a.d, 0, LEN);
	wr.sg_list = &sge;
	dev_post_recv(&b.d, b.qp, 1, 0, LEN);
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
	close_both(&a, &b);
}
