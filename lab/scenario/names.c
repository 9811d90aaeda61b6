/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "scenario/names.h"

#include "base/util.h"

/* Newer versions of <infiniband/verbs.h> have names for them. */
enum { WC_FLUSH = 8, WC_ATOMIC_WRITE = 9 };

static const char *status_name(enum ibv_wc_status status)
{
	static const char *const names[] = {
#define N(name) [IBV_WC_##name] = #name
		N(SUCCESS),	      N(LOC_LEN_ERR),
		N(LOC_QP_OP_ERR),     N(LOC_EEC_OP_ERR),
		N(LOC_PROT_ERR),      N(WR_FLUSH_ERR),
		N(MW_BIND_ERR),	      N(BAD_RESP_ERR),
		N(LOC_ACCESS_ERR),    N(REM_INV_REQ_ERR),
		N(REM_ACCESS_ERR),    N(REM_OP_ERR),
		N(RETRY_EXC_ERR),     N(RNR_RETRY_EXC_ERR),
		N(LOC_RDD_VIOL_ERR),  N(REM_INV_RD_REQ_ERR),
		N(REM_ABORT_ERR),     N(INV_EECN_ERR),
		N(INV_EEC_STATE_ERR), N(FATAL_ERR),
		N(RESP_TIMEOUT_ERR),  N(GENERAL_ERR),
#undef N
	};

	return (size_t)status < ARRAY_LEN(names) && names[status] ? names[status] : "?";
}

const char *scenario_event_name(enum ibv_event_type type)
{
	static const char *const names[] = {
#define N(name) [IBV_EVENT_##name] = #name
		N(CQ_ERR),   N(QP_FATAL),   N(QP_REQ_ERR),	  N(QP_ACCESS_ERR),
		N(COMM_EST), N(SQ_DRAINED), N(SRQ_LIMIT_REACHED), N(QP_LAST_WQE_REACHED),
#undef N
	};

	return (size_t)type < ARRAY_LEN(names) && names[type] ? names[type] : "?";
}

static const char *request_name(enum ibv_wc_opcode opcode)
{
	switch ((int)opcode) {
	case IBV_WC_SEND:
		return "send";
	case IBV_WC_RDMA_WRITE:
		return "write";
	case IBV_WC_RDMA_READ:
		return "read";
	case IBV_WC_COMP_SWAP:
		return "comp_swap";
	case IBV_WC_FETCH_ADD:
		return "fetch_add";
	case IBV_WC_BIND_MW:
		return "bind_mw";
	case IBV_WC_LOCAL_INV:
		return "local_inv";
	case WC_FLUSH:
		return "flush";
	case WC_ATOMIC_WRITE:
		return "atomic_write";
	default:
		return "?";
	}
}

static void recv_text(const struct scenario_completion *c, unsigned long long id, char *to,
		      size_t size)
{
	char imm[24] = "", grh[32] = "", sl[16] = "";

	if (c->flags & IBV_WC_WITH_IMM)
		snprintf(imm, sizeof(imm), " imm %x", c->imm);
	if (c->flags & IBV_WC_GRH)
		snprintf(grh, sizeof(grh), " grh from %x", c->src_qp);
	if (c->sl)
		snprintf(sl, sizeof(sl), " sl %u", c->sl);
	snprintf(to, size, "recv %llu len %u%s%s%s%s%s%s", id, c->byte_len,
		 c->flags & IBV_WC_WITH_INV ? " inv" : "", imm, grh, sl, c->solicited ? " sol" : "",
		 c->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? " write" : "");
}

void scenario_completion_text(const struct scenario_completion *c, char *to, size_t size)
{
	const bool recv = c->id & SCENARIO_RECV_ID;
	const unsigned long long id = c->id & ~SCENARIO_RECV_ID;
	const char *name = request_name(c->opcode);

	if (c->status != IBV_WC_SUCCESS)
		snprintf(to, size, "%s %llu %s", recv ? "recv" : "send", id,
			 status_name(c->status));
	else if (recv)
		recv_text(c, id, to, size);
	else if (c->opcode == IBV_WC_RDMA_READ || c->opcode == IBV_WC_COMP_SWAP ||
		 c->opcode == IBV_WC_FETCH_ADD)
		snprintf(to, size, "%s %llu len %u", name, id, c->byte_len);
	else
		snprintf(to, size, "%s %llu", name, id);
}
