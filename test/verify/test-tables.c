/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of rocemu verify, filled by who wants them slow. */
#include "chain.h"
#include "test.h"
#include "verify/model.h"
#include "verify/verify.h"

enum { FLOWS = 300, QPNS = 1 << 22 };

/* Would the flow be in the first bucket, if everybody had the key of the tables? */
static bool collides(const struct ip_udp *ip, uint32_t qpn)
{
	static const struct verify no_key;
	const struct hash table = {.buckets = 1 << 12};

	return hash_place(&table, hosts_digest(&no_key, &ip->src, &ip->dst,
					       (uint64_t)ROCEMU_SVC_RC << 32 | qpn)) == 0;
}

TEST(tables, flows_that_collide_without_a_key__chains_stay_short)
{
	struct verify *v = verify_new(1, 0);
	struct ip_udp ip = {.src.raw = {[10] = 0xff, 0xff, 10},
			    .dst.raw = {[10] = 0xff, 0xff, 10, 0, 0, 1}};

	assert_non_null(v);
	for (uint32_t qpn = 0; v->flow_table.n < FLOWS; qpn++) {
		assert_in_range(qpn, 0, QPNS);
		if (collides(&ip, qpn))
			assert_non_null(flow_get(v, &ip, ROCEMU_SVC_RC, qpn));
	}
	assert_in_range(chain_longest(&v->flow_table), 1, CHAIN_MOST);
	verify_free(v);
}
