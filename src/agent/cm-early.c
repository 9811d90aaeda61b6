/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/cm-early.h"

#include <stdlib.h>
#include <string.h>

static struct cm_early_req *first_of(const struct cm_early *e)
{
	struct list *n = e->kept.next;

	return n == &e->kept ? NULL : list_entry(n, struct cm_early_req, node);
}

void cm_early_init(struct cm_early *e)
{
	list_init(&e->kept);
	e->n = 0;
}

void cm_early_fini(struct cm_early *e)
{
	struct cm_early_req *r;

	while ((r = cm_early_take(e)) != NULL)
		free(r);
}

bool cm_early_add(struct cm_early *e, const struct agent_cm_dgram *d, uint64_t now_ms)
{
	struct cm_early_req *r = e->n < CM_EARLY_MAX ? malloc(sizeof(*r)) : NULL;

	if (!r)
		return false;
	r->due_ms = now_ms + CM_EARLY_MS;
	r->d = *d;
	memcpy(r->data, d->data, sizeof(r->data));
	r->d.data = r->data;
	cm_early_put_back(e, r);
	return true;
}

void cm_early_put_back(struct cm_early *e, struct cm_early_req *r)
{
	list_append(&e->kept, &r->node);
	e->n++;
}

struct cm_early_req *cm_early_take(struct cm_early *e)
{
	struct cm_early_req *r = first_of(e);

	if (r) {
		list_remove(&r->node);
		e->n--;
	}
	return r;
}

uint64_t cm_early_next_ms(const struct cm_early *e)
{
	const struct cm_early_req *r = first_of(e);

	return r ? r->due_ms : UINT64_MAX;
}
