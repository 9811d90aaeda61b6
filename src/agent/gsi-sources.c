/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-sources.h"

#include <string.h>

#include "base/bytes.h"

void gsi_sources_init(struct gsi_sources *s, const uint64_t key[static 2])
{
	*s = (struct gsi_sources){.prf = {.key = {key[0], key[1]}}};
}

unsigned gsi_sources_cell(const struct gsi_sources *s, const struct rocemu_gid *addr,
			  uint16_t sport)
{
	const uint64_t words[] = {get_be64(addr->raw), get_be64(addr->raw + 8), sport == GSI_SPORT};

	return (unsigned)prf_hash(&s->prf, words, 3) % SHARE_CELLS;
}

bool gsi_sources_may_answer(struct gsi_sources *s, unsigned cell, uint64_t now_ms)
{
	const uint64_t second = now_ms / 1000;

	if (second != s->second)
		memset(s->answers, 0, sizeof(s->answers));
	s->second = second;
	if (s->answers[cell] >= GSI_ANSWERS_PER_S)
		return false;
	s->answers[cell]++;
	return true;
}
