/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a client of connection management has from the agent: addresses, bindings and wills, kept so
 * that the next agent can be shown them. Memory only; client-gsi.c talks to the agent.
 */
#ifndef AGENT_CLIENT_BOOK_H
#define AGENT_CLIENT_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/protocol-gsi.h"
#include "base/list.h"

enum { BOOK_BUCKETS = 1024 };

struct opened {
	struct list node; /* in gsi_book.opened */
	struct rocemu_gid addr;
	uint32_t scope_id;
	uint16_t sport;
};

struct binding {
	struct list node; /* in gsi_book.bindings */
	uint32_t key;
	bool listens;
	struct agent_gsi_bind bind;
};

struct will {
	struct list node; /* in gsi_book.exit_mads */
	uint32_t comm_id;
	size_t len;
	uint8_t frame[GSI_FRAME_MAX]; /* as it is sent */
};

struct gsi_book {
	struct list opened; /* of struct opened, as they came */
	struct list bindings[BOOK_BUCKETS];
	struct list exit_mads[BOOK_BUCKETS];
	unsigned nbindings, nexits;
	uint32_t last_key;
};

void gsi_book_init(struct gsi_book *b);
/** Free all that is in it. */
void gsi_book_fini(struct gsi_book *b);

/* Objects are calloc()ed by the caller, filled in, and from _add_ on the book's. */

struct opened *gsi_book_find_opened(const struct gsi_book *b, const struct rocemu_gid *addr,
				   uint32_t scope_id);
void gsi_book_add_opened(struct gsi_book *b, struct opened *o);

/** A key that no binding has. */
uint32_t gsi_book_new_key(struct gsi_book *b);
struct binding *gsi_book_find_binding(const struct gsi_book *b, uint32_t key);
void gsi_book_add_binding(struct gsi_book *b, struct binding *binding);
void gsi_book_drop_binding(struct gsi_book *b, struct binding *binding);

struct will *gsi_book_find_will(const struct gsi_book *b, uint32_t comm_id);
void gsi_book_add_will(struct gsi_book *b, struct will *will);
void gsi_book_drop_will(struct gsi_book *b, struct will *will);

#endif
