/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sequences of packets into requester and responder; see fuzz-sequence.h. What must hold:
 *  - always: no memory is written but that which keys open; each request completes once, in order;
 * each packet of the requester is the one that its PSN stands for, with the right data, however
 * often it is sent;
 *  - with correct peers on a bad network: nothing is acknowledged that was not received, nothing
 * completes that was not acknowledged, no QP fails but by time, all data is right; and in the end
 * all that is posted completes.
 */
#include "fuzz-sequence.h"

#include <malloc.h>
#include <string.h>

#include "base/util.h"
#include "driver.h"

static struct seq_qp *take_qp(struct seq *s)
{
	return &s->q[seq_take(s) % SEQ_QPS];
}

static void deliver(struct seq *s)
{
	struct seq_qp *q = take_qp(s);
	unsigned which = seq_take(s);

	if (which >= 200)
		seq_deliver(s, q, q->acked - MIN(q->acked, which - 199));
	else
		seq_deliver(s, q, q->acked + which);
}

static void deliver_run(struct seq *s)
{
	struct seq_qp *q = take_qp(s);
	unsigned i = q->acked + seq_take(s) % 64, count = seq_take(s) % 64, lost = seq_take(s);

	for (unsigned k = 0; k < count; k++)
		if (!(lost >> k % 8 & 1))
			seq_deliver(s, q, i + k);
}

static void pass_time(struct seq *s)
{
	uint8_t b = seq_take(s);
	rocemu_ns_t deadline = rocemu_ep_deadline(s->ep);

	if (b < 128 || deadline == ROCEMU_NEVER) {
		seq_expire(s, s->now + b * UINT64_C(10000));
	} else {
		seq_expire(s, deadline);
	}
	for (unsigned i = 0; i < SEQ_QPS; i++)
		s->q[i].timeouts++;
}

static void send_cnp(struct seq *s)
{
	static const uint8_t zero[64];
	struct seq_qp *q = take_qp(s);
	uint8_t b = seq_take(s), payload[64];
	struct rocemu_hdrs h = {.opcode = ROCEMU_CNP, .becn = !(b & 1), .fecn = b & 2};

	/* Right ones have 16 bytes of zeros; PSN, length and content may be anything here. */
	memcpy(payload, zero, sizeof(payload));
	if (b & 4)
		payload[b % 16u] = b;
	h.psn = b & 8 ? (b * 0x10101u) & ROCEMU_PSN_MASK : 0;
	seq_input(s, q, &h, payload, b & 16 ? b % 64u : 16);
	/* From here on the network marks what it carries, or does not (ECN CE). */
	s->tclass = b & 32 ? 3 : b & 64 ? 2 : 0;
}

/** Requests that no correct peer would send: the responder may end the QP. */
static void bad_request(struct seq *s)
{
	struct seq_qp *q = take_qp(s);
	static const uint32_t lengths[] = {0,	    1,	      SEQ_MTU,	  SEQ_MTU + 1,
					   SEQ_MSG, 1u << 31, UINT32_MAX, SEQ_TARGET + 1};
	uint8_t payload[ROCEMU_MAX_MTU] = {0}, flags;
	struct rocemu_hdrs h = {.opcode = seq_take(s)};
	uint32_t len;

	h.psn = (SEQ_FIRST_PSN + q->stream_psn + (uint32_t)(seq_take(s) - 128)) & ROCEMU_PSN_MASK;
	flags = seq_take(s);
	h.ackreq = flags & 1;
	len = flags & 2 ? SEQ_MTU : seq_take(s) * 2u;
	h.reth.length = lengths[seq_take(s) % ARRAY_LEN(lengths)];
	h.reth.va = h.atomiceth.va = (uint64_t)(int64_t)((seq_take(s) - 64) * 32);
	h.opcode &= 0x1f;
	h.opcode |= q->type == IBV_QPT_UC   ? ROCEMU_UC_SEND_FIRST
		    : q->type == IBV_QPT_RC ? 0
					    : (uint8_t)(ROCEMU_SVC_XRC << 5);
	if (q->type == IBV_QPT_XRC_SEND)
		return;
	q->hostile = true;
	seq_input(s, q, &h, payload,
		  rocemu_opcode_ops(h.opcode) & ROCEMU_OP_PAYLOAD ? MIN(len, 512u) : 0);
}

/** ACKs of the future, NAKs for what was never sent, responses of any length, any syndrome. */
static void bad_response(struct seq *s)
{
	static const uint8_t ops[] = {ROCEMU_RC_ACK,
				      ROCEMU_RC_ATOMIC_ACK,
				      ROCEMU_RC_READ_RESP_FIRST,
				      ROCEMU_RC_READ_RESP_MIDDLE,
				      ROCEMU_RC_READ_RESP_LAST,
				      ROCEMU_RC_READ_RESP_ONLY};
	struct seq_qp *q = take_qp(s);
	uint8_t payload[512] = {0};
	struct rocemu_hdrs h = {.opcode = ops[seq_take(s) % ARRAY_LEN(ops)]};
	uint32_t len;

	h.psn = (SEQ_FIRST_PSN + q->sent_end + (uint32_t)(seq_take(s) - 128)) & ROCEMU_PSN_MASK;
	h.aeth.syndrome = seq_take(s);
	h.aeth.msn = (h.aeth.syndrome * 0x10101u) & ROCEMU_PSN_MASK;
	len = seq_take(s) * 2u;
	if (!seq_requests(q))
		return;
	if (q->type == IBV_QPT_XRC_SEND)
		h.opcode |= (uint8_t)(ROCEMU_SVC_XRC << 5);
	q->hostile = true;
	seq_input(s, q, &h, payload, rocemu_opcode_ops(h.opcode) & ROCEMU_OP_PAYLOAD ? len : 0);
}

static void revive(struct seq *s)
{
	struct seq_qp *q = take_qp(s);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

	if (rocemu_qp_state(q->qp) != IBV_QPS_ERR)
		return;
	seq_output(s, ROCEMU_OUTPUT_BATCH, 64);
	seq_take_completions(s, q);
	FUZZ_CHECK(rocemu_qp_modify(q->qp, s->now, &a, IBV_QP_STATE) == 0);
	q->packets = q->acked = 0;
	q->stream_psn = q->messages = q->adds = 0;
	q->messages_done = 0;
	if (q->type != IBV_QPT_XRC_RECV) /* the SRQ keeps its own */
		q->recvs_posted = q->recvs_done = 0;
	q->requests = q->completed = 0;
	q->request_psn = q->sent_end = q->accepted = q->acked_to = q->reads_seen = 0;
	memset(q->answered, 0, sizeof(q->answered));
	memset(q->sent, 0, sizeof(q->sent));
	memset(q->target + SEQ_GUARD, 0, SEQ_READABLE);
	q->timeouts = 0;
	/* A message that the SRQ's receive was taken for is lost with it: that no longer counts. */
	q->hostile = q->type == IBV_QPT_XRC_RECV;
	seq_connect(s, q);
}

static void step(struct seq *s)
{
	struct seq_qp *q;
	uint8_t a, b;

	switch ((enum seq_step)(seq_take(s) % SEQ_STEPS)) {
	case SEQ_COMPOSE:
		q = take_qp(s);
		a = seq_take(s);
		seq_compose(q, a, seq_take(s));
		break;
	case SEQ_DELIVER:
		deliver(s);
		break;
	case SEQ_RUN:
		deliver_run(s);
		break;
	case SEQ_RECV:
		q = take_qp(s);
		seq_post_recvs(s, q, seq_take(s) % (SEQ_DEPTH + 1));
		break;
	case SEQ_POST:
		q = take_qp(s);
		a = seq_take(s);
		seq_post(s, q, a, seq_take(s));
		break;
	case SEQ_OUTPUT:
		a = seq_take(s);
		seq_output(s, 1 + a % ROCEMU_OUTPUT_BATCH, 1 + seq_take(s) % 4);
		break;
	case SEQ_TIME:
		pass_time(s);
		break;
	case SEQ_ANSWER:
		q = take_qp(s);
		a = seq_take(s);
		b = seq_take(s);
		seq_answer(s, q, a, b);
		break;
	case SEQ_ANSWER_ALL:
		seq_answer_all(s, take_qp(s));
		break;
	case SEQ_CNP:
		send_cnp(s);
		break;
	case SEQ_BAD_REQUEST:
		bad_request(s);
		break;
	case SEQ_BAD_RESPONSE:
		bad_response(s);
		break;
	case SEQ_REVIVE:
	default:
		revive(s);
	}
	for (unsigned i = 0; i < SEQ_QPS; i++)
		seq_take_completions(s, &s->q[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct seq s;

#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, 16 << 20); /* keep memory for the next input */
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
	memset(&s, 0, sizeof(s));
	s.in = data;
	s.end = data + size;
	seq_open(&s);
	while (s.in < s.end)
		step(&s);
	for (unsigned i = 0; i < SEQ_QPS; i++)
		seq_finish_stream(&s, &s.q[i]);
	seq_finish_requests(&s);
	seq_close(&s);
	return 0;
}
