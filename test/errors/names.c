/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of statuses, states and events, as the table and what differs from it show them. */
#include <stdio.h>

#include "errors.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

const char *err_status_name(int status)
{
	static const char *const names[] = {
#define S(name) [IBV_WC_##name] = #name
		S(SUCCESS),	      S(LOC_LEN_ERR),
		S(LOC_QP_OP_ERR),     S(LOC_EEC_OP_ERR),
		S(LOC_PROT_ERR),      S(WR_FLUSH_ERR),
		S(MW_BIND_ERR),	      S(BAD_RESP_ERR),
		S(LOC_ACCESS_ERR),    S(REM_INV_REQ_ERR),
		S(REM_ACCESS_ERR),    S(REM_OP_ERR),
		S(RETRY_EXC_ERR),     S(RNR_RETRY_EXC_ERR),
		S(LOC_RDD_VIOL_ERR),  S(REM_INV_RD_REQ_ERR),
		S(REM_ABORT_ERR),     S(INV_EECN_ERR),
		S(INV_EEC_STATE_ERR), S(FATAL_ERR),
		S(RESP_TIMEOUT_ERR),  S(GENERAL_ERR),
#undef S
	};

	if (status == ERR_NONE)
		return "-";
	return status >= 0 && (unsigned)status < COUNT(names) ? names[status] : "not a status";
}

const char *err_state_name(enum ibv_qp_state state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS",
					    "SQD",   "SQE",  "ERR", "destroyed"};

	return (unsigned)state < COUNT(names) ? names[state] : "not a state";
}

void err_event_names(uint32_t events, const char *suffix, bool *any, FILE *out)
{
	static const char *const names[] = {
#define E(name) [IBV_EVENT_##name] = #name
		E(CQ_ERR),
		E(QP_FATAL),
		E(QP_REQ_ERR),
		E(QP_ACCESS_ERR),
		E(COMM_EST),
		E(SQ_DRAINED),
		E(PATH_MIG),
		E(PATH_MIG_ERR),
		E(DEVICE_FATAL),
		E(PORT_ACTIVE),
		E(PORT_ERR),
		E(LID_CHANGE),
		E(PKEY_CHANGE),
		E(SM_CHANGE),
		E(SRQ_ERR),
		E(SRQ_LIMIT_REACHED),
		E(QP_LAST_WQE_REACHED),
		E(CLIENT_REREGISTER),
		E(GID_CHANGE),
		E(WQ_FATAL),
#undef E
	};

	for (unsigned i = 0; i < 32; i++)
		if (events >> i & 1) {
			fprintf(out, "%s%s%s", *any ? ", " : "",
				i < COUNT(names) ? names[i] : "not an event", suffix);
			*any = true;
		}
}
