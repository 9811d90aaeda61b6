/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-reqs.h"

#include <string.h>

#include "base/bytes.h"

static unsigned bucket_of(const struct gsi_req_id *id)
{
	uint64_t h = get_be64(id->src.raw) ^ get_be64(id->src.raw + 8) * 0xff51afd7ed558ccdu;

	h = (h ^ id->comm_id ^ id->tid << 17) * 0x9e3779b97f4a7c15u;
	return (unsigned)(h >> 54);
}

static bool same(const struct gsi_req_id *a, const struct gsi_req_id *b)
{
	return a->comm_id == b->comm_id && a->tid == b->tid && a->sidr == b->sidr &&
	       rocemu_gid_equal(&a->src, &b->src);
}

struct gsi_req *gsi_reqs_add(struct gsi_reqs *rs, const struct gsi_req_id *id, uint16_t number,
			     uint64_t now_ms)
{
	struct gsi_req *bucket = rs->buckets[bucket_of(id)], *e = &bucket[0];

	for (unsigned i = 0; i < GSI_REQS_WAYS; i++) {
		if (bucket[i].number && same(&bucket[i].id, id)) {
			e = &bucket[i];
			break;
		}
		if (bucket[i].when_ms < e->when_ms)
			e = &bucket[i];
	}
	*e = (struct gsi_req){.id = *id, .when_ms = now_ms, .number = number};
	return e;
}

uint16_t gsi_reqs_find(const struct gsi_reqs *rs, const struct gsi_req_id *id, uint64_t now_ms)
{
	const struct gsi_req *bucket = rs->buckets[bucket_of(id)];

	for (unsigned i = 0; i < GSI_REQS_WAYS; i++)
		if (bucket[i].number && same(&bucket[i].id, id) &&
		    now_ms - bucket[i].when_ms < GSI_REQS_MS)
			return bucket[i].number;
	return 0;
}

void gsi_reqs_seen(struct gsi_reqs *rs, const struct gsi_req_id *id, uint16_t number)
{
	struct gsi_req *bucket = rs->buckets[bucket_of(id)];

	for (unsigned i = 0; i < GSI_REQS_WAYS; i++)
		if (bucket[i].number == number && same(&bucket[i].id, id))
			bucket[i].seen = true;
}

bool gsi_reqs_take_unseen(struct gsi_reqs *rs, uint16_t number, uint64_t now_ms, unsigned *at,
			  struct gsi_req *req)
{
	while (*at < GSI_REQS_BUCKETS * GSI_REQS_WAYS) {
		struct gsi_req *e = &rs->buckets[*at / GSI_REQS_WAYS][*at % GSI_REQS_WAYS];

		++*at;
		if (e->number != number)
			continue;
		*req = *e;
		/* The others' repetitions must not go to the number's next client. */
		*e = (struct gsi_req){0};
		if (!req->seen && now_ms - req->when_ms < GSI_REQS_MS)
			return true;
	}
	return false;
}
