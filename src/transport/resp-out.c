/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RC responder's packets. Everything goes out in PSN order: an ACK or a READ response means
 * that all before it arrived, and one beyond an unanswered READ that the READ's responses were lost
 * (IBTA 9.7.5.1). So jobs first (READ and atomic responses, by PSN), then the NAK or else the ACK.
 */
#include <string.h>

#include "base/util.h"
#include "transport/cc.h"
#include "transport/guard.h"
#include "transport/why.h"
#include "wire/bth.h"
#include "wire/opcode.h"

enum { READ_COPY_MAX = 1024 };

static struct resp_job *job_at(const struct qp_resp *r, uint32_t i)
{
	return &r->jobs[(r->job_head + i) % (2 * r->room)];
}

static void job_pop(struct qp_resp *r)
{
	if (!job_at(r, 0)->dup)
		r->nfresh--;
	r->job_head = (r->job_head + 1) % (2 * r->room);
	r->njobs--;
}

bool resp_job_fits(const struct rocemu_qp *qp, bool fresh)
{
	const struct qp_resp *r = &qp->resp;

	return fresh ? r->nfresh < r->limit : r->njobs - r->nfresh < r->room;
}

bool resp_job_covers(const struct rocemu_qp *qp, uint32_t psn, uint32_t npsn)
{
	const struct qp_resp *r = &qp->resp;

	for (uint32_t i = 0; i < r->njobs; i++)
		if (psn_within(psn, npsn, job_at(r, i)->psn, job_at(r, i)->npsn))
			return true;
	return false;
}

/* Remove the jobs that a new one, for a duplicate, answers as well. */
static void absorb(struct qp_resp *r, const struct resp_job *job)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < r->njobs; i++) {
		const struct resp_job *old = job_at(r, i);

		if (psn_within(old->psn, old->npsn, job->psn, job->npsn)) {
			if (!old->dup)
				r->nfresh--;
			continue;
		}
		if (kept != i)
			*job_at(r, kept) = *old;
		kept++;
	}
	r->njobs = kept;
}

void resp_job_add(struct rocemu_qp *qp, const struct resp_job *job)
{
	struct qp_resp *r = &qp->resp;
	uint32_t age = (r->epsn - job->psn) & ROCEMU_PSN_MASK;
	uint32_t i;

	if (job->dup)
		absorb(r, job);
	else
		r->ack_owed = false; /* the response implies it */
	for (i = r->njobs; i && ((r->epsn - job_at(r, i - 1)->psn) & ROCEMU_PSN_MASK) < age; i--)
		*job_at(r, i) = *job_at(r, i - 1);
	*job_at(r, i) = *job;
	r->njobs++;
	if (!job->dup)
		r->nfresh++;
	qp_wake(qp);
}

void resp_owe_ack(struct rocemu_qp *qp)
{
	struct qp_resp *r = &qp->resp;

	if (!r->ack_owed)
		r->ack_behind = 0;
	r->ack_owed = true;
	qp_wake(qp);
}

void resp_owe_nak(struct rocemu_qp *qp, uint8_t syndrome, uint32_t psn)
{
	qp->resp.nak = syndrome;
	qp->resp.nak_psn = psn;
	qp_wake(qp);
}

void resp_owe_cnp(struct rocemu_qp *qp, rocemu_ns_t now)
{
	const rocemu_ns_t interval = qp->ep->cfg.traits.cnp_interval;
	struct qp_resp *r = &qp->resp;

	if (r->cnp_at && now < r->cnp_at + (interval ? interval : (rocemu_ns_t)CC_INTERVAL_NS))
		return;
	r->cnp_at = MAX(now, (rocemu_ns_t)1);
	r->cnp_owed = true;
	qp_wake(qp);
}

/* ---- packets ---- */

static void tx_begin(const struct rocemu_qp *qp, struct rocemu_tx *tx, struct rocemu_hdrs *h,
		     uint32_t payload_len)
{
	uint32_t pad = -payload_len & 3;

	h->opcode |= qp_service_bits(qp);
	h->pad = (uint8_t)pad;
	h->migreq = true;
	h->pkey = ROCEMU_PKEY_DEFAULT;
	h->dqpn = qp->attr.dest_qp_num;
	tx->path = &qp->path;
	tx->lqpn = qp->qpn;
	tx->payload_len = payload_len;
	tx->hdr_len = (uint8_t)rocemu_hdrs_encode(h, tx->hdr);
	tx->trailer_len = (uint8_t)(pad + ROCEMU_ICRC_LEN);
	tx->niov = 0;
	tx->again = tx->own = false;
	memset(tx->trailer, 0, sizeof(tx->trailer));
}

static void make_ack(const struct rocemu_qp *qp, struct rocemu_tx *tx, uint8_t syndrome,
		     uint32_t psn, uint32_t msn)
{
	tx->path = &qp->path;
	tx->lqpn = qp->qpn;
	tx->payload_len = 0;
	tx->hdr_len = ROCEMU_BTH_LEN + AETH_LEN;
	tx->trailer_len = ROCEMU_ICRC_LEN;
	tx->niov = 0;
	tx->again = tx->own = false;
	bth_put(tx->hdr, ROCEMU_RC_ACK | qp_service_bits(qp), BTH_MIGREQ, qp->attr.dest_qp_num,
		false, psn);
	put_be32(tx->hdr + ROCEMU_BTH_LEN, (uint32_t)syndrome << 24 | msn);
	memset(tx->trailer, 0, sizeof(tx->trailer));
}

/* Of a gap behind the first one: see resp-early.c. */
static void make_hint(struct rocemu_qp *qp, struct rocemu_tx *tx)
{
	struct qp_resp *r = &qp->resp;

	make_ack(qp, tx, ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS,
		 (r->hint_psn - RECOVER_HINT_BEHIND) & ROCEMU_PSN_MASK, r->msn);
	r->hint_owed = false;
}

/* Annex A17.9.3: BECN, PSN 0, 16 bytes of 0, and of the service "CNP" whatever the QP's is. */
static void make_cnp(const struct rocemu_qp *qp, struct rocemu_tx *tx, uint8_t *payload)
{
	struct rocemu_hdrs h = {
		.opcode = ROCEMU_CNP,
		.becn = true,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.dqpn = qp->attr.dest_qp_num,
	};

	memset(payload, 0, ROCEMU_CNP_LEN);
	tx->path = &qp->path;
	tx->lqpn = qp->qpn;
	tx->again = tx->own = false;
	tx->payload_len = ROCEMU_CNP_LEN;
	tx->hdr_len = (uint8_t)rocemu_hdrs_encode(&h, tx->hdr);
	tx->trailer_len = ROCEMU_ICRC_LEN;
	tx->iov[0] = (struct iovec){.iov_base = payload, .iov_len = ROCEMU_CNP_LEN};
	tx->niov = 1;
	memset(tx->trailer, 0, sizeof(tx->trailer));
}

static void make_atomic_ack(const struct rocemu_qp *qp, struct rocemu_tx *tx,
			    const struct resp_job *job)
{
	struct rocemu_hdrs h = {
		.opcode = ROCEMU_RC_ATOMIC_ACK,
		.psn = job->psn,
		.atomicack = job->orig,
		.aeth = {.syndrome = ROCEMU_AETH_NO_CREDITS, .msn = job->msn},
	};

	tx_begin(qp, tx, &h, 0);
}

static uint8_t read_opcode(const struct resp_job *job, bool last)
{
	if (last)
		return job->begun ? ROCEMU_RC_READ_RESP_LAST : ROCEMU_RC_READ_RESP_ONLY;
	return job->begun ? ROCEMU_RC_READ_RESP_MIDDLE : ROCEMU_RC_READ_RESP_FIRST;
}

/*
 * The payload's owner may write to it between the ICRC and the send, which spoils the packet. So a
 * small payload is copied, as are retransmissions and, for a while after a READ was repeated, all
 * packets (resp-read.c). Else a copy costs more than a rare repetition.
 */
static bool copy_pays(struct qp_resp *r, const struct resp_job *job, uint32_t len)
{
	if (len <= READ_COPY_MAX || job->dup)
		return true;
	if (r->copies > -READ_COPIES_MAX)
		r->copies--;
	return r->copies >= 0;
}

/*
 * The region is looked up for each packet, because it may be deregistered in between. @return
 * false: the memory is gone.
 */
static bool make_read_response(struct rocemu_qp *qp, struct rocemu_tx *tx, struct resp_job *job,
			       uint8_t *copy)
{
	uint32_t len = MIN(job->left, qp->mtu);
	struct rocemu_hdrs h = {
		.opcode = read_opcode(job, len == job->left),
		.psn = job->psn,
		.aeth = {.syndrome = ROCEMU_AETH_NO_CREDITS, .msn = job->msn},
	};
	uint8_t *host;

	host = mw_access(qp, resp_pd(qp, job->srqn), job->rkey, job->va, len,
			 IBV_ACCESS_REMOTE_READ);
	if (!host)
		return false;
	if (copy_pays(&qp->resp, job, len)) {
		if (unlikely(!guard_load(copy, host, len))) {
			resp_missing(qp, job->srqn, host, len);
			return false;
		}
		host = copy;
	}
	tx_begin(qp, tx, &h, len);
	tx->iov[0] = (struct iovec){.iov_base = host, .iov_len = len};
	tx->niov = len > 0;
	job->begun = true;
	job->va += len;
	job->left -= len;
	job->psn = psn_add(job->psn, 1);
	job->npsn--;
	return true;
}

/* The memory of a READ is gone before all of it was sent: drop the responses after it, too. */
static void read_lost(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_resp *r = &qp->resp;
	struct resp_job *job = job_at(r, 0);

	why_read_lost(qp, job);
	if (job->dup) { /* see repeat_read() */
		job->kind = RESP_JOB_NAK;
		job->npsn = 1;
		return;
	}
	r->njobs = r->nfresh = 0;
	r->ack_owed = false;
	resp_owe_nak(qp, ROCEMU_NAK_REM_ACCESS, job->psn);
	qp->ep->stats->access_errors++;
	if (qp->state == IBV_QPS_ERR)
		return;
	/* Not resp_fatal(): a receive under way is not to blame, it is flushed. */
	qp_event(qp, IBV_EVENT_QP_ACCESS_ERR);
	qp_fail(qp, now);
}

/* One packet of the first job. @return false: none, and the jobs have changed. */
static bool output_job(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx, uint8_t *copy)
{
	struct qp_resp *r = &qp->resp;
	struct resp_job *job = job_at(r, 0);

	switch (job->kind) {
	case RESP_JOB_READ:
		if (!make_read_response(qp, tx, job, copy)) {
			read_lost(qp, now);
			return false;
		}
		if (!job->npsn)
			job_pop(r);
		return true;
	case RESP_JOB_ATOMIC:
		make_atomic_ack(qp, tx, job);
		break;
	case RESP_JOB_NAK:
		make_ack(qp, tx, ROCEMU_NAK_REM_ACCESS, job->psn, r->msn);
		QP_COUNT_NAK(qp, sent, ROCEMU_NAK_REM_ACCESS);
		break;
	}
	job_pop(r);
	return true;
}

/*
 * The NAK owed, which acknowledges all before it, or else the ACK: one for whatever came in since
 * the last, with the newest PSN (IBTA 9.7.5.1 allows to coalesce). Not that of a READ or an atomic
 * behind it, though: only their responses may bear their PSNs. A requester that still waits for
 * those takes such an ACK for their loss at best; rxe takes it for the answer, or breaks the
 * connection.
 */
HOT unsigned resp_output_ack(struct rocemu_qp *qp, struct rocemu_tx *tx)
{
	struct qp_resp *r = &qp->resp;

	if (r->nak) {
		make_ack(qp, tx, r->nak, r->nak_psn, r->msn);
		QP_COUNT_NAK(qp, sent, r->nak);
	} else if (r->ack_owed) {
		make_ack(qp, tx, ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS, r->ack_psn, r->msn);
		qp->ep->stats->acks_sent++;
	} else {
		return 0;
	}
	r->nak = 0;
	r->ack_owed = false;
	return 1;
}

HOT unsigned resp_output(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx, unsigned n,
			 unsigned first)
{
	unsigned i = 0;

	if (n && qp->resp.cnp_owed) {
		make_cnp(qp, &tx[i++], ep_scratch(qp->ep, first));
		qp->resp.cnp_owed = false;
		QP_COUNT(qp, cnps_sent);
	}
	while (i < n && qp->resp.njobs)
		if (output_job(qp, now, &tx[i], ep_scratch(qp->ep, first + i)))
			i++;
	if (i < n)
		i += resp_output_ack(qp, &tx[i]);
	if (i < n && qp->resp.hint_owed)
		make_hint(qp, &tx[i++]);
	return i;
}

bool resp_output_is_acks(const struct rocemu_qp *qp)
{
	return resp_owes_ack_at_most(&qp->resp) && qp->resp.ack_owed;
}
