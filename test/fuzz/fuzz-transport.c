/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An endpoint with RC, XRC, UC and UD queue pairs and a peer that sends it anything. The input is a
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
#include "fuzz-world.h"

/* ---- packets ---- */

static void input(struct world *w, const uint8_t *data, const uint8_t *body, uint32_t len,
		  uint8_t odd)
{
	struct rocemu_dgram d = {
		.data = data,
		.len = len,
		.src = odd == 255 ? ipv4(3) : w->peer,
		.dst = w->to_group ? world_group() : w->self,
		.sport = 0xc000,
		.dport = ROCEMU_UDP_PORT,
		.ip_id_known = true,
		.body = body,
	};

	FUZZ_CHECK(rocemu_ep_input(w->ep, w->now, &d) < ROCEMU_DROP_COUNT);
}

static void seal_and_input(struct world *w, uint8_t *pkt, uint32_t len, uint8_t odd)
{
	struct rocemu_icrc_ctx ctx = {
		.src = odd == 255 ? ipv4(3) : w->peer,
		.dst = w->to_group ? world_group() : w->self,
		.sport = 0xc000,
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = 0x4000,
	};
	uint8_t *exact = malloc(len + ROCEMU_ICRC_LEN), *body = NULL;

	FUZZ_CHECK(exact != NULL);
	memcpy(exact, pkt, len);
	put_le32(exact + len, rocemu_icrc(&ctx, exact, len, NULL, 0, NULL, 0));
	if (odd >= FUZZ_MEMORY && odd < FUZZ_ANY) {
		/* Its sender writes to it meanwhile: headers, and no ICRC. */
		body = malloc(len + ROCEMU_ICRC_LEN);
		FUZZ_CHECK(body != NULL);
		memset(body, odd, len + ROCEMU_ICRC_LEN);
	}
	input(w, exact, body, len + ROCEMU_ICRC_LEN, odd);
	free(exact);
	free(body);
}

static enum rocemu_service service_of(enum ibv_qp_type type)
{
	switch ((int)type) {
	case IBV_QPT_UC:
		return ROCEMU_SVC_UC;
	case IBV_QPT_UD:
		return ROCEMU_SVC_UD;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return ROCEMU_SVC_XRC;
	default:
		return ROCEMU_SVC_RC;
	}
}

/** The b-th opcode of a service that goes this way; a few values of b give any opcode at all. */
static uint8_t choose_opcode(enum ibv_qp_type type, uint32_t way, uint8_t b)
{
	enum rocemu_service svc = service_of(type);
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

static uint32_t choose_srqn(const struct world *w, uint8_t b)
{
	if (b < FUZZ_ANY)
		return rocemu_srq_num(w->xrc_srq);
	return b & 1 ? rocemu_srq_num(w->other_xrc_srq) : b * 0x10001u;
}

static void cmd_packet(struct world *w, uint32_t way)
{
	struct fuzz_qp *q = &w->q[take(w) % QPS];
	struct rocemu_hdrs h = {
		.pkey = ROCEMU_PKEY_DEFAULT, .migreq = true, .dqpn = rocemu_qp_num(q->qp)};
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
	w->to_group = b & 8;
	if (w->to_group)
		h.dqpn = ROCEMU_MCAST_QPN;
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
	h.feth.raw = b < FUZZ_ANY ? ROCEMU_FLUSH_GLOBAL | (b & 1u) << ROCEMU_FETH_LEVEL_SHIFT : b;
	h.ieth = b & 1 ? rocemu_mw_rkey(w->mw[1]) : b;
	if (rocemu_opcode_hdrs(h.opcode) & ROCEMU_HDR_XRCETH)
		h.xrceth.srqn = choose_srqn(w, take(w));
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
	w->to_group = false;
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

/** A bind's parameters; some are not allowed. */
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
						 IBV_WR_SEND_WITH_INV,
						 (enum ibv_wr_opcode)ROCEMU_WR_FLUSH,
						 (enum ibv_wr_opcode)ROCEMU_WR_ATOMIC_WRITE};
	struct ibv_mr mr = {.lkey = rocemu_mr_lkey(w->window_mr)};
	struct ibv_mw mw = {0};
	unsigned i = take(w) % QPS;
	struct fuzz_qp *q = &w->q[i];
	struct ibv_sge sge = {.addr = OPEN_IOVA, .lkey = rocemu_mr_lkey(w->open_mr)};
	struct ibv_send_wr wr = {.wr_id = (q->posted[0] + 1) << 1, .sg_list = &sge, .num_sge = 1};
	struct rocemu_path path = {
		.sgid = w->self, .dgid = w->peer, .sport = 0xc001, .hop_limit = 64};
	uint8_t b = take(w);

	world_check_completions(w, q);
	wr.opcode = ops[b % ARRAY_LEN(ops)];
	wr.send_flags = b & 128 ? IBV_SEND_SIGNALED : IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	sge.length = q->type == IBV_QPT_UD ? 100 : take(w) * 8u;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = 4096;
	}
	if ((int)wr.opcode == ROCEMU_WR_ATOMIC_WRITE)
		sge.length = 8;
	if ((int)wr.opcode == ROCEMU_WR_FLUSH)
		wr.invalidate_rkey = ROCEMU_FLUSH_GLOBAL;
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

	world_check_completions(w, q);
	sge.length = rooms[b % ARRAY_LEN(rooms)];
	if (b >= 250)
		sge.lkey = rocemu_mr_lkey(w->closed_mr);
	if (q == &w->q[XRC_TARGET]) {
		wr.wr_id = (w->xrc_srq_posted + 1) << 1 | 1;
		w->xrc_srq_posted += rocemu_srq_post(w->xrc_srq, &wr, &bad) == 0;
	} else if (srq) {
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

	world_check_completions(w, q);
	switch (take(w) % 6) {
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
	case 5:
		world_xrc_srq_make(w);
		break;
	case 3:
		world_qp_destroy(q);
		qp_forget_posts(q);
		world_qp_make(w, i);
		break;
	default:
		FUZZ_CHECK(rocemu_qp_modify(q->qp, w->now, &a, IBV_QP_STATE) == 0);
		qp_forget_posts(q);
		world_qp_connect(w, q);
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
		world_check_completions(w, &w->q[i]);
		FUZZ_CHECK(rocemu_qp_modify(w->q[i].qp, w->now, &a, IBV_QP_STATE) == 0);
		qp_forget_posts(&w->q[i]);
		world_qp_connect(w, &w->q[i]);
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
		world_output(w, 1 + take(w) % ROCEMU_OUTPUT_BATCH);
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
