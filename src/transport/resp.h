/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Responder: executes request packets (RC, UC, UD) and makes the responses (RC). Files: resp.c (order of checks, PSN,
 * duplicates), resp-exec.c (SEND, WRITE, READ, atomics), resp-out.c (ACKs, NAKs, READ and atomic responses),
 * resp-uc.c, resp-ud.c.
 */
#ifndef TRANSPORT_RESP_H
#define TRANSPORT_RESP_H

#include <rocemu/endpoint.h>

#include "transport/rq.h"

/** Fields: to be refined by resp.c's author; only resp*.c write them. */
struct qp_resp {
	uint32_t epsn;                 /* PSN expected next */
	uint32_t msn;                  /* requests completed */
	bool in_message;               /* FIRST was seen, LAST not yet */
	bool nak_sent;                 /* one sequence NAK per gap */
	bool comm_est;                 /* IBV_EVENT_COMM_EST was raised (first packet in RTR) */
	bool have_rwqe;                /* rwqe is taken and not completed yet */
	struct rwqe rwqe;
	uint64_t offset;               /* bytes of the message so far */
	/* ... the rest: WRITE target, ACK owed, resources (READ responses under way, atomic replay cache) */
};

/** At creation: allocate what depends on nothing but limits. -ENOMEM. */
int resp_init(struct rocemu_qp *qp);
void resp_fini(struct rocemu_qp *qp);
void resp_reset(struct rocemu_qp *qp);
/** INIT -> RTR: start at attr.rq_psn. */
void resp_start(struct rocemu_qp *qp);
/** A request packet came for this QP (checked: form, ICRC, service, address, P_Key, state receives). */
enum rocemu_drop resp_input(struct rocemu_qp *qp, rocemu_ns_t now, const struct rocemu_packet *pkt,
			    const struct rocemu_dgram *d);
/** Fill tx[0..n) with responses; first as for req_output(). */
unsigned resp_output(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx, unsigned n, unsigned first);
bool resp_has_output(const struct rocemu_qp *qp);
/** True when all of it are ACKs/NAKs without payload. */
bool resp_output_is_acks(const struct rocemu_qp *qp);
/** To ERR: complete the receive under way and all posted ones with IBV_WC_WR_FLUSH_ERR (an SRQ's stay). */
void resp_flush(struct rocemu_qp *qp, rocemu_ns_t now);

#endif
