/* SPDX-License-Identifier: BSD-2-Clause */
/* The manager: its tables, its time, and functions for all kinds of its objects. */
#include "cm/cm.h"

#include <stdlib.h>

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
	list_init(&cm->exit_mads);
	list_init(&cm->listeners);
	list_init(&cm->peers);
	for (unsigned i = 0; i < SHARE_CELLS; i++)
		list_init(&cm->lingering[i]);
	return cm;
}

void cm_free(struct cm *cm)
{
	if (!cm)
		return;
	event_list_fini(cm);
	hash_for_all (c, struct cm_conn, id_link, &cm->by_id)
		conn_free(c);
	hash_for_all (s, struct cm_sidr, link, &cm->sidrs)
		sidr_free(s);
	hash_for_all (s, struct cm_sidr, link, &cm->sidrs_active)
		sidr_free(s);
	list_for_each_safe (it, next, &cm->listeners)
		listener_free(list_entry(it, struct cm_listener, link));
	timer_heap_fini(&cm->timers);
	free(cm);
}

const struct cm_stats *cm_get_stats(const struct cm *cm)
{
	return &cm->stats;
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

		if (x->ops->kind == XCHG_CONN)
			conn_expire(container_of(x, struct cm_conn, x), now);
		else
			sidr_expire(container_of(x, struct cm_sidr, x), now);
	}
}

bool cm_unreachable(struct cm *cm, uint32_t id, int error)
{
	return conn_unreachable(cm, id, error) || sidr_unreachable(cm, id, error);
}

void cm_unlisten(struct cm_listener *l, rocemu_ns_t now)
{
	list_for_each_safe (it, next, &l->conns) {
		struct cm_conn *c = list_entry(it, struct cm_conn, listener_link);

		if (event_waits(l->cm, &c->x, CM_EV_REQ)) {
			cm_conn_destroy(c, now);
			continue;
		}
		list_remove(&c->listener_link);
		c->listener = NULL;
	}
	list_for_each_safe (it, next, &l->sidrs) {
		struct cm_sidr *s = list_entry(it, struct cm_sidr, listener_link);

		if (event_waits(l->cm, &s->x, CM_EV_SIDR_REQ)) {
			cm_sidr_destroy(s, now);
			continue;
		}
		list_remove(&s->listener_link);
		s->listener = NULL;
	}
	listener_free(l);
}
