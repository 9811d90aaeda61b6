/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An endpoint with RC, UC and UD queue pairs and a peer that sends it anything. The input is a
 * program of commands (see fuzz-transport.h): packets with valid headers and a right ICRC but
 * chosen fields, so that they get beyond the first checks; posts; time; state changes. PSNs are
 * chosen near those that the endpoint expects, for the same reason.
 *
 * What must hold: memory that no key opens stays as it was; each request completes at most once, in
 * order; what the endpoint sends is well formed; its calls agree with each other; in the end
 * everything can be taken apart.
 */
#include "fuzz-transport.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <rocemu/endpoint.h>

#include "base/bytes.h"
#include "base/util.h"
#include "driver.h"

enum {
	MTU = 256,
	OPEN_LEN = 4096, /* memory open to the peer */
	GUARD = 512,	 /* on either side, closed to it */
	QPS = 4,
	QUEUE = 16,
	PEER_QPN = 0x8011,
	QKEY = 0x11111111,
	CQ_DEPTH = 256,
};

struct fuzz_qp {
	struct rocemu_qp *qp;
	struct rocemu_cq *cq;
	enum ibv_qp_type type;
	uint32_t expected;  /* our guess at the PSN that its responder expects */
	uint32_t sent;	    /* PSN of the last request that it sent */
	uint64_t posted[2]; /* last wr_id of sends and receives: wr_id is a count << 1 | is_recv */
	uint64_t done[2];
};

struct world {
	const uint8_t *in, *end; /* the program */
	rocemu_ns_t now;
	struct rocemu_ep *ep;
	struct rocemu_pd *pd;
	struct rocemu_srq *srq;
	struct rocemu_mr *open_mr, *closed_mr;
	struct rocemu_mr *window_mr; /* the open memory again, for windows only */
	struct rocemu_mw *mw[2];     /* of type 1 and 2 */
	struct rocemu_gid self, peer;
	struct fuzz_qp q[QPS];
	uint64_t srq_posted;
	uint8_t memory[GUARD + OPEN_LEN + GUARD];
	uint8_t closed[1024]; /* registered for reading by ourselves only */
	bool has_srq;	      /* q[1] takes its receives from it */
};

static const uint64_t OPEN_IOVA = 0x10000, CLOSED_IOVA = 0x80000;

static uint8_t take(struct world *w)
{
	return w->in < w->end ? *w->in++ : 0;
}

static struct rocemu_gid ipv4(uint8_t last)
{
	return (struct rocemu_gid){{[10] = 0xff, 0xff, 10, 0, 0, last}};
}

/* ---- the endpoint ---- */

static struct ibv_qp_attr qp_attr(const struct world *w, const struct fuzz_qp *q)
{
	struct ibv_qp_attr a = {
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
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

static void qp_connect(struct world *w, struct fuzz_qp *q)
{
	struct ibv_qp_attr a = qp_attr(w, q);
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT, rtr = IBV_QP_STATE,
	    rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

	init |= q->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	if (q->type != IBV_QPT_UD)
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (q->type == IBV_QPT_RC) {
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	}
	a.qp_state = IBV_QPS_INIT;
	FUZZ_CHECK(rocemu_qp_modify(q->qp, w->now, &a, init) == 0);
	a.qp_state = IBV_QPS_RTR;
	FUZZ_CHECK(rocemu_qp_modify(q->qp, w->now, &a, rtr) == 0);
	a.qp_state = IBV_QPS_RTS;
	FUZZ_CHECK(rocemu_qp_modify(q->qp, w->now, &a, rts) == 0);
}

static void qp_make(struct world *w, unsigned i)
{
	static const enum ibv_qp_type types[QPS] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct fuzz_qp *q = &w->q[i];
	struct rocemu_qp_init init = {
		.pd = w->pd,
		.send_cq = q->cq,
		.recv_cq = q->cq,
		.srq = i == 1 && w->has_srq ? w->srq : NULL,
		.type = types[i],
		.cap = {QUEUE, QUEUE, 4, 4, 64},
	};

	if (init.srq)
		init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
	q->type = types[i];
	FUZZ_CHECK(rocemu_qp_create(w->ep, &init, &q->qp) == 0);
	qp_connect(w, q);
}

static void world_open(struct world *w)
{
	struct rocemu_ep_config cfg = {.seed = 1};
	struct ibv_srq_attr srq = {.max_wr = QUEUE, .max_sge = 2};
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_REMOTE_ATOMIC;

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
	for (unsigned i = 0; i < QPS; i++) {
		w->q[i] = (struct fuzz_qp){.expected = 0xfffffc, .sent = 0xfffffc};
		FUZZ_CHECK(rocemu_cq_create(w->ep, CQ_DEPTH, NULL, &w->q[i].cq) == 0);
		qp_make(w, i);
	}
}

/* ---- what must hold ---- */

static void check_memory(const struct world *w)
{
	for (size_t i = 0; i < GUARD; i++)
		FUZZ_CHECK(w->memory[i] == 0xa5 && w->memory[GUARD + OPEN_LEN + i] == 0xa5);
	for (size_t i = 0; i < sizeof(w->closed); i++)
		FUZZ_CHECK(w->closed[i] == 0x5a);
}

static void check_completions(struct world *w, struct fuzz_qp *q)
{
	struct rocemu_cqe c;

	while (rocemu_cq_poll(q->cq, &c, 1) == 1) {
		bool recv = c.wr_id & 1;
		bool from_srq = recv && q == &w->q[1] && w->has_srq;
		uint64_t count = c.wr_id >> 1;

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
	FUZZ_CHECK(memcmp(&t->path->dgid, &w->peer, sizeof(w->peer)) == 0);
	FUZZ_CHECK(rocemu_packet_decode(&p, flat, rocemu_tx_len(t)) == ROCEMU_DROP_NONE);
	FUZZ_CHECK(rocemu_icrc_check(&ctx, true, flat, rocemu_tx_len(t)) == 7);
	learn_from(w, &p, t->lqpn);
}

static void output(struct world *w, unsigned ask)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
	unsigned idle = 0;

	/* Bounded: an RC requester may have 192 KiB to say. */
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

/* ---- packets ---- */

static void input(struct world *w, const uint8_t *data, uint32_t len, uint8_t odd)
{
	struct rocemu_dgram d = {
		.data = data,
		.len = len,
		.src = odd == 255 ? ipv4(3) : w->peer,
		.dst = w->self,
		.sport = 0xc000,
		.dport = ROCEMU_UDP_PORT,
		.ip_id_known = true,
	};

	FUZZ_CHECK(rocemu_ep_input(w->ep, w->now, &d) < ROCEMU_DROP_COUNT);
}

static void seal_and_input(struct world *w, uint8_t *pkt, uint32_t len, uint8_t odd)
{
	struct rocemu_icrc_ctx ctx = {
		.src = odd == 255 ? ipv4(3) : w->peer,
		.dst = w->self,
		.sport = 0xc000,
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = 0x4000,
	};
	uint8_t *exact = malloc(len + ROCEMU_ICRC_LEN);

	FUZZ_CHECK(exact != NULL);
	memcpy(exact, pkt, len);
	put_le32(exact + len, rocemu_icrc(&ctx, exact, len, NULL, 0, NULL, 0));
	input(w, exact, len + ROCEMU_ICRC_LEN, odd);
	free(exact);
}

/** The b-th opcode of a service that goes this way; a few values of b give any opcode at all. */
static uint8_t choose_opcode(enum ibv_qp_type type, uint32_t way, uint8_t b)
{
	enum rocemu_service svc = type == IBV_QPT_RC   ? ROCEMU_SVC_RC
				  : type == IBV_QPT_UC ? ROCEMU_SVC_UC
						       : ROCEMU_SVC_UD;
	uint8_t fit[32], n = 0;

	if (b >= FUZZ_ANY)
		return (uint8_t)(b * 37);
	for (unsigned op = (unsigned)svc << 5; op < ((unsigned)svc + 1) << 5; op++)
		if (rocemu_opcode_ops((uint8_t)op) & way)
			fit[n++] = (uint8_t)op;
	return n ? fit[b % n] : ROCEMU_CNP;
}

static uint32_t choose_payload(uint32_t ops, uint8_t b)
{
	static const uint32_t odd[] = {0, 1, 3, 4, MTU - 1, MTU, MTU + 1, 2 * MTU, ROCEMU_MAX_MTU};

	if (b >= FUZZ_ANY)
		return odd[b % ARRAY_LEN(odd)];
	if (!(ops & ROCEMU_OP_PAYLOAD))
		return 0;
	if ((ops & (ROCEMU_OP_FIRST | ROCEMU_OP_MIDDLE)) && !(ops & ROCEMU_OP_LAST))
		return MTU;
	return b;
}

static uint32_t choose_dma_len(uint32_t ops, uint32_t payload, uint8_t b)
{
	static const uint32_t odd[] = {0,	   1,	       MTU,	  OPEN_LEN, OPEN_LEN + 1,
				       0x7fffffff, 0x80000000, 0xffffffff};

	if (b >= FUZZ_ANY)
		return odd[b % ARRAY_LEN(odd)];
	if (ops & ROCEMU_OP_READ_REQ)
		return b * 8u;
	return ops & ROCEMU_OP_LAST ? payload : MTU + 1u + b * 4u;
}

static uint64_t choose_va(uint8_t b)
{
	static const uint64_t odd[] = {0,
				       0x10000 - 1,
				       0x10000 + OPEN_LEN - 1,
				       0x10000 + OPEN_LEN,
				       UINT64_MAX,
				       UINT64_MAX - 7,
				       0x80000,
				       1};

	return b >= FUZZ_ANY ? odd[b % ARRAY_LEN(odd)] : OPEN_IOVA + b * 8u;
}

static uint32_t choose_key(const struct world *w, uint8_t b)
{
	if (b >= FUZZ_WINDOW && b < FUZZ_ANY)
		return rocemu_mw_rkey(w->mw[b & 1]);
	if (b < FUZZ_ANY)
		return rocemu_mr_rkey(w->open_mr);
	return b & 1 ? rocemu_mr_rkey(w->closed_mr) : rocemu_mr_rkey(w->open_mr) + b;
}

static void cmd_packet(struct world *w, uint32_t way)
{
	struct fuzz_qp *q = &w->q[take(w) % QPS];
	struct rocemu_hdrs h = {.pkey = 0xffff, .migreq = true, .dqpn = rocemu_qp_num(q->qp)};
	uint8_t pkt[ROCEMU_MAX_PACKET] = {0}, b;
	uint32_t ops, payload, base;

	h.opcode = choose_opcode(q->type, way, take(w));
	ops = rocemu_opcode_ops(h.opcode);
	b = take(w);
	base = way == ROCEMU_OP_REQUEST ? q->expected : q->sent;
	h.psn = (base + (b < FUZZ_ANY ? 0 : (uint32_t)(b - 248))) & ROCEMU_PSN_MASK;
	b = take(w);
	h.ackreq = b & 1;
	h.se = b & 2;
	h.becn = b & 4;
	payload = choose_payload(ops, take(w));
	h.reth.va = h.atomiceth.va = choose_va(take(w));
	h.reth.rkey = h.atomiceth.rkey = choose_key(w, take(w));
	h.reth.length = choose_dma_len(ops, payload, take(w));
	h.deth.qkey = b & 128 ? 0 : QKEY;
	h.deth.sqpn = PEER_QPN;
	b = take(w);
	h.aeth.syndrome = b;
	h.aeth.msn = b * 3u;
	h.atomiceth.compare = b & 1 ? 0xa5a5a5a5a5a5a5a5 : b;
	h.atomiceth.swap_add = b;
	h.atomicack = h.imm = b;
	h.ieth = b & 1 ? rocemu_mw_rkey(w->mw[1]) : b;
	h.pad = (uint8_t)(-payload & 3);
	base = (uint32_t)rocemu_hdrs_encode(&h, pkt);
	if (base == 0) {
		base = ROCEMU_BTH_LEN;
		pkt[0] = h.opcode;
	}
	b = take(w);
	if (b >= FUZZ_ANY) /* one more byte of the headers is something else */
		pkt[take(w) % base] = take(w);
	memset(pkt + base, 0xee, payload);
	seal_and_input(w, pkt, base + payload + h.pad, b);
	if (way == ROCEMU_OP_REQUEST && q->type == IBV_QPT_UC)
		q->expected = (h.psn + 1) & ROCEMU_PSN_MASK;
}

/** Bytes as they are, with a right ICRC behind them. */
static void cmd_raw(struct world *w)
{
	uint8_t pkt[64];
	uint32_t len = 4u * (3u + take(w) % 14u);

	for (uint32_t i = 0; i < len; i++)
		pkt[i] = take(w);
	seal_and_input(w, pkt, len, 0);
}

/* ---- the application ---- */

/** What a bind says; some are not allowed. */
static void make_bind(struct world *w, struct ibv_send_wr *wr, struct ibv_mw *mw, struct ibv_mr *mr)
{
	uint8_t b = take(w);
	bool unbind = b == 0;

	mw->rkey = rocemu_mw_rkey(w->mw[b & 1]);
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = b & 2 ? mw->rkey : ibv_inc_rkey(mw->rkey);
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = unbind ? NULL : mr,
		.addr = unbind ? 0 : OPEN_IOVA + b * 8u,
		.length = unbind	  ? 0
			  : b >= FUZZ_ANY ? OPEN_LEN
					  : b * 4u,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ | (b & 4 ? IBV_ACCESS_REMOTE_WRITE : 0) |
				   (b & 8 ? IBV_ACCESS_ZERO_BASED : 0),
	};
}

static void cmd_send(struct world *w)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND,
						 IBV_WR_RDMA_WRITE,
						 IBV_WR_RDMA_READ,
						 IBV_WR_SEND_WITH_IMM,
						 IBV_WR_ATOMIC_FETCH_AND_ADD,
						 IBV_WR_RDMA_WRITE_WITH_IMM,
						 IBV_WR_ATOMIC_CMP_AND_SWP,
						 IBV_WR_BIND_MW,
						 IBV_WR_LOCAL_INV,
						 IBV_WR_SEND_WITH_INV};
	struct ibv_mr mr = {.lkey = rocemu_mr_lkey(w->window_mr)};
	struct ibv_mw mw = {0};
	unsigned i = take(w) % QPS;
	struct fuzz_qp *q = &w->q[i];
	struct ibv_sge sge = {.addr = OPEN_IOVA, .lkey = rocemu_mr_lkey(w->open_mr)};
	struct ibv_send_wr wr = {.wr_id = (q->posted[0] + 1) << 1, .sg_list = &sge, .num_sge = 1};
	struct rocemu_path path = {
		.sgid = w->self, .dgid = w->peer, .sport = 0xc001, .hop_limit = 64};
	uint8_t b = take(w);

	check_completions(w, q);
	wr.opcode = ops[b % ARRAY_LEN(ops)];
	wr.send_flags = b & 128 ? IBV_SEND_SIGNALED : IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	sge.length = q->type == IBV_QPT_UD ? 100 : take(w) * 8u;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = 4096;
	}
	if (wr.opcode == IBV_WR_BIND_MW)
		make_bind(w, &wr, &mw, &mr);
	if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = rocemu_mw_rkey(w->mw[1]);
	if (q->type == IBV_QPT_UD) {
		wr.wr.ud.remote_qpn = PEER_QPN;
		wr.wr.ud.remote_qkey = QKEY;
	}
	b = take(w);
	if (b >= 250)
		sge.lkey ^= 0x100;
	if (rocemu_qp_post_send(q->qp, w->now, &wr, &path) == 0)
		q->posted[0]++;
}

static void cmd_recv(struct world *w)
{
	static const uint32_t rooms[] = {0, 100, MTU, 2 * MTU, 1000, OPEN_LEN};
	unsigned i = take(w) % QPS;
	struct fuzz_qp *q = &w->q[i];
	bool srq = i == 1 && w->has_srq;
	struct ibv_sge sge = {.addr = OPEN_IOVA, .lkey = rocemu_mr_lkey(w->open_mr)};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
	const struct ibv_recv_wr *bad;
	uint8_t b = take(w);

	check_completions(w, q);
	sge.length = rooms[b % ARRAY_LEN(rooms)];
	if (b >= 250)
		sge.lkey = rocemu_mr_lkey(w->closed_mr);
	if (srq) {
		wr.wr_id = (w->srq_posted + 1) << 1 | 1;
		w->srq_posted += rocemu_srq_post(w->srq, &wr, &bad) == 0;
	} else {
		wr.wr_id = (q->posted[1] + 1) << 1 | 1;
		q->posted[1] += rocemu_qp_post_recv(q->qp, w->now, &wr, &bad) == 0;
	}
}

static void cmd_time(struct world *w)
{
	rocemu_ns_t deadline = rocemu_ep_deadline(w->ep);
	uint8_t b = take(w);

	/* A little, or to when something is due. */
	if (b < 128 || deadline == ROCEMU_NEVER)
		w->now += b * 1000u;
	else
		w->now = MAX(w->now, deadline);
	rocemu_ep_expire(w->ep, w->now);
	FUZZ_CHECK(rocemu_ep_deadline(w->ep) > w->now);
}

static void qp_forget_posts(struct fuzz_qp *q)
{
	q->done[0] = q->posted[0];
	q->done[1] = q->posted[1];
}

static void cmd_state(struct world *w)
{
	unsigned i = take(w) % QPS;
	struct fuzz_qp *q = &w->q[i];
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

	check_completions(w, q);
	switch (take(w) % 5) {
	case 0:
		a.qp_state = IBV_QPS_ERR;
		FUZZ_CHECK(rocemu_qp_modify(q->qp, w->now, &a, IBV_QP_STATE) == 0);
		break;
	case 1:
		a.qp_state = IBV_QPS_SQD;
		rocemu_qp_modify(q->qp, w->now, &a, IBV_QP_STATE);
		break;
	case 2:
		a.qp_state = IBV_QPS_RTS;
		rocemu_qp_modify(q->qp, w->now, &a, IBV_QP_STATE);
		break;
	case 3:
		FUZZ_CHECK(rocemu_qp_destroy(q->qp) == 0);
		qp_forget_posts(q);
		qp_make(w, i);
		break;
	default:
		FUZZ_CHECK(rocemu_qp_modify(q->qp, w->now, &a, IBV_QP_STATE) == 0);
		qp_forget_posts(q);
		qp_connect(w, q);
	}
}

/** A QP that failed is of no more use: connect it again, mostly. */
static void revive(struct world *w)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

	for (unsigned i = 0; i < QPS; i++) {
		enum ibv_qp_state st = rocemu_qp_state(w->q[i].qp);

		if (st != IBV_QPS_ERR && st != IBV_QPS_SQE)
			continue;
		check_completions(w, &w->q[i]);
		FUZZ_CHECK(rocemu_qp_modify(w->q[i].qp, w->now, &a, IBV_QP_STATE) == 0);
		qp_forget_posts(&w->q[i]);
		qp_connect(w, &w->q[i]);
	}
}

static void command(struct world *w)
{
	switch (take(w) % FUZZ_COMMANDS) {
	case FUZZ_RESPONSE:
		cmd_packet(w, ROCEMU_OP_RESPONSE);
		break;
	case FUZZ_RAW:
		cmd_raw(w);
		break;
	case FUZZ_SEND:
		cmd_send(w);
		break;
	case FUZZ_RECV:
		cmd_recv(w);
		break;
	case FUZZ_OUTPUT:
		output(w, 1 + take(w) % ROCEMU_OUTPUT_BATCH);
		break;
	case FUZZ_TIME:
		cmd_time(w);
		break;
	case FUZZ_STATE:
		cmd_state(w);
		break;
	case FUZZ_REVIVE:
		revive(w);
		break;
	default:
		cmd_packet(w, ROCEMU_OP_REQUEST);
	}
}

static void world_close(struct world *w)
{
	struct rocemu_event ev;

	output(w, ROCEMU_OUTPUT_BATCH);
	while (rocemu_ep_next_event(w->ep, &ev))
		;
	for (unsigned i = 0; i < QPS; i++) {
		check_completions(w, &w->q[i]);
		FUZZ_CHECK(rocemu_qp_destroy(w->q[i].qp) == 0);
		FUZZ_CHECK(rocemu_cq_destroy(w->q[i].cq) == 0);
	}
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world w;

#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, 16 << 20); /* keep memory for the next input */
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
	memset(&w, 0, sizeof(w));
	w.in = data;
	w.end = data + size;
	w.has_srq = take(&w) & 1;
	world_open(&w);
	while (w.in < w.end)
		command(&w);
	world_close(&w);
	return 0;
}
