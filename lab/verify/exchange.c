/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks CM messages (IBTA chapter 12): the allowed sender of each, the fields to repeat, their
 * order. Takes from them the connection's parameters: which QPs belong together, the path MTU, the
 * starting PSNs, a UD service's Q_Key.
 *
 * Messages are sent again until they are answered, both by timeouts and because the other side
 * repeats its own, and the network reorders them. So order is checked only where much time has
 * passed; contents are checked in any order.
 */
#include "exchange.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { MAX_EXCHANGES = 1 << 14 };
#define LATE_NS	 1000000000u   /* no network delays a packet for so long */
#define AGAIN_NS (LATE_NS / 2) /* a REQ so long after its exchange's end is no copy */

static const char *const sides[] = {"the active side", "the passive side"};

static struct cm_seen *seen_of(struct cm_exchange *e, enum cm_side side, uint16_t attr)
{
	return &e->seen[side][attr - ROCEMU_CM_REQ];
}

/* ---- finding exchanges ---- */

/* The newest exchange of this host's with this ID. */
static struct cm_exchange *exchange_find(struct verify *v, const struct rocemu_gid *active,
					 const struct rocemu_gid *passive, uint32_t id, bool sidr)
{
	hash_for_each (e, struct cm_exchange, node, &v->exchanges,
		       hosts_digest(v, active, passive, id)) {
		if (e->active_id == id && e->sidr == sidr && rocemu_gid_equal(&e->active, active) &&
		    rocemu_gid_equal(&e->passive, passive))
			return e;
	}
	return NULL;
}

static struct cm_exchange *exchange_new(struct verify *v, const struct pkt *p, uint32_t id,
					bool sidr)
{
	struct cm_exchange *e;

	if (v->exchanges.n >= MAX_EXCHANGES && v->follow != NULL) { /* begin anew */
		exchange_finish(v);
		exchange_free(v);
	}
	if (v->exchanges.n >= MAX_EXCHANGES)
		return NULL;
	e = calloc(1, sizeof(*e));
	if (e == NULL) {
		v->out_of_memory = true;
		return NULL;
	}
	e->active = p->rec->ip.src;
	e->passive = p->rec->ip.dst;
	e->active_id = id;
	e->sidr = sidr;
	hash_add(&v->exchanges, &e->node, hosts_digest(v, &e->active, &e->passive, id));
	*v->last_exchange = e;
	v->last_exchange = &e->later;
	return e;
}

/* ---- what every message is held to ---- */

/* A message and whose it is. */
struct msg_ctx {
	struct verify *v;
	const struct pkt *p;
	struct cm_exchange *e;
	const struct rocemu_cm_msg *m;
	enum cm_side side;
};

#define TURN_FOUND(t, rule, ...) FOUND((t)->v, NULL, rule, (t)->p, __VA_ARGS__)

/* Messages between the two were cut: possibly of this exchange. */
static bool mads_cut(const struct verify *v, const struct cm_exchange *e)
{
	return veil_between(v, veil_pair(v, &e->active, &e->passive), BETWEEN_MAD_CUT);
}

/* The message whose TID this one repeats; 0: none, or one of which there may be several (LAP). */
static uint16_t answered_by(const struct rocemu_cm_msg *m)
{
	switch (m->attr_id) {
	case ROCEMU_CM_DREP:
		return ROCEMU_CM_DREQ;
	case ROCEMU_CM_SIDR_REP:
		return ROCEMU_CM_SIDR_REQ;
	case ROCEMU_CM_MRA:
		return m->mra.answered == ROCEMU_CM_TO_OTHER ? 0 : ROCEMU_CM_REQ;
	case ROCEMU_CM_REP:
	case ROCEMU_CM_RTU:
	case ROCEMU_CM_REJ:
		return ROCEMU_CM_REQ;
	default:
		return 0;
	}
}

static void check_tid(const struct msg_ctx *t)
{
	uint16_t of = answered_by(t->m);
	const struct cm_seen *s;

	if (of == 0)
		return;
	/* All of establishing is one transaction, the active side's; else it is the other side's.
	 */
	s = seen_of(t->e, of == ROCEMU_CM_REQ ? CM_ACTIVE : !t->side, of);
	if (s->count != 0 && s->tid != t->m->tid)
		TURN_FOUND(t, CM_TID, "%s with 0x%" PRIx64 ", the %s has 0x%" PRIx64,
			   rocemu_cm_name(t->m->attr_id), t->m->tid, rocemu_cm_name(of), s->tid);
}

static bool side_wrong(const struct msg_ctx *t)
{
	bool active = t->side == CM_ACTIVE;
	uint8_t to;

	switch (t->m->attr_id) {
	case ROCEMU_CM_REP:
		return active;
	case ROCEMU_CM_RTU:
		return !active;
	case ROCEMU_CM_MRA:
	case ROCEMU_CM_REJ:
		to = t->m->attr_id == ROCEMU_CM_MRA ? t->m->mra.answered : t->m->rej.answered;
		return to > ROCEMU_CM_TO_OTHER || (to == ROCEMU_CM_TO_REQ && active) ||
		       (to == ROCEMU_CM_TO_REP && !active);
	default:
		return false;
	}
}

/*
 * Determine the side that sent a message, and check what it claims to answer. Where both peers have
 * sent a REQ and the capture misses one, the transaction ID decides. @return false: it belongs to
 * the other REQ.
 */
static bool check_side(const struct msg_ctx *t)
{
	const struct cm_seen *req = seen_of(t->e, CM_ACTIVE, ROCEMU_CM_REQ);

	if (!side_wrong(t))
		return true;
	if (req->tid != t->m->tid)
		return false;
	TURN_FOUND(t, CM_SIDE, "%s from %s, communication ID 0x%x", rocemu_cm_name(t->m->attr_id),
		   sides[t->side], t->e->active_id);
	return true;
}

/* clang-format off */
/* A side that has sent one does not send the other any more. */
static const struct { uint16_t attr, after; enum cm_side side, after_side; } over[] = {
	{ROCEMU_CM_REP,  ROCEMU_CM_REJ,  CM_PASSIVE, CM_PASSIVE},
	{ROCEMU_CM_RTU,  ROCEMU_CM_REJ,  CM_ACTIVE,  CM_ACTIVE},
	{ROCEMU_CM_RTU,  ROCEMU_CM_DREQ, CM_ACTIVE,  CM_ACTIVE},
	{ROCEMU_CM_REJ,  ROCEMU_CM_RTU,  CM_ACTIVE,  CM_ACTIVE},
	{ROCEMU_CM_LAP,  ROCEMU_CM_DREQ, CM_ACTIVE,  CM_ACTIVE},
	{ROCEMU_CM_LAP,  ROCEMU_CM_DREQ, CM_PASSIVE, CM_PASSIVE},
	{ROCEMU_CM_DREQ, ROCEMU_CM_DREP, CM_ACTIVE,  CM_ACTIVE},
	{ROCEMU_CM_DREQ, ROCEMU_CM_DREP, CM_PASSIVE, CM_PASSIVE},
};

/* What must have been seen before, and from which side. */
enum { CM_OTHER = CM_SIDES };
static const struct { uint16_t attr, before; unsigned side; } needs[] = {
	{ROCEMU_CM_RTU,  ROCEMU_CM_REP,  CM_PASSIVE},
	{ROCEMU_CM_DREQ, ROCEMU_CM_REP,  CM_PASSIVE},
	{ROCEMU_CM_LAP,  ROCEMU_CM_REP,  CM_PASSIVE},
	{ROCEMU_CM_APR,  ROCEMU_CM_LAP,  CM_OTHER},
	{ROCEMU_CM_DREP, ROCEMU_CM_DREQ, CM_OTHER},
};
/* clang-format on */

static void check_order(const struct msg_ctx *t)
{
	uint16_t attr = t->m->attr_id;
	const struct cm_seen *s;

	for (unsigned i = 0; i < sizeof(over) / sizeof(over[0]); i++) {
		s = seen_of(t->e, over[i].after_side, over[i].after);
		/* After a REJ without an ID the request may be sent again with the same ID. */
		if (over[i].after == ROCEMU_CM_REJ && s->anonymous)
			continue;
		if (over[i].attr != attr || over[i].side != t->side || s->count == 0 ||
		    seen_of(t->e, t->side, attr)->count != 0)
			continue;
		if (t->p->rec->ts_ns >= s->first_ns + LATE_NS)
			TURN_FOUND(t, CM_ORDER,
				   "%s %.1f s after %s of the same side, communication ID 0x%x",
				   rocemu_cm_name(attr),
				   (double)(t->p->rec->ts_ns - s->first_ns) / 1e9,
				   rocemu_cm_name(over[i].after), t->e->active_id);
		else
			TURN_FOUND(t, UNDECIDED, "cm-order: %s right after %s of the same side",
				   rocemu_cm_name(attr), rocemu_cm_name(over[i].after));
	}
	for (unsigned i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		enum cm_side side = needs[i].side == CM_OTHER ? !t->side : needs[i].side;

		if (needs[i].attr == attr && seen_of(t->e, side, needs[i].before)->count == 0)
			FOUND_UNLESS(mads_cut(t->v, t->e), t->v, NULL, CM_MISSING, t->p,
				     "%s without %s, communication ID 0x%x", rocemu_cm_name(attr),
				     rocemu_cm_name(needs[i].before), t->e->active_id);
	}
}

/* A hash of what a repeated message repeats: private data and all, and of the header the attribute
 * modifier, where the vendors' options are. */
static uint32_t digest(const struct pkt *p)
{
	enum { MAD_ATTR_MOD = 20 };
	uint32_t h = 0x811c9dc5u;

	for (uint32_t i = MAD_ATTR_MOD; i < p->p.payload_len; i++)
		h = (h ^ p->p.payload[i]) * 0x01000193u;
	return h;
}

static void note(const struct msg_ctx *t)
{
	struct cm_seen *s = seen_of(t->e, t->side, t->m->attr_id);
	uint32_t d = digest(t->p);

	if (s->count == 0) {
		s->first_ns = t->p->rec->ts_ns;
		s->number = t->p->number;
		s->digest = d;
		s->tid = t->m->tid;
		s->anonymous = t->m->attr_id == ROCEMU_CM_REJ && t->m->rej.local_comm_id == 0;
	} else if (t->m->attr_id != ROCEMU_CM_LAP && t->m->attr_id != ROCEMU_CM_APR) {
		TURN_FOUND(t, CM_AGAIN, "%s, as packet %s, %.3f s later",
			   rocemu_cm_name(t->m->attr_id), packet_name(s->number),
			   t->p->rec->ts_ns > s->first_ns
				   ? (double)(t->p->rec->ts_ns - s->first_ns) / 1e9
				   : 0.0);
		if (s->digest != d &&
		    (t->m->attr_id == ROCEMU_CM_REQ || t->m->attr_id == ROCEMU_CM_REP ||
		     t->m->attr_id == ROCEMU_CM_SIDR_REQ))
			TURN_FOUND(t, CM_DIFFERS, "%s, as packet %s", rocemu_cm_name(t->m->attr_id),
				   packet_name(s->number));
	}
	if (s->count < UINT16_MAX)
		s->count++;
}

/* ---- addresses ---- */

static void check_addresses(const struct msg_ctx *t, const struct rocemu_cm_path *path,
			    uint64_t service, const uint8_t *private_data, size_t len)
{
	const struct ip_udp *ip = &t->p->rec->ip;
	struct rocemu_cma cma;

	if (path != NULL && (!rocemu_gid_equal(&path->local_gid, &ip->src) ||
			     !rocemu_gid_equal(&path->remote_gid, &ip->dst)))
		TURN_FOUND(t, CM_ADDRESS, "the primary path's GIDs are not the packet's addresses");
	if (!rocemu_cm_service_is_ip(service))
		return;
	if (rocemu_cma_decode(&cma, private_data, len) != ROCEMU_MAD_OK)
		TURN_FOUND(t, CM_ADDRESS,
			   "no IP addresses in the private data for service 0x%" PRIx64, service);
	else if (!rocemu_gid_equal(&cma.src, &ip->src) || !rocemu_gid_equal(&cma.dst, &ip->dst))
		TURN_FOUND(t, CM_ADDRESS, "the private data has other addresses than the packet");
}

/* ---- the messages ---- */

/* A REQ for an exchange that has ended begins another one, when it is not a late copy. */
static bool begins_anew(struct cm_exchange *e, const struct pkt *p)
{
	static const uint16_t attrs[] = {ROCEMU_CM_REJ, ROCEMU_CM_DREQ, ROCEMU_CM_DREP,
					 ROCEMU_CM_SIDR_REP};
	uint16_t req = e->sidr ? ROCEMU_CM_SIDR_REQ : ROCEMU_CM_REQ;
	bool same_again = seen_of(e, CM_ACTIVE, req)->digest == digest(p);

	for (unsigned i = 0; i < 2 * sizeof(attrs) / sizeof(attrs[0]); i++) {
		const struct cm_seen *s = seen_of(e, i & 1 ? CM_PASSIVE : CM_ACTIVE, attrs[i / 2]);

		if (s->count != 0 && (!same_again || p->rec->ts_ns >= s->first_ns + AGAIN_NS))
			return true;
	}
	return false;
}

static void req_input(struct msg_ctx *t)
{
	const struct rocemu_cm_req *req = &t->m->req;
	struct cm_exchange *e = exchange_find(t->v, &t->p->rec->ip.src, &t->p->rec->ip.dst,
					      req->local_comm_id, false);

	if (e != NULL && begins_anew(e, t->p))
		e = NULL;
	if (e == NULL) {
		e = exchange_new(t->v, t->p, req->local_comm_id, false);
		if (e == NULL)
			return;
		e->qpn[CM_ACTIVE] = req->local_qpn;
		e->psn = req->starting_psn;
		e->mtu = req->path_mtu >= 1 && req->path_mtu <= 5 ? 128u << req->path_mtu : 0;
		e->svc = req->transport == ROCEMU_CM_UC	  ? ROCEMU_SVC_UC
			 : req->transport == ROCEMU_CM_RC ? ROCEMU_SVC_RC
							  : ROCEMU_SVC_XRC;
	}
	t->e = e;
	note(t);
	check_addresses(t, &req->primary, req->service_id, req->private_data,
			sizeof(req->private_data));
}

static void announce(struct flow *f, uint32_t psn, uint32_t mtu)
{
	flow_restart(f);
	f->psn_announced = true;
	f->announced_psn = psn;
	f->mtu = mtu;
}

static void connect_flows(struct verify *v, const struct cm_exchange *e, uint32_t psn)
{
	struct ip_udp out = {.src = e->active, .dst = e->passive};
	struct ip_udp back = {.src = e->passive, .dst = e->active};
	struct flow *to_passive = flow_get(v, &out, e->svc, e->qpn[CM_PASSIVE]);
	struct flow *to_active = flow_get(v, &back, e->svc, e->qpn[CM_ACTIVE]);

	if (to_passive == NULL || to_active == NULL)
		return;
	/* "Starting PSN": what the receiver of the message is to begin with (12.7.31). */
	announce(to_passive, psn, e->mtu);
	announce(to_active, e->psn, e->mtu);
	flow_pair(v, to_passive, to_active);
	to_passive->peer_told = to_active->peer_told = true;
}

static void rep_input(const struct msg_ctx *t)
{
	const struct rocemu_cm_rep *rep = &t->m->rep;
	struct cm_exchange *e = t->e;

	if (e->passive_known || t->side != CM_PASSIVE ||
	    seen_of(e, CM_PASSIVE, ROCEMU_CM_REJ)->count != 0)
		return;
	e->passive_id = rep->local_comm_id;
	e->passive_known = true;
	/* An XRC target's number stands where that of an EE context would (annex A14). */
	e->qpn[CM_PASSIVE] = e->svc == ROCEMU_SVC_XRC ? rep->local_eecn : rep->local_qpn;
	connect_flows(t->v, e, rep->starting_psn);
}

/* DREQ and LAP name the receiver's QP. */
static void check_qpn(const struct msg_ctx *t, uint32_t qpn)
{
	uint32_t want = t->e->qpn[!t->side];

	if (t->e->passive_known && t->e->svc != ROCEMU_SVC_XRC && qpn != want)
		TURN_FOUND(t, CM_QPN, "%s for QP 0x%x, its receiver's is 0x%x",
			   rocemu_cm_name(t->m->attr_id), qpn, want);
}

static void sidr_input(struct msg_ctx *t)
{
	const struct rocemu_cm_sidr_req *req = &t->m->sidr_req;
	const struct rocemu_cm_sidr_rep *rep = &t->m->sidr_rep;
	const struct ip_udp *ip = &t->p->rec->ip;
	struct flow *f;

	if (t->m->attr_id == ROCEMU_CM_SIDR_REQ) {
		t->e = exchange_find(t->v, &ip->src, &ip->dst, req->request_id, true);
		if (t->e == NULL || begins_anew(t->e, t->p))
			t->e = exchange_new(t->v, t->p, req->request_id, true);
		if (t->e == NULL)
			return;
		note(t);
		check_addresses(t, NULL, req->service_id, req->private_data,
				sizeof(req->private_data));
		return;
	}
	if (rep->status == ROCEMU_CM_SIDR_VALID) {
		f = flow_get(t->v, &(struct ip_udp){.src = ip->dst, .dst = ip->src}, ROCEMU_SVC_UD,
			     rep->qpn);
		if (f != NULL) {
			f->qkey = rep->qkey;
			f->qkey_known = true;
		}
	}
	t->side = CM_PASSIVE;
	t->e = exchange_find(t->v, &ip->dst, &ip->src, rep->request_id, true);
	if (t->e == NULL)
		return;
	check_tid(t);
	note(t);
}

/* Both have sent REQs, with these IDs: it belongs to the one that was answered. */
static bool is_mine(const struct cm_exchange *e, const struct cm_exchange *mine, uint32_t local,
		    uint32_t remote)
{
	return e != NULL && mine != NULL &&
	       (mine->passive_known ? mine->passive_id == remote
				    : e->passive_known && e->passive_id != local);
}

const struct cm_exchange *exchange_of_message(struct verify *v, const struct ip_udp *ip,
					      const struct rocemu_cm_msg *m)
{
	uint32_t local = m->rtu.local_comm_id, remote = m->rtu.remote_comm_id;
	const struct cm_exchange *e, *mine;

	if (m->attr_id == ROCEMU_CM_REQ)
		return exchange_find(v, &ip->src, &ip->dst, m->req.local_comm_id, false);
	if (m->attr_id == ROCEMU_CM_SIDR_REQ)
		return exchange_find(v, &ip->src, &ip->dst, m->sidr_req.request_id, true);
	if (m->attr_id == ROCEMU_CM_SIDR_REP)
		return exchange_find(v, &ip->dst, &ip->src, m->sidr_rep.request_id, true);
	e = exchange_find(v, &ip->dst, &ip->src, remote, false);
	mine = exchange_find(v, &ip->src, &ip->dst, local, false);
	return e != NULL && !is_mine(e, mine, local, remote) ? e : mine;
}

/* The exchange and side of a message that has both IDs; NULL: its REQ was not seen. */
static struct cm_exchange *exchange_of(struct msg_ctx *t, uint32_t local, uint32_t remote)
{
	const struct ip_udp *ip = &t->p->rec->ip;
	struct cm_exchange *e = exchange_find(t->v, &ip->dst, &ip->src, remote, false);
	struct cm_exchange *mine = exchange_find(t->v, &ip->src, &ip->dst, local, false);

	if (is_mine(e, mine, local, remote))
		e = NULL;
	if (e != NULL) {
		t->side = CM_PASSIVE;
		/* A REJ may come from a side without an ID. */
		if (e->passive_known && e->passive_id != local && local != 0)
			TURN_FOUND(t, CM_COMM_ID, "%s from 0x%x, the REP was from 0x%x",
				   rocemu_cm_name(t->m->attr_id), local, e->passive_id);
		return e;
	}
	if (mine == NULL)
		return NULL;
	t->side = CM_ACTIVE;
	if (mine->passive_known && mine->passive_id != remote && remote != 0)
		TURN_FOUND(t, CM_COMM_ID, "%s to 0x%x, the REP was from 0x%x",
			   rocemu_cm_name(t->m->attr_id), remote, mine->passive_id);
	return mine;
}

void exchange_input(struct verify *v, const struct pkt *p)
{
	struct rocemu_cm_msg m;
	struct msg_ctx t = {.v = v, .p = p, .m = &m, .side = CM_ACTIVE};
	enum rocemu_mad_verdict verdict;

	if (p->cut || p->hides) {
		veil_note(v, &p->rec->ip, BETWEEN_MAD_CUT);
		return;
	}
	verdict = rocemu_cm_decode(&m, p->p.payload, p->p.payload_len);
	if (verdict == ROCEMU_MAD_LENGTH || verdict == ROCEMU_MAD_FIELD)
		FOUND(v, NULL, CM_FORM, p, "%u bytes: %s", p->p.payload_len,
		      rocemu_mad_verdict_text(verdict));
	if (verdict != ROCEMU_MAD_OK)
		return;
	if (m.attr_id == ROCEMU_CM_REQ) {
		req_input(&t);
		return;
	}
	if (m.attr_id == ROCEMU_CM_SIDR_REQ || m.attr_id == ROCEMU_CM_SIDR_REP) {
		sidr_input(&t);
		return;
	}
	/* All others begin with both communication IDs. */
	t.e = exchange_of(&t, m.rtu.local_comm_id, m.rtu.remote_comm_id);
	if (t.e == NULL)
		return;
	if (!check_side(&t))
		return;
	check_tid(&t);
	check_order(&t);
	if (m.attr_id == ROCEMU_CM_REP)
		rep_input(&t);
	else if (m.attr_id == ROCEMU_CM_DREQ)
		check_qpn(&t, m.dreq.remote_qpn);
	else if (m.attr_id == ROCEMU_CM_LAP)
		check_qpn(&t, m.lap.remote_qpn);
	note(&t);
}

/* ---- the end ---- */

static bool answered(struct cm_exchange *e, enum cm_side side, uint16_t attr)
{
	return seen_of(e, !side, attr)->count != 0;
}

static void finish_one(struct verify *v, struct cm_exchange *e)
{
	static const uint16_t asks[] = {ROCEMU_CM_REQ, ROCEMU_CM_SIDR_REQ, ROCEMU_CM_DREQ};

	for (unsigned i = 0; i < 2 * sizeof(asks) / sizeof(asks[0]); i++) {
		enum cm_side side = i & 1 ? CM_PASSIVE : CM_ACTIVE;
		uint16_t attr = asks[i / 2];
		const struct cm_seen *s = seen_of(e, side, attr);
		bool done = attr == ROCEMU_CM_REQ ? answered(e, side, ROCEMU_CM_REP) ||
							    answered(e, side, ROCEMU_CM_REJ)
			    : attr == ROCEMU_CM_DREQ ? answered(e, side, ROCEMU_CM_DREP) ||
							       answered(e, side, ROCEMU_CM_DREQ)
						     : answered(e, side, ROCEMU_CM_SIDR_REP);

		if (s->count != 0 && !done)
			found_unless(v, NULL, mads_cut(v, e), RULE_CM_UNANSWERED, s->number,
				     s->first_ns, "%s, %u times", rocemu_cm_name(attr), s->count);
	}
}

void exchange_finish(struct verify *v)
{
	for (struct cm_exchange *e = v->first_exchange; e != NULL; e = e->later)
		finish_one(v, e);
}

void exchange_free(struct verify *v)
{
	while (v->first_exchange != NULL) {
		struct cm_exchange *e = v->first_exchange;

		v->first_exchange = e->later;
		free(e);
	}
	v->last_exchange = &v->first_exchange;
	hash_fini(&v->exchanges);
}
