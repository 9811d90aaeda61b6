/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-exit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static uint64_t key_of(const struct gsi_exits *w, uint32_t comm_id)
{
	const uint64_t word = comm_id;

	return prf_hash(&w->prf, &word, 1);
}

void gsi_exits_init(struct gsi_exits *w, struct quotas *quotas, struct prf prf)
{
	*w = (struct gsi_exits){.quotas = quotas, .prf = prf};
	for (unsigned i = 0; i < AGENT_GSI_CLIENTS; i++)
		list_init(&w->lingering[i]);
	for (unsigned i = 0; i < GSI_EXITS_QUEUES; i++)
		list_init(&w->due[i]);
}

static struct gsi_exit_mad *find(struct gsi_exits *w, uint32_t comm_id)
{
	hash_for_each (e, struct gsi_exit_mad, by_id, &w->by_id, key_of(w, comm_id)) {
		if (e->comm_id == comm_id)
			return e;
	}
	return NULL;
}

static void forget(struct gsi_exits *w, struct gsi_exit_mad *e)
{
	if (e->due) {
		w->due_count--;
		list_remove(&e->by_due);
	}
	hash_remove(&w->by_id, &e->by_id);
	list_remove(&e->node);
	quota_release(w->quotas, e->uid, QUOTA_EXIT_MADS, 1);
	free(e);
}

/* 4.096 us * 2^code in milliseconds, within bounds. */
static uint32_t interval_ms(uint8_t code)
{
	uint64_t ms = (4096ull << code) / 1000000;

	return (uint32_t)MAX(MIN(ms, (uint64_t)GSI_EXITS_MS_MAX), (uint64_t)GSI_EXITS_MS_MIN);
}

int gsi_exits_set(struct gsi_exits *w, struct list *of_client, unsigned *count, uint32_t uid,
		  const struct gsi_frame *f, bool repeat)
{
	struct gsi_exit_mad *e = find(w, f->comm_id);

	if (!e) {
		int r = *count < AGENT_GSI_EXITS_MAX ? quota_take(w->quotas, uid, QUOTA_EXIT_MADS)
						     : -ENOBUFS;

		if (r)
			return r;
		e = calloc(1, sizeof(*e));
		if (!e) {
			quota_release(w->quotas, uid, QUOTA_EXIT_MADS, 1);
			return -ENOMEM;
		}
		e->comm_id = f->comm_id;
		e->uid = uid;
		hash_add(&w->by_id, &e->by_id, key_of(w, f->comm_id));
		list_append(of_client, &e->node);
		++*count;
	}
	e->cm_timeout = f->cm_timeout & 31;
	e->repeat = repeat;
	e->left = repeat ? 1u + f->retries : 1;
	e->mad = f->m;
	return 0;
}

void gsi_exits_clear(struct gsi_exits *w, unsigned *count, uint32_t comm_id)
{
	struct gsi_exit_mad *e = find(w, comm_id);

	if (!e)
		return;
	forget(w, e);
	--*count;
}

static void enqueue(struct gsi_exits *w, struct gsi_exit_mad *e, unsigned queue, uint64_t due_ms)
{
	e->due_ms = due_ms;
	list_append(&w->due[queue], &e->by_due);
}

void gsi_exits_execute(struct gsi_exits *w, struct list *of_client, uint64_t now_ms)
{
	list_for_each_entry (e, struct gsi_exit_mad, node, of_client) {
		list_remove(&e->node);
		list_append(&w->lingering[e->comm_id >> AGENT_GSI_ID_BITS], &e->node);
		e->due = true;
		w->due_count++;
		enqueue(w, e, GSI_EXITS_QUEUES - 1, now_ms);
	}
}

void gsi_exits_forget(struct gsi_exits *w, struct list *of_client)
{
	list_for_each_entry (e, struct gsi_exit_mad, node, of_client)
		forget(w, e);
}

void gsi_exits_recall(struct gsi_exits *w, uint16_t number)
{
	gsi_exits_forget(w, &w->lingering[number]);
}

bool gsi_exits_linger(const struct gsi_exits *w, uint16_t number)
{
	return !list_empty(&w->lingering[number]);
}

uint32_t gsi_exits_user(const struct gsi_exits *w, uint16_t number)
{
	return list_entry(w->lingering[number].next, struct gsi_exit_mad, node)->uid;
}

bool gsi_exits_answered(struct gsi_exits *w, uint32_t comm_id, const struct rocemu_gid *src)
{
	struct gsi_exit_mad *e = find(w, comm_id);

	if (!e || !e->due || !rocemu_gid_equal(&e->mad.dst, src))
		return false;
	forget(w, e);
	return true;
}

/* The next to be sent; NULL: none. */
static struct gsi_exit_mad *first_due(const struct gsi_exits *w)
{
	struct gsi_exit_mad *first = NULL;

	for (unsigned i = 0; i < GSI_EXITS_QUEUES; i++) {
		struct list *head = list_first(&w->due[i]);
		struct gsi_exit_mad *e =
			head ? list_entry(head, struct gsi_exit_mad, by_due) : NULL;

		if (e && (!first || e->due_ms < first->due_ms))
			first = e;
	}
	return first;
}

uint64_t gsi_exits_next_ms(const struct gsi_exits *w)
{
	const struct gsi_exit_mad *first = first_due(w);

	return first ? first->due_ms : UINT64_MAX;
}

static void free_taken(struct gsi_exits *w)
{
	free(w->taken);
	w->taken = NULL;
}

void gsi_exits_fini(struct gsi_exits *w)
{
	for (unsigned i = 0; i < AGENT_GSI_CLIENTS; i++)
		gsi_exits_forget(w, &w->lingering[i]);
	free_taken(w);
}

/* Sent for the last time, and there is no answer to wait for. */
static void take_last(struct gsi_exits *w, struct gsi_exit_mad *e)
{
	w->due_count--;
	hash_remove(&w->by_id, &e->by_id);
	list_remove(&e->node);
	quota_release(w->quotas, e->uid, QUOTA_EXIT_MADS, 1);
	w->taken = e;
}

struct gsi_mad *gsi_exits_take(struct gsi_exits *w, uint64_t now_ms)
{
	struct gsi_exit_mad *e;

	free_taken(w);
	while ((e = first_due(w)) && e->due_ms <= now_ms) {
		if (e->left == 0) {
			w->given_up++;
			forget(w, e);
			continue;
		}
		list_remove(&e->by_due);
		e->left--;
		if (e->repeat)
			enqueue(w, e, e->cm_timeout, now_ms + interval_ms(e->cm_timeout));
		else
			take_last(w, e);
		return &e->mad;
	}
	return NULL;
}
