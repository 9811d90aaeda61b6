/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events wait in one list, in the order in which they were made. An event is allocated before the
 * state changes; without memory a message is treated as lost, and a timeout is tried again.
 */
#include <stdlib.h>

#include "cm/cm-internal.h"

struct event {
	struct list link;
	struct xchg *x; /* borrowed; events of an object do not outlive it */
	struct cm_event pub;
};

struct event *event_new(void)
{
	struct event *e = calloc(1, sizeof(*e));

	if (e)
		list_init(&e->link);
	return e;
}

void event_set_error(struct event *e, int error)
{
	e->pub.error = error;
}

void event_free(struct event *e)
{
	if (!e)
		return;
	if (list_linked(&e->link)) {
		list_remove(&e->link);
		e->x->events--;
	}
	free(e);
}

void event_post(struct event *e, enum cm_event_type type, struct xchg *x,
		const struct rocemu_cm_msg *m, const struct cm_addr *from)
{
	if (x->detached) {
		event_free(e);
		return;
	}
	e->x = x;
	e->pub.type = type;
	if (x->ops->kind == XCHG_CONN) {
		e->pub.conn = container_of(x, struct cm_conn, x);
		e->pub.state = e->pub.conn->state;
	} else {
		e->pub.sidr = container_of(x, struct cm_sidr, x);
	}
	if (m)
		e->pub.msg = *m;
	if (from)
		e->pub.addr = *from;
	x->events++;
	list_append(&x->cm->events, &e->link);
}

bool event_waits(const struct cm *cm, const struct xchg *x, enum cm_event_type type)
{
	if (x->events == 0)
		return false;
	list_for_each (it, &cm->events) {
		const struct event *e = list_entry(it, struct event, link);

		if (e->x == x && e->pub.type == type)
			return true;
	}
	return false;
}

void event_forget(struct cm *cm, struct xchg *x)
{
	if (x->events == 0)
		return;
	list_for_each_safe (it, next, &cm->events) {
		struct event *e = list_entry(it, struct event, link);

		if (e->x == x)
			event_free(e);
	}
}

void event_list_fini(struct cm *cm)
{
	list_for_each_safe (it, next, &cm->events)
		event_free(list_entry(it, struct event, link));
}

/**
 * An event's listener and user pointer are read when it is taken, because both may have changed.
 */
static void complete(struct cm_event *ev)
{
	bool first = ev->type == CM_EV_REQ || ev->type == CM_EV_SIDR_REQ;
	struct cm_listener *l = NULL;

	if (first)
		l = ev->conn ? ev->conn->listener : ev->sidr->listener;
	ev->listener = l;
	if (l)
		ev->user = l->p.user;
	else
		ev->user = ev->conn ? ev->conn->x.user : ev->sidr->x.user;
}

bool cm_next_event(struct cm *cm, struct cm_event *ev)
{
	struct list *l = list_first(&cm->events);
	struct event *e;

	if (!l)
		return false;
	e = list_entry(l, struct event, link);
	*ev = e->pub;
	complete(ev);
	event_free(e);
	return true;
}
