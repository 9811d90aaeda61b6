/* SPDX-License-Identifier: BSD-2-Clause */
/* What a world checks that <rocemu/endpoint.h> does not show. See world.h. */
#include "world.h"

#include <stdio.h>

#include "transport/peer.h"
#include "transport/qp.h"

static uint64_t inflight_of(const struct world *w, const struct peer *p)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < 2 * w->nconns; i++) {
		const struct world_side *s = &w->conns[i / 2].side[i % 2];

		if (s->qp && s->qp->req.peer == p)
			sum += s->qp->req.inflight + s->qp->req.kept;
	}
	return sum;
}

static void check_peers(const struct world *w, const struct rocemu_ep *ep, unsigned host)
{
	hash_for_all (p, const struct peer, node, &ep->peers) {
		uint64_t sum = inflight_of(w, p);

		if (sum != p->inflight)
			world_fail(w, "host %u: the window of a peer holds %llu, its QPs %llu",
				   host, (unsigned long long)p->inflight, (unsigned long long)sum);
	}
}

static void check_qp(const struct world *w, const struct rocemu_qp *qp, unsigned host)
{
	const struct qp_req *req = &qp->req;
	int32_t sent = rocemu_psn_diff(req->send_psn, req->acked_psn);
	int32_t ever = rocemu_psn_diff(req->next_psn, req->send_psn);

	if (!qp_is_reliable(qp) || qp->state != IBV_QPS_RTS)
		return;
	if (sent < 0 || ever < 0)
		world_fail(w, "host %u, QP %#x: acked %u, send %u, next %u", host, qp->qpn,
			   req->acked_psn, req->send_psn, req->next_psn);
	if (sent == 0 && req->inflight)
		world_fail(w, "host %u, QP %#x: %llu bytes in flight in no packet", host, qp->qpn,
			   (unsigned long long)req->inflight);
	if (req->rd_atomic_out > ROCEMU_MAX_RD_ATOMIC)
		world_fail(w, "host %u, QP %#x: %u READs in flight", host, qp->qpn,
			   req->rd_atomic_out);
}

#if __has_include("transport/keep.h")
#include "transport/keep.h"

/** Each slot is free or some QP's, and what a QP keeps is early. */
static void check_keep(const struct world *w, const struct rocemu_ep *ep, unsigned host)
{
	uint32_t used = 0;

	for (unsigned i = 0; i < 2 * w->nconns; i++) {
		const struct world_side *s = &w->conns[i / 2].side[i % 2];

		if (!s->qp || s->host != host)
			continue;
		list_for_each (n, &s->qp->resp.early.slots) {
			const struct keep_slot *slot = list_entry(n, struct keep_slot, link);

			used++;
			if (rocemu_psn_diff(slot->psn, s->qp->resp.epsn) <= 0)
				side_fail(s, "keeps packet %u, expects %u", slot->psn,
					  s->qp->resp.epsn);
		}
	}
	if (used + ep->keep.nfree != KEEP_SLOTS)
		world_fail(w, "host %u: QPs keep %u packets, %u are free", host, used,
			   ep->keep.nfree);
}
#else
static void check_keep(const struct world *w, const struct rocemu_ep *ep, unsigned host)
{
	(void)w;
	(void)ep;
	(void)host;
}
#endif

#if __has_include("transport/read-budget.h")
/** What is out is what the QPs have out. */
static void check_read_budget(const struct world *w, const struct rocemu_ep *ep, unsigned host)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < 2 * w->nconns; i++) {
		const struct world_side *s = &w->conns[i / 2].side[i % 2];

		if (s->qp && s->host == host)
			sum += s->qp->req.read_out;
	}
	if (sum != ep->read_out)
		world_fail(w, "host %u: %llu bytes of READ responses are out, its QPs have %llu",
			   host, (unsigned long long)ep->read_out, (unsigned long long)sum);
}
#else
static void check_read_budget(const struct world *w, const struct rocemu_ep *ep, unsigned host)
{
	(void)w;
	(void)ep;
	(void)host;
}
#endif

void side_print_inside(const struct world_side *s)
{
	const struct rocemu_qp *qp = s->qp;

	if (!qp)
		return;
	fprintf(stderr,
		"state %d, acked %u, send %u, next %u, hold %d, in flight %llu, fetches %u, "
		"retries left %u, "
		"deadline %.3f us, timer %s, expects %u\n",
		qp->state, qp->req.acked_psn, qp->req.send_psn, qp->req.next_psn, req_hold(qp),
		(unsigned long long)qp->req.inflight, qp->req.rd_atomic_out, qp->req.retry_left,
		(double)qp->req.deadline / 1e3, timer_running(&qp->timer) ? "runs" : "stands",
		qp->resp.epsn);
	if (qp->req.peer)
		fprintf(stderr, "all of its lane have %llu in flight\n",
			(unsigned long long)qp->req.peer->inflight);
}

void world_check_inside(struct world *w)
{
	for (unsigned h = 0; h < w->nhosts; h++) {
		const struct rocemu_ep *ep = w->fabric->host[h].ep;

		check_peers(w, ep, h);
		check_keep(w, ep, h);
		check_read_budget(w, ep, h);
		for (unsigned i = 0; i < 2 * w->nconns; i++) {
			const struct world_side *s = &w->conns[i / 2].side[i % 2];

			if (s->qp && s->host == h)
				check_qp(w, s->qp, h);
		}
	}
}

void world_check_empty(struct world *w)
{
	world_check_inside(w);
	for (unsigned h = 0; h < w->nhosts; h++) {
		const struct rocemu_ep *ep = w->fabric->host[h].ep;

		world_assert(w, ep->peers.n == 0);
		world_assert(w, list_empty(&ep->tx_ready));
		world_assert(w, list_empty(&ep->tx_pending));
		world_assert(w, rocemu_ep_deadline(ep) == ROCEMU_NEVER);
	}
}
