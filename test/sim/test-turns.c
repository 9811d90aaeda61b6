/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes of one host that never have a core at the same time: what one sends in its turn,
 * the other takes in the next. So a turn moves a window, and a longer window is as much more
 * goodput. And what is lost at the end of a turn.
 */
#include "flow.h"
#include "test.h"

#include "base/util.h"
#include "transport/cc.h"

enum { TURN_MS = 5, LARGE_BUFFER = 8 << 20, PROBES = 4 * (4096 + 512) /* in a turn */ };

struct turns {
	struct fabric *f;
	struct flow_set *s;
};

/** qps: each with as many messages outstanding. */
static struct turns turns_of(unsigned qps, enum flow_op op, uint32_t bytes, unsigned outstanding,
			     uint32_t rcvbuf)
{
	struct fabric_config fc = fabric_defaults();
	struct flow_config c = flow_defaults();
	struct turns t;

	fc.one_host = true;
	fc.link_mbit = fc.cpu_mbit = 40000;
	fc.rtt_ns = 20 * FABRIC_US;
	fc.rcvbuf = rcvbuf;
	fc.sndbuf = 0;
	fc.ep.read_budget = rcvbuf / 2; /* as the engine has it */
	t.f = fabric_new(&fc);
	c.op = op;
	c.bytes = bytes;
	c.outstanding = outstanding;
	c.timeout = 18;
	t.s = flow_set_new(t.f, qps, bytes);
	for (unsigned i = 0; i < qps; i++)
		flow_add(t.s, &c);
	flow_set_start(t.s);
	fabric_run_until(t.f, t.f->now + 2 * FABRIC_MS); /* both have a core */
	return t;
}

static struct turns turns_new(enum flow_op op, uint32_t bytes, unsigned outstanding,
			      uint32_t rcvbuf)
{
	return turns_of(1, op, bytes, outstanding, rcvbuf);
}

static void turns_end(struct turns *t)
{
	assert_int_equal(flow_set_failed(t->s), 0);
	flow_set_free(t->s);
	fabric_free(t->f);
}

/** The sender has a turn, then the receiver. @return most bytes in the receiver's buffer. */
static uint32_t run_turns(struct turns *t, unsigned n)
{
	uint32_t most = 0;

	flow_set_mark(t->s);
	while (n--) {
		fabric_pause(t->f, 1, true);
		fabric_pause(t->f, 0, false);
		fabric_run_until(t->f, t->f->now + TURN_MS * FABRIC_MS);
		most = MAX(most, t->f->host[1].rcv_used);
		fabric_pause(t->f, 0, true);
		fabric_pause(t->f, 1, false);
		fabric_run_until(t->f, t->f->now + TURN_MS * FABRIC_MS);
	}
	return most;
}

TEST(turns, default_buffer__never_overrun)
{
	struct turns t = turns_new(FLOW_WRITE, 1 << 20, 16, FABRIC_STOCK_BUFFER);

	assert_in_range(run_turns(&t, 40), CC_SHORT_BYTES / 2, FABRIC_STOCK_BUFFER);
	assert_int_equal(t.f->host[1].overruns, 0);
	turns_end(&t);
}

TEST(turns, long_messages_and_a_large_buffer__a_mebibyte_in_each)
{
	static const enum flow_op ops[] = {FLOW_WRITE, FLOW_SEND};

	for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
		struct turns t = turns_new(ops[i], 1 << 20, 16, LARGE_BUFFER);
		uint32_t most = run_turns(&t, 40);

		/* Without packets' overhead, and less what starts and ends in other turns. */
		assert_in_range(flow_set_bytes(t.s) / 40, CC_NEAR_BYTES / 4 * 3, CC_NEAR_BYTES);
		assert_in_range(most, CC_NEAR_BYTES / 4 * 3, CC_NEAR_BYTES + PROBES);
		assert_int_equal(t.f->host[1].overruns, 0);
		turns_end(&t);
	}
}

/* Only because they wait for the window do they share bursts. */
TEST(turns, short_messages__no_more_than_a_short_paths_window)
{
	struct turns t = turns_new(FLOW_WRITE, 4096, 512, LARGE_BUFFER);

	assert_in_range(run_turns(&t, 10), CC_SHORT_BYTES / 2, CC_SHORT_BYTES + PROBES);
	turns_end(&t);
}

/*
 * Several QPs that wait have bursts to send anyway. A QP whose probes are not answered in a turn
 * leaves its share of the window to the others, so more than a window may arrive.
 */
TEST(turns, short_messages_of_several_qps__a_mebibyte_in_each)
{
	struct turns t = turns_of(4, FLOW_WRITE, 4096, 512, LARGE_BUFFER);

	assert_in_range(run_turns(&t, 10), CC_NEAR_BYTES / 4 * 3, CC_NEAR_BYTES * 2);
	assert_int_equal(t.f->host[1].overruns, 0);
	turns_end(&t);
}

/* ---- the end of a turn is lost ---- */

struct tail {
	uint64_t count, from, to; /* the sender's packets, and those that are lost */
	rocemu_ns_t rtt_ns;	  /* of the path from then on */
};

static bool lose_tail(struct fabric *f, struct fabric_packet *p, void *arg)
{
	struct tail *tail = arg;

	if (p->from)
		return false;
	if (tail->count++ == tail->from)
		f->cfg.rtt_ns = tail->rtt_ns;
	return tail->count > tail->from && tail->count <= tail->to;
}

/** How long 20 messages of 256 packets take when the last ones are lost. */
static rocemu_ns_t time_with_tail_lost(unsigned lost)
{
	struct tail tail = {.from = 20 * 256 - lost, .to = 20 * 256, .rtt_ns = 40 * FABRIC_US};
	struct fabric_config fc = fabric_defaults();
	struct flow_config c = flow_defaults();
	struct fabric *f;
	struct flow_set *s;
	struct flow *fl;
	rocemu_ns_t took;

	fc.one_host = true;
	fc.rtt_ns = 80 * FABRIC_US;
	f = fabric_new(&fc);
	c.limit = 20;
	s = flow_set_new(f, 1, c.bytes);
	fl = flow_add(s, &c);
	f->filter = lose_tail;
	f->filter_arg = &tail;
	took = f->now;
	flow_set_start(s);
	fabric_run_until(f, f->now + 1000 * FABRIC_MS);
	assert_int_equal(fl->done, 20);
	took = fl->done_at - took;
	flow_set_free(s);
	fabric_free(f);
	return took;
}

/* The answers come sooner than any round trip so far, and so might answer what was sent first. */
TEST(tail_lost, path_became_faster__not_a_probes_wait_for_each_packet)
{
	rocemu_ns_t none = time_with_tail_lost(0);

	for (unsigned lost = 1; lost <= 40; lost++)
		assert_in_range(time_with_tail_lost(lost), none, none + 6 * FABRIC_MS);
}
