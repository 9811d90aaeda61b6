/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Determines reasons of errors (include/rocemu/why.h): each function is called where an error
 * occurs, before its completion or event is made, and finds details that the check did not keep. No
 * function is called for a correct packet. Without rocemu_ep_config::why the codes are still
 * determined, because completions have them in vendor_err.
 */
#ifndef TRANSPORT_WHY_H
#define TRANSPORT_WHY_H

#include "transport/ep.h"
#include "transport/resp-int.h"

#define WHY_COLD __attribute__((cold, noinline))

/** Give a reason to rocemu_ep_config::why. */
WHY_COLD void why_give(struct rocemu_ep *ep, const struct rocemu_why *w);
/** The same of a QP: its number and its peer are filled in. */
WHY_COLD void why_qp(const struct rocemu_qp *qp, struct rocemu_why w);

/**
 * The request at the tail of the send queue fails with status. cause: the syndrome of the NAK that
 * was received, or a code, with the details of why_response(), or 0: to be determined. @return
 * vendor_err of its completion.
 */
WHY_COLD uint32_t why_failed(const struct rocemu_qp *qp, enum ibv_wc_status status, uint32_t cause);
/** The cause of a response that is refused with status. */
WHY_COLD uint32_t why_response(const struct rocemu_packet *pkt, enum ibv_wc_status status);
/** A NAK that does not end the request at the tail: RNR with its timer code, or a sequence error.
 */
WHY_COLD void why_nak_received(const struct rocemu_qp *qp, uint8_t syndrome, uint32_t psn);

/** A request of the peer is refused, and the QP fails. @return the code. */
WHY_COLD uint32_t why_refused(const struct rocemu_qp *qp, enum resp_verdict v,
			      const struct rocemu_packet *pkt, uint32_t ops);
/** The memory of a READ is gone before all of it was sent. */
WHY_COLD void why_read_lost(const struct rocemu_qp *qp, const struct resp_job *job);
/** The memory of the receive at hand is not accessible. @return the code. */
WHY_COLD uint32_t why_receive(const struct rocemu_qp *qp);
/** An RNR or sequence NAK is sent for a packet with that opcode. */
WHY_COLD void why_rnr_sent(const struct rocemu_qp *qp, uint8_t opcode);
WHY_COLD void why_gap_sent(const struct rocemu_qp *qp);

/** A packet with decoded headers was dropped. */
WHY_COLD void why_drop(struct rocemu_ep *ep, const struct rocemu_dgram *d,
		       const struct rocemu_packet *pkt, enum rocemu_drop drop);

/** The name of an operation. */
const char *why_wr_name(enum ibv_wr_opcode op);

#endif
