/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens to a world's connections and hosts. See world.h. */
#include "world.h"

#include <string.h>

#include "base/util.h"

enum {
	SHORT_US = 5000, /* less than any timeout: no request may fail for it */
	LONG_US = 500000,
};

static rocemu_ns_t random_us(struct world *w, uint32_t max)
{
	return (1 + rng_below(&w->rng, max)) * FABRIC_US;
}

/** From now on requests of the connection may fail; nothing new is posted. */
static void hurt(struct world_conn *c)
{
	c->excused = true;
	if (c->state == CONN_ALIVE)
		c->state = CONN_ENDING;
}

static void modify(struct world_side *s, const struct ibv_qp_attr *a, int mask)
{
	int rc = rocemu_qp_modify(s->qp, s->world->fabric->now, a, mask);

	if (rc != 0)
		side_fail(s, "modify, mask %#x: %d", (unsigned)mask, rc);
}

static void to_state(struct world_side *s, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};

	modify(s, &a, IBV_QP_STATE);
}

/* ---- a program changes its setup ---- */

static void fault_sqd(struct world_side *s)
{
	if (s->sqd || !s->sends || rocemu_qp_state(s->qp) != IBV_QPS_RTS)
		return;
	to_state(s, IBV_QPS_SQD);
	s->sqd = true;
}

/** RC: what may change while nothing is under way. */
static void change_attributes(struct world_side *s)
{
	struct rng *r = &s->world->rng;
	struct ibv_qp_attr a = {
		.timeout = s->conn->timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = (uint8_t)(1 + rng_below(r, 6)),
		.max_rd_atomic = (uint8_t)(1 + rng_below(r, s->rd_atomic)),
	};

	modify(s, &a,
	       IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER |
		       IBV_QP_MAX_QP_RD_ATOMIC);
}

struct ibv_ah_attr side_ah(const struct world_side *s)
{
	const struct fabric_host *to = &s->world->fabric->host[s->other->host];
	uint8_t index = s->conn->gid_index;
	struct ibv_ah_attr ah = {
		.is_global = 1, .port_num = 1, .grh = {.sgid_index = index, .hop_limit = 64}};

	memcpy(ah.grh.dgid.raw, index ? to->other_gid.raw : to->gid.raw, 16);
	return ah;
}

static bool is_drained(const struct world_side *s)
{
	struct ibv_qp_attr a;

	if (!s->sqd || !s->qp || rocemu_qp_state(s->qp) != IBV_QPS_SQD)
		return false;
	rocemu_qp_query(s->qp, &a);
	return !a.sq_draining;
}

/** RC: both sides drain, then both have other addresses; to the endpoints each is another peer
 * then. */
static void fault_move(struct world_conn *c)
{
	if (c->type != IBV_QPT_RC)
		return;
	fault_sqd(&c->side[0]);
	fault_sqd(&c->side[1]);
	c->moving = c->side[0].sqd && c->side[1].sqd;
}

static void move(struct world_conn *c)
{
	c->moving = false;
	c->gid_index ^= 1;
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_qp_attr a = {.ah_attr = side_ah(&c->side[i])};

		modify(&c->side[i], &a, IBV_QP_AV);
	}
}

void side_undrain(struct world_side *s)
{
	struct world_conn *c = s->conn;

	if (!is_drained(s))
		return;
	if (c->moving && c->state == CONN_ALIVE && !s->world->ending) {
		if (!is_drained(s->other))
			return;
		move(c);
	}
	if (s->conn->type == IBV_QPT_RC && rng_chance(&s->world->rng, 0.5))
		change_attributes(s);
	to_state(s, IBV_QPS_RTS);
	s->sqd = false;
	s->progress = s->world->fabric->now;
}

static void fault_destroy(struct world_side *s)
{
	hurt(s->conn);
	side_poll(s);
	world_assert(s->world, rocemu_qp_destroy(s->qp) == 0);
	s->qp = NULL;
	s->done = s->posted;
}

static void fault_reset(struct world_side *s)
{
	hurt(s->conn);
	side_poll(s);
	to_state(s, IBV_QPS_RESET);
	s->done = s->posted;
	s->recvs = s->received;
}

void side_break(struct world_side *s)
{
	hurt(s->conn);
	to_state(s, IBV_QPS_ERR);
	side_poll(s);
	if (side_waits(s))
		side_fail(s, "requests from %llu on were not flushed", (unsigned long long)s->done);
}

static void fault_dereg(struct world_side *s, struct rocemu_mr **mr)
{
	if (!*mr || s->mw)
		return;
	hurt(s->conn);
	world_assert(s->world, rocemu_mr_dereg(*mr) == 0);
	*mr = NULL;
}

static void fault_invalidate(struct world_side *s)
{
	if (!s->mw || s->mw_state != MW_BOUND)
		return;
	if (side_post_kind(s, WORLD_LOCAL_INV))
		hurt(s->conn);
}

/* ---- hosts ---- */

static void fault_pause(struct world *w, unsigned host)
{
	if (w->back_at[host])
		return;
	w->away[host] = w->rough && rng_chance(&w->rng, 0.2);
	w->back_at[host] = w->fabric->now + random_us(w, w->away[host] ? LONG_US : SHORT_US);
	fabric_pause(w->fabric, host, true);
}

static void fault_link_down(struct world *w, unsigned host)
{
	if (w->back_at[host])
		return;
	w->away[host] = true;
	w->back_at[host] =
		w->fabric->now + random_us(w, rng_chance(&w->rng, 0.8) ? SHORT_US : LONG_US);
	w->fabric->host[host].link_down = true;
}

static void host_back(struct world *w, unsigned host)
{
	struct fabric_host *h = &w->fabric->host[host];

	w->back_at[host] = 0;
	w->away[host] = h->link_down = false;
	for (unsigned i = 0; i < 2 * w->nconns; i++) {
		struct world_side *s = &w->conns[i / 2].side[i % 2];

		if (s->host == host || s->other->host == host)
			s->progress = w->fabric->now;
	}
	if (h->paused)
		fabric_pause(w->fabric, host, false);
}

/** Requests to and from a host that is away may fail. */
static void excuse(struct world *w)
{
	for (unsigned i = 0; i < w->nconns; i++) {
		const struct world_conn *c = &w->conns[i];

		w->conns[i].excused |= w->away[c->side[0].host] || w->away[c->side[1].host];
	}
}

void world_mend(struct world *w)
{
	for (unsigned i = 0; i < w->nhosts; i++)
		if (w->back_at[i] && (w->ending || w->back_at[i] <= w->fabric->now))
			host_back(w, i);
	excuse(w);
}

/* ---- which ---- */

void world_fault(struct world *w, struct world_conn *c)
{
	struct world_side *s = &c->side[rng_below(&w->rng, 2)];
	unsigned what = rng_below(&w->rng, w->rough ? 10 : 4);

	if (c->state != CONN_ALIVE || w->ending)
		return;
	w->stats.faults++;
	switch (what) {
	case 0:
	case 1:
		fault_sqd(s);
		break;
	case 2:
		fault_move(c);
		break;
	case 3:
		fault_pause(w, s->host);
		excuse(w);
		break;
	case 4:
		fault_destroy(s);
		break;
	case 5:
		fault_reset(s);
		break;
	case 6:
		side_break(s);
		break;
	case 7:
		fault_dereg(s, rng_chance(&w->rng, 0.5) ? &s->local : &s->remote);
		break;
	case 8:
		fault_invalidate(s);
		break;
	default:
		fault_link_down(w, s->host);
		excuse(w);
		break;
	}
	fabric_kick(w->fabric, s->host);
}
