/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint's creation and end, its events and its protection domains. Input, output and timers:
 * drive.c.
 */
#include "transport/ep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "transport/cq.h"
#include "transport/mcast.h"
#include "transport/qp.h"
#include "transport/rq.h"
#include "transport/show.h"
#include "transport/why.h"

struct rocemu_ep *rocemu_ep_new(const struct rocemu_ep_config *config)
{
	struct rocemu_ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->cfg = *config;
	ep->traits_in_headers = config->traits.no_migreq || config->traits.sends_credits;
	if (!ep->cfg.read_budget)
		ep->cfg.read_budget = EP_DEFAULT_READ_BUDGET;
	if (!ep->cfg.max_rd_atomic || ep->cfg.max_rd_atomic > ROCEMU_MAX_RD_ATOMIC)
		ep->cfg.max_rd_atomic = ROCEMU_MAX_RD_ATOMIC;
	if (!ep->cfg.active_mtu)
		ep->cfg.active_mtu = IBV_MTU_4096;
	ep->scratch = malloc((size_t)ROCEMU_OUTPUT_BATCH * ROCEMU_MAX_MTU);
	if (!ep->scratch || keep_init(&ep->keep)) {
		free(ep->scratch);
		free(ep);
		return NULL;
	}
	ep->stats = &ep->own_stats;
	ep->slot = UINT32_MAX;
	ep->prf = (struct prf){.key = {config->seed, ~config->seed}};
	rng_init(&ep->rnr_dice, config->rnr_seed);
	mr_table_init(&ep->own_mrs);
	ep->home = config->domains_of ? config->domains_of->home : ep;
	ep->mrs = &ep->home->own_mrs;
	timer_heap_init(&ep->timers);
	list_init(&ep->tx_ready);
	list_init(&ep->tx_acks);
	list_init(&ep->tx_pending);
	list_init(&ep->events);
	list_init(&ep->room_waiting);
	list_init(&ep->read_waiting);
	ep->send_credits = UINT64_MAX;
	list_init(&ep->pds);
	list_init(&ep->cqs);
	list_init(&ep->srqs);
	list_init(&ep->xrcds);
	xrc_table_init(&ep->xrc_srqs);
	return ep;
}

void rocemu_ep_clear(struct rocemu_ep *ep)
{
	for (uint32_t i = 0; ep->qps && i < QPN_COUNT; i++)
		if (ep->qps[i]) {
			mcast_members_free(ep->qps[i]);
			rocemu_qp_destroy(ep->qps[i]);
		}
	list_for_each_safe (s, snext, &ep->srqs)
		rocemu_srq_destroy(list_entry(s, struct rocemu_srq, link));
}

void rocemu_ep_free(struct rocemu_ep *ep)
{
	if (!ep)
		return;
	rocemu_ep_clear(ep);
	list_for_each_safe (c, cnext, &ep->cqs)
		rocemu_cq_destroy(list_entry(c, struct rocemu_cq, link));
	list_for_each_safe (x, xnext, &ep->xrcds)
		rocemu_xrcd_free(list_entry(x, struct rocemu_xrcd, link));
	slot_table_fini(&ep->xrc_srqs);
	mr_table_fini(&ep->own_mrs);
	list_for_each_safe (p, pnext, &ep->pds)
		free(list_entry(p, struct rocemu_pd, link));
	timer_heap_fini(&ep->timers);
	keep_fini(&ep->keep);
	hash_fini(&ep->peers);
	hash_fini(&ep->mcast_groups);
	hash_fini(&ep->mcast_members);
	free(ep->qps);
	free(ep->qpns);
	free(ep->scratch);
	free(ep);
}

int rocemu_ep_set_slot(struct rocemu_ep *ep, uint16_t slot, uint16_t first_index)
{
	if (slot > 1023)
		return -EINVAL;
	if (ep->nqps)
		return -EBUSY;
	if (!ep->qpns)
		ep->qpns = calloc(1, sizeof(*ep->qpns));
	if (ep->qpns && !ep->qps)
		ep->qps = calloc(QPN_COUNT, sizeof(struct rocemu_qp *));
	if (!ep->qps)
		return -ENOMEM;
	ep->slot = slot;
	qpn_init(ep->qpns, first_index);
	return 0;
}

int rocemu_ep_set_gid(struct rocemu_ep *ep, unsigned index, const struct rocemu_gid *gid)
{
	if (index >= ROCEMU_MAX_GID)
		return -EINVAL;
	ep->gid_valid[index] = gid != NULL;
	if (gid)
		ep->gids[index] = *gid;
	return 0;
}

int ep_find_gid(const struct rocemu_ep *ep, const struct rocemu_gid *gid)
{
	for (int i = 0; i < ROCEMU_MAX_GID; i++)
		if (ep->gid_valid[i] && rocemu_gid_equal(&ep->gids[i], gid))
			return i;
	return -1;
}

void rocemu_ep_fail(struct rocemu_ep *ep, rocemu_ns_t now)
{
	for (uint32_t i = 0; ep->qps && i < QPN_COUNT; i++)
		if (ep->qps[i] && ep->qps[i]->state != IBV_QPS_RESET) {
			if (ep->qps[i]->state != IBV_QPS_ERR)
				why_qp(ep->qps[i],
				       (struct rocemu_why){.code = ROCEMU_WHY_DEVICE_GONE});
			qp_fail(ep->qps[i], now);
		}
}

void rocemu_ep_set_active_mtu(struct rocemu_ep *ep, enum ibv_mtu mtu)
{
	ep->cfg.active_mtu = mtu;
}

const struct rocemu_ep_stats *rocemu_ep_get_stats(const struct rocemu_ep *ep)
{
	return ep->stats;
}

void rocemu_ep_count_in(struct rocemu_ep *ep, struct rocemu_ep_stats *to)
{
	if (!to)
		to = &ep->own_stats;
	if (to == ep->stats)
		return;
	*to = *ep->stats;
	ep->stats = to;
}

/* ---- events ---- */

void event_src_init(struct event_src *s, enum rocemu_event_type type)
{
	list_init(&s->link);
	s->pending = 0;
	s->type = type;
}

void event_raise(struct rocemu_ep *ep, struct event_src *s, uint32_t bit)
{
	s->pending |= bit;
	if (!list_linked(&s->link))
		list_append(&ep->events, &s->link);
}

void event_src_move(struct rocemu_ep *to, struct event_src *s)
{
	if (!list_linked(&s->link))
		return;
	list_remove(&s->link);
	list_append(&to->events, &s->link);
}

void event_src_fini(struct event_src *s)
{
	list_remove(&s->link);
	s->pending = 0;
}

/** Lowest pending bit of a source, taken out of it. */
static uint32_t event_take_bit(struct event_src *s)
{
	uint32_t bit = (uint32_t)__builtin_ctz(s->pending);

	s->pending &= s->pending - 1;
	return bit;
}

bool rocemu_ep_has_event(const struct rocemu_ep *ep)
{
	return !list_empty(&ep->events);
}

bool rocemu_ep_next_event(struct rocemu_ep *ep, struct rocemu_event *ev)
{
	struct list *n = list_first(&ep->events);
	struct event_src *s;
	uint32_t bit;

	if (!n)
		return false;
	s = list_entry(n, struct event_src, link);
	bit = event_take_bit(s);
	if (!s->pending)
		list_remove(n);
	*ev = (struct rocemu_event){.type = s->type};
	switch (s->type) {
	case ROCEMU_EVENT_CQ:
	case ROCEMU_EVENT_CQ_ERR:
		ev->u.cq = container_of(s, struct rocemu_cq, ev);
		if (1u << bit == CQ_PEND_ERR) {
			ev->type = ROCEMU_EVENT_CQ_ERR;
			ev->async = IBV_EVENT_CQ_ERR;
		} else {
			ep->stats->cq_events++;
			ev->u.cq->notified =
				atomic_load_explicit(&ev->u.cq->head, memory_order_relaxed);
			ev->late = ev->u.cq->was_late != CQ_DISARMED;
			ev->solicited_only = ev->u.cq->was_late == CQ_ARMED_SOLICITED;
		}
		break;
	case ROCEMU_EVENT_QP:
		ev->u.qp = container_of(s, struct rocemu_qp, ev);
		ev->async = (enum ibv_event_type)bit;
		break;
	case ROCEMU_EVENT_SRQ:
		ev->u.srq = container_of(s, struct rocemu_srq, ev);
		ev->async = (enum ibv_event_type)bit;
		break;
	}
	return true;
}

/* ---- protection domains ---- */

struct rocemu_pd *rocemu_pd_new(struct rocemu_ep *ep)
{
	struct rocemu_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->ep = ep->home;
	list_append(&pd->ep->pds, &pd->link);
	show_object(pd->ep, ROCEMU_OBJECT_PD, 1);
	return pd;
}

int rocemu_pd_free(struct rocemu_pd *pd)
{
	if (__atomic_load_n(&pd->refs, __ATOMIC_ACQUIRE))
		return -EBUSY;
	list_remove(&pd->link);
	show_object(pd->ep, ROCEMU_OBJECT_PD, -1);
	free(pd);
	return 0;
}
