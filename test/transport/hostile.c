/* SPDX-License-Identifier: BSD-2-Clause */
#include "hostile.h"

#include <stdio.h>
#include <string.h>

enum { SLOT = 5 };

static const char *const drop_names[] = {
#define X(name, text) #name,
	ROCEMU_DROPS(X)
#undef X
};

__attribute__((format(printf, 2, 3))) static void say(struct hostile *h, const char *fmt, ...)
{
	size_t used = strlen(h->log);
	va_list ap;

	if (used)
		used += (size_t)snprintf(h->log + used, sizeof(h->log) - used, "; ");
	va_start(ap, fmt);
	vsnprintf(h->log + used, sizeof(h->log) - used, fmt, ap);
	va_end(ap);
}

static void set_pattern(struct hostile *h)
{
	for (unsigned i = 0; i < sizeof(h->payload); i++)
		h->payload[i] = (uint8_t)(i * 7 + 1);
	for (unsigned i = 0; i < HOSTILE_MEM; i++)
		h->mem[i] = (uint8_t)(i * 13 + 5);
	memset(h->recv, 0xee, sizeof(h->recv));
}

static struct rocemu_xrcd *new_xrc(struct hostile *h)
{
	struct ibv_srq_attr attr = {.max_wr = 16, .max_sge = 4};

	h->xrcd = rocemu_xrcd_new(h->ep);
	assert_non_null(h->xrcd);
	assert_int_equal(rocemu_xrc_srq_create(h->pd, h->xrcd, h->cq, &attr, NULL, &h->srq), 0);
	h->srqn = rocemu_srq_num(h->srq);
	return h->xrcd;
}

void hostile_new(struct hostile *h, enum ibv_qp_type type, bool srq)
{
	struct ibv_srq_attr attr = {.max_wr = 16, .max_sge = 4};
	struct rocemu_qp_init init;

	*h = (struct hostile){
		.qp_access = HOSTILE_ALL_ACCESS,
		.rd_atomic = HOSTILE_RD_ATOMIC,
		.self = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}},
		.peer = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 2}},
	};
	set_pattern(h);
	h->ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	assert_non_null(h->ep);
	assert_int_equal(rocemu_ep_set_slot(h->ep, SLOT, 0), 0);
	assert_int_equal(rocemu_ep_set_gid(h->ep, 0, &h->self), 0);
	h->pd = rocemu_pd_new(h->ep);
	assert_non_null(h->pd);
	assert_int_equal(rocemu_cq_create(h->ep, 64, NULL, &h->cq), 0);
	init = (struct rocemu_qp_init){.type = type, .cap = {16, 16, 4, 4, 64}};
	if (type == IBV_QPT_XRC_RECV) {
		init.xrcd = new_xrc(h);
	} else {
		if (srq)
			assert_int_equal(rocemu_srq_create(h->pd, &attr, NULL, &h->srq), 0);
		init.pd = h->pd;
		init.send_cq = init.recv_cq = h->cq;
		init.srq = h->srq;
	}
	assert_int_equal(rocemu_qp_create(h->ep, &init, &h->qp), 0);
	assert_int_equal(rocemu_mr_reg(h->pd, h->mem, sizeof(h->mem), (uintptr_t)h->mem,
				       HOSTILE_FLUSHABLE, &h->mr),
			 0);
	assert_int_equal(rocemu_mr_reg(h->pd, h->recv, sizeof(h->recv), (uintptr_t)h->recv,
				       IBV_ACCESS_LOCAL_WRITE, &h->recv_mr),
			 0);
	h->rkey = rocemu_mr_rkey(h->mr);
}

static int rtr_mask(enum ibv_qp_type type)
{
	if (type == IBV_QPT_UD)
		return IBV_QP_STATE;
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       (type != IBV_QPT_UC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
}

static int rts_mask(enum ibv_qp_type type)
{
	return IBV_QP_STATE | IBV_QP_SQ_PSN | (type == IBV_QPT_XRC_RECV ? IBV_QP_TIMEOUT : 0) |
	       (type == IBV_QPT_RC ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					     IBV_QP_MAX_QP_RD_ATOMIC
				   : 0);
}

void hostile_connect(struct hostile *h, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = HOSTILE_QPN,
		.rq_psn = h->psn,
		.qkey = HOSTILE_QKEY,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 12,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = h->rd_atomic,
		.qp_access_flags = h->qp_access,
	};
	enum ibv_qp_type type = h->qp->type;

	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	memcpy(a.ah_attr.grh.dgid.raw, h->peer.raw, 16);
	assert_int_equal(
		rocemu_qp_modify(h->qp, 0, &a,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					 (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
		0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(rocemu_qp_modify(h->qp, 0, &a, rtr_mask(type)), 0);
	if (to == IBV_QPS_RTR)
		return;
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(rocemu_qp_modify(h->qp, 0, &a, rts_mask(type)), 0);
}

void hostile_start(struct hostile *h, enum ibv_qp_type type)
{
	hostile_new(h, type, false);
	hostile_connect(h, IBV_QPS_RTS);
}

void hostile_free(struct hostile *h)
{
	rocemu_ep_free(h->ep);
}

void hostile_recv(struct hostile *h, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)h->recv + off, len, rocemu_mr_lkey(h->recv_mr)};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
	const struct ibv_recv_wr *bad;

	if (h->srq)
		assert_int_equal(rocemu_srq_post(h->srq, &wr, &bad), 0);
	else
		assert_int_equal(rocemu_qp_post_recv(h->qp, h->now, &wr, &bad), 0);
}

/* ---- packets to the endpoint ---- */

/* The packet came by memory that its sender changes: only its headers were copied before. */
static void write_on(struct rocemu_dgram *d, uint8_t *packet, size_t hdr_len)
{
	static uint8_t copy[ROCEMU_MAX_PACKET];

	memset(copy, 0x5a, sizeof(copy));
	memcpy(copy, packet, hdr_len);
	memset(packet, 0xff, hdr_len);
	packet[d->len - 1] ^= 1; /* of the ICRC */
	d->data = copy;
	d->body = packet;
}

void hostile_send_hdrs(struct hostile *h, struct rocemu_hdrs *hdrs, uint32_t len)
{
	uint8_t buf[ROCEMU_MAX_PACKET];
	uint32_t pad = -len & 3;
	uint16_t own = h->qp->path.sport ? h->qp->path.sport : 0xc000;
	uint16_t sport = h->sport ? h->sport : own;
	struct rocemu_icrc_ctx ctx = {.src = h->peer,
				      .dst = h->self,
				      .sport = sport,
				      .dport = ROCEMU_UDP_PORT,
				      .ip_id = h->ip_id,
				      .ip_frag = 0x4000};
	struct iovec iov = {.iov_base = h->payload, .iov_len = len};
	struct rocemu_dgram d = {.data = buf,
				 .src = h->peer,
				 .dst = h->self,
				 .sport = sport,
				 .dport = ROCEMU_UDP_PORT,
				 .tclass = (uint8_t)(0x20 | h->ecn),
				 .congested = h->congested,
				 .hop_limit = 61};
	enum rocemu_drop why;
	uint32_t icrc;
	size_t n;

	hdrs->pad = (uint8_t)pad;
	hdrs->migreq = true;
	hdrs->pkey = ROCEMU_PKEY_DEFAULT;
	hdrs->dqpn = h->dqpn ? h->dqpn : rocemu_qp_num(h->qp);
	hdrs->xrceth.srqn = h->srqn;
	n = rocemu_hdrs_encode(hdrs, buf);
	icrc = rocemu_icrc(&ctx, buf, n, &iov, 1, (const uint8_t[4]){0}, pad);
	memcpy(buf + n, h->payload, len);
	memset(buf + n + len, 0, pad);
	n += len + pad;
	for (unsigned i = 0; i < ROCEMU_ICRC_LEN; i++)
		buf[n++] = (uint8_t)(icrc >> 8 * i);
	d.len = (uint32_t)n;
	if (h->by_memory)
		write_on(&d, buf, n - len - pad - ROCEMU_ICRC_LEN);
	why = rocemu_ep_input(h->ep, h->now, &d);
	if (why)
		say(h, "drop %s", drop_names[why]);
}

void hostile_send(struct hostile *h, uint8_t opcode, uint32_t psn, uint32_t len)
{
	hostile_send_reth(h, opcode, psn, len, 0, len);
}

void hostile_send_reth(struct hostile *h, uint8_t opcode, uint32_t psn, uint32_t len, uint64_t off,
		       uint32_t total)
{
	struct rocemu_hdrs hdrs = {
		.opcode = opcode,
		.psn = psn,
		.ackreq = rocemu_opcode_ops(opcode) & ROCEMU_OP_LAST,
		.reth = {.va = (uintptr_t)h->mem + off, .rkey = h->rkey, .length = total},
		.deth = {.qkey = HOSTILE_QKEY, .sqpn = HOSTILE_QPN},
		.imm = 0x1020304,
		.ieth = 0x5060708,
	};

	hostile_send_hdrs(h, &hdrs, len);
}

void hostile_send_atomic(struct hostile *h, uint8_t opcode, uint32_t psn, uint64_t off,
			 uint64_t swap_add, uint64_t compare)
{
	struct rocemu_hdrs hdrs = {
		.opcode = opcode,
		.psn = psn,
		.ackreq = true,
		.atomiceth = {.va = (uintptr_t)h->mem + off,
			      .rkey = h->rkey,
			      .swap_add = swap_add,
			      .compare = compare},
	};

	hostile_send_hdrs(h, &hdrs, 0);
}

/* ---- what comes of them ---- */

static void say_aeth(struct hostile *h, const struct rocemu_hdrs *p)
{
	switch (p->aeth.syndrome & ROCEMU_AETH_CLASS_MASK) {
	case ROCEMU_AETH_ACK:
		assert_int_equal(p->aeth.syndrome, ROCEMU_AETH_NO_CREDITS);
		say(h, "ack %u/%u", p->psn, p->aeth.msn);
		break;
	case ROCEMU_AETH_RNR:
		say(h, "rnr %u %u/%u", p->aeth.syndrome & ROCEMU_AETH_VALUE_MASK, p->psn,
		    p->aeth.msn);
		break;
	default:
		say(h, "nak %x %u/%u", p->aeth.syndrome, p->psn, p->aeth.msn);
		break;
	}
}

static void say_packet(struct hostile *h, const struct rocemu_packet *p)
{
	static const char *const place[] = {"first", "middle", "last", "only"};
	unsigned opcode = p->h.opcode & 0x1f; /* the same in all services */

	assert_int_equal(p->h.dqpn, HOSTILE_QPN);
	if (p->h.opcode == ROCEMU_CNP) {
		say(h, "cnp");
		return;
	}
	assert_int_equal(rocemu_opcode_service(p->h.opcode),
			 h->xrcd ? ROCEMU_SVC_XRC : ROCEMU_SVC_RC);
	switch (opcode) {
	case ROCEMU_RC_ACK:
		say_aeth(h, &p->h);
		break;
	case ROCEMU_RC_ATOMIC_ACK:
		say(h, "atomic %u/%u =%llu", p->h.psn, p->h.aeth.msn,
		    (unsigned long long)p->h.atomicack);
		break;
	case ROCEMU_RC_READ_RESP_FIRST:
	case ROCEMU_RC_READ_RESP_MIDDLE:
	case ROCEMU_RC_READ_RESP_LAST:
	case ROCEMU_RC_READ_RESP_ONLY:
		say(h, "%s %u+%u", place[opcode - ROCEMU_RC_READ_RESP_FIRST], p->h.psn,
		    p->payload_len);
		break;
	default:
		say(h, "sent %s", rocemu_opcode_name(p->h.opcode));
		break;
	}
}

/* A descriptor is assembled as a sender would, and must be a valid packet. */
static void say_tx(struct hostile *h, struct rocemu_tx *tx)
{
	struct rocemu_icrc_ctx ctx = {.src = tx->path->sgid,
				      .dst = tx->path->dgid,
				      .sport = tx->path->sport,
				      .dport = ROCEMU_UDP_PORT,
				      .ip_frag = 0x4000};
	uint8_t buf[ROCEMU_MAX_PACKET];
	struct rocemu_packet p;
	size_t n = tx->hdr_len;

	rocemu_tx_seal(tx, 0);
	memcpy(buf, tx->hdr, tx->hdr_len);
	for (unsigned i = 0; i < tx->niov; i++) {
		memcpy(buf + n, tx->iov[i].iov_base, tx->iov[i].iov_len);
		n += tx->iov[i].iov_len;
	}
	memcpy(buf + n, tx->trailer, tx->trailer_len);
	n += tx->trailer_len;
	assert_int_equal(n, rocemu_tx_len(tx));
	assert_int_equal(rocemu_icrc_check(&ctx, true, buf, n), 0);
	assert_int_equal(rocemu_packet_decode(&p, buf, n), ROCEMU_DROP_NONE);
	memcpy(h->answer, p.payload, p.payload_len);
	say_packet(h, &p);
}

void hostile_output(struct hostile *h, unsigned n)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];

	n = rocemu_ep_output(h->ep, h->now, tx, n);
	for (unsigned i = 0; i < n; i++)
		say_tx(h, &tx[i]);
}

static const char *status_name(enum ibv_wc_status status)
{
	static const char *const names[] = {
#define N(name) [IBV_WC_##name] = #name
		N(LOC_LEN_ERR),	   N(LOC_QP_OP_ERR),  N(LOC_PROT_ERR),
		N(WR_FLUSH_ERR),   N(LOC_ACCESS_ERR), N(REM_INV_REQ_ERR),
		N(REM_ACCESS_ERR), N(REM_OP_ERR),     N(MW_BIND_ERR),
#undef N
	};

	assert_true((size_t)status < ARRAY_LEN(names) && names[status]);
	return names[status];
}

static const char *event_name(enum ibv_event_type type)
{
	static const char *const names[] = {
#define N(name) [IBV_EVENT_##name] = #name
		N(QP_FATAL), N(QP_REQ_ERR),	   N(QP_ACCESS_ERR),
		N(COMM_EST), N(SRQ_LIMIT_REACHED), N(QP_LAST_WQE_REACHED),
#undef N
	};

	assert_true((size_t)type < ARRAY_LEN(names) && names[type]);
	return names[type];
}

static void say_cqe(struct hostile *h, const struct rocemu_cqe *c)
{
	char text[128] = "";
	size_t n = 0;

	const char *what = c->opcode == IBV_WC_BIND_MW	   ? "bind"
			   : c->opcode == IBV_WC_LOCAL_INV ? "inval"
							   : "recv";

	assert_int_equal(c->qpn, rocemu_qp_num(h->qp));
	if (c->status != IBV_WC_SUCCESS) {
		say(h, "%s %llu %s", what, (unsigned long long)c->wr_id, status_name(c->status));
		return;
	}
	if (c->opcode == IBV_WC_BIND_MW || c->opcode == IBV_WC_LOCAL_INV) {
		say(h, "%s %llu", what, (unsigned long long)c->wr_id);
		return;
	}
	if (c->wc_flags & IBV_WC_WITH_INV) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, " inv");
		h->invalidated = c->imm;
	}
	if (c->wc_flags & IBV_WC_WITH_IMM)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " imm %x", c->imm);
	if (c->wc_flags & IBV_WC_GRH)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " grh from %x", c->src_qp);
	if (c->solicited)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " sol");
	if (c->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		snprintf(text + n, sizeof(text) - n, " write");
	say(h, "recv %llu len %u%s", (unsigned long long)c->wr_id, c->byte_len, text);
}

const char *hostile_effects(struct hostile *h)
{
	struct rocemu_event ev;
	struct rocemu_cqe cqe;

	while (rocemu_ep_has_output(h->ep))
		hostile_output(h, ROCEMU_OUTPUT_BATCH);
	while (rocemu_cq_poll(h->cq, &cqe, 1))
		say_cqe(h, &cqe);
	while (rocemu_ep_next_event(h->ep, &ev))
		say(h, "event %s", event_name(ev.async));
	if (rocemu_qp_state(h->qp) == IBV_QPS_ERR && !h->told_err) {
		h->told_err = true;
		say(h, "ERR");
	}
	memcpy(h->text, h->log, sizeof(h->text));
	h->log[0] = 0;
	return h->text;
}
