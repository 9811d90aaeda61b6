/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/gsi-mad.h"
#include "agent/link.h"
#include "agent/server.h"
#include "base/log.h"
#include "base/util.h"

enum {
	EXITS_BURST = 64, /* sent in a row; then answers are read */
	BACK_MS = 2000,	  /* clients of a dead agent find the next one within this time */
	ECN_MASK = 3,	  /* ECN bits of the traffic class, which the network sets */
	/* Used when net.ipv4.ip_local_port_range cannot be read. */
	PORT_FIRST = 32768,
	PORT_LAST = 60999,
};
#define EXITS_PAUSE_S 0.001

static void count(struct gsi *gsi, enum agent_gsi_counter what)
{
	gsi->counters[what]++;
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

static void on_exit_timer(struct ev_loop *loop, ev_timer *w, int revents);
static void on_early_timer(struct ev_loop *loop, ev_timer *w, int revents);
static void on_frame(struct gsi *gsi, struct gsi_client *member, struct gsi_frame *f);

void gsi_init(struct gsi *gsi, struct ev_loop *loop, struct store *store, bool limited)
{
	uint64_t key[2] = {link_now_ms()};
	uint16_t first, last;

	if (getrandom(key, sizeof(key), GRND_NONBLOCK) < 0)
		log_debug("no random numbers yet: using the clock");
	*gsi = (struct gsi){.loop = loop, .store = store, .on_frame = on_frame};
	gsi->prf = (struct prf){.key = {key[0], key[1]}};
	gsi_sources_init(&gsi->sources, key);
	local_port_range(&first, &last);
	gsi_ports_init(&gsi->ports, first, last, prf_derive(&gsi->prf));
	quotas_init(&gsi->quotas, limited);
	gsi_exits_init(&gsi->exit_mads, &gsi->quotas, prf_derive(&gsi->prf));
	/* At random, so that numbers of an earlier agent's clients are not used again soon. */
	gsi->last_number = (uint16_t)prf_below(&gsi->prf, AGENT_GSI_CLIENTS);
	ev_init(&gsi->exit_timer, on_exit_timer);
	ev_init(&gsi->early_timer, on_early_timer);
	gsi->exit_timer.data = gsi->early_timer.data = gsi;
	gsi_early_init(&gsi->early);
}

void gsi_fini(struct gsi *gsi)
{
	ev_timer_stop(gsi->loop, &gsi->exit_timer);
	ev_timer_stop(gsi->loop, &gsi->early_timer);
	gsi_early_fini(&gsi->early);
	gsi_exits_fini(&gsi->exit_mads);
}

void gsi_forget(struct gsi *gsi)
{
	for (unsigned i = 0; i < AGENT_GSI_CLIENTS; i++) {
		struct gsi_client *m = gsi->members[i];

		if (!m)
			continue;
		gsi_ports_drop(&gsi->ports, &m->ports);
		quota_release(&gsi->quotas, m->conn->uid, QUOTA_PORTS, m->nports);
		gsi_exits_forget(&gsi->exit_mads, &m->exit_mads);
		gsi_client_free(m);
	}
	gsi_fini(gsi);
}

/* QP 1 of an address, if it is there. */
static struct qp1 *qp1_at(const struct gsi *gsi, const struct rocemu_gid *addr, uint32_t scope_id)
{
	const struct group *g = groups_find(&gsi->store->groups, addr, scope_id);

	return g ? g->user : NULL;
}

static struct gsi_client *member_of(const struct gsi *gsi, uint32_t comm_id)
{
	return gsi->members[comm_id >> AGENT_GSI_ID_BITS];
}

/* The PSN is the address's: of all processes that send from it. */
static bool send_from(struct gsi *gsi, struct qp1 *q, struct gsi_mad *d,
		      enum agent_gsi_counter what)
{
	int r = qp1_send(q, d);

	if (r)
		log_debug("a MAD was not sent: %s", strerror(-r));
	count(gsi, r ? AGENT_GSI_COUNT_tx_failed : what);
	return r == 0;
}

static unsigned source_cell(const struct gsi *gsi, const struct gsi_mad *d)
{
	return gsi_sources_cell(&gsi->sources, &d->src, d->sport);
}

/* The reply for an absent client. */
static void answer(struct gsi *gsi, struct qp1 *q, const struct gsi_mad *d,
		   const struct rocemu_cm_msg *m)
{
	struct gsi_mad back = {.src = d->dst,
			       .dst = d->src,
			       .scope_id = d->scope_id,
			       .tclass = d->tclass & (uint8_t)~ECN_MASK};
	struct rocemu_cm_msg reply;
	uint64_t service_id;

	if (!gsi_mad_answer(m, &reply) ||
	    !gsi_sources_may_answer(&gsi->sources, source_cell(gsi, d), link_now_ms())) {
		count(gsi, AGENT_GSI_COUNT_unanswered);
		return;
	}
	(void)rocemu_cm_encode(&reply, back.mad);
	send_from(gsi, q, &back,
		  gsi_mad_service(m, &service_id) ? AGENT_GSI_COUNT_no_listener
						  : AGENT_GSI_COUNT_unknown_id);
}

static struct gsi_req_id req_id(const struct gsi_mad *d, const struct rocemu_cm_msg *m)
{
	return (struct gsi_req_id){.src = d->src,
				   .comm_id = gsi_mad_sender_id(m),
				   .tid = m->tid,
				   .sidr = m->attr_id == ROCEMU_CM_SIDR_REQ};
}

/* The client that got the request when it came first; of a REJ: the request that it takes back. */
static struct gsi_client *request_owner(struct gsi *gsi, const struct gsi_mad *d,
					const struct rocemu_cm_msg *m)
{
	struct gsi_req_id id = req_id(d, m);

	return gsi->members[gsi_reqs_find(&gsi->reqs, &id, link_now_ms())];
}

static struct gsi_client *find_listener(struct gsi *gsi, const struct qp1 *q,
					const struct gsi_mad *d, const struct rocemu_cm_msg *m,
					uint64_t service_id)
{
	struct gsi_req_id id = req_id(d, m);
	const struct gsi_port *port =
		gsi_ports_find(&gsi->ports, service_id, &d->dst, d->scope_id, &q->members);
	struct gsi_req *req;

	if (!port)
		return NULL;
	req = gsi_reqs_add(&gsi->reqs, &id, port->number, link_now_ms());
	req->dst = d->dst;
	req->scope_id = d->scope_id;
	req->tclass = d->tclass;
	req->service_id = service_id;
	return gsi->members[port->number];
}

static struct gsi_client *receiver_of(struct gsi *gsi, const struct qp1 *q, const struct gsi_mad *d,
				      const struct rocemu_cm_msg *m)
{
	uint32_t ours = gsi_mad_receiver_id(m);
	struct gsi_client *member;
	uint64_t service_id;

	if (gsi_mad_service(m, &service_id)) {
		member = request_owner(gsi, d, m);
		return member ? member : find_listener(gsi, q, d, m, service_id);
	}
	if (m->attr_id == ROCEMU_CM_REJ && !ours)
		return request_owner(gsi, d, m);
	return member_of(gsi, ours);
}

/* Does the message answer a dead client's exit MAD? */
static bool ends_exit(struct gsi *gsi, const struct gsi_mad *d, const struct rocemu_cm_msg *m)
{
	bool ends = m->attr_id == ROCEMU_CM_DREP || m->attr_id == ROCEMU_CM_REJ ||
		    m->attr_id == ROCEMU_CM_DREQ;

	if (!ends || !gsi_exits_answered(&gsi->exit_mads, gsi_mad_receiver_id(m), &d->src))
		return false;
	count(gsi, AGENT_GSI_COUNT_exit_answered);
	if (!gsi_is_busy(gsi))
		gsi->on_calm(gsi->user);
	return true;
}

/* Set a timer to a time, but not before least_s from now; UINT64_MAX: stop it. */
static void plan(struct gsi *gsi, ev_timer *timer, uint64_t at_ms, double least_s)
{
	uint64_t now = link_now_ms();
	double wait_s = at_ms > now ? (double)(at_ms - now) * 1e-3 : 0;

	ev_timer_stop(gsi->loop, timer);
	if (at_ms == UINT64_MAX)
		return;
	ev_now_update(gsi->loop);
	ev_timer_set(timer, MAX(wait_s, least_s), 0.);
	ev_timer_start(gsi->loop, timer);
}

static void plan_exits(struct gsi *gsi)
{
	plan(gsi, &gsi->exit_timer, gsi_exits_next_ms(&gsi->exit_mads), EXITS_PAUSE_S);
}

/* ---- requests that come too early ---- */

static void plan_early(struct gsi *gsi)
{
	plan(gsi, &gsi->early_timer, gsi_early_next_ms(&gsi->early), 0);
}

/*
 * Is the request kept until its port has a listener? After a change of agents each is kept, because
 * its client may not be back yet.
 */
static bool keep_early(struct gsi *gsi, const struct gsi_mad *d, const struct rocemu_cm_msg *m)
{
	uint64_t service_id;

	if (!gsi_mad_service(m, &service_id) ||
	    (!gsi_ports_is_bound(&gsi->ports, service_id, &d->dst, d->scope_id) &&
	     link_now_ms() >= gsi->back_by_ms) ||
	    !gsi_early_add(&gsi->early, d, source_cell(gsi, d), link_now_ms()))
		return false;
	plan_early(gsi);
	return true;
}

/*
 * Pass a kept request to its listener; late: or answer that there is none. @return whether it was
 * handled.
 */
static bool settle_early(struct gsi *gsi, struct gsi_early_req *r, bool late)
{
	struct qp1 *q = qp1_at(gsi, &r->d.dst, r->d.scope_id);
	struct gsi_client *member;
	struct rocemu_cm_msg m;

	if (!q || rocemu_cm_decode(&m, r->d.mad, sizeof(r->d.mad)))
		return true;
	member = receiver_of(gsi, q, &r->d, &m);
	if (member)
		gsi_client_deliver(member, GSI_FRAME_MAD, &r->d);
	else if (late)
		answer(gsi, q, &r->d, &m);
	return member || late;
}

void gsi_follows(struct gsi *gsi)
{
	if (!gsi->back_by_ms)
		gsi->back_by_ms = link_now_ms() + BACK_MS;
}

void gsi_listens(struct gsi *gsi)
{
	list_for_each_entry (r, struct gsi_early_req, node, &gsi->early.kept)
		if (settle_early(gsi, r, false))
			gsi_early_drop(&gsi->early, r);
	plan_early(gsi);
}

static void on_early_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct gsi *gsi = w->data;

	(void)loop;
	(void)revents;
	while (gsi_early_next_ms(&gsi->early) <= link_now_ms()) {
		struct gsi_early_req *r = gsi_early_first(&gsi->early);

		settle_early(gsi, r, true);
		gsi_early_drop(&gsi->early, r);
	}
	plan_early(gsi);
}

/* ---- received packets ---- */

static void input(struct gsi *gsi, struct qp1 *q, const struct gsi_mad *d)
{
	struct gsi_client *member;
	struct rocemu_cm_msg m;

	if (rocemu_cm_decode(&m, d->mad, sizeof(d->mad))) {
		count(gsi, AGENT_GSI_COUNT_rx_form);
		return;
	}
	member = receiver_of(gsi, q, d, &m);
	if (member) {
		gsi_client_deliver(member, GSI_FRAME_MAD, d);
		return;
	}
	if (keep_early(gsi, d, &m))
		return;
	/* A DREQ that crosses an exit MAD is answered all the same. */
	if (ends_exit(gsi, d, &m) && m.attr_id != ROCEMU_CM_DREQ)
		return;
	answer(gsi, q, d, &m);
}

static void returned(struct gsi *gsi, struct qp1 *q, const struct gsi_mad *d, int error)
{
	struct gsi_client *member;
	struct rocemu_cm_msg m;
	uint64_t service_id;

	if (error != ECONNREFUSED && error != EHOSTUNREACH && error != ENETUNREACH)
		return;
	if (rocemu_cm_decode(&m, d->mad, sizeof(d->mad)) || !gsi_mad_service(&m, &service_id))
		return;
	member = member_of(gsi, gsi_mad_sender_id(&m));
	if (member && seat_set_has(&q->members, member->number))
		gsi_client_unreachable(member, gsi_mad_sender_id(&m), error);
}

void gsi_watch(struct gsi *gsi, struct group *g)
{
	static const struct qp1_ops ops = {.input = input, .returned = returned};

	if (!g->user && g->count)
		g->user = qp1_new(gsi, &ops, g, gsi->loop);
}

/* ---- sending ---- */

/*
 * May a client use the QPN as its own? Not if another user has the slot: the peer would take that
 * user's connection for stale. The client's user is that of its connection to the agent; the
 * process may have changed it since.
 */
static bool may_name(const struct gsi *gsi, const struct gsi_client *member, uint32_t qpn)
{
	const struct seats *slots = &gsi->store->seats[AGENT_LANE];
	const struct seats *numbers = &gsi->store->seats[AGENT_GSI];
	unsigned slot = qpn / AGENT_INDEXES;

	return member->conn->uid == 0 ||
	       slots->seat[slot].uid == numbers->seat[member->number].uid ||
	       !seats_is_used(slots, slot);
}

/* The QP 1 that a client's MAD goes out from; NULL: the client may not send it. */
static struct qp1 *check_outgoing(struct gsi *gsi, const struct gsi_client *member,
				  const struct gsi_mad *d, struct rocemu_cm_msg *m)
{
	struct qp1 *q = qp1_at(gsi, &d->src, d->scope_id);
	uint32_t id;

	if (!q || !seat_set_has(&q->members, member->number) ||
	    rocemu_gid_is_ipv4(&d->src) != rocemu_gid_is_ipv4(&d->dst) ||
	    rocemu_cm_decode(m, d->mad, sizeof(d->mad)))
		return NULL;
	/* The ID has to be one of the client's, the QP one of its user's. */
	id = gsi_mad_sender_id(m);
	if (id && member_of(gsi, id) != member)
		return NULL;
	return may_name(gsi, member, gsi_mad_sender_qpn(m)) ? q : NULL;
}

/*
 * Fault injection may corrupt a client's MADs; a packet that receivers would still accept is
 * checked like any other.
 */
static bool check_flips(struct gsi *gsi, const struct gsi_client *member, struct qp1 *q,
			struct gsi_mad *d)
{
	uint8_t packet[GSI_PACKET_LEN];
	struct gsi_mad seen = *d;
	struct rocemu_cm_msg m;

	if (!d->nflips)
		return true;
	seen.sport = q->sport;
	gsi_hdr_encode(&seen, q->psn);
	gsi_packet_encode(&seen, packet);
	/*
	 * Receivers do not see the identification, so a packet whose ICRC fits any identification
	 * would be accepted.
	 */
	return gsi_packet_decode(&seen, packet, sizeof(packet)) != GSI_OK ||
	       check_outgoing(gsi, member, &seen, &m) != NULL;
}

/* A client's message to a requester shows that it has seen the request. */
static void note_seen(struct gsi *gsi, const struct gsi_client *member, const struct rocemu_gid *to,
		      const struct rocemu_cm_msg *m)
{
	const struct gsi_req_id id = {.src = *to,
				      .comm_id = gsi_mad_receiver_id(m),
				      .tid = m->tid,
				      .sidr = m->attr_id == ROCEMU_CM_SIDR_REP};

	gsi_reqs_seen(&gsi->reqs, &id, member->number);
}

static void set_exit(struct gsi *gsi, struct gsi_client *member, const struct gsi_frame *f,
		     const struct rocemu_cm_msg *m)
{
	bool dreq = m->attr_id == ROCEMU_CM_DREQ;

	/* A DREP is sent once, as a REJ. */
	bool once = m->attr_id == ROCEMU_CM_REJ || m->attr_id == ROCEMU_CM_DREP;

	if (member_of(gsi, f->comm_id) != member || (!dreq && !once) ||
	    gsi_exits_set(&gsi->exit_mads, &member->exit_mads, &member->nexits, member->conn->uid,
			  f, dreq))
		count(gsi, AGENT_GSI_COUNT_tx_refused);
}

static void send_for(struct gsi *gsi, struct gsi_client *member, struct qp1 *q, struct gsi_mad *d,
		     bool echo)
{
	if (send_from(gsi, q, d, AGENT_GSI_COUNT_tx) && echo)
		gsi_client_deliver(member, GSI_FRAME_SENT, d);
}

static void on_frame(struct gsi *gsi, struct gsi_client *member, struct gsi_frame *f)
{
	struct rocemu_cm_msg m;
	struct qp1 *q;

	if (f->type == GSI_FRAME_EXIT_CLEAR) {
		if (member_of(gsi, f->comm_id) == member)
			gsi_exits_clear(&gsi->exit_mads, &member->nexits, f->comm_id);
		return;
	}
	q = f->type == GSI_FRAME_MAD || f->type == GSI_FRAME_EXIT_SET
		    ? check_outgoing(gsi, member, &f->m, &m)
		    : NULL;
	if (!q || !check_flips(gsi, member, q, &f->m)) {
		log_debug("client %u: a MAD that it may not send", member->number);
		count(gsi, AGENT_GSI_COUNT_tx_refused);
		return;
	}
	note_seen(gsi, member, &f->m.dst, &m);
	if (f->type == GSI_FRAME_EXIT_SET)
		set_exit(gsi, member, f, &m);
	else
		send_for(gsi, member, q, &f->m, f->echo);
}

/*
 * A client has died with unread requests: reject them now, since at the sender's next try there may
 * be no agent here any more.
 */
static void answer_unseen(struct gsi *gsi, uint16_t number)
{
	struct gsi_req req;
	unsigned at = 0;

	while (gsi_reqs_take_unseen(&gsi->reqs, number, link_now_ms(), &at, &req)) {
		struct qp1 *q = qp1_at(gsi, &req.dst, req.scope_id);
		const struct gsi_mad d = {.src = req.id.src,
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
		if (q)
			answer(gsi, q, &d, &m);
	}
}

static void leave(struct qp1 *q, unsigned number)
{
	if (!q)
		return;
	seat_set_remove(&q->members, number);
	seat_set_remove(&q->ended, number);
}

/* The addresses that the exit MADs of a client are sent from. */
static void keep_sources(struct gsi *gsi, const struct gsi_client *m)
{
	list_for_each_entry (e, const struct gsi_exit_mad, node, &m->exit_mads) {
		struct qp1 *q = qp1_at(gsi, &e->mad.src, e->mad.scope_id);

		if (q)
			seat_set_add(&q->ended, m->number);
	}
}

void gsi_end_client(struct gsi *gsi, struct gsi_client *m)
{
	gsi_client_drain(m);
	gsi_ports_drop(&gsi->ports, &m->ports);
	quota_release(&gsi->quotas, m->conn->uid, QUOTA_PORTS, m->nports);
	list_for_each_entry (g, struct group, node, &gsi->store->groups.all)
		leave(g->user, m->number);
	if (gsi->leaving) {
		gsi_exits_forget(&gsi->exit_mads, &m->exit_mads);
	} else {
		keep_sources(gsi, m);
		gsi_exits_execute(&gsi->exit_mads, &m->exit_mads, link_now_ms());
		answer_unseen(gsi, m->number);
	}
	gsi->members[m->number] = NULL;
	gsi->nmembers--;
	gsi_client_free(m);
	plan_exits(gsi);
}

static void on_exit_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct gsi *gsi = w->data;
	bool busy = gsi_is_busy(gsi);

	(void)loop;
	(void)revents;
	for (unsigned i = 0; i < EXITS_BURST; i++) {
		struct gsi_mad *d = gsi_exits_take(&gsi->exit_mads, link_now_ms());
		struct qp1 *q = d ? qp1_at(gsi, &d->src, d->scope_id) : NULL;

		if (!d)
			break;
		if (q)
			send_from(gsi, q, d, AGENT_GSI_COUNT_exit_sent);
	}
	gsi->counters[AGENT_GSI_COUNT_exit_given_up] = gsi->exit_mads.given_up;
	plan_exits(gsi);
	if (busy && !gsi_is_busy(gsi))
		gsi->on_calm(gsi->user);
}
