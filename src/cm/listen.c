/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the listener that a request is for. The listeners are in one list, which is searched for
 * each request: a process has few.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm-internal.h"

static uint64_t mask_of(const struct cm_listen_param *p)
{
	return p->service_mask ? p->service_mask : UINT64_MAX;
}

static bool compare_equal(const struct cm_listen_param *a, const struct cm_listen_param *b)
{
	if (a->compare_len != b->compare_len || a->compare_offset != b->compare_offset)
		return false;
	for (unsigned i = 0; i < a->compare_len; i++)
		if (a->compare_mask[i] != b->compare_mask[i] ||
		    ((a->compare_value[i] ^ b->compare_value[i]) & a->compare_mask[i]))
			return false;
	return true;
}

/** Do two listeners match the same requests with the same preference? */
static bool collides(const struct cm_listen_param *a, const struct cm_listen_param *b)
{
	uint64_t both = mask_of(a) & mask_of(b);

	if (((a->service_id ^ b->service_id) & both) || a->any_addr != b->any_addr)
		return false;
	if (a->any_addr ? a->ip_version != b->ip_version : !rocemu_gid_equal(&a->addr, &b->addr))
		return false;
	return compare_equal(a, b);
}

CM_HEAP static struct cm_listener *listener_new(struct cm *cm, const struct cm_listen_param *param)
{
	struct cm_listener *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->cm = cm;
	l->p = *param;
	cm_listener_set_backlog(l, param->backlog);
	list_init(&l->conns);
	list_init(&l->sidrs);
	list_append(&cm->listeners, &l->link);
	return l;
}

int cm_listen(struct cm *cm, const struct cm_listen_param *param, struct cm_listener **listener)
{
	if (param->compare_len > CM_COMPARE_MAX)
		return -EINVAL;
	if (param->any_addr && param->ip_version != 0 && param->ip_version != 4 &&
	    param->ip_version != 6)
		return -EINVAL;
	list_for_each (it, &cm->listeners)
		if (collides(&list_entry(it, struct cm_listener, link)->p, param))
			return -EADDRINUSE;
	*listener = listener_new(cm, param);
	return *listener ? 0 : -ENOMEM;
}

void cm_listener_set_backlog(struct cm_listener *l, uint32_t backlog)
{
	l->p.backlog = backlog ? backlog : CM_DEFAULT_BACKLOG;
}

void listener_free(struct cm_listener *l)
{
	list_remove(&l->link);
	free(l);
}

bool listener_has_room(const struct cm_listener *l, const struct cm_addr *from)
{
	unsigned cell = cm_cell(l->cm, &from->src, from->sport);

	return share_has_room(&l->waiting, cell, l->p.backlog) &&
	       share_has_room(&l->cm->half_open, cell, l->cm->cfg.max_half_open);
}

bool listener_refuses(const struct cm_listener *l, const struct cm_addr *from)
{
	return l->cm->half_open.of[cm_cell(l->cm, &from->src, from->sport)] > 0;
}

void listener_count(struct cm *cm, struct cm_listener *l, unsigned cell, bool waits)
{
	void (*count)(struct share *, unsigned) = waits ? share_take : share_give;

	count(&cm->half_open, cell);
	if (l)
		count(&l->waiting, cell);
	cm->stats.half_open = cm->half_open.used;
}

/** 0: not for this listener; else the larger the more specific. */
static int match(const struct cm_listen_param *p, uint64_t service_id, const struct rocemu_gid *dst,
		 const uint8_t *data, size_t len)
{
	int score = 1;

	if ((p->service_id ^ service_id) & mask_of(p))
		return 0;
	if (!p->any_addr) {
		if (!rocemu_gid_equal(&p->addr, dst))
			return 0;
		score += 4;
	} else if (p->ip_version != 0) {
		if (rocemu_gid_is_ipv4(dst) != (p->ip_version == 4))
			return 0;
		score += 2;
	}
	if (p->compare_len > 0) {
		if ((size_t)p->compare_offset + p->compare_len > len)
			return 0;
		for (unsigned i = 0; i < p->compare_len; i++)
			if ((data[p->compare_offset + i] ^ p->compare_value[i]) &
			    p->compare_mask[i])
				return 0;
		score += 1;
	}
	return score;
}

struct cm_listener *listener_find(const struct cm *cm, uint64_t service_id,
				  const struct rocemu_gid *dst, const uint8_t *private_data,
				  size_t len)
{
	struct cm_listener *best = NULL;
	int best_score = 0;

	list_for_each (it, &cm->listeners) {
		struct cm_listener *l = list_entry(it, struct cm_listener, link);
		int score = match(&l->p, service_id, dst, private_data, len);

		if (score > best_score) {
			best = l;
			best_score = score;
		}
	}
	return best;
}
