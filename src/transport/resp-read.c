/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes requests with more than an ACK as answer: READ, CmpSwap, FetchAdd, ATOMIC WRITE, FLUSH.
 * An atomic is executed when it comes in; a READ's memory is read when its responses are made
 * (resp-out.c). What was executed is kept in the replay ring, so that an atomic is never executed
 * twice (IBTA 9.7.5.1).
 */
#include <string.h>

#include "base/util.h"
#include "transport/guard.h"
#include "transport/why.h"

enum { ATOMIC_LEN = 8, READ_COPIES_MIN = 256 };

static void replay_add(struct rocemu_qp *qp, const struct resp_replay *entry)
{
	struct qp_resp *r = &qp->resp;
	struct resp_replay *e = &r->replay[r->replay_next];

	*e = *entry;
	e->psn = r->epsn;
	e->msn = psn_add(r->msn, 1);
	/*
	 * A peer whose limit was lowered has no more than that outstanding when it sends new ones.
	 */
	r->replay_next = (r->replay_next + 1) % r->room;
	r->nreplay = MIN(r->nreplay + 1, r->limit);
}

/* The newest first: PSNs wrap, and an old entry may bear the number of a new one. */
static const struct resp_replay *replay_find(const struct rocemu_qp *qp, uint8_t opcode,
					     uint32_t psn)
{
	const struct qp_resp *r = &qp->resp;

	for (uint32_t i = 1; i <= r->nreplay; i++) {
		const struct resp_replay *e = &r->replay[(r->replay_next + r->room - i) % r->room];

		if (e->opcode == opcode && psn_within(psn, 1, e->psn, e->npsn))
			return e;
	}
	return NULL;
}

static enum resp_verdict check_read(const struct rocemu_qp *qp, const struct rocemu_packet *pkt)
{
	if (!resp_allows(qp, IBV_ACCESS_REMOTE_READ))
		return RESP_NOT_ENABLED;
	if (pkt->h.reth.length > ROCEMU_MAX_MSG)
		return RESP_LENGTH;
	if (!mw_access(qp, resp_pd(qp, pkt->h.xrceth.srqn), pkt->h.reth.rkey, pkt->h.reth.va,
		       pkt->h.reth.length, IBV_ACCESS_REMOTE_READ))
		return RESP_ACCESS;
	return RESP_PASS;
}

static enum resp_verdict exec_read(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
				   uint32_t *npsn)
{
	struct qp_resp *r = &qp->resp;
	enum resp_verdict v = check_read(qp, pkt);

	if (v != RESP_PASS)
		return v;
	*npsn = resp_npsn(qp, pkt->h.reth.length);
	replay_add(qp, &(struct resp_replay){
			       .opcode = pkt->h.opcode,
			       .npsn = *npsn,
			       .rkey = pkt->h.reth.rkey,
			       .length = pkt->h.reth.length,
			       .va = pkt->h.reth.va,
		       });
	resp_job_add(qp, &(struct resp_job){
				 .kind = RESP_JOB_READ,
				 .psn = r->epsn,
				 .npsn = *npsn,
				 .msn = psn_add(r->msn, 1),
				 .srqn = pkt->h.xrceth.srqn,
				 .rkey = pkt->h.reth.rkey,
				 .va = pkt->h.reth.va,
				 .left = pkt->h.reth.length,
			 });
	return RESP_PASS;
}

/* The words of an atomic are host-order numbers in memory (as with hardware RNICs), and the
 * process's own threads may work on them with atomics of their own. */
struct atomic {
	const struct rocemu_packet *pkt;
	uint64_t *word;
	uint64_t value; /* what was there; of an ATOMIC WRITE: what is to be there */
};

GUARDED_WORK static void atomic_execute(void *arg)
{
	struct atomic *a = arg;
	const struct rocemu_hdrs *h = &a->pkt->h;
	uint64_t orig = h->atomiceth.compare;

	if (h->opcode == ROCEMU_RC_FETCH_ADD || h->opcode == ROCEMU_XRC_FETCH_ADD)
		orig = __atomic_fetch_add(a->word, h->atomiceth.swap_add, __ATOMIC_SEQ_CST);
	else
		__atomic_compare_exchange_n(a->word, &orig, h->atomiceth.swap_add, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	a->value = orig;
}

GUARDED_WORK static void atomic_store_word(void *arg)
{
	const struct atomic *a = arg;

	__atomic_store_n(a->word, a->value, __ATOMIC_SEQ_CST);
}

/** @return false: the word's memory is gone. */
static bool atomic_run(const struct rocemu_qp *qp, void (*what)(void *), struct atomic *a)
{
	const struct iovec word = {.iov_base = a->word, .iov_len = sizeof(*a->word)};

	if (likely(guard_run(what, a, &word, 1)))
		return true;
	resp_missing(qp, a->pkt->h.xrceth.srqn, a->word, sizeof(*a->word));
	return false;
}

/* An aligned word that the peer may touch. Where a region's address for the peer and its place in
 * memory differ in alignment, no word of it can be accessed atomically. */
static enum resp_verdict atomic_word(const struct rocemu_qp *qp, const struct rocemu_packet *pkt,
				     uint64_t va, uint32_t rkey, int access, uint64_t **word)
{
	uint8_t *host;

	if (!resp_allows(qp, (unsigned)access))
		return RESP_NOT_ENABLED;
	if (va % ATOMIC_LEN)
		return RESP_MISALIGNED;
	host = mw_access(qp, resp_pd(qp, pkt->h.xrceth.srqn), rkey, va, ATOMIC_LEN, access);
	if (!host)
		return RESP_ACCESS;
	if ((uintptr_t)host % ATOMIC_LEN)
		return RESP_MISALIGNED;
	*word = (uint64_t *)(void *)host;
	return RESP_PASS;
}

static enum resp_verdict exec_atomic(struct rocemu_qp *qp, const struct rocemu_packet *pkt)
{
	struct qp_resp *r = &qp->resp;
	struct atomic a = {.pkt = pkt};
	enum resp_verdict v;

	v = atomic_word(qp, pkt, pkt->h.atomiceth.va, pkt->h.atomiceth.rkey,
			IBV_ACCESS_REMOTE_ATOMIC, &a.word);
	if (v != RESP_PASS)
		return v;
	if (!atomic_run(qp, atomic_execute, &a))
		return RESP_ACCESS;
	replay_add(qp, &(struct resp_replay){.opcode = pkt->h.opcode, .npsn = 1, .orig = a.value});
	resp_job_add(qp, &(struct resp_job){
				 .kind = RESP_JOB_ATOMIC,
				 .psn = r->epsn,
				 .npsn = 1,
				 .msn = psn_add(r->msn, 1),
				 .orig = a.value,
			 });
	return RESP_PASS;
}

/* The answer to an ATOMIC WRITE or FLUSH looks like that to a READ of nothing (annex A19). */
static void answer_empty(struct rocemu_qp *qp, uint32_t psn, uint32_t msn, bool dup)
{
	resp_job_add(qp, &(struct resp_job){
				 .kind = RESP_JOB_READ,
				 .dup = dup,
				 .psn = psn,
				 .npsn = 1,
				 .msn = msn,
			 });
}

static enum resp_verdict exec_atomic_write(struct rocemu_qp *qp, const struct rocemu_packet *pkt)
{
	struct qp_resp *r = &qp->resp;
	struct atomic a = {.pkt = pkt};
	enum resp_verdict v;

	if (pkt->payload_len != ATOMIC_LEN || pkt->h.reth.length != ATOMIC_LEN)
		return RESP_LENGTH;
	v = atomic_word(qp, pkt, pkt->h.reth.va, pkt->h.reth.rkey, IBV_ACCESS_REMOTE_WRITE,
			&a.word);
	if (v != RESP_PASS)
		return v;
	memcpy(&a.value, pkt->payload,
	       sizeof(a.value)); /* bytes, not a number: no order is changed */
	if (!atomic_run(qp, atomic_store_word, &a))
		return RESP_ACCESS;
	replay_add(qp, &(struct resp_replay){.opcode = pkt->h.opcode, .npsn = 1});
	answer_empty(qp, r->epsn, psn_add(r->msn, 1), false);
	return RESP_PASS;
}

int resp_flush_access(uint32_t feth)
{
	uint32_t type = feth & ROCEMU_FETH_TYPE_MASK;
	uint32_t level = feth >> ROCEMU_FETH_LEVEL_SHIFT & ROCEMU_FETH_LEVEL_MASK;

	if (level > ROCEMU_FLUSH_MR ||
	    type & ~(uint32_t)(ROCEMU_FLUSH_GLOBAL | ROCEMU_FLUSH_PERSISTENT))
		return 0;
	return (type & ROCEMU_FLUSH_GLOBAL ? ROCEMU_ACCESS_FLUSH_GLOBAL : 0) |
	       (type & ROCEMU_FLUSH_PERSISTENT ? ROCEMU_ACCESS_FLUSH_PERSISTENT : 0);
}

/* Earlier writes were stored when they came in; a fence makes them visible to all. */
static enum resp_verdict exec_flush(struct rocemu_qp *qp, const struct rocemu_packet *pkt)
{
	struct qp_resp *r = &qp->resp;
	int access = resp_flush_access(pkt->h.feth.raw);
	bool whole = (pkt->h.feth.raw >> ROCEMU_FETH_LEVEL_SHIFT & ROCEMU_FETH_LEVEL_MASK) ==
		     ROCEMU_FLUSH_MR;

	if (!access)
		return RESP_UNSUPPORTED;
	if ((qp->attr.qp_access_flags & (unsigned)access) != (unsigned)access)
		return RESP_NOT_ENABLED;
	if (!mw_grants(qp, resp_pd(qp, pkt->h.xrceth.srqn), pkt->h.reth.rkey,
		       whole ? NULL : &(struct mw_range){pkt->h.reth.va, pkt->h.reth.length},
		       access))
		return RESP_ACCESS;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	replay_add(qp, &(struct resp_replay){.opcode = pkt->h.opcode, .npsn = 1});
	answer_empty(qp, r->epsn, psn_add(r->msn, 1), false);
	return RESP_PASS;
}

APART enum resp_verdict resp_exec_read(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
				       uint32_t ops, uint32_t *npsn)
{
	/* More than max_dest_rd_atomic at a time (IBTA 9.7.4.1); 0 of them: not set up for any. */
	if (!resp_job_fits(qp, true))
		return RESP_TOO_MANY;
	if (ops & ROCEMU_OP_READ_REQ) {
		qp->ep->stats->reads_rcvd++;
		return exec_read(qp, pkt, npsn);
	}
	if (ops & ROCEMU_OP_ATOMIC) {
		qp->ep->stats->atomics_rcvd++;
		return exec_atomic(qp, pkt);
	}
	if (ops & ROCEMU_OP_FLUSH)
		return exec_flush(qp, pkt);
	return exec_atomic_write(qp, pkt);
}

/** Does the request cover a part of that READ, in PSNs and memory? */
static bool is_part(const struct resp_replay *old, const struct rocemu_packet *pkt, uint32_t npsn)
{
	uint64_t off = pkt->h.reth.va - old->va;

	return psn_within(pkt->h.psn, npsn, old->psn, old->npsn) && pkt->h.reth.rkey == old->rkey &&
	       off <= old->length && pkt->h.reth.length <= old->length - off;
}

/*
 * A READ was repeated: its responses may have been corrupted, because the program writes to the
 * memory while they are sent by reference. The next ones are copied, twice as many if fewer than
 * before went well in between, so that a program which writes all the time spoils few. A repetition
 * while copies are sent has another reason.
 */
static void copy_next(struct qp_resp *r)
{
	if (r->copies > 0)
		return;
	r->copies_run = -r->copies >= r->copies_run ? READ_COPIES_MIN
						    : MIN(2 * r->copies_run, READ_COPIES_MAX);
	r->copies = r->copies_run;
}

/*
 * A READ again, possibly from a later packet of the earlier one on (the requester advances the
 * RETH). Only one that the replay ring holds is answered: the peer has no more than its limit of
 * them outstanding, so any other is not the peer's, or is not waited for (C9-106). When its memory
 * is no longer accessible, the answer is a NAK that does not end the connection on this side: a
 * copy of a request that was answered before must not break a healthy one; a peer that waits for it
 * gets the reason, and one that does not ignores a NAK for nothing outstanding.
 */
static enum rocemu_drop repeat_read(struct rocemu_qp *qp, const struct rocemu_packet *pkt)
{
	uint32_t npsn = resp_npsn(qp, pkt->h.reth.length);
	const struct resp_replay *old = replay_find(qp, pkt->h.opcode, pkt->h.psn);
	struct resp_job job = {
		.kind = RESP_JOB_READ,
		.dup = true,
		.psn = pkt->h.psn,
		.npsn = npsn,
		.srqn = pkt->h.xrceth.srqn,
		.rkey = pkt->h.reth.rkey,
		.va = pkt->h.reth.va,
		.left = pkt->h.reth.length,
	};

	if (!old || !is_part(old, pkt, npsn))
		return ROCEMU_DROP_STALE_READ;
	job.msn = old->msn;
	if (resp_job_covers(qp, job.psn, job.npsn))
		return ROCEMU_DROP_NONE;
	switch (check_read(qp, pkt)) {
	case RESP_PASS:
		break;
	case RESP_ACCESS:
		why_read_lost(qp, &job);
		job.kind = RESP_JOB_NAK;
		job.npsn = 1;
		break;
	default:
		return ROCEMU_DROP_ACCESS;
	}
	copy_next(&qp->resp);
	resp_job_add(qp, &job);
	return ROCEMU_DROP_NONE;
}

APART enum rocemu_drop resp_repeat_read(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
					uint32_t ops)
{
	const struct resp_replay *old;

	if (!resp_job_fits(qp, false))
		return ROCEMU_DROP_PSN; /* the peer will send it again */
	if (ops & ROCEMU_OP_READ_REQ)
		return repeat_read(qp, pkt);

	/* C9-105: an atomic whose result is no longer held is dropped silently. */
	old = replay_find(qp, pkt->h.opcode, pkt->h.psn);
	if (!old)
		return ROCEMU_DROP_STALE_ATOMIC;
	if (resp_job_covers(qp, old->psn, 1))
		return ROCEMU_DROP_NONE;
	if (ops & ROCEMU_OP_ATOMIC)
		resp_job_add(qp, &(struct resp_job){
					 .kind = RESP_JOB_ATOMIC,
					 .dup = true,
					 .psn = old->psn,
					 .npsn = 1,
					 .msn = old->msn,
					 .orig = old->orig,
				 });
	else
		answer_empty(qp, old->psn, old->msn, true);
	return ROCEMU_DROP_NONE;
}
