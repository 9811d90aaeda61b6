/* SPDX-License-Identifier: BSD-2-Clause */
/* fuzz-sequence: the endpoint under test. See fuzz-sequence.h. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"
#include "driver.h"
#include "fuzz-sequence.h"

static const enum ibv_qp_type types[SEQ_QPS] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_RECV,
						IBV_QPT_XRC_SEND};

static uint64_t target_iova(const struct seq *s, const struct seq_qp *q)
{
	return (uint64_t)(q - s->q + 1) << 20;
}

void seq_connect(struct seq *s, struct seq_qp *q)
{
	struct ibv_qp_attr a = {
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = SEQ_PEER_QPN,
		.rq_psn = SEQ_FIRST_PSN,
		.sq_psn = SEQ_FIRST_PSN,
		.max_rd_atomic = SEQ_RD_ATOMIC,
		.max_dest_rd_atomic = SEQ_RD_ATOMIC,
		.min_rnr_timer = 1,
		.timeout = 8,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	};
	int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	    rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

	memcpy(a.ah_attr.grh.dgid.raw, s->peer.raw, sizeof(s->peer.raw));
	if (q->type != IBV_QPT_UC)
		a.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	if (q->type == IBV_QPT_RC || q->type == IBV_QPT_XRC_RECV)
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (q->type == IBV_QPT_XRC_RECV)
		rts |= IBV_QP_TIMEOUT;
	if (seq_requests(q))
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	a.qp_state = IBV_QPS_INIT;
	FUZZ_CHECK(rocemu_qp_modify(q->qp, s->now, &a,
				    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					    IBV_QP_ACCESS_FLAGS) == 0);
	a.qp_state = IBV_QPS_RTR;
	FUZZ_CHECK(rocemu_qp_modify(q->qp, s->now, &a, rtr) == 0);
	a.qp_state = IBV_QPS_RTS;
	FUZZ_CHECK(rocemu_qp_modify(q->qp, s->now, &a, rts) == 0);
}

static void make_qp(struct seq *s, struct seq_qp *q, enum ibv_qp_type type)
{
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_REMOTE_ATOMIC;
	bool target = type == IBV_QPT_XRC_RECV;
	struct rocemu_qp_init init = {
		.pd = target ? NULL : s->pd,
		.send_cq = target ? NULL : q->cq,
		.recv_cq = target || type == IBV_QPT_XRC_SEND ? NULL : q->cq,
		.xrcd = target ? s->xrcd : NULL,
		.type = type,
		.cap = {SEQ_DEPTH, SEQ_DEPTH, 1, 1, 0},
	};

	q->type = type;
	memset(q->target, 0xa5, sizeof(q->target));
	memset(q->target + SEQ_GUARD, 0, SEQ_TARGET);
	for (uint32_t i = SEQ_READABLE; i < SEQ_TARGET; i++)
		q->target[SEQ_GUARD + i] = seq_byte(0, i);
	FUZZ_CHECK(rocemu_mr_reg(s->pd, q->target + SEQ_GUARD, SEQ_TARGET, target_iova(s, q), all,
				 &q->mr) == 0);
	FUZZ_CHECK(rocemu_mr_reg(s->pd, q->source, sizeof(q->source), (uintptr_t)q->source, 0,
				 &q->source_mr) == 0);
	FUZZ_CHECK(rocemu_mr_reg(s->pd, q->back, sizeof(q->back), (uintptr_t)q->back,
				 IBV_ACCESS_LOCAL_WRITE, &q->back_mr) == 0);
	FUZZ_CHECK(rocemu_mr_reg(s->pd, q->recv, sizeof(q->recv), (uintptr_t)q->recv,
				 IBV_ACCESS_LOCAL_WRITE, &q->recv_mr) == 0);
	FUZZ_CHECK(rocemu_qp_create(s->ep, &init, &q->qp) == 0);
	seq_connect(s, q);
}

void seq_open(struct seq *s)
{
	struct rocemu_ep_config cfg = {.seed = 1};
	struct ibv_srq_attr attr = {.max_wr = SEQ_DEPTH, .max_sge = 1};

	s->now = 1000000;
	s->self = (struct rocemu_gid){{[10] = 0xff, 0xff, 10, 0, 0, 1}};
	s->peer = (struct rocemu_gid){{[10] = 0xff, 0xff, 10, 0, 0, 2}};
	s->ep = rocemu_ep_new(&cfg);
	FUZZ_CHECK(s->ep && rocemu_ep_set_slot(s->ep, 1, 16) == 0 &&
		   rocemu_ep_set_gid(s->ep, 0, &s->self) == 0);
	s->pd = rocemu_pd_new(s->ep);
	s->xrcd = rocemu_xrcd_new(s->ep);
	FUZZ_CHECK(s->pd && s->xrcd);
	for (unsigned i = 0; i < SEQ_QPS; i++) {
		FUZZ_CHECK(rocemu_cq_create(s->ep, 4 * SEQ_DEPTH, NULL, &s->q[i].cq) == 0);
		make_qp(s, &s->q[i], types[i]);
	}
	FUZZ_CHECK(rocemu_xrc_srq_create(s->pd, s->xrcd, s->q[SEQ_XRC_TARGET].cq, &attr, NULL,
					 &s->srq) == 0);
}

void seq_check_memory(const struct seq *s)
{
	for (unsigned i = 0; i < SEQ_QPS; i++) {
		const uint8_t *p = s->q[i].target;

		for (size_t k = 0; k < SEQ_GUARD; k++)
			FUZZ_CHECK(p[k] == 0xa5 && p[SEQ_GUARD + SEQ_TARGET + k] == 0xa5);
	}
}

void seq_close(struct seq *s)
{
	struct rocemu_event ev;

	while (rocemu_ep_next_event(s->ep, &ev))
		;
	for (unsigned i = 0; i < SEQ_QPS; i++) {
		struct seq_qp *q = &s->q[i];

		seq_take_completions(s, q);
		FUZZ_CHECK(rocemu_qp_destroy(q->qp) == 0);
	}
	FUZZ_CHECK(rocemu_ep_deadline(s->ep) == ROCEMU_NEVER);
	FUZZ_CHECK(rocemu_srq_destroy(s->srq) == 0);
	for (unsigned i = 0; i < SEQ_QPS; i++) {
		struct seq_qp *q = &s->q[i];

		FUZZ_CHECK(rocemu_cq_destroy(q->cq) == 0);
		FUZZ_CHECK(rocemu_mr_dereg(q->mr) == 0 && rocemu_mr_dereg(q->source_mr) == 0 &&
			   rocemu_mr_dereg(q->back_mr) == 0 && rocemu_mr_dereg(q->recv_mr) == 0);
	}
	FUZZ_CHECK(rocemu_xrcd_free(s->xrcd) == 0 && rocemu_pd_free(s->pd) == 0);
	seq_check_memory(s);
	rocemu_ep_free(s->ep);
}

void seq_input(struct seq *s, struct seq_qp *q, struct rocemu_hdrs *h, const uint8_t *payload,
	       uint32_t len)
{
	struct rocemu_icrc_ctx ctx = {.src = s->peer,
				      .dst = s->self,
				      .sport = 0xc000,
				      .dport = ROCEMU_UDP_PORT,
				      .ip_frag = 0x4000};
	struct rocemu_dgram d = {.src = s->peer,
				 .dst = s->self,
				 .sport = 0xc000,
				 .dport = ROCEMU_UDP_PORT,
				 .tclass = s->tclass,
				 .ip_id_known = true};
	uint8_t pkt[ROCEMU_MAX_PACKET] = {0}, *exact;
	uint32_t at;

	h->dqpn = rocemu_qp_num(q->qp);
	h->pkey = ROCEMU_PKEY_DEFAULT;
	h->migreq = true;
	h->pad = (uint8_t)(-len & 3);
	h->reth.rkey = h->atomiceth.rkey = rocemu_mr_rkey(q->mr);
	h->reth.va += target_iova(s, q);
	h->atomiceth.va += target_iova(s, q);
	if (q->type == IBV_QPT_XRC_RECV)
		h->xrceth.srqn = rocemu_srq_num(s->srq);
	at = (uint32_t)rocemu_hdrs_encode(h, pkt);
	if (at == 0)
		return; /* not an opcode */
	if (len)
		memcpy(pkt + at, payload, len);
	at += len + h->pad;
	/* Of the exact length, so that a read beyond it is found. */
	exact = malloc(at + ROCEMU_ICRC_LEN);
	FUZZ_CHECK(exact != NULL);
	memcpy(exact, pkt, at);
	put_le32(exact + at, rocemu_icrc(&ctx, exact, at, NULL, 0, NULL, 0));
	d.data = exact;
	d.len = at + ROCEMU_ICRC_LEN;
	FUZZ_CHECK(rocemu_ep_input(s->ep, s->now, &d) < ROCEMU_DROP_COUNT);
	free(exact);
}

static void look_at(struct seq *s, struct rocemu_tx *t)
{
	uint8_t flat[ROCEMU_MAX_PACKET];
	struct rocemu_packet p;
	uint32_t len = t->hdr_len;

	rocemu_tx_seal(t, 0);
	FUZZ_CHECK(rocemu_tx_len(t) <= sizeof(flat) && t->payload_len <= SEQ_MTU);
	memcpy(flat, t->hdr, len);
	for (unsigned i = 0; i < t->niov; len += (uint32_t)t->iov[i++].iov_len)
		memcpy(flat + len, t->iov[i].iov_base, t->iov[i].iov_len);
	memcpy(flat + len, t->trailer, t->trailer_len);
	FUZZ_CHECK(rocemu_packet_decode(&p, flat, rocemu_tx_len(t)) == ROCEMU_DROP_NONE);
	for (unsigned i = 0; i < SEQ_QPS; i++) {
		uint32_t ops = rocemu_opcode_ops(p.h.opcode);

		if (rocemu_qp_num(s->q[i].qp) != t->lqpn)
			continue;
		if (ops & ROCEMU_OP_REQUEST)
			seq_on_request(&s->q[i], &p, p.payload);
		else if (ops & ROCEMU_OP_RESPONSE)
			seq_on_response(&s->q[i], &p);
	}
}

unsigned seq_output(struct seq *s, unsigned ask, unsigned calls)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
	unsigned total = 0;

	for (unsigned got = 1; got && calls > 0; calls--) {
		got = rocemu_ep_output(s->ep, s->now, tx, ask);
		FUZZ_CHECK(got <= ask);
		for (unsigned i = 0; i < got; i++)
			look_at(s, &tx[i]);
		total += got;
	}
	return total;
}

void seq_take_completions(struct seq *s, struct seq_qp *q)
{
	struct rocemu_cqe c;

	(void)s;
	while (rocemu_cq_poll(q->cq, &c, 1) == 1) {
		if (c.wr_id & 1)
			seq_on_received(q, &c);
		else
			seq_on_sent(q, &c);
	}
	FUZZ_CHECK(!rocemu_cq_overrun(q->cq));
}

void seq_expire(struct seq *s, rocemu_ns_t to)
{
	s->now = MAX(s->now, to);
	rocemu_ep_expire(s->ep, s->now);
	FUZZ_CHECK(rocemu_ep_deadline(s->ep) > s->now);
}
