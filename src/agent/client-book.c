/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/client-book.h"

#include <stdlib.h>
#include <string.h>

void gsi_book_init(struct gsi_book *b)
{
	list_init(&b->opened);
	for (unsigned i = 0; i < BOOK_BUCKETS; i++) {
		list_init(&b->bindings[i]);
		list_init(&b->exit_mads[i]);
	}
	b->nbindings = b->nexits = 0;
	b->last_key = 0;
}

void gsi_book_fini(struct gsi_book *b)
{
	list_for_each_safe (it, next, &b->opened)
		free(list_entry(it, struct opened, node));
	for (unsigned i = 0; i < BOOK_BUCKETS; i++) {
		list_for_each_safe (it, next, &b->bindings[i])
			free(list_entry(it, struct binding, node));
		list_for_each_safe (it, next, &b->exit_mads[i])
			free(list_entry(it, struct will, node));
	}
}

/* ---- addresses ---- */

struct opened *gsi_book_find_opened(const struct gsi_book *b, const struct rocemu_gid *addr,
				   uint32_t scope_id)
{
	list_for_each (it, &b->opened) {
		struct opened *o = list_entry(it, struct opened, node);

		if (o->scope_id == scope_id && !memcmp(o->addr.raw, addr->raw, sizeof(addr->raw)))
			return o;
	}
	return NULL;
}

void gsi_book_add_opened(struct gsi_book *b, struct opened *o)
{
	list_append(&b->opened, &o->node);
}

/* ---- bindings ---- */

uint32_t gsi_book_new_key(struct gsi_book *b)
{
	do
		b->last_key++;
	while (gsi_book_find_binding(b, b->last_key));
	return b->last_key;
}

struct binding *gsi_book_find_binding(const struct gsi_book *b, uint32_t key)
{
	list_for_each (it, &b->bindings[key % BOOK_BUCKETS]) {
		struct binding *binding = list_entry(it, struct binding, node);

		if (binding->key == key)
			return binding;
	}
	return NULL;
}

void gsi_book_add_binding(struct gsi_book *b, struct binding *binding)
{
	list_append(&b->bindings[binding->key % BOOK_BUCKETS], &binding->node);
	b->nbindings++;
}

void gsi_book_drop_binding(struct gsi_book *b, struct binding *binding)
{
	list_remove(&binding->node);
	b->nbindings--;
	free(binding);
}

/* ---- wills ---- */

struct will *gsi_book_find_will(const struct gsi_book *b, uint32_t comm_id)
{
	list_for_each (it, &b->exit_mads[comm_id % BOOK_BUCKETS]) {
		struct will *w = list_entry(it, struct will, node);

		if (w->comm_id == comm_id)
			return w;
	}
	return NULL;
}

void gsi_book_add_will(struct gsi_book *b, struct will *will)
{
	list_append(&b->exit_mads[will->comm_id % BOOK_BUCKETS], &will->node);
	b->nexits++;
}

void gsi_book_drop_will(struct gsi_book *b, struct will *will)
{
	list_remove(&will->node);
	b->nexits--;
	free(will);
}
