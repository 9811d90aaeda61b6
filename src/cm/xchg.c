/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/xchg.h"

#include <string.h>

#include "base/timescale.h"
#include "cm/cm-internal.h"

void xchg_init(struct xchg *x, struct cm *cm, const struct xchg_ops *ops,
	       const struct cm_addr *addr)
{
	x->cm = cm;
	x->ops = ops;
	x->addr = *addr;
	x->cell = cm_cell(cm, &addr->dst, addr->sport);
	list_init(&x->tx_link);
	list_init(&x->linger_link);
}

static void xchg_timer_stop(struct xchg *x)
{
	if (timer_running(&x->timer))
		timer_stop(&x->cm->timers, &x->timer);
}

void xchg_fini(struct xchg *x)
{
	xchg_timer_stop(x);
	list_remove(&x->tx_link);
	if (list_linked(&x->linger_link))
		share_give(&x->cm->lingerers, x->cell);
	list_remove(&x->linger_link);
}

void xchg_timer_set(struct xchg *x, rocemu_ns_t now, rocemu_ns_t wait)
{
	timer_set(&x->cm->timers, &x->timer, now + timescale_wait(x->cm->cfg.time_scale, wait));
}

void xchg_timer_extend(struct xchg *x, rocemu_ns_t now, rocemu_ns_t wait)
{
	if (x->timer.deadline < now + timescale_wait(x->cm->cfg.time_scale, wait))
		xchg_timer_set(x, now, wait);
}

static void put(struct xchg *x, struct xchg_mad *slot)
{
	slot->pending = true;
	if (!list_linked(&x->tx_link))
		list_append(&x->cm->tx, &x->tx_link);
}

void xchg_request(struct xchg *x, rocemu_ns_t now, const struct rocemu_cm_msg *m,
		  rocemu_ns_t interval, uint8_t retries)
{
	rocemu_cm_encode(m, x->request.data);
	x->request.attr_id = m->attr_id;
	x->interval = interval;
	x->retries = retries;
	put(x, &x->request);
	xchg_timer_set(x, now, interval);
}

void xchg_stop(struct xchg *x)
{
	xchg_timer_stop(x);
	x->request.attr_id = 0;
	x->request.pending = false;
	if (!x->answer.pending)
		list_remove(&x->tx_link);
}

void xchg_retry(struct xchg *x, rocemu_ns_t now)
{
	if (x->retries == 0) {
		x->cm->stats.timeouts++;
		return;
	}
	x->retries--;
	x->cm->stats.retries++;
	put(x, &x->request);
	xchg_timer_set(x, now, x->interval);
}

void xchg_skip(struct xchg *x, rocemu_ns_t now)
{
	x->retries--;
	xchg_timer_set(x, now, x->interval);
}

bool xchg_may_repeat(struct xchg *x, rocemu_ns_t now)
{
	const rocemu_ns_t second =
		now / timescale_wait(x->cm->cfg.time_scale, CM_UNASKED_PERIOD_NS);

	if (second != x->cm->unasked_second)
		memset(x->cm->unasked, 0, sizeof(x->cm->unasked));
	x->cm->unasked_second = second;
	if (x->cm->unasked[x->cell] < CM_UNASKED) {
		x->cm->unasked[x->cell]++;
		return true;
	}
	if (x->cm->earned[x->cell]) {
		x->cm->earned[x->cell]--;
		return true;
	}
	x->cm->stats.withheld++;
	return false;
}

void xchg_answered(struct xchg *x)
{
	uint16_t *earned = &x->cm->earned[x->cell];

	*earned = (uint16_t)MIN(*earned + CM_EARNED, CM_EARNED_MAX);
}

void xchg_request_again(struct xchg *x)
{
	x->cm->stats.answers++;
	put(x, &x->request);
}

void xchg_answer_later(struct xchg *x, const struct rocemu_cm_msg *m)
{
	rocemu_cm_encode(m, x->answer.data);
	x->answer.attr_id = m->attr_id;
}

void xchg_answer(struct xchg *x, const struct rocemu_cm_msg *m)
{
	xchg_answer_later(x, m);
	put(x, &x->answer);
}

bool xchg_answer_again(struct xchg *x, uint16_t attr_id)
{
	if (x->answer.attr_id != attr_id)
		return false;
	x->cm->stats.answers++;
	put(x, &x->answer);
	return true;
}

/* ---- output ---- */

static void count_sent(struct cm *cm, uint16_t attr_id)
{
	cm->stats.sent[attr_id - ROCEMU_CM_REQ]++;
}

void cm_answer_stray(struct cm *cm, const struct cm_addr *from, const struct rocemu_cm_msg *m)
{
	struct cm_mad *out;

	if (cm->answer_count == CM_ANSWERS) {
		cm->stats.unsent++;
		return;
	}
	out = &cm->answers[(cm->answer_first + cm->answer_count++) % CM_ANSWERS];
	rocemu_cm_encode(m, out->data);
	out->addr = cm_addr_back(from);
	count_sent(cm, m->attr_id);
}

static void take(struct xchg *x, struct xchg_mad *slot, struct cm_mad *out)
{
	slot->pending = false;
	memcpy(out->data, slot->data, sizeof(out->data));
	out->addr = x->addr;
	count_sent(x->cm, slot->attr_id);
}

/** Answers first: an RTU leaves before a DREQ that was requested at the same time. */
static unsigned output_kept(struct cm *cm, struct cm_mad *out, unsigned n)
{
	unsigned filled = 0;
	struct list *l;

	while (filled < n && (l = list_first(&cm->tx))) {
		struct xchg *x = list_entry(l, struct xchg, tx_link);

		take(x, x->answer.pending ? &x->answer : &x->request, &out[filled++]);
		if (!x->request.pending) {
			list_remove(&x->tx_link);
			x->ops->settle(x);
		}
	}
	return filled;
}

unsigned cm_output(struct cm *cm, rocemu_ns_t now, struct cm_mad *out, unsigned n)
{
	unsigned filled = 0;

	(void)now;
	while (filled < n && cm->answer_count > 0) {
		out[filled++] = cm->answers[cm->answer_first];
		cm->answer_first = (cm->answer_first + 1) % CM_ANSWERS;
		cm->answer_count--;
	}
	return filled + output_kept(cm, out + filled, n - filled);
}

/* ---- exchanges that the consumer has finished with ---- */

/** End all waits of x; it is freed as soon as its exit MAD is reported. */
static void forget(struct xchg *x)
{
	list_remove(&x->linger_link);
	share_give(&x->cm->lingerers, x->cell);
	x->answer.pending = false;
	xchg_stop(x);
	x->ops->end(x);
	x->ops->settle(x);
}

void xchg_linger(struct xchg *x)
{
	struct cm *cm = x->cm;

	x->detached = true;
	list_append(&cm->lingering[x->cell], &x->linger_link);
	share_take(&cm->lingerers, x->cell);
	x->ops->settle(x);
	if (cm->lingerers.used > cm->cfg.max_lingering) {
		struct list *l = list_first(&cm->lingering[share_greediest(&cm->lingerers)]);

		cm->stats.evicted++;
		forget(list_entry(l, struct xchg, linger_link));
	}
}
