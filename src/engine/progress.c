/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/progress.h"

#include "base/util.h"

void progress_init(struct progress *p)
{
	*p = (struct progress){
		.mode = PROGRESS_ARMED,
		.need = PROGRESS_NEED_NS,
		.patience = PROGRESS_GUARD_NS,
	};
}

/* The effect of an old misprediction decays: by half every second. */
static void decay(struct progress *p, rocemu_ns_t now)
{
	while (p->need > PROGRESS_NEED_NS && now - p->stalled >= PROGRESS_STALL_DECAY_NS) {
		p->need = MAX(p->need / 2, (rocemu_ns_t)PROGRESS_NEED_NS);
		p->stalled += PROGRESS_STALL_DECAY_NS;
	}
}

static void set_guard(struct progress *p, rocemu_ns_t now)
{
	p->guard = now + p->patience;
	p->move_at = now + p->patience / 2;
}

enum progress_next progress_polled(struct progress *p, rocemu_ns_t now, bool paused)
{
	if (progress_is_calm(p, now))
		return PROGRESS_GO_ON;
	if (p->mode == PROGRESS_POLLED) {
		set_guard(p, now);
		p->busy = 0;
		return PROGRESS_MOVE_GUARD;
	}
	if (paused || !p->since) {
		p->since = now;
		decay(p, now);
	}
	/* Another thread may have read the clock earlier, and polled later. */
	if (now < p->since + p->need)
		return PROGRESS_GO_ON;
	p->since = now;
	return PROGRESS_STOP_WATCHING;
}

void progress_polls_end(struct progress *p)
{
	p->since = 0;
}

bool progress_stop_watching(struct progress *p, rocemu_ns_t now)
{
	if (!p->since)
		return false;
	p->mode = PROGRESS_POLLED;
	p->busy = 0;
	set_guard(p, now);
	return true;
}

void progress_rearm(struct progress *p, rocemu_ns_t now, bool stalled)
{
	p->mode = PROGRESS_ARMED;
	p->since = p->move_at = 0;
	p->patience = PROGRESS_GUARD_NS;
	decay(p, now);
	if (stalled) {
		p->need = MIN(p->need * 2, (rocemu_ns_t)PROGRESS_NEED_MAX_NS);
		p->stalled = now;
	}
}

bool progress_guard(struct progress *p, rocemu_ns_t now, enum progress_poller poller)
{
	if (poller == PROGRESS_AWAY || (poller == PROGRESS_POSTS && ++p->busy > PROGRESS_BUSY))
		return false;
	if (poller == PROGRESS_WAITS)
		p->patience = MIN(2 * p->patience, (rocemu_ns_t)PROGRESS_GUARD_MAX_NS);
	set_guard(p, now);
	return true;
}

void delayed_ack_init(struct delayed_ack *a)
{
	*a = (struct delayed_ack){.score = DELAYED_ACK_THRESHOLD};
}

bool delayed_ack_offer(struct delayed_ack *a, rocemu_ns_t now)
{
	bool again = a->open;

	if (again && a->score)
		a->score--;
	a->open = true;
	a->since = now;
	/* Acknowledgements held before have waited for one packet more than they should. */
	a->held = !(again && a->held) && a->score >= DELAYED_ACK_THRESHOLD;
	return a->held;
}

/* @return this post has the completion of many. */
static bool gather_completes_many(struct gather *g, bool signaled)
{
	const bool many = g->quiet == GATHER_MODERATED;

	if (signaled)
		g->quiet = 0;
	else if (!many)
		g->quiet++;
	return signaled && many;
}

bool gather_offer(struct gather *g, rocemu_ns_t now, struct lane_post post)
{
	const bool quick = now < g->last + GATHER_QUICK_NS;
	const bool completes_many = gather_completes_many(g, post.signaled);

	g->last = now;
	if (quick)
		g->score = (int8_t)MIN(g->score + 1, GATHER_MAX_SCORE);
	else if (g->score > 0)
		g->score--;
	if (post.bytes > GATHER_SMALL)
		return false;
	if (!g->posts) {
		if (!(quick || post.in_flight) || g->score < GATHER_THRESHOLD)
			return false;
		g->since = now;
	}
	g->bytes += (uint32_t)post.bytes;
	return ++g->posts < GATHER_MAX && g->bytes < GATHER_BYTES && now - g->since < GATHER_NS &&
	       !completes_many;
}

void gather_request_seen(struct gather *g)
{
	g->last = 0;
}

void gather_sent(struct gather *g)
{
	if (g->posts)
		g->in_time = true;
	g->posts = 0;
	g->bytes = 0;
}

rocemu_ns_t gather_due(const struct gather *g)
{
	return g->posts ? g->since + ((rocemu_ns_t)GATHER_TIMER_NS << g->calm) : ROCEMU_NEVER;
}

void gather_late(struct gather *g)
{
	gather_sent(g);
	g->score = GATHER_DISTRUST;
	g->calm = 0;
	g->in_time = false;
}

void gather_timer(struct gather *g)
{
	if (g->in_time)
		g->calm = (uint8_t)MIN(g->calm + 1, GATHER_TIMER_SHIFT);
	g->in_time = false;
}

void delayed_ack_answered(struct delayed_ack *a, rocemu_ns_t now)
{
	/* The caller may have read the clock before it waited for the lock. */
	if (a->open && (now < a->since || now - a->since <= DELAYED_ACK_ANSWER_NS)) {
		a->score = (uint8_t)MIN(a->score + 1, DELAYED_ACK_MAX_SCORE);
		a->in_time |= a->held;
	} else if (a->open && a->score) {
		a->score--;
	}
	a->open = false;
	a->held = false;
}

rocemu_ns_t delayed_ack_due(const struct delayed_ack *a, rocemu_ns_t now)
{
	return now + ((rocemu_ns_t)DELAYED_ACK_THREAD_NS << a->calm);
}

void delayed_ack_late(struct delayed_ack *a)
{
	a->calm = 0;
	a->in_time = false;
}

void delayed_ack_timer(struct delayed_ack *a)
{
	if (a->in_time)
		a->calm = (uint8_t)MIN(a->calm + 1, DELAYED_ACK_TIMER_SHIFT);
	a->in_time = false;
}
