/* SPDX-License-Identifier: BSD-2-Clause */
/* The manager: its tables and identifiers, output, time. */
#include "cm/cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cm/cm-internal.h"

struct cm *cm_new(const struct cm_config *config)
{
	struct cm *cm;
	struct rng rng;

	if (config->id_prefix >= 1u << CM_ID_PREFIX_BITS)
		return NULL;
	cm = calloc(1, sizeof(*cm));
	if (!cm)
		return NULL;
	cm->cfg = *config;
	if (cm->cfg.max_half_open == 0)
		cm->cfg.max_half_open = CM_DEFAULT_HALF_OPEN;
	if (cm->cfg.max_lingering == 0)
		cm->cfg.max_lingering = CM_DEFAULT_LINGERING;
	/* A process that takes over the prefix of one that died begins elsewhere. */
	rng_init(&rng, config->seed);
	cm->next_id = rng_below(&rng, CM_ID_COUNT);
	cm->salt = rng_u32(&rng);
	timer_heap_init(&cm->timers);
	list_init(&cm->tx);
	list_init(&cm->events);
	list_init(&cm->wills);
	list_init(&cm->lingering);
	list_init(&cm->listeners);
	list_init(&cm->peers);
	for (unsigned i = 0; i < CM_BUCKETS; i++) {
		list_init(&cm->by_id[i]);
		list_init(&cm->by_remote[i]);
		list_init(&cm->by_qpn[i]);
		list_init(&cm->sidrs[i]);
	}
	return cm;
}

void cm_free(struct cm *cm)
{
	if (!cm)
		return;
	event_list_fini(cm);
	for (unsigned i = 0; i < CM_BUCKETS; i++) {
		list_for_each_safe (it, next, &cm->by_id[i])
			conn_free(list_entry(it, struct cm_conn, id_link));
		list_for_each_safe (it, next, &cm->sidrs[i])
			sidr_free(list_entry(it, struct cm_sidr, link));
	}
	list_for_each_safe (it, next, &cm->listeners)
		listener_free(list_entry(it, struct cm_listener, link));
	timer_heap_fini(&cm->timers);
	free(cm);
}

const struct cm_stats *cm_get_stats(const struct cm *cm)
{
	return &cm->stats;
}

static bool id_taken(const struct cm *cm, uint32_t id)
{
	if (id == 0 || conn_find(cm, id))
		return true;
	list_for_each (it, &cm->sidrs[cm_bucket(cm, id)])
		if (list_entry(it, struct cm_sidr, link)->id == id)
			return true;
	return false;
}

uint32_t cm_id_next(struct cm *cm)
{
	uint32_t id;

	do {
		cm->next_id = (cm->next_id + 1) % CM_ID_COUNT;
		id = (uint32_t)cm->cfg.id_prefix << CM_ID_PREFIX_SHIFT | cm->next_id;
	} while (id_taken(cm, id));
	return id;
}

uint64_t cm_tid(uint32_t id)
{
	return (uint64_t)2 << 32 | __builtin_bswap32(id);
}

int cm_fill(uint8_t *to, size_t room, const void *data, size_t len)
{
	if (len > room)
		return -EMSGSIZE;
	if (len > 0)
		memcpy(to, data, len);
	return 0;
}

bool cm_gid_equal(const struct rocemu_gid *a, const struct rocemu_gid *b)
{
	return memcmp(a->raw, b->raw, sizeof(a->raw)) == 0;
}

struct cm_addr cm_addr_back(const struct cm_addr *from)
{
	struct cm_addr back = *from;

	back.src = from->dst;
	back.dst = from->src;
	back.hop_limit = 0;
	return back;
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
	cm_count_sent(cm, m->attr_id);
}

void cm_count_sent(struct cm *cm, uint16_t attr_id)
{
	cm->stats.sent[attr_id - ROCEMU_CM_REQ]++;
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
	return filled + xchg_output(cm, out + filled, n - filled);
}

rocemu_ns_t cm_deadline(const struct cm *cm)
{
	return timer_next(&cm->timers);
}

void cm_expire(struct cm *cm, rocemu_ns_t now)
{
	struct timer *t;

	while ((t = timer_pop_due(&cm->timers, now))) {
		struct xchg *x = container_of(t, struct xchg, timer);

		if (x->kind == XCHG_CONN)
			conn_expire(container_of(x, struct cm_conn, x), now);
		else
			sidr_expire(container_of(x, struct cm_sidr, x), now);
	}
}

void cm_xchg_settle(struct xchg *x)
{
	if (x->kind == XCHG_CONN)
		conn_settle(container_of(x, struct cm_conn, x));
	else
		sidr_settle(container_of(x, struct cm_sidr, x));
}

/** End whatever x still waits for; it goes as soon as its will is told. */
static void forget(struct xchg *x)
{
	list_remove(&x->linger_link);
	x->cm->nlingering--;
	x->answer.pending = false;
	xchg_stop(x);
	if (x->kind == XCHG_CONN)
		conn_set_state(container_of(x, struct cm_conn, x), CM_IDLE);
	cm_xchg_settle(x);
}

void cm_linger(struct xchg *x)
{
	struct cm *cm = x->cm;

	x->detached = true;
	list_append(&cm->lingering, &x->linger_link);
	cm->nlingering++;
	cm_xchg_settle(x);
	if (cm->nlingering > cm->cfg.max_lingering) {
		cm->stats.evicted++;
		forget(list_entry(list_first(&cm->lingering), struct xchg, linger_link));
	}
}
