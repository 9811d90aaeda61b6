/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drives a lane: when it acts, on the caller's thread or the lane's. The decisions are in
 * progress.c.
 *
 * The time after a receive in which acknowledgements may wait (delayed_ack) ends with the first of
 * these: a post (the answer they wait for, one system call for both), more packets,
 * DELAYED_ACK_POLL_NS of polls that find nothing, or a timer: the guard while callers poll, else
 * ack_due.
 */
#include <sched.h>

#include "base/trace.h"
#include "base/util.h"
#include "engine/lane-shm.h"

#define BUSY_NS 30000u /* longer than the lock is held to send a batch */
#define BATCHES_BETWEEN_RX \
	8 /* a long send also receives, so that the receive buffer does not overflow */
#define TURN_NS	       2000u	  /* between polls of a program that polls several CQs in a loop */
#define COOL_NS	       100000000u /* a polled socket without traffic for this long is watched again */
#define COLD_SPINS     256u /* fruitless polls after which sockets that are not hot are polled */
#define APP_ACTIVE_NS  1000000u /* a poll or post this recent: an answer may come */
#define TIMER_EXACT_NS 500000u	/* a timer due sooner is never delayed */

/*
 * Was then less than span ago? Another thread's clock reading may be slightly ahead of this
 * thread's.
 */
static bool within(rocemu_ns_t now, uint64_t then, uint64_t span)
{
	return then && (now < then || now - then < span);
}

/*
 * Two fruitless polls: a thread that polls once and sleeps is not spinning, and a thread that found
 * what it waited for may spin on memory next, where polling does not help.
 */
bool lane_is_spun(struct lane *l, rocemu_ns_t now)
{
	return l->spins >= 2 &&
	       within(now, atomic_load_explicit(&l->last_poll, memory_order_relaxed),
		      PROGRESS_PAUSE_NS);
}

static void note_active(struct lane *l, rocemu_ns_t now)
{
	atomic_store_explicit(&l->last_active, now, memory_order_relaxed);
}

/* ---- the pieces; all REQUIRES(l) ---- */

static void release_acks(struct lane *l) REQUIRES(l);
static void release_acks(struct lane *l)
{
	l->delayed_ack.held = false;
	l->ack_due = ROCEMU_NEVER;
}

/* What there is to send: there is something. */
static void send_output(struct lane *l, rocemu_ns_t now) REQUIRES(l);
static void send_output(struct lane *l, rocemu_ns_t now)
{
	unsigned batches = 0;

	release_acks(l);
	gather_sent(&l->gather);
	while (lane_output(l, now))
		if (++batches % BATCHES_BETWEEN_RX == 0) {
			now = lane_now();
			lane_rx_hot(l, now);
		}
	lane_output_end(l);
}

static void send_all(struct lane *l, rocemu_ns_t now) REQUIRES(l);
static void send_all(struct lane *l, rocemu_ns_t now)
{
	if (rocemu_ep_has_output(l->ep) || rocemu_ep_wants_send_credits(l->ep) || l->tx.nbacklog) {
		send_output(l, now);
		return;
	}
	release_acks(l);
	gather_sent(&l->gather);
}

/* What the endpoint's timers do, in the timeline where there is one. */
static void expire(struct lane *l, rocemu_ns_t now) REQUIRES(l);
static void expire(struct lane *l, rocemu_ns_t now)
{
	static const struct trace_kind kind = {
		"timer", TRACE_INSTANT, "", {"timeouts", "probes", "packets_again"}};
	const struct rocemu_ep_stats *s = rocemu_ep_get_stats(l->ep);
	const uint64_t timeouts = s->timeouts, probes = s->probes, again = s->retransmits;

	rocemu_ep_expire(l->ep, now);
	if (trace_on() && s->timeouts + s->probes != timeouts + probes) {
		const uint64_t arg[] = {s->timeouts - timeouts, s->probes - probes,
					s->retransmits - again};

		trace_add(&kind, s->timeouts == timeouts ? "probe" : "timeout", now,
			  TRACE_TRACK_TIMERS, 0, arg);
	}
}

static void run_timers(struct lane *l, rocemu_ns_t now) REQUIRES(l);
static void run_timers(struct lane *l, rocemu_ns_t now)
{
	if (now < l->next_due)
		return;
	if (now >= gather_due(&l->gather))
		gather_late(&l->gather);
	if (now >= rocemu_ep_deadline(l->ep)) {
		/*
		 * The answer may be in a socket that the lane's thread watches, while busier
		 * threads keep it from running: that is not a timeout.
		 */
		lane_rx_all(l, now);
		expire(l, now);
	}
	lane_impair_expire(l, now);
	if (now >= l->tap_due) {
		l->tap_due = ROCEMU_NEVER;
		tap_flush(l->tap);
	}
}

/*
 * How much later than due the endpoint's timer may run out, if the timerfd is set for then: each
 * message moves it, and with the measured round trip it is sometimes slightly earlier.
 */
static rocemu_ns_t timer_slack(rocemu_ns_t now, rocemu_ns_t due)
{
	return due != ROCEMU_NEVER && due > now + TIMER_EXACT_NS ? (due - now) / 4 : 0;
}

static void deliver(struct lane *l, rocemu_ns_t now) REQUIRES(l);
static void deliver(struct lane *l, rocemu_ns_t now)
{
	(void)now;
	if (l->on_events)
		l->on_events(l->user, l->ep);
}

void lane_deliver(struct lane *l)
{
	deliver(l, 0);
	if (unlikely(lane_is_joined(l)))
		lane_each_joined(l, deliver, 0);
}

HOT void lane_settle(struct lane *l, rocemu_ns_t now)
{
	rocemu_ns_t due = l->ack_due, gathered = gather_due(&l->gather), timers;

	l->unsettled = 0;
	if (l->on_events)
		l->on_events(l->user, l->ep);
	timers = rocemu_ep_deadline(l->ep); /* on_events may have armed a CQ */
	if (unlikely(rocemu_ep_wants_send_credits(l->ep)))
		due = MIN(due, lane_now() + RCVBUF_RETRY_NS);
	due = MIN(due, l->tap_due);
	if (unlikely(l->held != NULL))
		due = MIN(due, lane_impair_deadline(l));
	if (unlikely(l->tx.nbacklog))
		due = MIN(due, l->tx.retry_at);
	l->next_due = MIN(due, MIN(timers, gathered));
	/* Pollers send what was gathered, and run the endpoint's timers: a probe's is due each
	 * millisecond or so. When they stop, the guard expires. */
	if (l->progress.mode != PROGRESS_POLLED)
		due = MIN(due, MIN(timers + timer_slack(now, timers), gathered));
	if (due < l->thread.armed)
		lane_thread_arm(l, l->progress.mode == PROGRESS_POLLED ? due : l->next_due);
}

static void settle(struct lane *l, rocemu_ns_t now) REQUIRES(l);
static void settle(struct lane *l, rocemu_ns_t now)
{
	lane_settle(l, now);
	if (unlikely(lane_is_joined(l)))
		lane_each_joined(l, lane_settle, now);
}

/*
 * After a caller's receive: the caller gets what came first. If callers poll, the timers wait for
 * the next poll that finds nothing. If none follows, the guard expires.
 */
static void settle_later(struct lane *l, rocemu_ns_t now) REQUIRES(l);
static void settle_later(struct lane *l, rocemu_ns_t now)
{
	enum { RECEIVES_MAX = 8 };

	if (l->progress.mode != PROGRESS_POLLED || rocemu_ep_has_event(l->ep) ||
	    ++l->unsettled == RECEIVES_MAX || lane_is_joined(l))
		settle(l, now);
}

/* After a receive: may what there is to send wait for an answer? */
static bool hold_acks(struct lane *l, rocemu_ns_t now, rocemu_ns_t until) REQUIRES(l);
static bool hold_acks(struct lane *l, rocemu_ns_t now, rocemu_ns_t until)
{
	if (rocemu_ep_output_kind(l->ep) != ROCEMU_OUTPUT_ACKS)
		return false;
	/* The received packets are no sign of the answer that they wait for. */
	if (!l->rx.requests && l->delayed_ack.held)
		return true;
	/* The sender of the rest may wait for it, and half a message gets no answer. */
	if (l->rx.mid_message)
		return false;
	/* Checking and copying took time: the answer can begin only now. */
	if (l->rx.octets >= DELAYED_ACK_LARGE)
		now = lane_quick_now(l);
	if (!delayed_ack_offer(&l->delayed_ack, now))
		return false;
	l->stats->acks_held++;
	l->ack_due = until;
	return true;
}

HOT void lane_drive(struct lane *l, rocemu_ns_t now)
{
	run_timers(l, now);
	/*
	 * Acknowledgements are held until their own time, even if a timer for something else
	 * expires.
	 */
	if (l->delayed_ack.held && now >= l->ack_due)
		delayed_ack_late(&l->delayed_ack);
	if (!l->delayed_ack.held || now >= l->ack_due ||
	    rocemu_ep_output_kind(l->ep) == ROCEMU_OUTPUT_NOW)
		send_all(l, now);
	settle(l, now);
}

void lane_drive_all(struct lane *l, rocemu_ns_t now)
{
	run_timers(l, now);
	send_all(l, now);
	settle(l, now);
}

void lane_drive_received(struct lane *l, rocemu_ns_t now)
{
	const bool app = within(now, atomic_load_explicit(&l->last_active, memory_order_relaxed),
				APP_ACTIVE_NS);

	run_timers(l, now);
	if (!app || !hold_acks(l, now, delayed_ack_due(&l->delayed_ack, now)))
		send_all(l, now);
	settle(l, now);
}

/* ---- the callers' side ---- */

static void kick(struct lane *l, rocemu_ns_t now) REQUIRES(l);
static void kick(struct lane *l, rocemu_ns_t now)
{
	enum rocemu_output kind;

	if (unlikely(l->dead))
		return;
	note_active(l, now);
	if (!l->attached) {
		if (l->on_events)
			l->on_events(l->user, l->ep);
		return;
	}
	kind = rocemu_ep_output_kind(l->ep);
	if (kind == ROCEMU_OUTPUT_NOW)
		delayed_ack_answered(&l->delayed_ack, now);
	if (kind == ROCEMU_OUTPUT_NOW || (kind == ROCEMU_OUTPUT_ACKS && !l->delayed_ack.held))
		send_output(l, now);
	settle(l, now);
}

void lane_kick(struct lane *l)
{
	kick(l, lane_now());
}

rocemu_ns_t lane_post_time(struct lane *l)
{
	return gather_needs_clock(&l->gather) || trace_on() ? lane_quick_now(l) : l->gather.last;
}

HOT void lane_posted(struct lane *l, rocemu_ns_t now, struct lane_post post)
{
	/* Requests that are not gathered leave now, or when there is room in the window. */
	if (unlikely(!l->attached || l->dead || lane_is_joined(l)) ||
	    (post.bytes > GATHER_SMALL && !l->gather.posts)) {
		kick(l, now);
		return;
	}
	note_active(l, now);
	if (gather_offer(&l->gather, now, post)) {
		if (l->gather.posts == 1)
			lane_settle(l, now);
		else if (l->on_events)
			l->on_events(l->user, l->ep);
		return;
	}
	/* The endpoint measures round trips from the time at which it is sent. */
	if (l->gather.posts)
		now = lane_quick_now(l);
	delayed_ack_answered(&l->delayed_ack, now);
	send_output(l, now);
	settle(l, now);
	if (post.bytes <= GATHER_SMALL)
		l->gather.last = lane_quick_now(l); /* requests that never wait need no clock */
}

void lane_flush(struct lane *l)
{
	const rocemu_ns_t now = lane_now();

	if (l->dead || !l->attached)
		return;
	lane_rx_all(l, now);
	lane_drive_all(l, now);
}

/*
 * Another thread holds the lock, for longer than it takes to send a batch: possibly the lane's
 * thread, preempted by this spinning thread. Then there is no progress until it runs.
 */
static void give_way(struct lane *l, rocemu_ns_t now)
{
	const uint64_t since = atomic_load_explicit(&l->busy_since, memory_order_relaxed);

	if (since && within(now, since, BUSY_NS))
		return;
	atomic_store_explicit(&l->busy_since, now, memory_order_relaxed);
	if (since)
		sched_yield();
}

/* A power of two; brief polls, which only rings have, do not count. */
static unsigned cold_spins(const struct lane *l)
{
	return unlikely(l->shm != NULL) && l->shm->nrx ? 8 * COLD_SPINS : COLD_SPINS;
}

static void note_poll(struct lane *l, rocemu_ns_t now)
{
	atomic_store_explicit(&l->last_poll, now, memory_order_relaxed);
	note_active(l, now);
}

/*
 * With rings alone, most polls find nothing, and reading the clock takes half of their time. So of
 * polls that follow each other quickly only some read it and look at timers.
 * @return this poll is over.
 */
static bool poll_is_brief(struct lane *l) REQUIRES(l);
static bool poll_is_brief(struct lane *l)
{
	if (!l->brief_polls || !lane_shm_is_quiet(l))
		return false;
	l->brief_polls--;
	l->spins = MAX(l->spins, 2u); /* lane_is_spun(): there was one before */
	return true;
}

static void plan_brief_polls(struct lane *l, rocemu_ns_t now, rocemu_ns_t last) REQUIRES(l);
static void plan_brief_polls(struct lane *l, rocemu_ns_t now, rocemu_ns_t last)
{
	enum { BRIEF_POLLS = 7, BRIEF_NS = 1000 };

	l->brief_polls = l->shm && l->shm->nrx && within(now, last, BRIEF_NS) ? BRIEF_POLLS : 0;
}

/*
 * A program that arms a CQ polls it once more before it sleeps. The lane's thread watches the
 * sockets for it: no call to the kernel is needed for that poll.
 */
static bool armed_just_now(struct lane *l) REQUIRES(l);
static bool armed_just_now(struct lane *l)
{
	const bool just_now = l->armed_now;

	l->armed_now = false;
	return just_now;
}

/*
 * A program that polls several CQs in a loop would make a receive call for each. The one for the
 * first of them has just found nothing for all.
 */
static bool is_served(struct lane *l, rocemu_ns_t now, uint32_t *turn) REQUIRES(l);
static bool is_served(struct lane *l, rocemu_ns_t now, uint32_t *turn)
{
	const bool served = *turn != l->turn && within(now, l->vain_at, TURN_NS);

	if (!served)
		l->turn++;
	*turn = l->turn;
	return served;
}

/* Sockets whose traffic has ended need not be polled: the thread watches them. */
static void cool_down(struct lane *l, rocemu_ns_t now) REQUIRES(l);
static void cool_down(struct lane *l, rocemu_ns_t now)
{
	for (unsigned i = 0; i < l->nsocks; i++) {
		struct lane_sock *s = l->socks[i];

		if (!s->hot || within(now, s->last_rx, COOL_NS))
			continue;
		s->hot = false;
		lane_thread_request(l, LANE_REQ_SOCKS);
	}
}

/* A caller polls: who receives from now on? */
static void note_driver(struct lane *l, rocemu_ns_t now, rocemu_ns_t last) REQUIRES(l);
static void note_driver(struct lane *l, rocemu_ns_t now, rocemu_ns_t last)
{
	const bool paused = !within(now, last, PROGRESS_PAUSE_NS) && !lane_poller_is_displaced(l);

	switch (progress_polled(&l->progress, now, paused)) {
	case PROGRESS_STOP_WATCHING:
		poller_note(&l->thread.poller, now);
		lane_thread_request(l, LANE_REQ_STOP_WATCHING);
		break;
	case PROGRESS_MOVE_GUARD:
		poller_note(&l->thread.poller, now);
		lane_thread_guard(l);
		cool_down(l, now);
		break;
	case PROGRESS_GO_ON:
		break;
	}
}

bool lane_poll(struct lane *l)
{
	return lane_poll_in_turn(l, NULL);
}

HOT bool lane_poll_in_turn(struct lane *l, uint32_t *turn)
{
	struct poller_place me;
	rocemu_ns_t now, last;

	if (!lane_trylock(l)) {
		now = lane_now();
		note_poll(l, now);
		give_way(l, now);
		return false;
	}
	/* A forked child's copy has no rings to look at. */
	if (unlikely(l->dead || !l->attached) || poll_is_brief(l)) {
		lane_unlock(l);
		return true;
	}
	now = lane_quick_now(l);
	if (turn && is_served(l, now, turn)) {
		lane_unlock(l);
		return true;
	}
	last = atomic_load_explicit(&l->last_poll, memory_order_relaxed);
	note_poll(l, now);
	atomic_store_explicit(&l->busy_since, 0, memory_order_relaxed);
	if (unlikely(!progress_is_calm(&l->progress, now)))
		note_driver(l, now, last);
	l->vain_at = 0;
	if (!armed_just_now(l) && lane_rx_hot(l, now)) {
		const rocemu_ns_t until = l->progress.mode == PROGRESS_POLLED
						  ? ROCEMU_NEVER
						  : delayed_ack_due(&l->delayed_ack, now);

		l->spins = 0;
		run_timers(l, now);
		if (!hold_acks(l, now, until))
			send_all(l, now);
		settle_later(l, now);
		lane_unlock(l);
		return true;
	}
	l->vain_at = now;
	if (l->unsettled)
		settle(l, now);
	plan_brief_polls(l, now, last);
	if (!l->spins++)
		l->spun_since = now;
	if (unlikely((l->spins & (cold_spins(l) - 1)) == 0)) {
		/* The thread watches the other sockets; it may be waiting for this core. */
		lane_rx_all(l, now);
		lane_drive(l, now);
	} else if (unlikely(now >= l->next_due)) {
		lane_drive(l, now);
	} else if (l->delayed_ack.held
			   ? !within(now, MAX(l->delayed_ack.since, l->spun_since),
				     DELAYED_ACK_POLL_NS)
			   : rocemu_ep_has_output(l->ep) || rocemu_ep_wants_send_credits(l->ep)) {
		send_all(l, now);
		settle(l, now);
	}
	lane_unlock(l);
	me = poller_here();
	atomic_store_explicit(&l->poller, me, memory_order_relaxed);
	poller_vain(me, now);
	return true;
}

void lane_look_hint(struct lane *l)
{
	if (!l->dead && l->attached)
		settle(l, lane_now());
}

static void expect_sleep(struct lane *l) REQUIRES(l);
static void expect_sleep(struct lane *l)
{
	l->spins = 0;
	progress_polls_end(&l->progress);
	if (l->progress.mode == PROGRESS_POLLED)
		lane_thread_request(l, LANE_REQ_WATCH);
}

void lane_arm_hint(struct lane *l)
{
	const rocemu_ns_t now = lane_now();

	if (l->dead || !l->attached)
		return;
	if (l->delayed_ack.held && l->ack_due == ROCEMU_NEVER)
		l->ack_due = delayed_ack_due(&l->delayed_ack, now); /* no guard any more */
	lane_drive(l, now);
	expect_sleep(l);
	l->armed_now = l->progress.mode == PROGRESS_ARMED;
}

void lane_wait_hint(struct lane *l)
{
	if (l->dead || !l->attached)
		return;
	lane_drive_all(l, lane_now());
	expect_sleep(l);
}

bool lane_look(struct lane *l)
{
	return !atomic_exchange_explicit(&l->looked, true, memory_order_relaxed);
}

void lane_look_end(struct lane *l)
{
	atomic_store_explicit(&l->looked, false, memory_order_relaxed);
}
