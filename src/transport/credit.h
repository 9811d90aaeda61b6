/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * End-to-end credits (IBTA 9.7.7.2): a responder that counts its receives puts into its ACKs how
 * many are left. A request that takes a receive is sent while its number is at most that of the
 * last one acknowledged (MSN) plus the credits; one more is sent so that its ACK shows new credits.
 * A responder that does not count (rocemu's, or any with an SRQ) sends "invalid": no limit.
 *
 * A request's number is its index in the send queue. Local requests have one too, which makes the
 * limit lower for as long as they are not complete.
 */
#ifndef TRANSPORT_CREDIT_H
#define TRANSPORT_CREDIT_H

#include <rocemu/endpoint.h>

/** Part of the requester. */
struct req_credit {
	bool limited;	/* the last ACK had credits */
	uint32_t limit; /* send queue index: requests before it find a receive */
};

struct rocemu_qp;
struct swqe;

/** Limited: does w, the entry at req.cur, have to wait? fresh: it is not begun. */
bool credit_holds(const struct rocemu_qp *qp, const struct swqe *w, bool fresh);
/**
 * Limited: is the first packet of w, the entry at req.cur, beyond the limit? Then it requests an
 * ACK, for which the rest of the message waits.
 */
bool credit_probes(const struct rocemu_qp *qp, const struct swqe *w);
/** The credit field of an ACK for so many receives: not more than there are. */
uint8_t credit_code(uint32_t receives);
/** The credit field of the syndrome of an ACK or a response that was taken in. */
void credit_take(struct rocemu_qp *qp, rocemu_ns_t now, uint8_t field);

#endif
