/* SPDX-License-Identifier: BSD-2-Clause */
/* The manager: its tables and identifiers, output, time. */
#include "cm/cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cm/cm-internal.h"

struct cm *cm_new(const struct cm_config *config)
{
	struct cm *cm;

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
	cm->prf.key[0] = config->seed;
	cm->prf.key[1] = config->seed_high;
	timer_heap_init(&cm->timers);
	list_init(&cm->tx);
	list_init(&cm->events);
	list_init(&cm->wills);
	list_init(&cm->listeners);
	list_init(&cm->peers);
	for (unsigned i = 0; i < CM_BUCKETS; i++) {
		list_init(&cm->by_id[i]);
		list_init(&cm->by_remote[i]);
		list_init(&cm->by_qpn[i]);
		list_init(&cm->sidrs[i]);
		list_init(&cm->sidrs_asked[i]);
	}
	for (unsigned i = 0; i < SHARE_CELLS; i++)
		list_init(&cm->lingering[i]);
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
		list_for_each_safe (it, next, &cm->sidrs_asked[i])
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

/* ---- identifiers ---- */

/* What a hash is of: the first word of its input. */
enum { OF_ID = 1, OF_ID_ROUND, OF_PEER, OF_CELL };

uint32_t cm_bucket(const struct cm *cm, uint32_t id)
{
	const uint64_t words[] = {OF_ID, id};

	return (uint32_t)prf_hash(&cm->prf, words, 2) % CM_BUCKETS;
}

uint32_t cm_bucket_peer(const struct cm *cm, uint32_t number, uint64_t other,
			const struct rocemu_gid *peer)
{
	const uint64_t words[] = {OF_PEER, number, other, get_be64(peer->raw),
				  get_be64(peer->raw + 8)};

	return (uint32_t)prf_hash(&cm->prf, words, 5) % CM_BUCKETS;
}

/** A port that is in use on a host is not any user's to send from: what comes from it is counted apart
 * from what other users of the host send. */
unsigned cm_cell(const struct cm *cm, const struct rocemu_gid *peer, uint16_t sport)
{
	const uint64_t words[] = {OF_CELL, get_be64(peer->raw), get_be64(peer->raw + 8),
				  sport == CM_SPORT || sport == 0};

	return (unsigned)prf_hash(&cm->prf, words, 4) % SHARE_CELLS;
}

static bool id_taken(const struct cm *cm, uint32_t id)
{
	if (id == 0 || conn_find(cm, id))
		return true;
	list_for_each (it, &cm->sidrs_asked[cm_bucket(cm, id)])
		if (list_entry(it, struct cm_sidr, link)->id == id)
			return true;
	return false;
}

/**
 * A permutation under the key (a Feistel network). The IDs of one's own connections do not help to
 * predict those of others; and an ID comes again only after all others, when no late message can
 * meet it.
 */
uint32_t cm_id_nth(const struct cm *cm, uint32_t n)
{
	enum { ROUNDS = 8, HALF = CM_ID_PREFIX_SHIFT / 2, MASK = (1 << HALF) - 1 };
	uint32_t left = n >> HALF & MASK, right = n & MASK;

	_Static_assert(CM_ID_PREFIX_SHIFT % 2 == 0, "halves are equal");
	for (unsigned i = 0; i < ROUNDS; i++) {
		const uint64_t words[] = {OF_ID_ROUND, i, right};
		uint32_t next = left ^ ((uint32_t)prf_hash(&cm->prf, words, 3) & MASK);

		left = right;
		right = next;
	}
	return left << HALF | right;
}

uint32_t cm_id_next(struct cm *cm)
{
	uint32_t id;

	do {
		id = (uint32_t)cm->cfg.id_prefix << CM_ID_PREFIX_SHIFT |
		     cm_id_nth(cm, cm->next_id);
		cm->next_id = (cm->next_id + 1) % CM_ID_COUNT;
	} while (id_taken(cm, id));
	return id;
}

uint64_t cm_tid_next(struct cm *cm)
{
	return prf_u64(&cm->prf);
}

/* ---- */

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

bool cm_from_peer(const struct xchg *x, const struct cm_addr *from)
{
	return cm_gid_equal(&x->addr.dst, &from->src) && cm_gid_equal(&x->addr.src, &from->dst);
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
	share_give(&x->cm->lingerers, x->cell);
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
	list_append(&cm->lingering[x->cell], &x->linger_link);
	share_take(&cm->lingerers, x->cell);
	cm_xchg_settle(x);
	if (cm->lingerers.used > cm->cfg.max_lingering) {
		struct list *l = list_first(&cm->lingering[share_greediest(&cm->lingerers)]);

		cm->stats.evicted++;
		forget(list_entry(l, struct xchg, linger_link));
	}
}
