/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups packets into sessions, one diagram each, and marks gaps, late packets and repetitions by
 * PSN.
 */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "exchange.h"

/* What makes packets one session's. All of it is set, so that it can be compared as bytes. */
struct key {
	struct rocemu_gid gid[2];
	uint64_t exchange; /* its address */
	uint32_t qpn[2];
	uint32_t kind, connection;
};

/** The key of the session that has its place in the list. */
struct place {
	struct hash_node node;
	struct key key;
};

struct table {
	struct hash hash;
	struct place *places;  /* owned; by session */
	const struct prf *prf; /* borrowed */
};

/* @return the session of the key, which is new when it is the list's end. */
static uint32_t table_get(struct table *t, const struct key *k, uint32_t n)
{
	uint64_t words[sizeof(*k) / sizeof(uint64_t)], digest;

	memcpy(words, k, sizeof(words));
	digest = prf_hash(t->prf, words, ARRAY_LEN(words));
	hash_for_each (p, struct place, node, &t->hash, digest) {
		if (memcmp(&p->key, k, sizeof(*k)) == 0)
			return (uint32_t)(p - t->places);
	}
	t->places[n].key = *k;
	hash_add(&t->hash, &t->places[n].node, digest);
	return n;
}

/* ---- the session of a packet ---- */

static struct flow *counted(struct flow *f)
{
	return f != NULL && f->index != 0 ? f : NULL;
}

/* The flow of the connection that an exchange made. */
static struct flow *exchange_flow(const struct verify *v, const struct cm_exchange *x)
{
	struct ip_udp out = {.src = x->active, .dst = x->passive};
	struct ip_udp back = {.src = x->passive, .dst = x->active};
	struct flow *f;

	if (x->sidr || !x->passive_known)
		return NULL;
	f = counted(flow_find(v, &out, x->svc, x->qpn[CM_PASSIVE]));
	return f != NULL ? f : counted(flow_find(v, &back, x->svc, x->qpn[CM_ACTIVE]));
}

/* The connection that a packet was sent on, be it malformed or a CNP. */
static struct flow *packet_flow(const struct verify *v, const struct logged *e)
{
	static const enum rocemu_service services[] = {ROCEMU_SVC_RC, ROCEMU_SVC_XRC,
						       ROCEMU_SVC_UC};
	enum rocemu_service svc = rocemu_opcode_service(e->h.opcode);
	struct flow *f = NULL;

	if (e->flow != NULL && svc != ROCEMU_SVC_CNP)
		return e->flow;
	if (!e->bth)
		return NULL;
	for (unsigned i = 0; f == NULL && i < sizeof(services) / sizeof(services[0]); i++) {
		if (svc == ROCEMU_SVC_CNP || svc == services[i])
			f = counted(flow_find(v, &e->ip, services[i], e->h.dqpn));
	}
	return f != NULL ? f : e->flow;
}

static void key_pair(struct key *k, const struct logged *e, uint32_t src_qpn, uint32_t dst_qpn)
{
	bool swapped = memcmp(&e->ip.src, &e->ip.dst, sizeof(e->ip.src)) > 0 ||
		       (rocemu_gid_equal(&e->ip.src, &e->ip.dst) && src_qpn > dst_qpn);

	k->gid[swapped] = e->ip.src;
	k->gid[!swapped] = e->ip.dst;
	k->qpn[swapped] = src_qpn;
	k->qpn[!swapped] = dst_qpn;
}

/* @return the flow of the connection, or NULL. */
static struct flow *key_of(const struct verify *v, const struct logged *e, struct key *k)
{
	struct flow *f = e->exchange != NULL ? exchange_flow(v, e->exchange) : packet_flow(v, e);

	memset(k, 0, sizeof(*k));
	if (e->exchange != NULL && f == NULL) {
		k->kind = SESSION_CM;
		k->exchange = (uintptr_t)e->exchange;
	} else if (f != NULL && f->svc != ROCEMU_SVC_UD) {
		k->kind = SESSION_CONNECTION;
		k->connection = f->index;
	} else if (f != NULL) {
		k->kind = SESSION_DATAGRAMS;
		key_pair(k, e, e->h.deth.sqpn, e->h.dqpn);
	} else {
		k->kind = SESSION_OTHER;
		key_pair(k, e, 0, 0);
	}
	return f;
}

/* ---- its two ends ---- */

/* The packet is its first, so side 0 has sent it. */
static void session_begin(struct session *s, const struct key *k, const struct flow *f,
			  const struct logged *e)
{
	s->kind = (enum session_kind)k->kind;
	s->svc = f != NULL ? f->svc : e->exchange != NULL ? e->exchange->svc : ROCEMU_SVC_UD;
	s->mtu = f == NULL ? 0 : f->mtu != 0 || f->peer == NULL ? f->mtu : f->peer->mtu;
	s->side[0].gid = e->ip.src;
	s->side[1].gid = e->ip.dst;
	if (e->exchange != NULL) {
		s->side[!e->cm_active].qpn = e->exchange->qpn[CM_ACTIVE];
		s->side[e->cm_active].qpn = e->exchange->qpn[CM_PASSIVE];
	} else if (k->kind == SESSION_DATAGRAMS) {
		s->side[0].qpn = e->h.deth.sqpn;
		s->side[1].qpn = e->h.dqpn;
	} else if (f != NULL) {
		s->side[0].qpn = f->peer != NULL ? f->peer->dqpn : 0;
		s->side[1].qpn = f->dqpn;
	}
}

/*
 * Both ends may have the same address; then the QP, or the sender of the REQ, distinguishes them.
 */
static bool from_second(const struct session *s, const struct logged *e)
{
	const struct session_side *side = s->side;

	if (!rocemu_gid_equal(&side[0].gid, &side[1].gid))
		return rocemu_gid_equal(&e->ip.src, &side[1].gid);
	if (s->kind == SESSION_DATAGRAMS)
		return e->h.deth.sqpn == side[1].qpn && e->h.dqpn == side[0].qpn &&
		       side[0].qpn != side[1].qpn;
	if (e->exchange != NULL) /* a session that begins with no REQ has its QPNs all the same */
		return (side[0].qpn == e->exchange->qpn[CM_ACTIVE]) != e->cm_active;
	return e->h.dqpn == side[0].qpn && side[0].qpn != side[1].qpn;
}

/* ---- PSNs ---- */

static void gap_add(struct session_side *d, uint32_t from, uint32_t n)
{
	if (d->gap_n == SESSION_GAPS)
		memmove(d->gaps, d->gaps + 1, --d->gap_n * sizeof(d->gaps[0]));
	d->gaps[d->gap_n++] = (struct psn_gap){from, n};
}

/* @return whether the PSN was missing; then it is not any more. */
static bool gap_close(struct session_side *d, uint32_t psn)
{
	for (unsigned i = 0; i < d->gap_n; i++) {
		struct psn_gap *g = &d->gaps[i];
		uint32_t at = (psn - g->from) & ROCEMU_PSN_MASK, behind;

		if (at >= g->n)
			continue;
		behind = g->n - at - 1;
		g->n = at;
		if (behind != 0)
			gap_add(d, psn_add(psn, 1), behind);
		return true;
	}
	return false;
}

static void request_mark(struct session *s, struct logged *e)
{
	struct session_side *d = &s->side[e->back];
	uint32_t psn = e->h.psn, span = 1;
	int32_t ahead = rocemu_psn_diff(psn, d->next);
	bool read = (rocemu_opcode_ops(e->h.opcode) & ROCEMU_OP_READ_REQ) != 0;
	bool len_known = s->mtu != 0 && logged_has(e, ROCEMU_HDR_RETH);

	if (!d->psn_known) {
		const struct flow *f = e->flow;

		d->psn_known = true;
		d->psn = psn;
		if (f != NULL && f->psn_announced &&
		    abs(rocemu_psn_diff(psn, f->announced_psn)) < PSN_NEAR) {
			d->psn = d->next = f->announced_psn;
			d->next_known = true;
			ahead = rocemu_psn_diff(psn, d->next);
		}
	}
	if (d->next_known && ahead < 0 && ahead > -PSN_NEAR) {
		e->late = gap_close(d, psn);
		e->again = !e->late;
		return;
	}
	if (d->next_known && ahead > 0 && ahead < PSN_NEAR && !d->next_open) {
		gap_add(d, d->next, (uint32_t)ahead);
		e->missing = (uint32_t)ahead;
	}
	if (read && len_known)
		span = read_responses(e->h.reth.length, s->mtu);
	d->next_open = (read && !len_known) || e->hides;
	d->next = psn_add(psn, span);
	d->next_known = true;
}

/* Within the packets of one READ's answer. */
static void response_mark(struct session *s, struct logged *e)
{
	struct session_side *d = &s->side[e->back];
	uint32_t ops = rocemu_opcode_ops(e->h.opcode);
	int32_t ahead = rocemu_psn_diff(e->h.psn, d->response_next);

	if ((ops & ROCEMU_OP_READ_RESP) == 0)
		return;
	if (d->response_open && (ops & ROCEMU_OP_FIRST) == 0 && ahead > 0 && ahead < PSN_NEAR)
		e->missing = (uint32_t)ahead;
	d->response_open = (ops & ROCEMU_OP_LAST) == 0 && !e->hides;
	d->response_next = psn_add(e->h.psn, 1);
}

static bool is_hint(const struct session_side *of, const struct logged *e)
{
	int32_t ahead = rocemu_psn_diff(psn_add(e->h.psn, HINT_BEHIND), of->next);

	return (rocemu_opcode_ops(e->h.opcode) & ROCEMU_OP_ACK) != 0 && of->next_known &&
	       logged_has(e, ROCEMU_HDR_AETH) &&
	       (e->h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_ACK && ahead < 0 &&
	       ahead > -PSN_NEAR;
}

static void psn_mark(struct session *s, struct logged *e)
{
	uint32_t ops = e->decoded ? rocemu_opcode_ops(e->h.opcode) : 0;
	struct session_side *of = &s->side[ops & ROCEMU_OP_RESPONSE ? !e->back : e->back];

	if (e->mad != NULL || s->kind == SESSION_OTHER || (ops & ROCEMU_OP_CNP) != 0)
		return;
	if (s->kind == SESSION_DATAGRAMS) {
		if (!of->psn_known)
			of->psn = e->h.psn;
		of->psn_known = true;
	} else if (ops & ROCEMU_OP_REQUEST) {
		request_mark(s, e);
	} else if (ops & ROCEMU_OP_RESPONSE) {
		if (!of->psn_known) /* the capture begins within */
			of->psn = e->h.psn;
		of->psn_known = true;
		response_mark(s, e);
	}
	e->hint = (ops & ROCEMU_OP_RESPONSE) != 0 && is_hint(of, e);
	e->psn = rocemu_psn_diff(psn_add(e->h.psn, e->hint ? HINT_BEHIND : 0), of->psn);
}

static void arrange(const struct verify *v, struct packet_log *l, struct table *t)
{
	for (unsigned i = 0; i < l->n; i++) {
		struct logged *e = &l->at[i];
		struct key k;
		const struct flow *f = key_of(v, e, &k);
		struct session *s;

		e->session = table_get(t, &k, l->session_n);
		s = &l->sessions[e->session];
		if (e->session == l->session_n) {
			session_begin(s, &k, f, e);
			l->session_n++;
		}
		if (s->connection == 0 && f != NULL) {
			s->connection = f->index;
			s->flow = f;
		}
		e->back = from_second(s, e);
		s->n++;
		psn_mark(s, e);
	}
}

static void put_in_order(struct packet_log *l)
{
	unsigned at = 0;

	for (unsigned i = 0; i < l->session_n; i++) {
		l->sessions[i].first = at;
		at += l->sessions[i].n;
		l->sessions[i].n = 0;
	}
	for (unsigned i = 0; i < l->n; i++) {
		struct session *s = &l->sessions[l->at[i].session];

		l->order[s->first + s->n++] = i;
	}
}

bool sessions_make(struct verify *v)
{
	struct packet_log *l = v->log;
	struct table t = {.prf = &v->prf};
	bool ok;

	/* As many sessions as packets, at most. */
	t.places = calloc((size_t)l->n + 1, sizeof(*t.places));
	l->sessions = calloc((size_t)l->n + 1, sizeof(*l->sessions));
	l->order = calloc((size_t)l->n + 1, sizeof(*l->order));
	ok = t.places != NULL && l->sessions != NULL && l->order != NULL;
	if (ok) {
		arrange(v, l, &t);
		put_in_order(l);
	}
	hash_fini(&t.hash);
	free(t.places);
	return ok;
}
