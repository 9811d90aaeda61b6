/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/show.h"

#include <string.h>

#include "transport/qp.h"

void show_object(struct rocemu_ep *ep, enum rocemu_object kind, int by)
{
	ep->objects[kind] += (uint32_t)by;
	if (ep->shown)
		__atomic_store_n(&ep->shown->objects[kind], ep->objects[kind], __ATOMIC_RELAXED);
}

enum { WORD_BITS = 64 };

static uint32_t part_of(uint32_t qpn)
{
	return qpn % QPN_COUNT / ROCEMU_SHOWN_PART;
}

bool rocemu_ep_shows_part(const struct rocemu_ep *ep, uint32_t qpn)
{
	const uint32_t part = part_of(qpn);

	return ep->shown && ep->shown_parts[part / WORD_BITS] >> part % WORD_BITS & 1;
}

void show_qp(struct rocemu_qp *qp)
{
	struct rocemu_ep *ep = qp->ep;
	struct rocemu_qp_info *info;

	if (!rocemu_ep_shows_part(ep, qp->qpn))
		return;
	info = &ep->shown->qp[qp->qpn % QPN_COUNT];
	info->dest_qpn = qp->attr.dest_qp_num;
	info->rq_psn = qp->resp.epsn;
	info->sq_psn = qp->req.next_psn;
	info->type = (uint8_t)qp->type;
	info->state = (uint8_t)qp->state;
	info->mig_state = (uint8_t)qp->attr.path_mig_state;
	/* Set last: it marks the entry as valid. */
	__atomic_store_n(&info->qpn, qp->qpn, __ATOMIC_RELEASE);
}

void show_qp_gone(struct rocemu_qp *qp)
{
	if (rocemu_ep_shows_part(qp->ep, qp->qpn))
		__atomic_store_n(&qp->ep->shown->qp[qp->qpn % QPN_COUNT].qpn, 0, __ATOMIC_RELEASE);
}

void rocemu_ep_show(struct rocemu_ep *ep, struct rocemu_ep_shown *to)
{
	ep->shown = to;
	memset(ep->shown_parts, 0, sizeof(ep->shown_parts));
	for (unsigned kind = 0; to && kind < ROCEMU_OBJECT_COUNT; kind++)
		show_object(ep, (enum rocemu_object)kind, 0);
}

void rocemu_ep_show_part(struct rocemu_ep *ep, uint32_t qpn)
{
	const uint32_t part = part_of(qpn), first = part * ROCEMU_SHOWN_PART;

	ep->shown_parts[part / WORD_BITS] |= UINT64_C(1) << part % WORD_BITS;
	for (uint32_t i = first; ep->qps && i < first + ROCEMU_SHOWN_PART; i++)
		if (ep->qps[i])
			show_qp(ep->qps[i]);
}
