/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of the peer that a scenario writes, and what it would not accept. */
#include <string.h>

#include "world.h"

#include "scenario/peer.h"
#include "transport/qp.h"

enum { TTL = 61, UNUSED_SPORT = 0xc123 };

static struct scenario_peer peer_of(const struct world *w)
{
	const struct end *e = w->end[0];
	struct scenario_peer peer = {
		.setup = &w->setup,
		.gid = peer_gid(w, 0),
		.device_gid = e->gid,
		.qpn = PEER_QPN,
		.device_qpn = e->qpn,
		.device_srqn = e->srqs ? e->srqn[e->srqs - 1] : 0,
		.device_rkey = e->rkey[SCENARIO_MEM],
		.ip_id_known = true,
		.sport = e->qp->path.sport ? e->qp->path.sport : UNUSED_SPORT,
	};

	for (unsigned i = 0; i < SCENARIO_AREAS; i++)
		peer.device_va[i] = area_iova(i);
	return peer;
}

/** The packet was written over by its sender after its headers had been copied. */
static void share(struct rocemu_dgram *d, uint8_t *packet, uint8_t *copy, size_t hdr_len)
{
	memset(copy, 0x5a, ROCEMU_MAX_PACKET);
	memcpy(copy, packet, hdr_len);
	memset(packet, 0xff, hdr_len);
	d->data = copy;
	d->body = packet;
}

void peer_sends(struct world *w, const struct scenario_packet *given)
{
	const struct scenario_peer peer = peer_of(w);
	struct scenario_packet p = *given;
	struct end *e = w->end[0];
	uint8_t packet[ROCEMU_MAX_PACKET], copy[ROCEMU_MAX_PACKET];
	struct rocemu_dgram d = {.data = packet, .dport = ROCEMU_UDP_PORT, .hop_limit = TTL};
	size_t hdr_len;

	scenario_peer_complete(&peer, &p);
	d.len = (uint32_t)scenario_peer_encode(&peer, &p, packet, &hdr_len);
	d.src = scenario_peer_source(&peer, &p);
	d.dst = e->gid;
	d.sport = p.sport;
	d.tclass = (uint8_t)(p.dscp << 2 | p.ecn);
	d.congested = p.congested;
	if (p.by_memory)
		share(&d, packet, copy, hdr_len);
	say_drop(e, rocemu_ep_input(e->ep, w->now, &d));
}

uint32_t flatten(struct rocemu_tx *t, uint8_t *to)
{
	const uint32_t len = rocemu_tx_len(t);

	rocemu_tx_seal(t, 0);
	memcpy(to, t->hdr, t->hdr_len);
	to += t->hdr_len;
	for (unsigned i = 0; i < t->niov; i++) {
		memcpy(to, t->iov[i].iov_base, t->iov[i].iov_len);
		to += t->iov[i].iov_len;
	}
	memcpy(to, t->trailer, t->trailer_len);
	return len;
}

/** Pieces are not empty, and all of them are the payload. */
static bool pieces_fit(const struct rocemu_tx *t)
{
	size_t sum = 0;

	for (unsigned i = 0; i < t->niov; i++) {
		if (!t->iov[i].iov_len)
			return false;
		sum += t->iov[i].iov_len;
	}
	return sum == t->payload_len;
}

const char *packet_fault(const struct world *w, const struct rocemu_tx *t, const uint8_t *data,
			 uint32_t len, const struct rocemu_hdrs *h)
{
	const struct scenario_peer peer = peer_of(w);

	if (!rocemu_gid_equal(&t->path->dgid, &peer.gid))
		return " WITH ANOTHER ADDRESS";
	if (t->lqpn != rocemu_qp_num(w->end[0]->qp))
		return " OF ANOTHER QP";
	if (!pieces_fit(t))
		return " OF WRONG PIECES";
	return scenario_packet_fault(&peer, t->path->sport, data, len, h);
}
