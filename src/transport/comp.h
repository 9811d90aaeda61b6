/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completer (RC): takes ACKs, NAKs, READ responses and atomic responses, places what they carry,
 * and completes send work requests in order. UC and UD requests complete when their last packet was
 * output; that is also done here, so that send completions have one source. Files: comp.c
 * (acknowledgement and completion), comp-read.c (responses with data).
 */
#ifndef TRANSPORT_COMP_H
#define TRANSPORT_COMP_H

#include <rocemu/endpoint.h>

/** Only comp.c and comp-read.c write these. */
struct qp_comp {
	uint32_t una_psn;  /* oldest PSN not acknowledged; it is in the entry at tail */
	uint32_t acked_to; /* the peer has executed everything before it; una_psn or later */
};

void comp_reset(struct rocemu_qp *qp);
void comp_start(struct rocemu_qp *qp);
/** A response packet came for this QP (checked: form, ICRC, address, P_Key, state RTS/SQD). */
enum rocemu_drop comp_input(struct rocemu_qp *qp, rocemu_ns_t now, const struct rocemu_packet *pkt);
/** Complete the entry at tail (if it is to be signaled). UC/UD: called by the requester. */
void comp_complete(struct rocemu_qp *qp, rocemu_ns_t now);
/** Complete the executed local requests at tail; all earlier ones are complete. */
void comp_local(struct rocemu_qp *qp, rocemu_ns_t now);
/**
 * Fail the entry at tail with status, then the QP (RC: ERR, UC/UD: SQE). Entries before tail are
 * complete. cause: as why_failed() takes it.
 */
void comp_fail(struct rocemu_qp *qp, rocemu_ns_t now, enum ibv_wc_status status, uint32_t cause);
/**
 * Flush everything from tail to head with IBV_WC_WR_FLUSH_ERR, but the local requests that were
 * executed: they are complete.
 */
void comp_flush(struct rocemu_qp *qp, rocemu_ns_t now);

/* Between comp.c and comp-read.c. */

/** The peer has executed everything before end: complete these requests. */
void comp_advance(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t end);
/** The response with PSN una_psn was placed: complete the requests that this completes. */
void comp_next(struct rocemu_qp *qp, rocemu_ns_t now);
/** comp_fail() for something that a peer sent: not while the QP is guarded (see port.h). */
enum rocemu_drop comp_refused(struct rocemu_qp *qp, rocemu_ns_t now, enum ibv_wc_status status,
			      uint32_t cause);
/** Packets missing before end were lost (nak: reported by a NAK of end - 1). May fail the QP. */
enum rocemu_drop comp_lost(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t end, bool nak);
/** The send queue entry that contains psn, which is outstanding. */
uint32_t comp_entry(const struct rocemu_qp *qp, uint32_t psn);
/** A response of its own: READ, atomic, FLUSH, ATOMIC WRITE. */
enum rocemu_drop comp_response(struct rocemu_qp *qp, rocemu_ns_t now,
			       const struct rocemu_packet *pkt, uint32_t ops);

#endif
