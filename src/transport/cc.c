/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/cc.h"

#include "base/util.h"

enum {
	PACKET_COST = 4096 + 512, /* as peer_cost() has it for the largest MTU */
	ALPHA_ONE = 1024,
	ALPHA_SHIFT = 4, /* a CNP, or an interval without, moves alpha by 1/16 */
	CALM_MAX = 256,
	/*
	 * The loss rate is measured over this many packets: enough to distinguish 20 % from 10 %.
	 */
	LOSS_PACKETS = 256,
	LOSS_LEAST = 16,
	/* Beyond a short path: 20 Gbit/s. */
	PATH_BYTES_PER_8NS = 20,
	IDLE_NS = 10000000,
	EXPLORE_SOON = 4, /* windows */
	EXPLORE_SELDOM = 64,
};
#define PATH_MAX_BYTES (256ull << 20)
/* After this the path may be another one. */
#define STALE_NS (10 * 1000000000ull)
/*
 * Without acknowledgements, a flight with a cut has ended after this time plus eight round trips.
 */
#define RECOVER_NS 1000000u

/* Time between two clock readings, which may be of two threads. */
static rocemu_ns_t since(rocemu_ns_t now, rocemu_ns_t then)
{
	return now > then ? now - then : 0;
}

static uint64_t start_window(const struct cc *cc)
{
	return MIN((uint64_t)CC_START_PACKETS * PACKET_COST, cc_max(cc));
}

void cc_init(struct cc *cc, uint64_t limit, bool nearby)
{
	*cc = (struct cc){
		.limit = limit,
		.base = CC_SHORT_BYTES,
		.base_short_messages = UINT64_MAX,
		.ssthresh = UINT64_MAX,
		.unit = PACKET_COST,
		/* On one host a batch of packets is late because a thread is, not a link. */
		.slack_ns = nearby ? 2000000 : 100000,
		.short_rtt_ns = nearby ? 300000 : 100000,
		.alpha = ALPHA_ONE,
		.explore_after = EXPLORE_SOON,
	};
	/*
	 * No link on the path: the receiver's buffer takes the packets, and a round trip may
	 * include a scheduling delay.
	 */
	cc->cwnd = nearby ? cc_max(cc) : start_window(cc);
}

void cc_set_buffer(struct cc *cc, uint64_t bytes)
{
	cc->base =
		MAX(MIN(bytes / CC_NEAR_PART, (uint64_t)CC_NEAR_BYTES), (uint64_t)CC_SHORT_BYTES);
	cc->base_short_messages = CC_SHORT_BYTES;
}

uint64_t cc_max(const struct cc *cc)
{
	uint64_t path = cc->base;

	if (cc->min_rtt > cc->short_rtt_ns)
		path += MIN(cc->min_rtt - cc->short_rtt_ns, (rocemu_ns_t)PATH_MAX_BYTES) *
			PATH_BYTES_PER_8NS / 8;
	path = MIN(path, PATH_MAX_BYTES);
	return cc->limit ? MIN(path, cc->limit) : path;
}

/** Do packets wait in a queue on the path? Without a measurement it is assumed. */
static bool is_late(const struct cc *cc)
{
	return cc->srtt >= cc->min_rtt + cc->min_rtt / 2 + (cc->srtt ? cc->slack_ns : 0);
}

static void set_window(struct cc *cc, uint64_t cwnd)
{
	uint64_t max = cc_max(cc);

	cc->cwnd = MAX(MIN(cwnd, max), MIN((uint64_t)cc->unit, max));
}

static void cut(struct cc *cc, rocemu_ns_t now, uint64_t cwnd)
{
	set_window(cc, cwnd);
	cc->ssthresh = cc->cwnd;
	cc->round = cc->peak = cc->sampled = 0;
	cc->calm = 0;
	cc->cut_at = now;
}

/**
 * A queue from before the first measurement does not count as delay, because min_rtt includes it.
 * Now and then half the window for a round trip shows the time without it; seldom, if the last time
 * did not.
 */
static void explore(struct cc *cc, rocemu_ns_t now)
{
	uint64_t before = MAX(cc->cwnd, MIN(cc->ssthresh, cc_max(cc)));

	if (cc->sampled < cc->explore_after * cc->cwnd)
		return;
	if (cc->min_rtt < cc->explored_rtt - cc->explored_rtt / 8)
		cc->explore_after = EXPLORE_SOON;
	else
		cc->explore_after = MIN(2 * cc->explore_after, (uint32_t)EXPLORE_SELDOM);
	cc->explored_rtt = cc->min_rtt;
	cut(cc, now, cc->cwnd / 2);
	cc->ssthresh = before;
}

/* ---- acknowledgements ---- */

/**
 * What a round trip without congestion adds: a packet, a quarter of one soon after a cut, since
 * many senders with windows of a few packets would else overrun what they share at once; and a
 * part of the window that grows with time, so that a long path fills within seconds.
 */
static uint64_t growth(const struct cc *cc)
{
	return (uint64_t)cc->unit * MIN(cc->calm, 4u) / 4 + cc->cwnd * cc->calm / 1024;
}

static void grow(struct cc *cc, uint64_t cost, uint64_t used)
{
	cc->peak = MAX(cc->peak, used);
	/* Beyond what any receiver can take, only a window that was used, on a path without queue.
	 */
	if (cc->cwnd >= CC_SHORT_BYTES) {
		if (is_late(cc)) {
			cc->ssthresh = MIN(cc->ssthresh, cc->cwnd);
			return;
		}
		if (cc->peak < cc->cwnd / 2)
			return;
	}
	if (cc->cwnd < cc->ssthresh) {
		set_window(cc, cc->cwnd + cost);
		return;
	}
	cc->round += cost;
	if (cc->round < cc->cwnd)
		return;
	cc->round = 0;
	cc->peak = used;
	cc->calm = MIN(cc->calm + 1, (uint32_t)CALM_MAX);
	set_window(cc, cc->cwnd + growth(cc));
}

static void fade_losses(struct cc *cc)
{
	if (likely(cc->seen < (uint64_t)LOSS_PACKETS * cc->unit))
		return;
	cc->seen /= 2;
	cc->lost /= 2;
}

void cc_on_ack(struct cc *cc, rocemu_ns_t now, uint64_t cost, uint64_t used)
{
	cc->heard_at = now;
	cc->seen += cost;
	cc->sampled += cost;
	fade_losses(cc);
	if (cc->recover)
		cc->recover -= MIN(cc->recover, cost);
	else
		grow(cc, cost, used);
	if (cc->cwnd > cc->base)
		explore(cc, now);
}

void cc_on_rtt(struct cc *cc, rocemu_ns_t rtt)
{
	rtt = MAX(rtt, (rocemu_ns_t)1);
	cc->min_rtt = cc->min_rtt ? MIN(cc->min_rtt, rtt) : rtt;
	cc->srtt = cc->srtt ? (7 * cc->srtt + rtt) / 8 : rtt;
	if (cc->cwnd > cc_max(cc))
		set_window(cc, cc->cwnd);
}

/* ---- congestion ---- */

/** A fifth of what was sent, or more, is lost. Where packets overtake each other a tenth seems so.
 */
static bool is_heavy(const struct cc *cc)
{
	return cc->lost >= LOSS_LEAST && (uint64_t)cc->lost * 4 * cc->unit >= cc->seen;
}

void cc_on_loss(struct cc *cc, rocemu_ns_t now)
{
	uint64_t flight = cc->cwnd;

	cc->lost++;
	if (cc->recover && since(now, cc->cut_at) < 8 * cc->srtt + RECOVER_NS)
		return;
	if (!is_late(cc) && !is_heavy(cc))
		return; /* by chance */
	/* Losses counted for this cut count less for the next one. */
	cc->lost /= 2;
	cc->seen /= 2;
	cut(cc, now, cc->cwnd * 7 / 10);
	cc->recover = flight;
}

void cc_on_cnp(struct cc *cc, rocemu_ns_t now)
{
	rocemu_ns_t interval = MAX((rocemu_ns_t)CC_INTERVAL_NS, cc->srtt);
	rocemu_ns_t quiet = since(now, cc->cnp_at) / interval;

	if (cc->cnp_at && !quiet)
		return;
	for (; cc->cnp_at && quiet > 1 && cc->alpha >> ALPHA_SHIFT; quiet--)
		cc->alpha -= cc->alpha >> ALPHA_SHIFT;
	cc->alpha += (ALPHA_ONE - cc->alpha) >> ALPHA_SHIFT;
	cc->cnp_at = MAX(now, (rocemu_ns_t)1);
	cut(cc, now, cc->cwnd - cc->cwnd * cc->alpha / (2 * ALPHA_ONE));
}

/* ---- idle ---- */

void cc_on_idle(struct cc *cc, rocemu_ns_t now)
{
	rocemu_ns_t idle = cc->heard_at ? since(now, cc->heard_at) : 0;

	if (idle < 8 * cc->srtt + IDLE_NS)
		return;
	cc->ssthresh = MAX(cc->ssthresh, cc->cwnd);
	if (idle >= STALE_NS) {
		cc->ssthresh = UINT64_MAX;
		cc->srtt = cc->min_rtt = 0;
		cc->seen = cc->lost = 0;
		cc->alpha = ALPHA_ONE;
	}
	cc->heard_at = now; /* once per idle time */
	cc->recover = cc->sampled = 0;
	set_window(cc, MAX(MIN(cc->cwnd, (uint64_t)CC_SHORT_BYTES), start_window(cc)));
}
