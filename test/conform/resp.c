/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder of an RC queue pair (IBTA 9.7). What is wrong is found in the order of 9.7.4: PSN,
 * order of opcodes, rights of the queue pair, length, receive, key.
 */
#include <stdlib.h>

#include "base/util.h"
#include "responder.h"

enum { MESSAGE_MAX = 1u << 31, ATOMIC_LEN = 8 };

static void send_aeth(struct qp *qp, uint32_t psn, uint8_t syndrome)
{
	struct rocemu_hdrs h = {.opcode = ROCEMU_RC_ACK,
				.psn = psn & ROCEMU_PSN_MASK,
				.aeth = {.syndrome = syndrome, .msn = qp->resp.msn}};

	qp_send(qp, &h, NULL, 0);
}

static void send_ack(struct qp *qp, uint32_t psn)
{
	if (qp->error && !mutant(M_ERROR_ANSWERS))
		return;
	send_aeth(qp, psn, ROCEMU_AETH_NO_CREDITS);
}

static void send_nak(struct qp *qp, uint8_t syndrome)
{
	send_aeth(qp, qp->resp.epsn, syndrome);
}

/** The receive that is in use, if there is one, ends with this status. */
static bool end_receive(struct qp *qp, enum ibv_wc_status status)
{
	struct responder *r = &qp->resp;
	const struct receive in_use = r->recv[r->recv_first];

	if (r->message != ROCEMU_OP_SEND || !r->recv_count)
		return false;
	r->recv_first = (r->recv_first + 1) % RECVS;
	r->recv_count--;
	qp->app.ended(qp, true, in_use.id, status);
	return true;
}

/**
 * A rule was broken: the NAK is the last packet of this queue pair. The receive that is in use
 * reports it, or else an event (IBTA 9.9.3).
 */
static void fatal(struct qp *qp, uint8_t syndrome, enum ibv_wc_status status)
{
	send_nak(qp, syndrome);
	if (mutant(M_AFTER_NAK))
		return;
	if (!end_receive(qp, status))
		qp->app.event(qp, syndrome == ROCEMU_NAK_REM_ACCESS ? IBV_EVENT_QP_ACCESS_ERR
								    : IBV_EVENT_QP_REQ_ERR);
	qp_error(qp);
}

/* ---- READs and atomics ---- */

static struct kept *keep(struct qp *qp, const struct rocemu_packet *p, uint32_t n)
{
	struct responder *r = &qp->resp;
	struct kept *k = &r->kept[r->kept_next++ % MAX(r->depth, 1u)];

	*k = (struct kept){.used = true, .opcode = p->h.opcode, .psn = p->h.psn, .n = n};
	return k;
}

static void send_read(struct qp *qp, uint32_t psn, const uint8_t *from, uint32_t len)
{
	const uint32_t n = packets(len, qp->mtu);

	for (uint32_t i = 0; i < n; i++) {
		const bool first = i == 0, last = i + 1 == n;
		struct rocemu_hdrs h = {
			.opcode = first && last ? ROCEMU_RC_READ_RESP_ONLY
				  : first	? ROCEMU_RC_READ_RESP_FIRST
				  : last	? ROCEMU_RC_READ_RESP_LAST
						: ROCEMU_RC_READ_RESP_MIDDLE,
			.psn = psn_add(psn, i),
			.aeth = {.syndrome = ROCEMU_AETH_NO_CREDITS, .msn = qp->resp.msn}};

		qp_send(qp, &h, from + i * qp->mtu, last ? len - i * qp->mtu : qp->mtu);
	}
}

static void take_read(struct qp *qp, const struct rocemu_packet *p)
{
	struct responder *r = &qp->resp;
	const uint8_t *from = qp_memory(qp, p->h.reth.rkey, p->h.reth.va, p->h.reth.length,
					IBV_ACCESS_REMOTE_READ);
	const uint32_t n = packets(p->h.reth.length, qp->mtu);
	struct kept *k;

	if (!from) {
		fatal(qp, ROCEMU_NAK_REM_ACCESS, IBV_WC_LOC_ACCESS_ERR);
		return;
	}
	k = keep(qp, p, n);
	k->va = p->h.reth.va;
	k->rkey = p->h.reth.rkey;
	k->len = p->h.reth.length;
	r->epsn = psn_add(r->epsn, n);
	r->msn = psn_add(r->msn, 1);
	if (mutant(M_READ_LATE))
		r->late = k;
	else
		send_read(qp, p->h.psn, from, p->h.reth.length);
}

/** A mutant's: the responses leave behind those of the next request. */
static void send_late(struct qp *qp, const struct kept *late)
{
	if (!late)
		return;
	qp->resp.late = NULL;
	send_read(qp, late->psn, qp_memory(qp, late->rkey, late->va, late->len, ~0u), late->len);
}

static void send_atomic(struct qp *qp, const struct kept *k)
{
	struct rocemu_hdrs h = {
		.opcode = ROCEMU_RC_ATOMIC_ACK,
		.psn = k->psn,
		.aeth = {.syndrome = ROCEMU_AETH_NO_CREDITS, .msn = qp->resp.msn},
		.atomicack = k->original,
	};

	qp_send(qp, &h, NULL, 0);
}

/** Values in memory have the host's order. */
static uint64_t execute(uint8_t *at, const struct rocemu_packet *p)
{
	uint64_t old, new;

	memcpy(&old, at, sizeof(old));
	new = p->h.opcode == ROCEMU_RC_FETCH_ADD		    ? old + p->h.atomiceth.swap_add
	      : old == p->h.atomiceth.compare || mutant(M_CMP_SWAP) ? p->h.atomiceth.swap_add
								    : old;
	memcpy(at, &new, sizeof(new));
	return old;
}

static void take_atomic(struct qp *qp, const struct rocemu_packet *p)
{
	struct responder *r = &qp->resp;
	uint8_t *at;
	struct kept *k;

	if (p->h.atomiceth.va % ATOMIC_LEN && !mutant(M_ATOMIC_ALIGN)) {
		fatal(qp, ROCEMU_NAK_INV_REQ, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	at = qp_memory(qp, p->h.atomiceth.rkey, p->h.atomiceth.va, ATOMIC_LEN,
		       IBV_ACCESS_REMOTE_ATOMIC);
	if (!at) {
		fatal(qp, ROCEMU_NAK_REM_ACCESS, IBV_WC_LOC_ACCESS_ERR);
		return;
	}
	k = keep(qp, p, 1);
	k->va = p->h.atomiceth.va;
	k->rkey = p->h.atomiceth.rkey;
	k->swap_add = p->h.atomiceth.swap_add;
	k->compare = p->h.atomiceth.compare;
	k->original = execute(at, p);
	r->epsn = psn_add(r->epsn, 1);
	r->msn = psn_add(r->msn, 1);
	send_atomic(qp, k);
}

/* ---- duplicates (9.7.5.1.1, C9-105, C9-106) ---- */

static struct kept *find_kept(struct qp *qp, const struct rocemu_packet *p)
{
	for (unsigned i = 0; i < KEPT; i++) {
		struct kept *k = &qp->resp.kept[i];
		const int32_t in = rocemu_psn_diff(p->h.psn, k->psn);

		if (k->used && k->opcode == p->h.opcode && in >= 0 && (uint32_t)in < k->n)
			return k;
	}
	return NULL;
}

/** Only a part of the READ that was kept is answered. */
static void repeat_read(struct qp *qp, const struct rocemu_packet *p)
{
	const struct kept *k = find_kept(qp, p);
	const uint32_t skip = k ? ((p->h.psn - k->psn) & ROCEMU_PSN_MASK) * qp->mtu : 0;
	const uint8_t *from;

	if (mutant(M_DUP_READ_SILENT))
		return;
	if (!k || ((p->h.reth.rkey != k->rkey || p->h.reth.va != k->va + skip ||
		    p->h.reth.length > k->len - skip) &&
		   !mutant(M_DUP_READ_WIDER)))
		return;
	from = qp_memory(qp, p->h.reth.rkey, p->h.reth.va, p->h.reth.length,
			 IBV_ACCESS_REMOTE_READ);
	if (from)
		send_read(qp, mutant(M_DUP_READ_PART) ? k->psn : p->h.psn, from, p->h.reth.length);
}

static void repeat_atomic(struct qp *qp, const struct rocemu_packet *p)
{
	struct kept *k = find_kept(qp, p);

	if (k && mutant(M_DUP_ATOMIC))
		k->original = execute(qp_memory(qp, k->rkey, k->va, ATOMIC_LEN, ~0u), p);
	if (!k && mutant(M_DUP_ATOMIC_OTHER))
		execute(qp_memory(qp, p->h.atomiceth.rkey, p->h.atomiceth.va, ATOMIC_LEN, ~0u), p);
	if (mutant(M_DUP_ATOMIC_SILENT))
		return;
	if (k && k->va == p->h.atomiceth.va && k->rkey == p->h.atomiceth.rkey &&
	    k->swap_add == p->h.atomiceth.swap_add && k->compare == p->h.atomiceth.compare)
		send_atomic(qp, k);
}

/** A mutant's. */
static void execute_again(struct qp *qp, const struct rocemu_packet *p)
{
	uint8_t *at = qp_memory(qp, p->h.reth.rkey, p->h.reth.va, p->payload_len, ~0u);

	if (at)
		memcpy(at, p->payload, p->payload_len);
}

static void duplicate(struct qp *qp, const struct rocemu_packet *p, uint32_t ops)
{
	const uint32_t newest = psn_add(qp->resp.epsn, ROCEMU_PSN_MASK);

	if (mutant(M_DUP_SILENT))
		return;
	if (mutant(M_DUP_MIDDLE))
		qp->resp.message = 0;
	if (mutant(M_DUP_EXECUTED) && ops & ROCEMU_OP_WRITE && ops & ROCEMU_OP_FIRST)
		execute_again(qp, p);
	if (mutant(M_DUP_NAK))
		send_nak(qp, ROCEMU_NAK_PSN_SEQ);
	else if (ops & ROCEMU_OP_READ_REQ)
		repeat_read(qp, p);
	else if (ops & ROCEMU_OP_ATOMIC)
		repeat_atomic(qp, p);
	else
		send_ack(qp, mutant(M_DUP_OLD_PSN) ? p->h.psn : newest);
}

/* ---- messages ---- */

/** 9.7.4.1: what may follow what. */
static bool sequence_fits(const struct responder *r, uint32_t ops)
{
	const uint32_t kind = ops & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE);

	if (ops & ROCEMU_OP_FIRST) {
		if (mutant(M_FIRST_INSIDE) && kind)
			return true;
		if (mutant(M_READ_INSIDE) && !kind)
			return true;
		return !r->message;
	}
	if (!r->message)
		return mutant(M_MIDDLE_FIRST);
	return kind == r->message || mutant(M_KIND_CHANGES);
}

static bool allowed(const struct qp *qp, uint32_t ops)
{
	unsigned need = 0;

	if (ops & ROCEMU_OP_WRITE)
		need = IBV_ACCESS_REMOTE_WRITE;
	else if (ops & ROCEMU_OP_READ_REQ)
		need = IBV_ACCESS_REMOTE_READ;
	else if (ops & ROCEMU_OP_ATOMIC)
		need = IBV_ACCESS_REMOTE_ATOMIC;
	if (ops & (ROCEMU_OP_READ_REQ | ROCEMU_OP_ATOMIC) && !qp->resp.depth && !mutant(M_NO_DEPTH))
		return false;
	if (ops & (ROCEMU_OP_FLUSH | ROCEMU_OP_ATOMIC_WRITE))
		return false;
	return (qp->access & need) == need || mutant(M_NOT_ENABLED) || mutant(M_KIND_CHANGES) ||
	       mutant(M_READ_INSIDE);
}

bool length_fits(const struct qp *qp, const struct rocemu_packet *p, uint32_t ops)
{
	const bool whole = ops & ROCEMU_OP_LAST;

	if (!(ops & ROCEMU_OP_PAYLOAD))
		return true;
	if (!whole)
		return (p->payload_len == qp->mtu && !p->h.pad) || mutant(M_FIRST_SHORT) ||
		       (mutant(M_PAD_FIRST) && p->payload_len + p->h.pad == qp->mtu);
	if (p->payload_len > qp->mtu && !mutant(M_ONLY_LONG))
		return false;
	return p->payload_len || ops & ROCEMU_OP_FIRST || mutant(M_LAST_EMPTY);
}

/** Of a WRITE: the sum of its packets is what the RETH has (9.7.4.1.6). */
static bool reth_fits(const struct responder *r, const struct rocemu_packet *p, uint32_t ops)
{
	const uint32_t left = ops & ROCEMU_OP_FIRST ? p->h.reth.length : r->left;

	if (ops & (ROCEMU_OP_WRITE | ROCEMU_OP_READ_REQ) && ops & ROCEMU_OP_FIRST &&
	    p->h.reth.length > MESSAGE_MAX && !mutant(M_2_GIB))
		return false;
	if (!(ops & ROCEMU_OP_WRITE) || mutant(M_RETH) || mutant(M_KIND_CHANGES))
		return true;
	return ops & ROCEMU_OP_LAST ? p->payload_len == left : p->payload_len < left;
}

/** There is no receive: the peer has to wait. It is told once; what follows is out of order. */
static bool not_ready(struct qp *qp, uint32_t ops)
{
	struct responder *r = &qp->resp;
	const bool at = ops & ROCEMU_OP_SEND ? ops & ROCEMU_OP_FIRST : ops & ROCEMU_OP_IMM;

	if (!at || r->recv_count || (mutant(M_RNR_WRITE) && ops & ROCEMU_OP_WRITE))
		return false;
	send_nak(qp, mutant(M_RNR_FATAL)
			     ? ROCEMU_NAK_REM_OP
			     : (uint8_t)(ROCEMU_AETH_RNR | (r->rnr_timer + mutant(M_RNR_CODE))));
	r->nak_sent = !mutant(M_RNR_BEHIND);
	return true;
}

/** @return false: it is refused by a NAK. */
static bool place(struct qp *qp, const struct rocemu_packet *p, uint32_t ops)
{
	struct responder *r = &qp->resp;
	uint8_t *at;

	if (ops & ROCEMU_OP_SEND) {
		if (r->bytes + p->payload_len + mutant(M_RECV_EXACT) > r->recv[r->recv_first].len) {
			fatal(qp, mutant(M_TOO_LONG) ? ROCEMU_NAK_REM_OP : ROCEMU_NAK_INV_REQ,
			      IBV_WC_LOC_LEN_ERR);
			return false;
		}
		qp_scatter(&r->recv[r->recv_first], r->bytes, p->payload, p->payload_len);
		return true;
	}
	at = qp_memory(qp, r->rkey, r->va, r->left, IBV_ACCESS_REMOTE_WRITE);
	if (!at) {
		fatal(qp, ROCEMU_NAK_REM_ACCESS, IBV_WC_LOC_ACCESS_ERR);
		return false;
	}
	memcpy(at, p->payload, p->payload_len);
	r->va += p->payload_len;
	r->left -= p->payload_len;
	return true;
}

static void begin(struct responder *r, const struct rocemu_packet *p, uint32_t ops)
{
	r->message = ops & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE);
	r->bytes = 0;
	if (ops & ROCEMU_OP_WRITE) {
		r->va = p->h.reth.va;
		r->rkey = p->h.reth.rkey;
		r->left = p->h.reth.length;
	}
}

static void finish(struct qp *qp, uint32_t ops)
{
	struct responder *r = &qp->resp;

	r->message = 0;
	r->msn = psn_add(r->msn, mutant(M_MSN) ? 2 : 1);
	if (!takes_receive(ops) || !r->recv_count)
		return;
	r->recv_first = (r->recv_first + 1) % RECVS;
	r->recv_count--;
}

/** A mutant's: SENDs of a packet that come early are kept, as some adapters do. */
static void keep_early(struct responder *r, const struct rocemu_packet *p)
{
	if (mutant(M_KEEPS) && p->h.opcode == ROCEMU_RC_SEND_ONLY)
		r->early[p->h.psn % EARLY] = p->h.psn + 1;
}

static void take_early(struct responder *r)
{
	while (r->early[r->epsn % EARLY] == r->epsn + 1) {
		r->epsn = psn_add(r->epsn, 1);
		r->msn = psn_add(r->msn, 1);
	}
}

static void take_message(struct qp *qp, const struct rocemu_packet *p, uint32_t ops)
{
	struct responder *r = &qp->resp;
	struct receive done;
	uint32_t bytes;

	if (ops & ROCEMU_OP_FIRST || !r->message)
		begin(r, p, ops);
	done = r->recv[r->recv_first];
	if (!place(qp, p, ops))
		return;
	bytes = r->bytes += p->payload_len;
	if (!(mutant(M_ZERO_PSN) && !p->payload_len))
		r->epsn = psn_add(r->epsn, 1);
	if (mutant(M_WRAP) && !r->epsn)
		r->epsn = 1;
	if (ops & ROCEMU_OP_LAST)
		finish(qp, ops);
	else if (mutant(M_ACKREQ_MIDDLE_MSN))
		r->msn = psn_add(r->msn, 1);
	take_early(r);
	if (p->h.ackreq && !(mutant(M_ACKREQ_MIDDLE) && !(ops & ROCEMU_OP_LAST)))
		send_ack(qp, psn_add(r->epsn, ROCEMU_PSN_MASK));
	if (ops & ROCEMU_OP_LAST && takes_receive(ops))
		qp->app.received(qp, &done, bytes, p);
}

static bool refused(struct qp *qp, const struct rocemu_packet *p, uint32_t ops)
{
	if (sequence_fits(&qp->resp, ops) && allowed(qp, ops) && length_fits(qp, p, ops) &&
	    reth_fits(&qp->resp, p, ops))
		return false;
	if (mutant(M_FATAL_SILENT))
		return true;
	fatal(qp, ROCEMU_NAK_INV_REQ, IBV_WC_REM_INV_REQ_ERR);
	return true;
}

/**
 * Only windows can be invalidated. Otherwise there is no answer, and the queue pair is in error
 * (9.9.3, class J).
 */
static bool invalidate(struct qp *qp, uint32_t key)
{
	for (unsigned i = 0; i < qp->regions; i++) {
		struct region *w = &qp->region[i];

		if (!w->window || w->key != key)
			continue;
		if (!mutant(M_INV_WINDOW))
			w->access = 0;
		return true;
	}
	if (mutant(M_INV_TAKEN))
		return true;
	if (mutant(M_INV_NAK))
		send_nak(qp, ROCEMU_NAK_REM_ACCESS);
	qp_error(qp);
	return false;
}

/** The packet that is expected. */
static void in_order(struct qp *qp, const struct rocemu_packet *p, uint32_t ops)
{
	qp->resp.nak_sent = mutant(M_GAP_ONCE) && qp->resp.nak_sent;
	if (mutant(M_GAP_STUCK) && qp->resp.stuck)
		return;
	if (refused(qp, p, ops) || not_ready(qp, ops))
		return;
	if (ops & ROCEMU_OP_INV && !invalidate(qp, p->h.ieth))
		return;
	if (ops & ROCEMU_OP_READ_REQ)
		take_read(qp, p);
	else if (ops & ROCEMU_OP_ATOMIC)
		take_atomic(qp, p);
	else
		take_message(qp, p, ops);
}

static void gap(struct qp *qp)
{
	struct responder *r = &qp->resp;

	if (mutant(M_GAP_NO_NAK) || (r->nak_sent && !mutant(M_GAP_EACH)))
		return;
	r->nak_sent = r->stuck = true;
	send_nak(qp, ROCEMU_NAK_PSN_SEQ);
}

void resp_input(struct qp *qp, const struct input *in)
{
	const uint32_t ops = rocemu_opcode_ops(in->p.h.opcode);
	const int32_t ahead = rocemu_psn_diff(in->p.h.psn, qp->resp.epsn);
	const struct kept *late = qp->resp.late;

	if (ahead > 0)
		keep_early(&qp->resp, &in->p);
	if (ahead == 0)
		in_order(qp, &in->p, ops);
	else if (ahead > 0 && !(mutant(M_HALF) && ahead > 1 << 22))
		gap(qp);
	else
		duplicate(qp, &in->p, ops);
	if (in->p.h.ackreq)
		send_late(qp, late);
}
