/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receives by rings in shared memory. The sender may write to a packet while it is read: its first
 * bytes are copied, and the headers are read there; the payload is read once, from the ring into
 * its place.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/util.h"
#include "engine/lane-shm.h"
#include "engine/memfault.h"
#include "wire/ip.h"
#include "wire/opcode.h"

enum {
	TURN = 64,		  /* packets of one ring before the others, and the caller */
	RELEASE_BYTES = 16 << 10, /* the sender gets room back while it waits for more */
	FLOW_LABEL_MASK = 0xfffff,
};

/* A whole packet with a right ICRC, for the capture and for fault injection. */
static void complete(struct rocemu_dgram *d, uint8_t *copy, const uint8_t *packet, bool sealed)
{
	const struct rocemu_icrc_ctx ctx = {
		.src = d->src,
		.dst = d->dst,
		.sport = d->sport,
		.dport = d->dport,
		.ip_frag = IP_FLAG_DF,
	};
	const size_t covered = d->len - ROCEMU_ICRC_LEN;

	memcpy(copy, packet, d->len);
	if (!sealed)
		put_le32(copy + covered, rocemu_icrc(&ctx, copy, covered, NULL, 0, NULL, 0));
}

static void take(struct lane *l, const struct shm_rx *r, const struct shm_record *rec,
		 const uint8_t *packet, rocemu_ns_t now) REQUIRES(l);
HOT static void take(struct lane *l, const struct shm_rx *r, const struct shm_record *rec,
		     const uint8_t *packet, rocemu_ns_t now)
{
	uint8_t *copy = l->rx.buf;
	struct rocemu_dgram d = {
		.data = copy,
		.len = rec->len,
		.src = r->src,
		.dst = r->dst,
		.sport = rec->sport,
		.dport = ROCEMU_UDP_PORT,
		.tclass = rec->tclass,
		.hop_limit = rec->hop_limit,
		.flow_label = rec->flow_label & FLOW_LABEL_MASK,
		.ip_id_known = true,
	};

	if (unlikely(rec->sealed || l->tap || l->faulty_rx)) {
		complete(&d, copy, packet, rec->sealed);
	} else if (rec->len <= SHM_RING_LEAST) {
		memcpy(copy, packet, SHM_RING_LEAST); /* of a known length: a few moves */
		d.body = copy;
	} else if (rec->len <= ROCEMU_MAX_HDR_LEN) {
		memcpy(copy, packet, rec->len);
		d.body = copy;
	} else {
		memcpy(copy, packet, ROCEMU_MAX_HDR_LEN);
		d.body = packet;
	}
	/* Headers are read from the copy: the compiler must not read the ring again. */
	__asm__ volatile("" : : : "memory");
	if (unlikely(lane_is_misrouted(l, copy, d.len))) {
		l->stats->rx_misrouted++;
		return;
	}
	l->stats->rx_rings++;
	if (opcode_ops(copy[0]) & ROCEMU_OP_REQUEST)
		gather_request_seen(&l->gather);
	lane_input(l, now, &d);
}

static void kill_ring(struct lane *l, struct shm_rx *r) REQUIRES(l);
static void kill_ring(struct lane *l, struct shm_rx *r)
{
	char from[ADDR_TEXT_LEN];

	r->dead = true;
	log_info("%s: a ring from %s violates the protocol: packets come by UDP", l->device,
		 addr_gid_text(&r->src, from));
	lane_thread_request(l, LANE_REQ_RINGS);
}

static unsigned take_turn(struct lane *l, struct shm_rx *r, rocemu_ns_t now) REQUIRES(l);
HOT static unsigned take_turn(struct lane *l, struct shm_rx *r, rocemu_ns_t now)
{
	struct shm_record rec;
	const uint8_t *packet;
	unsigned n = 0;
	int ret = 0;

	while (n < TURN && (ret = shm_ring_next(&r->ring, &rec, &packet)) > 0) {
		if (!n) {
			memfault_thread();
			l->rx.octets = 0;
			l->rx.requests = l->rx.mid_message = false;
		}
		n++;
		l->rx.octets += rec.len;
		take(l, r, &rec, packet, now);
		shm_ring_done(&r->ring, &rec);
		if (r->ring.pos - r->ring.told >= RELEASE_BYTES)
			shm_ring_release(&r->ring);
	}
	shm_ring_release(&r->ring);
	if (unlikely(ret < 0))
		kill_ring(l, r);
	return n;
}

bool lane_shm_is_quiet(const struct lane *l)
{
	const struct lane_shm *s = l->shm;

	for (unsigned i = 0; i < s->nrx; i++)
		if (!s->rx[i]->dead && shm_ring_filled(&s->rx[i]->ring))
			return false;
	return s->nrx;
}

unsigned lane_shm_rx(struct lane *l, rocemu_ns_t now)
{
	unsigned n = 0;

	for (unsigned i = 0; i < l->shm->nrx; i++)
		if (likely(!l->shm->rx[i]->dead))
			n += take_turn(l, l->shm->rx[i], now);
	return n;
}

void lane_shm_rx_all(struct lane *l, struct shm_rx *r, rocemu_ns_t now)
{
	/* It holds no more packets than that, unless its sender continues. */
	for (unsigned i = 0; i < SHM_RING_DATA / SHM_RING_ALIGN / TURN && !r->dead; i++)
		if (take_turn(l, r, now) < TURN)
			break;
}

bool lane_shm_starts(struct lane *l)
{
	struct lane_shm *s = l->shm;
	bool starts = false;

	for (unsigned i = 0; s->fresh && i < s->nrx; i++) {
		struct shm_rx *r = s->rx[i];
		struct shm_record rec;
		const uint8_t *packet;

		if (r->started || r->dead || shm_ring_next(&r->ring, &rec, &packet) <= 0)
			continue;
		r->started = starts = true;
		s->fresh--;
	}
	return starts;
}
