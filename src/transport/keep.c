/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/keep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DATA_BYTES ((size_t)KEEP_SLOTS * KEEP_SLOT_BYTES)

int keep_init(struct keep *k)
{
	void *data;

	*k = (struct keep){.nfree = KEEP_SLOTS};
	list_init(&k->free);
	list_init(&k->holders);
	k->slots = malloc(KEEP_SLOTS * sizeof(*k->slots));
	/* Not from the heap, which may clear memory and so map all of it. */
	data = mmap(NULL, DATA_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	k->data = data == MAP_FAILED ? NULL : data;
	if (!k->slots || !k->data) {
		keep_fini(k);
		return -ENOMEM;
	}
	return 0;
}

void keep_fini(struct keep *k)
{
	free(k->slots);
	if (k->data)
		munmap(k->data, DATA_BYTES);
	k->slots = NULL;
	k->data = NULL;
}

void keep_queue_init(struct keep_queue *q)
{
	*q = (struct keep_queue){0};
	list_init(&q->slots);
	list_init(&q->link);
}

static struct keep_slot *slot_of(struct list *node)
{
	return list_entry(node, struct keep_slot, link);
}

const uint8_t *keep_data(const struct keep *k, const struct keep_slot *s)
{
	return k->data + (size_t)(s - k->slots) * KEEP_SLOT_BYTES;
}

/** Take a free slot. There must be one. */
static struct keep_slot *slot_take(struct keep *k)
{
	struct list *n = list_first(&k->free);
	struct keep_slot *s;

	k->nfree--;
	if (n) {
		list_remove(n);
		return slot_of(n);
	}
	s = &k->slots[k->fresh++];
	list_init(&s->link);
	return s;
}

void keep_give(struct keep *k, struct keep_slot *s)
{
	list_append(k->free.next, &s->link); /* at the front: its memory is mapped */
	k->nfree++;
}

/** Remove from the queue. */
static struct keep_slot *queue_take(struct keep *k, struct keep_queue *q, struct list *node)
{
	list_remove(node);
	k->of[q->cell]--;
	if (!--q->count)
		list_remove(&q->link);
	return slot_of(node);
}

static void note_lost(struct keep_queue *q, uint32_t psn)
{
	if (!q->lost || rocemu_psn_diff(psn, q->lost_psn) > 0)
		q->lost_psn = psn;
	q->lost = true;
}

void keep_clear(struct keep *k, struct keep_queue *q)
{
	while (q->count)
		keep_give(k, queue_take(k, q, q->slots.next));
	q->lost = false;
}

static bool has_room(const struct keep *k, const struct keep_queue *q)
{
	return q->count < 2 * k->nfree && k->of[q->cell] < 4 * k->nfree;
}

/** Drop the packets of queues without progress, until there is room for q. */
static void make_room(struct keep *k, const struct keep_queue *q, rocemu_ns_t now)
{
	struct list *n;

	while (!has_room(k, q) && (n = list_first(&k->holders))) {
		struct keep_queue *old = list_entry(n, struct keep_queue, link);

		if (old == q || now < old->since || now - old->since < KEEP_STUCK_NS)
			return;
		note_lost(old, slot_of(old->slots.prev)->psn);
		while (old->count)
			keep_give(k, queue_take(k, old, old->slots.next));
	}
}

/**
 * The node after which psn belongs, or NULL: it is kept already. Packets come in order for the most
 * part, so from the end.
 */
static struct list *place_find(struct keep_queue *q, uint32_t psn)
{
	struct list *at = q->slots.prev;

	if (q->count && rocemu_psn_diff(psn, slot_of(q->slots.next)->psn) < 0)
		return &q->slots;
	while (at != &q->slots && rocemu_psn_diff(slot_of(at)->psn, psn) > 0)
		at = at->prev;
	return at != &q->slots && slot_of(at)->psn == psn ? NULL : at;
}

enum keep_result keep_add(struct keep *k, struct keep_queue *q, rocemu_ns_t now, uint32_t psn,
			  const uint8_t *hdr, uint32_t hdr_len, const uint8_t *rest,
			  uint32_t rest_len)
{
	const uint32_t len = hdr_len + rest_len;
	struct list *at = place_find(q, psn);
	struct keep_slot *s;
	uint8_t *data;

	if (!at)
		return KEEP_DOUBLE;
	make_room(k, q, now);
	if (!has_room(k, q) || len > KEEP_SLOT_BYTES) {
		note_lost(q, psn);
		return KEEP_FULL;
	}
	s = slot_take(k);
	s->psn = psn;
	s->len = len;
	data = k->data + (size_t)(s - k->slots) * KEEP_SLOT_BYTES;
	memcpy(data, hdr, hdr_len);
	memcpy(data + hdr_len, rest, rest_len);
	k->of[q->cell]++;
	list_append(at->next, &s->link); /* before at->next is behind at */
	if (!q->count++) {
		q->since = now;
		list_append(&k->holders, &q->link);
	}
	return KEEP_DONE;
}

struct keep_slot *keep_take(struct keep *k, struct keep_queue *q, rocemu_ns_t now, uint32_t psn)
{
	struct keep_slot *s;

	if (q->lost && rocemu_psn_diff(q->lost_psn, psn) < 0)
		q->lost = false;
	while (q->count && rocemu_psn_diff(slot_of(q->slots.next)->psn, psn) < 0)
		keep_give(k, queue_take(k, q, q->slots.next));
	if (!q->count || slot_of(q->slots.next)->psn != psn)
		return NULL;
	s = queue_take(k, q, q->slots.next);
	q->since = now;
	if (q->count) {
		list_remove(&q->link);
		list_append(&k->holders, &q->link);
	}
	return s;
}
