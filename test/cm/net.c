/* SPDX-License-Identifier: BSD-2-Clause */
#include "net.h"

#include <string.h>

static void append(char *to, size_t room, const char *sep, const char *text)
{
	size_t len = strlen(to);

	assert_true(len + strlen(sep) + strlen(text) + 1 < room);
	snprintf(to + len, room - len, "%s%s", len ? sep : "", text);
}

void net_start_config(struct net *n, const struct cm_config *a, const struct cm_config *b)
{
	const struct cm_listen_param listen = {.service_id = NET_SERVICE, .any_addr = true};

	memset(n, 0, sizeof(*n));
	n->now = 1000;
	rng_init(&n->rng, a->seed);
	n->side[A].cm = cm_new(a);
	n->side[B].cm = cm_new(b);
	n->side[A].qpn = NET_QPN_A;
	n->side[B].qpn = NET_QPN_B;
	for (unsigned i = 0; i < 2; i++) {
		assert_non_null(n->side[i].cm);
		n->side[i].later = ROCEMU_NEVER;
		n->side[i].gid =
			(struct rocemu_gid){{[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(i + 1)}};
	}
	assert_int_equal(cm_listen(n->side[B].cm, &listen, &n->side[B].listener), 0);
}

void net_start(struct net *n, uint64_t seed)
{
	const struct cm_config a = {
		.seed = seed, .ca_guid = 0xa1, .id_prefix = 5, .lap_events = true};
	const struct cm_config b = {
		.seed = seed + 1, .ca_guid = 0xb2, .id_prefix = 6, .lap_events = true};

	net_start_config(n, &a, &b);
}

/** What each side offers of its vendor's options. */
static struct rocemu_cm_ece ece_of(unsigned side)
{
	return (struct rocemu_cm_ece){.vendor_id = 0xa1b2c3 + side, .options = 0xd4e5f607 + side};
}

void net_connect_param(const struct net *n, unsigned side, struct cm_connect_param *p)
{
	memset(p, 0, sizeof(*p));
	cm_req_init(&p->req);
	p->req.service_id = NET_SERVICE;
	p->req.local_qpn = n->side[side].qpn;
	p->req.ece = ece_of(side);
	p->req.starting_psn = 0x100 + side;
	p->addr.src = n->side[side].gid;
	p->addr.dst = n->side[!side].gid;
	p->req.primary.local_gid = p->addr.src;
	p->req.primary.remote_gid = p->addr.dst;
	p->private_data = "hello";
	p->private_data_len = 5;
}

void net_connect(struct net *n, unsigned side)
{
	struct cm_connect_param p;

	net_connect_param(n, side, &p);
	assert_int_equal(cm_connect(n->side[side].cm, n->now, &p, &n->side[side].conn), 0);
}

void net_sidr(struct net *n, unsigned side)
{
	const struct cm_sidr_param p = {
		.service_id = NET_SERVICE,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.timeout = CM_DEFAULT_TIMEOUT,
		.retries = CM_DEFAULT_RETRIES,
		.addr = {.src = n->side[side].gid, .dst = n->side[!side].gid},
	};

	assert_int_equal(cm_sidr_request(n->side[side].cm, n->now, &p, &n->side[side].sidr), 0);
}

/* ---- the consumers ---- */

static void answer(struct net *n, struct net_side *s, struct cm_conn *c, enum cm_event_type to)
{
	const struct rocemu_cm_rep rep = {
		.ece = ece_of(s == &n->side[B]),
		.local_qpn = s->qpn,
		.starting_psn = 0x200,
		.responder_resources = 1,
	};
	int r = 0;

	switch (to) {
	case CM_EV_REQ:
		r = s->policy & NET_REJECT
			    ? cm_reject(c, n->now, ROCEMU_CM_REJ_CONSUMER, NULL, 0, "no", 2)
			    : cm_accept(c, n->now, &rep, "yes", 3);
		break;
	case CM_EV_REP:
		r = s->policy & NET_REJECT_REP
			    ? cm_reject(c, n->now, ROCEMU_CM_REJ_CONSUMER, NULL, 0, "no", 2)
			    : cm_rtu(c, n->now, NULL, 0);
		if (r == 0 && s->policy & NET_HASTY)
			r = cm_disconnect(c, n->now, NULL, 0);
		break;
	case CM_EV_RTU:
		/* A DREQ may have come right behind it. */
		if (s->policy & NET_HASTY && cm_conn_state(c) == CM_ESTABLISHED)
			r = cm_disconnect(c, n->now, NULL, 0);
		break;
	case CM_EV_DREQ:
		if (s->policy & NET_DESTROY) {
			cm_conn_destroy(c, n->now);
			s->conn = NULL;
		} else {
			r = cm_drep(c, n->now, NULL, 0);
		}
		break;
	case CM_EV_LAP:
		r = cm_apr(c, n->now, ROCEMU_CM_APR_LOADED, NULL, 0, NULL, 0);
		break;
	case CM_EV_SIDR_REQ:
		r = cm_sidr_reply(s->sidr, n->now, ROCEMU_CM_SIDR_VALID, s->qpn, 0x1234567, NULL, 0,
				  NULL, 0);
		break;
	default:
		return;
	}
	s->refused += r != 0;
}

static void react(struct net *n, struct net_side *s, const struct cm_event *ev)
{
	bool asks = ev->type == CM_EV_REQ || ev->type == CM_EV_REP || ev->type == CM_EV_LAP ||
		    ev->type == CM_EV_SIDR_REQ;

	if (ev->type == CM_EV_REQ)
		s->conn = ev->conn;
	if (ev->type == CM_EV_SIDR_REQ)
		s->sidr = ev->sidr;
	if (asks && s->policy & NET_SILENT)
		return;
	if (asks && s->policy & (NET_MRA | NET_SLOW)) {
		if (s->policy & NET_MRA && ev->conn)
			s->refused += cm_mra(ev->conn, n->now, 23, NULL, 0) != 0;
		s->later = n->now + NET_LATER_NS;
		s->owed = ev->type;
		s->owed_conn = ev->conn;
		return;
	}
	answer(n, s, ev->conn, ev->type);
}

static void log_event(struct net_side *s, const struct cm_event *ev)
{
	char text[64];

	snprintf(text, sizeof(text), "%s", cm_event_text(ev->type));
	if (ev->type == CM_EV_REJ)
		snprintf(text, sizeof(text), "REJ %u", ev->msg.rej.reason);
	if (ev->type == CM_EV_TIMEOUT)
		snprintf(text, sizeof(text), "TIMEOUT %s", rocemu_cm_name(ev->msg.attr_id));
	append(s->log, sizeof(s->log), "; ", text);
}

/** Whatever was lost, duplicated or repeated: the other side's offer is in REQ and REP. */
static void check_ece(const struct cm_event *ev, unsigned peer)
{
	const struct rocemu_cm_ece want = ece_of(peer);

	if (ev->type == CM_EV_REQ)
		assert_memory_equal(&ev->msg.req.ece, &want, sizeof(want));
	if (ev->type == CM_EV_REP)
		assert_memory_equal(&ev->msg.rep.ece, &want, sizeof(want));
}

/* ---- the network ---- */

static void launch(struct net *n, unsigned from, const struct cm_mad *mad)
{
	struct net_flight *f = &n->flight[n->flights++];

	assert_true(n->flights < NET_FLIGHTS);
	f->at = n->now + NET_DELAY_NS;
	if (n->jumble)
		f->at += rng_u64(&n->rng) % n->spread;
	f->to = !from;
	f->mad = *mad;
}

static void send_out(struct net *n, unsigned from)
{
	struct rocemu_cm_msg m;
	struct cm_mad mad;
	char text[16];

	while (cm_output(n->side[from].cm, n->now, &mad, 1)) {
		unsigned i = n->sent++;

		assert_int_equal(rocemu_cm_decode(&m, mad.data, sizeof(mad.data)), ROCEMU_MAD_OK);
		assert_memory_equal(&mad.addr.src, &n->side[from].gid, sizeof(mad.addr.src));
		snprintf(text, sizeof(text), "%c:%s", "AB"[from], rocemu_cm_name(m.attr_id));
		if (n->tap != NULL)
			n->tap(n, from, &mad);
		if (i < 64)
			append(n->wire, sizeof(n->wire), " ", text);
		if (n->cut || (i < 64 && n->lose >> i & 1))
			continue;
		launch(n, from, &mad);
		if (i < 64 && n->twice >> i & 1)
			launch(n, from, &mad);
	}
}

static void drain(struct net *n)
{
	for (unsigned i = 0; i < 2; i++) {
		struct net_side *s = &n->side[i];

		while (cm_next_event(s->cm, &s->last)) {
			log_event(s, &s->last);
			check_ece(&s->last, !i);
			react(n, s, &s->last);
		}
		send_out(n, i);
	}
}

static void deliver(struct net *n)
{
	for (unsigned i = 0; i < n->flights;) {
		struct net_flight f = n->flight[i];

		if (f.at > n->now) {
			i++;
			continue;
		}
		memmove(&n->flight[i], &n->flight[i + 1], (n->flights - i - 1) * sizeof(f));
		n->flights--;
		cm_input(n->side[f.to].cm, n->now, f.mad.data, sizeof(f.mad.data), &f.mad.addr);
	}
}

static rocemu_ns_t next_time(const struct net *n)
{
	rocemu_ns_t t = ROCEMU_NEVER;

	for (unsigned i = 0; i < n->flights; i++)
		t = t < n->flight[i].at ? t : n->flight[i].at;
	for (unsigned i = 0; i < 2; i++) {
		rocemu_ns_t d = cm_deadline(n->side[i].cm);

		t = t < d ? t : d;
		t = t < n->side[i].later ? t : n->side[i].later;
	}
	return t;
}

void net_run_until(struct net *n, rocemu_ns_t end)
{
	unsigned steps = 0;

	for (;;) {
		rocemu_ns_t t;

		drain(n);
		t = next_time(n);
		if (t == ROCEMU_NEVER || t > end)
			break;
		assert_true(++steps < 100000);
		n->now = t > n->now ? t : n->now;
		deliver(n);
		for (unsigned i = 0; i < 2; i++) {
			struct net_side *s = &n->side[i];

			cm_expire(s->cm, n->now);
			if (s->later <= n->now) {
				s->later = ROCEMU_NEVER;
				answer(n, s, s->owed_conn, s->owed);
			}
		}
	}
	if (end != ROCEMU_NEVER)
		n->now = end;
}

void net_run(struct net *n)
{
	net_run_until(n, ROCEMU_NEVER);
}

void net_finish(struct net *n)
{
	for (unsigned i = 0; i < 2; i++) {
		struct net_side *s = &n->side[i];

		if (s->conn)
			cm_conn_destroy(s->conn, n->now);
		if (s->extra)
			cm_conn_destroy(s->extra, n->now);
		if (s->sidr)
			cm_sidr_destroy(s->sidr, n->now);
		s->conn = NULL;
		s->extra = NULL;
		s->sidr = NULL;
	}
	net_run(n);
	for (unsigned i = 0; i < 2; i++) {
		const struct cm_stats *st = cm_get_stats(n->side[i].cm);

		assert_int_equal(st->conns, 0);
		assert_int_equal(st->half_open, 0);
		assert_true(cm_deadline(n->side[i].cm) == ROCEMU_NEVER);
		cm_free(n->side[i].cm);
	}
}
