/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-early.h"

#include <stdlib.h>

static struct gsi_early_req *first_of(const struct gsi_early *e)
{
	struct list *n = e->kept.next;

	return n == &e->kept ? NULL : list_entry(n, struct gsi_early_req, node);
}

void gsi_early_init(struct gsi_early *e)
{
	list_init(&e->kept);
	e->n = 0;
	e->shares = (struct share){0};
}

void gsi_early_fini(struct gsi_early *e)
{
	struct gsi_early_req *r;

	while ((r = gsi_early_take(e)) != NULL)
		free(r);
}

bool gsi_early_add(struct gsi_early *e, const struct gsi_mad *d, unsigned cell, uint64_t now_ms)
{
	bool room = share_has_room(&e->shares, cell, GSI_EARLY_MAX);
	struct gsi_early_req *r = room ? malloc(sizeof(*r)) : NULL;

	if (!r)
		return false;
	r->due_ms = now_ms + GSI_EARLY_MS;
	r->cell = cell;
	r->d = *d;
	gsi_early_put_back(e, r);
	return true;
}

void gsi_early_put_back(struct gsi_early *e, struct gsi_early_req *r)
{
	list_append(&e->kept, &r->node);
	share_take(&e->shares, r->cell);
	e->n++;
}

struct gsi_early_req *gsi_early_take(struct gsi_early *e)
{
	struct gsi_early_req *r = first_of(e);

	if (r) {
		list_remove(&r->node);
		share_give(&e->shares, r->cell);
		e->n--;
	}
	return r;
}

uint64_t gsi_early_next_ms(const struct gsi_early *e)
{
	const struct gsi_early_req *r = first_of(e);

	return r ? r->due_ms : UINT64_MAX;
}
