/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC responder: no responses. A peer's error affects only the message in which it occurs (IBTA
 * 9.8.2, 9.9.3 class D): the rest is dropped silently until a packet begins the next one, whatever
 * its PSN. A receive that such a message had taken stays at hand for the next message of this QP,
 * from an SRQ as well; a message longer than its receive is dropped that way too, for a remote peer
 * must not be able to use up receives with errors.
 *
 * A packet that the network doubled is executed once. For that the last SEEN PSNs are remembered: a
 * copy that takes another way is overtaken by a few packets, rarely by more. The price is paid by a
 * peer that starts again with PSNs so close behind: it loses up to SEEN packets, as if they were
 * lost on the wire. With any other PSNs it loses none, and a packet that is late, not double, is
 * executed as ever.
 *
 * Only a receive whose own memory is not accessible completes in error and takes the QP down: that
 * is this side's fault (class A).
 */
#include "transport/why.h"
#include "wire/opcode.h"

static enum rocemu_drop give_up(struct qp_resp *r, enum rocemu_drop why)
{
	r->message = 0;
	r->skip = true;
	return why;
}

enum { SEEN = 32 }; /* the bits of qp_resp.seen */

/** The place of a PSN in qp_resp.seen, or SEEN: none. */
static uint32_t seen_bit(const struct qp_resp *r, uint32_t psn)
{
	uint32_t behind = (r->epsn - 1 - psn) & ROCEMU_PSN_MASK;

	return MIN(behind, (uint32_t)SEEN);
}

static bool was_seen(const struct qp_resp *r, uint32_t psn)
{
	uint32_t bit = seen_bit(r, psn);

	return bit < SEEN && (r->seen >> bit & 1);
}

/** Expect the PSN after this one. What is remembered keeps its place, as far as it has one. */
static void move_on(struct qp_resp *r, uint32_t psn)
{
	int32_t by = rocemu_psn_diff(psn_add(psn, 1), r->epsn);

	if (by >= 0)
		r->seen = by < SEEN ? r->seen << by : 0;
	else
		r->seen = -by < SEEN ? r->seen >> -by : 0;
	r->epsn = psn_add(psn, 1);
}

enum rocemu_drop resp_uc_input(struct rocemu_qp *qp, rocemu_ns_t now,
			       const struct rocemu_packet *pkt)
{
	uint32_t ops = opcode_ops(pkt->h.opcode);
	struct qp_resp *r = &qp->resp;
	bool gap = pkt->h.psn != r->epsn;
	uint32_t bit = seen_bit(r, pkt->h.psn);
	enum resp_verdict v;

	if (was_seen(r, pkt->h.psn)) {
		QP_COUNT(qp, duplicates);
		return ROCEMU_DROP_PSN;
	}
	/* A late message of one packet, between others, moves nothing. */
	if (bit == SEEN || r->message || !(ops & ROCEMU_OP_FIRST) || !(ops & ROCEMU_OP_LAST)) {
		move_on(r, pkt->h.psn);
		bit = 0;
	}
	if (ops & ROCEMU_OP_FIRST) {
		r->message = 0; /* one that has not ended will not */
		r->skip = false;
	} else if (r->skip) {
		return ROCEMU_DROP_SEQUENCE;
	} else if (gap) {
		return give_up(r, ROCEMU_DROP_PSN);
	}

	v = resp_check_sequence(qp, ops);
	if (v == RESP_PASS)
		v = resp_check_length(qp, ops, pkt->payload_len);
	if (v == RESP_PASS)
		v = resp_exec(qp, now, pkt, ops);
	if (likely(v == RESP_PASS)) {
		r->seen |= 1u << bit;
		return ROCEMU_DROP_NONE;
	}
	if (v == RESP_LOCAL_PROT) {
		resp_fail_recv(qp, now, IBV_WC_LOC_PROT_ERR, why_receive(qp));
		qp_fail(qp, now);
	}
	return give_up(r, resp_drop(v));
}
