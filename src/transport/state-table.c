/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/state-table.h"

/* XRC: the initiator has RC's requester, the target its responder; each needs that half's
 * attributes. */
enum svc { SVC_RC, SVC_UC, SVC_UD, SVC_XS, SVC_XR, SVC_COUNT };

struct transition {
	bool ok;
	int need[SVC_COUNT]; /* attributes that must be given */
	int may[SVC_COUNT];  /* and that may be */
};

#define UC_ALT (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

/* clang-format off */
static const struct transition table[IBV_QPS_ERR + 1][IBV_QPS_ERR + 1] = {
	[IBV_QPS_RESET] = {
		/* Not to ERR: a QP in RESET has no path to fail on; the kernel's table for all devices refuses it, too. */
		[IBV_QPS_RESET] = { .ok = true },
		[IBV_QPS_INIT]  = { .ok = true,
			.need = { [SVC_RC] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			          [SVC_UC] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			          [SVC_XS] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			          [SVC_XR] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			          [SVC_UD] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY } },
	},
	[IBV_QPS_INIT] = {
		[IBV_QPS_RESET] = { .ok = true },
		[IBV_QPS_ERR]   = { .ok = true },
		[IBV_QPS_INIT]  = { .ok = true,
			.may  = { [SVC_RC] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			          [SVC_UC] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			          [SVC_XS] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			          [SVC_XR] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			          [SVC_UD] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY } },
		[IBV_QPS_RTR]   = { .ok = true,
			.need = { [SVC_RC] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
			          [SVC_UC] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
			          [SVC_XS] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
			          [SVC_XR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER },
			.may  = { [SVC_RC] = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
			          [SVC_UC] = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
			          [SVC_XS] = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
			          [SVC_XR] = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
			          [SVC_UD] = IBV_QP_PKEY_INDEX | IBV_QP_QKEY } },
	},
	[IBV_QPS_RTR] = {
		[IBV_QPS_RESET] = { .ok = true },
		[IBV_QPS_ERR]   = { .ok = true },
		[IBV_QPS_RTS]   = { .ok = true,
			.need = { [SVC_RC] = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			                     IBV_QP_MAX_QP_RD_ATOMIC,
			          [SVC_UC] = IBV_QP_SQ_PSN,
			          [SVC_UD] = IBV_QP_SQ_PSN,
			          [SVC_XS] = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			                     IBV_QP_MAX_QP_RD_ATOMIC,
			          [SVC_XR] = IBV_QP_TIMEOUT | IBV_QP_SQ_PSN },
			.may  = { [SVC_RC] = UC_ALT | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
			          [SVC_UC] = UC_ALT | IBV_QP_ACCESS_FLAGS,
			          [SVC_XS] = UC_ALT | IBV_QP_ACCESS_FLAGS,
			          [SVC_XR] = UC_ALT | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
			          [SVC_UD] = IBV_QP_QKEY } },
	},
	[IBV_QPS_RTS] = {
		[IBV_QPS_RESET] = { .ok = true },
		[IBV_QPS_ERR]   = { .ok = true },
		[IBV_QPS_RTS]   = { .ok = true,
			.may  = { [SVC_RC] = UC_ALT | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
			          [SVC_UC] = UC_ALT | IBV_QP_ACCESS_FLAGS,
			          [SVC_XS] = UC_ALT | IBV_QP_ACCESS_FLAGS,
			          [SVC_XR] = UC_ALT | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
			          [SVC_UD] = IBV_QP_QKEY } },
		[IBV_QPS_SQD]   = { .ok = true,
			.may  = { [SVC_RC] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
			          [SVC_UC] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
			          [SVC_XS] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
			          [SVC_XR] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
			          [SVC_UD] = IBV_QP_EN_SQD_ASYNC_NOTIFY } },
	},
	[IBV_QPS_SQD] = {
		[IBV_QPS_RESET] = { .ok = true },
		[IBV_QPS_ERR]   = { .ok = true },
		[IBV_QPS_RTS]   = { .ok = true,
			.may  = { [SVC_RC] = UC_ALT | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
			          [SVC_UC] = UC_ALT | IBV_QP_ACCESS_FLAGS,
			          [SVC_XS] = UC_ALT | IBV_QP_ACCESS_FLAGS,
			          [SVC_XR] = UC_ALT | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
			          [SVC_UD] = IBV_QP_QKEY } },
		[IBV_QPS_SQD]   = { .ok = true,
			.may  = { [SVC_RC] = IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			                     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
			                     IBV_QP_MAX_DEST_RD_ATOMIC | UC_ALT | IBV_QP_ACCESS_FLAGS |
			                     IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER,
			          [SVC_UC] = IBV_QP_AV | UC_ALT | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
			          [SVC_XS] = IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			                     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | UC_ALT |
			                     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
			          [SVC_XR] = IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC |
			                     UC_ALT | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
			                     IBV_QP_MIN_RNR_TIMER,
			          [SVC_UD] = IBV_QP_PKEY_INDEX | IBV_QP_QKEY } },
	},
	[IBV_QPS_SQE] = {
		[IBV_QPS_RESET] = { .ok = true },
		[IBV_QPS_ERR]   = { .ok = true },
		[IBV_QPS_RTS]   = { .ok = true,
			.may  = { [SVC_UC] = IBV_QP_ACCESS_FLAGS,
			          [SVC_UD] = IBV_QP_QKEY } },
	},
	[IBV_QPS_ERR] = {
		[IBV_QPS_RESET] = { .ok = true },
		[IBV_QPS_ERR]   = { .ok = true },
	},
};
/* clang-format on */

static enum svc svc_of(enum ibv_qp_type type)
{
	switch ((int)type) {
	case IBV_QPT_RC:
		return SVC_RC;
	case IBV_QPT_UC:
		return SVC_UC;
	case IBV_QPT_XRC_SEND:
		return SVC_XS;
	case IBV_QPT_XRC_RECV:
		return SVC_XR;
	default:
		return SVC_UD;
	}
}

bool state_table_masks(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		       int *need, int *may)
{
	const enum svc svc = svc_of(type);

	*need = *may = 0;
	if ((unsigned)from > IBV_QPS_ERR || (unsigned)to > IBV_QPS_ERR)
		return false;
	*need = table[from][to].need[svc];
	*may = table[from][to].may[svc];
	return table[from][to].ok;
}

bool state_table_allows(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			int mask)
{
	int need, may;

	if (!state_table_masks(type, from, to, &need, &may))
		return false;
	/* IBV_QP_CUR_STATE is allowed in all transitions to RTS.
	 */
	if ((mask & IBV_QP_CUR_STATE) && to != IBV_QPS_RTS)
		return false;
	mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
	return (mask & need) == need && !(mask & ~(need | may));
}
