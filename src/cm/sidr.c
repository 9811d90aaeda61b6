/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Service ID resolution (IBTA 12.11): one request, one response. The passive side keeps its
 * response for a while, so that a request whose response was lost does not reach the consumer
 * twice.
 */
#include <errno.h>
#include <stdlib.h>

#include "cm/cm-internal.h"

static void settle(struct xchg *x)
{
	sidr_settle(container_of(x, struct cm_sidr, x));
}

static void end(struct xchg *x)
{
	(void)x; /* nothing but its exchange */
}

static const struct xchg_ops sidr_ops = {.kind = XCHG_SIDR, .settle = settle, .end = end};

CM_HEAP static struct cm_sidr *sidr_new(struct cm *cm, uint32_t id, uint64_t tid,
					const struct cm_addr *addr, bool active)
{
	struct cm_sidr *s = calloc(1, sizeof(*s));

	if (!s || timer_reserve(&cm->timers)) {
		free(s);
		return NULL;
	}
	xchg_init(&s->x, cm, &sidr_ops, addr);
	list_init(&s->listener_link);
	s->active = active;
	s->id = id;
	s->tid = tid;
	if (active)
		hash_add(&cm->sidrs_active, &s->link, cm_key(cm, id));
	else
		hash_add(&cm->sidrs, &s->link, cm_key_peer(cm, id, tid, &addr->dst));
	return s;
}

/** Answered, or over. */
static void decided(struct cm_sidr *s)
{
	if (s->half_open)
		listener_count(s->x.cm, s->listener, s->x.cell, false);
	s->half_open = false;
}

void sidr_free(struct cm_sidr *s)
{
	struct cm *cm = s->x.cm;

	decided(s);
	hash_remove(s->active ? &cm->sidrs_active : &cm->sidrs, &s->link);
	list_remove(&s->listener_link);
	xchg_fini(&s->x);
	timer_release(&cm->timers);
	free(s);
}

void sidr_settle(struct cm_sidr *s)
{
	if (s->x.detached && !timer_running(&s->x.timer) && !xchg_pending(&s->x))
		sidr_free(s);
}

/** The active one with this request ID. */
static struct cm_sidr *find_active(const struct cm *cm, uint32_t id)
{
	hash_for_each (s, struct cm_sidr, link, &cm->sidrs_active, cm_key(cm, id))
		if (s->id == id)
			return s;
	return NULL;
}

/** The passive one: by request ID, address and TID of the peer. */
static struct cm_sidr *find(const struct cm *cm, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from)
{
	const uint32_t id = m->sidr_req.request_id;

	hash_for_each (s, struct cm_sidr, link, &cm->sidrs,
		       cm_key_peer(cm, id, m->tid, &from->src)) {
		if (s->id == id && s->tid == m->tid && s->service_id == m->sidr_req.service_id &&
		    cm_from_peer(&s->x, from))
			return s;
	}
	return NULL;
}

int cm_sidr_request(struct cm *cm, rocemu_ns_t now, const struct cm_sidr_param *param,
		    struct cm_sidr **sidr)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_SIDR_REQ};
	struct cm_sidr *s;
	int r;

	r = cm_fill(m.sidr_req.private_data, sizeof(m.sidr_req.private_data), param->private_data,
		    param->private_data_len);
	if (r)
		return r;
	if (param->timeout > 31)
		return -EINVAL;
	m.tid = cm_tid_next(cm);
	s = sidr_new(cm, cm_id_next(cm), m.tid, &param->addr, true);
	if (!s)
		return -ENOMEM;
	s->x.user = param->user;
	s->service_id = param->service_id;
	m.sidr_req.request_id = s->id;
	m.sidr_req.pkey = param->pkey;
	m.sidr_req.service_id = param->service_id;
	xchg_request(&s->x, now, &m, cm_timeout_ns(param->timeout), param->retries);
	*sidr = s;
	return 0;
}

int cm_sidr_reply(struct cm_sidr *s, rocemu_ns_t now, uint8_t status, uint32_t qpn, uint32_t qkey,
		  const void *info, size_t info_len, const void *private_data, size_t len)
{
	struct rocemu_cm_msg m = {
		.attr_id = ROCEMU_CM_SIDR_REP,
		.tid = s->tid,
		.sidr_rep =
			{
				.request_id = s->id,
				.status = status,
				.qpn = qpn,
				.service_id = s->service_id,
				.qkey = qkey,
			},
	};

	if (s->active || s->answered)
		return -EINVAL;
	if (info_len > sizeof(m.sidr_rep.info) || len > sizeof(m.sidr_rep.private_data))
		return -EMSGSIZE;
	cm_fill(m.sidr_rep.info, sizeof(m.sidr_rep.info), info, info_len);
	cm_fill(m.sidr_rep.private_data, sizeof(m.sidr_rep.private_data), private_data, len);
	m.sidr_rep.info_len = (uint8_t)info_len;
	s->answered = true;
	decided(s);
	xchg_answer(&s->x, &m);
	/* The message does not contain its number of retries: the default is assumed. */
	xchg_timer_set(&s->x, now, (CM_DEFAULT_RETRIES + 1) * cm_timeout_ns(CM_DEFAULT_TIMEOUT));
	return 0;
}

void cm_sidr_destroy(struct cm_sidr *s, rocemu_ns_t now)
{
	event_forget(s->x.cm, &s->x);
	if (s->active)
		xchg_stop(&s->x);
	else if (!s->answered)
		cm_sidr_reply(s, now, ROCEMU_CM_SIDR_REJECTED, 0, 0, NULL, 0, NULL, 0);
	list_remove(&s->listener_link);
	s->listener = NULL;
	s->x.user = NULL;
	xchg_linger(&s->x);
}

/** A SIDR_REP to a request that has no object here. */
void sidr_rep_stray(struct cm *cm, const struct cm_addr *from, const struct rocemu_cm_msg *m,
		    uint8_t status)
{
	struct rocemu_cm_msg rep = {
		.attr_id = ROCEMU_CM_SIDR_REP,
		.tid = m->tid,
		.sidr_rep =
			{
				.request_id = m->sidr_req.request_id,
				.status = status,
				.service_id = m->sidr_req.service_id,
			},
	};

	cm->stats.rejects++;
	cm_answer_stray(cm, from, &rep);
}

static enum cm_drop accepted(struct cm_listener *l, const struct rocemu_cm_msg *m,
			     const struct cm_addr *from)
{
	struct cm *cm = l->cm;
	struct cm_addr back = cm_addr_back(from);
	struct event *e = event_new();
	struct cm_sidr *s = e ? sidr_new(cm, m->sidr_req.request_id, m->tid, &back, false) : NULL;

	if (!s) {
		event_free(e);
		return CM_DROP_NO_MEMORY;
	}
	s->service_id = m->sidr_req.service_id;
	s->listener = l;
	list_append(&l->sidrs, &s->listener_link);
	s->half_open = true;
	listener_count(cm, l, s->x.cell, true);
	event_post(e, CM_EV_SIDR_REQ, &s->x, m, from);
	return CM_DROP_NONE;
}

enum cm_drop sidr_input_req(struct cm *cm, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from)
{
	const struct rocemu_cm_sidr_req *req = &m->sidr_req;
	struct cm_sidr *s = find(cm, m, from);
	struct cm_listener *l;

	if (s) {
		xchg_answer_again(&s->x, ROCEMU_CM_SIDR_REP);
		return CM_DROP_DUPLICATE;
	}
	l = listener_find(cm, req->service_id, &from->dst, req->private_data,
			  sizeof(req->private_data));
	if (!l) {
		sidr_rep_stray(cm, from, m, ROCEMU_CM_SIDR_SERVICE_ID);
		return CM_DROP_NO_SERVICE;
	}
	if (!listener_has_room(l, from)) {
		if (listener_refuses(l, from))
			sidr_rep_stray(cm, from, m, ROCEMU_CM_SIDR_NO_QP);
		return CM_DROP_NO_RESOURCES;
	}
	return accepted(l, m, from);
}

enum cm_drop sidr_input_rep(struct cm *cm, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from)
{
	struct cm_sidr *s = find_active(cm, m->sidr_rep.request_id);
	struct event *e;

	if (!s)
		return CM_DROP_UNKNOWN_ID;
	if (!cm_from_peer(&s->x, from))
		return CM_DROP_ADDRESS;
	if (m->tid != s->tid)
		return CM_DROP_TID;
	if (s->answered)
		return CM_DROP_DUPLICATE;
	e = event_new();
	if (!e)
		return CM_DROP_NO_MEMORY;
	xchg_stop(&s->x);
	s->answered = true;
	event_post(e, CM_EV_SIDR_REP, &s->x, m, from);
	return CM_DROP_NONE;
}

void sidr_expire(struct cm_sidr *s, rocemu_ns_t now)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_SIDR_REQ};
	struct event *e;

	if (!s->active) {
		sidr_settle(s);
		return;
	}
	if (s->x.retries > 0) {
		xchg_retry(&s->x, now);
		return;
	}
	e = event_new();
	if (!e) {
		xchg_timer_set(&s->x, now, CM_EVENT_RETRY_NS);
		return;
	}
	xchg_retry(&s->x, now);
	xchg_stop(&s->x);
	s->answered = true;
	event_post(e, CM_EV_TIMEOUT, &s->x, &m, NULL);
}

bool sidr_unreachable(struct cm *cm, uint32_t id, int error)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_SIDR_REQ};
	struct cm_sidr *s = find_active(cm, id);
	struct event *e;

	if (!s || s->answered)
		return false;
	e = event_new();
	if (!e)
		return false; /* its own timeout ends it */
	cm->stats.timeouts++;
	xchg_stop(&s->x);
	s->answered = true;
	event_set_error(e, error);
	event_post(e, CM_EV_TIMEOUT, &s->x, &m, NULL);
	return true;
}

void cm_sidr_seen(struct cm_sidr *s)
{
	decided(s);
}

void cm_sidr_set_user(struct cm_sidr *s, void *user)
{
	s->x.user = user;
}

void *cm_sidr_user(const struct cm_sidr *s)
{
	return s->x.user;
}

bool cm_sidr_waits(const struct cm_sidr *s)
{
	return s->active && !s->answered;
}

uint32_t cm_sidr_id(const struct cm_sidr *s)
{
	return s->id;
}

const struct cm_addr *cm_sidr_addr(const struct cm_sidr *s)
{
	return &s->x.addr;
}
