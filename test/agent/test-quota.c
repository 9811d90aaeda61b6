/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/quota.h"

#include <errno.h>

#include "test.h"

enum { ANN = 1001, BOB = 1002 };

TEST(quota, one_more_than_a_user_may_have__refused_until_one_is_given_back)
{
	struct quotas q;

	quotas_init(&q, true);
	for (unsigned i = 0; i < QUOTA_PORTS_MAX; i++)
		assert_int_equal(quota_take(&q, ANN, QUOTA_PORTS), 0);
	assert_int_equal(quota_take(&q, ANN, QUOTA_PORTS), -ENOBUFS);
	assert_int_equal(quota_take(&q, ANN, QUOTA_QUEUED), 0);
	assert_int_equal(quota_take(&q, BOB, QUOTA_PORTS), 0);
	quota_release(&q, ANN, QUOTA_PORTS, 1);
	assert_int_equal(quota_take(&q, ANN, QUOTA_PORTS), 0);
	quota_release(&q, ANN, QUOTA_PORTS, QUOTA_PORTS_MAX);
	quota_release(&q, ANN, QUOTA_QUEUED, 1);
	quota_release(&q, BOB, QUOTA_PORTS, 1);
}

TEST(quota, root_and_an_agent_of_one_user__no_limit)
{
	struct quotas q;

	for (unsigned limited = 0; limited < 2; limited++) {
		const uint32_t uid = limited ? 0 : ANN;

		quotas_init(&q, limited);
		for (unsigned i = 0; i <= QUOTA_PORTS_MAX; i++)
			assert_int_equal(quota_take(&q, uid, QUOTA_PORTS), 0);
		quota_release(&q, uid, QUOTA_PORTS, QUOTA_PORTS_MAX + 1);
		quota_spend(&q, uid, QUOTA_NS);
		assert_true(quota_has_time(&q, uid, 0));
	}
}

TEST(quota, time_spent__none_left_until_the_next_round)
{
	struct quotas q;

	quotas_init(&q, true);
	assert_true(quota_has_time(&q, ANN, 5));
	quota_spend(&q, ANN, QUOTA_NS - 1);
	assert_true(quota_has_time(&q, ANN, 5));
	quota_spend(&q, ANN, 1);
	assert_false(quota_has_time(&q, ANN, 5));
	assert_true(quota_has_time(&q, BOB, 5));
	assert_true(quota_has_time(&q, ANN, 6));
}
