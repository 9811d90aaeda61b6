/* SPDX-License-Identifier: BSD-2-Clause */
/* What back ends make of a setup and of requests: attributes, memory as it is at first, operands.
 */
#ifndef SCENARIO_SETUP_H
#define SCENARIO_SETUP_H

#include "scenario/scenario.h"

/** Byte i of an area, at first. */
uint8_t scenario_byte(enum scenario_area area, uint64_t i);
/** The first len of them. */
void scenario_fill(enum scenario_area area, uint8_t *bytes, uint64_t len);

/**
 * All attributes of an end but where its peer is: dest_qp_num, and the address (ah_attr.grh). Of a
 * pair, one's first PSN to send is the other's to receive.
 */
struct ibv_qp_attr scenario_attr(const struct scenario_setup *s, unsigned end,
				 enum ibv_qp_state to);
/** Those that a change of state needs (IBV_QP_*): IBTA 11.2.5.2. */
int scenario_attr_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to);

/** The remote address and key of a request, where its opcode has them, and an atomic's operands. */
void scenario_set_remote(const struct scenario_request *r, uint64_t addr, uint32_t rkey,
			 struct ibv_send_wr *wr);

#endif
