/* SPDX-License-Identifier: BSD-2-Clause */
/* A set of clients of connection management, by number. */
#ifndef AGENT_CM_SET_H
#define AGENT_CM_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"

struct cm_set {
	uint32_t bits[AGENT_CM_CLIENTS / 32];
};

static inline bool cm_set_has(const struct cm_set *s, unsigned number)
{
	return s->bits[number / 32] >> number % 32 & 1;
}

static inline void cm_set_add(struct cm_set *s, unsigned number)
{
	s->bits[number / 32] |= 1u << number % 32;
}

static inline void cm_set_remove(struct cm_set *s, unsigned number)
{
	s->bits[number / 32] &= ~(1u << number % 32);
}

#endif
