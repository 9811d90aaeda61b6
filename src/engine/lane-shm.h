/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets between lanes of one user on one host by rings in shared memory (ROCEMU_WIRE=shm), for
 * lane-shm.c, lane-shm-tx.c and lane-shm-rx.c, and their callers.
 *
 * A ring has one direction: from an address of this lane to a slot at an address of this host. The
 * sender's thread makes and offers it (forward.h) when the first packet goes there. Packets go by
 * UDP until the receiver has attached it, and when there is no such lane. The connection of the
 * offer stays open: it ends with the other process, and a byte on it wakes a sleeping receiver.
 *
 * A full ring loses packets, as a full socket buffer does, but hardly fills up: windows and read
 * budgets are smaller than a ring, and UC and UD check its fill level (lane_shm_room()).
 */
#ifndef ENGINE_LANE_SHM_H
#define ENGINE_LANE_SHM_H

#include "engine/forward.h"
#include "engine/lane-internal.h"
#include "engine/shm-ring.h"

enum {
	SHM_SLOTS = 1 << (24 - ROCEMU_QPN_INDEX_BITS),
	LANE_SHM_READS =
		2 * (SHM_RING_DATA - SHM_RING_DATA / 8), /* twice what may come at a time */
	/* Of RC: it may not grow with a long round trip, which is a busy receiver's. */
	LANE_SHM_WINDOW = SHM_RING_DATA / 2,
	SHM_RINGS = 64,	   /* of each direction; packets of further lanes go by UDP */
	SHM_REMOTES = 256, /* a power of two; more of them offer again and again */
};
#define SHM_RETRY_NS 1000000000u /* when a lane that took no ring gets the next offer */
/* A receiver that has taken nothing, or next to nothing, for this long does not limit UC and UD. */
#define SHM_STILL_NS 1000000000u

enum shm_tx_state {
	SHM_TX_NONE,	/* by UDP, until retry_at */
	SHM_TX_WANTED,	/* the thread is to offer a ring */
	SHM_TX_OFFERED, /* by UDP, until the receiver has attached it */
	SHM_TX_OPEN,
};

/** A ring to a slot. On the heap until the lane ends: the loop points to it. */
struct shm_tx {
	struct lane *lane;
	enum shm_tx_state state;
	uint16_t slot;
	struct rocemu_gid src, dst;
	uint32_t scope_id; /* of dst */
	rocemu_ns_t retry_at;
	rocemu_ns_t used; /* for UC and UD, which look at its room */
	/* While they use it: how far the receiver had come when it last made room, and when. */
	uint32_t taken;
	rocemu_ns_t taken_at;
	struct shm_ring ring;
	struct loop_io io; /* of the connection: owned, with the ring */
};

/** From another lane. On the heap: the loop points to it. */
struct shm_rx {
	struct lane *lane;
	struct rocemu_gid src, dst;
	bool started; /* has had a packet */
	bool dead;    /* no longer read; the thread frees it */
	struct shm_ring ring;
	struct loop_io io; /* of the connection: owned */
};

/**
 * An address that is not of this host. Slots are numbered by host, so that one of this host may
 * have the same number: it must not wait because of this address.
 */
struct shm_remote {
	struct rocemu_gid gid;
	rocemu_ns_t until;
};

struct lane_shm {
	struct shm_tx *tx[SHM_SLOTS];	/* owned */
	struct shm_tx *open[SHM_RINGS]; /* offered or open */
	struct shm_rx *rx[SHM_RINGS];	/* owned */
	struct shm_remote remote[SHM_REMOTES];
	unsigned nopen, nrx;
	bool wanted;	/* some of tx are SHM_TX_WANTED */
	unsigned fresh; /* of rx: not started */
	unsigned polls; /* lane_rx_hot() since the last look at the sockets */
};

/* ---- lane-shm-tx.c ---- */

/**
 * Put those packets that go by rings into them. @return how many are left, in pkt and sock, for
 * UDP. Their paths are those that the sockets gave them, so that both ways are one flow.
 */
unsigned lane_shm_send(struct lane *l, struct rocemu_tx **pkt, struct txsock **sock, unsigned n)
	REQUIRES(l);
/** The same of packets of one path and destination slot: all or none. */
unsigned lane_shm_send_on(struct lane *l, struct rocemu_tx **pkt, unsigned n) REQUIRES(l);
/** Packets will be sent to that QP: request the offer of a ring. */
void lane_shm_prepare(struct lane *l, const struct rocemu_path *path, uint32_t dqpn) REQUIRES(l);
/** As lane_send_try(). @return false: there is no ring for it. */
bool lane_shm_send_raw(struct lane *l, const struct rocemu_path *path, const uint8_t *data,
		       size_t len) REQUIRES(l);
/** The UC and UD packets that do not go by rings. @return how many there are in out. */
unsigned lane_shm_others(struct lane *l, struct rocemu_tx *const *pkt, unsigned n, rocemu_ns_t now,
			 struct rocemu_tx **out) REQUIRES(l);
/**
 * Bytes that the fullest of the rings which UC and UD use can take, and not many as long as they
 * may begin to use another one; UINT64_MAX: nothing limits them. A ring whose receiver stands still
 * does not count: what is sent to it is lost, as everywhere.
 */
uint64_t lane_shm_room(struct lane *l, rocemu_ns_t now) REQUIRES(l);

/** No ring is offered to that address for a while. */
void lane_shm_set_remote(struct lane *l, const struct rocemu_gid *gid) REQUIRES(l);

/* ---- lane-shm-rx.c ---- */

/**
 * Has a ring got its first packet? Packets that its sender sent by UDP before must be received
 * first.
 */
bool lane_shm_starts(struct lane *l) REQUIRES(l);
/** There are rings, and nothing in them. */
bool lane_shm_is_quiet(const struct lane *l) REQUIRES(l);
/** Take packets from the rings, up to a limit from each. @return how many. */
unsigned lane_shm_rx(struct lane *l, rocemu_ns_t now) REQUIRES(l);
/** All that is in a ring. */
void lane_shm_rx_all(struct lane *l, struct shm_rx *r, rocemu_ns_t now) REQUIRES(l);

/* ---- lane-shm.c ---- */

/** By ROCEMU_WIRE. -errno with errbuf. */
int lane_shm_init(struct lane *l, char *errbuf, size_t errlen);
void lane_shm_fini(struct lane *l);
/** Close all rings; the thread has ended. */
void lane_shm_close(struct lane *l);
/** In a forked child: close the child's copies. */
void lane_shm_disown(struct lane *l);
/** The lane is attached: others may offer it rings. */
void lane_shm_start(struct lane *l) REQUIRES(l);
/** Nothing is taken for this address any more. */
void lane_shm_forget(struct lane *l, const struct rocemu_gid *dst) REQUIRES(l);

/* On the lane's thread: */

/** Offer rings to destinations in use. */
void lane_shm_offer(struct lane *l) REQUIRES(l);
/** Handle the offer that forward_recv() received, if any. woken: of struct shm_rx.io. */
void lane_shm_take_offer(struct lane *l, void (*woken)(struct loop_io *io)) REQUIRES(l);
/** Of io's readable. @return false: the other end is closed. */
bool lane_shm_woken(struct shm_rx *r);
/** The other end is closed: receive the remaining packets, and free it. */
void lane_shm_end(struct lane *l, struct shm_rx *r, rocemu_ns_t now) REQUIRES(l);
/** Free closed rings. */
void lane_shm_reap(struct lane *l) REQUIRES(l);
/** From now on senders wake the thread. @return false: a packet has come meanwhile. */
bool lane_shm_sleep(struct lane *l) REQUIRES(l);
/** From now on senders need not wake it. */
void lane_shm_awake(struct lane *l) REQUIRES(l);

#endif
