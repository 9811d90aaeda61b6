/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The congestion window of a remote lane: halved when something was lost, grown by about one full
 * packet per window that was acknowledged. It does not pace and keeps no clock: acknowledgements
 * are what releases the next packets.
 */
#include "transport/peer.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "transport/qp.h"

enum {
	/* What a packet costs a socket buffer on Linux beyond its payload, about. */
	COST_OVERHEAD = 512,
	COST_ROUND = 256,
	COST_FULL = ROCEMU_MAX_MTU + COST_OVERHEAD,
	/* Full packets that may always be under way: fewer would not show a loss by a NAK. */
	FLOOR_PACKETS = 4,
};

uint32_t peer_cost(uint32_t payload)
{
	return ((payload + COST_ROUND - 1) & ~(uint32_t)(COST_ROUND - 1)) + COST_OVERHEAD;
}

static uint64_t peer_floor(const struct peer *p)
{
	return MIN(p->max, (uint64_t)FLOOR_PACKETS * COST_FULL);
}

struct peer *peer_get(struct rocemu_ep *ep, const struct rocemu_gid *gid, uint32_t dqpn)
{
	uint16_t slot = (uint16_t)(dqpn >> ROCEMU_QPN_INDEX_BITS);
	struct peer *p;

	list_for_each (n, &ep->peers) {
		p = list_entry(n, struct peer, link);
		if (p->slot == slot && !memcmp(&p->gid, gid, sizeof(*gid))) {
			p->refs++;
			return p;
		}
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	list_init(&p->blocked);
	p->gid = *gid;
	p->slot = slot;
	p->refs = 1;
	p->max = p->cwnd = ep->cfg.window_bytes;
	list_append(&ep->peers, &p->link);
	return p;
}

void peer_put(struct peer *p)
{
	if (--p->refs)
		return;
	list_remove(&p->link);
	free(p);
}

bool peer_may_send(const struct peer *p, uint64_t cost)
{
	return p->inflight + cost <= p->cwnd;
}

void peer_on_send(struct peer *p, uint64_t cost)
{
	p->inflight += cost;
}

void peer_block(struct peer *p, struct list *node)
{
	if (!list_linked(node))
		list_append(&p->blocked, node);
}

/** As many of those that wait longest as there is room for, at a full packet each. */
static void peer_wake(struct peer *p)
{
	uint64_t used = p->inflight;
	struct list *n;

	while (used < p->cwnd && (n = list_first(&p->blocked))) {
		struct rocemu_qp *qp = list_entry(n, struct rocemu_qp, req.peer_link);
		enum req_hold hold = req_hold(qp);

		if (hold == REQ_HOLD_WINDOW)
			break;
		list_remove(n);
		/* One that waits for something else by now must not take the turn: nothing would wake the next. */
		if (hold != REQ_GO && hold != REQ_FAULT && hold != REQ_HOLD_BUDGET)
			continue;
		qp_wake(qp);
		used += COST_FULL;
	}
}

static void peer_release(struct peer *p, uint64_t cost)
{
	p->inflight -= cost;
	p->recover -= MIN(p->recover, cost);
}

void peer_on_ack(struct peer *p, rocemu_ns_t now, uint64_t cost)
{
	(void)now;
	peer_release(p, cost);
	if (p->cwnd < p->max)
		p->cwnd = MIN(p->max, p->cwnd + cost * COST_FULL / p->cwnd);
	peer_wake(p);
}

void peer_on_forget(struct peer *p, uint64_t cost)
{
	peer_release(p, cost);
	peer_wake(p);
}

void peer_on_rtt(struct peer *p, rocemu_ns_t now, rocemu_ns_t rtt)
{
	(void)p;
	(void)now;
	(void)rtt;
}

void peer_on_cnp(struct peer *p, rocemu_ns_t now)
{
	peer_on_loss(p, now);
}

void peer_on_loss(struct peer *p, rocemu_ns_t now)
{
	(void)now;
	if (p->recover)
		return;
	p->cwnd = MAX(p->cwnd / 2, peer_floor(p));
	p->recover = p->inflight;
}
