/* SPDX-License-Identifier: BSD-2-Clause */
#include "req-bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/peer.h"
#include "transport/qp.h"

static const struct rocemu_gid self = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
static const struct rocemu_gid peer = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 2}};

struct rocemu_qp *bench_qp(struct bench *b, const struct bench_opts *o)
{
	struct rocemu_qp_init init = {
		.pd = b->pd,
		.send_cq = b->cq,
		.recv_cq = b->cq,
		.type = o->type ? o->type : IBV_QPT_RC,
		.sq_sig_all = !o->sig_none,
		.cap = {.max_send_wr = 64,
			.max_recv_wr = 4,
			.max_send_sge = 4,
			.max_inline_data = 64},
	};
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = o->mtu ? o->mtu : IBV_MTU_256,
		.dest_qp_num = BENCH_QPN,
		.sq_psn = BENCH_PSN,
		.qkey = 0x1234,
		.timeout = o->timeout ? o->timeout : 1,
		.retry_cnt = o->retry_cnt ? o->retry_cnt : 2,
		.rnr_retry = o->rnr_retry ? o->rnr_retry : 2,
		.max_rd_atomic = o->no_rd_atomic ? 0
				 : o->rd_atomic	 ? o->rd_atomic
						 : 2,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
	int conn = init.type != IBV_QPT_UD, rc = init.type == IBV_QPT_RC;
	struct rocemu_qp *qp;

	memcpy(a.ah_attr.grh.dgid.raw, peer.raw, 16);
	assert_int_equal(rocemu_qp_create(b->ep, &init, &qp), 0);
	assert_int_equal(rocemu_qp_modify(qp, b->now, &a,
					  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  (conn ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY)),
			 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(
		rocemu_qp_modify(
			qp, b->now, &a,
			IBV_QP_STATE |
				(conn ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
						 IBV_QP_RQ_PSN
				      : 0) |
				(rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
		0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(
		rocemu_qp_modify(qp, b->now, &a,
				 IBV_QP_STATE | IBV_QP_SQ_PSN |
					 (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
							  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
					     : 0)),
		0);
	return qp;
}

/* The last one that was freed: some tests make ten thousand in turn. */
static struct bench *spare;

/* Zeroes, and the pattern in buf. */
static struct bench *take_bench(void)
{
	static uint8_t pattern[BENCH_BUF];
	struct bench *b = spare ? spare : malloc(sizeof(*b));

	assert_non_null(b);
	spare = NULL;
	if (!pattern[1])
		for (uint32_t i = 0; i < BENCH_BUF; i++)
			pattern[i] = (uint8_t)(i * 7 + (i >> 8));
	memset(b, 0, offsetof(struct bench, buf));
	memcpy(b->buf, pattern, BENCH_BUF);
	return b;
}

struct bench *bench_new(const struct bench_opts *o)
{
	struct rocemu_ep_config cfg = {
		.seed = 1, .window_bytes = o->window, .time_scale = o->time_scale};
	struct bench *b = take_bench();

	b->now = 1000;
	b->batch = ROCEMU_OUTPUT_BATCH;
	b->ep = rocemu_ep_new(&cfg);
	assert_non_null(b->ep);
	assert_int_equal(rocemu_ep_set_slot(b->ep, 1, 0), 0);
	assert_int_equal(rocemu_ep_set_gid(b->ep, 0, &self), 0);
	b->pd = rocemu_pd_new(b->ep);
	assert_non_null(b->pd);
	assert_int_equal(rocemu_cq_create(b->ep, 1024, NULL, &b->cq), 0);
	assert_int_equal(rocemu_mr_reg(b->pd, b->buf, BENCH_BUF, 0, IBV_ACCESS_LOCAL_WRITE, &b->mr),
			 0);
	b->qp = bench_qp(b, o);
	/* As after slow start. */
	if (b->qp->req.peer)
		b->qp->req.peer->cc.cwnd = cc_max(&b->qp->req.peer->cc);
	return b;
}

void bench_free(struct bench *b)
{
	rocemu_ep_free(b->ep);
	free(spare);
	spare = b;
}

struct ibv_send_wr bench_wr(struct bench *b, enum ibv_wr_opcode op, uint32_t off, uint32_t len,
			    struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {.wr_id = ++b->next_wr, .opcode = op, .sg_list = sge, .num_sge = 1};

	*sge = (struct ibv_sge){.addr = off, .length = len, .lkey = rocemu_mr_lkey(b->mr)};
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = 0x1000;
		wr.wr.atomic.rkey = BENCH_RKEY;
		wr.wr.atomic.compare_add = 0x11;
		wr.wr.atomic.swap = 0x22;
	} else {
		wr.wr.rdma.remote_addr = 0x1000;
		wr.wr.rdma.rkey = BENCH_RKEY;
	}
	return wr;
}

void bench_post_wr(struct bench *b, const struct ibv_send_wr *wr)
{
	assert_int_equal(rocemu_qp_post_send(b->qp, b->now, wr, NULL), 0);
}

void bench_post(struct bench *b, enum ibv_wr_opcode op, uint32_t len)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = bench_wr(b, op, 0, len, &sge);

	bench_post_wr(b, &wr);
}

static void append(char *to, size_t size, const char *text)
{
	size_t used = strlen(to);

	assert_true(used + strlen(text) + 3 < size);
	snprintf(to + used, size - used, "%s%s", used ? "; " : "", text);
}

static void flatten(struct rocemu_tx *t, uint8_t *to)
{
	rocemu_tx_seal(t, 0);
	memcpy(to, t->hdr, t->hdr_len);
	to += t->hdr_len;
	for (unsigned i = 0; i < t->niov; i++) {
		memcpy(to, t->iov[i].iov_base, t->iov[i].iov_len);
		to += t->iov[i].iov_len;
	}
	memcpy(to, t->trailer, t->trailer_len);
}

static void note(struct bench *b, struct rocemu_tx *t)
{
	uint8_t raw[ROCEMU_MAX_PACKET];
	struct rocemu_packet p;
	char text[96], bytes[16] = "";

	assert_true(rocemu_tx_len(t) <= sizeof(raw));
	flatten(t, raw);
	assert_int_equal(rocemu_packet_decode(&p, raw, rocemu_tx_len(t)), ROCEMU_DROP_NONE);
	if (p.h.opcode == ROCEMU_CNP) {
		append(b->out, sizeof(b->out), "CNP");
		return;
	}
	assert_true(p.h.migreq);
	assert_int_equal(p.h.pkey, 0xffff);
	if (p.h.opcode == ROCEMU_RC_READ_REQUEST)
		snprintf(bytes, sizeof(bytes), "+%u", p.h.reth.length);
	snprintf(text, sizeof(text), "%s %u%s%s%s", strchr(rocemu_opcode_name(p.h.opcode), '_') + 1,
		 (p.h.psn - BENCH_PSN) & ROCEMU_PSN_MASK, bytes, p.h.ackreq ? " A" : "",
		 p.h.se ? " S" : "");
	append(b->out, sizeof(b->out), text);
	b->last = *t;
}

const char *bench_out(struct bench *b)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];

	b->out[0] = '\0';
	while (rocemu_ep_has_output(b->ep)) {
		unsigned n = rocemu_ep_output(b->ep, b->now, tx, b->batch);

		for (unsigned i = 0; i < n; i++)
			note(b, &tx[i]);
	}
	return b->out;
}

static const char *status_text(enum ibv_wc_status s)
{
	/* clang-format off */
	switch (s) {
	case IBV_WC_SUCCESS:           return "OK";
	case IBV_WC_LOC_LEN_ERR:       return "LOC_LEN";
	case IBV_WC_LOC_QP_OP_ERR:     return "LOC_QP_OP";
	case IBV_WC_LOC_PROT_ERR:      return "LOC_PROT";
	case IBV_WC_WR_FLUSH_ERR:      return "FLUSH";
	case IBV_WC_MW_BIND_ERR:       return "MW_BIND";
	case IBV_WC_BAD_RESP_ERR:      return "BAD_RESP";
	case IBV_WC_REM_INV_REQ_ERR:   return "REM_INV_REQ";
	case IBV_WC_REM_ACCESS_ERR:    return "REM_ACCESS";
	case IBV_WC_REM_OP_ERR:        return "REM_OP";
	case IBV_WC_RETRY_EXC_ERR:     return "RETRY_EXC";
	case IBV_WC_RNR_RETRY_EXC_ERR: return "RNR_RETRY_EXC";
	default:                       return "?";
	}
	/* clang-format on */
}

const char *bench_done(struct bench *b)
{
	struct rocemu_cqe c;

	b->done[0] = '\0';
	while (rocemu_cq_poll(b->cq, &c, 1)) {
		char text[48];

		snprintf(text, sizeof(text), "%u %s", (unsigned)c.wr_id, status_text(c.status));
		append(b->done, sizeof(b->done), text);
	}
	return b->done;
}

static enum rocemu_drop input(struct bench *b, const struct rocemu_hdrs *h, const void *payload,
			      uint32_t len)
{
	uint16_t own = b->qp->path.sport ? b->qp->path.sport : 0xc123;
	struct rocemu_path path = {.sgid = peer, .dgid = self, .sport = b->sport ? b->sport : own};
	struct rocemu_tx t = {.path = &path, .payload_len = len, .niov = len != 0};
	uint8_t raw[2 * ROCEMU_MAX_PACKET];
	uint8_t copy[ROCEMU_MAX_PACKET];
	struct rocemu_dgram d = {
		.data = raw,
		.dst = self,
		.sport = path.sport,
		.dport = ROCEMU_UDP_PORT,
		.tclass = b->ecn,
		.congested = b->congested,
		.ip_id_known = true,
	};

	assert_true(len <= sizeof(copy));
	if (b->stranger)
		path.sgid.raw[15] ^= 1;
	d.src = path.sgid;
	if (len)
		memcpy(copy, payload, len);
	t.iov[0] = (struct iovec){copy, len};
	t.hdr_len = (uint8_t)rocemu_hdrs_encode(h, t.hdr);
	t.trailer_len = (uint8_t)(h->pad + ROCEMU_ICRC_LEN);
	flatten(&t, raw);
	d.len = rocemu_tx_len(&t);
	return rocemu_ep_input(b->ep, b->now, &d);
}

enum rocemu_drop bench_answer(struct bench *b, enum rocemu_opcode op, int32_t psn, uint8_t syndrome,
			      const void *payload, uint32_t len)
{
	struct rocemu_hdrs h = {
		.opcode = (uint8_t)op,
		.migreq = true,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.dqpn = rocemu_qp_num(b->qp),
		.psn = (uint32_t)(BENCH_PSN + psn) & ROCEMU_PSN_MASK,
		.pad = (uint8_t)(-len & 3),
		.aeth = {.syndrome = syndrome},
		.ackreq = op == ROCEMU_RC_SEND_ONLY,
		.atomicack = 0x1122334455667788,
	};

	return input(b, &h, payload, len);
}

enum rocemu_drop bench_ack(struct bench *b, int32_t psn)
{
	return bench_answer(b, ROCEMU_RC_ACK, psn, ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS, NULL,
			    0);
}

enum rocemu_drop bench_nak(struct bench *b, int32_t psn, uint8_t syndrome)
{
	return bench_answer(b, ROCEMU_RC_ACK, psn, syndrome, NULL, 0);
}

enum rocemu_drop bench_read_resp(struct bench *b, enum rocemu_opcode op, int32_t psn, uint8_t fill,
				 uint32_t len)
{
	uint8_t bytes[ROCEMU_MAX_MTU];

	memset(bytes, fill, len);
	return bench_answer(b, op, psn, ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS, bytes, len);
}

void bench_wait(struct bench *b, rocemu_ns_t ns)
{
	b->now += ns;
	rocemu_ep_expire(b->ep, b->now);
}
