/* SPDX-License-Identifier: BSD-2-Clause */
/* The order in which an endpoint gives out its QP numbers: their indices, below the slot. */
#ifndef TRANSPORT_QPN_H
#define TRANSPORT_QPN_H

#include <stdint.h>

#include <rocemu/endpoint.h>

#include "base/prf.h"

enum {
	QPN_COUNT = 1 << ROCEMU_QPN_INDEX_BITS,
	QPN_BLOCK = 512,
};

struct qpns {
	uint32_t first_index; /* of the first QP, or of one in its block */
	uint32_t next;	      /* counts indices taken */
	uint32_t left;	      /* free ones */
	/* Ring of free indices in the order in which they are given out, from next on; 0: not set
	 * yet, it is next + first_index; else the index + 1. */
	uint16_t order[QPN_COUNT];
};

/** s: all zeros, or no index is in use. */
void qpn_init(struct qpns *s, uint16_t first_index);
/**
 * A free index, -1: none. They go round, so that one is not used again soon, in blocks, and at
 * random within each, so that the next cannot be derived from the last.
 */
int qpn_take(struct qpns *s, struct prf *prf);
/** The index is free again: it will be the last one to be given out. */
void qpn_give_back(struct qpns *s, uint32_t index);

#endif
