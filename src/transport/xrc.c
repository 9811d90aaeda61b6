/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/xrc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/qp.h"

enum { INDEX_BITS = 16, INDEX_COUNT = 1 << INDEX_BITS };

/* ---- domains ---- */

struct rocemu_xrcd *rocemu_xrcd_new(struct rocemu_ep *ep)
{
	struct rocemu_xrcd *xrcd = calloc(1, sizeof(*xrcd));

	if (!xrcd)
		return NULL;
	xrcd->ep = ep;
	list_init(&xrcd->targets);
	list_append(&ep->xrcds, &xrcd->link);
	return xrcd;
}

int rocemu_xrcd_free(struct rocemu_xrcd *xrcd)
{
	if (xrcd->refs)
		return -EBUSY;
	list_remove(&xrcd->link);
	free(xrcd);
	return 0;
}

/* ---- numbers ---- */

void xrc_table_init(struct xrc_srq_table *t)
{
	*t = (struct xrc_srq_table){0};
}

void xrc_table_fini(struct xrc_srq_table *t)
{
	free(t->slots);
	free(t->tags);
}

static int table_resize(struct xrc_srq_table *t)
{
	uint32_t size = t->size ? 2 * t->size : 16;
	struct rocemu_srq **slots;
	uint8_t *tags;

	if (size > INDEX_COUNT)
		return -ENOMEM;
	slots = realloc(t->slots, size * sizeof(struct rocemu_srq *));
	if (!slots)
		return -ENOMEM;
	t->slots = slots;
	tags = realloc(t->tags, size);
	if (!tags)
		return -ENOMEM;
	t->tags = tags;
	memset(&slots[t->size], 0, (size - t->size) * sizeof(struct rocemu_srq *));
	memset(&tags[t->size], 0, size - t->size);
	t->size = size;
	return 0;
}

/** A free index, but never 0: number 0 is nobody's. */
static int table_take(struct xrc_srq_table *t, uint32_t *index)
{
	for (uint32_t i = 0; i < t->size; i++) {
		uint32_t at = (t->next + i) % t->size;

		if (at && !t->slots[at]) {
			*index = at;
			t->next = at + 1;
			return 0;
		}
	}
	t->next = t->size ? t->size : 1;
	if (table_resize(t))
		return -ENOMEM;
	*index = t->next++;
	return 0;
}

int xrc_srq_init(struct rocemu_srq *srq, struct rocemu_xrcd *xrcd, struct rocemu_cq *cq)
{
	struct xrc_srq_table *t = &xrcd->ep->xrc_srqs;
	uint32_t index;

	if (table_take(t, &index))
		return -ENOMEM;
	t->slots[index] = srq;
	srq->num = index | (uint32_t)t->tags[index] << INDEX_BITS;
	srq->xrcd = xrcd;
	srq->cq = cq;
	xrcd->refs++;
	cq->refs++;
	return 0;
}

void xrc_srq_fini(struct rocemu_srq *srq)
{
	struct xrc_srq_table *t = &srq->xrcd->ep->xrc_srqs;
	uint32_t index = srq->num % INDEX_COUNT;

	list_for_each (n, &srq->xrcd->targets)
		resp_forget_srq(list_entry(n, struct rocemu_qp, target_link), srq);
	t->slots[index] = NULL;
	t->tags[index]++;
	srq->xrcd->refs--;
	srq->cq->refs--;
}

struct rocemu_srq *xrc_srq_find(const struct rocemu_qp *qp, uint32_t srqn)
{
	const struct xrc_srq_table *t = &qp->ep->xrc_srqs;
	uint32_t index = srqn % INDEX_COUNT;
	struct rocemu_srq *srq = index < t->size ? t->slots[index] : NULL;

	return srq && srq->num == srqn && srq->xrcd == qp->xrcd ? srq : NULL;
}
