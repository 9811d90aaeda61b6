/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring in shared memory as another process may leave it: any positions, any records, and changes
 * while a packet is taken. Whatever they are, what is taken lies within the ring and has an end.
 *
 * An input is the consumer's position, the producer's, the consumer's as the ring has it (4 bytes
 * each), the copy in the line of the head (it is of the consumer's position, unless its first byte
 * is 0), and what stands in the ring from the consumer's position on.
 */
#include "driver.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "engine/shm-ring.h"

enum { MASK = SHM_RING_DATA - 1, FRONT = 12 + SHM_RING_COPY };

static struct shm_ring ring; /* both sides; never unmapped */

static void map_once(void)
{
	int fd;

	if (ring.shared)
		return;
	fd = shm_ring_create();
	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(shm_ring_map(&ring, fd) == 0);
	close(fd);
}

/* The bytes go round at the end of the data, as records do. */
static void fill(uint32_t at, const uint8_t *data, size_t size)
{
	if (size)
		memcpy(ring.data + (at & MASK), data, size);
}

static bool lies_in(const uint8_t *p, size_t len, const uint8_t *from, size_t size)
{
	return p >= from && p + len <= from + size;
}

static void take_all(const uint8_t *data, size_t size)
{
	uint32_t taken = 0;

	for (unsigned n = 0;; n++) {
		struct shm_record rec, again;
		const uint8_t *packet;
		struct rocemu_packet pkt;
		uint8_t copy[ROCEMU_MAX_PACKET];
		const int r = shm_ring_next(&ring, &rec, &packet);

		if (r <= 0)
			return;
		/* What the producer may have filled, and no more. */
		taken += rec.len;
		FUZZ_CHECK(n < SHM_RING_DATA / SHM_RING_ALIGN && taken <= SHM_RING_DATA);
		FUZZ_CHECK(rec.len >= ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN);
		FUZZ_CHECK(lies_in(packet, rec.len, ring.data, 2 * SHM_RING_DATA) ||
			   lies_in(packet, rec.len, ring.copy, SHM_RING_COPY));
		memcpy(copy, packet, rec.len);
		(void)rocemu_packet_decode(&pkt, copy, rec.len);
		/* The other side writes to the record that is being taken. */
		again = rec;
		if (size)
			memset(ring.data + ((ring.pos) & MASK), data[n % size], sizeof(rec));
		FUZZ_CHECK(!memcmp(&again, &rec, sizeof(rec)));
		shm_ring_done(&ring, &rec);
		shm_ring_release(&ring);
	}
}

/* As the producer, with any position of the consumer. */
static void produce(uint32_t tail)
{
	enum { RECORDS = 4 * SHM_RING_DATA / ROCEMU_MAX_PACKET };

	atomic_store(&ring.shared->tail, tail);
	ring.other = ring.told = ring.pos;
	for (unsigned n = 0; n < RECORDS; n++) {
		const struct shm_record rec = {.len = n % 2 ? ROCEMU_MAX_PACKET : 16 + n};
		uint8_t *at = shm_ring_reserve(&ring, rec.len);

		if (!at)
			break;
		FUZZ_CHECK(at >= ring.data && at + rec.len <= ring.data + 2 * SHM_RING_DATA);
		shm_ring_commit(&ring, rec);
	}
	shm_ring_publish(&ring);
}

/* Zero again, so that each input is on its own. What is taken lies in what was filled. */
static void clear(uint32_t from, size_t size)
{
	memset(ring.data + (from & MASK), 0, size + sizeof(struct shm_record));
	for (uint32_t at = 0; at < SHM_RING_DATA; at += SHM_RING_ALIGN)
		memset(ring.data + at, 0, sizeof(struct shm_record));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t from;

	if (size < FRONT || size > SHM_RING_DATA / 2)
		return 0;
	map_once();
	from = get_be32(data) & ~(SHM_RING_ALIGN - 1u);
	ring.pos = ring.told = ring.other = from;
	atomic_store(&ring.shared->head, get_be32(data + 4));
	atomic_store(&ring.shared->copied, data[12] ? from + 1 : 0);
	memcpy(ring.shared->copy, data + 12, SHM_RING_COPY);
	fill(ring.pos, data + FRONT, size - FRONT);
	take_all(data + FRONT, size - FRONT);
	produce(get_be32(data + 8));
	clear(from, size);
	return 0;
}
