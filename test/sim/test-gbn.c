/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that does pure go-back-N (gbn.h), as hardware may: every message arrives, none fails, and
 * loss costs about a round trip.
 */
#include "flow.h"
#include "gbn.h"
#include "test.h"

enum { MTU = 4096, MESSAGE = 65536, RUN_MS = 200 };

struct run {
	uint64_t bytes;
	unsigned failed;
	struct gbn peer;
};

/** role: of the peer, host 1. op: of who requests. */
static struct run run(enum gbn_role role, enum flow_op op, double loss)
{
	struct fabric_config fc = fabric_defaults();
	struct flow_config c = flow_defaults();
	struct run r = {0};
	struct fabric *f;
	struct flow_set *s;
	struct flow *fl;
	struct gbn_config gc;

	fc.loss = loss;
	f = fabric_new(&fc);
	s = flow_set_new(f, 1, MESSAGE);
	c.op = op;
	c.bytes = MESSAGE;
	fl = flow_add_half(s, &c, GBN_QPN);
	if (role != GBN_RESPONDER)
		fl->c.outstanding = 0;
	gc = (struct gbn_config){
		.role = role,
		.path = fabric_path(f, 1, 0),
		.dqpn = rocemu_qp_num(fl->qp),
		.mtu = MTU,
		.psn = 0xffff00,
		.va = (uintptr_t)s->memory,
		.rkey = flow_rkey(s, 0),
		.bytes = MESSAGE,
		.outstanding = 4,
		.timeout_ns = FABRIC_MS,
	};
	gbn_init(&r.peer, &gc);
	fabric_set_peer(f, 1, &gbn_ops, &r.peer);
	f->host[1].poll = NULL;
	flow_set_start(s);
	fabric_run_until(f, f->now + RUN_MS * FABRIC_MS);
	r.bytes = flow_set_bytes(s) + r.peer.done_bytes;
	r.failed = flow_set_failed(s);
	flow_set_free(s);
	fabric_free(f);
	return r;
}

static void expect_percent(enum gbn_role role, enum flow_op op, uint64_t percent)
{
	struct run clean = run(role, op, 0), lossy = run(role, op, 0.01);

	assert_int_equal(clean.failed, 0);
	assert_int_equal(lossy.failed, 0);
	/* 8 Gbit/s */
	assert_in_range(clean.bytes, 1000000ull * RUN_MS, UINT64_MAX);
	assert_in_range(lossy.bytes, clean.bytes * percent / 100, UINT64_MAX);
}

TEST(gbn_responder, writes_at_1_percent_loss__most_of_the_link)
{
	expect_percent(GBN_RESPONDER, FLOW_WRITE, 55);
}

TEST(gbn_responder, sends_at_1_percent_loss__most_of_the_link)
{
	expect_percent(GBN_RESPONDER, FLOW_SEND, 55);
}

TEST(gbn_responder, reads_at_1_percent_loss__most_of_the_link)
{
	expect_percent(GBN_RESPONDER, FLOW_READ, 55);
}

TEST(gbn_requester, writes_at_1_percent_loss__most_of_the_link)
{
	expect_percent(GBN_WRITES, FLOW_WRITE, 55);
}

TEST(gbn_requester, reads_at_1_percent_loss__most_of_the_link)
{
	expect_percent(GBN_READS_FROM, FLOW_READ, 55);
}
