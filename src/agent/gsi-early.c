/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-early.h"

#include <stdlib.h>

void gsi_early_init(struct gsi_early *e)
{
	list_init(&e->kept);
	e->shares = (struct share){0};
}

void gsi_early_fini(struct gsi_early *e)
{
	list_for_each_entry (r, struct gsi_early_req, node, &e->kept)
		gsi_early_drop(e, r);
}

bool gsi_early_add(struct gsi_early *e, const struct gsi_mad *d, unsigned cell, uint64_t now_ms)
{
	bool room = share_has_room(&e->shares, cell, GSI_EARLY_MAX);
	struct gsi_early_req *r = room ? malloc(sizeof(*r)) : NULL;

	if (!r)
		return false;
	*r = (struct gsi_early_req){.due_ms = now_ms + GSI_EARLY_MS, .cell = cell, .d = *d};
	list_append(&e->kept, &r->node);
	share_take(&e->shares, cell);
	return true;
}

struct gsi_early_req *gsi_early_first(const struct gsi_early *e)
{
	struct list *first = list_first(&e->kept);

	return first ? list_entry(first, struct gsi_early_req, node) : NULL;
}

void gsi_early_drop(struct gsi_early *e, struct gsi_early_req *r)
{
	list_remove(&r->node);
	share_give(&e->shares, r->cell);
	free(r);
}

uint64_t gsi_early_next_ms(const struct gsi_early *e)
{
	const struct gsi_early_req *r = gsi_early_first(e);

	return r ? r->due_ms : UINT64_MAX;
}
