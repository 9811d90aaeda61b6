/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/timer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"

void timer_heap_init(struct timer_heap *h)
{
	*h = (struct timer_heap){0};
}

void timer_heap_fini(struct timer_heap *h)
{
	free(h->heap);
}

int timer_reserve(struct timer_heap *h)
{
	if (h->reserved == h->room) {
		uint32_t room = h->room ? 2 * h->room : 16;
		struct timer **heap = realloc(h->heap, room * sizeof(struct timer *));

		if (!heap)
			return -ENOMEM;
		h->heap = heap;
		h->room = room;
	}
	h->reserved++;
	return 0;
}

void timer_release(struct timer_heap *h)
{
	assert(h->reserved > h->count);
	h->reserved--;
}

static void place(struct timer_heap *h, uint32_t i, struct timer *t)
{
	h->heap[i] = t;
	t->pos = i + 1;
}

/** Let t, whose place i is free, rise or sink to where it belongs. */
static void settle(struct timer_heap *h, uint32_t i, struct timer *t)
{
	while (i > 0 && h->heap[(i - 1) / 2]->deadline > t->deadline) {
		place(h, i, h->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= h->count)
			break;
		if (child + 1 < h->count && h->heap[child + 1]->deadline < h->heap[child]->deadline)
			child++;
		if (h->heap[child]->deadline >= t->deadline)
			break;
		place(h, i, h->heap[child]);
		i = child;
	}
	place(h, i, t);
}

HOT void timer_set(struct timer_heap *h, struct timer *t, rocemu_ns_t deadline)
{
	if (!timer_running(t)) {
		assert(h->count < h->room);
		h->count++;
		t->pos = h->count;
	}
	t->deadline = deadline;
	settle(h, t->pos - 1, t);
}

HOT void timer_stop(struct timer_heap *h, struct timer *t)
{
	struct timer *last;
	uint32_t i = t->pos - 1;

	if (!timer_running(t))
		return;
	t->pos = 0;
	last = h->heap[--h->count];
	if (last != t)
		settle(h, i, last);
}

struct timer *timer_pop_due(struct timer_heap *h, rocemu_ns_t now)
{
	struct timer *t;

	if (!h->count || h->heap[0]->deadline > now)
		return NULL;
	t = h->heap[0];
	timer_stop(h, t);
	return t;
}

rocemu_ns_t timer_next(const struct timer_heap *h)
{
	return h->count ? h->heap[0]->deadline : ROCEMU_NEVER;
}
