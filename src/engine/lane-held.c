/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/lane-held.h"

#include <stdlib.h>

#define REORDER_WAIT_NS 1000000u /* a reordered packet leaves after this when nothing follows */

struct held *held_new(struct lane *l, enum fault_dir dir, size_t len)
{
	struct held *h = l->held->count < HELD_MAX ? malloc(sizeof(*h) + len) : NULL;

	if (!h) {
		l->stats->impair_lost++;
		fault_report_add(FAULT_COUNT_HELD, 1);
		return NULL;
	}
	*h = (struct held){.dir = dir, .len = len};
	list_init(&h->node);
	list_init(&h->reordered);
	return h;
}

/* Behind all that are due earlier or at the same time. */
static void enqueue(struct lane_impair *q, struct held *h)
{
	struct list *queue = &q->queue[h->dir], *at = queue->prev;

	while (at != queue && list_entry(at, struct held, node)->due > h->due)
		at = at->prev;
	list_append(at->next, &h->node);
	q->count++;
}

static void dequeue(struct lane_impair *q, struct held *h)
{
	list_remove(&h->node);
	list_remove(&h->reordered);
	q->count--;
}

static void release(struct lane *l, rocemu_ns_t now, struct held *h) REQUIRES(l);
static void release(struct lane *l, rocemu_ns_t now, struct held *h)
{
	dequeue(l->held, h);
	if (h->dir == FAULT_RX) {
		lane_impair_deliver(l, now, &h->d);
	} else {
		lane_tx_send_raw(l, &h->path, h->data, h->len);
		if (!h->alone)
			held_overtaken(l, now, h->flow);
	}
	free(h);
}

void held_add(struct lane *l, rocemu_ns_t now, struct held *h)
{
	enqueue(l->held, h);
	/*
	 * Received packets wait until the lane is driven next: the endpoint's output may call this
	 * function.
	 */
	if (h->due <= now && h->dir == FAULT_TX)
		release(l, now, h);
}

void held_add_reordered(struct lane *l, struct held *h, unsigned n)
{
	h->alone = true;
	h->overtakers = n;
	h->earliest = h->due;
	h->due += REORDER_WAIT_NS;
	list_append(&l->held->reordered, &h->reordered);
	enqueue(l->held, h);
}

void held_overtaken(struct lane *l, rocemu_ns_t now, uint32_t flow)
{
	list_for_each_safe (it, tmp, &l->held->reordered) {
		struct held *h = list_entry(it, struct held, reordered);

		if (h->flow != flow || --h->overtakers)
			continue;
		dequeue(l->held, h);
		h->due = h->earliest;
		held_add(l, now, h);
	}
}

void held_expire(struct lane *l, rocemu_ns_t now, enum fault_dir dir)
{
	struct list *first;

	while ((first = list_first(&l->held->queue[dir])) != NULL) {
		struct held *h = list_entry(first, struct held, node);

		if (h->due > now)
			break;
		release(l, now, h);
	}
}

void lane_impair_release(struct lane *l)
{
	struct list *first;

	while (l->held && (first = list_first(&l->held->queue[FAULT_TX])) != NULL) {
		struct held *h = list_entry(first, struct held, node);

		dequeue(l->held, h);
		lane_tx_send_raw(l, &h->path, h->data, h->len);
		free(h);
	}
}

static rocemu_ns_t first_due(const struct list *queue)
{
	struct list *first = list_first(queue);

	return first ? list_entry(first, struct held, node)->due : ROCEMU_NEVER;
}

rocemu_ns_t lane_impair_deadline(const struct lane *l)
{
	const struct lane_impair *im = l->held;
	rocemu_ns_t due;

	if (!im)
		return ROCEMU_NEVER;
	due = MIN(first_due(&im->queue[FAULT_TX]), first_due(&im->queue[FAULT_RX]));
	return MIN(due, im->log_due);
}

void lane_impair_expire(struct lane *l, rocemu_ns_t now)
{
	if (!l->held)
		return;
	held_expire(l, now, FAULT_TX);
	held_expire(l, now, FAULT_RX);
	if (now >= l->held->log_due) {
		l->held->log_due = ROCEMU_NEVER;
		fault_log_flush();
	}
}
