/* SPDX-License-Identifier: BSD-2-Clause */
/* See world.h. */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum {
	CQ_DEPTH = 256,
	STEPS = 1000,
	TIME_WAIT_MS = 30, /* longer than a packet can be under way */
	END_MAX_S = 200,
	MIN_TIMEOUT = 12,
	MAX_TIMEOUT = 15,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | ROCEMU_ACCESS_FLUSH_GLOBAL,
};

/* ---- reports ---- */

static void __attribute__((format(printf, 2, 0)))
report(const struct world *w, const char *format, va_list args)
{
	fflush(stdout);
	fprintf(stderr, "FAILED seed %llu at %.3f us: ", (unsigned long long)w->seed,
		(double)w->fabric->now / 1e3);
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
}

void world_fail(const struct world *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	report(w, format, args);
	va_end(args);
	exit(1);
}

void side_fail(const struct world_side *s, const char *format, ...)
{
	static const char *const type[] = {
		[IBV_QPT_RC] = "RC",
		[IBV_QPT_UC] = "UC",
		[IBV_QPT_UD] = "UD",
		[IBV_QPT_XRC_SEND] = "XRC",
	};
	const struct world_conn *c = s->conn;
	va_list args;

	fprintf(stderr, "%s connection %u, host %u to %u, QP %#x: MTU %u, timeout %u, %s%s\n",
		type[c->type], (unsigned)(c - s->world->conns), s->host, s->other->host,
		s->qp ? rocemu_qp_num(s->qp) : 0, 128u << c->mtu, c->timeout,
		c->excused ? "may fail" : "may not fail", s->sqd ? ", SQD" : "");
	side_print_inside(s);
	va_start(args, format);
	report(s->world, format, args);
	va_end(args);
	exit(1);
}

void world_note(struct world *w, uint64_t what)
{
	w->digest = (w->digest ^ what) * 0x100000001b3u;
	w->digest ^= w->digest >> 29;
}

/* ---- connections ---- */

static void ok(const struct world_side *s, int rc, const char *what)
{
	if (rc != 0)
		side_fail(s, "%s: %d", what, rc);
}

static void side_new_memory(struct world_side *s)
{
	struct fabric_host *h = &s->world->fabric->host[s->host];

	ok(s,
	   rocemu_mr_reg(h->pd, s->m, offsetof(struct world_memory, dst), (uintptr_t)s->m, ACCESS,
			 &s->local),
	   "MR");
	ok(s,
	   rocemu_mr_reg(h->pd, s->m->dst, sizeof(*s->m) - offsetof(struct world_memory, dst),
			 (uintptr_t)s->m->dst, ACCESS, &s->remote),
	   "MR");
}

static void side_new_qp(struct world_side *s, bool target)
{
	struct fabric_host *h = &s->world->fabric->host[s->host];
	bool xrc = s->conn->type == IBV_QPT_XRC_SEND;
	struct ibv_srq_attr srq = {.max_wr = WORLD_RECVS, .max_sge = 1};
	struct rocemu_qp_init init = {
		.pd = h->pd,
		.type = xrc && target ? IBV_QPT_XRC_RECV : s->conn->type,
		.cap = {WORLD_DEPTH, WORLD_RECVS, 1, 1, 0},
	};

	if (xrc && target) {
		s->scq = NULL;
		ok(s, rocemu_cq_create(h->ep, CQ_DEPTH, NULL, &s->rcq), "CQ");
		init.xrcd = h->xrcd;
		init.pd = NULL;
		ok(s, rocemu_xrc_srq_create(h->pd, h->xrcd, s->rcq, &srq, NULL, &s->srq), "SRQ");
		init.cap = (struct ibv_qp_cap){0};
	} else {
		ok(s, rocemu_cq_create(h->ep, CQ_DEPTH, NULL, &s->scq), "CQ");
		init.send_cq = s->scq;
		s->rcq = NULL;
		if (!xrc) {
			ok(s, rocemu_cq_create(h->ep, CQ_DEPTH, NULL, &s->rcq), "CQ");
			init.recv_cq = s->rcq;
		} else {
			init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
		}
	}
	ok(s, rocemu_qp_create(h->ep, &init, &s->qp), "QP");
}

static struct ibv_qp_attr attr_of(const struct world_side *s, uint32_t psn, uint32_t peer_psn)
{
	struct rng *r = &s->world->rng;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 1,
		.qp_access_flags = ACCESS & ~IBV_ACCESS_MW_BIND,
		.ah_attr = side_ah(s),
		.path_mtu = s->conn->mtu,
		.dest_qp_num = rocemu_qp_num(s->other->qp),
		.sq_psn = psn,
		.rq_psn = peer_psn,
		.max_dest_rd_atomic = s->rd_atomic,
		.max_rd_atomic = s->rd_atomic,
		.min_rnr_timer = (uint8_t)(1 + rng_below(r, 10)),
		.timeout = s->conn->timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	return a;
}

static void side_connect(struct world_side *s, bool target, uint32_t psn, uint32_t peer_psn)
{
	rocemu_ns_t now = s->world->fabric->now;
	struct ibv_qp_attr a = attr_of(s, psn, peer_psn);
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT, rtr = IBV_QP_STATE,
	    rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
	bool ud = s->conn->type == IBV_QPT_UD, uc = s->conn->type == IBV_QPT_UC,
	     xrc = s->conn->type == IBV_QPT_XRC_SEND;

	init |= ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	if (!ud)
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (!ud && !uc && (!xrc || target))
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (!ud && !uc)
		rts |= IBV_QP_TIMEOUT;
	if (!ud && !uc && !(xrc && target))
		rts |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	ok(s, rocemu_path_resolve(s->world->fabric->host[s->host].ep, &a.ah_attr, &s->path),
	   "path");
	ok(s, rocemu_qp_modify(s->qp, now, &a, init), "INIT");
	a.qp_state = IBV_QPS_RTR;
	ok(s, rocemu_qp_modify(s->qp, now, &a, rtr), "RTR");
	a.qp_state = IBV_QPS_RTS;
	ok(s, rocemu_qp_modify(s->qp, now, &a, rts), "RTS");
}

/** What one life of a side begins with; QPs that were reset only are used again. */
static void side_begin(struct world_side *s, bool target)
{
	struct world *w = s->world;
	bool reliable = s->conn->type == IBV_QPT_RC || s->conn->type == IBV_QPT_XRC_SEND;

	s->id = rng_u64(&w->rng);
	s->posted = s->done = s->due = s->recvs = s->received = s->newest = 0;
	s->sends = s->conn->type != IBV_QPT_XRC_SEND || !target;
	s->fetches = reliable && s->sends;
	s->sqd = s->failed = false;
	s->progress = w->fabric->now;
	/* Others of its lane may be in flight to a QP that does not answer: they have longer
	 * timeouts. */
	s->patience = 4 * 8 * rocemu_ack_timeout_ns(MAX_TIMEOUT) + 1000 * FABRIC_MS;
	if (!s->qp)
		side_new_qp(s, target);
	if (!s->local)
		side_new_memory(s);
	s->mw = NULL;
	s->mw_state = MW_UNBOUND;
	if (s->conn->type == IBV_QPT_RC && rng_chance(&w->rng, 0.4))
		ok(s, rocemu_mw_new(w->fabric->host[s->host].pd, IBV_MW_TYPE_2, &s->mw), "MW");
}

void conn_begin(struct world *w, struct world_conn *c)
{
	uint32_t psn[2];
	uint8_t rd_atomic = (uint8_t)(1 + rng_below(&w->rng, ROCEMU_MAX_RD_ATOMIC));

	for (unsigned i = 0; i < 2; i++) {
		/* Many lives wrap around. */
		psn[i] = rng_chance(&w->rng, 0.5) ? 0xffffff - rng_below(&w->rng, 500)
						  : rng_u32(&w->rng) & ROCEMU_PSN_MASK;
		c->side[i].rd_atomic = rd_atomic;
		side_begin(&c->side[i], i == 1);
	}
	for (unsigned i = 0; i < 2; i++) {
		side_connect(&c->side[i], i == 1, psn[i], psn[!i]);
		side_fill(&c->side[i]);
	}
	c->state = CONN_ALIVE;
	c->excused = c->moving = false;
	w->stats.lives++;
}

static void side_end(struct world_side *s, bool keep_qp)
{
	if (s->mw)
		rocemu_mw_free(s->mw);
	s->mw = NULL;
	if (s->qp && keep_qp) {
		struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

		ok(s, rocemu_qp_modify(s->qp, s->world->fabric->now, &a, IBV_QP_STATE), "RESET");
	} else if (s->qp) {
		ok(s, rocemu_qp_destroy(s->qp), "destroy");
		s->qp = NULL;
	}
	if (!s->qp) {
		if (s->srq)
			ok(s, rocemu_srq_destroy(s->srq), "SRQ");
		s->srq = NULL;
		if (s->scq)
			ok(s, rocemu_cq_destroy(s->scq), "CQ");
		if (s->rcq)
			ok(s, rocemu_cq_destroy(s->rcq), "CQ");
		s->scq = s->rcq = NULL;
	}
	if (s->local && s->remote && keep_qp)
		return;
	if (s->local)
		ok(s, rocemu_mr_dereg(s->local), "dereg");
	if (s->remote)
		ok(s, rocemu_mr_dereg(s->remote), "dereg");
	s->local = s->remote = NULL;
}

void conn_end(struct world *w, struct world_conn *c)
{
	/* An SRQ's receives outlive its QPs. */
	bool keep = c->type != IBV_QPT_XRC_SEND && !w->ending && rng_chance(&w->rng, 0.5);

	for (unsigned i = 0; i < 2; i++)
		side_end(&c->side[i], keep);
	c->state = CONN_WAITING;
	c->until = w->fabric->now + TIME_WAIT_MS * FABRIC_MS;
}

/** Has everything that was posted come to its end? */
static bool conn_is_done(const struct world_conn *c)
{
	for (unsigned i = 0; i < 2; i++)
		if (c->side[i].qp && side_waits(&c->side[i]))
			return false;
	return true;
}

static void side_check_progress(const struct world_side *s)
{
	const struct world *w = s->world;

	if (!s->fetches || !s->qp || !side_waits(s) || s->sqd || w->back_at[s->host] ||
	    w->back_at[s->other->host] || rocemu_qp_state(s->qp) == IBV_QPS_RESET)
		return;
	if (w->fabric->now - MIN(s->progress, w->fabric->now) > s->patience)
		side_fail(s,
			  "no progress for %.1f ms: request %llu of %llu, the other end has %llu "
			  "of %llu receives",
			  (double)(w->fabric->now - s->progress) / 1e6, (unsigned long long)s->done,
			  (unsigned long long)s->posted, (unsigned long long)s->other->received,
			  (unsigned long long)s->other->recvs);
}

/** A side whose memory for receives is gone posts none: the peer repeats its SEND without end. */
static bool waits_for_receives(const struct world_side *s)
{
	return s->conn->state == CONN_ENDING && s->qp && !s->other->local && side_waits(s) &&
	       s->world->fabric->now > s->progress + TIME_WAIT_MS * FABRIC_MS;
}

static void conn_step(struct world *w, struct world_conn *c)
{
	for (unsigned i = 0; i < 2; i++) {
		struct world_side *s = &c->side[i];

		if (c->state == CONN_WAITING)
			break;
		if (s->sqd &&
		    (w->ending || c->state == CONN_ENDING || c->moving || rng_chance(&w->rng, 0.1)))
			side_undrain(s);
		if (waits_for_receives(s))
			side_break(s);
		fabric_kick(w->fabric, s->host);
		side_check_progress(s);
	}
	if (c->state == CONN_ENDING && conn_is_done(c))
		conn_end(w, c);
	/* Packets wait in the buffers of a host that is away. */
	if (w->back_at[c->side[0].host] || w->back_at[c->side[1].host])
		c->until = MAX(c->until, w->fabric->now + TIME_WAIT_MS * FABRIC_MS);
	if (c->state == CONN_WAITING && c->until <= w->fabric->now && !w->ending)
		conn_begin(w, c);
}

/* ---- the world ---- */

static enum ibv_qp_type random_type(struct rng *r)
{
	switch (rng_below(r, 8)) {
	case 0:
		return IBV_QPT_UC;
	case 1:
		return IBV_QPT_UD;
	case 2:
		return IBV_QPT_XRC_SEND;
	default:
		return IBV_QPT_RC;
	}
}

static void host_poll(struct fabric_host *h, void *arg)
{
	struct world *w = arg;
	struct rocemu_event ev;

	while (rocemu_ep_next_event(h->ep, &ev))
		world_note(w, (uint64_t)ev.type << 8 | (uint64_t)ev.async);
	for (unsigned i = 0; i < 2 * w->nconns; i++) {
		struct world_side *s = &w->conns[i / 2].side[i % 2];

		if (s->host == h->index)
			side_poll(s);
	}
}

static rocemu_ns_t random_jitter(struct rng *r)
{
	return (1 + rng_below(r, 400)) * FABRIC_US;
}

static struct fabric_config random_fabric(struct world *w)
{
	struct rng *r = &w->rng;
	struct fabric_config c = fabric_defaults();

	c.seed = rng_u64(r) >> 16;
	c.hosts = w->nhosts;
	c.link_mbit = 1000 + rng_below(r, 39000);
	c.cpu_mbit = c.link_mbit / 2 + rng_below(r, 2 * c.link_mbit);
	c.rtt_ns = (2 + (rng_chance(r, 0.8) ? rng_below(r, 100) : rng_below(r, 2000))) * FABRIC_US;
	if (rng_chance(r, 0.6))
		c.loss = rng_below(r, 50) / 1000.0;
	if (rng_chance(r, 0.4))
		c.dup = rng_below(r, 50) / 1000.0;
	if (rng_chance(r, 0.3))
		c.corrupt = rng_below(r, 30) / 1000.0;
	if (rng_chance(r, 0.4)) {
		c.reorder = rng_below(r, 100) / 1000.0;
		c.reorder_ns = random_jitter(r);
	}
	if (rng_chance(r, 0.3)) {
		c.jitter_ns = random_jitter(r);
		c.jitter_keeps_order = rng_chance(r, 0.5);
	}
	if (rng_chance(r, 0.3))
		c.port_bytes = 65536 + rng_below(r, 400000);
	if (rng_chance(r, 0.3))
		c.mark_bytes = 4096 + rng_below(r, 100000);
	if (rng_chance(r, 0.7))
		c.rcvbuf = 65536 + rng_below(r, FABRIC_STOCK_BUFFER - 65536);
	if (rng_chance(r, 0.3))
		c.ep.window_bytes = 1 + rng_below(r, 300000);
	if (rng_chance(r, 0.3))
		c.ep.read_budget = 1 + rng_below(r, 300000);
	c.one_host = rng_chance(r, 0.3);
	if (rng_chance(r, 0.5))
		c.ep.window_nearby = 1 + rng_below(r, 300000);
	if (rng_chance(r, 0.2)) {
		c.ep.rnr_chance = 0.2;
		c.ep.rnr_seed = w->seed;
	}
	return c;
}

static void world_begin(struct world *w)
{
	struct rng *r = &w->rng;
	struct fabric_config c;

	rng_init(r, w->seed * 0x9e3779b97f4a7c15u);
	w->digest = w->seed;
	w->nhosts = 2 + rng_below(r, WORLD_MAX_HOSTS - 1);
	w->nconns = 1 + rng_below(r, WORLD_MAX_CONNS);
	w->rough = rng_chance(r, 0.5);
	w->slot = rng_chance(r, 0.2) ? WORLD_SLOT : WORLD_SMALL_SLOT;
	for (unsigned i = 0; i < w->nhosts; i++)
		w->counts[i] = rng_chance(r, 0.25);
	c = random_fabric(w);
	w->fabric = fabric_new(&c);
	w->fabric->filter = world_watch;
	w->fabric->filter_arg = w;
	for (unsigned i = 0; i < w->nhosts; i++) {
		w->fabric->host[i].poll = host_poll;
		w->fabric->host[i].poll_arg = w;
	}
	for (unsigned i = 0; i < w->nconns; i++) {
		struct world_conn *k = &w->conns[i];
		unsigned from = rng_below(r, w->nhosts), step = 1 + rng_below(r, w->nhosts - 1);

		k->type = random_type(r);
		k->mtu = (enum ibv_mtu)(IBV_MTU_256 + rng_below(r, 5));
		k->timeout = (uint8_t)(MIN_TIMEOUT + rng_below(r, MAX_TIMEOUT - MIN_TIMEOUT + 1));
		for (unsigned j = 0; j < 2; j++)
			k->side[j] = (struct world_side){
				.world = w,
				.conn = k,
				.other = &k->side[!j],
				.host = j == 0 ? from : (from + step) % w->nhosts,
				.m = &w->arena[2 * i + j],
			};
		if (k->type == IBV_QPT_UD)
			k->mtu = IBV_MTU_4096;
		conn_begin(w, k);
	}
}

static void world_step(struct world *w)
{
	struct rng *r = &w->rng;
	struct world_conn *c = &w->conns[rng_below(r, w->nconns)];
	struct world_side *s = &c->side[rng_below(r, 2)];
	bool all = rng_chance(r, 0.05);

	for (unsigned n = rng_below(r, 8); n && c->state == CONN_ALIVE && s->sends && s->qp; n--)
		side_post(s);
	side_post_recvs(s, rng_below(r, 10));
	fabric_kick(w->fabric, s->host);
	for (unsigned i = 0; all && i < 2 * w->nconns; i++)
		side_post_recvs(&w->conns[i / 2].side[i % 2], WORLD_RECVS);
	if (rng_chance(r, 0.03))
		world_fault(w, c);
	world_mend(w);
	fabric_run_until(w->fabric, w->fabric->now + (1 + rng_below(r, 100)) * FABRIC_US);
	for (unsigned i = 0; i < w->nconns; i++)
		conn_step(w, &w->conns[i]);
	world_check_inside(w);
}

static bool world_is_done(const struct world *w)
{
	for (unsigned i = 0; i < w->nconns; i++)
		if (w->conns[i].state != CONN_WAITING && !conn_is_done(&w->conns[i]))
			return false;
	return true;
}

/** Everything posted comes to its end, then all is quiet. */
static void world_wind_up(struct world *w)
{
	rocemu_ns_t limit = w->fabric->now + END_MAX_S * 1000 * FABRIC_MS;

	w->ending = true;
	while (!world_is_done(w)) {
		if (w->fabric->now > limit)
			world_fail(w, "not at an end");
		world_mend(w);
		for (unsigned i = 0; i < 2 * w->nconns; i++)
			side_post_recvs(&w->conns[i / 2].side[i % 2], WORLD_RECVS);
		fabric_run_until(w->fabric, w->fabric->now + FABRIC_MS);
		for (unsigned i = 0; i < w->nconns; i++)
			conn_step(w, &w->conns[i]);
	}
	/* Nothing may have been left to wait for above: a host that is still paused goes on now. */
	world_mend(w);
	fabric_run_until(w->fabric, w->fabric->now + 200 * FABRIC_MS);
	world_check_inside(w);
	for (unsigned i = 0; i < w->nhosts; i++)
		if (rocemu_ep_deadline(w->fabric->host[i].ep) != ROCEMU_NEVER &&
		    rocemu_ep_deadline(w->fabric->host[i].ep) < w->fabric->now)
			world_fail(w, "host %u: a timer is due and was not run", i);
}

/** Reasons that faults and programs' calls explain. */
static uint64_t explained_drops(const struct world *w)
{
	const struct fabric_config *c = &w->fabric->cfg;
	uint64_t d = 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_GHOST |
		     1ull << ROCEMU_DROP_STALE_ATOMIC | 1ull << ROCEMU_DROP_STALE_READ |
		     1ull << ROCEMU_DROP_SEQUENCE | 1ull << ROCEMU_DROP_NO_RECV |
		     1ull << ROCEMU_DROP_CNP;

	if (c->corrupt > 0)
		d |= 1ull << ROCEMU_DROP_ICRC | 1ull << ROCEMU_DROP_OPCODE |
		     1ull << ROCEMU_DROP_TVER | 1ull << ROCEMU_DROP_PAD |
		     1ull << ROCEMU_DROP_LENGTH | 1ull << ROCEMU_DROP_SHORT;
	/* A packet of before an address change. */
	d |= 1ull << ROCEMU_DROP_SOURCE;
	if (w->stats.lives > w->nconns || w->rough)
		d |= 1ull << ROCEMU_DROP_QPN | 1ull << ROCEMU_DROP_STATE |
		     1ull << ROCEMU_DROP_ACCESS | 1ull << ROCEMU_DROP_XRC_SRQ;
	return d;
}

static void add_stats(struct world *w)
{
	uint64_t explained = explained_drops(w);

	w->stats.packets = w->fabric->packets;
	w->stats.lost = w->fabric->lost;
	for (unsigned i = 0; i < w->nhosts; i++) {
		const struct rocemu_ep_stats *st = rocemu_ep_get_stats(w->fabric->host[i].ep);

#define X(name, text) w->stats.ep.name += st->name;
		ROCEMU_STATS(X)
#undef X
		if (st->psn_sweeps)
			world_fail(w, "host %u took packets of its peers for a sweep of PSNs", i);
		for (unsigned d = 1; d < ROCEMU_DROP_COUNT; d++) {
			w->stats.ep.drops[d] += st->drops[d];
			if (st->drops[d] && !(explained >> d & 1))
				world_fail(w, "host %u dropped %llu packets: %s", i,
					   (unsigned long long)st->drops[d],
					   rocemu_drop_text((enum rocemu_drop)d));
		}
	}
}

static void total(struct world_stats *t, const struct world_stats *s)
{
	uint64_t *to = (uint64_t *)(void *)t;
	const uint64_t *from = (const uint64_t *)(const void *)s;

	for (size_t i = 0; i < sizeof(*t) / sizeof(uint64_t); i++)
		to[i] += from[i];
}

uint64_t world_run(uint64_t seed, bool trace, struct world_stats *stats)
{
	static struct world_memory *arena;
	static struct world w;

	if (!arena)
		arena = calloc(2 * WORLD_MAX_CONNS, sizeof(*arena));
	w = (struct world){.seed = seed, .trace = trace};
	w.arena = arena;
	if (!arena)
		abort();
	world_begin(&w);
	for (unsigned i = 0; i < STEPS; i++)
		world_step(&w);
	world_wind_up(&w);
	add_stats(&w);
	for (unsigned i = 0; i < w.nconns; i++)
		if (w.conns[i].state != CONN_WAITING || w.conns[i].side[0].qp ||
		    w.conns[i].side[1].qp)
			conn_end(&w, &w.conns[i]);
	world_check_empty(&w);
	fabric_free(w.fabric);
	total(stats, &w.stats);
	return w.digest;
}
