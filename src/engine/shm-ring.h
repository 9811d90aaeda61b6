/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of packets in memory that two processes share: one producer, one consumer. Pure except for
 * making and mapping the memory: no lock, no waiting; the caller holds the lane's lock.
 *
 * The other side may write anything at any time: its index, lengths, contents. So each side keeps
 * its own index in private memory, takes the other one's from the ring only within bounds, and the
 * consumer copies a record's head once. The packet's bytes may change while they are read. The
 * memory is sealed: it cannot shrink, so that no access is a SIGBUS.
 *
 * The data is mapped twice in a row: a record that crosses the end is still one piece.
 *
 * A producer that finds the ring empty may put its next packet at the beginning again. The consumer
 * cannot miss it: the lowest bit of the head changes, and only after the consumer has taken all
 * that was before it.
 */
#ifndef ENGINE_SHM_RING_H
#define ENGINE_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rocemu/wire.h>

enum {
	SHM_RING_DATA = 512 << 10, /* a power of two */
	SHM_RING_FRONT = 64 << 10, /* of struct shm_ring_shared: a page of any architecture */
	SHM_RING_BYTES = SHM_RING_FRONT + SHM_RING_DATA,
	SHM_RING_ALIGN = 64,		    /* of records: one small packet is one cache line */
	SHM_RING_COPY = SHM_RING_ALIGN - 8, /* with the two positions, one cache line */
	SHM_RING_LINE = 128,	  /* what one side writes is that far from what the other writes */
	SHM_RING_AHEAD = 8 << 10, /* two packets of the largest MTU */
	SHM_RING_RESTART = 4 << 10, /* filled so far: see shm_ring_restart() */
};

/** What both sides see of the state. Positions count bytes, and wrap around. */
struct shm_ring_shared {
	/* The producer's. Filled up to here; lowest bit: changes when data begins anew. */
	_Alignas(SHM_RING_LINE) _Atomic uint32_t head;
	/*
	 * The first record of the packets that were published last, if it is small: a consumer
	 * that has taken all before finds it in the line that it polls. copied: its position + 1;
	 * else there is none, or it is being written.
	 */
	_Atomic uint32_t copied;
	uint8_t copy[SHM_RING_COPY];
	_Alignas(SHM_RING_LINE) _Atomic uint32_t tail; /* the consumer's: taken up to here */
	/* The consumer's. */
	_Alignas(SHM_RING_LINE) _Atomic uint32_t attached; /* it takes packets from this ring */
	_Atomic uint32_t
		sleeping; /* needs a wakeup for the next packet; cleared by the waking side */
};

/** Before each packet in the ring. */
struct shm_record {
	uint32_t len; /* of the packet, from the BTH to the ICRC */
	uint32_t flow_label;
	uint16_t sport;
	uint8_t tclass, hop_limit;
	uint32_t sealed; /* the ICRC is there, for IPv4 identification 0, and is to be checked */
};

enum { SHM_RING_LEAST = SHM_RING_ALIGN - sizeof(struct shm_record) }; /* room of any packet */

/** A record's head and packet, up to the next record. */
static inline uint32_t shm_record_bytes(uint32_t len)
{
	return ((uint32_t)sizeof(struct shm_record) + len + SHM_RING_ALIGN - 1) &
	       ~(SHM_RING_ALIGN - 1u);
}

/** One side's. */
struct shm_ring {
	struct shm_ring_shared *shared; /* mapped; NULL: there is none */
	uint8_t *data;
	uint32_t pos;	  /* own position: filled, or taken, up to here */
	uint32_t told;	  /* own position as last written to the ring */
	uint32_t other;	  /* the other side's, as last read */
	uint32_t first;	  /* the producer's: bytes of the first record that is not published */
	uint32_t origin;  /* the position at the beginning of the data */
	uint32_t restart; /* the lowest bit of the head */
	uint32_t looked;  /* the producer's: where it saw last whether the ring is empty */
	/* The consumer's: the record that was copied from the line of the head, and room. */
	_Alignas(struct shm_record) uint8_t copy[SHM_RING_ALIGN];
};

/** Where the bytes at that position are. */
static inline uint8_t *shm_ring_at(const struct shm_ring *r, uint32_t pos)
{
	return r->data + ((pos - r->origin) & (SHM_RING_DATA - 1));
}

/** Memory for a ring, empty and sealed. @return a descriptor, or -errno. */
int shm_ring_create(void);
/**
 * Map a ring that this or another process has created. The descriptor is not needed afterwards.
 * @return 0 or -errno: -EINVAL: it is not such memory.
 */
int shm_ring_map(struct shm_ring *r, int fd);
/** What is not mapped is allowed. */
void shm_ring_unmap(struct shm_ring *r);

/* ---- the producer ---- */

/** Was so much filled that the next packet might well go to the beginning again? */
static inline bool shm_ring_is_stretched(const struct shm_ring *r)
{
	return r->pos - r->looked >= SHM_RING_RESTART && r->pos == r->told;
}
/**
 * The next packet goes to the beginning again if the ring is empty: few packets at a time use few
 * pages. That is faster where a processor changes between processes, whose pages it has to find
 * again each time. Else it is slower: the consumer's core has the lines that it read last.
 */
void shm_ring_restart(struct shm_ring *r);
/** Room for the next packet of len bytes, at most ROCEMU_MAX_PACKET. NULL: the ring is full. */
uint8_t *shm_ring_reserve(struct shm_ring *r, uint32_t len);
/**
 * The packet is in the room that was reserved last. Seen by the consumer after shm_ring_publish().
 * Inline, so that the record is written field by field: a copy of fields just written elsewhere
 * would wait until the stores before them have left the processor, which are those to the ring.
 */
static inline void shm_ring_commit(struct shm_ring *r, struct shm_record rec)
{
	*(struct shm_record *)(void *)shm_ring_at(r, r->pos) = rec;
	if (r->pos == r->told)
		r->first = (uint32_t)sizeof(rec) + rec.len;
	r->pos += shm_record_bytes(rec.len);
}
/**
 * Fetch for writing the cache lines of len bytes that begin SHM_RING_AHEAD after the next packet.
 * The consumer's core has them. Fetches overlap; stores would wait for one line after the other.
 */
void shm_ring_fetch_ahead(const struct shm_ring *r, uint32_t len);
/** Publish committed packets to the consumer. @return true: it sleeps, and must be woken. */
bool shm_ring_publish(struct shm_ring *r);
/** Bytes that may be filled now, heads of records included. */
uint32_t shm_ring_room(struct shm_ring *r);
/** Bytes committed and not yet shown. */
static inline uint32_t shm_ring_unpublished(const struct shm_ring *r)
{
	return r->pos - r->told;
}

bool shm_ring_is_attached(const struct shm_ring *r);

/* ---- the consumer ---- */

/**
 * The next packet: a copy of its record's head, and where its bytes are until shm_ring_done():
 * SHM_RING_LEAST of them may be read, if it has fewer.
 * @return 1, 0: there is none, or -EBADMSG: the other side violates the protocol.
 */
int shm_ring_next(struct shm_ring *r, struct shm_record *rec, const uint8_t **packet);
/** Is there something, which may be wrong? */
static inline bool shm_ring_filled(const struct shm_ring *r)
{
	return r->other != r->pos || atomic_load_explicit(&r->shared->head, memory_order_relaxed) !=
					     (r->pos | r->restart);
}
/** The packet of that record was taken. */
void shm_ring_done(struct shm_ring *r, const struct shm_record *rec);
/** Return the room of all taken packets to the producer. */
void shm_ring_release(struct shm_ring *r);

/** From now on packets are taken from the ring. */
void shm_ring_attach(struct shm_ring *r);
/** The producer is to wake the consumer. @return false: something has come meanwhile. */
bool shm_ring_sleep(struct shm_ring *r);
void shm_ring_awake(struct shm_ring *r);

#endif
