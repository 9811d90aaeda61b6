/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queues packets that fault injection holds back, for lane-impair.c, lane-held.c and lane-note.c
 * only. A packet leaves when its time has come. A reordered one leaves when a few others of its QP
 * have left; or a while after its time, if nothing follows.
 */
#ifndef ENGINE_LANE_HELD_H
#define ENGINE_LANE_HELD_H

#include "engine/lane-internal.h"
#include "fault/report.h"
#include "fault/schedule.h"

enum { HELD_MAX = 8192 }; /* packets held back at most; beyond, the "link" loses them */

struct held {
	struct list node;
	struct list reordered; /* in lane_impair.reordered until it was overtaken; else empty */
	enum fault_dir dir;    /* TX: it leaves by path; RX: it goes to the endpoint as d */
	rocemu_ns_t due;
	bool alone;	      /* not in the order of its QP: no other one is overtaken by it */
	rocemu_ns_t earliest; /* of a reordered one: when it may leave if it was overtaken */
	unsigned overtakers;
	uint32_t flow;
	struct rocemu_path path;
	struct rocemu_dgram d;
	size_t len;
	uint8_t data[];
};

struct lane_impair {
	struct list queue[2]; /* of struct held, by direction; in the order of due */
	unsigned count;
	struct list reordered; /* of struct held.reordered */
	struct fault_sched sched;
	struct faults *faults;			/* owned; NULL: no rules */
	struct fault_total *total[FAULT_RULES]; /* static memory */
	rocemu_ns_t log_due;			/* ROCEMU_NEVER: nothing to be written */
};

/** All but the packet's bytes is set: room for len of them. NULL: no memory, or too many; counted
 * as lost. */
struct held *held_new(struct lane *l, enum fault_dir dir, size_t len) REQUIRES(l);
/** Keep it until h->due; out it goes at once if that has come. */
void held_add(struct lane *l, rocemu_ns_t now, struct held *h) REQUIRES(l);
/** To be overtaken by n others of its QP before it leaves. */
void held_add_reordered(struct lane *l, struct held *h, unsigned n) REQUIRES(l);
/** A packet of the flow has left that was not held back. */
void held_overtaken(struct lane *l, rocemu_ns_t now, uint32_t flow) REQUIRES(l);
/** Release those that are due: send them, or pass them to the endpoint. */
void held_expire(struct lane *l, rocemu_ns_t now, enum fault_dir dir) REQUIRES(l);

/* ---- lane-note.c ---- */

/** One effect of chance, the queue or the endpoint on a packet. ns: how late it is by that, or
 * 0. */
void note_count(struct lane *l, rocemu_ns_t now, const struct fault_packet *p,
		enum fault_count what, const char *name, uint64_t ns) REQUIRES(l);
void note_rules(struct lane *l, rocemu_ns_t now, const struct fault_packet *p,
		const struct fault_verdict *v) REQUIRES(l);
void note_action(struct lane *l, rocemu_ns_t now, const struct fault_packet *p,
		 const struct impair_action *f) REQUIRES(l);
/** A packet that came in, as rules see it. */
struct fault_packet note_packet(const struct rocemu_dgram *d);

#endif
