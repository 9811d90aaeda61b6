/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <errno.h>

#include "transport/slot-table.h"

enum { MAX = 256, NUMBERS = 1 << SLOT_NUMBER_BITS };

struct fixture {
	struct slot_table t;
	struct prf prf;
	char objects[MAX];
};

static void setup(struct fixture *f)
{
	f->prf = (struct prf){.key = {7}};
	slot_table_init(&f->t, MAX);
}

static uint32_t put(struct fixture *f, unsigned object)
{
	uint32_t number;

	assert_int_equal(slot_init(&f->t, &f->prf, &f->objects[object], &number), 0);
	assert_in_range(number, 1, NUMBERS - 1);
	return number;
}

TEST(slot_at, nothing_was_put__null_at_any_number)
{
	struct fixture f;

	setup(&f);
	assert_null(slot_at(&f.t, 0));
	assert_null(slot_at(&f.t, UINT32_MAX));
	slot_fini(&f.t, put(&f, 0));
	for (uint32_t i = 0; i < 2 * f.t.size; i++)
		assert_null(slot_at(&f.t, i));
	assert_null(slot_at(&f.t, UINT32_MAX));
	slot_table_fini(&f.t);
}

TEST(slot_init, table_full__enomem_and_all_still_found)
{
	struct fixture f;
	uint32_t n[MAX], more;

	setup(&f);
	for (unsigned i = 0; i < MAX; i++)
		n[i] = put(&f, i);
	assert_int_equal(slot_init(&f.t, &f.prf, &f.objects[0], &more), -ENOMEM);
	for (unsigned i = 0; i < MAX; i++)
		assert_ptr_equal(slot_at(&f.t, n[i]), &f.objects[i]);
	slot_fini(&f.t, n[MAX / 2]);
	assert_null(slot_at(&f.t, n[MAX / 2]));
	more = put(&f, MAX / 2);
	assert_ptr_equal(slot_at(&f.t, more), &f.objects[MAX / 2]);
	slot_table_fini(&f.t);
}

/* Of each place, the first and those that were never used among them. */
TEST(slot_init, table_grows__all_still_found)
{
	for (unsigned seed = 0; seed < 100; seed++) {
		struct fixture f;
		uint32_t n[MAX];

		setup(&f);
		f.prf = (struct prf){.key = {seed}};
		for (unsigned i = 0; i < MAX; i++) {
			n[i] = put(&f, i);
			for (unsigned j = 0; j <= i; j++)
				assert_ptr_equal(slot_at(&f.t, n[j]), &f.objects[j]);
		}
		slot_table_fini(&f.t);
	}
}

TEST(slot_init, many_in_turn__half_of_the_places_stay_free)
{
	struct fixture f;

	setup(&f);
	for (unsigned i = 0; i < MAX; i++) {
		put(&f, i);
		assert_true(2 * f.t.count <= f.t.size);
	}
	assert_int_equal(f.t.size, 2 * MAX);
	slot_table_fini(&f.t);
}

TEST(slot_init, place_used_again__never_the_number_that_was_there_last)
{
	uint32_t last[MAX] = {0}, number;
	struct fixture f;

	setup(&f);
	for (unsigned round = 0; round < 100000; round++) {
		number = put(&f, 0);
		assert_true(f.t.size <= MAX);
		assert_int_not_equal(last[number % f.t.size], number);
		last[number % f.t.size] = number;
		slot_fini(&f.t, number);
	}
	slot_table_fini(&f.t);
}

/* Each of the 24 bits is set in about half of the numbers, whether they are together in the table
 * or not. */
TEST(slot_init, numbers__every_bit_is_chance)
{
	enum { MANY = 4096, SLACK = 512 };
	unsigned together[SLOT_NUMBER_BITS] = {0}, alone[SLOT_NUMBER_BITS] = {0};
	struct slot_table t;
	struct fixture f;
	uint32_t number;

	setup(&f);
	slot_table_init(&t, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(slot_init(&t, &f.prf, f.objects, &number), 0);
		for (unsigned bit = 0; bit < SLOT_NUMBER_BITS; bit++)
			together[bit] += number >> bit & 1;
		number = put(&f, 0);
		slot_fini(&f.t, number);
		for (unsigned bit = 0; bit < SLOT_NUMBER_BITS; bit++)
			alone[bit] += number >> bit & 1;
	}
	for (unsigned bit = 0; bit < SLOT_NUMBER_BITS; bit++) {
		assert_in_range(together[bit], MANY / 2 - SLACK, MANY / 2 + SLACK);
		assert_in_range(alone[bit], MANY / 2 - SLACK, MANY / 2 + SLACK);
	}
	slot_table_fini(&t);
	slot_table_fini(&f.t);
}

/* Of the authors' test vectors the one of 8 bytes: key 00 to 0f, message 00 to 07. */
