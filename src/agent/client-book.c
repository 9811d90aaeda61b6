/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/client-book.h"

#include <stdlib.h>
#include <string.h>

void cm_book_init(struct cm_book *b)
{
	list_init(&b->opened);
	for (unsigned i = 0; i < BOOK_BUCKETS; i++) {
		list_init(&b->bindings[i]);
		list_init(&b->wills[i]);
	}
	b->nbindings = b->nwills = 0;
	b->last_key = 0;
}

void cm_book_fini(struct cm_book *b)
{
	list_for_each_safe (it, next, &b->opened)
		free(list_entry(it, struct opened, node));
	for (unsigned i = 0; i < BOOK_BUCKETS; i++) {
		list_for_each_safe (it, next, &b->bindings[i])
			free(list_entry(it, struct binding, node));
		list_for_each_safe (it, next, &b->wills[i])
			free(list_entry(it, struct will, node));
	}
}

/* ---- addresses ---- */

struct opened *cm_book_find_opened(const struct cm_book *b, const struct rocemu_gid *addr,
				   uint32_t scope_id)
{
	list_for_each (it, &b->opened) {
		struct opened *o = list_entry(it, struct opened, node);

		if (o->scope_id == scope_id && !memcmp(o->addr.raw, addr->raw, sizeof(addr->raw)))
			return o;
	}
	return NULL;
}

void cm_book_add_opened(struct cm_book *b, struct opened *o)
{
	list_append(&b->opened, &o->node);
}

/* ---- bindings ---- */

uint32_t cm_book_new_key(struct cm_book *b)
{
	do
		b->last_key++;
	while (cm_book_find_binding(b, b->last_key));
	return b->last_key;
}

struct binding *cm_book_find_binding(const struct cm_book *b, uint32_t key)
{
	list_for_each (it, &b->bindings[key % BOOK_BUCKETS]) {
		struct binding *binding = list_entry(it, struct binding, node);

		if (binding->key == key)
			return binding;
	}
	return NULL;
}

void cm_book_add_binding(struct cm_book *b, struct binding *binding)
{
	list_append(&b->bindings[binding->key % BOOK_BUCKETS], &binding->node);
	b->nbindings++;
}

void cm_book_drop_binding(struct cm_book *b, struct binding *binding)
{
	list_remove(&binding->node);
	b->nbindings--;
	free(binding);
}

/* ---- wills ---- */

struct will *cm_book_find_will(const struct cm_book *b, uint32_t comm_id)
{
	list_for_each (it, &b->wills[comm_id % BOOK_BUCKETS]) {
		struct will *w = list_entry(it, struct will, node);

		if (w->comm_id == comm_id)
			return w;
	}
	return NULL;
}

void cm_book_add_will(struct cm_book *b, struct will *will)
{
	list_append(&b->wills[will->comm_id % BOOK_BUCKETS], &will->node);
	b->nwills++;
}

void cm_book_drop_will(struct cm_book *b, struct will *will)
{
	list_remove(&will->node);
	b->nwills--;
	free(will);
}
