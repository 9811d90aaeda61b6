/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests which thread serves a lane when: callers or its thread, without needless wakeups. */
#include "test.h"

#include <poll.h>
#include <sched.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/lane-internal.h"
#include "node.h"
#include "transport/ep.h"
#include "transport/peer.h"
#include "transport/qp.h"

/* As on a busy machine: a socket is the thread's to watch, and the thread does not get to run. */
TEST(lane, thread_kept_from_running__answer_found_before_retries_are_used_up)
{
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	lane_thread_stop(a.lane);
	node_write(&a, &b, 0, 64, true);
	node_poll(&a);
	node_close_pair(&a, &b);
}

enum { QUICK_POSTS = GATHER_MODERATED - 4 }; /* else the completion of the last one sends all */

/* As fast as can be: no time passes between them. */
static void post_quickly(struct node *from, struct node *to)
{
	from->post_time = lane_now();
	for (unsigned i = 1; i <= QUICK_POSTS; i++)
		node_write(from, to, 0, 64, i == QUICK_POSTS);
	from->post_time = 0;
}

TEST(lane, posts_in_quick_succession__leave_together)
{
	uint64_t calls, again;
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	lane_thread_stop(a.lane);
	calls = node_stats(&a).tx_syscalls;
	post_quickly(&a, &b);
	node_poll(&a);
	calls = node_stats(&a).tx_syscalls - calls;
	again = node_stats(&a).tx_datagrams - QUICK_POSTS;
	/* The first show that there are many, the others leave with the poll. What a busy machine
	 * has sent again: alone. */
	assert_true(calls <= GATHER_THRESHOLD + 1 + again);
	node_close_pair(&a, &b);
}

TEST(lane, posts_wait_and_nobody_polls__thread_sends)
{
	struct pollfd pfd = {.events = POLLIN};
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	lane_lock(a.lane);
	rocemu_cq_arm(a.cq, lane_now(), false);
	lane_unlock(a.lane);
	post_quickly(&a, &b);
	pfd.fd = a.event_fd;
	assert_int_equal(poll(&pfd, 1, NODE_PATIENCE_MS), 1);
	node_poll(&a);
	node_close_pair(&a, &b);
}

TEST(lane, posts_wait_and_qp_stops__sent_before)
{
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	lane_thread_stop(a.lane);
	post_quickly(&a, &b);
	lane_lock(a.lane);
	lane_flush(a.lane);
	lane_unlock(a.lane);
	assert_int_equal(node_stats(&a).tx_datagrams, QUICK_POSTS);
	node_close_pair(&a, &b);
}

TEST(lane, nobody_polls__thread_serves)
{
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	for (unsigned i = 0; i < 200; i++) {
		node_recv(&b, 0, 64);
		node_send(&a, 0, 64, true);
		node_wait(&b);
		node_wait(&a);
	}
	assert_true(node_stats(&b).thread_wakeups > 0);
	node_close_pair(&a, &b);
}

/* How often a new lane's thread is woken for READS READs, one after the other. */
enum { READS = 100 };

static uint64_t wakeups_for_reads(uint32_t len)
{
	struct node a, b;
	uint64_t wakeups;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	for (unsigned i = 0; i < READS; i++) {
		node_read(&a, &b, 0, len);
		node_poll(&a);
	}
	wakeups = node_stats(&b).thread_wakeups;
	node_close_pair(&a, &b);
	return wakeups;
}

/* While the thread looks for the next one it is not woken; else it is, for each. On a busy machine
 * the thread finds none in its time, so wait for a moment in which it gets a processor. */
static void expect_fewer_wakeups(uint32_t len)
{
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * 1000000ull;

	if (HAVE_TSAN) {
		print_message("skipped: with ThreadSanitizer a READ takes longer than the thread "
			      "looks\n");
		skip();
	}
	while (wakeups_for_reads(len) >= READS)
		assert_true(lane_now() < end);
}

TEST(lane, reads_that_follow_each_other__fewer_wakeups)
{
	expect_fewer_wakeups(8);
}

/* The requester takes the last response meanwhile. */
TEST(lane, large_reads_that_follow_each_other__fewer_wakeups)
{
	expect_fewer_wakeups(512 * 1024);
}

/* How often a new lane's thread is woken for messages for which a program sleeps. */
static uint64_t wakeups_for_events(void)
{
	struct node a, b;
	uint64_t wakeups;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	for (unsigned i = 0; i < READS; i++) {
		node_recv(&b, 0, 64);
		node_send(&a, 0, 64, true);
		node_wait(&b);
		node_poll(&a);
	}
	wakeups = node_stats(&b).thread_wakeups;
	node_close_pair(&a, &b);
	return wakeups;
}

TEST(lane, events_that_follow_each_other__fewer_wakeups)
{
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * 1000000ull;

	if (HAVE_TSAN) {
		print_message(
			"skipped: with ThreadSanitizer a message takes longer than the thread "
			"polls\n");
		skip();
	}
	while (wakeups_for_events() >= READS / 2)
		assert_true(lane_now() < end);
}

/* The requester goes on with the first half while the second is made. */
TEST(lane, reads_that_come_together__answered_in_two_bursts)
{
	struct lane_stats before, after;
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	lane_thread_stop(a.lane);
	lane_thread_stop(b.lane);
	before = node_stats(&b);
	node_read_together(&a, &b, 16, 64);
	while (node_stats(&b).rx_datagrams - before.rx_datagrams < 16)
		lane_poll(b.lane);
	after = node_stats(&b);
	assert_int_equal(after.rx_syscalls - before.rx_syscalls, 1);
	assert_int_equal(after.tx_datagrams - before.tx_datagrams, 16);
	assert_int_equal(after.tx_syscalls - before.tx_syscalls, 2);
	node_poll(&a);
	node_close_pair(&a, &b);
}

/* So many of 8 READs of len bytes, whose requests came one by one, are taken before any is
 * answered. */
static uint64_t reads_taken(uint32_t len)
{
	enum { TOGETHER = 8 };
	struct node a, b;
	uint64_t before, taken;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	lane_thread_stop(a.lane);
	lane_thread_stop(b.lane);
	/* Whatever the receive buffer: one request each, none waits. */
	a.lane->ep->cfg.read_budget = UINT32_MAX;
	a.qp->req.read_shift = 20;
	a.qp->req.peer->cc.cwnd = UINT32_MAX;
	lane_lock(b.lane);
	before = b.lane->stats->rx_datagrams;
	for (unsigned i = 0; i < TOGETHER; i++)
		node_read_together(&a, &b, 1, len);
	for (unsigned i = 0; i < b.lane->nsocks; i++)
		lane_rx_sock(b.lane, b.lane->socks[i], lane_now());
	taken = b.lane->stats->rx_datagrams - before;
	lane_unlock(b.lane);
	node_close_pair(&a, &b);
	return taken;
}

TEST(lane, requests_of_reads_in_the_socket__several_taken)
{
	assert_int_equal(reads_taken(64), 8);
	/* More than the requester can handle while the next answers are made. */
	assert_int_equal(reads_taken(256 << 10), LANE_RX_BATCH);
}

/* The lane's mode has an effect on speed only: whatever it is, a packet is never left lying. */
TEST(lane, polling_stops_and_starts__no_lost_wakeup)
{
	struct node a, b;
	unsigned polled = 0;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	for (unsigned i = 0; i < 50; i++) {
		node_make_hasty(&a);
		node_make_hasty(&b);
		node_ping_pong(&a, &b, 40 + i, 16);
		lane_lock(b.lane);
		/* Both threads share the machine with this one: whether they come to stop watching
		 * is chance. */
		if (b.lane->progress.mode == PROGRESS_POLLED)
			polled++;
		lane_unlock(b.lane);
		node_recv(&b, 0, 64);
		node_send(&a, 0, 64, true);
		if (i % 2)
			node_wait(&b);
		node_wait(&a);
		if (i % 2 == 0)
			node_wait(&b);
	}
	print_message("found in mode POLLED: %u of 50\n", polled);
	node_close_pair(&a, &b);
}

/* Without the hint, and without a poll, the guard must find out. */
TEST(lane, polled_then_silent__guard_watches_again)
{
	struct pollfd pfd = {.events = POLLIN};
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	pfd.fd = b.event_fd;
	for (unsigned i = 0; i < 20; i++) {
		node_make_hasty(&b);
		node_ping_pong(&a, &b, 100, 16);
		node_recv(&b, 0, 64);
		lane_lock(b.lane);
		rocemu_cq_arm(b.cq, lane_now(), false);
		lane_unlock(b.lane);
		node_send(&a, 0, 64, true);
		assert_int_equal(poll(&pfd, 1, NODE_PATIENCE_MS), 1);
		node_wait(&b);
		node_poll(&a);
	}
	node_close_pair(&a, &b);
}

static bool is_polled(struct node *n)
{
	return n->lane->progress.mode == PROGRESS_POLLED;
}

static void wait_until_polled(struct node *a, struct node *b)
{
	do {
		node_make_hasty(b);
		node_ping_pong(a, b, 20, 16);
	} while (!node_holds(is_polled, b));
}

static bool nothing_gathered(struct node *n)
{
	return !n->lane->gather.posts;
}

static bool gathers_late(struct node *n)
{
	return n->lane->gather.score == GATHER_DISTRUST;
}

static bool posts_wait(struct node *n)
{
	return is_polled(n) && !nothing_gathered(n);
}

/* A poll would make it superfluous. */
static bool posts_wait_for_a_timer(struct node *n)
{
	return posts_wait(n) && n->lane->thread.armed == gather_due(&n->lane->gather);
}

TEST(lane, polled_then_posts_wait__guard_sends_them_and_no_timer_is_set)
{
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;
	unsigned waited = 0, late = 0;
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	while (waited < 20) {
		assert_true(lane_now() < end);
		wait_until_polled(&b, &a);
		lane_lock(a.lane);
		a.lane->gather = (struct gather){.score = GATHER_MAX_SCORE};
		lane_unlock(a.lane);
		post_quickly(&a, &b);
		assert_false(node_holds(posts_wait_for_a_timer, &a));
		waited += node_holds(posts_wait, &a);
		node_until(nothing_gathered, &a);
		late += node_holds(gathers_late, &a);
		node_poll(&a);
	}
	assert_true(late > 0);
	node_close_pair(&a, &b);
}

static unsigned unsettled(struct node *n)
{
	unsigned polls;

	lane_lock(n->lane);
	polls = n->lane->unsettled;
	lane_unlock(n->lane);
	return polls;
}

/* A poll that receives leaves timers to the next one. If there is none, the guard expires. */
TEST(lane, receives_then_silence__guard_looks_at_timers)
{
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	for (unsigned i = 0; i < 20; i++) {
		wait_until_polled(&a, &b);
		node_recv(&b, 0, 64);
		node_send(&a, 0, 64, true);
		node_poll(&b);
		while (unsettled(&b))
			sched_yield();
		node_poll(&a);
	}
	node_close_pair(&a, &b);
}

/* As when the guard expires, where a caller is about to sleep and another one has just received
 * something. */
TEST(lane, receives_then_watched_again__timers_looked_at)
{
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	for (unsigned i = 0; i < 20; i++) {
		enum progress_mode mode;

		wait_until_polled(&a, &b);
		lane_lock(b.lane);
		b.lane->unsettled = 1;
		lane_thread_request(b.lane, LANE_REQ_WATCH);
		lane_unlock(b.lane);
		do {
			sched_yield();
			lane_lock(b.lane);
			mode = b.lane->progress.mode;
			lane_unlock(b.lane);
		} while (mode == PROGRESS_POLLED);
		assert_int_equal(unsettled(&b), 0);
	}
	node_close_pair(&a, &b);
}

#define LONG_CALL_NS (4 * PROGRESS_GUARD_NS)

/* The thread has seen that the guard expired. */
static bool guard_was_seen(struct node *n)
{
	return !is_polled(n) || n->lane->progress.guard > lane_now();
}

/* @return may b's callers poll alone after it, by the thread's judgement? */
static bool polls_on_after_long_call(struct node *a, struct node *b)
{
	uint64_t begin;
	bool polled;

	wait_until_polled(a, b);
	node_recv(b, 0, 64);
	lane_lock(b->lane);
	node_send(a, 0, 64, false);
	begin = lane_now();
	while (lane_now() - begin < LONG_CALL_NS)
		; /* as a call that sends much */
	lane_unlock(b->lane);
	node_until(guard_was_seen, b);
	polled = node_holds(is_polled, b);
	node_poll(b);
	return polled;
}

/*
 * The guard expires during a call, with a packet in the socket: its caller polls again
 * afterwards. On a busy machine the thread may look after the call: so most have to be right, and
 * a round of them is repeated.
 */
TEST(lane, guard_expires_during_a_call__polling_goes_on)
{
	enum { CALLS = 100 };
	const uint64_t end = lane_now() + (uint64_t)NODE_PATIENCE_MS * 1000000;
	struct node a, b;
	unsigned right;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	do {
		right = 0;
		for (unsigned i = 0; i < CALLS; i++)
			right += polls_on_after_long_call(&a, &b);
	} while (right < CALLS * 2 / 3 && lane_now() < end);
	print_message("right: %u of %u\n", right, (unsigned)CALLS);
	assert_in_range(right, CALLS * 2 / 3, CALLS);
	node_close_pair(&a, &b);
}

static uint64_t thread_cpu_ns(struct node *n)
{
	struct timespec ts;
	clockid_t clock;

	assert_int_equal(pthread_getcpuclockid(n->lane->thread.id, &clock), 0);
	assert_int_equal(clock_gettime(clock, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Nothing to wait for but time itself: the subject is that nothing happens in it. */
static void let_pass(long ms)
{
	const struct itimerspec its = {.it_value = {.tv_nsec = ms * 1000000}};
	struct pollfd pfd = {.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), .events = POLLIN};

	assert_int_equal(timerfd_settime(pfd.fd, 0, &its, NULL), 0);
	assert_int_equal(poll(&pfd, 1, NODE_PATIENCE_MS), 1);
	close(pfd.fd);
}

TEST(lane, idle_after_traffic__no_cpu)
{
	struct node a, b;
	uint64_t wakeups, cpu;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	node_ping_pong(&a, &b, 200, 16);
	let_pass(400); /* guard and timers run out */
	wakeups = node_stats(&a).thread_wakeups + node_stats(&b).thread_wakeups;
	cpu = thread_cpu_ns(&a) + thread_cpu_ns(&b);
	let_pass(300);
	assert_int_equal(node_stats(&a).thread_wakeups + node_stats(&b).thread_wakeups, wakeups);
	assert_in_range(thread_cpu_ns(&a) + thread_cpu_ns(&b) - cpu, 0, 100000);
	node_close_pair(&a, &b);
}
