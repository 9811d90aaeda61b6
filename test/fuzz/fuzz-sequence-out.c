/* SPDX-License-Identifier: BSD-2-Clause */
/* fuzz-sequence: the peer as responder, and what the requester under test may do. See
 * fuzz-sequence.h. */
#include <string.h>

#include "base/util.h"
#include "driver.h"
#include "fuzz-sequence.h"

enum { ANSWER_ROUNDS = 600, ENOUGH_TIMEOUTS = 3 };

static const enum ibv_wr_opcode opcodes[SEQ_KINDS] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						      IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD};

static bool reads(const struct seq_request *r)
{
	return r->kind == SEQ_READ || r->kind == SEQ_ADD;
}

void seq_post(struct seq *s, struct seq_qp *q, uint8_t kind, uint8_t len_byte)
{
	struct seq_request *r = &q->request[q->requests];
	uint8_t *source = q->source[q->requests % SEQ_SLOTS],
		*back = q->back[q->requests % SEQ_SLOTS];
	struct ibv_sge sge = {.addr = (uintptr_t)source, .lkey = rocemu_mr_lkey(q->source_mr)};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)q->requests << 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED};

	if (!seq_requests(q) || q->requests == SEQ_REQUESTS ||
	    q->requests - q->completed >= SEQ_DEPTH)
		return;
	r->kind = (enum seq_kind)(kind % SEQ_KINDS);
	r->len = r->kind == SEQ_ADD ? 8 : len_byte * 3u % (SEQ_MSG + 1);
	r->offset = r->kind == SEQ_ADD ? 0 : kind * 16u;
	r->psn = q->request_psn;
	r->span = r->len ? (r->len + SEQ_MTU - 1) / SEQ_MTU : 1;
	wr.opcode = opcodes[r->kind];
	wr.wr.rdma.remote_addr = r->offset;
	wr.qp_type.xrc.remote_srqn = 5;
	if (r->kind == SEQ_ADD)
		wr.wr.atomic.compare_add = q->requests;
	if (reads(r)) {
		memset(back, 0xc3, SEQ_ROOM);
		sge.addr = (uintptr_t)back;
		sge.lkey = rocemu_mr_lkey(q->back_mr);
	}
	for (uint32_t i = 0; i < r->len; i++)
		source[i] = seq_byte(q->requests, i);
	sge.length = r->len;
	if (rocemu_qp_post_send(q->qp, s->now, &wr, NULL))
		return;
	q->requests++;
	q->request_psn += r->span;
}

static struct seq_request *request_at(struct seq_qp *q, uint32_t psn)
{
	for (unsigned i = 0; i < q->requests; i++)
		if (psn - q->request[i].psn < q->request[i].span)
			return &q->request[i];
	return NULL;
}

static void check_reth(const struct seq_qp *q, const struct seq_request *r,
		       const struct rocemu_packet *p, uint32_t at)
{
	bool xrc = q->type == IBV_QPT_XRC_SEND;

	if (!(rocemu_opcode_hdrs(p->h.opcode) & ROCEMU_HDR_RETH))
		return;
	FUZZ_CHECK(p->h.reth.va == r->offset + at);
	/* A READ may request a part of the range requested first. */
	FUZZ_CHECK(r->kind == SEQ_READ
			   ? at + p->h.reth.length <= r->len && (p->h.reth.length || !r->len)
			   : p->h.reth.length == r->len);
	FUZZ_CHECK(!xrc || p->h.xrceth.srqn == 5);
}

static void note_read(struct seq_qp *q, const struct seq_request *r, const struct rocemu_packet *p,
		      uint32_t psn)
{
	uint32_t at = (psn - r->psn) * SEQ_MTU;
	struct seq_read seen = {psn, at, p->h.reth.length};

	q->seen[q->reads_seen++ % SEQ_READS_SEEN] = seen;
	q->sent_end = MAX(q->sent_end, psn + MAX(1u, (seen.len + SEQ_MTU - 1) / SEQ_MTU));
}

void seq_on_request(struct seq_qp *q, const struct rocemu_packet *p, const uint8_t *payload)
{
	uint32_t psn = (p->h.psn - SEQ_FIRST_PSN) & ROCEMU_PSN_MASK,
		 ops = rocemu_opcode_ops(p->h.opcode), at;
	struct seq_request *r = request_at(q, psn);

	FUZZ_CHECK(r != NULL);
	at = (psn - r->psn) * SEQ_MTU;
	check_reth(q, r, p, at);
	if (r->kind == SEQ_READ) {
		FUZZ_CHECK(ops & ROCEMU_OP_READ_REQ);
		note_read(q, r, p, psn);
		return;
	}
	q->sent_end = MAX(q->sent_end, psn + 1);
	q->sent[psn % SEQ_PSNS] = 1;
	if (r->kind == SEQ_ADD) {
		FUZZ_CHECK((ops & ROCEMU_OP_ATOMIC) &&
			   p->h.atomiceth.swap_add == (uint64_t)(r - q->request));
		return;
	}
	FUZZ_CHECK(ops & (r->kind == SEQ_SEND ? ROCEMU_OP_SEND : ROCEMU_OP_WRITE));
	FUZZ_CHECK(!(ops & ROCEMU_OP_FIRST) == (psn != r->psn));
	FUZZ_CHECK(!(ops & ROCEMU_OP_LAST) == (psn + 1 != r->psn + r->span));
	FUZZ_CHECK(p->payload_len == MIN((uint32_t)SEQ_MTU, r->len - at));
	for (uint32_t i = 0; i < p->payload_len; i++)
		FUZZ_CHECK(payload[i] == seq_byte((uint32_t)(r - q->request), at + i));
}

/* ---- answers ---- */

static void respond(struct seq *s, struct seq_qp *q, uint8_t op, uint32_t psn, uint8_t syndrome,
		    const uint8_t *payload, uint32_t len)
{
	struct rocemu_hdrs h = {
		.opcode = op,
		.psn = (SEQ_FIRST_PSN + psn) & ROCEMU_PSN_MASK,
		.aeth = {.syndrome = syndrome, .msn = psn & 0xffffff},
		.atomicack = UINT64_C(0x1000) + psn,
	};

	if (q->type == IBV_QPT_XRC_SEND)
		h.opcode |= (uint8_t)(ROCEMU_SVC_XRC << 5);
	seq_input(s, q, &h, payload, len);
	seq_take_completions(s, q);
}

static void accept_packets(struct seq_qp *q, uint32_t n)
{
	struct seq_request *r;

	q->accepted = MIN(q->sent_end, q->accepted + n);
	/* A READ is one packet, whatever its PSNs. */
	r = q->accepted ? request_at(q, q->accepted - 1) : NULL;
	if (r && r->kind == SEQ_READ)
		q->accepted = r->psn + r->span;
}

static void ack(struct seq *s, struct seq_qp *q, uint32_t back)
{
	uint32_t psn = q->accepted - 1 - back;
	struct seq_request *r = q->accepted > back ? request_at(q, psn) : NULL;

	if (!r || reads(r))
		return;
	q->acked_to = MAX(q->acked_to, psn + 1);
	respond(s, q, ROCEMU_RC_ACK, psn, ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS, NULL, 0);
}

static void nak(struct seq *s, struct seq_qp *q, uint8_t syndrome)
{
	struct seq_request *r = request_at(q, q->accepted);

	/* It is sent for a packet that came after the one that it names, or has no receive for
	 * that. */
	if (q->accepted + (syndrome == ROCEMU_AETH_NAK) >= q->sent_end || !r)
		return;
	if (syndrome != ROCEMU_AETH_NAK && (r->psn != q->accepted || r->kind != SEQ_SEND))
		return;
	q->acked_to = MAX(q->acked_to, q->accepted);
	respond(s, q, ROCEMU_RC_ACK, q->accepted, syndrome, NULL, 0);
}

static void read_response(struct seq *s, struct seq_qp *q, const struct seq_read *seen, uint32_t i)
{
	uint32_t count = MAX(1u, (seen->len + SEQ_MTU - 1) / SEQ_MTU), at = i * SEQ_MTU;
	uint8_t payload[SEQ_MTU], op;
	struct seq_request *r = request_at(q, seen->psn);

	if (!r || i >= count || seen->psn >= q->accepted)
		return;
	op = count == 1	      ? ROCEMU_RC_READ_RESP_ONLY
	     : i == 0	      ? ROCEMU_RC_READ_RESP_FIRST
	     : i + 1 == count ? ROCEMU_RC_READ_RESP_LAST
			      : ROCEMU_RC_READ_RESP_MIDDLE;
	for (uint32_t k = 0; k < SEQ_MTU; k++)
		payload[k] = seq_byte((uint32_t)(r - q->request), seen->offset + at + k);
	q->answered[(seen->psn + i) % SEQ_PSNS] = 1;
	q->acked_to = MAX(q->acked_to, r->psn);
	respond(s, q, op, seen->psn + i, ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS, payload,
		MIN((uint32_t)SEQ_MTU, seen->len - at));
}

static void atomic_response(struct seq *s, struct seq_qp *q, const struct seq_request *r)
{
	if (r->kind != SEQ_ADD || r->psn >= q->accepted || !q->sent[r->psn % SEQ_PSNS])
		return;
	q->answered[r->psn % SEQ_PSNS] = 1;
	q->acked_to = MAX(q->acked_to, r->psn);
	respond(s, q, ROCEMU_RC_ATOMIC_ACK, r->psn, ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS, NULL,
		0);
}

void seq_answer(struct seq *s, struct seq_qp *q, uint8_t how, uint8_t which)
{
	unsigned in_flight = q->requests - q->completed;

	if (!seq_requests(q))
		return;
	switch (how % SEQ_ANSWERS) {
	case SEQ_ACCEPT:
		accept_packets(q, which % 16u);
		break;
	case SEQ_ACK:
		ack(s, q, which % 8u);
		break;
	case SEQ_NAK:
		nak(s, q, ROCEMU_AETH_NAK);
		break;
	case SEQ_RNR:
		nak(s, q, (uint8_t)(ROCEMU_AETH_RNR | 1));
		break;
	case SEQ_READ_RESPONSE:
		if (q->reads_seen)
			read_response(
				s, q,
				&q->seen[(q->reads_seen - 1 - which / 4u % MIN(q->reads_seen, 8u)) %
					 SEQ_READS_SEEN],
				which % 4u);
		break;
	default:
		if (in_flight)
			atomic_response(s, q, &q->request[q->completed + which % in_flight]);
	}
}

void seq_answer_all(struct seq *s, struct seq_qp *q)
{
	unsigned end = q->requests;

	if (!seq_requests(q))
		return;
	accept_packets(q, SEQ_PSNS);
	for (unsigned i = q->completed; i < end; i++) {
		const struct seq_request *r = &q->request[i];

		for (unsigned k = 0; k < MIN(q->reads_seen, (unsigned)SEQ_READS_SEEN); k++)
			for (uint32_t n = 0; r->kind == SEQ_READ && n < r->span; n++)
				if (q->seen[k].psn - r->psn < r->span)
					read_response(s, q, &q->seen[k], n);
		atomic_response(s, q, r);
	}
	for (uint32_t back = 0; back < 4; back++)
		ack(s, q, back);
}

void seq_on_sent(struct seq_qp *q, const struct rocemu_cqe *c)
{
	uint32_t n = (uint32_t)(c->wr_id >> 1);
	const struct seq_request *r = &q->request[n];
	const uint8_t *back = q->back[n % SEQ_SLOTS];
	uint64_t value;

	/* In order, once, and nothing that was not posted. */
	FUZZ_CHECK(n == q->completed && n < q->requests);
	q->completed++;
	if (q->hostile)
		return;
	if (c->status != IBV_WC_SUCCESS) {
		FUZZ_CHECK(c->status == IBV_WC_WR_FLUSH_ERR || c->status == IBV_WC_RETRY_EXC_ERR);
		FUZZ_CHECK(q->timeouts >= ENOUGH_TIMEOUTS);
		return;
	}
	if (!reads(r)) {
		FUZZ_CHECK(q->acked_to >= r->psn + r->span);
		return;
	}
	for (uint32_t i = 0; i < r->span; i++)
		FUZZ_CHECK(q->answered[(r->psn + i) % SEQ_PSNS]);
	for (uint32_t i = r->len; i < SEQ_ROOM; i++)
		FUZZ_CHECK(back[i] == 0xc3);
	memcpy(&value, back, sizeof(value));
	FUZZ_CHECK(r->kind != SEQ_ADD || value == UINT64_C(0x1000) + r->psn);
	for (uint32_t i = 0; i < r->len && r->kind == SEQ_READ; i++)
		FUZZ_CHECK(back[i] == seq_byte(n, i));
}

static bool unfinished(const struct seq *s)
{
	for (unsigned i = 0; i < SEQ_QPS; i++)
		if (!s->q[i].hostile && s->q[i].completed < s->q[i].requests)
			return true;
	return false;
}

void seq_finish_requests(struct seq *s)
{
	/* All QPs in turns: one that waits for the others' end would time out. */
	for (unsigned guard = 0; unfinished(s); guard++) {
		FUZZ_CHECK(guard < ANSWER_ROUNDS);
		seq_output(s, ROCEMU_OUTPUT_BATCH, 64);
		for (unsigned i = 0; i < SEQ_QPS; i++)
			seq_answer_all(s, &s->q[i]);
		if (unfinished(s) && !rocemu_ep_has_output(s->ep) &&
		    rocemu_ep_deadline(s->ep) != ROCEMU_NEVER)
			seq_expire(s, rocemu_ep_deadline(s->ep));
	}
}
