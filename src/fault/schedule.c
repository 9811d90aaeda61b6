/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/schedule.h"

#include "base/util.h"

#define BIT_NS 8000000000u /* bits of a byte times nanoseconds of a second */

bool fault_sched_enqueue(struct fault_sched *s, const struct fault_link *link, uint64_t now,
			 uint32_t bytes, uint64_t *leaves, bool *mark)
{
	const uint64_t wait_ns = s->link_free > now ? s->link_free - now : 0;
	const double waiting = (double)wait_ns * (double)link->rate_bps / BIT_NS;

	*mark = link->mark_bytes && waiting >= link->mark_bytes;
	if (waiting + bytes > link->queue_bytes)
		return false;
	*leaves = now + wait_ns;
	s->link_free = *leaves + bytes * (uint64_t)BIT_NS / link->rate_bps;
	return true;
}

uint64_t fault_sched_order(struct fault_sched *s, uint32_t flow, uint64_t due)
{
	uint64_t *last = &s->last[flow % FAULT_FLOWS];

	*last = MAX(*last, due);
	return *last;
}
