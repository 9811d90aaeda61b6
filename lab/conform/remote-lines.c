/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of lines to conform-peer. */
#include "conform/remote.h"

#include <string.h>

#include "base/util.h"

const char *const remote_area[SCENARIO_AREAS] = {"mem", "send", "recv"};

static void add_number(char *line, size_t size, const char *name, uint64_t value)
{
	const size_t len = strlen(line);

	snprintf(line + len, size - len, " %s=%llu", name, (unsigned long long)value);
}

void remote_add_attributes(char *line, size_t size, const struct ibv_qp_attr *a, int mask)
{
	const struct {
		int bit;
		const char *name;
		uint64_t value;
	} all[] = {
		{IBV_QP_PORT, "port", a->port_num},
		{IBV_QP_PKEY_INDEX, "pkey_index", a->pkey_index},
		{IBV_QP_QKEY, "qkey", a->qkey},
		{IBV_QP_ACCESS_FLAGS, "access", a->qp_access_flags},
		{IBV_QP_PATH_MTU, "path_mtu", 128u << a->path_mtu},
		{IBV_QP_DEST_QPN, "dest_qpn", a->dest_qp_num},
		{IBV_QP_RQ_PSN, "rq_psn", a->rq_psn},
		{IBV_QP_MAX_DEST_RD_ATOMIC, "dest_rd_atomic", a->max_dest_rd_atomic},
		{IBV_QP_MIN_RNR_TIMER, "rnr_timer", a->min_rnr_timer},
		{IBV_QP_SQ_PSN, "sq_psn", a->sq_psn},
		{IBV_QP_TIMEOUT, "timeout", a->timeout},
		{IBV_QP_RETRY_CNT, "retry", a->retry_cnt},
		{IBV_QP_RNR_RETRY, "rnr_retry", a->rnr_retry},
		{IBV_QP_MAX_QP_RD_ATOMIC, "rd_atomic", a->max_rd_atomic},
		{IBV_QP_EN_SQD_ASYNC_NOTIFY, "sqd_notify", a->en_sqd_async_notify},
	};

	for (unsigned i = 0; i < ARRAY_LEN(all); i++)
		if (mask & all[i].bit)
			add_number(line, size, all[i].name, all[i].value);
}

bool remote_add_pieces(char line[REMOTE_PIECES], const struct scenario_request *q)
{
	const struct scenario_sge all = {.at = q->from, .len = q->len};
	const struct scenario_sge *s = q->sges ? q->sge : &all;
	const unsigned n = q->no_sge ? 0 : MAX(q->sges, 1u);
	size_t len = 0;

	*line = 0;
	for (unsigned i = 0; i < n; i++) {
		if (s[i].at.area >= SCENARIO_AREAS)
			return false;
		len += (size_t)snprintf(line + len, REMOTE_PIECES - len, "%s%s+%llu:%u",
					i ? "," : " sge=", remote_area[s[i].at.area],
					(unsigned long long)s[i].at.offset, s[i].len);
		if (q->lkey)
			len += (size_t)snprintf(line + len, REMOTE_PIECES - len, ":%u", q->lkey);
	}
	return true;
}

const char *remote_op_name(enum ibv_wr_opcode op)
{
	static const char *const names[] = {
#define N(name) [IBV_WR_##name] = #name
		N(RDMA_WRITE),		 N(RDMA_WRITE_WITH_IMM), N(SEND),
		N(SEND_WITH_IMM),	 N(RDMA_READ),		 N(ATOMIC_CMP_AND_SWP),
		N(ATOMIC_FETCH_AND_ADD), N(LOCAL_INV),		 N(BIND_MW),
		N(SEND_WITH_INV),
#undef N
	};

	return (size_t)op < ARRAY_LEN(names) ? names[op] : NULL;
}
