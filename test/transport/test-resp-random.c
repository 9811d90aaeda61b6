/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random request packets, mostly near what is expected, into an RC responder whose output is made
 * now and then. What must hold whatever comes: every packet sent is one that a peer takes
 * (hostile.c checks), PSNs never run ahead of what was taken, the rings stay within bounds, memory
 * that no key names stays as it was. For the sanitizers too.
 */
#include "hostile.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { ROUNDS = 40, PACKETS = 400 };

static struct hostile h;

static const uint8_t opcodes[] = {
	ROCEMU_RC_SEND_FIRST,	  ROCEMU_RC_SEND_MIDDLE,  ROCEMU_RC_SEND_LAST,
	ROCEMU_RC_SEND_LAST_IMM,  ROCEMU_RC_SEND_ONLY,	  ROCEMU_RC_SEND_ONLY,
	ROCEMU_RC_SEND_ONLY_IMM,  ROCEMU_RC_WRITE_FIRST,  ROCEMU_RC_WRITE_MIDDLE,
	ROCEMU_RC_WRITE_LAST,	  ROCEMU_RC_WRITE_ONLY,	  ROCEMU_RC_WRITE_ONLY,
	ROCEMU_RC_WRITE_ONLY_IMM, ROCEMU_RC_READ_REQUEST, ROCEMU_RC_READ_REQUEST,
	ROCEMU_RC_READ_REQUEST,	  ROCEMU_RC_CMP_SWAP,	  ROCEMU_RC_FETCH_ADD,
	ROCEMU_RC_FETCH_ADD,	  ROCEMU_RC_ATOMIC_WRITE, ROCEMU_RC_SEND_ONLY_INV,
	ROCEMU_RC_FLUSH,
};

/* Does an opcode go on with the message under way, or begin one when there is none? */
static bool fits(uint32_t ops)
{
	const struct qp_resp *r = &h.qp->resp;
	bool last = r->message == ROCEMU_OP_WRITE ? r->write_length - r->offset <= HOSTILE_MTU
						  : r->offset >= 2 * HOSTILE_MTU;

	if (ops & (ROCEMU_OP_INV | ROCEMU_OP_FLUSH))
		return false;
	if (ops & ROCEMU_OP_FIRST)
		return !r->message;
	return (ops & r->message) && last == !!(ops & ROCEMU_OP_LAST);
}

/* Mostly what fits, so that connections live for a while. */
static uint8_t pick_opcode(struct rng *r)
{
	uint8_t op;

	do
		op = opcodes[rng_below(r, ARRAY_LEN(opcodes))];
	while (!fits(rocemu_opcode_ops(op)) && rng_below(r, 5000));
	return op;
}

static uint32_t pick_len(struct rng *r, uint8_t opcode)
{
	uint32_t ops = rocemu_opcode_ops(opcode);

	if (!(ops & ROCEMU_OP_PAYLOAD))
		return 0;
	if (ops & ROCEMU_OP_ATOMIC_WRITE)
		return 8;
	if (rng_below(r, 500) == 0)
		return rng_below(r, 2 * HOSTILE_MTU);
	if (!(ops & ROCEMU_OP_LAST))
		return HOSTILE_MTU;
	if ((ops & ROCEMU_OP_WRITE) && !(ops & ROCEMU_OP_FIRST))
		return h.qp->resp.write_length - (uint32_t)h.qp->resp.offset;
	return rng_below(r, HOSTILE_MTU) + 1;
}

/* Expected, repeated, ahead, or anywhere. */
static uint32_t pick_psn(struct rng *r)
{
	uint32_t epsn = h.qp->resp.epsn;

	switch (rng_below(r, 10)) {
	case 0:
	case 1:
		return (epsn - 1 - rng_below(r, 8)) & ROCEMU_PSN_MASK;
	case 2:
		return (epsn + rng_below(r, 8)) & ROCEMU_PSN_MASK;
	case 3:
		return rng_below(r, 20) ? epsn : rng_u32(r) & ROCEMU_PSN_MASK;
	default:
		return epsn;
	}
}

static void send_random(struct rng *r)
{
	uint8_t opcode = pick_opcode(r);
	uint32_t len = pick_len(r, opcode);
	struct rocemu_hdrs hdrs = {
		.opcode = opcode,
		.psn = pick_psn(r),
		.ackreq = rng_below(r, 2),
		.se = rng_below(r, 2),
		.imm = 1,
	};

	hdrs.reth.rkey = hdrs.atomiceth.rkey = rng_below(r, 1000) ? h.rkey : rng_u32(r);
	hdrs.reth.va = (uintptr_t)h.mem + rng_below(r, HOSTILE_MEM / 2 / 8) * 8;
	hdrs.atomiceth.va = hdrs.reth.va;
	hdrs.reth.length = len;
	if (opcode == ROCEMU_RC_WRITE_FIRST)
		hdrs.reth.length = HOSTILE_MTU + 1 + rng_below(r, 3 * HOSTILE_MTU);
	if (opcode == ROCEMU_RC_READ_REQUEST)
		hdrs.reth.length = rng_below(r, 8 * HOSTILE_MTU);
	hostile_send_hdrs(&h, &hdrs, len);
}

static void check(uint32_t *epsn)
{
	const struct qp_resp *r = &h.qp->resp;

	assert_true(rocemu_psn_diff(r->epsn, *epsn) >= 0);
	*epsn = r->epsn;
	assert_true(r->nfresh <= r->limit && r->nfresh <= r->njobs);
	assert_true(r->njobs - r->nfresh <= r->room);
	assert_true(r->nreplay <= r->limit);
	assert_int_equal(r->early.count, KEEP_SLOTS - h.ep->keep.nfree);
}

static void round_of(uint64_t seed)
{
	uint32_t epsn = 0xfffff0;
	struct rng r;

	rng_init(&r, seed);
	hostile_new(&h, IBV_QPT_RC, rng_below(&r, 2));
	h.psn = epsn;
	h.rd_atomic = (uint8_t)(1 + rng_below(&r, ROCEMU_MAX_RD_ATOMIC));
	hostile_connect(&h, IBV_QPS_RTS);
	for (unsigned i = 0; i < PACKETS && rocemu_qp_state(h.qp) != IBV_QPS_ERR; i++) {
		if (rng_below(&r, 4) == 0 && rq_count(h.srq ? &h.srq->rq : &h.qp->rq) < 16)
			hostile_recv(&h, i, 1024, rng_below(&r, 200) ? 4 * HOSTILE_MTU : 100);
		send_random(&r);
		check(&epsn);
		if (rng_below(&r, 3) == 0)
			hostile_output(&h, 1 + rng_below(&r, 4));
		if (rng_below(&r, 8) == 0)
			hostile_effects(&h);
	}
	hostile_effects(&h);
	assert_false(rocemu_ep_has_output(h.ep));
	assert_true(rocemu_qp_state(h.qp) != IBV_QPS_ERR || h.ep->keep.nfree == KEEP_SLOTS);
	for (unsigned i = 0; i < 1024; i++)
		assert_int_equal(h.recv[i], 0xee);
	hostile_free(&h);
}

TEST(rc_random, any_packets__invariants_hold)
{
	const char *given = getenv("ROCEMU_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 1;

	for (unsigned i = 0; i < (given ? 1 : ROUNDS); i++) {
		print_message("seed %llu\n", (unsigned long long)(seed + i));
		round_of(seed + i);
	}
}
