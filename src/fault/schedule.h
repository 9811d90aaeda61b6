/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Computes when packets leave: a link of a given rate with a queue in front of it, and the order
 * within a flow. Handles times only; the lane owns the packets.
 */
#ifndef FAULT_SCHEDULE_H
#define FAULT_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum { FAULT_FLOWS = 1024 };

/** All zero: nothing has been sent. Flows that share a place keep the order of each other, too. */
struct fault_sched {
	uint64_t link_free;	    /* when all that was sent so far has left */
	uint64_t last[FAULT_FLOWS]; /* when the last packet of a flow leaves */
};

/** A link: bits per second, its queue in bytes, and from how many waiting bytes on it marks (0:
 * never). */
struct fault_link {
	uint64_t rate_bps;
	uint32_t queue_bytes, mark_bytes;
};

/**
 * A packet of this many bytes comes to the link. @return false: the queue is full. *leaves: when it
 * leaves; now if the link is idle.
 */
bool fault_sched_enqueue(struct fault_sched *s, const struct fault_link *link, uint64_t now,
			 uint32_t bytes, uint64_t *leaves, bool *mark);

/** A packet of a flow could leave at due. @return when it may: not before the ones that came
 * earlier. */
uint64_t fault_sched_order(struct fault_sched *s, uint32_t flow, uint64_t due);

#endif
