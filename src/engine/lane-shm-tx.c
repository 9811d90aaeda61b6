/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends by rings in shared memory: selects the packets and writes them. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"
#include "engine/lane-shm.h"
#include "engine/poller.h"
#include "engine/sysmsg.h"
#include "wire/bth.h"

#define RECENT_NS 10000000u /* a ring that UC and UD have not used for this long is not checked */

enum {
	PUBLISH_BYTES = 16 << 10, /* the receiver starts while the rest is copied */
	FETCH_LEAST = 1 << 10,	  /* bytes of a packet: see fetch_ahead() */
	/* Reserve for packets of an output call beyond its credits, and for responses. */
	ROOM_RESERVE = 192 << 10,
	STEADY_BYTES = 64 << 10, /* taken within SHM_STILL_NS, at least, or it stands still */
	ROOM_FIRST = 64 << 10,	 /* to a ring that is not checked: once used, it is */
};

static bool is_same(const struct shm_tx *t, const struct rocemu_path *path)
{
	return rocemu_gid_equal(&t->dst, &path->dgid) && rocemu_gid_equal(&t->src, &path->sgid);
}

static struct shm_tx *tx_new(struct lane *l, uint16_t slot)
{
	struct shm_tx *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->lane = l;
	t->slot = slot;
	t->io.fd = -1;
	l->shm->tx[slot] = t;
	return t;
}

static struct shm_remote *remote_at(struct lane *l, const struct rocemu_gid *gid)
{
	return &l->shm->remote[(gid->raw[15] ^ gid->raw[14]) & (SHM_REMOTES - 1)];
}

void lane_shm_set_remote(struct lane *l, const struct rocemu_gid *gid)
{
	*remote_at(l, gid) = (struct shm_remote){.gid = *gid, .until = lane_now() + SHM_RETRY_NS};
}

static bool is_remote(struct lane *l, const struct rocemu_gid *gid, rocemu_ns_t now)
{
	const struct shm_remote *r = remote_at(l, gid);

	return now < r->until && rocemu_gid_equal(&r->gid, gid);
}

/* The thread is to offer a ring, unless it did so a moment ago. */
static void want(struct lane *l, struct shm_tx *t, const struct rocemu_path *path) REQUIRES(l);
static void want(struct lane *l, struct shm_tx *t, const struct rocemu_path *path)
{
	const rocemu_ns_t now = lane_now();

	if (now < t->retry_at || is_remote(l, &path->dgid, now))
		return;
	t->src = path->sgid;
	t->dst = path->dgid;
	t->scope_id = 0;
	for (unsigned i = 0; i < l->ngids; i++)
		if (l->gids[i].index == path->sgid_index && addr_gid_is_link_local(&t->dst))
			t->scope_id = l->gids[i].scope_id;
	t->state = SHM_TX_WANTED;
	l->shm->wanted = true;
	lane_thread_request(l, LANE_REQ_RINGS);
}

/*
 * There is no open ring to that slot, or only one to another address of it. Slot 0 is the agent's.
 * @return the ring, if it is just being opened.
 */
static struct shm_tx *look(struct lane *l, const struct rocemu_path *path, uint32_t dqpn)
	REQUIRES(l);
static struct shm_tx *look(struct lane *l, const struct rocemu_path *path, uint32_t dqpn)
{
	const uint16_t slot = (uint16_t)(dqpn >> ROCEMU_QPN_INDEX_BITS);
	struct shm_tx *t = l->shm->tx[slot];

	if (!slot || dqpn == ROCEMU_MCAST_QPN || rocemu_gid_is_multicast(&path->dgid) ||
	    !l->forward || !l->thread.running)
		return NULL;
	if (!t)
		t = tx_new(l, slot);
	if (!t)
		return NULL;
	if (t->state == SHM_TX_NONE)
		want(l, t, path);
	/* Packets that wait for room in a socket have to leave first. */
	if (t->state != SHM_TX_OFFERED || !is_same(t, path) || l->tx.nbacklog ||
	    !shm_ring_is_attached(&t->ring))
		return NULL;
	t->state = SHM_TX_OPEN;
	return t;
}

/* The ring that a packet goes by, or NULL. */
static inline struct shm_tx *ring_of(struct lane *l, const struct rocemu_path *path,
				     const uint8_t *bth) REQUIRES(l);
static inline struct shm_tx *ring_of(struct lane *l, const struct rocemu_path *path,
				     const uint8_t *bth)
{
	struct shm_tx *t = l->shm->tx[lane_slot_of(bth)];

	if (likely(t && t->state == SHM_TX_OPEN))
		return is_same(t, path) ? t : NULL;
	return look(l, path, bth_dqpn(bth));
}

void lane_shm_prepare(struct lane *l, const struct rocemu_path *path, uint32_t dqpn)
{
	(void)look(l, path, dqpn);
}

/*
 * The receiver sleeps. If this fails, it has wakeups pending, or is gone, which the thread will
 * detect.
 */
APART static void wake(const struct shm_tx *t)
{
	static const char byte;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)&byte, .iov_len = 1};
	const struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	(void)sys_sendmsg(t->io.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Publish the packets to the receiver, and wake it if it sleeps. */
static inline void publish(struct shm_tx *t)
{
	if (shm_ring_unpublished(&t->ring) && shm_ring_publish(&t->ring))
		wake(t);
}

static struct shm_record record_of(const struct rocemu_path *path, size_t len, bool sealed)
{
	return (struct shm_record){
		.len = (uint32_t)len,
		.flow_label = path->flow_label,
		.sport = path->sport,
		.tclass = path->tclass,
		.hop_limit = path->hop_limit,
		.sealed = sealed,
	};
}

static void capture(struct lane *l, const struct rocemu_path *path, const uint8_t *data, size_t len,
		    uint32_t lqpn) REQUIRES(l);
static void capture(struct lane *l, const struct rocemu_path *path, const uint8_t *data, size_t len,
		    uint32_t lqpn)
{
	const struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	const struct tap_addr a = {
		.when_ns = tap_now(),
		.src = path->sgid,
		.dst = path->dgid,
		.sport = path->sport,
		.tclass = path->tclass,
		.hop_limit = path->hop_limit,
		.flow_label = path->flow_label,
		.sent = true,
		.lqpn = lqpn,
	};

	tap_write(l->tap, &a, &iov, 1);
	lane_tap_dirty(l, lane_now());
}

/* The packet is in the room that was reserved for it. lqpn: its sender, 0: not known. */
static void commit(struct lane *l, struct shm_tx *t, const struct rocemu_path *path,
		   const uint8_t *at, size_t len, bool sealed, uint32_t lqpn) REQUIRES(l);
static void commit(struct lane *l, struct shm_tx *t, const struct rocemu_path *path,
		   const uint8_t *at, size_t len, bool sealed, uint32_t lqpn)
{
	shm_ring_commit(&t->ring, record_of(path, len, sealed));
	l->stats->tx_datagrams++;
	l->stats->tx_rings++;
	if (unlikely(l->tap != NULL))
		capture(l, path, at, len, lqpn);
}

/*
 * The payload is copied here, for the only time on this side. A packet whose memory is gone is
 * lost.
 */
static void put(struct lane *l, struct shm_tx *t, struct rocemu_tx *p) REQUIRES(l);
static void put(struct lane *l, struct shm_tx *t, struct rocemu_tx *p)
{
	const uint32_t len = rocemu_tx_len(p);
	uint8_t *at;

	if (unlikely(shm_ring_is_stretched(&t->ring)) && poller_takes_turns())
		shm_ring_restart(&t->ring);
	at = shm_ring_reserve(&t->ring, len);
	if (unlikely(!at)) {
		l->stats->tx_errors++;
		return;
	}
	if (likely(p->hdr_len <= SHM_RING_LEAST))
		memcpy(at, p->hdr, SHM_RING_LEAST); /* of a known length: a few moves */
	else
		memcpy(at, p->hdr, p->hdr_len);
	if (p->payload_len && unlikely(!rocemu_ep_flatten(l->ep, p, at + p->hdr_len)))
		return;
	put_le32(at + len - p->trailer_len, 0); /* the pad */
	put_le32(at + len - ROCEMU_ICRC_LEN, 0);
	if (unlikely(l->tap != NULL)) {
		rocemu_tx_seal(p, 0);
		memcpy(at + len - ROCEMU_ICRC_LEN, p->trailer + p->trailer_len - ROCEMU_ICRC_LEN,
		       ROCEMU_ICRC_LEN);
	}
	commit(l, t, p->path, at, len, l->tap != NULL, p->lqpn);
}

/*
 * Fetch the ring's lines for a later one of the left packets. Of small packets, the stores do not
 * wait.
 */
static inline void fetch_ahead(const struct shm_tx *t, uint32_t len, unsigned left)
{
	if (len >= FETCH_LEAST && left * shm_record_bytes(len) > SHM_RING_AHEAD)
		shm_ring_fetch_ahead(&t->ring, len);
}

unsigned lane_shm_send(struct lane *l, struct rocemu_tx **pkt, struct txsock **sock, unsigned n)
{
	struct shm_tx *last = NULL;
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		struct shm_tx *t = ring_of(l, pkt[i]->path, pkt[i]->hdr);

		if (!t) {
			pkt[kept] = pkt[i];
			sock[kept++] = sock[i];
			continue;
		}
		if (last && (t != last || shm_ring_unpublished(&t->ring) >= PUBLISH_BYTES))
			publish(last);
		last = t;
		fetch_ahead(t, rocemu_tx_len(pkt[i]), n - i);
		put(l, t, pkt[i]);
	}
	if (last)
		publish(last);
	return kept;
}

unsigned lane_shm_send_on(struct lane *l, struct rocemu_tx **pkt, unsigned n)
{
	struct shm_tx *t = ring_of(l, pkt[0]->path, pkt[0]->hdr);

	if (!t)
		return n;
	for (unsigned i = 0; i < n; i++) {
		if (shm_ring_unpublished(&t->ring) >= PUBLISH_BYTES)
			publish(t);
		fetch_ahead(t, rocemu_tx_len(pkt[i]), n - i);
		put(l, t, pkt[i]);
	}
	publish(t);
	return 0;
}

bool lane_shm_send_raw(struct lane *l, const struct rocemu_path *path, const uint8_t *data,
		       size_t len)
{
	struct shm_tx *t = len >= ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN ? ring_of(l, path, data) : NULL;
	uint8_t *at;

	if (!t)
		return false;
	at = shm_ring_reserve(&t->ring, (uint32_t)len);
	if (!at) {
		l->stats->tx_errors++;
		return true;
	}
	memcpy(at, data, len);
	commit(l, t, path, at, len, true, 0);
	publish(t);
	return true;
}

/* ---- UC and UD ---- */

unsigned lane_shm_others(struct lane *l, struct rocemu_tx *const *pkt, unsigned n, rocemu_ns_t now,
			 struct rocemu_tx **out)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		const enum rocemu_service svc = rocemu_opcode_service(pkt[i]->hdr[0]);
		struct shm_tx *t;

		if (svc != ROCEMU_SVC_UC && svc != ROCEMU_SVC_UD)
			continue;
		t = ring_of(l, pkt[i]->path, pkt[i]->hdr);
		if (!t) {
			out[kept++] = pkt[i];
			continue;
		}
		/* Unused for a second: its time begins anew. A full one is tried each 10 ms. */
		if (now > t->used + SHM_STILL_NS) {
			t->taken = t->ring.other;
			t->taken_at = now;
		}
		t->used = now;
	}
	return kept;
}

/*
 * Has the receiver made room since this was true the last time? Not if it takes a little now and
 * then, or goes back and forth: all UC and UD QPs would wait for it.
 */
static bool makes_room(const struct shm_tx *t, uint32_t room)
{
	const uint32_t taken = t->ring.other - t->taken;

	return taken && taken <= t->ring.pos - t->taken &&
	       (taken >= STEADY_BYTES || room > ROOM_RESERVE);
}

uint64_t lane_shm_room(struct lane *l, rocemu_ns_t now)
{
	struct lane_shm *s = l->shm;
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < s->nopen; i++) {
		struct shm_tx *t = s->open[i];
		uint32_t room;

		/* The next packets may be its first ones. */
		if (t->state != SHM_TX_OPEN || !t->used || now > t->used + RECENT_NS) {
			least = MIN(least, (uint64_t)ROOM_FIRST);
			continue;
		}
		room = shm_ring_room(&t->ring);
		if (makes_room(t, room)) {
			t->taken = t->ring.other;
			t->taken_at = now;
		}
		if (now > t->taken_at + SHM_STILL_NS)
			continue;
		least = MIN(least, (uint64_t)(room - MIN(room, (uint32_t)ROOM_RESERVE)));
	}
	return least;
}
