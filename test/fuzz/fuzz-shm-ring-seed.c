/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-shm-ring starts from: rings with records as a producer writes them. */
#include "driver.h"

#include <string.h>

#include "base/bytes.h"
#include "engine/shm-ring.h"

enum { FRONT = 12 + SHM_RING_COPY };

/* n records of len bytes each, from position pos on. copied: the first in the line of the head. */
static void add_ring(struct fuzz_corpus *c, uint32_t pos, unsigned n, uint32_t len, bool copied)
{
	static uint8_t buf[16384];
	const struct shm_record rec = {.len = len, .sport = 0xc000, .hop_limit = 64};
	const uint32_t bytes =
		(uint32_t)(sizeof(rec) + len + SHM_RING_ALIGN - 1) & ~(SHM_RING_ALIGN - 1u);

	memset(buf, 0, sizeof(buf));
	put_be32(buf, pos);
	put_be32(buf + 4, pos + n * bytes);
	put_be32(buf + 8, pos);
	for (unsigned i = 0; i < n; i++) {
		memcpy(buf + FRONT + i * bytes, &rec, sizeof(rec));
		buf[FRONT + i * bytes + sizeof(rec)] = 4; /* RC SEND only */
	}
	if (copied)
		memcpy(buf + 12, buf + FRONT, SHM_RING_COPY);
	fuzz_corpus_add(c, buf, FRONT + n * bytes);
}

void fuzz_seed(struct fuzz_corpus *c)
{
	static const uint32_t positions[] = {0, SHM_RING_DATA - 64, SHM_RING_DATA, UINT32_MAX - 63};
	static const uint32_t lens[] = {16, 48, 49, 1040, ROCEMU_MAX_PACKET};

	for (unsigned i = 0; i < sizeof(positions) / sizeof(positions[0]); i++)
		for (unsigned k = 0; k < sizeof(lens) / sizeof(lens[0]); k++)
			for (unsigned n = 1; n <= 3; n++) {
				add_ring(c, positions[i], n, lens[k], false);
				add_ring(c, positions[i], n, lens[k], true);
			}
}
