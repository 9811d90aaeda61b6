/* SPDX-License-Identifier: BSD-2-Clause */
/* RC responder, packets before their turn: two QPs and the room that there is for both. */
#include "hostile.h"

static struct hostile h;

/* What a QP may have kept alone, and another one of its peer then. */
enum { ALONE = 2 * KEEP_SLOTS / 3 + 1, SECOND = (4 * KEEP_SLOTS - 5 * ALONE) / 5 + 1 };

/* A WRITE of 8 bytes, with or without AckReq. */
static void write_at(uint32_t psn, bool ackreq)
{
	struct rocemu_hdrs hdrs = {
		.opcode = ROCEMU_RC_WRITE_ONLY,
		.psn = psn,
		.ackreq = ackreq,
		.reth = {.va = (uintptr_t)h.mem, .rkey = h.rkey, .length = 8},
	};

	hostile_send_hdrs(&h, &hdrs, 8);
}

static void writes(uint32_t from, uint32_t to)
{
	for (uint32_t psn = from; psn <= to; psn++)
		write_at(psn, false);
}

/** One more QP of the same endpoint, which is h.qp from now on. @return the old one. */
static struct rocemu_qp *another_qp(void)
{
	struct rocemu_qp_init init = {.type = IBV_QPT_RC,
				      .pd = h.pd,
				      .send_cq = h.cq,
				      .recv_cq = h.cq,
				      .cap = {16, 16, 4, 4, 64}};
	struct rocemu_qp *old = h.qp;

	assert_int_equal(rocemu_qp_create(h.ep, &init, &h.qp), 0);
	hostile_connect(&h, IBV_QPS_RTS);
	return old;
}

/* The dropped packets of the first one are requested again when its gap is filled after all. */
TEST(resp_keep, qp_that_stands_still__another_takes_its_room_and_it_recovers)
{
	struct rocemu_qp *stuck, *busy;
	const struct keep *k;

	hostile_start(&h, IBV_QPT_RC);
	k = &h.ep->keep;
	writes(1, ALONE);
	EXPECT(&h, "nak 60 0/0");
	stuck = another_qp();
	busy = h.qp;
	h.now = KEEP_STUCK_NS - 1;
	writes(1, SECOND + 1);
	EXPECT(&h, "drop PSN; nak 60 0/0");
	h.now = KEEP_STUCK_NS;
	writes(SECOND + 1, ALONE);
	EXPECT(&h, "");
	assert_int_equal(busy->resp.early.count, ALONE);
	assert_int_equal(stuck->resp.early.count, 0);
	h.qp = stuck;
	write_at(0, true);
	EXPECT(&h, "nak 60 1/1");
	writes(1, ALONE - 1);
	EXPECT(&h, "");
	write_at(ALONE, true);
	EXPECT(&h, "ack 683/684");
	assert_int_equal(rocemu_qp_destroy(busy), 0);
	assert_int_equal(rocemu_qp_destroy(h.qp), 0);
	assert_int_equal(k->nfree, KEEP_SLOTS);
	assert_true(list_empty(&k->holders));
	hostile_free(&h);
}
