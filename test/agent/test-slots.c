/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/slots.h"

#include <errno.h>
#include <unistd.h>

#include "peer.h"
#include "test.h"

static struct agent_realm realm;
static struct slots slots;

static void make(void)
{
	env_enter();
	assert_int_equal(agent_realm_init(&realm, false), 0);
	slots_init(&slots, &realm);
}

TEST(slots, token_closed__slot_free_again_with_another_first_index)
{
	uint16_t index[3], again;
	int token[3], t;

	make();
	for (int i = 0; i < 3; i++)
		assert_int_equal(slots_take(&slots, &token[i], &index[i]), i + 1);
	close(token[1]);
	assert_int_equal(slots_take(&slots, &t, &again), 2);
	assert_int_not_equal(again, index[1]);
	assert_in_range(again, 0, AGENT_INDEXES - 1);
	close(t);
	close(token[0]);
	close(token[2]);
}

TEST(slots, copy_of_a_token_open__slot_in_use)
{
	uint16_t index;
	int token, copy, other;

	make();
	assert_int_equal(slots_take(&slots, &token, &index), 1);
	copy = dup(token);
	close(token);
	assert_int_equal(slots_take(&slots, &other, &index), 2);
	assert_true(slots_is_token(&slots, copy, 1));
	assert_false(slots_is_token(&slots, copy, 2));
	assert_false(slots_is_token(&slots, STDIN_FILENO, 1));
	close(copy);
	close(other);
}

TEST(slots, used_many_times__first_index_comes_round_to_all)
{
	static bool seen[AGENT_INDEXES];
	uint16_t index;
	int token;

	make();
	for (unsigned i = 0; i < AGENT_INDEXES; i++) {
		assert_int_equal(slots_take(&slots, &token, &index), 1);
		assert_false(seen[index]);
		seen[index] = true;
		close(token);
	}
}
