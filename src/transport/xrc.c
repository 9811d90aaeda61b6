/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/xrc.h"

#include <errno.h>
#include <stdlib.h>

#include "transport/qp.h"

enum { SRQ_MAX = 1 << 16 };

/* ---- domains ---- */

struct rocemu_xrcd *rocemu_xrcd_new(struct rocemu_ep *ep)
{
	struct rocemu_xrcd *xrcd = calloc(1, sizeof(*xrcd));

	if (!xrcd)
		return NULL;
	xrcd->ep = ep;
	list_init(&xrcd->parts);
	list_append(&ep->xrcds, &xrcd->link);
	return xrcd;
}

struct rocemu_xrcd *rocemu_xrcd_part_new(struct rocemu_ep *ep, struct rocemu_xrcd *of)
{
	struct rocemu_xrcd *xrcd = rocemu_xrcd_new(ep);

	if (xrcd)
		list_append(&of->parts, &xrcd->parts);
	return xrcd;
}

int rocemu_xrcd_free(struct rocemu_xrcd *xrcd)
{
	if (xrcd->refs)
		return -EBUSY;
	list_remove(&xrcd->parts);
	list_remove(&xrcd->link);
	free(xrcd);
	return 0;
}

/* ---- numbers ---- */

void xrc_table_init(struct slot_table *t)
{
	slot_table_init(t, SRQ_MAX);
}

static struct rocemu_srq *srq_of_part(const struct rocemu_xrcd *part, uint32_t srqn)
{
	struct rocemu_srq *srq = slot_at(&part->ep->xrc_srqs, srqn);

	return srq && srq->num == srqn && srq->xrcd == part ? srq : NULL;
}

/** In the domain's other parts. */
static struct rocemu_srq *srq_elsewhere(const struct rocemu_xrcd *xrcd, uint32_t srqn)
{
	list_for_each (n, &xrcd->parts) {
		struct rocemu_srq *srq =
			srq_of_part(list_entry(n, struct rocemu_xrcd, parts), srqn);

		if (srq)
			return srq;
	}
	return NULL;
}

/** A number that no other part of the domain has. -ENOMEM. */
static int number_init(struct rocemu_xrcd *xrcd, struct rocemu_srq *srq)
{
	struct slot_table *t = &xrcd->ep->xrc_srqs;

	while (!slot_init(t, &xrcd->ep->prf, srq, &srq->num)) {
		if (likely(!srq_elsewhere(xrcd, srq->num)))
			return 0;
		slot_fini(t, srq->num);
	}
	return -ENOMEM;
}

int xrc_srq_init(struct rocemu_srq *srq, struct rocemu_xrcd *xrcd, struct rocemu_cq *cq)
{
	if (number_init(xrcd, srq))
		return -ENOMEM;
	srq->xrcd = xrcd;
	srq->cq = cq;
	xrcd->refs++;
	cq->refs++;
	return 0;
}

void xrc_srq_fini(struct rocemu_srq *srq)
{
	list_for_each_safe (n, next, &srq->users)
		resp_forget_srq(list_entry(n, struct rocemu_qp, resp.srq_link));
	slot_fini(&srq->xrcd->ep->xrc_srqs, srq->num);
	srq->xrcd->refs--;
	srq->cq->refs--;
}

struct rocemu_srq *xrc_srq_find(const struct rocemu_qp *qp, uint32_t srqn)
{
	struct rocemu_srq *srq = srq_of_part(qp->xrcd, srqn);

	return likely(srq != NULL) ? srq : srq_elsewhere(qp->xrcd, srqn);
}
