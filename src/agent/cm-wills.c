/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/cm-wills.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static struct list *bucket_of(struct cm_wills *w, uint32_t comm_id)
{
	return &w->by_id[comm_id * 0x9e3779b1u >> 20];
}

void cm_wills_init(struct cm_wills *w)
{
	for (unsigned i = 0; i < CM_WILLS_BUCKETS; i++)
		list_init(&w->by_id[i]);
	list_init(&w->due);
	w->due_count = 0;
	w->given_up = 0;
	w->taken = NULL;
}

static struct cm_will_entry *find(struct cm_wills *w, uint32_t comm_id)
{
	list_for_each (it, bucket_of(w, comm_id)) {
		struct cm_will_entry *e = list_entry(it, struct cm_will_entry, by_id);

		if (e->comm_id == comm_id)
			return e;
	}
	return NULL;
}

static void forget(struct cm_wills *w, struct cm_will_entry *e)
{
	if (e->due)
		w->due_count--;
	list_remove(&e->by_id);
	list_remove(&e->node);
	free(e);
}

/* 4.096 us * 2^code in milliseconds, within bounds. */
static uint32_t interval_ms(uint8_t code)
{
	uint64_t ms = (4096ull << (code & 31)) / 1000000;

	return (uint32_t)MAX(MIN(ms, (uint64_t)CM_WILLS_MS_MAX), (uint64_t)CM_WILLS_MS_MIN);
}

int cm_wills_set(struct cm_wills *w, struct list *of_client, unsigned *count,
		 const struct cm_frame *f, bool repeat)
{
	struct cm_will_entry *e = find(w, f->comm_id);

	if (!e) {
		if (*count >= AGENT_CM_WILLS_MAX)
			return -ENOBUFS;
		e = calloc(1, sizeof(*e));
		if (!e)
			return -ENOMEM;
		e->comm_id = f->comm_id;
		list_append(bucket_of(w, f->comm_id), &e->by_id);
		list_append(of_client, &e->node);
		++*count;
	}
	e->interval_ms = interval_ms(f->cm_timeout);
	e->repeat = repeat;
	e->left = repeat ? 1u + f->retries : 1;
	e->dgram = f->d;
	memcpy(e->bytes, f->d.data, AGENT_CM_DGRAM_LEN);
	e->dgram.data = e->bytes;
	return 0;
}

void cm_wills_clear(struct cm_wills *w, unsigned *count, uint32_t comm_id)
{
	struct cm_will_entry *e = find(w, comm_id);

	if (!e)
		return;
	forget(w, e);
	--*count;
}

/* Into the order of due times; mostly it is the last. */
static void insert_due(struct cm_wills *w, struct cm_will_entry *e)
{
	struct list *before = w->due.prev;

	while (before != &w->due &&
	       list_entry(before, struct cm_will_entry, node)->due_ms > e->due_ms)
		before = before->prev;
	list_append(before->next, &e->node);
}

void cm_wills_execute(struct cm_wills *w, struct list *of_client, uint64_t now_ms)
{
	list_for_each_safe (it, next, of_client) {
		struct cm_will_entry *e = list_entry(it, struct cm_will_entry, node);

		list_remove(&e->node);
		e->due = true;
		e->due_ms = now_ms;
		w->due_count++;
		insert_due(w, e);
	}
}

void cm_wills_forget(struct cm_wills *w, struct list *of_client)
{
	list_for_each_safe (it, next, of_client)
		forget(w, list_entry(it, struct cm_will_entry, node));
}

static bool is_of(const struct cm_will_entry *e, uint16_t number)
{
	return e->comm_id >> AGENT_CM_ID_BITS == number;
}

void cm_wills_recall(struct cm_wills *w, uint16_t number)
{
	list_for_each_safe (it, next, &w->due)
		if (is_of(list_entry(it, struct cm_will_entry, node), number))
			forget(w, list_entry(it, struct cm_will_entry, node));
}

bool cm_wills_linger(const struct cm_wills *w, uint16_t number)
{
	list_for_each (it, &w->due)
		if (is_of(list_entry(it, struct cm_will_entry, node), number))
			return true;
	return false;
}

bool cm_wills_answered(struct cm_wills *w, uint32_t comm_id, const struct rocemu_gid *src)
{
	struct cm_will_entry *e = find(w, comm_id);

	if (!e || !e->due || memcmp(e->dgram.dst.raw, src->raw, sizeof(src->raw)) != 0)
		return false;
	forget(w, e);
	return true;
}

uint64_t cm_wills_next_ms(const struct cm_wills *w)
{
	struct list *first = list_first(&w->due);

	return first ? list_entry(first, struct cm_will_entry, node)->due_ms : UINT64_MAX;
}

static void free_taken(struct cm_wills *w)
{
	free(w->taken);
	w->taken = NULL;
}

void cm_wills_fini(struct cm_wills *w)
{
	cm_wills_forget(w, &w->due);
	free_taken(w);
}

/* Sent for the last time, and there is no answer to wait for. */
static void take_last(struct cm_wills *w, struct cm_will_entry *e)
{
	w->due_count--;
	list_remove(&e->by_id);
	w->taken = e;
}

const struct agent_cm_dgram *cm_wills_take(struct cm_wills *w, uint64_t now_ms)
{
	struct list *first;

	free_taken(w);
	while ((first = list_first(&w->due))) {
		struct cm_will_entry *e = list_entry(first, struct cm_will_entry, node);

		if (e->due_ms > now_ms)
			break;
		if (e->left == 0) {
			w->given_up++;
			forget(w, e);
			continue;
		}
		list_remove(&e->node);
		e->left--;
		if (e->repeat) {
			e->due_ms = now_ms + e->interval_ms;
			insert_due(w, e);
		} else {
			take_last(w, e);
		}
		return &e->dgram;
	}
	return NULL;
}
