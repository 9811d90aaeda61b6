/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections into one lane whose receive buffer is a stock one, and whose CPU is slower than
 * the links: the buffer overruns wherever senders do not hold back. No connection may fail, and
 * each must get on.
 */
#include "flow.h"
#include "test.h"

enum { MESSAGE = 65536, QPS = 256, SENDERS = 64 };

struct crowd {
	struct fabric *f;
	struct flow_set *s;
};

static struct crowd crowd_new(unsigned hosts, unsigned flows)
{
	struct fabric_config c = fabric_defaults();
	struct crowd w;

	c.hosts = hosts;
	c.link_mbit = 40000;
	c.cpu_mbit = 10000;
	w.f = fabric_new(&c);
	w.s = flow_set_new(w.f, flows, MESSAGE);
	return w;
}

static void crowd_end(struct crowd *w)
{
	flow_set_free(w->s);
	fabric_free(w->f);
}

/** @return payload bytes in 200 ms after 200 ms to settle. */
static uint64_t crowd_run(struct crowd *w)
{
	flow_set_start(w->s);
	fabric_run_until(w->f, w->f->now + 200 * FABRIC_MS);
	flow_set_mark(w->s);
	fabric_run_until(w->f, w->f->now + 200 * FABRIC_MS);
	return flow_set_bytes(w->s);
}

static struct crowd many_qps(enum flow_op op, unsigned qps)
{
	struct crowd w = crowd_new(2, qps);
	struct flow_config c = flow_defaults();

	c.op = op;
	c.bytes = MESSAGE;
	for (unsigned i = 0; i < qps; i++)
		flow_add(w.s, &c);
	return w;
}

static struct crowd incast(enum flow_op op, unsigned senders)
{
	struct crowd w = crowd_new(senders + 1, senders);
	struct flow_config c = flow_defaults();

	c.op = op;
	c.bytes = MESSAGE;
	for (unsigned i = 1; i <= senders; i++) {
		c.from = op == FLOW_READ ? 0 : i;
		c.to = op == FLOW_READ ? i : 0;
		flow_add(w.s, &c);
	}
	return w;
}

static unsigned idle(const struct flow_set *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->n; i++)
		n += flow_bytes(&s->flows[i]) == 0;
	return n;
}

/** Against what one connection gets alone; percent of it, at least. */
static void expect_crowd(struct crowd alone, struct crowd w, unsigned percent)
{
	uint64_t one = crowd_run(&alone), all = crowd_run(&w);

	assert_int_equal(flow_set_failed(w.s), 0);
	assert_int_equal(idle(w.s), 0);
	assert_in_range(all, one * percent / 100, UINT64_MAX);
	crowd_end(&alone);
	crowd_end(&w);
}

TEST(crowd, writes_of_256_qps_on_one_lane__none_fails_all_get_on)
{
	expect_crowd(many_qps(FLOW_WRITE, 1), many_qps(FLOW_WRITE, QPS), 90);
}

TEST(crowd, reads_of_256_qps_on_one_lane__none_fails_all_get_on)
{
	expect_crowd(many_qps(FLOW_READ, 1), many_qps(FLOW_READ, QPS), 90);
}

TEST(crowd, writes_of_64_hosts_to_one__none_fails_all_get_on)
{
	expect_crowd(incast(FLOW_WRITE, 1), incast(FLOW_WRITE, SENDERS), 90);
}

TEST(crowd, reads_from_64_hosts_by_one__none_fails_all_get_on)
{
	expect_crowd(incast(FLOW_READ, 1), incast(FLOW_READ, SENDERS), 90);
}

TEST(crowd, sends_of_64_hosts_to_one__none_fails_all_get_on)
{
	expect_crowd(incast(FLOW_SEND, 1), incast(FLOW_SEND, SENDERS), 90);
}
