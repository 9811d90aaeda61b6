/* SPDX-License-Identifier: BSD-2-Clause */
/* Single requests that fail (IBTA 9.9.2 and 9.9.3). Where IBTA leaves a choice, or adapters differ,
 * the states are rocemu's. */
#include <stddef.h>

#include "error-rows.h"

/* The states of requester and responder afterwards. */
#define REFUSED	  .state = {IBV_QPS_ERR, IBV_QPS_ERR} /* by a NAK */
#define LOCAL	  .state = {IBV_QPS_ERR, IBV_QPS_RTS} /* the requester cannot execute it */
#define LOCAL_SQE .state = {IBV_QPS_SQE, IBV_QPS_RTS} /* the same, nothing is acknowledged */
#define UNHEARD	  .state = {IBV_QPS_RTS, IBV_QPS_RTS} /* the sender is not notified */

#define RC    .type = IBV_QPT_RC
#define UC    .type = IBV_QPT_UC
#define UD    .type = IBV_QPT_UD
#define WRITE .opcode = IBV_WR_RDMA_WRITE
#define READ  .opcode = IBV_WR_RDMA_READ
#define SEND  .opcode = IBV_WR_SEND
#define IMM   .opcode = IBV_WR_RDMA_WRITE_WITH_IMM
#define FAA   .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD
#define CAS   .opcode = IBV_WR_ATOMIC_CMP_AND_SWP

/* clang-format off */
const struct err_row err_rows[] = {
	/* ---- the responder's key, bounds, rights: remote access error (class C) ---- */
	{"rc/write/unknown-rkey", RC, WRITE, .len = 100, .fault = FAULT_RKEY, REFUSED},
	{"rc/write/unknown-rkey-long", RC, WRITE, .len = 5000, .fault = FAULT_RKEY, REFUSED},
	{"rc/write-imm/unknown-rkey", RC, IMM, .len = 100, .fault = FAULT_RKEY,
	 .with_recv = true, .recv_len = 100, REFUSED},
	{"rc/read/unknown-rkey", RC, READ, .len = 100, .fault = FAULT_RKEY, REFUSED},
	{"rc/write/empty-unknown-rkey", RC, WRITE, .len = 0, .fault = FAULT_RKEY, UNHEARD},
	{"rc/read/empty-unknown-rkey", RC, READ, .len = 0, .fault = FAULT_RKEY, UNHEARD},
	{"rc/fetch-add/unknown-rkey", RC, FAA, .len = 8, .fault = FAULT_RKEY, REFUSED},
	{"rc/cmp-swap/unknown-rkey", RC, CAS, .len = 8, .fault = FAULT_RKEY, REFUSED},
	{"rc/write/past-region", RC, WRITE, .len = 100, .fault = FAULT_REMOTE_BOUNDS, REFUSED},
	{"rc/read/past-region", RC, READ, .len = 100, .fault = FAULT_REMOTE_BOUNDS, REFUSED},
	{"rc/fetch-add/past-region", RC, FAA, .len = 8, .fault = FAULT_REMOTE_BOUNDS, REFUSED},
	{"rc/write/before-region", RC, WRITE, .len = 100, .fault = FAULT_REMOTE_BEFORE, REFUSED},
	{"rc/write/address-wraps", RC, WRITE, .len = 100, .fault = FAULT_REMOTE_WRAPS, REFUSED},
	{"rc/write/region-right", RC, WRITE, .len = 100, .fault = FAULT_REGION_RIGHT, REFUSED},
	{"rc/read/region-right", RC, READ, .len = 100, .fault = FAULT_REGION_RIGHT, REFUSED},
	{"rc/fetch-add/region-right", RC, FAA, .len = 8, .fault = FAULT_REGION_RIGHT, REFUSED},
	{"rc/write/region-pd", RC, WRITE, .len = 100, .fault = FAULT_REGION_PD, REFUSED},
	{"rc/write/region-gone", RC, WRITE, .len = 100, .fault = FAULT_REGION_GONE, REFUSED},
	{"rc/read/region-gone", RC, READ, .len = 100, .fault = FAULT_REGION_GONE, REFUSED},
	{"rc/send-inv/unknown-rkey", RC, .opcode = IBV_WR_SEND_WITH_INV, .len = 100, .fault = FAULT_RKEY,
	 .config.retry_cnt = 6, /* with 7 rxe tries without limit */
	 .with_recv = true, .recv_len = 100, /* class J: no answer */
	 .state = {IBV_QPS_ERR, IBV_QPS_ERR}},

	/* ---- what the QP does not allow, or cannot be: invalid request (class C) ---- */
	{"rc/write/qp-right", RC, WRITE, .len = 100, .config.access = IBV_ACCESS_REMOTE_READ, REFUSED},
	{"rc/write/qp-no-right", RC, WRITE, .len = 100, .config.access = IBV_ACCESS_LOCAL_WRITE, REFUSED},
	{"rc/read/qp-right", RC, READ, .len = 100, .config.access = IBV_ACCESS_REMOTE_WRITE, REFUSED},
	{"rc/fetch-add/qp-right", RC, FAA, .len = 8, .config.access = IBV_ACCESS_REMOTE_WRITE, REFUSED},
	{"rc/fetch-add/unaligned", RC, FAA, .len = 8, .fault = FAULT_UNALIGNED, REFUSED},
	{"rc/cmp-swap/unaligned", RC, CAS, .len = 8, .fault = FAULT_UNALIGNED, REFUSED},
	{"rc/send/too-long", RC, SEND, .len = 100, .with_recv = true, .recv_len = 99,
	 REFUSED},
	{"rc/send/too-long-for-empty", RC, SEND, .len = 1, .with_recv = true,
	 REFUSED},
	{"rc/send/too-long-in-middle", RC, SEND, .len = 5000, .with_recv = true, .recv_len = 3000,
	 REFUSED},

	/* ---- the responder's own fault: remote operation error (class A) ---- */
	{"rc/send/receive-lkey", RC, SEND, .len = 100, .with_recv = true, .recv_len = 100, .recv_lkey_bad = true,
	 REFUSED},

	/* ---- no receive ---- */
	{"rc/send/no-receive", RC, SEND, .len = 100, .config.rnr_retry = 1,
	 .state = {IBV_QPS_ERR, IBV_QPS_RTS}},
	{"rc/write-imm/no-receive", RC, IMM, .len = 100, .config.rnr_retry = 1,
	 .state = {IBV_QPS_ERR, IBV_QPS_RTS}},

	/* ---- the requester's own fault ---- */
	{"rc/send/lkey", RC, SEND, .len = 100, .fault = FAULT_LKEY, LOCAL},
	{"rc/write/lkey", RC, WRITE, .len = 100, .fault = FAULT_LKEY, LOCAL},
	{"rc/read/lkey", RC, READ, .len = 100, .fault = FAULT_LKEY, LOCAL},
	{"rc/write/local-bounds", RC, WRITE, .len = 5000, .fault = FAULT_LOCAL_BOUNDS, LOCAL},
	{"rc/read/local-right", RC, READ, .len = 100, .fault = FAULT_LOCAL_RIGHT, LOCAL},
	{"rc/fetch-add/local-right", RC, FAA, .len = 8, .fault = FAULT_LOCAL_RIGHT, LOCAL},
	{"rc/read/no-rd-atomic", RC, READ, .len = 100, .config.no_rd_atomic = true, LOCAL},
	{"rc/local-inv/unknown-rkey", RC, .opcode = IBV_WR_LOCAL_INV, .len = 0, .fault = FAULT_RKEY, LOCAL},

	/* ---- UC: the receiver's troubles are its own ---- */
	{"uc/send/lkey", UC, SEND, .len = 100, .fault = FAULT_LKEY, LOCAL_SQE},
	{"uc/write/lkey", UC, WRITE, .len = 100, .fault = FAULT_LKEY, LOCAL_SQE},
	{"uc/write/unknown-rkey", UC, WRITE, .len = 100, .fault = FAULT_RKEY, UNHEARD},
	{"uc/write/qp-right", UC, WRITE, .len = 100, .config.access = IBV_ACCESS_LOCAL_WRITE, UNHEARD},
	{"uc/send/no-receive", UC, SEND, .len = 100, UNHEARD},
	{"uc/send/too-long", UC, SEND, .len = 100, .with_recv = true, .recv_len = 99,
	 UNHEARD},
	{"uc/send/receive-lkey", UC, SEND, .len = 100, .with_recv = true, .recv_len = 100, .recv_lkey_bad = true,
	 .state = {IBV_QPS_RTS, IBV_QPS_ERR}},
	{"uc/read", UC, READ, .len = 100, LOCAL_SQE},
	{"uc/fetch-add", UC, FAA, .len = 8, LOCAL_SQE},
	{"uc/send-inv", UC, .opcode = IBV_WR_SEND_WITH_INV, .len = 100, LOCAL_SQE},

	/* ---- UD ---- */
	{"ud/send/lkey", UD, SEND, .len = 100, .fault = FAULT_LKEY, LOCAL_SQE},
	{"ud/send/qkey", UD, SEND, .len = 100, .fault = FAULT_QKEY, UNHEARD},
	{"ud/send/no-such-qp", UD, SEND, .len = 100, .fault = FAULT_QPN, UNHEARD},
	{"ud/send/no-receive", UD, SEND, .len = 100, UNHEARD},
	{"ud/send/too-long", UD, SEND, .len = 100, .with_recv = true, .recv_len = 139,
	 UNHEARD},
	{"ud/send/too-long-for-grh", UD, SEND, .len = 1, .with_recv = true, .recv_len = 40,
	 UNHEARD},
	{"ud/send/receive-lkey", UD, SEND, .len = 100, .with_recv = true, .recv_len = 140, .recv_lkey_bad = true,
	 .state = {IBV_QPS_RTS, IBV_QPS_ERR}},
	{"ud/send/longer-than-mtu", UD, SEND, .len = 4097, LOCAL_SQE},
	{"ud/write", UD, WRITE, .len = 100, LOCAL_SQE},
	{"ud/read", UD, READ, .len = 100, LOCAL_SQE},

	/* ---- refused when posted ---- */
	{"rc/fetch-add/length", RC, FAA, .len = 4},
	{"rc/send/inline-too-long", RC, SEND, .len = 4096, .flags = IBV_SEND_INLINE},
	{"rc/read/inline", RC, READ, .len = 8, .flags = IBV_SEND_INLINE},
	{"rc/unknown-opcode", RC, .opcode = (enum ibv_wr_opcode)99, .len = 8},
};
/* clang-format on */
const unsigned err_nrows = sizeof(err_rows) / sizeof(err_rows[0]);

/* ---- the request of a row ---- */

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

bool err_row_region(const struct err_row *row, enum err_end *end, unsigned *access)
{
	const unsigned all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	*end = row->fault == FAULT_LOCAL_RIGHT ? REQ : RSP;
	switch (row->fault) {
	case FAULT_LOCAL_RIGHT:
		*access = 0;
		return true;
	case FAULT_REGION_RIGHT:
		/* Without any remote right rxe's region would have no R_Key at all. */
		*access = all &
			  ~(unsigned)(is_atomic(row->opcode)		? IBV_ACCESS_REMOTE_ATOMIC
				      : row->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
									: IBV_ACCESS_REMOTE_WRITE);
		return true;
	case FAULT_REGION_PD:
	case FAULT_REGION_GONE:
		*access = all;
		return true;
	default:
		return false;
	}
}

/** The remote address that the request names. */
static uint64_t remote_address(const struct err_row *row, const struct err_region *remote)
{
	switch (row->fault) {
	case FAULT_REMOTE_BOUNDS:
		return remote->addr + remote->len - row->len + (is_atomic(row->opcode) ? 8 : 1);
	case FAULT_REMOTE_BEFORE:
		return remote->addr - 8;
	case FAULT_REMOTE_WRAPS:
		return UINT64_MAX - 7;
	case FAULT_UNALIGNED:
		return remote->addr + 4;
	default:
		return remote->addr;
	}
}

struct ibv_send_wr err_row_wr(const struct err_row *row, const struct err_region *local,
			      const struct err_region *remote, uint32_t qpn, struct ibv_sge *sge)
{
	const uint32_t rkey = row->fault == FAULT_RKEY ? ERR_NO_KEY : remote->rkey;
	struct ibv_send_wr wr = {
		.wr_id = WR_FIRST,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = row->opcode,
		.send_flags = IBV_SEND_SIGNALED | row->flags,
	};

	*sge = (struct ibv_sge){.addr = local->addr, .length = row->len, .lkey = local->lkey};
	if (row->fault == FAULT_LKEY)
		sge->lkey = ERR_NO_KEY;
	if (row->fault == FAULT_LOCAL_BOUNDS)
		sge->addr += local->len - row->len + 1;
	if (is_atomic(row->opcode)) {
		wr.wr.atomic.remote_addr = remote_address(row, remote);
		wr.wr.atomic.rkey = rkey;
	} else if (row->opcode == IBV_WR_SEND) {
		/* UD; other services do not look there. */
		wr.wr.ud.remote_qpn = row->fault == FAULT_QPN ? qpn ^ 0x3000 : qpn;
		wr.wr.ud.remote_qkey = row->fault == FAULT_QKEY ? ERR_QKEY ^ 0x01010101 : ERR_QKEY;
	} else if (row->opcode == IBV_WR_SEND_WITH_INV || row->opcode == IBV_WR_LOCAL_INV) {
		wr.invalidate_rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = remote_address(row, remote);
		wr.wr.rdma.rkey = rkey;
	}
	return wr;
}
