/* SPDX-License-Identifier: BSD-2-Clause */
/* The slab of early packets: order, bounds, sharing, what is taken from queues that stand still. */
#include "test.h"

#include <string.h>

#include "base/rng.h"
#include "transport/keep.h"

enum { QUEUES = 64 };

static struct keep k;
static struct keep_queue q[QUEUES];

static void setup(void)
{
	assert_int_equal(keep_init(&k), 0);
	for (unsigned i = 0; i < QUEUES; i++)
		keep_queue_init(&q[i]);
	/* Each is of another peer. */
	for (unsigned i = 0; i < QUEUES; i++)
		q[i].cell = (uint8_t)i;
}

static void teardown(void)
{
	for (unsigned i = 0; i < QUEUES; i++)
		keep_clear(&k, &q[i]);
	assert_int_equal(k.nfree, KEEP_SLOTS);
	assert_true(list_empty(&k.holders));
	keep_fini(&k);
}

static enum keep_result add(unsigned i, rocemu_ns_t now, uint32_t psn)
{
	return keep_add(&k, &q[i], now, psn, (const uint8_t *)&psn, sizeof(psn),
			(const uint8_t *)&psn, 0);
}

/** Packets from psn on until one is not kept. @return how many were. */
static uint32_t fill(unsigned i, rocemu_ns_t now, uint32_t psn)
{
	uint32_t n = 0;

	while (add(i, now, (psn + n) & ROCEMU_PSN_MASK) == KEEP_DONE)
		n++;
	return n;
}

static bool take(unsigned i, rocemu_ns_t now, uint32_t psn)
{
	struct keep_slot *s = keep_take(&k, &q[i], now, psn);
	uint32_t held;

	if (!s)
		return false;
	assert_int_equal(s->psn, psn);
	assert_int_equal(s->len, sizeof(held));
	memcpy(&held, keep_data(&k, s), sizeof(held));
	assert_int_equal(held, psn);
	keep_give(&k, s);
	return true;
}

TEST(keep, any_order_across_the_wrap__taken_by_psn)
{
	static const uint32_t order[] = {3, 0xfffffe, 1, 0, 0xffffff, 2};

	setup();
	for (unsigned i = 0; i < ARRAY_LEN(order); i++)
		assert_int_equal(add(0, 0, order[i]), KEEP_DONE);
	for (unsigned i = 0; i < ARRAY_LEN(order); i++)
		assert_int_equal(add(0, 0, order[i]), KEEP_DOUBLE);
	assert_int_equal(q[0].count, 6);
	assert_false(take(0, 0, 0xfffffd));
	for (uint32_t i = 0; i < 6; i++)
		assert_true(take(0, 0, (0xfffffe + i) & ROCEMU_PSN_MASK));
	assert_true(keep_empty(&q[0]));
	teardown();
}

TEST(keep, expected_psn_beyond_what_is_kept__forgotten)
{
	setup();
	for (uint32_t psn = 10; psn < 20; psn += 2)
		assert_int_equal(add(0, 0, psn), KEEP_DONE);
	assert_true(take(0, 0, 16));
	assert_int_equal(q[0].count, 1);
	assert_false(take(0, 0, 30));
	assert_true(keep_empty(&q[0]));
	teardown();
}

TEST(keep, packet_of_the_largest_size__kept_whole_and_a_larger_one_is_not)
{
	static uint8_t data[KEEP_SLOT_BYTES + 1];
	struct keep_slot *s;

	setup();
	memset(data, 0xa5, sizeof(data));
	assert_int_equal(add(0, 0, 1), KEEP_DONE);
	assert_int_equal(keep_add(&k, &q[0], 0, 2, data, 12, data + 12, ROCEMU_MAX_PACKET - 12),
			 KEEP_DONE);
	assert_int_equal(add(0, 0, 3), KEEP_DONE);
	assert_int_equal(keep_add(&k, &q[0], 0, 4, data, 12, data + 12, sizeof(data) - 12),
			 KEEP_FULL);
	assert_true(take(0, 0, 1));
	s = keep_take(&k, &q[0], 0, 2);
	assert_non_null(s);
	assert_int_equal(s->len, ROCEMU_MAX_PACKET);
	assert_memory_equal(keep_data(&k, s), data, ROCEMU_MAX_PACKET);
	keep_give(&k, s);
	assert_true(take(0, 0, 3));
	teardown();
}

/* What a queue gets of all slots, and one of what that leaves. */
enum { ALONE = 2 * KEEP_SLOTS / 3 + 1, SECOND = 2 * (KEEP_SLOTS - ALONE) / 3 + 1 };

TEST(keep, one_queue__gets_two_thirds_and_the_newest_lost_is_noted)
{
	setup();
	assert_int_equal(fill(0, 0, 100), ALONE);
	assert_true(q[0].lost);
	assert_int_equal(q[0].lost_psn, 100 + ALONE);
	assert_int_equal(add(0, 0, 5000), KEEP_FULL);
	assert_int_equal(add(0, 0, 4000), KEEP_FULL);
	assert_int_equal(q[0].lost_psn, 5000);
	/* It matters until the expected PSN is beyond it. */
	for (uint32_t i = 0; i < ALONE; i++)
		assert_true(take(0, 0, 100 + i));
	assert_false(keep_empty(&q[0]));
	assert_false(take(0, 0, 5000));
	assert_false(keep_empty(&q[0]));
	assert_false(take(0, 0, 5001));
	assert_true(keep_empty(&q[0]));
	teardown();
}

TEST(keep, many_queues__each_gets_some)
{
	bool more = true;

	setup();
	for (uint32_t psn = 0; more; psn++) {
		more = false;
		for (unsigned i = 0; i < QUEUES; i++)
			more |= add(i, 0, psn) == KEEP_DONE;
	}
	for (unsigned i = 0; i < QUEUES; i++)
		assert_in_range(q[i].count, 2 * KEEP_SLOTS / (2 * QUEUES + 1), KEEP_SLOTS / QUEUES);
	teardown();
}

TEST(keep, queues_of_one_peer__leave_a_fifth_to_others)
{
	enum { PEER = 4 * KEEP_SLOTS / 5 + 1, OTHER = (2 * (KEEP_SLOTS - PEER) + 2) / 3 };
	unsigned n = 0;

	setup();
	for (unsigned i = 0; i < QUEUES; i++)
		q[i].cell = i == QUEUES - 1;
	for (uint32_t psn = 0; psn < KEEP_SLOTS; psn++)
		for (unsigned i = 0; i < QUEUES - 1; i++)
			n += add(i, 0, psn) == KEEP_DONE;
	assert_int_equal(n, PEER);
	assert_int_equal(fill(QUEUES - 1, 0, 0), OTHER);
	/* What leaves a queue leaves its peer's share. */
	assert_true(take(QUEUES - 1, 0, 0));
	assert_int_equal(add(QUEUES - 1, 0, OTHER), KEEP_DONE);
	teardown();
}

TEST(keep, queue_without_progress__its_packets_are_taken_once_another_needs_room)
{
	setup();
	assert_int_equal(fill(0, 1000, 0), ALONE);
	assert_int_equal(fill(1, 2000, 0), SECOND);
	/* Not before its time, and not by a clock that went back. */
	assert_int_equal(add(1, KEEP_STUCK_NS + 999, 4000), KEEP_FULL);
	assert_int_equal(add(1, 0, 4000), KEEP_FULL);
	assert_int_equal(q[0].count, ALONE);
	assert_int_equal(add(1, KEEP_STUCK_NS + 1000, 4000), KEEP_DONE);
	assert_int_equal(q[0].count, 0);
	assert_true(q[0].lost);
	assert_int_equal(q[0].lost_psn, ALONE);
	/* Never its own. */
	fill(1, KEEP_STUCK_NS + 1000, 4001);
	assert_int_equal(add(1, 10ull * KEEP_STUCK_NS, 8000), KEEP_FULL);
	assert_int_equal(q[1].count, ALONE);
	teardown();
}

TEST(keep, queue_with_progress__is_left_alone)
{
	setup();
	fill(0, 0, 0);
	fill(1, 0, 0);
	assert_true(take(0, KEEP_STUCK_NS, 0));
	/* The second is now the one that stands still for longest. */
	assert_int_equal(fill(2, KEEP_STUCK_NS, 0), SECOND);
	assert_int_equal(q[0].count, ALONE - 1);
	assert_int_equal(q[1].count, 0);
	teardown();
}

TEST(keep, slots_used_again__before_fresh_ones)
{
	setup();
	for (unsigned i = 0; i < 5 * KEEP_SLOTS; i++) {
		add(0, 0, i);
		add(1, 0, i);
		assert_true(take(1, 0, i));
		assert_true(take(0, 0, i));
	}
	assert_int_equal(k.fresh, 2);
	teardown();
}

TEST(keep, random_use__nothing_lost_nothing_doubled)
{
	static bool held[4][256];
	struct rng r;

	rng_init(&r, 1);
	setup();
	memset(held, 0, sizeof(held));
	for (unsigned n = 0; n < 200000; n++) {
		unsigned i = rng_below(&r, 4);
		uint32_t psn = rng_below(&r, 256);
		uint32_t total = 0;

		switch (rng_below(&r, 8)) {
		case 0: /* earlier packets are dropped */
			assert_int_equal(take(i, n, psn), held[i][psn]);
			memset(held[i], 0, psn + 1);
			break;
		case 1:
			if (rng_below(&r, 20) == 0) {
				keep_clear(&k, &q[i]);
				memset(held[i], 0, sizeof(held[i]));
			}
			break;
		default:
			switch (add(i, n, psn)) {
			case KEEP_DONE:
				assert_false(held[i][psn]);
				held[i][psn] = true;
				break;
			case KEEP_DOUBLE:
				assert_true(held[i][psn]);
				break;
			case KEEP_FULL:
				assert_false(held[i][psn]);
				break;
			}
			break;
		}
		for (unsigned j = 0; j < 4; j++)
			total += q[j].count;
		assert_int_equal(k.nfree, KEEP_SLOTS - total);
	}
	teardown();
}
