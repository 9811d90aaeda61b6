/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recovery without going back: after a loss only what is missing is sent again, out of turn. That
 * suffices where the responder keeps packets that arrive early, and for READs, whose responses the
 * completer places as they come. A responder that goes back (it drops what arrives early, as the
 * standard has it) shows itself by the answers to what was sent again.
 */
#ifndef TRANSPORT_RECOVER_H
#define TRANSPORT_RECOVER_H

#include <rocemu/endpoint.h>

enum {
	GOT_PSNS = 1024,
	/*
	 * A responder reports a gap behind the first one by an ACK of a PSN this far before it:
	 * farther than any ACK can be late, and in the half of the PSNs that is not outstanding.
	 */
	RECOVER_HINT_BEHIND = 1 << 22,
	RECOVER_HINTS = 16,
};

/** Why a packet was sent again alone. */
enum again_reason { AGAIN_NONE, AGAIN_NAK, AGAIN_PROBE };

/**
 * Packets of READs are their responses (req-wqe.h). A unit is what is sent again at once: a packet,
 * or the range of one READ request. Only recover.c writes these; got: comp-read.c.
 */
struct req_again {
	uint32_t from, to;  /* what is missing in [from, to) is to be sent again */
	uint32_t requested; /* what is missing below it was sent again since ... */
	uint32_t mark;	    /* ... send_psn was this: a later answer shows that it was lost too */
	uint32_t twice;	   /* what is missing below it was sent once more since requested is this */
	uint32_t split_to; /* a response before it may end a part of a range requested again in
			      pieces */
	/* A unit that was sent again alone. */
	enum again_reason reason; /* why; AGAIN_NONE: none was, or it was answered */
	uint32_t head_end;	  /* its end */
	rocemu_ns_t head_at;	  /* when */
	bool once_more;		  /* it is to be sent twice */
	uint8_t steps;		  /* such units in a row that were acknowledged alone */
	/* A loss that the window was not cut for yet: it may be merely late. */
	bool suspected;
	bool suspect_nak;    /* a NAK named it */
	uint32_t lost_psn;   /* its oldest packet */
	rocemu_ns_t lost_at; /* when that was sent again; ROCEMU_NEVER: not yet */
	uint32_t lateness;   /* smoothed share of what was merely late, of LATENESS_ONE */
	uint32_t late_max;   /* so many responses may overtake one that is not lost */
	/* Many gaps in flight: all of it is sent again while nothing else may be sent. */
	uint32_t gap_psn;	/* the last packet that was lost */
	uint32_t spacing;	/* PSNs from one such to the next, smoothed; 0: none yet */
	uint32_t fill, fill_to; /* what is left of it */
	rocemu_ns_t fill_at;	/* when it began */
	/* Packets behind the first gap that the peer named, and that were not sent again yet. */
	uint32_t hints[RECOVER_HINTS];
	uint8_t nhints;
	uint32_t hinted; /* the newest one that it named */
	bool gets_hints; /* nothing needs to be filled in */
	bool filling;	 /* from and to are a part of that: messages only */
	uint64_t got[GOT_PSNS /
		     64]; /* bit of PSN % GOT_PSNS: responses that came before their turn */
};

struct qp_req;
struct rocemu_qp;
struct rocemu_tx;

static inline bool got_test(const struct req_again *a, uint32_t psn)
{
	return a->got[psn % GOT_PSNS / 64] >> (psn % 64) & 1;
}

static inline void got_set(struct req_again *a, uint32_t psn)
{
	a->got[psn % GOT_PSNS / 64] |= 1ull << (psn % 64);
}

static inline void got_clear(struct req_again *a, uint32_t psn)
{
	a->got[psn % GOT_PSNS / 64] &= ~(1ull << (psn % 64));
}

/** Something is to be sent out of turn. */
static inline bool recover_due(const struct req_again *a)
{
	return a->from != a->to || a->nhints;
}

/** Something may be sent again because nothing else may be. */
static inline bool recover_can_fill(const struct req_again *a)
{
	return a->fill != a->fill_to;
}

/** Nothing is sent again out of turn any more: start, rewinding, flush. */
void recover_reset(struct rocemu_qp *qp);
/** acked_psn moved, and comp.acked_to was updated. bare: by an ACK. */
void recover_acked(struct rocemu_qp *qp, rocemu_ns_t now, bool bare);
/**
 * What is missing below end was lost: sequence NAK of end - 1, or implied. Sends it again once.
 * nak: the packet before end is named by a NAK.
 * @return false: no retry was left (the caller fails the QP).
 */
bool recover_lost(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t end, bool nak);
/**
 * The response psn of a READ came before its turn: what is missing before it was lost, if it is not
 * merely late. @return false: as recover_lost().
 */
bool recover_gap(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn);
/** The peer misses psn, and some before it: send it again, once. */
void recover_hint(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn);
/** Send the oldest unacknowledged unit again, to learn what the peer has. */
void recover_probe(struct rocemu_qp *qp, rocemu_ns_t now);
/** There is progress after probes: was the peer busy? Then the probes show no loss. */
void recover_silence_end(struct rocemu_qp *qp, rocemu_ns_t now);
/** Send the packets that recover_can_fill() allows now. */
void recover_fill(struct rocemu_qp *qp);
/** The next packet out of turn. @return 1, or 0: none is missing any more. */
unsigned recover_output(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx);

#endif
