/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs, and what is checked of each packet to one (IBTA 9.6.1). */
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"
#include "responder.h"

enum {
	FIRST_QPN = 0x1001,
	QPN_STEP = 0x11,
	FIRST_SPORT = 0xc100,
	SPORTS = 0x3e00,
	ECT0 = 2,
	ECN_MASK = 3,
	CE = 3,
	CNP_PAUSE_NS = 50000,
	PKEY_MASK = 0x7fff,
	PKEY_FULL = 0x8000,
};

static struct qp *qps[QPS]; /* owned; NULL: never used */
static unsigned made;

static struct qp *find(uint32_t qpn)
{
	for (unsigned i = 0; i < QPS; i++)
		if (qps[i] && qps[i]->used && qps[i]->qpn == qpn)
			return qps[i];
	return NULL;
}

struct qp *qp_new(enum qp_kind kind, const struct rocemu_gid *peer, uint32_t peer_qpn)
{
	const unsigned i = made % QPS;
	struct qp *qp = qps[i] ? qps[i] : malloc(sizeof(*qp));

	if (!qp)
		return NULL;
	if (qps[i] && qp->used)
		qp_destroy(qp);
	qps[i] = qp;
	memset(qp, 0, offsetof(struct qp, buffer));
	qp->kind = kind;
	qp->peer = *peer;
	qp->peer_qpn = peer_qpn;
	qp->mtu = 1024;
	qp->qpn = FIRST_QPN + QPN_STEP * made;
	qp->sport = (uint16_t)(FIRST_SPORT + made % SPORTS);
	qp->fd = net_sender(qp->sport, mutant(M_ECT) ? 0 : ECT0);
	made++;
	qp->used = qp->fd >= 0;
	return qp->used ? qp : NULL;
}

void qp_destroy(struct qp *qp)
{
	if (qp->used)
		close(qp->fd);
	qp->used = false;
}

void qp_error(struct qp *qp)
{
	struct requester *s = &qp->req;
	struct responder *r = &qp->resp;

	qp->error = true;
	s->deadline = 0;
	for (; s->count; s->count--, s->first = (s->first + 1) % WRS)
		if (!mutant(M_NO_FLUSH))
			qp->app.ended(qp, false, s->wr[s->first].id, IBV_WC_WR_FLUSH_ERR);
	for (; r->recv_count; r->recv_count--, r->recv_first = (r->recv_first + 1) % RECVS)
		qp->app.ended(qp, true, r->recv[r->recv_first].id, IBV_WC_WR_FLUSH_ERR);
}

void qp_post_recv(struct qp *qp, const struct receive *posted)
{
	struct responder *r = &qp->resp;

	if (qp->error)
		qp->app.ended(qp, true, posted->id, IBV_WC_WR_FLUSH_ERR);
	else if (r->recv_count < RECVS)
		r->recv[(r->recv_first + r->recv_count++) % RECVS] = *posted;
}

void qp_scatter(const struct receive *r, uint32_t offset, const uint8_t *data, uint32_t len)
{
	for (unsigned i = 0; i < r->pieces && len; i++) {
		const struct piece *to = &r->piece[mutant(M_SCATTER) ? 0 : i];
		const uint32_t n = offset < to->len ? MIN(len, to->len - offset) : 0;

		if (n)
			memcpy(to->at + offset, data, n);
		offset = n ? 0 : offset - to->len;
		data += n;
		len -= n;
	}
}

static const struct region *region_of(const struct qp *qp, uint32_t rkey)
{
	for (unsigned i = 0; i < qp->regions; i++)
		if (qp->region[i].key == rkey && rkey)
			return &qp->region[i];
	return NULL;
}

static bool in_bounds(const struct region *m, uint64_t va, uint64_t len)
{
	if (mutant(M_KEY_BOUNDS))
		return va >= m->va && va < m->va + m->len;
	return va >= m->va && va - m->va <= m->len && len <= m->len - (va - m->va);
}

uint8_t *qp_memory(struct qp *qp, uint32_t rkey, uint64_t va, uint64_t len, unsigned right)
{
	const struct region *m = region_of(qp, rkey);

	if (!len && !mutant(M_KEY_ZERO))
		return qp->buffer;
	if (!m && qp->regions && mutant(M_KEY_UNKNOWN))
		m = &qp->region[0];
	if (!m || !in_bounds(m, va, len) || (m->other_pd && !mutant(M_KEY_PD)) ||
	    (!(m->access & right) && !mutant(M_KEY_RIGHTS)))
		return NULL;
	return m->at + (va - m->va);
}

void qp_send(struct qp *qp, struct rocemu_hdrs *h, const uint8_t *payload, uint32_t len)
{
	if (mutant(M_PORT_EACH) && rocemu_opcode_ops(h->opcode) & ROCEMU_OP_FIRST) {
		close(qp->fd);
		qp->fd = net_sender(++qp->sport, ECT0);
	}
	h->pkey = ROCEMU_PKEY_DEFAULT;
	h->dqpn = qp->peer_qpn + mutant(M_DQPN_SENT);
	h->migreq = h->opcode != ROCEMU_CNP && !mutant(M_MIGREQ_SENT);
	net_send(qp->fd, qp->sport, &qp->peer, ROCEMU_UDP_PORT, h, payload, len);
}

/** Annex A17.9.3. One for several marked packets is allowed. */
static void send_cnp(struct qp *qp, uint64_t now)
{
	static const uint8_t zeros[ROCEMU_CNP_LEN];
	static const uint8_t ones[ROCEMU_CNP_LEN] = {[3] = 1};
	struct rocemu_hdrs h = {.opcode = ROCEMU_CNP, .becn = !mutant(M_CNP_BECN)};

	if (qp->cnp_at && now < qp->cnp_at + CNP_PAUSE_NS)
		return;
	qp->cnp_at = now;
	if (mutant(M_CNP_PSN))
		h.psn = 1;
	qp_send(qp, &h, mutant(M_CNP_PAYLOAD) ? ones : zeros,
		mutant(M_CNP_LEN) ? 0 : ROCEMU_CNP_LEN);
}

static bool service_fits(const struct qp *qp, const struct input *in)
{
	static const enum rocemu_service of[] = {
		[QP_RC] = ROCEMU_SVC_RC, [QP_UC] = ROCEMU_SVC_UC, [QP_UD] = ROCEMU_SVC_UD};
	const enum rocemu_service s = rocemu_opcode_service(in->p.h.opcode);

	return s == of[qp->kind] || s == ROCEMU_SVC_CNP || mutant(M_IN_SERVICE);
}

/** IBTA 9.6.1.1.3: the low 15 bits are equal, and one of both is a full member. Ours is. */
static bool pkey_fits(const struct input *in)
{
	return (in->p.h.pkey & PKEY_MASK) == PKEY_MASK || mutant(M_IN_PKEY);
}

static bool source_fits(const struct qp *qp, const struct input *in)
{
	return qp->kind == QP_UD || qp->deaf || rocemu_gid_equal(&qp->peer, &in->src) ||
	       mutant(M_IN_SOURCE);
}

/** Rules that there are not: mutants. */
static bool refused_by_mutant(struct qp *qp, const struct input *in)
{
	if (!qp->peer_sport)
		qp->peer_sport = in->sport;
	if (mutant(M_PORT_CHANGE) && qp->peer_sport != in->sport)
		return true;
	if (mutant(M_PAD_BYTES) && in->p.h.pad && in->data[in->len - ROCEMU_ICRC_LEN - 1])
		return true;
	if (mutant(M_CE_DROPPED) && (in->tos & ECN_MASK) == CE)
		return true;
	return mutant(M_MIGREQ_TAKEN) && !in->p.h.migreq;
}

/** Of which packets a CNP is due: marked ones that are valid (annex A17.9.2). */
static void congestion(struct qp *qp, const struct input *in)
{
	const bool marked = (in->tos & ECN_MASK) == CE;

	if (qp->kind == QP_UD || qp->error || mutant(M_CNP))
		return;
	if (marked || mutant(M_CNP_ALWAYS))
		send_cnp(qp, net_now());
}

static void deliver(struct qp *qp, const struct input *in)
{
	const uint32_t ops = rocemu_opcode_ops(in->p.h.opcode);

	if (ops & ROCEMU_OP_CNP) {
		if (mutant(M_CNP_FATAL))
			qp_error(qp);
		return;
	}
	congestion(qp, in);
	if (qp->quiet && !qp->established && !mutant(M_COMM_EST))
		qp->app.event(qp, IBV_EVENT_COMM_EST);
	qp->established = true;
	if (qp->app.conn)
		cm_established(qp->app.conn);
	if (qp->kind == QP_UC)
		uc_input(qp, in);
	else if (qp->kind == QP_UD)
		ud_input(qp, in);
	else if (ops & ROCEMU_OP_REQUEST)
		resp_input(qp, in);
	else if (!qp->error)
		req_input(qp, in);
}

/** A mutant's. */
static void all_in_error(void)
{
	for (unsigned i = 0; i < QPS; i++)
		if (qps[i] && qps[i]->used)
			qp_error(qps[i]);
}

static struct input early; /* of M_INIT */

static void keep_early(const struct input *in)
{
	static uint8_t payload[ROCEMU_MAX_MTU];

	if (!mutant(M_INIT))
		return;
	early = *in;
	early.p.payload = memcpy(payload, in->p.payload, in->p.payload_len);
}

void qp_replay(void)
{
	if (early.len)
		qp_input(&early);
	early.len = 0;
}

bool qp_input(const struct input *in)
{
	struct qp *qp = find(in->p.h.dqpn);

	if (!qp && mutant(M_CNP_FATAL) && in->p.h.opcode == ROCEMU_CNP)
		all_in_error();
	if (!qp)
		return false;
	if (mutant(M_CE_INVALID))
		congestion(qp, in);
	if (!service_fits(qp, in) || !pkey_fits(in) || !source_fits(qp, in) ||
	    refused_by_mutant(qp, in))
		return true;
	if (qp->deaf) {
		keep_early(in);
		return true;
	}
	if (!qp->error || mutant(M_ERROR_ANSWERS))
		deliver(qp, in);
	return true;
}

uint64_t qp_timers(uint64_t now)
{
	uint64_t next = 0;

	for (unsigned i = 0; i < QPS; i++) {
		struct qp *qp = qps[i];

		if (!qp || !qp->used)
			continue;
		if (qp->req.deadline && qp->req.deadline <= now)
			req_timer(qp, now);
		if (qp->req.deadline && (!next || qp->req.deadline < next))
			next = qp->req.deadline;
	}
	return next;
}
