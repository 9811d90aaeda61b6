/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes that came in a round trip of the empty path were on it. Those beyond, which wait in a
 * queue, are of the budget: that bounds them, whatever the paths are.
 *
 * Each interval begins with what the last one showed, so that a budget which is used up grows by
 * itself in each, until the budget no longer limits the rate.
 */
#include "transport/read-path.h"

#include "base/util.h"

enum {
	INTERVAL_MIN_NS = 200000,
	INTERVAL_RTTS = 2, /* requests and so responses come in bursts of a round trip */
};

static void interval_begin(struct read_path *p, rocemu_ns_t now)
{
	p->since = now;
	p->rtt = 0;
	p->came = 0;
	p->congested = false;
}

void read_path_came(struct read_path *p, rocemu_ns_t now, uint32_t bytes, rocemu_ns_t rtt)
{
	uint64_t held;

	p->came += bytes * rtt;
	p->rtt = MAX(p->rtt, rtt);
	if (now < p->since + MAX(INTERVAL_RTTS * p->rtt, (rocemu_ns_t)INTERVAL_MIN_NS))
		return;
	held = p->came / (now - p->since);
	held = MAX(held, p->bytes - p->bytes / 8); /* a loss makes pauses */
	p->bytes = MIN(p->congested ? p->bytes / 2 : held, (uint64_t)READ_PATH_MAX);
	interval_begin(p, now);
}

void read_path_idle(struct read_path *p, rocemu_ns_t now)
{
	p->bytes = 0;
	interval_begin(p, now);
}
