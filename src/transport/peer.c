/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote lanes, and the bytes in flight to each, limited by cc.c. Acknowledgements release further
 * packets; there is no pacing by time.
 */
#include "transport/peer.h"

#include <stdlib.h>
#include <string.h>

#include "base/share.h"
#include "base/util.h"
#include "transport/qp.h"

/** Is the address this host's? Addresses of other interfaces are not known. */
static bool is_nearby(const struct rocemu_ep *ep, const struct rocemu_gid *gid)
{
	static const struct rocemu_gid loopback6 = {.raw = {[15] = 1}};

	return ep_find_gid(ep, gid) >= 0 || (rocemu_gid_is_ipv4(gid) && gid->raw[12] == 127) ||
	       rocemu_gid_equal(gid, &loopback6);
}

/** Secret: another host may choose its addresses. */
static uint64_t key_of(const struct rocemu_ep *ep, const struct rocemu_gid *gid, uint16_t slot)
{
	uint64_t words[3] = {0, 0, slot};

	memcpy(words, gid->raw, sizeof(gid->raw));
	return prf_hash(&ep->prf, words, ARRAY_LEN(words));
}

uint8_t peer_cell(const struct rocemu_ep *ep, const struct rocemu_gid *gid)
{
	return (uint8_t)(key_of(ep, gid, 0) % SHARE_CELLS);
}

struct peer *peer_get(struct rocemu_ep *ep, const struct rocemu_gid *gid, uint32_t dqpn)
{
	uint16_t slot = (uint16_t)(dqpn >> ROCEMU_QPN_INDEX_BITS);
	const uint64_t key = key_of(ep, gid, slot);
	struct peer *p;

	hash_for_each (known, struct peer, node, &ep->peers, key) {
		p = known;
		if (p->slot == slot && rocemu_gid_equal(&p->gid, gid)) {
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
	p->ep = ep;
	p->nearby = is_nearby(ep, gid);
	cc_init(&p->cc,
		p->nearby && ep->cfg.window_nearby ? ep->cfg.window_nearby : ep->cfg.window_bytes,
		p->nearby);
	/* The lanes of a host have buffers of one size; the READ budget is half of this lane's. */
	if (p->nearby)
		cc_set_buffer(&p->cc, 2ull * ep->cfg.read_budget);
	hash_add(&ep->peers, &p->node, key);
	return p;
}

void peer_put(struct peer *p)
{
	if (--p->refs)
		return;
	hash_remove(&p->ep->peers, &p->node);
	free(p);
}

void peer_use_mtu(struct peer *p, uint32_t mtu)
{
	p->cc.unit = p->refs == 1 ? peer_cost(mtu) : MAX(p->cc.unit, peer_cost(mtu));
}

void peer_block(struct peer *p, struct list *node)
{
	if (!list_linked(node))
		list_append(&p->blocked, node);
}

void peer_wake(struct peer *p)
{
	struct list *n;

	while ((n = list_first(&p->blocked))) {
		struct rocemu_qp *qp = list_entry(n, struct rocemu_qp, req.peer_link);
		enum req_hold hold = req_hold(qp);

		if (hold == REQ_HOLD_WINDOW)
			break;
		if (hold == REQ_GO || hold == REQ_FAULT || hold == REQ_HOLD_BUDGET) {
			qp_wake(qp);
			break;
		}
		/* It now waits for something else: without this nothing would wake the next one. */
		list_remove(n);
	}
}

void peer_leave_line(struct peer *p, struct list *node)
{
	list_remove(node);
	peer_wake(p);
}

void peer_on_ack(struct peer *p, rocemu_ns_t now, uint64_t cost)
{
	cc_on_ack(&p->cc, now, cost, p->inflight);
	p->inflight -= cost;
	peer_wake(p);
}

void peer_on_forget(struct peer *p, uint64_t cost)
{
	p->inflight -= cost;
	peer_wake(p);
}

void peer_on_rtt(struct peer *p, rocemu_ns_t now, rocemu_ns_t rtt)
{
	(void)now;
	cc_on_rtt(&p->cc, rtt);
}

bool peer_heard_since(const struct peer *p, rocemu_ns_t then)
{
	return p->cc.heard_at > then;
}

void peer_on_cnp(struct peer *p, rocemu_ns_t now)
{
	cc_on_cnp(&p->cc, now);
}

void peer_on_loss(struct peer *p, rocemu_ns_t now)
{
	cc_on_loss(&p->cc, now);
}
