/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions and events as text: the same for each back end. */
#ifndef SCENARIO_NAMES_H
#define SCENARIO_NAMES_H

#include "scenario/scenario.h"

/** In wr_id: it is a receive. */
#define SCENARIO_RECV_ID (1ull << 63)

/** What a back end has of a completion, as in struct ibv_wc. */
struct scenario_completion {
	uint64_t id; /* with SCENARIO_RECV_ID */
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t byte_len;
	uint32_t imm; /* host order */
	uint32_t src_qp;
	unsigned flags; /* IBV_WC_* */
	uint8_t sl;
	bool solicited;
};

/**
 * As text:
 *	send ID, write ID, read ID len N, comp_swap ID len N, fetch_add ID len N, flush ID,
 *	atomic_write ID, bind_mw ID, local_inv ID
 *	send ID STATUS             of any kind, in error: IBV_WC_ left out
 *	recv ID len N [inv] [imm N] [grh from QPN] [sl N] [sol] [write]
 *	recv ID STATUS
 */
void scenario_completion_text(const struct scenario_completion *c, char *to, size_t size);

/** IBV_EVENT_ left out; static. */
const char *scenario_event_name(enum ibv_event_type type);

#endif
