/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-reqs.h"

#include <string.h>

#include "test.h"

static struct gsi_reqs reqs;

static struct gsi_req_id req(uint32_t comm_id)
{
	return (struct gsi_req_id){.src = {.raw = {1}}, .comm_id = comm_id, .tid = comm_id};
}

TEST(gsi_reqs, request__remembered_for_a_while)
{
	struct gsi_req_id id = req(1), other = req(1);

	memset(&reqs, 0, sizeof(reqs));
	assert_int_equal(gsi_reqs_find(&reqs, &id, 0), 0);
	gsi_reqs_add(&reqs, &id, 7, 1000);
	assert_int_equal(gsi_reqs_find(&reqs, &id, 1000 + GSI_REQS_MS - 1), 7);
	assert_int_equal(gsi_reqs_find(&reqs, &id, 1000 + GSI_REQS_MS), 0);
	other.tid++;
	assert_int_equal(gsi_reqs_find(&reqs, &other, 1000), 0);
	other = id;
	other.sidr = true;
	assert_int_equal(gsi_reqs_find(&reqs, &other, 1000), 0);
	other = id;
	other.src.raw[15]++;
	assert_int_equal(gsi_reqs_find(&reqs, &other, 1000), 0);
	/* Once more, to another one. */
	gsi_reqs_add(&reqs, &id, 8, 2000);
	assert_int_equal(gsi_reqs_find(&reqs, &id, 2000), 8);
}

TEST(gsi_reqs, client_gone__what_it_has_not_seen_is_taken_once)
{
	struct gsi_req_id unseen = req(1), seen = req(2), others = req(3), old = req(4);
	struct gsi_req got;
	unsigned at = 0;

	memset(&reqs, 0, sizeof(reqs));
	gsi_reqs_add(&reqs, &old, 7, 1000);
	gsi_reqs_add(&reqs, &unseen, 7, 2000)->service_id = 55;
	gsi_reqs_add(&reqs, &seen, 7, 2000);
	gsi_reqs_add(&reqs, &others, 8, 2000);
	gsi_reqs_seen(&reqs, &seen, 7);
	gsi_reqs_seen(&reqs, &unseen, 8); /* not its own */
	assert_true(gsi_reqs_take_unseen(&reqs, 7, 1000 + GSI_REQS_MS, &at, &got));
	assert_int_equal(got.id.comm_id, 1);
	assert_int_equal(got.service_id, 55);
	assert_false(gsi_reqs_take_unseen(&reqs, 7, 1000 + GSI_REQS_MS, &at, &got));
	at = 0;
	assert_false(gsi_reqs_take_unseen(&reqs, 7, 1000 + GSI_REQS_MS, &at, &got));
	assert_int_equal(gsi_reqs_find(&reqs, &unseen, 2000), 0);
	/* The number may be another client's by then. */
	assert_int_equal(gsi_reqs_find(&reqs, &seen, 2000), 0);
	assert_int_equal(gsi_reqs_find(&reqs, &others, 2000), 8);
}

TEST(gsi_reqs, flood__the_newest_are_known)
{
	enum { N = 1000000, KNOWN = GSI_REQS_BUCKETS };
	unsigned found = 0;

	memset(&reqs, 0, sizeof(reqs));
	for (uint32_t i = 1; i <= N; i++) {
		struct gsi_req_id id = req(i);

		gsi_reqs_add(&reqs, &id, (uint16_t)(i % 1023 + 1), 1000 + i / 1000);
	}
	for (uint32_t i = N - KNOWN + 1; i <= N; i++) {
		struct gsi_req_id id = req(i);
		uint16_t number = gsi_reqs_find(&reqs, &id, 1000 + N / 1000);

		if (number)
			assert_int_equal(number, i % 1023 + 1);
		found += number != 0;
	}
	/* Those of a bucket give way to each other. */
	assert_true(found > KNOWN * 9 / 10);
}
