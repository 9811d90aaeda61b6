/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints in virtual time: one whose peer a scenario writes, or two on a link. */
#include "endpoint.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#include "base/util.h"
#include "scenario/peer.h"
#include "scenario/setup.h"
#include "transport/peer.h"
#include "transport/qp.h"

enum { BEGIN = 1000, MAX_INLINE = 64, QPN_SLOT = 5, TURNS_MAX = 200000 };

#define RUN_MAX (1000ull * NS_PER_S)

/* ---- objects ---- */

static const int area_access[SCENARIO_AREAS] = {
	[SCENARIO_MEM] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND |
			 ROCEMU_ACCESS_FLUSH_GLOBAL | ROCEMU_ACCESS_FLUSH_PERSISTENT,
	[SCENARIO_SEND] = IBV_ACCESS_LOCAL_WRITE,
	[SCENARIO_RECV] = IBV_ACCESS_LOCAL_WRITE,
};

static int register_area(struct end *e, struct rocemu_pd *pd, unsigned area, int access)
{
	int error = rocemu_mr_reg(pd, e->memory[area], SCENARIO_AREA, area_iova(area), access,
				  &e->mr[area]);

	if (!error) {
		e->lkey[area] = rocemu_mr_lkey(e->mr[area]);
		e->rkey[area] = rocemu_mr_rkey(e->mr[area]);
	}
	return error;
}

static int make_memory(struct end *e)
{
	for (unsigned i = 0; i < SCENARIO_AREAS; i++) {
		int error;

		scenario_fill((enum scenario_area)i, e->memory[i], SCENARIO_AREA);
		error = register_area(e, e->pd, i, area_access[i]);
		if (error)
			return error;
	}
	return 0;
}

/** The peer of an XRC_SEND QP is an XRC_RECV QP. */
static enum ibv_qp_type end_type(const struct scenario_setup *s, unsigned end)
{
	return end && s->type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : s->type;
}

static int make_qp(struct end *e, const struct scenario_setup *s, enum ibv_qp_type type)
{
	struct rocemu_qp_init init = {
		.type = type,
		.cap = {s->send_wr, s->recv_wr, SCENARIO_QP_SGES, SCENARIO_QP_SGES, MAX_INLINE},
		.sq_sig_all = s->sig_all,
	};
	int error = 0;

	if (type == IBV_QPT_XRC_RECV) {
		init.cap = (struct ibv_qp_cap){0};
		init.xrcd = e->xrcd = rocemu_xrcd_new(e->ep);
		error = e->xrcd ? srq_new(e, s->recv_wr, false, false) : -ENOMEM;
	} else {
		init.pd = e->pd;
		init.send_cq = e->cq;
		if (type != IBV_QPT_XRC_SEND)
			init.recv_cq = e->cq;
		if (s->srq)
			error = srq_new(e, s->recv_wr, s->srq_other_pd, false);
		init.srq = e->srq;
	}
	error = error ? error : rocemu_qp_create(e->ep, &init, &e->qp);
	if (!error)
		e->qpn = rocemu_qp_num(e->qp);
	return error;
}

enum { US = 1000 }; /* ns */

static void set_traits(struct rocemu_traits *t, const struct scenario_setup *s)
{
	*t = (struct rocemu_traits){
		.drops_early = s->drops_early,
		.goes_back = s->goes_back,
		.no_probes = s->no_probes,
		.no_migreq = s->no_migreq,
		.sends_credits = s->sends_credits,
		.cnp_on_nak = s->cnp_on_nak,
		.no_cnps = s->no_cnps,
		.extra_repetitions = (uint8_t)s->extra_repetitions,
		.ack_timeout_floor = (rocemu_ns_t)s->ack_timeout_floor * US,
		.rnr_wait_floor = (rocemu_ns_t)s->rnr_wait_floor * US,
		.nak_delay = (rocemu_ns_t)s->nak_delay * US,
		.cnp_interval = (rocemu_ns_t)s->cnp_interval * US,
	};
}

static int make_end(struct world *w, unsigned index)
{
	struct rocemu_ep_config cfg = {.seed = 1 + index,
				       .window_bytes = w->setup.window,
				       .rnr_chance = w->setup.rnr_chance / 100.0,
				       .rnr_seed = 7};
	struct end *e = w->end[index] = calloc(1, sizeof(*e));
	int error;

	if (!e)
		return -ENOMEM;
	if (w->setup.ip != 4 && w->setup.ip != 6)
		return -EINVAL;
	cfg.why = w->setup.why ? take_reason : NULL;
	cfg.why_user = e;
	set_traits(&cfg.traits, &w->setup);
	if (w->setup.ip == 4)
		e->gid = (struct rocemu_gid){{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
	else
		e->gid = (struct rocemu_gid){{0xfd, [15] = 1}};
	e->gid.raw[15] = (uint8_t)(1 + index);
	e->ep = rocemu_ep_new(&cfg);
	if (!e->ep)
		return -ENOMEM;
	rocemu_ep_set_slot(e->ep, (uint16_t)(QPN_SLOT + index), 0);
	rocemu_ep_set_gid(e->ep, 0, &e->gid);
	e->pd = rocemu_pd_new(e->ep);
	e->other_pd = rocemu_pd_new(e->ep);
	if (!e->pd || !e->other_pd)
		return -ENOMEM;
	error = rocemu_cq_create(e->ep, w->setup.cqe, NULL, &e->cq);
	if (!error)
		error = make_memory(e);
	return error ? error : make_qp(e, &w->setup, end_type(&w->setup, index));
}

/* ---- states ---- */

struct rocemu_gid peer_gid(const struct world *w, unsigned end)
{
	struct rocemu_gid gid = w->end[end]->gid;

	if (!w->setup.same_address)
		gid.raw[15] ^= 3;
	if (w->setup.other_address)
		gid.raw[15] ^= 4;
	return gid;
}

uint32_t peer_qpn(const struct world *w, unsigned end)
{
	return w->setup.ends == 1 ? (uint32_t)PEER_QPN : w->end[!end]->qpn;
}

static int modify(void *world, unsigned end, enum ibv_qp_state to, const struct scenario_setup *s,
		  int mask)
{
	struct world *w = world;
	struct end *e = w->end[end];
	const enum ibv_qp_state from = e->qp ? rocemu_qp_state(e->qp) : IBV_QPS_UNKNOWN;
	const uint32_t old_address = w->setup.other_address;
	struct rocemu_gid peer;
	struct ibv_qp_attr a = scenario_attr(s, end, to);
	int error;

	if (!e->qp)
		return -EINVAL;
	if (mask & IBV_QP_AV)
		w->setup.other_address = s->other_address;
	peer = peer_gid(w, end);
	a.dest_qp_num = s->dest_qp_num ? s->dest_qp_num : peer_qpn(w, end);
	memcpy(a.ah_attr.grh.dgid.raw, peer.raw, sizeof(peer.raw));
	/* The setup's are the first end's. */
	if (mask & IBV_QP_RQ_PSN)
		a.rq_psn = s->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		a.sq_psn = s->sq_psn;
	error = rocemu_qp_modify(e->qp, w->now, &a,
				 mask | scenario_attr_mask(end_type(s, end), from, to));
	if (error)
		w->setup.other_address = old_address;
	if (!error && to != IBV_QPS_ERR)
		e->told_error = false;
	/* As after many ACKs. */
	if (!error && from == IBV_QPS_RTR && to == IBV_QPS_RTS && e->qp->req.peer)
		e->qp->req.peer->cc.cwnd = MAX(cc_max(&e->qp->req.peer->cc), w->setup.window);
	return error;
}

/** The end of a QP gives back all packets that it kept: a bug otherwise, not a case that fails. */
static void end_free(struct end *e)
{
	if (e->qp && rocemu_qp_destroy(e->qp) == 0 && e->ep->keep.nfree != KEEP_SLOTS) {
		fprintf(stderr, "the QP has not given back what it kept\n");
		abort();
	}
	rocemu_ep_free(e->ep);
	free(e);
}

static void world_free(void *world)
{
	struct world *w = world;

	for (unsigned i = 0; i < SCENARIO_ENDS; i++) {
		if (w->end[i])
			end_free(w->end[i]);
	}
	link_free(w);
	free(w);
}

static int connect_ends(struct world *w)
{
	static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

	if (w->setup.state == IBV_QPS_RESET)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(way); i++) {
		for (unsigned end = 0; end < w->setup.ends; end++) {
			int error = modify(w, end, way[i], &w->setup, 0);

			if (error)
				return error;
		}
		if (way[i] == w->setup.state)
			return 0;
	}
	return -EINVAL;
}

static void *start(const struct scenario_setup *s, int *error)
{
	struct world *w = s->area == SCENARIO_AREA ? calloc(1, sizeof(*w)) : NULL;

	*error = s->area == SCENARIO_AREA ? -ENOMEM : -EOPNOTSUPP;
	if (!w)
		return NULL;
	w->setup = *s;
	w->now = BEGIN;
	rng_init(&w->rng, s->seed);
	*error = 0;
	for (unsigned i = 0; i < s->ends && !*error; i++)
		*error = make_end(w, i);
	if (!*error)
		*error = connect_ends(w);
	if (!*error)
		return w;
	world_free(w);
	return NULL;
}

/* ---- packets and time ---- */

/** The first end sends a packet: latency() and interval() are about these times. */
static void note_time(struct world *w)
{
	if (!w->replied)
		w->reply_at = w->now;
	w->replied = true;
	w->out_at[1] = w->out_at[0];
	w->out_at[0] = w->now;
	w->outs++;
}

static void send_one(struct world *w, unsigned end, struct rocemu_tx *t)
{
	uint8_t data[ROCEMU_MAX_PACKET];
	struct rocemu_packet p;
	uint32_t len = flatten(t, data);
	const char *fault = "";
	char text[SCENARIO_LINE_MAX] = "?";
	bool lost;

	if (rocemu_packet_decode(&p, data, len) == ROCEMU_DROP_NONE) {
		scenario_packet_text(&w->setup, end, &p, text, sizeof(text));
		if (w->setup.ends == 1)
			fault = packet_fault(w, t, data, len, &p.h);
		memcpy(w->end[end]->last_payload, p.payload, p.payload_len);
		p.payload = NULL;
		w->end[end]->last = p;
		w->end[end]->sent = true;
	}
	if (!end)
		note_time(w);
	lost = link_loses(w, end, text);
	say(w->end[end], "%s%s%s", text, fault, lost ? " lost" : "");
	if (w->setup.ends == 2 && !lost)
		link_send(w, !end, t, data, len);
}

static void send_some(struct world *w, unsigned end, unsigned n)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];

	n = rocemu_ep_output(w->end[end]->ep, w->now, tx, n);
	for (unsigned i = 0; i < n; i++)
		send_one(w, end, &tx[i]);
}

static void send_all(struct world *w)
{
	for (unsigned end = 0; end < w->setup.ends; end++)
		while (rocemu_ep_has_output(w->end[end]->ep))
			send_some(w, end, ROCEMU_OUTPUT_BATCH);
}

static uint64_t next_time(const struct world *w)
{
	uint64_t next = w->first ? w->first->at : ROCEMU_NEVER;

	for (unsigned end = 0; end < w->setup.ends; end++)
		next = MIN(next, rocemu_ep_deadline(w->end[end]->ep));
	return next;
}

/** What happens next. @return false: nothing does until then. */
static bool turn(struct world *w, uint64_t until)
{
	uint64_t next;

	send_all(w);
	next = next_time(w);
	if (next > until)
		return false;
	w->now = MAX(w->now, next);
	while (w->first && w->first->at <= w->now)
		link_arrive(w);
	for (unsigned end = 0; end < w->setup.ends; end++)
		rocemu_ep_expire(w->end[end]->ep, w->now);
	return true;
}

static void wait(void *world, uint64_t ns)
{
	struct world *w = world;
	const uint64_t until = w->now + MIN(ns, RUN_MAX);

	for (unsigned turns = 0; turn(w, until); turns++) {
		if (turns == TURNS_MAX) {
			say(w->end[0], "NO END");
			break;
		}
		/* What is due to leave then is left to the scenario. */
		if (w->now == until)
			break;
	}
	if (ns != UINT64_MAX)
		w->now = until;
}

static int input(void *world, const struct scenario_packet *p)
{
	struct world *w = world;

	if (p->mad.attr_id)
		return -EOPNOTSUPP; /* there is no QP 1 */
	if (p->ip_options || p->fragments || p->bad_udp_checksum ||
	    scenario_given(p, SCENARIO_PACKET_UDP_LEN))
		return -EOPNOTSUPP; /* there are no IP and UDP headers */
	w->in_at = w->now;
	w->replied = false;
	peer_sends(w, p);
	return 0;
}

static bool latency(void *world, uint64_t *ns)
{
	struct world *w = world;

	send_all(w);
	*ns = w->reply_at - w->in_at;
	return w->in_at && w->replied;
}

static bool interval(void *world, uint64_t *ns)
{
	struct world *w = world;

	send_all(w);
	*ns = w->out_at[0] - w->out_at[1];
	return w->outs >= 2;
}

static void output(void *world, unsigned n)
{
	send_some(world, 0, n);
}

static bool until(void *world, unsigned end, const char *pattern)
{
	struct world *w = world;
	struct end *e = w->end[end];
	const uint64_t at_most = w->now + RUN_MAX;

	for (unsigned turns = 0; turns < TURNS_MAX; turns++) {
		send_all(w);
		say_rest(e);
		if (fnmatch(pattern, e->log, FNM_NOESCAPE) == 0)
			return true;
		if (!turn(w, at_most))
			break;
	}
	return false;
}

static bool deadline(void *world, uint64_t *ns)
{
	struct world *w = world;
	uint64_t next;

	send_all(w);
	next = rocemu_ep_deadline(w->end[0]->ep);
	*ns = next - MIN(next, w->now);
	return next != ROCEMU_NEVER;
}

/* ---- looks ---- */

static const char *take_log(struct end *e)
{
	memcpy(e->text, e->log, e->log_len + 1);
	e->log_len = 0;
	e->log[0] = 0;
	return e->text;
}

static const char *effects(void *world, unsigned end, unsigned n)
{
	struct world *w = world;
	struct end *e = w->end[end];

	(void)n; /* no more will come */
	send_all(w);
	say_rest(e);
	return take_log(e);
}

/** Until no more will come. The packets are not looked at. */
static void finish(struct world *w)
{
	if (w->setup.ends == SCENARIO_ENDS)
		wait(w, UINT64_MAX);
	else
		send_all(w);
	for (unsigned i = 0; i < w->setup.ends; i++)
		take_log(w->end[i]);
}

static const char *completions(void *world, unsigned end, unsigned n)
{
	struct world *w = world;

	(void)n;
	finish(w);
	say_completions(w->end[end]);
	return take_log(w->end[end]);
}

static const char *events(void *world, unsigned end, unsigned n)
{
	(void)n;
	finish(world);
	return take_events(((struct world *)world)->end[end]);
}

static uint32_t qpn(void *world, unsigned end)
{
	return ((struct world *)world)->end[end]->qpn;
}

static bool vendor_err(void *world, unsigned end, uint32_t *value)
{
	*value = ((struct world *)world)->end[end]->first_vendor_err;
	return true;
}

/** What a pair's link may bring to it is dropped. */
static int destroy_qp(void *world, unsigned end)
{
	struct world *w = world;
	struct end *e = w->end[end];
	int error = w->setup.ends == 1 ? -EOPNOTSUPP : e->qp ? rocemu_qp_destroy(e->qp) : -EINVAL;

	if (!error)
		e->qp = NULL;
	return error;
}

static uint64_t address(void *world, const struct scenario_place *p)
{
	(void)world;
	return place_address(p);
}

static enum ibv_qp_state state(void *world, unsigned end)
{
	const struct end *e = ((struct world *)world)->end[end];

	return e->qp ? rocemu_qp_state(e->qp) : IBV_QPS_UNKNOWN;
}

static bool counter(void *world, unsigned end, const char *name, uint64_t *value)
{
	struct world *w = world;

	send_all(w);
	return counter_value(w->end[end], name, value);
}

static bool report(void *world, unsigned end, const char *name, char *text, size_t size)
{
	return report_value(world, end, name, text, size);
}

static bool next_why(void *world, unsigned end)
{
	struct end *e = ((struct world *)world)->end[end];

	send_all(world);
	if (e->taken == e->given)
		return false;
	e->taken++;
	return true;
}

static bool why(void *world, unsigned end, const char *name, char *text, size_t size)
{
	return reason_value(world, end, name, text, size);
}

static uint8_t *memory(void *world, unsigned end, enum scenario_area area)
{
	struct end *e = ((struct world *)world)->end[end];

	return area == SCENARIO_LAST ? e->last_payload : e->memory[area];
}

static const struct rocemu_packet *last(void *world, unsigned end)
{
	struct end *e = ((struct world *)world)->end[end];

	return e->sent ? &e->last : NULL;
}

static int dereg(void *world, unsigned end, enum scenario_area area)
{
	struct end *e = ((struct world *)world)->end[end];
	int error = e->mr[area] ? rocemu_mr_dereg(e->mr[area]) : -EINVAL;

	if (!error)
		e->mr[area] = NULL;
	return error;
}

static int reg(void *world, unsigned end, enum scenario_area area, int access, bool other_pd)
{
	struct end *e = ((struct world *)world)->end[end];

	return register_area(e, other_pd ? e->other_pd : e->pd, area,
			     access < 0 ? area_access[area] : access);
}

static uint32_t key(void *world, unsigned end, enum scenario_area area, bool remote)
{
	const struct end *e = ((struct world *)world)->end[end];

	return remote ? e->rkey[area] : e->lkey[area];
}

static int new_mw(void *world, unsigned end, unsigned type, bool other_pd)
{
	struct end *e = ((struct world *)world)->end[end];

	if (type)
		return rocemu_mw_new(other_pd ? e->other_pd : e->pd, (enum ibv_mw_type)type,
				     &e->mw);
	if (!e->mw)
		return -EINVAL;
	rocemu_mw_free(e->mw);
	e->mw = NULL;
	return 0;
}

static bool mw_key(void *world, unsigned end, uint32_t *rkey)
{
	const struct end *e = ((struct world *)world)->end[end];

	if (e->mw)
		*rkey = rocemu_mw_rkey(e->mw);
	return e->mw;
}

static int arm(void *world, unsigned end, bool solicited)
{
	struct world *w = world;

	rocemu_cq_arm(w->end[end]->cq, w->now, solicited);
	return 0;
}

const struct scenario_backend scenario_endpoint = {
	.start = start,
	.end = world_free,
	.post_send = world_post_send,
	.post_recv = world_post_recv,
	.modify = modify,
	.input = input,
	.output = output,
	.latency = latency,
	.interval = interval,
	.wait = wait,
	.until = until,
	.deadline = deadline,
	.effects = effects,
	.completions = completions,
	.events = events,
	.vendor_err = vendor_err,
	.qpn = qpn,
	.destroy_qp = destroy_qp,
	.lose = link_lose,
	.state = state,
	.counter = counter,
	.report = report,
	.next_why = next_why,
	.why = why,
	.memory = memory,
	.dereg = dereg,
	.reg = reg,
	.key = key,
	.mw = new_mw,
	.mw_key = mw_key,
	.arm = arm,
	.srq = end_srq,
	.srq_number = end_srq_number,
	.last = last,
	.address = address,
};
