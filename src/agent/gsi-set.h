/* SPDX-License-Identifier: BSD-2-Clause */
/* A set of clients of connection management, by number. */
#ifndef AGENT_GSI_SET_H
#define AGENT_GSI_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"

struct gsi_set {
	uint32_t bits[AGENT_GSI_CLIENTS / 32];
};

static inline bool gsi_set_has(const struct gsi_set *s, unsigned number)
{
	return s->bits[number / 32] >> number % 32 & 1;
}

static inline void gsi_set_add(struct gsi_set *s, unsigned number)
{
	s->bits[number / 32] |= 1u << number % 32;
}

static inline void gsi_set_remove(struct gsi_set *s, unsigned number)
{
	s->bits[number / 32] &= ~(1u << number % 32);
}

#endif
