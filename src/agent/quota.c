/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/quota.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const unsigned most[QUOTA_KINDS] = {
	[QUOTA_PORTS] = QUOTA_PORTS_MAX,
	[QUOTA_EXIT_MADS] = QUOTA_EXIT_MADS_MAX,
	[QUOTA_QUEUED] = QUOTA_QUEUED_MAX,
};

struct user {
	struct hash_node by_uid;
	unsigned all, held[QUOTA_KINDS];
};

void quotas_init(struct quotas *q, bool limited)
{
	*q = (struct quotas){.limited = limited};
}

static struct user *find(const struct quotas *q, uint32_t uid)
{
	return hash_entry(hash_find(&q->by_uid, uid), struct user, by_uid);
}

int quota_take(struct quotas *q, uint32_t uid, enum quota kind)
{
	struct user *u = find(q, uid);

	if (u && q->limited && uid != 0 && u->held[kind] >= most[kind])
		return -ENOBUFS;
	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return -ENOMEM;
		hash_add(&q->by_uid, &u->by_uid, uid);
	}
	u->held[kind]++;
	u->all++;
	return 0;
}

void quota_release(struct quotas *q, uint32_t uid, enum quota kind, unsigned n)
{
	struct user *u = n ? find(q, uid) : NULL;

	if (!u)
		return;
	u->held[kind] -= n;
	u->all -= n;
	if (u->all)
		return;
	hash_remove(&q->by_uid, &u->by_uid);
	free(u);
}

bool quota_has_time(struct quotas *q, uint32_t uid, unsigned round)
{
	if (round != q->round)
		memset(q->spent_ns, 0, sizeof(q->spent_ns));
	q->round = round;
	return !q->limited || uid == 0 || q->spent_ns[uid % QUOTA_CELLS] < QUOTA_NS;
}

void quota_spend(struct quotas *q, uint32_t uid, uint64_t ns)
{
	q->spent_ns[uid % QUOTA_CELLS] += ns;
}
