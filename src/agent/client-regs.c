/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/client-regs.h"

#include <stdlib.h>

void regs_init(struct regs *r)
{
	for (unsigned i = 0; i < REGS_BUCKETS; i++)
		list_init(&r->buckets[i]);
	r->n = 0;
}

void regs_fini(struct regs *r)
{
	for (unsigned i = 0; i < REGS_BUCKETS; i++)
		list_for_each_safe (it, next, &r->buckets[i])
			free(list_entry(it, struct reg, node));
}

void *regs_find(const struct regs *r, uint32_t key)
{
	list_for_each (it, &r->buckets[key % REGS_BUCKETS]) {
		struct reg *reg = list_entry(it, struct reg, node);

		if (reg->key == key)
			return reg;
	}
	return NULL;
}

void regs_add(struct regs *r, struct reg *reg, uint32_t key)
{
	reg->key = key;
	list_append(&r->buckets[key % REGS_BUCKETS], &reg->node);
	r->n++;
}

void regs_drop(struct regs *r, struct reg *reg)
{
	list_remove(&reg->node);
	r->n--;
	free(reg);
}
