/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <errno.h>

#include "transport/slot-table.h"

enum { MAX = 256 };

struct fixture {
	struct slot_table t;
	struct rng rng;
	char objects[MAX];
};

static void setup(struct fixture *f)
{
	rng_init(&f->rng, 7);
	slot_table_init(&f->t, MAX);
}

static struct slot put(struct fixture *f, unsigned object)
{
	struct slot s;

	assert_int_equal(slot_init(&f->t, &f->rng, &f->objects[object], &s), 0);
	return s;
}

TEST(slot_at, nothing_was_put__null_at_any_index)
{
	struct fixture f;

	setup(&f);
	assert_null(slot_at(&f.t, 0));
	assert_null(slot_at(&f.t, UINT32_MAX));
	put(&f, 0);
	assert_null(slot_at(&f.t, 0));
	assert_null(slot_at(&f.t, f.t.size - 1));
	assert_null(slot_at(&f.t, f.t.size));
	assert_null(slot_at(&f.t, UINT32_MAX));
	slot_table_fini(&f.t);
}

TEST(slot_init, table_full__enomem_and_all_still_found)
{
	struct fixture f;
	struct slot s[MAX], more;

	setup(&f);
	for (unsigned i = 1; i < MAX; i++) {
		s[i] = put(&f, i);
		assert_in_range(s[i].index, 1, MAX - 1);
	}
	assert_int_equal(slot_init(&f.t, &f.rng, &f.objects[0], &more), -ENOMEM);
	for (unsigned i = 1; i < MAX; i++)
		assert_ptr_equal(slot_at(&f.t, s[i].index), &f.objects[i]);
	/* One leaves: its place is the only one there is. */
	slot_fini(&f.t, s[MAX / 2]);
	assert_null(slot_at(&f.t, s[MAX / 2].index));
	more = put(&f, 0);
	assert_int_equal(more.index, s[MAX / 2].index);
	assert_int_equal(more.tag, (uint8_t)(s[MAX / 2].tag + 1));
	slot_table_fini(&f.t);
}

TEST(slot_init, index_just_freed__another_is_taken)
{
	struct fixture f;
	struct slot first, second;

	setup(&f);
	first = put(&f, 1);
	slot_fini(&f.t, first);
	second = put(&f, 2);
	assert_int_not_equal(second.index, first.index);
	slot_table_fini(&f.t);
}

/* All 256 tags come round before a number is seen again, whichever tag an index began with. */
TEST(slot_init, index_used_again__next_tag)
{
	struct fixture f;
	uint32_t size;
	uint8_t last[MAX];

	setup(&f);
	slot_fini(&f.t, put(&f, 0));
	size = f.t.size;
	for (unsigned round = 0; round <= 256; round++)
		for (unsigned i = 1; i < size; i++) {
			struct slot s = put(&f, 0);

			if (round)
				assert_int_equal(s.tag, (uint8_t)(last[s.index] + 1));
			last[s.index] = s.tag;
			slot_fini(&f.t, s);
		}
	assert_int_equal(f.t.size, size);
	slot_table_fini(&f.t);
}

TEST(slot_init, first_tag_of_each_index__from_the_generator)
{
	struct fixture f;
	struct rng same;

	setup(&f);
	same = f.rng;
	for (unsigned i = 1; i < MAX; i++)
		assert_int_equal(put(&f, i).tag, (uint8_t)(rng_u32(&same) + 1));
	slot_table_fini(&f.t);
}

/* A memory window's program chooses the tags of its keys: the next one follows the last. */
TEST(slot_fini, tag_was_changed_by_its_user__next_one_follows_that)
{
	struct fixture f;
	struct slot s[MAX], again;

	setup(&f);
	for (unsigned i = 1; i < MAX; i++)
		s[i] = put(&f, i);
	s[9].tag = (uint8_t)(s[9].tag + 100);
	slot_fini(&f.t, s[9]);
	again = put(&f, 9);
	assert_int_equal(again.index, s[9].index);
	assert_int_equal(again.tag, (uint8_t)(s[9].tag + 1));
	slot_table_fini(&f.t);
}
