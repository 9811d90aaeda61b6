/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of QP state transitions and their required and optional attributes (IBTA 11.2.5.2,
 * table 91).
 */
#ifndef TRANSPORT_STATE_TABLE_H
#define TRANSPORT_STATE_TABLE_H

#include <stdbool.h>

#include <infiniband/verbs.h>

/** May a QP of this type go from -> to with this mask (IBV_QP_STATE aside)? */
bool state_table_allows(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			int mask);

/**
 * The required and optional attributes of a transition. @return false: there is no such transition.
 */
bool state_table_masks(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		       int *need, int *may);

#endif
