/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a client of connection management has from the agent: addresses, bindings and wills, kept so
 * that the next agent can be shown them. Memory only; client-cm.c talks to the agent.
 */
#ifndef AGENT_CLIENT_BOOK_H
#define AGENT_CLIENT_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/protocol-cm.h"
#include "base/list.h"

enum { BOOK_BUCKETS = 1024 };

struct opened {
	struct list node; /* in cm_book.opened */
	struct rocemu_gid addr;
	uint32_t scope_id;
	uint16_t sport;
};

struct binding {
	struct list node; /* in cm_book.bindings */
	uint32_t key;
	bool listens;
	struct agent_cm_bind bind;
};

struct will {
	struct list node; /* in cm_book.wills */
	uint32_t comm_id;
	size_t len;
	uint8_t frame[CM_FRAME_MAX]; /* as it is sent */
};

struct cm_book {
	struct list opened; /* of struct opened, as they came */
	struct list bindings[BOOK_BUCKETS];
	struct list wills[BOOK_BUCKETS];
	unsigned nbindings, nwills;
	uint32_t last_key;
};

void cm_book_init(struct cm_book *b);
/** Free all that is in it. */
void cm_book_fini(struct cm_book *b);

/* Objects are calloc()ed by the caller, filled in, and from _add_ on the book's. */

struct opened *cm_book_find_opened(const struct cm_book *b, const struct rocemu_gid *addr,
				   uint32_t scope_id);
void cm_book_add_opened(struct cm_book *b, struct opened *o);

/** A key that no binding has. */
uint32_t cm_book_new_key(struct cm_book *b);
struct binding *cm_book_find_binding(const struct cm_book *b, uint32_t key);
void cm_book_add_binding(struct cm_book *b, struct binding *binding);
void cm_book_drop_binding(struct cm_book *b, struct binding *binding);

struct will *cm_book_find_will(const struct cm_book *b, uint32_t comm_id);
void cm_book_add_will(struct cm_book *b, struct will *will);
void cm_book_drop_will(struct cm_book *b, struct will *will);

#endif
