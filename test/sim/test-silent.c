/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A QP whose peer does not answer any more shares its lane's window with others: it must not hold
 * them for long, and must fail at the time given by its attributes.
 */
#include "flow.h"
#include "test.h"

enum { MESSAGE = 65536 };

/** All packets of one QP are lost, in both directions. */
static bool silence(struct fabric *f, struct fabric_packet *p, void *arg)
{
	const struct flow *fl = arg;
	struct rocemu_packet d;

	(void)f;
	return rocemu_packet_decode(&d, p->data, p->len) == ROCEMU_DROP_NONE &&
	       (d.h.dqpn == rocemu_qp_num(fl->qp) || d.h.dqpn == rocemu_qp_num(fl->target));
}

struct pair {
	struct fabric *f;
	struct flow_set *s;
	struct flow *silent, *other;
	rocemu_ns_t since;
};

/** Two flows; the first falls silent after 10 ms. */
static struct pair pair_new(enum flow_op op, uint8_t timeout)
{
	struct fabric_config fc = fabric_defaults();
	struct flow_config c = flow_defaults();
	struct pair p = {.f = fabric_new(&fc)};

	p.s = flow_set_new(p.f, 2, MESSAGE);
	c.op = op;
	c.bytes = MESSAGE;
	c.timeout = timeout;
	p.silent = flow_add(p.s, &c);
	p.other = flow_add(p.s, &c);
	flow_set_start(p.s);
	fabric_run_until(p.f, p.f->now + 10 * FABRIC_MS);
	p.f->filter = silence;
	p.f->filter_arg = p.silent;
	p.since = p.f->now;
	flow_set_mark(p.s);
	return p;
}

static void pair_end(struct pair *p)
{
	flow_set_free(p->s);
	fabric_free(p->f);
}

static void expect_other_goes_on(enum flow_op op, uint8_t timeout)
{
	struct pair p = pair_new(op, timeout);

	fabric_run_until(p.f, p.since + 300 * FABRIC_MS);
	assert_int_equal(p.other->failed, 0);
	/* 10 Gbit/s would be 375 MB. */
	assert_in_range(flow_bytes(p.other), 100 << 20, UINT64_MAX);
	assert_in_range(p.other->longest_wait, 0, 20 * FABRIC_MS);
	pair_end(&p);
}

TEST(silent_qp, others_of_its_lane_write__go_on)
{
	expect_other_goes_on(FLOW_WRITE, 14);
	expect_other_goes_on(FLOW_WRITE, 19);
}

TEST(silent_qp, others_of_its_lane_read__go_on)
{
	expect_other_goes_on(FLOW_READ, 14);
	expect_other_goes_on(FLOW_READ, 19);
}

/** IBTA 9.7.6.1.3: a timeout may take up to four times the attribute's value. */
static void expect_failure_in_time(enum flow_op op)
{
	struct pair p = pair_new(op, 14);
	rocemu_ns_t budget = 8 * rocemu_ack_timeout_ns(14);

	fabric_run_until(p.f, p.since + budget * 3 / 4);
	assert_int_equal(p.silent->failed, 0);
	fabric_run_until(p.f, p.since + 4 * budget);
	assert_int_equal(p.silent->status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(p.silent->failed, p.silent->c.outstanding);
	pair_end(&p);
}

TEST(silent_qp, write_retries_used_up__fails_when_its_attributes_say)
{
	expect_failure_in_time(FLOW_WRITE);
}

TEST(silent_qp, read_retries_used_up__fails_when_its_attributes_say)
{
	expect_failure_in_time(FLOW_READ);
}
