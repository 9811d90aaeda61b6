/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/cm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/cm-mad.h"
#include "agent/link.h"
#include "agent/server.h"
#include "base/log.h"
#include "base/util.h"

enum {
	WILLS_BURST = 64, /* sent in a row: their answers are to be read in between */
	PSN_MASK = 0xffffff,
	BACK_MS = 2000, /* clients of a dead agent find the next one within this time */
	ECN_MASK = 3, /* of a traffic class: the network's, not the sender's */
	/* When the system does not say which ports it gives out. */
	PORT_FIRST = 32768,
	PORT_LAST = 60999,
};
#define WILLS_PAUSE_S 0.001

static void count(struct cm *cm, enum agent_cm_counter what)
{
	cm->counters[what]++;
}

static void local_port_range(uint16_t *first, uint16_t *last)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	unsigned a, b;

	*first = PORT_FIRST;
	*last = PORT_LAST;
	if (!f)
		return;
	if (fscanf(f, "%u %u", &a, &b) == 2 && a > 0 && a <= b && b <= UINT16_MAX) {
		*first = (uint16_t)a;
		*last = (uint16_t)b;
	}
	fclose(f);
}

static void on_will_timer(struct ev_loop *loop, ev_timer *w, int revents);
static void on_early_timer(struct ev_loop *loop, ev_timer *w, int revents);

void cm_init(struct cm *cm, struct ev_loop *loop, const struct agent_realm *realm,
	     struct groups *groups)
{
	uint64_t seed = link_now_ms();
	uint16_t first, last;
	struct rng rng;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) < 0)
		log_debug("no random numbers yet: the clock will do");
	rng_init(&rng, seed);
	*cm = (struct cm){.loop = loop, .realm = realm, .groups = groups};
	local_port_range(&first, &last);
	cm_ports_init(&cm->ports, first, last, rng_u64(&rng));
	cm_wills_init(&cm->wills);
	/* At random, so that numbers of an earlier agent's clients are not used again soon. */
	cm->last_number = (uint16_t)rng_below(&rng, AGENT_CM_CLIENTS);
	cm->psn = rng_u32(&rng) & PSN_MASK;
	ev_init(&cm->will_timer, on_will_timer);
	ev_init(&cm->early_timer, on_early_timer);
	cm->will_timer.data = cm->early_timer.data = cm;
	cm_early_init(&cm->early);
}

void cm_fini(struct cm *cm)
{
	ev_timer_stop(cm->loop, &cm->will_timer);
	ev_timer_stop(cm->loop, &cm->early_timer);
	cm_early_fini(&cm->early);
	cm_wills_fini(&cm->wills);
}

static struct cm_member *member_of(const struct cm *cm, uint32_t comm_id)
{
	return cm->members[comm_id >> AGENT_CM_ID_BITS];
}

static void send_from(struct cm *cm, struct qp1 *q, const struct agent_cm_dgram *d,
		      enum agent_cm_counter what)
{
	int r = qp1_send(q, d);

	if (r)
		log_debug("a MAD was not sent: %s", strerror(-r));
	count(cm, r ? AGENT_CM_COUNT_tx_failed : what);
}

/* In the place of whoever is not there. */
static void answer(struct cm *cm, struct qp1 *q, const struct agent_cm_dgram *d,
		   const struct rocemu_cm_msg *m)
{
	struct agent_cm_dgram back = {.src = d->dst,
				      .dst = d->src,
				      .scope_id = d->scope_id,
				      .sport = q->sport,
				      .tclass = d->tclass & (uint8_t)~ECN_MASK};
	uint8_t buf[AGENT_CM_DGRAM_LEN];
	struct rocemu_cm_msg reply;
	uint64_t service_id;

	if (!cm_mad_answer(m, &reply)) {
		count(cm, AGENT_CM_COUNT_unanswered);
		return;
	}
	cm_mad_build(&back, &reply, cm->psn, buf);
	cm->psn = (cm->psn + 1) & PSN_MASK;
	send_from(cm, q, &back,
		  cm_mad_service(m, &service_id) ? AGENT_CM_COUNT_no_listener
						 : AGENT_CM_COUNT_unknown_id);
}

static struct cm_req_id req_id(const struct agent_cm_dgram *d, const struct rocemu_cm_msg *m)
{
	return (struct cm_req_id){.src = d->src,
				  .comm_id = cm_mad_sender_id(m),
				  .tid = m->tid,
				  .sidr = m->attr_id == ROCEMU_CM_SIDR_REQ};
}

/* The client that got the request when it came first; of a REJ: the request that it takes back. */
static struct cm_member *who_got(struct cm *cm, const struct agent_cm_dgram *d,
				 const struct rocemu_cm_msg *m)
{
	struct cm_req_id id = req_id(d, m);

	return cm->members[cm_reqs_find(&cm->reqs, &id, link_now_ms())];
}

static struct cm_member *who_listens(struct cm *cm, const struct qp1 *q,
				     const struct agent_cm_dgram *d, const struct rocemu_cm_msg *m,
				     uint64_t service_id)
{
	struct cm_req_id id = req_id(d, m);
	const struct cm_port *port =
		cm_ports_find(&cm->ports, service_id, &d->dst, d->scope_id, &q->members);
	struct cm_req *req;

	if (!port)
		return NULL;
	req = cm_reqs_add(&cm->reqs, &id, port->number, link_now_ms());
	req->dst = d->dst;
	req->scope_id = d->scope_id;
	req->tclass = d->tclass;
	req->service_id = service_id;
	return cm->members[port->number];
}

static struct cm_member *whose(struct cm *cm, const struct qp1 *q, const struct agent_cm_dgram *d,
			       const struct rocemu_cm_msg *m)
{
	uint32_t ours = cm_mad_receiver_id(m);
	struct cm_member *member;
	uint64_t service_id;

	if (cm_mad_service(m, &service_id)) {
		member = who_got(cm, d, m);
		return member ? member : who_listens(cm, q, d, m, service_id);
	}
	if (m->attr_id == ROCEMU_CM_REJ && !ours)
		return who_got(cm, d, m);
	return member_of(cm, ours);
}

/* Does the message end what a dead client's will is to end? */
static bool ends_will(struct cm *cm, const struct agent_cm_dgram *d, const struct rocemu_cm_msg *m)
{
	bool ends = m->attr_id == ROCEMU_CM_DREP || m->attr_id == ROCEMU_CM_REJ ||
		    m->attr_id == ROCEMU_CM_DREQ;

	if (!ends || !cm_wills_answered(&cm->wills, cm_mad_receiver_id(m), &d->src))
		return false;
	count(cm, AGENT_CM_COUNT_wills_answered);
	if (!cm_is_busy(cm))
		cm->on_calm(cm->user);
	return true;
}

/* ---- requests that come too early ---- */

static void plan_early(struct cm *cm)
{
	uint64_t next = cm_early_next_ms(&cm->early), now = link_now_ms();

	ev_timer_stop(cm->loop, &cm->early_timer);
	if (next == UINT64_MAX)
		return;
	ev_now_update(cm->loop);
	ev_timer_set(&cm->early_timer, next > now ? (double)(next - now) * 1e-3 : 0, 0.);
	ev_timer_start(cm->loop, &cm->early_timer);
}

/* Is it kept until its port is listened on? After a change of agents each is: its client may not be back yet. */
static bool keep_early(struct cm *cm, const struct agent_cm_dgram *d, const struct rocemu_cm_msg *m)
{
	uint64_t service_id;

	if (!cm_mad_service(m, &service_id) ||
	    (!cm_ports_is_bound(&cm->ports, service_id, &d->dst, d->scope_id) &&
	     link_now_ms() >= cm->back_by_ms) ||
	    !cm_early_add(&cm->early, d, link_now_ms()))
		return false;
	plan_early(cm);
	return true;
}

/* Give a kept request to who listens; late: or say that nobody does. @return it is done with. */
static bool settle_early(struct cm *cm, struct cm_early_req *r, bool late)
{
	const struct group *g = groups_find(cm->groups, &r->d.dst, r->d.scope_id);
	struct cm_member *member;
	struct rocemu_cm_msg m;

	if (!g || !g->user || cm_mad_decode(&r->d, &m))
		return true;
	member = whose(cm, g->user, &r->d, &m);
	if (member)
		cm_member_deliver(member, &r->d);
	else if (late)
		answer(cm, g->user, &r->d, &m);
	return member || late;
}

void cm_follows(struct cm *cm)
{
	if (!cm->back_by_ms)
		cm->back_by_ms = link_now_ms() + BACK_MS;
}

void cm_listens(struct cm *cm)
{
	for (unsigned n = cm->early.n; n > 0; n--) {
		struct cm_early_req *r = cm_early_take(&cm->early);

		if (settle_early(cm, r, false))
			free(r);
		else
			cm_early_put_back(&cm->early, r);
	}
	plan_early(cm);
}

static void on_early_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct cm *cm = w->data;

	(void)loop;
	(void)revents;
	while (cm_early_next_ms(&cm->early) <= link_now_ms()) {
		struct cm_early_req *r = cm_early_take(&cm->early);

		settle_early(cm, r, true);
		free(r);
	}
	plan_early(cm);
}

/* ---- what comes in ---- */

void cm_input(struct cm *cm, struct qp1 *q, struct agent_cm_dgram *d)
{
	static const enum agent_cm_counter drops[] = {
		[CM_MAD_FORM] = AGENT_CM_COUNT_rx_form,
		[CM_MAD_KEY] = AGENT_CM_COUNT_rx_key,
		[CM_MAD_ICRC] = AGENT_CM_COUNT_rx_icrc,
	};
	struct cm_member *member;
	struct rocemu_cm_msg m;
	enum cm_mad_verdict v;

	count(cm, AGENT_CM_COUNT_rx);
	v = cm_mad_decode(d, &m);
	if (v) {
		count(cm, drops[v]);
		return;
	}
	member = whose(cm, q, d, &m);
	if (member) {
		cm_member_deliver(member, d);
		return;
	}
	if (keep_early(cm, d, &m))
		return;
	/* A DREQ that crosses a will is answered all the same. */
	if (ends_will(cm, d, &m) && m.attr_id != ROCEMU_CM_DREQ)
		return;
	answer(cm, q, d, &m);
}

void cm_returned(struct cm *cm, struct qp1 *q, struct agent_cm_dgram *d, int error)
{
	struct cm_member *member;
	struct rocemu_cm_msg m;
	uint64_t service_id;

	/* Whoever made this up has seen the request: its ICRC is right. */
	if (error != ECONNREFUSED && error != EHOSTUNREACH && error != ENETUNREACH)
		return;
	if (cm_mad_decode(d, &m) || !cm_mad_service(&m, &service_id))
		return;
	member = member_of(cm, cm_mad_sender_id(&m));
	if (member && cm_set_has(&q->members, member->number))
		cm_member_unreached(member, cm_mad_sender_id(&m), error);
}

/* The QP 1 that a client's datagram goes out from; NULL: it is none that the client may send. */
static struct qp1 *check_outgoing(struct cm *cm, const struct cm_member *member,
				  struct agent_cm_dgram *d, struct rocemu_cm_msg *m)
{
	const struct group *g = groups_find(cm->groups, &d->src, d->scope_id);
	struct qp1 *q = g ? g->user : NULL;
	uint32_t id;

	d->ip_id = 0;
	if (!q || !cm_set_has(&q->members, member->number) ||
	    rocemu_gid_is_ipv4(&d->src) != rocemu_gid_is_ipv4(&d->dst) || cm_mad_decode(d, m) ||
	    d->ip_id != 0)
		return NULL;
	/* Nobody speaks in another's name. */
	id = cm_mad_sender_id(m);
	return id == 0 || member_of(cm, id) == member ? q : NULL;
}

/* What a client says to a requester shows that it has seen the request. */
static void note_seen(struct cm *cm, const struct cm_member *member, const struct rocemu_gid *to,
		      const struct rocemu_cm_msg *m)
{
	const struct cm_req_id id = {.src = *to,
				     .comm_id = cm_mad_receiver_id(m),
				     .tid = m->tid,
				     .sidr = m->attr_id == ROCEMU_CM_SIDR_REP};

	cm_reqs_seen(&cm->reqs, &id, member->number);
}

static void plan_wills(struct cm *cm);

static void set_will(struct cm *cm, struct cm_member *member, const struct cm_frame *f,
		     const struct rocemu_cm_msg *m)
{
	bool dreq = m->attr_id == ROCEMU_CM_DREQ;

	/* A DREP is sent once, as a REJ. */
	bool once = m->attr_id == ROCEMU_CM_REJ || m->attr_id == ROCEMU_CM_DREP;

	if (member_of(cm, f->comm_id) != member || (!dreq && !once) ||
	    cm_wills_set(&cm->wills, &member->wills, &member->nwills, f, dreq))
		count(cm, AGENT_CM_COUNT_tx_refused);
}

void cm_frame(struct cm *cm, struct cm_member *member, const struct cm_frame *f)
{
	struct agent_cm_dgram d = f->d;
	struct rocemu_cm_msg m;
	struct qp1 *q;

	if (f->type == CM_FRAME_UNREACHED) {
		count(cm, AGENT_CM_COUNT_tx_refused);
		return;
	}
	if (!d.len) {
		if (member_of(cm, f->comm_id) == member)
			cm_wills_clear(&cm->wills, &member->nwills, f->comm_id);
		return;
	}
	q = check_outgoing(cm, member, &d, &m);
	if (!q) {
		log_debug("client %u: a MAD that is not its to send", member->number);
		count(cm, AGENT_CM_COUNT_tx_refused);
		return;
	}
	note_seen(cm, member, &d.dst, &m);
	if (f->type == CM_FRAME_WILL)
		set_will(cm, member, f, &m);
	else
		send_from(cm, q, &d, AGENT_CM_COUNT_tx);
}

/* A client has died with requests that it has not even read: whoever sent them shall not wait for
 * its next try, when there may be no agent here any more. */
static void answer_unseen(struct cm *cm, uint16_t number)
{
	struct cm_req req;
	unsigned at = 0;

	while (cm_reqs_take_unseen(&cm->reqs, number, link_now_ms(), &at, &req)) {
		const struct group *g = groups_find(cm->groups, &req.dst, req.scope_id);
		const struct agent_cm_dgram d = {.src = req.id.src,
						 .dst = req.dst,
						 .scope_id = req.scope_id,
						 .tclass = req.tclass};
		struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_REQ, .tid = req.id.tid};

		if (req.id.sidr) {
			m.attr_id = ROCEMU_CM_SIDR_REQ;
			m.sidr_req.request_id = req.id.comm_id;
			m.sidr_req.service_id = req.service_id;
		} else {
			m.req.local_comm_id = req.id.comm_id;
		}
		if (g && g->user)
			answer(cm, g->user, &d, &m);
	}
}

void cm_member_gone(struct cm *cm, struct cm_member *m)
{
	cm_ports_drop(&cm->ports, &m->ports);
	if (cm->leaving) {
		cm_wills_forget(&cm->wills, &m->wills);
	} else {
		cm_wills_execute(&cm->wills, &m->wills, link_now_ms());
		answer_unseen(cm, m->number);
	}
	list_for_each (it, &cm->groups->all) {
		struct qp1 *q = list_entry(it, struct group, node)->user;

		if (q)
			cm_set_remove(&q->members, m->number);
	}
	cm->members[m->number] = NULL;
	cm->nmembers--;
	plan_wills(cm);
}

static void plan_wills(struct cm *cm)
{
	uint64_t next = cm_wills_next_ms(&cm->wills), now = link_now_ms();
	double wait_s = next > now ? (double)(next - now) * 1e-3 : 0;

	ev_timer_stop(cm->loop, &cm->will_timer);
	if (next == UINT64_MAX)
		return;
	ev_now_update(cm->loop);
	ev_timer_set(&cm->will_timer, MAX(wait_s, WILLS_PAUSE_S), 0.);
	ev_timer_start(cm->loop, &cm->will_timer);
}

static void on_will_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct cm *cm = w->data;
	bool busy = cm_is_busy(cm);

	(void)loop;
	(void)revents;
	for (unsigned i = 0; i < WILLS_BURST; i++) {
		const struct agent_cm_dgram *d = cm_wills_take(&cm->wills, link_now_ms());
		const struct group *g;

		if (!d)
			break;
		g = groups_find(cm->groups, &d->src, d->scope_id);
		if (g && g->user)
			send_from(cm, g->user, d, AGENT_CM_COUNT_wills_sent);
	}
	cm->counters[AGENT_CM_COUNT_wills_given_up] = cm->wills.given_up;
	plan_wills(cm);
	if (busy && !cm_is_busy(cm))
		cm->on_calm(cm->user);
}

static void list_clients(const struct cm *cm, unsigned from, struct agent_cm_page *pg)
{
	for (unsigned i = 1; i < AGENT_CM_CLIENTS; i++) {
		const struct cm_member *m = cm->members[i];

		if (!m || pg->clients_total++ < from || pg->nclients == AGENT_CM_PAGE_CLIENTS)
			continue;
		pg->clients[pg->nclients++] = (struct agent_cm_client_info){
			.pid = m->conn->pid,
			.uid = m->conn->uid,
			.number = m->number,
			.addrs = (uint16_t)m->naddrs,
			.binds = m->nports,
			.wills = m->nwills,
			.queued = m->queued,
			.delivered = m->delivered,
			.dropped = m->dropped,
		};
	}
}

static void list_listeners(const struct cm *cm, unsigned from, struct agent_cm_page *pg)
{
	for (unsigned i = 1; i < AGENT_CM_CLIENTS; i++) {
		if (!cm->members[i])
			continue;
		list_for_each (it, &cm->members[i]->ports) {
			const struct cm_port *p = list_entry(it, struct cm_port, of_client);

			if (!p->listens || pg->listeners_total++ < from ||
			    pg->nlisteners == AGENT_CM_PAGE_LISTENERS)
				continue;
			pg->listeners[pg->nlisteners++] =
				(struct agent_cm_listener_info){p->number, p->bind};
		}
	}
}

void cm_status(const struct cm *cm, unsigned from_client, unsigned from_listener,
	       struct agent_cm_page *pg)
{
	memset(pg, 0, sizeof(*pg));
	memcpy(pg->counters, cm->counters, sizeof(pg->counters));
	pg->lingering = cm->wills.due_count;
	list_clients(cm, from_client, pg);
	list_listeners(cm, from_listener, pg);
}
