/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completer (RC): takes ACKs, NAKs, READ responses and atomic responses, places what they carry,
 * and completes send work requests in order. UC and UD requests complete when their last packet was
 * handed out; that too goes through here, so that send completions have one source.
 */
#ifndef TRANSPORT_COMP_H
#define TRANSPORT_COMP_H

#include <rocemu/endpoint.h>

/** Only comp.c writes these. */
struct qp_comp {
	uint32_t una_psn; /* oldest PSN not acknowledged; it lies in the entry at tail */
};

void comp_reset(struct rocemu_qp *qp);
void comp_start(struct rocemu_qp *qp);
/** A response packet came for this QP (checked: form, ICRC, address, P_Key, state RTS/SQD). */
enum rocemu_drop comp_input(struct rocemu_qp *qp, rocemu_ns_t now, const struct rocemu_packet *pkt);
/** Complete the entry at tail (if it is to be signaled). UC/UD: called by the requester. */
void comp_complete(struct rocemu_qp *qp, rocemu_ns_t now);
/** Complete the local requests at tail that were executed; what stands before them is complete. */
void comp_local(struct rocemu_qp *qp, rocemu_ns_t now);
/**
 * Fail the entry at tail with status, then the QP (RC: ERR, UC/UD: SQE). Entries before tail are
 * complete. vendor_err: the syndrome that told, or 0.
 */
void comp_fail(struct rocemu_qp *qp, rocemu_ns_t now, enum ibv_wc_status status,
	       uint32_t vendor_err);
/** Flush everything from tail to head with IBV_WC_WR_FLUSH_ERR. */
void comp_flush(struct rocemu_qp *qp, rocemu_ns_t now);

#endif
