/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of numbers: libibverbs' own texts differ between versions. */
#include "parity.h"

#define NAME(table, value)                                              \
	((unsigned)(value) < COUNT(table) && (table)[(unsigned)(value)] \
		 ? (table)[(unsigned)(value)]                           \
		 : "(number that verbs.h does not have)")

const char *text_errno(int err)
{
	static const struct {
		int err;
		const char *name;
	} names[] = {
		{EINVAL, "EINVAL"},
		{EBADF, "EBADF"},
		{ENOMEM, "ENOMEM"},
		{EBUSY, "EBUSY"},
		{EPERM, "EPERM"},
		{EACCES, "EACCES"},
		{EFAULT, "EFAULT"},
		{EAGAIN, "EAGAIN"},
		{ENOSYS, "ENOSYS"},
		{EOPNOTSUPP, "EOPNOTSUPP"},
		{ENOENT, "ENOENT"},
		{ENODATA, "ENODATA"},
		{EPROTONOSUPPORT, "EPROTONOSUPPORT"},
		{ENODEV, "ENODEV"},
		{EIO, "EIO"},
		{ENOSPC, "ENOSPC"},
		{ERANGE, "ERANGE"},
		{E2BIG, "E2BIG"},
		{ETIMEDOUT, "ETIMEDOUT"},
	};
	static char other[32];

	for (size_t i = 0; i < COUNT(names); i++)
		if (names[i].err == err)
			return names[i].name;
	snprintf(other, sizeof(other), "errno %d", err);
	return other;
}

const char *text_status(enum ibv_wc_status s)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "success",
		[IBV_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
		[IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
		[IBV_WC_LOC_EEC_OP_ERR] = "LOC_EEC_OP_ERR",
		[IBV_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
		[IBV_WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR",
		[IBV_WC_MW_BIND_ERR] = "MW_BIND_ERR",
		[IBV_WC_BAD_RESP_ERR] = "BAD_RESP_ERR",
		[IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
		[IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
		[IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
		[IBV_WC_REM_OP_ERR] = "REM_OP_ERR",
		[IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
		[IBV_WC_REM_ABORT_ERR] = "REM_ABORT_ERR",
		[IBV_WC_FATAL_ERR] = "FATAL_ERR",
		[IBV_WC_RESP_TIMEOUT_ERR] = "RESP_TIMEOUT_ERR",
		[IBV_WC_GENERAL_ERR] = "GENERAL_ERR",
	};

	return NAME(names, s);
}

const char *text_wc_opcode(enum ibv_wc_opcode op)
{
	static const char *const names[] = {
		[IBV_WC_SEND] = "SEND",
		[IBV_WC_RDMA_WRITE] = "RDMA_WRITE",
		[IBV_WC_RDMA_READ] = "RDMA_READ",
		[IBV_WC_COMP_SWAP] = "COMP_SWAP",
		[IBV_WC_FETCH_ADD] = "FETCH_ADD",
		[IBV_WC_BIND_MW] = "BIND_MW",
		[IBV_WC_LOCAL_INV] = "LOCAL_INV",
		[IBV_WC_RECV] = "RECV",
		[IBV_WC_RECV_RDMA_WITH_IMM] = "RECV_RDMA_WITH_IMM",
	};

	return NAME(names, op);
}

const char *text_state(enum ibv_qp_state s)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",	   [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return NAME(names, s);
}

const char *text_event(enum ibv_event_type t)
{
	static const char *const names[] = {
		[IBV_EVENT_CQ_ERR] = "CQ_ERR",
		[IBV_EVENT_QP_FATAL] = "QP_FATAL",
		[IBV_EVENT_QP_REQ_ERR] = "QP_REQ_ERR",
		[IBV_EVENT_QP_ACCESS_ERR] = "QP_ACCESS_ERR",
		[IBV_EVENT_COMM_EST] = "COMM_EST",
		[IBV_EVENT_SQ_DRAINED] = "SQ_DRAINED",
		[IBV_EVENT_PATH_MIG] = "PATH_MIG",
		[IBV_EVENT_PATH_MIG_ERR] = "PATH_MIG_ERR",
		[IBV_EVENT_DEVICE_FATAL] = "DEVICE_FATAL",
		[IBV_EVENT_PORT_ACTIVE] = "PORT_ACTIVE",
		[IBV_EVENT_PORT_ERR] = "PORT_ERR",
		[IBV_EVENT_SRQ_ERR] = "SRQ_ERR",
		[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ_LIMIT_REACHED",
		[IBV_EVENT_QP_LAST_WQE_REACHED] = "QP_LAST_WQE_REACHED",
		[IBV_EVENT_GID_CHANGE] = "GID_CHANGE",
	};

	return NAME(names, t);
}

const char *text_op(enum ibv_wr_opcode op)
{
	static const char *const names[] = {
		[IBV_WR_RDMA_WRITE] = "write",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "write-imm",
		[IBV_WR_SEND] = "send",
		[IBV_WR_SEND_WITH_IMM] = "send-imm",
		[IBV_WR_RDMA_READ] = "read",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "cmp-swap",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "fetch-add",
		[IBV_WR_LOCAL_INV] = "local-inv",
		[IBV_WR_BIND_MW] = "bind",
		[IBV_WR_SEND_WITH_INV] = "send-inv",
	};

	return NAME(names, op);
}
