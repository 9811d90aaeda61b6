/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The errors table: single requests that fail. The expected results are the standard's (IBTA 9.9.2
 * and 9.9.3 for the classes of errors, 11.6.2 for statuses, 11.6.3 for events); where it leaves a
 * choice, or adapters differ, the row has rocemu's behaviour.
 */
#include <errno.h>
#include <stddef.h>

#include "error-rows.h"

#define EVENT(name) (1u << IBV_EVENT_##name)

/* The responder refuses with a NAK, both QPs are in error and flush. */
#define REFUSED(status, syndrome, receive, event)                              \
	{                                                                      \
		.first = IBV_WC_##status, .behind = IBV_WC_WR_FLUSH_ERR,       \
		.recv_req = IBV_WC_WR_FLUSH_ERR, .recv = receive,              \
		.recv_behind = IBV_WC_WR_FLUSH_ERR, .nak = ERR_NAK_##syndrome, \
		.state = {IBV_QPS_ERR, IBV_QPS_ERR}, .events = {0, event},     \
	}
#define REFUSED_ACCESS	REFUSED(REM_ACCESS_ERR, REM_ACCESS, ERR_NONE, EVENT(QP_ACCESS_ERR))
#define REFUSED_REQUEST REFUSED(REM_INV_REQ_ERR, INV_REQ, ERR_NONE, EVENT(QP_REQ_ERR))

/* The requester itself cannot execute it; the responder sees nothing. */
#define LOCAL(status)                                                                       \
	{                                                                                   \
		.first = IBV_WC_##status, .behind = IBV_WC_WR_FLUSH_ERR,                    \
		.recv_req = IBV_WC_WR_FLUSH_ERR, .recv = ERR_NONE, .recv_behind = ERR_NONE, \
		.state = {IBV_QPS_ERR, IBV_QPS_RTS},                                        \
	}
/* The same where nothing is acknowledged: the send queue stops, the receive queue does not. */
#define LOCAL_SQE(status)                                                                       \
	{                                                                                       \
		.first = IBV_WC_##status, .behind = IBV_WC_WR_FLUSH_ERR, .recv_req = ERR_NONE,  \
		.recv = ERR_NONE, .recv_behind = ERR_NONE, .state = {IBV_QPS_SQE, IBV_QPS_RTS}, \
	}

/* The sender is not notified. */
#define UNHEARD(receive, receive_behind)                                                 \
	{                                                                                \
		.first = IBV_WC_SUCCESS, .behind = IBV_WC_SUCCESS, .recv_req = ERR_NONE, \
		.recv = receive, .recv_behind = receive_behind,                          \
		.state = {IBV_QPS_RTS, IBV_QPS_RTS},                                     \
	}

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
	{"rc/write/unknown-rkey", "WRITE, R_Key unknown", RC, WRITE, .len = 100, .fault = FAULT_RKEY, .want = REFUSED_ACCESS},
	{"rc/write/unknown-rkey-long", "WRITE of several packets, R_Key unknown", RC, WRITE, .len = 5000, .fault = FAULT_RKEY, .want = REFUSED_ACCESS},
	{"rc/write-imm/unknown-rkey", "WRITE with immediate, R_Key unknown", RC, IMM, .len = 100, .fault = FAULT_RKEY,
	 .with_recv = true, .recv_len = 100, .want = REFUSED(REM_ACCESS_ERR, REM_ACCESS, IBV_WC_LOC_ACCESS_ERR, 0)},
	{"rc/read/unknown-rkey", "READ, R_Key unknown", RC, READ, .len = 100, .fault = FAULT_RKEY, .want = REFUSED_ACCESS},
	{"rc/write/empty-unknown-rkey", "WRITE of 0 bytes, R_Key unknown: not checked", RC, WRITE, .len = 0, .fault = FAULT_RKEY, .want = UNHEARD(ERR_NONE, IBV_WC_SUCCESS)},
	{"rc/read/empty-unknown-rkey", "READ of 0 bytes, R_Key unknown: not checked", RC, READ, .len = 0, .fault = FAULT_RKEY, .want = UNHEARD(ERR_NONE, IBV_WC_SUCCESS)},
	{"rc/fetch-add/unknown-rkey", "FetchAdd, R_Key unknown", RC, FAA, .len = 8, .fault = FAULT_RKEY, .want = REFUSED_ACCESS},
	{"rc/cmp-swap/unknown-rkey", "CmpSwap, R_Key unknown", RC, CAS, .len = 8, .fault = FAULT_RKEY, .want = REFUSED_ACCESS},
	{"rc/write/past-region", "WRITE beyond the region's end", RC, WRITE, .len = 100, .fault = FAULT_REMOTE_BOUNDS, .want = REFUSED_ACCESS},
	{"rc/read/past-region", "READ beyond the region's end", RC, READ, .len = 100, .fault = FAULT_REMOTE_BOUNDS, .want = REFUSED_ACCESS},
	{"rc/fetch-add/past-region", "FetchAdd beyond the region's end", RC, FAA, .len = 8, .fault = FAULT_REMOTE_BOUNDS, .want = REFUSED_ACCESS},
	{"rc/write/before-region", "WRITE before the region's start", RC, WRITE, .len = 100, .fault = FAULT_REMOTE_BEFORE, .want = REFUSED_ACCESS},
	{"rc/write/address-wraps", "WRITE whose addresses wrap around", RC, WRITE, .len = 100, .fault = FAULT_REMOTE_WRAPS, .want = REFUSED_ACCESS},
	{"rc/write/region-right", "WRITE to a region without remote write", RC, WRITE, .len = 100, .fault = FAULT_REGION_RIGHT, .want = REFUSED_ACCESS},
	{"rc/read/region-right", "READ of a region without remote read", RC, READ, .len = 100, .fault = FAULT_REGION_RIGHT, .want = REFUSED_ACCESS},
	{"rc/fetch-add/region-right", "FetchAdd on a region without remote atomic", RC, FAA, .len = 8, .fault = FAULT_REGION_RIGHT, .want = REFUSED_ACCESS},
	{"rc/write/region-pd", "WRITE to a region of another protection domain", RC, WRITE, .len = 100, .fault = FAULT_REGION_PD, .want = REFUSED_ACCESS},
	{"rc/write/region-gone", "WRITE to a deregistered region", RC, WRITE, .len = 100, .fault = FAULT_REGION_GONE, .want = REFUSED_ACCESS},
	{"rc/read/region-gone", "READ of a deregistered region", RC, READ, .len = 100, .fault = FAULT_REGION_GONE, .want = REFUSED_ACCESS},
	{"rc/send-inv/unknown-rkey", "SEND with invalidate of an unknown key", RC, .opcode = IBV_WR_SEND_WITH_INV, .len = 100, .fault = FAULT_RKEY,
	 .config.retry_cnt = 6, /* with 7 rxe tries without limit */
	 .with_recv = true, .recv_len = 100, /* class J: no answer */
	 .want = {.first = IBV_WC_RETRY_EXC_ERR, .behind = IBV_WC_WR_FLUSH_ERR, .recv_req = IBV_WC_WR_FLUSH_ERR, .recv = IBV_WC_MW_BIND_ERR,
		  .recv_behind = IBV_WC_WR_FLUSH_ERR, .state = {IBV_QPS_ERR, IBV_QPS_ERR}}},

	/* ---- what the QP does not allow, or cannot be: invalid request (class C) ---- */
	{"rc/write/qp-right", "WRITE to a QP without remote write", RC, WRITE, .len = 100, .config.access = IBV_ACCESS_REMOTE_READ, .want = REFUSED_REQUEST},
	{"rc/write/qp-no-right", "WRITE to a QP without any remote right", RC, WRITE, .len = 100, .config.access = IBV_ACCESS_LOCAL_WRITE, .want = REFUSED_REQUEST},
	{"rc/read/qp-right", "READ from a QP without remote read", RC, READ, .len = 100, .config.access = IBV_ACCESS_REMOTE_WRITE, .want = REFUSED_REQUEST},
	{"rc/fetch-add/qp-right", "FetchAdd to a QP without remote atomic", RC, FAA, .len = 8, .config.access = IBV_ACCESS_REMOTE_WRITE, .want = REFUSED_REQUEST},
	{"rc/fetch-add/unaligned", "FetchAdd of an unaligned word", RC, FAA, .len = 8, .fault = FAULT_UNALIGNED, .want = REFUSED_REQUEST},
	{"rc/cmp-swap/unaligned", "CmpSwap of an unaligned word", RC, CAS, .len = 8, .fault = FAULT_UNALIGNED, .want = REFUSED_REQUEST},
	{"rc/send/too-long", "SEND longer than its receive", RC, SEND, .len = 100, .with_recv = true, .recv_len = 99,
	 .want = REFUSED(REM_INV_REQ_ERR, INV_REQ, IBV_WC_LOC_LEN_ERR, 0)},
	{"rc/send/too-long-for-empty", "SEND into a receive of 0 bytes", RC, SEND, .len = 1, .with_recv = true,
	 .want = REFUSED(REM_INV_REQ_ERR, INV_REQ, IBV_WC_LOC_LEN_ERR, 0)},
	{"rc/send/too-long-in-middle", "SEND that outgrows its receive in its third packet", RC, SEND, .len = 5000, .with_recv = true, .recv_len = 3000,
	 .want = REFUSED(REM_INV_REQ_ERR, INV_REQ, IBV_WC_LOC_LEN_ERR, 0)},

	/* ---- the responder's own fault: remote operation error (class A) ---- */
	{"rc/send/receive-lkey", "SEND into a receive whose L_Key is unknown", RC, SEND, .len = 100, .with_recv = true, .recv_len = 100, .recv_lkey_bad = true,
	 .want = REFUSED(REM_OP_ERR, REM_OP, IBV_WC_LOC_PROT_ERR, 0)},

	/* ---- no receive ---- */
	{"rc/send/no-receive", "SEND, no receive is posted, RNR retries exceeded", RC, SEND, .len = 100, .config.rnr_retry = 1, .no_recv_behind = true,
	 .want = {.first = IBV_WC_RNR_RETRY_EXC_ERR, .behind = IBV_WC_WR_FLUSH_ERR, .recv_req = IBV_WC_WR_FLUSH_ERR, .recv = ERR_NONE,
		  .recv_behind = ERR_NONE, .nak = ERR_NAK_RNR | 1, .state = {IBV_QPS_ERR, IBV_QPS_RTS}}},
	{"rc/write-imm/no-receive", "WRITE with immediate, no receive is posted", RC, IMM, .len = 100, .config.rnr_retry = 1, .no_recv_behind = true,
	 .want = {.first = IBV_WC_RNR_RETRY_EXC_ERR, .behind = IBV_WC_WR_FLUSH_ERR, .recv_req = IBV_WC_WR_FLUSH_ERR, .recv = ERR_NONE,
		  .recv_behind = ERR_NONE, .nak = ERR_NAK_RNR | 1, .state = {IBV_QPS_ERR, IBV_QPS_RTS}}},

	/* ---- the requester's own fault ---- */
	{"rc/send/lkey", "SEND, L_Key unknown", RC, SEND, .len = 100, .fault = FAULT_LKEY, .want = LOCAL(LOC_PROT_ERR)},
	{"rc/write/lkey", "WRITE, L_Key unknown", RC, WRITE, .len = 100, .fault = FAULT_LKEY, .want = LOCAL(LOC_PROT_ERR)},
	{"rc/read/lkey", "READ, L_Key unknown", RC, READ, .len = 100, .fault = FAULT_LKEY, .behind_passes = true, .want = LOCAL(LOC_PROT_ERR)},
	{"rc/write/local-bounds", "WRITE from beyond the local region", RC, WRITE, .len = 5000, .fault = FAULT_LOCAL_BOUNDS, .want = LOCAL(LOC_PROT_ERR)},
	{"rc/read/local-right", "READ into a region without local write", RC, READ, .len = 100, .fault = FAULT_LOCAL_RIGHT, .behind_passes = true, .want = LOCAL(LOC_PROT_ERR)},
	{"rc/fetch-add/local-right", "FetchAdd into a region without local write", RC, FAA, .len = 8, .fault = FAULT_LOCAL_RIGHT, .behind_passes = true, .want = LOCAL(LOC_PROT_ERR)},
	{"rc/read/no-rd-atomic", "READ from a QP whose max_rd_atomic is 0", RC, READ, .len = 100, .config.no_rd_atomic = true, .want = LOCAL(LOC_QP_OP_ERR)},
	{"rc/local-inv/unknown-rkey", "local invalidate of a key that is no window's", RC, .opcode = IBV_WR_LOCAL_INV, .len = 0, .fault = FAULT_RKEY, .want = LOCAL(MW_BIND_ERR)},

	/* ---- UC: the receiver's troubles are its own ---- */
	{"uc/send/lkey", "SEND, L_Key unknown", UC, SEND, .len = 100, .fault = FAULT_LKEY, .want = LOCAL_SQE(LOC_PROT_ERR)},
	{"uc/write/lkey", "WRITE, L_Key unknown", UC, WRITE, .len = 100, .fault = FAULT_LKEY, .want = LOCAL_SQE(LOC_PROT_ERR)},
	{"uc/write/unknown-rkey", "WRITE, R_Key unknown: dropped", UC, WRITE, .len = 100, .fault = FAULT_RKEY, .want = UNHEARD(ERR_NONE, IBV_WC_SUCCESS)},
	{"uc/write/qp-right", "WRITE to a QP without remote write: dropped", UC, WRITE, .len = 100, .config.access = IBV_ACCESS_LOCAL_WRITE, .want = UNHEARD(ERR_NONE, IBV_WC_SUCCESS)},
	{"uc/send/no-receive", "SEND, no receive is posted: dropped", UC, SEND, .len = 100, .no_recv_behind = true, .want = UNHEARD(ERR_NONE, ERR_NONE)},
	{"uc/send/too-long", "SEND longer than its receive: dropped, the receive stays posted", UC, SEND, .len = 100, .with_recv = true, .recv_len = 99,
	 .want = UNHEARD(IBV_WC_SUCCESS, ERR_NONE)},
	{"uc/send/receive-lkey", "SEND into a receive whose L_Key is unknown", UC, SEND, .len = 100, .with_recv = true, .recv_len = 100, .recv_lkey_bad = true,
	 .want = {.first = IBV_WC_SUCCESS, .behind = IBV_WC_SUCCESS, .recv_req = ERR_NONE, .recv = IBV_WC_LOC_PROT_ERR, .recv_behind = IBV_WC_WR_FLUSH_ERR,
		  .state = {IBV_QPS_RTS, IBV_QPS_ERR}}},
	{"uc/read", "READ", UC, READ, .len = 100, .want = LOCAL_SQE(LOC_QP_OP_ERR)},
	{"uc/fetch-add", "FetchAdd", UC, FAA, .len = 8, .want = LOCAL_SQE(LOC_QP_OP_ERR)},
	{"uc/send-inv", "SEND with invalidate", UC, .opcode = IBV_WR_SEND_WITH_INV, .len = 100, .want = LOCAL_SQE(LOC_QP_OP_ERR)},

	/* ---- UD ---- */
	{"ud/send/lkey", "SEND, L_Key unknown", UD, SEND, .len = 100, .fault = FAULT_LKEY, .want = LOCAL_SQE(LOC_PROT_ERR)},
	{"ud/send/qkey", "SEND, wrong Q_Key: dropped", UD, SEND, .len = 100, .fault = FAULT_QKEY, .want = UNHEARD(ERR_NONE, IBV_WC_SUCCESS)},
	{"ud/send/no-such-qp", "SEND to a QP that does not exist: dropped", UD, SEND, .len = 100, .fault = FAULT_QPN, .want = UNHEARD(ERR_NONE, IBV_WC_SUCCESS)},
	{"ud/send/no-receive", "SEND, no receive is posted: dropped", UD, SEND, .len = 100, .no_recv_behind = true, .want = UNHEARD(ERR_NONE, ERR_NONE)},
	{"ud/send/too-long", "SEND longer than its receive: dropped, the receive stays posted", UD, SEND, .len = 100, .with_recv = true, .recv_len = 139,
	 .want = UNHEARD(IBV_WC_SUCCESS, ERR_NONE)},
	{"ud/send/too-long-for-grh", "SEND into receives that have room for the GRH alone: dropped", UD, SEND, .len = 1, .with_recv = true, .recv_len = 40,
	 .want = UNHEARD(ERR_NONE, ERR_NONE)},
	{"ud/send/receive-lkey", "SEND into a receive whose L_Key is unknown", UD, SEND, .len = 100, .with_recv = true, .recv_len = 140, .recv_lkey_bad = true,
	 .want = {.first = IBV_WC_SUCCESS, .behind = IBV_WC_SUCCESS, .recv_req = ERR_NONE, .recv = IBV_WC_LOC_PROT_ERR, .recv_behind = IBV_WC_WR_FLUSH_ERR,
		  .state = {IBV_QPS_RTS, IBV_QPS_ERR}}},
	{"ud/send/longer-than-mtu", "SEND longer than the port's MTU", UD, SEND, .len = 4097, .want = LOCAL_SQE(LOC_LEN_ERR)},
	{"ud/write", "WRITE", UD, WRITE, .len = 100, .want = LOCAL_SQE(LOC_QP_OP_ERR)},
	{"ud/read", "READ", UD, READ, .len = 100, .want = LOCAL_SQE(LOC_QP_OP_ERR)},

	/* ---- refused when posted ---- */
	{"rc/fetch-add/length", "FetchAdd whose result has room for less than 8 bytes", RC, FAA, .len = 4, .err = EINVAL},
	{"rc/send/inline-too-long", "inline data longer than max_inline_data", RC, SEND, .len = 4096, .flags = IBV_SEND_INLINE, .err = EINVAL},
	{"rc/read/inline", "inline READ", RC, READ, .len = 8, .flags = IBV_SEND_INLINE, .err = EINVAL},
	{"rc/unknown-opcode", "an opcode that does not exist", RC, .opcode = (enum ibv_wr_opcode)99, .len = 8, .err = EINVAL},
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
