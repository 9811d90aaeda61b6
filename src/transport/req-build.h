/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Making request packets out of the send queue entry at req.cur; which one and whether at all,
 * req.c decides.
 */
#ifndef TRANSPORT_REQ_BUILD_H
#define TRANSPORT_REQ_BUILD_H

#include "transport/qp.h"

/** Measure the round trip of a packet that requests an answer, one at a time. */
static inline void req_measure(struct qp_req *req, rocemu_ns_t now, uint32_t psn)
{
	if (req->rtt_valid)
		return;
	req->rtt_valid = true;
	req->rtt_psn = psn;
	req->rtt_at = now;
}

/**
 * The next packets of a SEND or WRITE: to the end of the message, of the window or of tx[0..n).
 * n > 0.
 * @return how many; 0: its memory cannot be read, see req.fault.
 */
unsigned req_build_message(struct rocemu_qp *qp, struct rocemu_tx *tx, unsigned n);
/**
 * The next READ request, or the request of an atomic, FLUSH or ATOMIC WRITE.
 * @return 1; 0: its memory cannot be read, see req.fault.
 */
unsigned req_build_fetch(struct rocemu_qp *qp, struct rocemu_tx *tx);
/**
 * A packet of entry i that was sent before, out of turn: nothing is charged or moved. Message:
 * packet pkt. READ: the request for packets [pkt, end). ackreq: of messages; requests with a
 * response always have it.
 * @return false: its memory cannot be read.
 */
bool req_build_again(struct rocemu_qp *qp, struct rocemu_tx *tx, uint32_t i, uint32_t pkt,
		     uint32_t end, bool ackreq);

#endif
