/* SPDX-License-Identifier: BSD-2-Clause */
/* See fuzz-world.h. */
#include "fuzz-world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "driver.h"

static struct ibv_qp_attr qp_attr(const struct world *w, const struct fuzz_qp *q)
{
	struct ibv_qp_attr a = {
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC | ROCEMU_ACCESS_FLUSH_GLOBAL,
		.qkey = QKEY,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = PEER_QPN,
		.rq_psn = q->expected,
		.sq_psn = (q->sent + 1) & ROCEMU_PSN_MASK,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 8,
		.retry_cnt = 2,
		.rnr_retry = 2,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	};

	memcpy(a.ah_attr.grh.dgid.raw, w->peer.raw, sizeof(w->peer.raw));
	return a;
}

void world_qp_connect(struct world *w, struct fuzz_qp *q)
{
	struct ibv_qp_attr a = qp_attr(w, q);
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT, rtr = IBV_QP_STATE,
	    rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

	init |= q->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	if (q->type != IBV_QPT_UD)
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (q->type == IBV_QPT_RC || q->type == IBV_QPT_XRC_RECV)
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (q->type == IBV_QPT_XRC_RECV)
		rts |= IBV_QP_TIMEOUT;
	if (q->type == IBV_QPT_RC || q->type == IBV_QPT_XRC_SEND)
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	a.qp_state = IBV_QPS_INIT;
	FUZZ_CHECK(rocemu_qp_modify(q->qp, w->now, &a, init) == 0);
	a.qp_state = IBV_QPS_RTR;
	FUZZ_CHECK(rocemu_qp_modify(q->qp, w->now, &a, rtr) == 0);
	a.qp_state = IBV_QPS_RTS;
	FUZZ_CHECK(rocemu_qp_modify(q->qp, w->now, &a, rts) == 0);
}

void world_qp_make(struct world *w, unsigned i)
{
	static const enum ibv_qp_type types[QPS] = {IBV_QPT_RC, IBV_QPT_RC,	  IBV_QPT_UC,
						    IBV_QPT_UD, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND};
	struct fuzz_qp *q = &w->q[i];
	bool target = types[i] == IBV_QPT_XRC_RECV;
	struct rocemu_qp_init init = {
		.pd = target ? NULL : w->pd,
		.send_cq = target ? NULL : q->cq,
		.recv_cq = target || types[i] == IBV_QPT_XRC_SEND ? NULL : q->cq,
		.srq = i == 1 && w->has_srq ? w->srq : NULL,
		.xrcd = target ? w->xrcd : NULL,
		.type = types[i],
		.cap = {QUEUE, QUEUE, 4, 4, 64},
	};

	if (init.srq)
		init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
	q->type = types[i];
	FUZZ_CHECK(rocemu_qp_create(w->ep, &init, &q->qp) == 0);
	world_qp_connect(w, q);
	if (q->type == IBV_QPT_UD) {
		const struct rocemu_gid group = world_group();

		FUZZ_CHECK(rocemu_qp_attach_mcast(q->qp, &group) == 0);
	}
}

struct rocemu_gid world_group(void)
{
	return (struct rocemu_gid){{[10] = 0xff, 0xff, 239, 1, 1, 1}};
}

void world_qp_destroy(struct fuzz_qp *q)
{
	const struct rocemu_gid group = world_group();

	if (q->type == IBV_QPT_UD) {
		FUZZ_CHECK(rocemu_qp_destroy(q->qp) == -EBUSY);
		FUZZ_CHECK(rocemu_qp_detach_mcast(q->qp, &group) == 0);
	}
	FUZZ_CHECK(rocemu_qp_destroy(q->qp) == 0);
}

void world_xrc_srq_make(struct world *w)
{
	struct ibv_srq_attr attr = {.max_wr = QUEUE, .max_sge = 2};

	if (w->xrc_srq)
		FUZZ_CHECK(rocemu_srq_destroy(w->xrc_srq) == 0);
	FUZZ_CHECK(rocemu_xrc_srq_create(w->pd, w->xrcd, w->q[XRC_TARGET].cq, &attr, NULL,
					 &w->xrc_srq) == 0);
}

void world_open(struct world *w)
{
	struct rocemu_ep_config cfg = {.seed = 1};
	struct ibv_srq_attr srq = {.max_wr = QUEUE, .max_sge = 2};
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_REMOTE_ATOMIC | ROCEMU_ACCESS_FLUSH_GLOBAL;

	w->now = 1000;
	w->self = ipv4(1);
	w->peer = ipv4(2);
	memset(w->memory, 0xa5, sizeof(w->memory));
	memset(w->closed, 0x5a, sizeof(w->closed));
	w->ep = rocemu_ep_new(&cfg);
	FUZZ_CHECK(w->ep && rocemu_ep_set_slot(w->ep, 1, 16) == 0 &&
		   rocemu_ep_set_gid(w->ep, 0, &w->self) == 0);
	w->pd = rocemu_pd_new(w->ep);
	FUZZ_CHECK(w->pd != NULL);
	FUZZ_CHECK(rocemu_mr_reg(w->pd, w->memory + GUARD, OPEN_LEN, OPEN_IOVA, all, &w->open_mr) ==
		   0);
	FUZZ_CHECK(rocemu_mr_reg(w->pd, w->closed, sizeof(w->closed), CLOSED_IOVA, 0,
				 &w->closed_mr) == 0);
	FUZZ_CHECK(rocemu_mr_reg(w->pd, w->memory + GUARD, OPEN_LEN, OPEN_IOVA,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, &w->window_mr) == 0);
	FUZZ_CHECK(rocemu_mw_new(w->pd, IBV_MW_TYPE_1, &w->mw[0]) == 0 &&
		   rocemu_mw_new(w->pd, IBV_MW_TYPE_2, &w->mw[1]) == 0);
	FUZZ_CHECK(rocemu_srq_create(w->pd, &srq, NULL, &w->srq) == 0);
	w->xrcd = rocemu_xrcd_new(w->ep);
	w->other_xrcd = rocemu_xrcd_new(w->ep);
	FUZZ_CHECK(w->xrcd && w->other_xrcd);
	for (unsigned i = 0; i < QPS; i++) {
		w->q[i] = (struct fuzz_qp){.expected = 0xfffffc, .sent = 0xfffffc};
		FUZZ_CHECK(rocemu_cq_create(w->ep, CQ_DEPTH, NULL, &w->q[i].cq) == 0);
		world_qp_make(w, i);
	}
	world_xrc_srq_make(w);
	FUZZ_CHECK(rocemu_xrc_srq_create(w->pd, w->other_xrcd, w->q[XRC_TARGET].cq, &srq, NULL,
					 &w->other_xrc_srq) == 0);
}

/* ---- what must hold ---- */

static void check_memory(const struct world *w)
{
	for (size_t i = 0; i < GUARD; i++)
		FUZZ_CHECK(w->memory[i] == 0xa5 && w->memory[GUARD + OPEN_LEN + i] == 0xa5);
	for (size_t i = 0; i < sizeof(w->closed); i++)
		FUZZ_CHECK(w->closed[i] == 0x5a);
}

void world_check_completions(struct world *w, struct fuzz_qp *q)
{
	struct rocemu_cqe c;

	while (rocemu_cq_poll(q->cq, &c, 1) == 1) {
		bool recv = c.wr_id & 1;
		bool from_srq = recv && q == &w->q[1] && w->has_srq;
		uint64_t count = c.wr_id >> 1;

		if (q == &w->q[XRC_TARGET]) {
			FUZZ_CHECK(recv && count >= 1 && count <= w->xrc_srq_posted);
			continue;
		}
		if (from_srq) {
			FUZZ_CHECK(count >= 1 && count <= w->srq_posted);
			continue;
		}
		/* In order, once, and nothing that was not posted. */
		FUZZ_CHECK(count > q->done[recv] && count <= q->posted[recv]);
		q->done[recv] = count;
		if (c.status == IBV_WC_SUCCESS && recv)
			FUZZ_CHECK(c.byte_len <= OPEN_LEN);
	}
	FUZZ_CHECK(!rocemu_cq_overrun(q->cq));
}

static void learn_from(struct world *w, const struct rocemu_packet *p, uint32_t lqpn)
{
	for (unsigned i = 0; i < QPS; i++) {
		struct fuzz_qp *q = &w->q[i];
		uint32_t ops = rocemu_opcode_ops(p->h.opcode);
		bool stay;

		if (rocemu_qp_num(q->qp) != lqpn)
			continue;
		if (ops & ROCEMU_OP_REQUEST)
			q->sent = p->h.psn;
		if (!(ops & ROCEMU_OP_RESPONSE))
			continue;
		stay = (ops & ROCEMU_OP_ACK) && (p->h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK);
		q->expected = (p->h.psn + !stay) & ROCEMU_PSN_MASK;
	}
}

static void check_output(struct world *w, struct rocemu_tx *t)
{
	uint8_t flat[ROCEMU_MAX_PACKET];
	struct rocemu_icrc_ctx ctx;
	struct rocemu_packet p;
	uint32_t len = t->hdr_len;

	rocemu_tx_seal(t, 7);
	FUZZ_CHECK(rocemu_tx_len(t) <= sizeof(flat) && t->niov <= ROCEMU_MAX_SGE &&
		   t->payload_len <= 4096);
	memcpy(flat, t->hdr, t->hdr_len);
	for (unsigned i = 0; i < t->niov; len += (uint32_t)t->iov[i++].iov_len) {
		FUZZ_CHECK(len + t->iov[i].iov_len <= sizeof(flat));
		memcpy(flat + len, t->iov[i].iov_base, t->iov[i].iov_len);
	}
	FUZZ_CHECK(len == t->hdr_len + t->payload_len);
	memcpy(flat + len, t->trailer, t->trailer_len);
	ctx = (struct rocemu_icrc_ctx){
		t->path->sgid, t->path->dgid, t->path->sport, ROCEMU_UDP_PORT, 7, 0x4000};
	FUZZ_CHECK(rocemu_gid_equal(&t->path->dgid, &w->peer));
	FUZZ_CHECK(rocemu_packet_decode(&p, flat, rocemu_tx_len(t)) == ROCEMU_DROP_NONE);
	FUZZ_CHECK(rocemu_icrc_check(&ctx, true, flat, rocemu_tx_len(t)) == 7);
	learn_from(w, &p, t->lqpn);
}

void world_output(struct world *w, unsigned ask)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
	unsigned idle = 0;

	/* Bounded: an RC requester may have 192 KiB to send. */
	while (rocemu_ep_has_output(w->ep)) {
		unsigned got = rocemu_ep_output(w->ep, w->now, tx, ask);

		FUZZ_CHECK(got <= ask);
		for (unsigned i = 0; i < got; i++)
			check_output(w, &tx[i]);
		idle = got ? 0 : idle + 1;
		FUZZ_CHECK(idle <= 3);
	}
	FUZZ_CHECK(rocemu_ep_output(w->ep, w->now, tx, 1) == 0);
}

void world_close(struct world *w)
{
	struct rocemu_event ev;

	world_output(w, ROCEMU_OUTPUT_BATCH);
	while (rocemu_ep_next_event(w->ep, &ev))
		;
	for (unsigned i = 0; i < QPS; i++) {
		world_check_completions(w, &w->q[i]);
		world_qp_destroy(&w->q[i]);
		if (i == XRC_TARGET) /* its CQ is theirs */
			FUZZ_CHECK(rocemu_srq_destroy(w->xrc_srq) == 0 &&
				   rocemu_srq_destroy(w->other_xrc_srq) == 0);
		FUZZ_CHECK(rocemu_cq_destroy(w->q[i].cq) == 0);
	}
	FUZZ_CHECK(rocemu_xrcd_free(w->xrcd) == 0 && rocemu_xrcd_free(w->other_xrcd) == 0);
	FUZZ_CHECK(rocemu_ep_deadline(w->ep) == ROCEMU_NEVER);
	FUZZ_CHECK(rocemu_srq_destroy(w->srq) == 0);
	rocemu_mw_free(w->mw[0]);
	FUZZ_CHECK(rocemu_mr_dereg(w->window_mr) == 0); /* type 2 went with its QP */
	rocemu_mw_free(w->mw[1]);
	FUZZ_CHECK(rocemu_mr_dereg(w->open_mr) == 0 && rocemu_mr_dereg(w->closed_mr) == 0);
	FUZZ_CHECK(rocemu_pd_free(w->pd) == 0);
	check_memory(w);
	rocemu_ep_free(w->ep);
}
