/* SPDX-License-Identifier: BSD-2-Clause */
/* The congestion window alone, and on a model of a path: a link, a queue in front of it, a delay.
 */
#include "test.h"

#include "base/rng.h"
#include "base/util.h"
#include "transport/cc.h"

enum { FULL = 4096 + 512, US = 1000, MS = 1000000 };
#define S 1000000000ull

static struct cc far_cc(void)
{
	struct cc cc;

	cc_init(&cc, 0, false);
	return cc;
}

/* A window's worth is acknowledged, all of it in use. */
static void round_trip(struct cc *cc, rocemu_ns_t now)
{
	const uint64_t window = cc->cwnd;

	for (uint64_t acked = 0; acked < window; acked += FULL)
		cc_on_ack(cc, now, FULL, window - acked);
}

/* ---- growth ---- */

TEST(cc_slow_start, no_congestion__doubles_from_four_packets)
{
	struct cc cc = far_cc();

	assert_int_equal(cc.cwnd, 4 * FULL);
	for (uint64_t want = 4; want <= 32; want *= 2) {
		assert_int_equal(cc.cwnd, want * FULL);
		round_trip(&cc, 0);
	}
}

TEST(cc_slow_start, same_host__starts_with_what_a_default_buffer_takes)
{
	struct cc cc;

	cc_init(&cc, 0, true);
	assert_int_equal(cc.cwnd, CC_SHORT_BYTES);
	cc_init(&cc, 10 * FULL, true);
	assert_int_equal(cc.cwnd, 10 * FULL);
}

TEST(cc_slow_start, same_host__ends_at_a_part_of_the_buffer)
{
	static const struct {
		uint64_t buffer, most;
	} of[] = {{8 << 20, CC_NEAR_BYTES},
		  {64 << 20, CC_NEAR_BYTES},
		  {4 << 20, 512 << 10},
		  {212992, CC_SHORT_BYTES}};

	for (unsigned i = 0; i < ARRAY_LEN(of); i++) {
		struct cc cc;

		cc_init(&cc, 0, true);
		cc_set_buffer(&cc, of[i].buffer);
		assert_int_equal(cc.cwnd, CC_SHORT_BYTES);
		cc_on_rtt(&cc, 50 * US);
		for (int k = 0; k < 20; k++)
			round_trip(&cc, 0);
		assert_int_equal(cc.cwnd, of[i].most);
	}
}

TEST(cc_slow_start, short_path__ends_at_what_a_default_buffer_takes)
{
	struct cc cc = far_cc();

	cc_on_rtt(&cc, 50 * US);
	for (int i = 0; i < 20; i++)
		round_trip(&cc, 0);
	assert_int_equal(cc.cwnd, CC_SHORT_BYTES);
}

TEST(cc_slow_start, first_congestion__over)
{
	struct cc cc = far_cc();
	uint64_t after;

	for (int i = 0; i < 3; i++)
		round_trip(&cc, 0);
	cc_on_cnp(&cc, 1 * MS);
	after = cc.cwnd;
	assert_int_equal(after, 16 * FULL);
	round_trip(&cc, 1 * MS);
	assert_true(cc.cwnd > after && cc.cwnd <= after + FULL);
}

TEST(cc_growth, after_a_cut__a_packet_a_round_trip_and_more_with_time)
{
	struct cc cc = far_cc();
	uint64_t before, first;

	cc_on_rtt(&cc, 50 * MS);
	cc.cwnd = cc.ssthresh = 1000 * FULL;
	before = cc.cwnd;
	round_trip(&cc, 0);
	first = cc.cwnd - before;
	assert_true(first > 0 && first < 2 * FULL);
	for (int i = 0; i < 20; i++)
		round_trip(&cc, 0);
	before = cc.cwnd;
	round_trip(&cc, 0);
	assert_true(cc.cwnd - before > 5 * first);
}

TEST(cc_growth, window_not_used__none_beyond_a_short_path)
{
	struct cc cc = far_cc();

	cc_on_rtt(&cc, 50 * MS);
	for (int i = 0; i < 2000; i++)
		cc_on_ack(&cc, 0, FULL, 2 * FULL);
	assert_true(cc.cwnd >= CC_SHORT_BYTES && cc.cwnd < CC_SHORT_BYTES + FULL);
}

/** After slow start, on a long path: a window of so many bytes. */
static struct cc grown(uint64_t window)
{
	struct cc cc = far_cc();

	cc_on_rtt(&cc, 50 * MS);
	cc.cwnd = window;
	cc.ssthresh = 0;
	return cc;
}

/* A quarter of a packet more in each round trip, up to one, and 1/1024 of the window more. */
TEST(cc_growth, round_trips_after_a_cut__by_numbers)
{
	static const uint64_t want[] = {46080 + 1152 + 45, 47277 + 2304 + 92, 49673 + 3456 + 145,
					53274 + 4608 + 208, 58090 + 4608 + 283};
	struct cc cc = grown(10 * FULL);

	for (unsigned i = 0; i < ARRAY_LEN(want); i++) {
		const uint64_t before = cc.cwnd;

		cc_on_ack(&cc, 0, before - 1, before);
		assert_int_equal(cc.cwnd, before);
		cc_on_ack(&cc, 0, 1, before);
		assert_int_equal(cc.cwnd, want[i]);
	}
}

TEST(cc_growth, half_of_a_large_window_used__the_least_that_makes_it_grow)
{
	struct cc cc = grown(CC_SHORT_BYTES);

	cc.ssthresh = UINT64_MAX;
	cc_on_ack(&cc, 0, FULL, CC_SHORT_BYTES / 2 - 1);
	assert_int_equal(cc.cwnd, CC_SHORT_BYTES);
	cc_on_ack(&cc, 0, FULL, CC_SHORT_BYTES / 2);
	assert_int_equal(cc.cwnd, CC_SHORT_BYTES + FULL);
	cc = grown(CC_SHORT_BYTES - 1);
	cc.ssthresh = UINT64_MAX;
	cc_on_ack(&cc, 0, FULL, 0);
	assert_int_equal(cc.cwnd, CC_SHORT_BYTES - 1 + FULL);
}

/* What was used in a round trip does not count for the next one. */
TEST(cc_growth, window_used_in_the_round_trip_before__not_enough)
{
	struct cc cc = grown(4 * CC_SHORT_BYTES);
	uint64_t before;

	cc.explore_after = 1000; /* not here */
	cc_on_ack(&cc, 0, cc.cwnd - 1, cc.cwnd);
	cc_on_ack(&cc, 0, 1, 0);
	before = cc.cwnd;
	assert_true(before > 4 * CC_SHORT_BYTES);
	for (unsigned i = 0; i < 4; i++)
		cc_on_ack(&cc, 0, before, 0);
	assert_int_equal(cc.cwnd, before);
}

TEST(cc_growth, packets_late__none_beyond_a_short_path)
{
	struct cc cc = far_cc();
	uint64_t before;

	cc_on_rtt(&cc, 1 * MS);
	for (int i = 0; i < 8; i++)
		round_trip(&cc, 0);
	assert_true(cc.cwnd > 2 * CC_SHORT_BYTES);
	for (int i = 0; i < 50; i++)
		cc_on_rtt(&cc, 2 * MS);
	before = cc.cwnd;
	for (int i = 0; i < 100; i++) {
		round_trip(&cc, 0);
		assert_true(cc.cwnd <= before);
	}
}

TEST(cc_max, round_trip_time__decides_as_far_as_the_user_allows)
{
	struct cc cc = far_cc();

	assert_int_equal(cc_max(&cc), CC_SHORT_BYTES);
	cc_on_rtt(&cc, 100 * US);
	assert_int_equal(cc_max(&cc), CC_SHORT_BYTES);
	cc = far_cc();
	cc_on_rtt(&cc, 1 * MS);
	assert_true(cc_max(&cc) >= 2 << 20);
	cc = far_cc();
	cc_on_rtt(&cc, 50 * MS);
	assert_true(cc_max(&cc) >= 64 << 20);
	cc_init(&cc, 0, true);
	cc_on_rtt(&cc, 300 * US);
	assert_int_equal(cc_max(&cc), CC_SHORT_BYTES);
	cc = far_cc(); /* 20 Gbit/s of what is beyond a short path */
	cc_on_rtt(&cc, cc.short_rtt_ns + 8000);
	assert_int_equal(cc_max(&cc), CC_SHORT_BYTES + 20000);
	cc = far_cc();
	cc_on_rtt(&cc, ROCEMU_NEVER); /* no such round trip, but no overflow */
	assert_int_equal(cc_max(&cc), 256 << 20);
	cc.limit = 100000;
	assert_int_equal(cc_max(&cc), 100000);
	/* A path that turns out to be short takes the window down with it. */
	cc = far_cc();
	cc_on_rtt(&cc, 50 * MS);
	for (int i = 0; i < 10; i++)
		round_trip(&cc, 0);
	assert_true(cc.cwnd > CC_SHORT_BYTES);
	cc_on_rtt(&cc, 20 * US);
	assert_int_equal(cc.cwnd, CC_SHORT_BYTES);
}

/* 0 stands for "not measured". */
TEST(cc_on_rtt, no_time_at_all__counts_as_measured)
{
	struct cc cc = far_cc();

	cc_on_rtt(&cc, 0);
	cc_on_rtt(&cc, 8 * US);
	assert_int_equal(cc.min_rtt, 1);
	assert_in_range(cc.srtt, 1000, 1001);
}

TEST(cc_init, limit_below_four_packets__window_is_the_limit)
{
	struct cc cc;

	cc_init(&cc, 1, false);
	assert_int_equal(cc.cwnd, 1);
	cc_on_loss(&cc, 1 * MS);
	cc_on_cnp(&cc, 2 * MS);
	round_trip(&cc, 3 * MS);
	assert_int_equal(cc.cwnd, 1);
}

/* ---- loss ---- */

/* A window that was in use, on a path whose packets are late. */
static struct cc late_cc(void)
{
	struct cc cc = far_cc();

	cc_on_rtt(&cc, 50 * US);
	for (int i = 0; i < 10; i++)
		round_trip(&cc, 1);
	for (int i = 0; i < 50; i++)
		cc_on_rtt(&cc, 300 * US);
	return cc;
}

TEST(cc_loss, packets_late__one_cut_for_a_flight)
{
	struct cc cc = late_cc();
	uint64_t before = cc.cwnd, after;

	cc_on_loss(&cc, 10 * MS);
	after = cc.cwnd;
	assert_int_equal(after, before * 7 / 10);
	for (int i = 0; i < 30; i++)
		cc_on_loss(&cc, 10 * MS + 10 * US);
	assert_int_equal(cc.cwnd, after);
	for (uint64_t acked = 0; acked < before; acked += FULL) {
		cc_on_loss(&cc, 10 * MS + 20 * US);
		cc_on_ack(&cc, 10 * MS + 20 * US, FULL, before - acked);
	}
	assert_int_equal(cc.cwnd, after);
	cc_on_loss(&cc, 11 * MS);
	assert_true(cc.cwnd < after);
}

TEST(cc_loss, nothing_acknowledged_any_more__down_to_a_packet)
{
	struct cc cc = late_cc();

	for (int i = 0; i < 100; i++)
		cc_on_loss(&cc, (rocemu_ns_t)(10 + 10 * i) * MS);
	assert_int_equal(cc.cwnd, FULL);
}

TEST(cc_loss, nothing_measured_yet__is_congestion)
{
	struct cc cc = far_cc();

	cc_on_loss(&cc, 1 * MS);
	assert_int_equal(cc.cwnd, 4 * FULL * 7 / 10);
}

/* One packet in every so many is lost, on a path that is in time. @return the window after it. */
static uint64_t lose_one_in(unsigned n)
{
	struct cc cc = far_cc();

	cc_on_rtt(&cc, 50 * US);
	for (unsigned i = 1; i < 20000; i++) {
		cc_on_ack(&cc, (rocemu_ns_t)i * 4 * US, FULL, cc.cwnd);
		if (i % n == 0)
			cc_on_loss(&cc, (rocemu_ns_t)i * 4 * US);
	}
	return cc.cwnd;
}

TEST(cc_loss, packets_in_time__chance_up_to_a_fifth)
{
	assert_int_equal(lose_one_in(100), CC_SHORT_BYTES);
	assert_int_equal(lose_one_in(8), CC_SHORT_BYTES);
	assert_true(lose_one_in(3) < CC_SHORT_BYTES / 4);
}

/* The first packets meet a queue of 400 us: the window that this seems to take is the queue. */
TEST(cc_explore, queue_before_the_first_measurement__time_without_it_is_found)
{
	struct cc cc = far_cc();
	rocemu_ns_t now = 1, rtt = 450 * US;

	for (int i = 0; i < 400; i++) {
		/* 10 Gbit/s behind 50 us; all that is more waits. */
		cc_on_rtt(&cc, rtt);
		round_trip(&cc, now += rtt);
		rtt = MAX((rocemu_ns_t)(50 * US), cc.cwnd * 8 / 10);
	}
	assert_true(cc.min_rtt < 120 * US);
	assert_true(cc.cwnd < CC_SHORT_BYTES * 3 / 2);
}

TEST(cc_explore, path_is_long__window_comes_back_in_a_round_trip)
{
	struct cc cc = far_cc();
	uint64_t least = UINT64_MAX;
	unsigned small = 0;

	cc_on_rtt(&cc, 50 * MS);
	for (int i = 0; i < 12; i++)
		round_trip(&cc, 1);
	for (int i = 0; i < 200; i++) {
		round_trip(&cc, 1);
		least = MIN(least, cc.cwnd);
		small += cc.cwnd < cc_max(&cc) * 9 / 10;
	}
	assert_true(least > cc_max(&cc) / 3);
	assert_true(small < 10);
}

TEST(cc_loss, clock_goes_back__no_harm)
{
	struct cc cc = late_cc();
	uint64_t after;

	cc_on_loss(&cc, 10 * MS);
	after = cc.cwnd;
	cc_on_loss(&cc, 9 * MS);
	assert_int_equal(cc.cwnd, after);
	cc_on_cnp(&cc, 8 * MS);
	after = cc.cwnd;
	cc_on_cnp(&cc, 7 * MS);
	assert_int_equal(cc.cwnd, after);
	cc_on_idle(&cc, 1);
	assert_int_equal(cc.cwnd, after);
}

/* ---- CNPs ---- */

TEST(cc_cnp, flood__one_cut_an_interval)
{
	struct cc cc = far_cc();
	uint64_t before = cc.cwnd, after;

	cc.unit = 256;
	cc_on_cnp(&cc, 100 * US);
	after = cc.cwnd;
	assert_int_equal(after, before / 2);
	for (int i = 0; i < 49; i++)
		cc_on_cnp(&cc, (rocemu_ns_t)(100 + i) * US);
	assert_int_equal(cc.cwnd, after);
	cc_on_cnp(&cc, 150 * US);
	assert_true(cc.cwnd < after);
	for (int i = 0; i < 1000; i++)
		cc_on_cnp(&cc, (rocemu_ns_t)(200 + 50 * i) * US);
	assert_int_equal(cc.cwnd, 256);
}

TEST(cc_cnp, long_path__one_cut_a_round_trip)
{
	struct cc cc = far_cc();
	uint64_t after;

	cc_on_rtt(&cc, 10 * MS);
	cc_on_cnp(&cc, 100 * MS);
	after = cc.cwnd;
	cc_on_cnp(&cc, 109 * MS);
	assert_int_equal(cc.cwnd, after);
	cc_on_cnp(&cc, 110 * MS);
	assert_true(cc.cwnd < after);
}

TEST(cc_cnp, seldom__cuts_get_gentle)
{
	struct cc cc = far_cc();
	uint64_t before;

	cc_on_rtt(&cc, 50 * US);
	for (unsigned i = 1; i < 50; i++) {
		cc_on_cnp(&cc, i * 5ull * MS);
		for (int k = 0; k < 50; k++)
			round_trip(&cc, i * 5ull * MS);
	}
	before = cc.cwnd;
	cc_on_cnp(&cc, 1 * S);
	assert_true(cc.cwnd < before && cc.cwnd > before * 9 / 10);
}

/* ---- idle ---- */

TEST(cc_idle, long_path__burst_of_a_short_one_then_slow_start)
{
	struct cc cc = far_cc();

	cc_on_rtt(&cc, 50 * MS);
	for (int i = 0; i < 11; i++)
		round_trip(&cc, 1 * S);
	assert_true(cc.cwnd > 10 << 20);
	cc_on_idle(&cc, 1 * S + 100 * MS);
	assert_true(cc.cwnd > 10 << 20);
	cc_on_idle(&cc, 3 * S);
	assert_int_equal(cc.cwnd, CC_SHORT_BYTES);
	round_trip(&cc, 3 * S);
	assert_true(cc.cwnd > CC_SHORT_BYTES * 19 / 10);
}

TEST(cc_idle, window_was_small__starts_anew)
{
	struct cc cc = late_cc();

	for (int i = 0; i < 100; i++)
		cc_on_loss(&cc, (rocemu_ns_t)(10 + 10 * i) * MS);
	assert_int_equal(cc.cwnd, FULL);
	cc_on_idle(&cc, 20 * S);
	assert_int_equal(cc.cwnd, 4 * FULL);
	assert_int_equal(cc.min_rtt, 0);
}

/* ---- on a path ---- */

/* A link of 10 Gbit/s with delay, marking or tail drop, that senders share; in steps of one packet.
 */
enum { MANY = 64, PACKETS = 1 << 16 };

struct path {
	rocemu_ns_t delay;   /* there and back, without the queue */
	unsigned mark, drop; /* packets in the queue; 0: none */
	double loss;
	rocemu_ns_t stop;
	unsigned senders;
	uint64_t most; /* that a sender has to send at a time */
	/* results */
	uint64_t delivered[MANY]; /* in the second half */
	unsigned dropped;
};

struct packet {
	rocemu_ns_t back, sent;
	uint8_t sender;
	bool lost, marked;
};

/* Packets come back in the order in which they went: losses are noticed then, too. */
static void run(struct path *p, struct cc *cc)
{
	static struct packet ring[PACKETS];
	enum { PACKET_NS = 3300 }; /* 4096 bytes at 10 Gbit/s */
	unsigned head = 0, tail = 0, first = 0;
	uint64_t used[MANY] = {0};
	rocemu_ns_t now = 0, link = 0;
	struct rng rng;

	rng_init(&rng, 1);
	while (now < p->stop) {
		bool sent = false;

		for (unsigned i = 0; i < p->senders && head - tail < PACKETS; i++) {
			unsigned s = (first + i) % p->senders;
			unsigned queue = link > now ? (unsigned)((link - now) / PACKET_NS) : 0;
			struct packet *k = &ring[head % PACKETS];

			if (used[s] && used[s] + FULL > MIN(cc[s].cwnd, p->most))
				continue;
			if (!used[s])
				cc_on_idle(&cc[s], now);
			*k = (struct packet){.sent = now, .sender = (uint8_t)s};
			k->lost = (p->drop && queue >= p->drop) || rng_chance(&rng, p->loss);
			k->marked = p->mark && queue >= p->mark;
			p->dropped += k->lost;
			if (!k->lost)
				link = MAX(link, now) + PACKET_NS;
			k->back = MAX(link, now) + p->delay;
			used[s] += FULL;
			head++;
			sent = true;
		}
		first++;
		if (sent)
			continue;
		now = MAX(now, ring[tail % PACKETS].back);
		while (tail != head && ring[tail % PACKETS].back <= now) {
			const struct packet *k = &ring[tail++ % PACKETS];
			struct cc *c = &cc[k->sender];

			if (k->lost) {
				cc_on_loss(c, now);
			} else {
				cc_on_rtt(c, now - k->sent);
				cc_on_ack(c, now, FULL, used[k->sender]);
				if (now > p->stop / 2)
					p->delivered[k->sender]++;
			}
			if (k->marked)
				cc_on_cnp(c, now);
			used[k->sender] -= FULL;
		}
	}
}

static double mbit(const struct path *p, unsigned sender)
{
	return (double)p->delivered[sender] * 4096 * 8 * 1000 / (double)(p->stop - p->stop / 2);
}

static double jain(const struct path *p)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < p->senders; i++) {
		sum += mbit(p, i);
		squares += mbit(p, i) * mbit(p, i);
	}
	return sum * sum / (p->senders * squares);
}

static struct path run_alone(struct path p)
{
	struct cc cc = far_cc();

	p.senders = 1;
	run(&p, &cc);
	return p;
}

TEST(cc_path, long_and_lossless__full_within_seconds)
{
	struct path p = run_alone((struct path){.delay = 50 * MS, .stop = 4 * S, .most = 64 << 20});

	assert_true(mbit(&p, 0) > 9000);
	assert_int_equal(p.dropped, 0);
}

TEST(cc_path, one_percent_lost_by_chance__window_stays)
{
	struct path p = run_alone(
		(struct path){.delay = 1 * MS, .stop = 1 * S, .most = 16 << 20, .loss = 0.01});

	assert_true(mbit(&p, 0) > 9000);
	p = run_alone(
		(struct path){.delay = 50 * US, .stop = 200 * MS, .most = 16 << 20, .loss = 0.05});
	assert_true(mbit(&p, 0) > 9000);
}

TEST(cc_path, queue_with_tail_drop__little_is_lost)
{
	struct path p = run_alone(
		(struct path){.delay = 1 * MS, .stop = 2 * S, .most = 16 << 20, .drop = 256});

	assert_true(mbit(&p, 0) > 8000);
	/* Of half a million packets; slow start's last doubling is among them. */
	assert_true(p.dropped < 5000);
}

TEST(cc_path, sixty_four_senders_marked__fair_and_full)
{
	struct path p = {
		.delay = 50 * US, .stop = 1 * S, .most = 1 << 20, .mark = 16, .senders = MANY};
	struct cc cc[MANY];
	double total = 0;

	for (int i = 0; i < MANY; i++)
		cc[i] = far_cc();
	run(&p, cc);
	for (unsigned i = 0; i < MANY; i++)
		total += mbit(&p, i);
	assert_true(total > 9500);
	assert_true(jain(&p) > 0.95);
	/* All wait for the link with about one packet each. */
	for (int i = 0; i < MANY; i++)
		assert_true(cc[i].cwnd < 4 * FULL);
}
