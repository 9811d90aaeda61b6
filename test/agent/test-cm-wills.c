/* SPDX-License-Identifier: BSD-2-Clause */
/* When which will is sent, in virtual time. */
#include "agent/cm-wills.h"

#include <errno.h>

#include "test.h"

enum { CODE_17_MS = 12, ID = 5 << AGENT_CM_ID_BITS };

static const struct rocemu_gid peer = {{[10] = 0xff, 0xff, 10, 0, 0, 2}};
static struct cm_wills wills;
static struct list mine;
static unsigned count;

static void fresh(void)
{
	cm_wills_init(&wills);
	list_init(&mine);
	count = 0;
}

static int set(uint32_t id, uint8_t mark, uint8_t retries, bool repeat)
{
	uint8_t bytes[AGENT_CM_DGRAM_LEN] = {mark};
	struct cm_frame f = {.type = CM_FRAME_WILL,
			     .comm_id = id,
			     .cm_timeout = CODE_17_MS,
			     .retries = retries,
			     .d = {.dst = peer, .len = sizeof(bytes), .data = bytes}};

	return cm_wills_set(&wills, &mine, &count, &f, repeat);
}

/* The mark of what is due, 0: nothing. */
static unsigned due(uint64_t now)
{
	const struct agent_cm_dgram *d = cm_wills_take(&wills, now);

	return d ? d->data[0] : 0;
}

TEST(cm_wills, dreq__sent_and_retried_then_given_up)
{
	fresh();
	assert_int_equal(set(ID, 1, 2, true), 0);
	assert_int_equal(due(1000), 0);
	assert_true(cm_wills_next_ms(&wills) == UINT64_MAX);
	cm_wills_execute(&wills, &mine, 100);
	assert_true(list_empty(&mine));
	for (unsigned i = 0; i < 3; i++) {
		uint64_t at = 100 + 16 * i; /* 16.7 ms */

		assert_true(cm_wills_next_ms(&wills) == at);
		assert_int_equal(due(at - 1), 0);
		assert_int_equal(due(at), 1);
		assert_int_equal(due(at), 0);
	}
	assert_int_equal(wills.given_up, 0);
	assert_true(cm_wills_linger(&wills, 5));
	assert_int_equal(due(148), 0);
	assert_int_equal(wills.given_up, 1);
	assert_int_equal(wills.due_count, 0);
	assert_false(cm_wills_linger(&wills, 5));
	cm_wills_fini(&wills);
}

TEST(cm_wills, rej__sent_once)
{
	fresh();
	assert_int_equal(set(ID, 1, 15, false), 0);
	cm_wills_execute(&wills, &mine, 100);
	assert_int_equal(due(100), 1);
	assert_int_equal(wills.due_count, 0);
	assert_int_equal(due(1000000), 0);
	assert_int_equal(wills.given_up, 0);
	cm_wills_fini(&wills);
}

TEST(cm_wills, several__in_the_order_of_their_times)
{
	fresh();
	assert_int_equal(set(ID, 1, 1, true), 0);
	assert_int_equal(set(ID + 1, 2, 0, false), 0);
	cm_wills_execute(&wills, &mine, 100);
	assert_int_equal(set(ID + 2, 3, 1, true), 0);
	cm_wills_execute(&wills, &mine, 90);
	assert_int_equal(due(110), 3);
	assert_int_equal(due(110), 1);
	assert_int_equal(due(110), 2);
	assert_int_equal(due(110), 0);
	cm_wills_fini(&wills);
}

TEST(cm_wills, given_up_when_another_is_due__the_other_is_sent)
{
	fresh();
	assert_int_equal(set(ID, 1, 0, true), 0);
	assert_int_equal(set(ID + 1, 2, 1, true), 0);
	cm_wills_execute(&wills, &mine, 100);
	assert_int_equal(due(100), 1);
	assert_int_equal(due(100), 2);
	assert_int_equal(due(200), 2);
	assert_int_equal(wills.given_up, 1);
	assert_int_equal(wills.due_count, 1);
	cm_wills_fini(&wills);
}

TEST(cm_wills, answer__from_the_right_peer_ends_it)
{
	struct rocemu_gid other = peer;

	other.raw[15]++;
	fresh();
	assert_int_equal(set(ID, 1, 15, true), 0);
	/* Its client lives: that is the client's business. */
	assert_false(cm_wills_answered(&wills, ID, &peer));
	cm_wills_execute(&wills, &mine, 100);
	assert_int_equal(due(100), 1);
	assert_false(cm_wills_answered(&wills, ID, &other));
	assert_false(cm_wills_answered(&wills, ID + 1, &peer));
	assert_true(cm_wills_answered(&wills, ID, &peer));
	assert_false(cm_wills_answered(&wills, ID, &peer));
	assert_int_equal(due(1000000), 0);
	cm_wills_fini(&wills);
}

TEST(cm_wills, client_is_back__its_wills_are_not_executed)
{
	fresh();
	assert_int_equal(set(ID, 1, 15, true), 0);
	assert_int_equal(set(6u << AGENT_CM_ID_BITS, 2, 15, true), 0);
	cm_wills_execute(&wills, &mine, 100);
	cm_wills_recall(&wills, 5);
	assert_int_equal(due(100), 2);
	assert_int_equal(due(100), 0);
	cm_wills_fini(&wills);
}

TEST(cm_wills, too_many__refused_and_replacing_still_works)
{
	fresh();
	for (unsigned i = 0; i < AGENT_CM_WILLS_MAX; i++)
		assert_int_equal(set(ID + i, 1, 0, false), 0);
	assert_int_equal(set(ID + AGENT_CM_WILLS_MAX, 1, 0, false), -ENOBUFS);
	assert_int_equal(set(ID, 2, 0, false), 0);
	cm_wills_clear(&wills, &count, ID);
	cm_wills_clear(&wills, &count, ID);
	assert_int_equal(count, AGENT_CM_WILLS_MAX - 1);
	assert_int_equal(set(ID + AGENT_CM_WILLS_MAX, 1, 0, false), 0);
	cm_wills_forget(&wills, &mine);
	cm_wills_fini(&wills);
}
