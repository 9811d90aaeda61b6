/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC responder: no responses. What a peer does wrong costs the message it happens in and nothing
 * else (IBTA 9.8.2, 9.9.3 class D): the rest is dropped silently until a packet begins the next
 * one, whatever its PSN. A receive that such a message had taken stays at hand for the next message
 * of this QP, from an SRQ as well; a message longer than its receive is dropped that way too, for a
 * remote peer must not be able to use up receives with errors.
 *
 * Only a receive whose own memory is not accessible completes in error and takes the QP down: that
 * is this side's fault (class A).
 */
#include "transport/resp-int.h"

static enum rocemu_drop give_up(struct qp_resp *r, enum rocemu_drop why)
{
	r->message = 0;
	r->skip = true;
	return why;
}

enum rocemu_drop resp_uc_input(struct rocemu_qp *qp, rocemu_ns_t now,
			       const struct rocemu_packet *pkt)
{
	uint32_t ops = rocemu_opcode_ops(pkt->h.opcode);
	struct qp_resp *r = &qp->resp;
	bool gap = pkt->h.psn != r->epsn;
	enum resp_verdict v;

	r->epsn = psn_add(pkt->h.psn, 1);
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
	if (likely(v == RESP_PASS))
		return ROCEMU_DROP_NONE;
	if (v == RESP_LOCAL_PROT) {
		resp_fail_recv(qp, now, IBV_WC_LOC_PROT_ERR, 0);
		qp_fail(qp, now);
	}
	return give_up(r, resp_drop(v));
}
