/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of rocemu verify, filled by who wants them slow. */
#include "test.h"
#include "verify/model.h"
#include "verify/verify.h"

enum { FLOWS = 300, PLACES = 1 << 14, LONGEST = 8 };

/* A hash without a key, as the tables had it once: FNV-1a of the service, the addresses, the QPN.
 */
static uint32_t plain_hash(const struct ip_udp *ip, uint32_t svc, uint32_t qpn)
{
	uint32_t h = svc ^ 0x811c9dc5u;

	for (unsigned i = 0; i < 16; i++)
		h = (h ^ ip->src.raw[i]) * 0x01000193u;
	for (unsigned i = 0; i < 16; i++)
		h = (h ^ ip->dst.raw[i]) * 0x01000193u;
	for (unsigned i = 0; i < 4; i++)
		h = (h ^ (qpn >> 8 * i & 0xff)) * 0x01000193u;
	return h % PLACES;
}

/* Of so many keys in so many places no place has this many, but for one run in a million millions.
 */
static unsigned longest_chain(const struct verify *v)
{
	unsigned longest = 0;

	for (const struct flow *f = v->flows; f; f = f->all_next) {
		unsigned n = 0;

		for (const struct flow *g = f; g; g = g->hash_next)
			n++;
		longest = n > longest ? n : longest;
	}
	return longest;
}

TEST(tables, flows_that_collide_without_a_key__chains_stay_short)
{
	struct verify *v = verify_new(1, 0);
	struct ip_udp ip = {.src.raw = {[10] = 0xff, 0xff, 10},
			    .dst.raw = {[10] = 0xff, 0xff, 10, 0, 0, 1}};
	unsigned n = 0;

	assert_non_null(v);
	for (uint32_t qpn = 0; n < FLOWS; qpn++) {
		ip.src.raw[13] = (uint8_t)(qpn >> 22);
		if (plain_hash(&ip, ROCEMU_SVC_RC, qpn & 0x3fffff))
			continue;
		assert_non_null(flow_get(v, &ip, ROCEMU_SVC_RC, qpn & 0x3fffff));
		n++;
	}
	assert_in_range(longest_chain(v), 1, LONGEST);
	verify_free(v);
}
