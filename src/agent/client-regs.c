/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/client-regs.h"

#include <stdlib.h>
#include <string.h>

void gsi_regs_init(struct gsi_regs *b)
{
	list_init(&b->opened);
	for (unsigned i = 0; i < REGS_BUCKETS; i++) {
		list_init(&b->bindings[i]);
		list_init(&b->exit_mads[i]);
	}
	b->nbindings = b->nexits = 0;
	b->last_key = 0;
}

void gsi_regs_fini(struct gsi_regs *b)
{
	list_for_each_safe (it, next, &b->opened)
		free(list_entry(it, struct opened, node));
	for (unsigned i = 0; i < REGS_BUCKETS; i++) {
		list_for_each_safe (it, next, &b->bindings[i])
			free(list_entry(it, struct binding, node));
		list_for_each_safe (it, next, &b->exit_mads[i])
			free(list_entry(it, struct exit_reg, node));
	}
}

/* ---- addresses ---- */

struct opened *gsi_regs_find_opened(const struct gsi_regs *b, const struct rocemu_gid *addr,
				   uint32_t scope_id)
{
	list_for_each (it, &b->opened) {
		struct opened *o = list_entry(it, struct opened, node);

		if (o->scope_id == scope_id && !memcmp(o->addr.raw, addr->raw, sizeof(addr->raw)))
			return o;
	}
	return NULL;
}

void gsi_regs_add_opened(struct gsi_regs *b, struct opened *o)
{
	list_append(&b->opened, &o->node);
}

/* ---- bindings ---- */

uint32_t gsi_regs_new_key(struct gsi_regs *b)
{
	do
		b->last_key++;
	while (gsi_regs_find_binding(b, b->last_key));
	return b->last_key;
}

struct binding *gsi_regs_find_binding(const struct gsi_regs *b, uint32_t key)
{
	list_for_each (it, &b->bindings[key % REGS_BUCKETS]) {
		struct binding *binding = list_entry(it, struct binding, node);

		if (binding->key == key)
			return binding;
	}
	return NULL;
}

void gsi_regs_add_binding(struct gsi_regs *b, struct binding *binding)
{
	list_append(&b->bindings[binding->key % REGS_BUCKETS], &binding->node);
	b->nbindings++;
}

void gsi_regs_drop_binding(struct gsi_regs *b, struct binding *binding)
{
	list_remove(&binding->node);
	b->nbindings--;
	free(binding);
}

/* ---- exit MADs ---- */

struct exit_reg *gsi_regs_find_exit(const struct gsi_regs *b, uint32_t comm_id)
{
	list_for_each (it, &b->exit_mads[comm_id % REGS_BUCKETS]) {
		struct exit_reg *w = list_entry(it, struct exit_reg, node);

		if (w->comm_id == comm_id)
			return w;
	}
	return NULL;
}

void gsi_regs_add_exit(struct gsi_regs *b, struct exit_reg *e)
{
	list_append(&b->exit_mads[e->comm_id % REGS_BUCKETS], &e->node);
	b->nexits++;
}

void gsi_regs_drop_exit(struct gsi_regs *b, struct exit_reg *e)
{
	list_remove(&e->node);
	b->nexits--;
	free(e);
}
