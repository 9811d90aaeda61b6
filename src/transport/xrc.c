/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/xrc.h"

#include <errno.h>
#include <stdlib.h>

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

void xrc_table_init(struct slot_table *t)
{
	slot_table_init(t, INDEX_COUNT);
}

int xrc_srq_init(struct rocemu_srq *srq, struct rocemu_xrcd *xrcd, struct rocemu_cq *cq)
{
	struct slot slot;

	if (slot_init(&xrcd->ep->xrc_srqs, &xrcd->ep->rng, srq, &slot))
		return -ENOMEM;
	srq->num = slot.index | (uint32_t)slot.tag << INDEX_BITS;
	srq->xrcd = xrcd;
	srq->cq = cq;
	xrcd->refs++;
	cq->refs++;
	return 0;
}

void xrc_srq_fini(struct rocemu_srq *srq)
{
	struct slot slot = {.index = srq->num % INDEX_COUNT, .tag = (uint8_t)(srq->num >> INDEX_BITS)};

	list_for_each (n, &srq->xrcd->targets)
		resp_forget_srq(list_entry(n, struct rocemu_qp, target_link), srq);
	slot_fini(&srq->xrcd->ep->xrc_srqs, slot);
	srq->xrcd->refs--;
	srq->cq->refs--;
}

struct rocemu_srq *xrc_srq_find(const struct rocemu_qp *qp, uint32_t srqn)
{
	struct rocemu_srq *srq = slot_at(&qp->ep->xrc_srqs, srqn % INDEX_COUNT);

	return srq && srq->num == srqn && srq->xrcd == qp->xrcd ? srq : NULL;
}
