/* SPDX-License-Identifier: BSD-2-Clause */
/* When which exit MAD is sent, in virtual time. */
#include "agent/gsi-exit.h"

#include <errno.h>

#include "chain.h"
#include "test.h"

enum { ANN = 1001, BOB, CODE_17_MS = 12, ID = 5 << AGENT_GSI_ID_BITS };

static const struct rocemu_gid peer = {{[10] = 0xff, 0xff, 10, 0, 0, 2}};
static struct quotas quotas;
static struct gsi_exits exit_mads;
static struct list mine;
static unsigned count;

static void fresh(void)
{
	quotas_init(&quotas, true);
	gsi_exits_init(&exit_mads, &quotas, (struct prf){0});
	list_init(&mine);
	count = 0;
}

static uint8_t cm_timeout = CODE_17_MS;

static int set(uint32_t id, uint8_t mark, uint8_t retries, bool repeat)
{
	struct gsi_frame f = {.type = GSI_FRAME_EXIT_SET,
			      .comm_id = id,
			      .cm_timeout = cm_timeout,
			      .retries = retries,
			      .m = {.dst = peer, .mad = {mark}}};

	return gsi_exits_set(&exit_mads, &mine, &count, ANN, &f, repeat);
}

/* The mark of what is due, 0: nothing. */
static unsigned due(uint64_t now)
{
	const struct gsi_mad *d = gsi_exits_take(&exit_mads, now);

	return d ? d->mad[0] : 0;
}

TEST(gsi_exits, dreq__sent_and_retried_then_given_up)
{
	fresh();
	assert_int_equal(set(ID, 1, 2, true), 0);
	assert_int_equal(due(1000), 0);
	assert_true(gsi_exits_next_ms(&exit_mads) == UINT64_MAX);
	gsi_exits_execute(&exit_mads, &mine, 100);
	assert_true(list_empty(&mine));
	for (unsigned i = 0; i < 3; i++) {
		uint64_t at = 100 + 16 * i; /* 16.7 ms */

		assert_true(gsi_exits_next_ms(&exit_mads) == at);
		assert_int_equal(due(at - 1), 0);
		assert_int_equal(due(at), 1);
		assert_int_equal(due(at), 0);
	}
	assert_int_equal(exit_mads.given_up, 0);
	assert_true(gsi_exits_linger(&exit_mads, 5));
	assert_int_equal(due(148), 0);
	assert_int_equal(exit_mads.given_up, 1);
	assert_int_equal(exit_mads.due_count, 0);
	assert_false(gsi_exits_linger(&exit_mads, 5));
	gsi_exits_fini(&exit_mads);
}

TEST(gsi_exits, rej__sent_once)
{
	fresh();
	assert_int_equal(set(ID, 1, 15, false), 0);
	gsi_exits_execute(&exit_mads, &mine, 100);
	assert_int_equal(due(100), 1);
	assert_int_equal(exit_mads.due_count, 0);
	assert_int_equal(due(1000000), 0);
	assert_int_equal(exit_mads.given_up, 0);
	gsi_exits_fini(&exit_mads);
}

TEST(gsi_exits, several__in_the_order_of_their_times)
{
	fresh();
	assert_int_equal(set(ID + 2, 3, 1, true), 0);
	gsi_exits_execute(&exit_mads, &mine, 90);
	assert_int_equal(set(ID, 1, 1, true), 0);
	assert_int_equal(set(ID + 1, 2, 0, false), 0);
	gsi_exits_execute(&exit_mads, &mine, 100);
	assert_int_equal(due(110), 3);
	assert_int_equal(due(110), 1);
	assert_int_equal(due(110), 2);
	assert_int_equal(due(110), 0);
	gsi_exits_fini(&exit_mads);
}

TEST(gsi_exits, other_timeouts__each_sent_at_its_time)
{
	fresh();
	for (unsigned i = 0; i < 3; i++) {
		cm_timeout = (uint8_t)(CODE_17_MS + 2 - i); /* 67, 33, 17 ms */
		assert_int_equal(set(ID + i, (uint8_t)(i + 1), 9, true), 0);
	}
	cm_timeout = CODE_17_MS;
	gsi_exits_execute(&exit_mads, &mine, 100);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(due(100), i + 1);
	assert_int_equal(due(116), 3);
	assert_int_equal(due(133), 3);
	assert_int_equal(due(133), 2);
	assert_int_equal(due(148), 0);
	assert_true(gsi_exits_next_ms(&exit_mads) == 149);
	gsi_exits_recall(&exit_mads, ID >> AGENT_GSI_ID_BITS);
	assert_int_equal(exit_mads.due_count, 0);
	assert_true(gsi_exits_next_ms(&exit_mads) == UINT64_MAX);
	gsi_exits_fini(&exit_mads);
}

TEST(gsi_exits, given_up_when_another_is_due__the_other_is_sent)
{
	fresh();
	assert_int_equal(set(ID, 1, 0, true), 0);
	assert_int_equal(set(ID + 1, 2, 1, true), 0);
	gsi_exits_execute(&exit_mads, &mine, 100);
	assert_int_equal(due(100), 1);
	assert_int_equal(due(100), 2);
	assert_int_equal(due(200), 2);
	assert_int_equal(exit_mads.given_up, 1);
	assert_int_equal(exit_mads.due_count, 1);
	gsi_exits_fini(&exit_mads);
}

TEST(gsi_exits, answer__from_the_right_peer_ends_it)
{
	struct rocemu_gid other = peer;

	other.raw[15]++;
	fresh();
	assert_int_equal(set(ID, 1, 15, true), 0);
	/* Its client lives: that is the client's business. */
	assert_false(gsi_exits_answered(&exit_mads, ID, &peer));
	gsi_exits_execute(&exit_mads, &mine, 100);
	assert_int_equal(due(100), 1);
	assert_false(gsi_exits_answered(&exit_mads, ID, &other));
	assert_false(gsi_exits_answered(&exit_mads, ID + 1, &peer));
	assert_true(gsi_exits_answered(&exit_mads, ID, &peer));
	assert_false(gsi_exits_answered(&exit_mads, ID, &peer));
	assert_int_equal(due(1000000), 0);
	gsi_exits_fini(&exit_mads);
}

TEST(gsi_exits, client_is_back__its_exit_mads_are_not_sent)
{
	fresh();
	assert_int_equal(set(ID, 1, 15, true), 0);
	assert_int_equal(set(6u << AGENT_GSI_ID_BITS, 2, 15, true), 0);
	gsi_exits_execute(&exit_mads, &mine, 100);
	gsi_exits_recall(&exit_mads, 5);
	assert_int_equal(due(100), 2);
	assert_int_equal(due(100), 0);
	gsi_exits_fini(&exit_mads);
}

/* Their clients may have ended, and more clients come. */
TEST(gsi_exits, ids_that_collide_without_a_key__chains_stay_short)
{
	uint64_t id = ID;

	fresh();
	for (unsigned i = 0; i < 1000; i++) {
		id = chain_next(id);
		assert_int_equal(set((uint32_t)id, 1, 0, false), 0);
	}
	assert_in_range(chain_longest(&exit_mads.by_id), 1, CHAIN_MOST);
	gsi_exits_forget(&exit_mads, &mine);
}

TEST(gsi_exits, too_many_of_a_user__refused_and_others_are_served)
{
	const struct gsi_frame of_bob = {.comm_id = 9 << AGENT_GSI_ID_BITS};

	fresh();
	for (unsigned client = 0; client < QUOTA_EXIT_MADS_MAX / AGENT_GSI_EXITS_MAX; client++) {
		count = 0;
		for (unsigned i = 0; i < AGENT_GSI_EXITS_MAX; i++)
			assert_int_equal(
				set(ID + client * (1 << AGENT_GSI_ID_BITS) + i, 1, 0, false), 0);
		gsi_exits_execute(&exit_mads, &mine, 100);
	}
	count = 0;
	assert_int_equal(set(8 << AGENT_GSI_ID_BITS, 1, 0, false), -ENOBUFS);
	assert_int_equal(gsi_exits_set(&exit_mads, &mine, &count, BOB, &of_bob, false), 0);
	assert_int_equal(due(100), 1);
	assert_int_equal(set(8 << AGENT_GSI_ID_BITS, 1, 0, false), 0);
	gsi_exits_forget(&exit_mads, &mine);
	gsi_exits_fini(&exit_mads);
	assert_int_equal(quotas.by_uid.n, 0);
}

TEST(gsi_exits, too_many__refused_and_replacing_still_works)
{
	fresh();
	for (unsigned i = 0; i < AGENT_GSI_EXITS_MAX; i++)
		assert_int_equal(set(ID + i, 1, 0, false), 0);
	assert_int_equal(set(ID + AGENT_GSI_EXITS_MAX, 1, 0, false), -ENOBUFS);
	assert_int_equal(set(ID, 2, 0, false), 0);
	gsi_exits_clear(&exit_mads, &count, ID);
	gsi_exits_clear(&exit_mads, &count, ID);
	assert_int_equal(count, AGENT_GSI_EXITS_MAX - 1);
	assert_int_equal(set(ID + AGENT_GSI_EXITS_MAX, 1, 0, false), 0);
	gsi_exits_forget(&exit_mads, &mine);
	gsi_exits_fini(&exit_mads);
}
