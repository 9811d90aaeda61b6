/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Losses that no NAK reports: of the last packet, of a NAK, of a retransmission, of an
 * acknowledgement. With the ACK timeout that rdma_cm sets (19: 2.1 s) each of them must cost round
 * trips, not the timeout.
 */
#include "flow.h"
#include "test.h"

enum { PACKETS = 16, MTU = 4096, FIRST_PSN = 0xffff00, BOUND_MS = 100 };

/** The n-th packet (bit n) of a kind is lost. */
struct plan {
	uint32_t request_psn[PACKETS + 1]; /* mask of the transmissions of a PSN that are lost */
	uint32_t acks, naks;		   /* mask of those */
	uint32_t responses[PACKETS + 1];   /* READ responses, as request_psn */
	unsigned seen_request[PACKETS + 1], seen_response[PACKETS + 1], seen_acks, seen_naks;
};

static bool take(uint32_t mask, unsigned *seen)
{
	unsigned n = (*seen)++;

	return n < 32 && (mask >> n & 1);
}

static bool lose(struct fabric *f, struct fabric_packet *p, void *arg)
{
	struct plan *plan = arg;
	struct rocemu_packet d;
	uint32_t ops, at;

	(void)f;
	if (rocemu_packet_decode(&d, p->data, p->len) != ROCEMU_DROP_NONE)
		return false;
	ops = rocemu_opcode_ops(d.h.opcode);
	at = (d.h.psn - FIRST_PSN) & ROCEMU_PSN_MASK;
	if (at > PACKETS || (ops & ROCEMU_OP_CNP))
		return false;
	if (ops & ROCEMU_OP_REQUEST)
		return take(plan->request_psn[at], &plan->seen_request[at]);
	if (ops & ROCEMU_OP_READ_RESP)
		return take(plan->responses[at], &plan->seen_response[at]);
	if (d.h.aeth.syndrome == ROCEMU_NAK_PSN_SEQ)
		return take(plan->naks, &plan->seen_naks);
	return take(plan->acks, &plan->seen_acks);
}

/** One message of 16 packets under that plan: done before BOUND_MS. */
static void expect_soon(enum flow_op op, struct plan plan)
{
	struct fabric_config fc = fabric_defaults();
	struct flow_config c = flow_defaults();
	struct fabric *f = fabric_new(&fc);
	struct flow_set *s = flow_set_new(f, 1, PACKETS * MTU);
	struct flow *fl;
	rocemu_ns_t began = f->now;

	f->filter = lose;
	f->filter_arg = &plan;
	c.op = op;
	c.bytes = PACKETS * MTU;
	c.limit = 1;
	c.timeout = 19;
	fl = flow_add(s, &c);
	flow_set_start(s);
	fabric_run_until(f, began + 60000 * FABRIC_MS);
	assert_int_equal(fl->failed, 0);
	assert_int_equal(fl->done, 1);
	assert_in_range(fl->done_at - began, 0, BOUND_MS * FABRIC_MS);
	flow_set_free(s);
	fabric_free(f);
}

TEST(unlucky, last_packet_lost__no_timeout)
{
	expect_soon(FLOW_WRITE, (struct plan){.request_psn[PACKETS - 1] = 1});
	expect_soon(FLOW_SEND, (struct plan){.request_psn[PACKETS - 1] = 1});
}

TEST(unlucky, acknowledgements_lost__no_timeout)
{
	expect_soon(FLOW_WRITE, (struct plan){.acks = 1});
	expect_soon(FLOW_WRITE, (struct plan){.acks = 7});
}

TEST(unlucky, packet_and_its_nak_lost__no_timeout)
{
	expect_soon(FLOW_WRITE, (struct plan){.request_psn[5] = 1, .naks = 1});
	expect_soon(FLOW_SEND, (struct plan){.request_psn[5] = 1, .naks = 3});
}

TEST(unlucky, retransmission_lost_too__no_timeout)
{
	expect_soon(FLOW_WRITE, (struct plan){.request_psn[5] = 3});
	expect_soon(FLOW_WRITE, (struct plan){.request_psn[5] = 7});
}

TEST(unlucky, everything_at_once__no_timeout)
{
	expect_soon(FLOW_WRITE, (struct plan){.request_psn = {[0] = 1, [5] = 3, [PACKETS - 1] = 3},
					      .naks = 1,
					      .acks = 5});
}

TEST(unlucky, read_request_lost__no_timeout)
{
	expect_soon(FLOW_READ, (struct plan){.request_psn[0] = 1});
	expect_soon(FLOW_READ, (struct plan){.request_psn[0] = 3});
}

TEST(unlucky, last_read_response_lost__no_timeout)
{
	expect_soon(FLOW_READ, (struct plan){.responses[PACKETS - 1] = 1});
}

TEST(unlucky, read_responses_lost_twice__no_timeout)
{
	expect_soon(FLOW_READ, (struct plan){.responses = {[3] = 3, [4] = 1, [PACKETS - 1] = 3}});
}
