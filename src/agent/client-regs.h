/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registrations of a GSI client at the agent, kept for the next agent: addresses, bindings, exit
 * MADs. Memory only; client-gsi.c and client-frames.c communicate with the agent.
 */
#ifndef AGENT_CLIENT_REGS_H
#define AGENT_CLIENT_REGS_H

#include <stdint.h>

#include "agent/gsi-frame.h"
#include "agent/protocol.h"
#include "base/hash.h"
#include "base/list.h"

enum { REGS_BUCKETS = 1024 };

/** First member of a table's entries, which the caller allocates by calloc(). */
struct reg {
	struct list node; /* in regs.buckets */
	uint32_t key;
};

struct regs {
	struct list buckets[REGS_BUCKETS]; /* owned */
	unsigned n;
};

struct opened {
	struct list node;
	struct hash_node by_address;
	struct rocemu_gid addr;
	uint32_t scope_id;
};

struct binding {
	struct reg reg;
	bool listens;
	struct agent_gsi_bind bind;
};

/** The key is the communication ID. */
struct exit_reg {
	struct reg reg;
	struct gsi_frame frame; /* as it is sent */
};

void regs_init(struct regs *r);
/** Free all that is in it. */
void regs_fini(struct regs *r);
/** @return NULL: there is none. */
void *regs_find(const struct regs *r, uint32_t key);
void regs_add(struct regs *r, struct reg *reg, uint32_t key);
/** Remove and free it. */
void regs_drop(struct regs *r, struct reg *reg);

#endif
