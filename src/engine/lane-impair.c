/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Impairment on the way out, so that each process decides about its own packets, and the port's flaps. What goes at once
 * and unharmed keeps to lane_tx_send(), bursts and all; the rest is copied, ICRC included, and sent
 * singly.
 *
 * Held-back packets leave when their time has come: a delay that was drawn, or, for reordering,
 * once a few packets have overtaken. A delay range lets packets overtake each other too.
 *
 * A port that is down neither sends nor takes packets. What is on its way already (held back) arrives.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/lane-internal.h"

enum {
	HELD_MAX = 8192,	   /* packets held back at most; beyond, the "link" loses them */
	REORDER_WAIT_NS = 1000000, /* ... or sent after this when nothing follows */
};

struct held {
	struct list node;
	rocemu_ns_t due;
	unsigned overtakers; /* leaves when it reaches 0; ignored when 0 from the start */
	struct rocemu_path path;
	size_t len;
	uint8_t data[];
};

struct lane_impair {
	struct list queue; /* of struct held, by due */
	unsigned count;
};

int lane_impair_init(struct lane *l)
{
	l->held = malloc(sizeof(*l->held));
	if (!l->held)
		return -1;
	list_init(&l->held->queue);
	l->held->count = 0;
	log_info("%s: impairment: seed %llu", l->device, (unsigned long long)l->impair.seed);
	return 0;
}

void lane_set_link(struct lane *l, bool up)
{
	lane_lock(l);
	l->stats.impair_flaps += !up && !l->down;
	l->down = !up;
	lane_unlock(l);
}

void lane_impair_fini(struct lane *l)
{
	if (!l->held)
		return;
	list_for_each_safe (it, tmp, &l->held->queue)
		free(list_entry(it, struct held, node));
	free(l->held);
	l->held = NULL;
}

/* A copy of the packet as it goes on the wire on its own. NULL: no memory. */
static struct held *held_new(const struct rocemu_path *path, struct rocemu_tx *t)
{
	struct held *h = malloc(sizeof(*h) + rocemu_tx_len(t));

	if (!h)
		return NULL;
	list_init(&h->node);
	h->path = *path;
	h->len = rocemu_tx_len(t);
	h->overtakers = 0;
	lane_tx_copy(t, h->data);
	return h;
}

/* Behind all that are due earlier or at the same time. */
static void enqueue(struct lane_impair *q, struct held *h)
{
	struct list *at = q->queue.prev;

	while (at != &q->queue && list_entry(at, struct held, node)->due > h->due)
		at = at->prev;
	list_append(at->next, &h->node);
	q->count++;
}

static void release(struct lane *l, struct held *h) REQUIRES(l);
static void release(struct lane *l, struct held *h)
{
	list_remove(&h->node);
	l->held->count--;
	lane_tx_send_raw(l, &h->path, h->data, h->len);
	free(h);
}

/* One more packet has left: reordered ones have been overtaken once more. */
static void overtake(struct lane *l) REQUIRES(l);
static void overtake(struct lane *l)
{
	list_for_each_safe (it, tmp, &l->held->queue) {
		struct held *h = list_entry(it, struct held, node);

		if (h->overtakers && --h->overtakers == 0)
			release(l, h);
	}
}

/* Copy, harm and hold back, or send, one packet. */
static void send_copy(struct lane *l, rocemu_ns_t now, struct rocemu_tx *t,
		      const struct impair_fate *f) REQUIRES(l);
static void send_copy(struct lane *l, rocemu_ns_t now, struct rocemu_tx *t,
		      const struct impair_fate *f)
{
	struct rocemu_path path = *t->path;
	const struct rocemu_path *asked = t->path;
	struct txsock *s = lane_tx_sock(l, t->path);
	struct held *h;

	if (!s || l->held->count >= HELD_MAX) {
		l->stats.impair_lost++;
		return;
	}
	path.sport = s->port;
	if (!path.hop_limit)
		path.hop_limit = s->hop_limit ? s->hop_limit : 64;
	t->path = &path;
	h = held_new(&path, t);
	t->path = asked;
	if (!h) {
		l->stats.impair_lost++;
		return;
	}
	if (f->corrupt_bits)
		impair_corrupt(&l->impair, h->data, h->len, f->corrupt_bits);
	h->due = now + f->delay_ns;
	if (f->overtakers) {
		h->overtakers = f->overtakers;
		h->due += REORDER_WAIT_NS;
	}
	enqueue(l->held, h);
	if (h->due <= now)
		release(l, h);
}

static void count_fate(struct lane *l, const struct impair_fate *f) REQUIRES(l);
static void count_fate(struct lane *l, const struct impair_fate *f)
{
	l->stats.impair_lost += f->lost;
	l->stats.impair_dup += f->dup;
	l->stats.impair_reorder += f->overtakers > 0;
	l->stats.impair_corrupt += f->corrupt_bits > 0;
	l->stats.impair_delay += f->delay_ns > 0;
}

void lane_impair_send(struct lane *l, rocemu_ns_t now, struct rocemu_tx **pkt, unsigned n)
{
	struct rocemu_tx *plain[ROCEMU_OUTPUT_BATCH];
	unsigned nplain = 0;

	if (l->down) {
		l->stats.impair_down += n;
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		const struct impair_fate f = impair_roll(&l->impair);
		const bool unharmed = !f.dup && !f.overtakers && !f.corrupt_bits && !f.delay_ns;

		count_fate(l, &f);
		if (f.lost)
			continue;
		if (unharmed) {
			plain[nplain++] = pkt[i];
			/* Whoever waits to be overtaken must see it leave. */
			if (list_empty(&l->held->queue))
				continue;
		}
		lane_tx_send(l, plain, nplain);
		nplain = 0;
		if (!unharmed)
			send_copy(l, now, pkt[i], &f);
		if (f.dup)
			send_copy(l, now, pkt[i], &f);
		if (!f.overtakers)
			overtake(l);
	}
	lane_tx_send(l, plain, nplain);
}

rocemu_ns_t lane_impair_deadline(const struct lane *l)
{
	struct list *first = l->held ? list_first(&l->held->queue) : NULL;

	return first ? list_entry(first, struct held, node)->due : ROCEMU_NEVER;
}

void lane_impair_expire(struct lane *l, rocemu_ns_t now)
{
	struct list *first;

	while (l->held && (first = list_first(&l->held->queue)) != NULL) {
		struct held *h = list_entry(first, struct held, node);

		if (h->due > now)
			break;
		release(l, h);
	}
}
