/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a client of connection management has from the agent: addresses, bindings and exit MADs, kept so
 * that the next agent can be shown them. Memory only; client-gsi.c talks to the agent.
 */
#ifndef AGENT_CLIENT_REGS_H
#define AGENT_CLIENT_REGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/gsi-frame.h"
#include "agent/protocol.h"
#include "base/list.h"

enum { REGS_BUCKETS = 1024 };

struct opened {
	struct list node; /* in gsi_book.opened */
	struct rocemu_gid addr;
	uint32_t scope_id;
};

struct binding {
	struct list node; /* in gsi_book.bindings */
	uint32_t key;
	bool listens;
	struct agent_gsi_bind bind;
};

struct exit_reg {
	struct list node; /* in gsi_book.exit_mads */
	uint32_t comm_id;
	struct gsi_frame frame; /* as it is sent */
};

struct gsi_regs {
	struct list opened; /* of struct opened, as they came */
	struct list bindings[REGS_BUCKETS];
	struct list exit_mads[REGS_BUCKETS];
	unsigned nbindings, nexits;
	uint32_t last_key;
};

void gsi_regs_init(struct gsi_regs *b);
/** Free all that is in it. */
void gsi_regs_fini(struct gsi_regs *b);

/* Objects are calloc()ed by the caller, filled in, and from _add_ on the book's. */

struct opened *gsi_regs_find_opened(const struct gsi_regs *b, const struct rocemu_gid *addr,
				   uint32_t scope_id);
void gsi_regs_add_opened(struct gsi_regs *b, struct opened *o);

/** A key that no binding has. */
uint32_t gsi_regs_new_key(struct gsi_regs *b);
struct binding *gsi_regs_find_binding(const struct gsi_regs *b, uint32_t key);
void gsi_regs_add_binding(struct gsi_regs *b, struct binding *binding);
void gsi_regs_drop_binding(struct gsi_regs *b, struct binding *binding);

struct exit_reg *gsi_regs_find_exit(const struct gsi_regs *b, uint32_t comm_id);
void gsi_regs_add_exit(struct gsi_regs *b, struct exit_reg *e);
void gsi_regs_drop_exit(struct gsi_regs *b, struct exit_reg *e);

#endif
