/* SPDX-License-Identifier: BSD-2-Clause */
/* fuzz-sequence: the peer as requester, and what the responder under test may do. See
 * fuzz-sequence.h. */
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"
#include "driver.h"
#include "fuzz-sequence.h"

/** The part of an opcode that is common to all services: by kind, whether it is the first, whether
 * the last. */
static uint8_t opcode_of(enum seq_kind kind, bool first, bool last)
{
	static const uint8_t send[2][2] = {{ROCEMU_RC_SEND_MIDDLE, ROCEMU_RC_SEND_LAST},
					   {ROCEMU_RC_SEND_FIRST, ROCEMU_RC_SEND_ONLY}};
	static const uint8_t write[2][2] = {{ROCEMU_RC_WRITE_MIDDLE, ROCEMU_RC_WRITE_LAST},
					    {ROCEMU_RC_WRITE_FIRST, ROCEMU_RC_WRITE_ONLY}};

	switch (kind) {
	case SEQ_SEND:
		return send[first][last];
	case SEQ_READ:
		return ROCEMU_RC_READ_REQUEST;
	case SEQ_ADD:
		return ROCEMU_RC_FETCH_ADD;
	default:
		return (uint8_t)(write[first][last] + (kind == SEQ_WRITE_IMM && last));
	}
}

static bool reads(const struct seq_packet *p)
{
	return p->kind == SEQ_READ || p->kind == SEQ_ADD;
}

static bool takes_recv(const struct seq_packet *p)
{
	return (p->kind == SEQ_SEND &&
		(p->op == ROCEMU_RC_SEND_LAST || p->op == ROCEMU_RC_SEND_ONLY)) ||
	       p->op == ROCEMU_RC_WRITE_LAST_IMM || p->op == ROCEMU_RC_WRITE_ONLY_IMM;
}

void seq_compose(struct seq_qp *q, uint8_t kind, uint8_t len_byte)
{
	uint32_t len = len_byte * 3u % (SEQ_MSG + 1),
		 count = len ? (len + SEQ_MTU - 1) / SEQ_MTU : 1;
	struct seq_packet p = {.kind = (enum seq_kind)(kind % SEQ_KINDS),
			       .message = q->messages,
			       .before = q->adds};

	if (q->type == IBV_QPT_XRC_SEND || (q->type == IBV_QPT_UC && p.kind >= SEQ_READ))
		return;
	if (q->packets + count > SEQ_STREAM)
		return;
	p.dma_len = p.kind == SEQ_ADD ? 8 : len;
	p.offset = SEQ_WRITABLE + kind / SEQ_KINDS * 16u % (SEQ_READABLE - SEQ_WRITABLE - SEQ_MSG);
	if (p.kind == SEQ_READ)
		p.offset = SEQ_READABLE + kind;
	if (p.kind == SEQ_READ || p.kind == SEQ_ADD) {
		p.span = p.kind == SEQ_READ ? count : 1;
		count = 1;
		len = 0;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct seq_packet *to = &q->stream[q->packets++];

		*to = p;
		to->psn = q->stream_psn;
		to->span = reads(&p) ? p.span : 1;
		to->op = opcode_of(p.kind, i == 0, i + 1 == count);
		to->payload = i + 1 == count ? len - i * SEQ_MTU : SEQ_MTU;
		q->stream_psn += to->span;
	}
	q->adds += p.kind == SEQ_ADD;
	q->messages++;
}

/** Of the stream: the first that was not delivered. */
static unsigned prefix(const struct seq_qp *q)
{
	unsigned i = 0;

	while (i < q->packets && q->stream[i].delivered)
		i++;
	return i;
}

static uint32_t prefix_psn(const struct seq_qp *q)
{
	unsigned i = prefix(q);

	return i < q->packets ? q->stream[i].psn : q->stream_psn;
}

/** A correct requester has no more READs and atomics in flight than the responder allows. */
static bool may_be_sent(const struct seq_qp *q, unsigned i)
{
	unsigned n = 0;

	for (unsigned k = q->acked; k <= i; k++)
		n += reads(&q->stream[k]);
	return n <= SEQ_RD_ATOMIC;
}

void seq_deliver(struct seq *s, struct seq_qp *q, unsigned i)
{
	struct seq_packet *p = &q->stream[i % SEQ_STREAM];
	uint8_t payload[SEQ_MTU];
	struct rocemu_hdrs h = {
		.opcode = p->op,
		.psn = (SEQ_FIRST_PSN + p->psn) & ROCEMU_PSN_MASK,
		.ackreq = i % 3 == 0 || i + 1 == q->packets,
		.imm = p->message,
		.reth = {.va = p->offset, .length = p->dma_len},
		.atomiceth = {.swap_add = 1},
	};

	if (i >= q->packets || (q->type != IBV_QPT_UC && !may_be_sent(q, i)))
		return;
	h.opcode |= q->type == IBV_QPT_UC	  ? ROCEMU_UC_SEND_FIRST
		    : q->type == IBV_QPT_XRC_RECV ? (uint8_t)(ROCEMU_SVC_XRC << 5)
						  : 0;
	for (uint32_t k = 0; k < p->payload; k++)
		payload[k] = seq_byte(p->psn + 1, k);
	p->delivered = true;
	seq_input(s, q, &h, payload, p->payload);
}

void seq_post_recvs(struct seq *s, struct seq_qp *q, unsigned n)
{
	const struct ibv_recv_wr *bad;

	if (q->type == IBV_QPT_XRC_SEND)
		return;
	for (; n > 0 && q->recvs_posted - q->recvs_done < SEQ_DEPTH; n--) {
		uint64_t number = q->recvs_posted;
		struct ibv_sge sge = {.addr = (uintptr_t)q->recv[number % SEQ_SLOTS],
				      .length = SEQ_MSG,
				      .lkey = rocemu_mr_lkey(q->recv_mr)};
		struct ibv_recv_wr wr = {.wr_id = number << 1 | 1, .sg_list = &sge, .num_sge = 1};
		int rc = q->type == IBV_QPT_XRC_RECV
				 ? rocemu_srq_post(s->srq, &wr, &bad)
				 : rocemu_qp_post_recv(q->qp, s->now, &wr, &bad);

		if (rc)
			return;
		q->recvs_posted++;
	}
}

static void advance(struct seq_qp *q, uint32_t answered_psn)
{
	while (q->acked < q->packets &&
	       q->stream[q->acked].psn + q->stream[q->acked].span <= answered_psn)
		q->acked++;
}

static const struct seq_packet *at_psn(const struct seq_qp *q, uint32_t psn)
{
	for (unsigned i = 0; i < q->packets; i++)
		if (psn - q->stream[i].psn < q->stream[i].span)
			return &q->stream[i];
	return NULL;
}

static void check_read_response(const struct seq_packet *to, const struct rocemu_packet *p,
				uint32_t psn)
{
	uint32_t at = (psn - to->psn) * SEQ_MTU;

	FUZZ_CHECK(to->kind == SEQ_READ && at + p->payload_len <= to->dma_len);
	FUZZ_CHECK(p->payload_len == MIN((uint32_t)SEQ_MTU, to->dma_len - at));
	for (uint32_t i = 0; i < p->payload_len; i++)
		FUZZ_CHECK(p->payload[i] == seq_byte(0, to->offset + at + i));
}

void seq_on_response(struct seq_qp *q, const struct rocemu_packet *p)
{
	uint32_t psn = (p->h.psn - SEQ_FIRST_PSN) & ROCEMU_PSN_MASK,
		 ops = rocemu_opcode_ops(p->h.opcode);
	uint8_t class = p->h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK;
	const struct seq_packet *to;

	FUZZ_CHECK(q->type == IBV_QPT_RC || q->type == IBV_QPT_XRC_RECV);
	if (q->hostile)
		return;
	if ((ops & ROCEMU_OP_ACK) && class != ROCEMU_AETH_ACK) {
		/* What was received is in order up to there at most; nothing is wrong with what
		 * came. */
		FUZZ_CHECK(psn <= prefix_psn(q));
		FUZZ_CHECK(class == ROCEMU_AETH_RNR || p->h.aeth.syndrome == (ROCEMU_AETH_NAK | 0));
		advance(q, psn);
		return;
	}
	FUZZ_CHECK(psn < prefix_psn(q));
	to = at_psn(q, psn);
	FUZZ_CHECK(to != NULL);
	if (ops & ROCEMU_OP_READ_RESP) {
		check_read_response(to, p, psn);
		/* Those before it are answered; it is with its last. */
		advance(q, psn + 1 == to->psn + to->span ? psn + 1 : to->psn);
		return;
	}
	if (ops & ROCEMU_OP_ATOMIC_ACK) /* the same in each call */
		FUZZ_CHECK(to->kind == SEQ_ADD && p->h.atomicack == to->before);
	else
		FUZZ_CHECK(!reads(to));
	advance(q, psn + 1);
}

/** The n-th message of the stream that takes a receive: its last packet. */
static unsigned receive_number(const struct seq_qp *q, uint64_t n)
{
	for (unsigned i = 0; i < q->packets; i++)
		if (takes_recv(&q->stream[i]) && n-- == 0)
			return i;
	return SEQ_STREAM;
}

void seq_on_received(struct seq_qp *q, const struct rocemu_cqe *c)
{
	uint64_t number = c->wr_id >> 1;
	const uint8_t *data = q->recv[number % SEQ_SLOTS];
	unsigned last, i;
	uint32_t at = 0;

	FUZZ_CHECK(number == q->recvs_done && number < q->recvs_posted);
	q->recvs_done++;
	if (q->hostile || c->status == IBV_WC_WR_FLUSH_ERR)
		return;
	FUZZ_CHECK(c->status == IBV_WC_SUCCESS);
	if (q->type == IBV_QPT_UC) /* what is doubled may arrive twice */
		return;
	last = receive_number(q, q->messages_done++);
	FUZZ_CHECK(last < prefix(q));
	for (i = last; i > 0 && q->stream[i - 1].message == q->stream[last].message;)
		i--;
	FUZZ_CHECK(c->byte_len == q->stream[last].dma_len);
	for (; i <= last && q->stream[i].kind == SEQ_SEND; i++)
		for (uint32_t k = 0; k < q->stream[i].payload; k++)
			FUZZ_CHECK(data[at++] == seq_byte(q->stream[i].psn + 1, k));
}

/** Memory after the whole stream was executed once, in order. */
static void check_target(const struct seq_qp *q)
{
	uint8_t want[SEQ_TARGET] = {0};
	uint32_t at = 0;

	for (unsigned i = 0; i < q->packets; i++) {
		const struct seq_packet *p = &q->stream[i];

		at = i > 0 && p->message == q->stream[i - 1].message ? at + q->stream[i - 1].payload
								     : p->offset;
		for (uint32_t k = 0; k < p->payload && p->kind != SEQ_SEND; k++)
			want[at + k] = seq_byte(p->psn + 1, k);
	}
	FUZZ_CHECK(memcmp(want + SEQ_WRITABLE, q->target + SEQ_GUARD + SEQ_WRITABLE,
			  SEQ_READABLE - SEQ_WRITABLE) == 0);
	FUZZ_CHECK(memcmp(&(uint64_t){q->adds}, q->target + SEQ_GUARD, 8) == 0);
}

void seq_finish_stream(struct seq *s, struct seq_qp *q)
{
	if (q->hostile || (q->type != IBV_QPT_RC && q->type != IBV_QPT_XRC_RECV) ||
	    rocemu_qp_state(q->qp) == IBV_QPS_ERR)
		return;
	/* From the oldest without an answer on, in order: each round gets further. */
	for (unsigned guard = 0; q->acked < q->packets; guard++) {
		FUZZ_CHECK(guard < 2 * SEQ_STREAM);
		seq_post_recvs(s, q, SEQ_DEPTH);
		for (unsigned i = q->acked; i < q->packets; i++)
			seq_deliver(s, q, i);
		seq_output(s, ROCEMU_OUTPUT_BATCH, 64);
		seq_take_completions(s, q);
	}
	check_target(q);
}
