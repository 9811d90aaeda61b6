/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Manages a context's lanes. The first is made with the context. Others are made for QPs whose CQs,
 * completion channels and SRQ no QP has used yet. Such a QP goes to the lane of the thread that
 * makes it, or to the lane with the fewest QPs, and its CQs and its SRQ with it. Later users of
 * these go to the same lane. So threads that make CQs and QPs of their own have locks of their own,
 * and a program with one thread has one lane. If ROCEMU_LANES is set, threads do not count: each
 * such QP goes to the lane that has the fewest.
 *
 * A lane has numbers for ROCEMU_MAX_QP QPs. Further QPs go to another lane, whatever their CQs are
 * on.
 *
 * A QP may be made of CQs and an SRQ that are on different lanes already. These lanes are joined
 * (lane_join()), and so are all when memory windows are allocated, since binding one changes what
 * is common to all endpoints, on the data path.
 */
#include "verbs/lanes.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/trace.h"
#include "base/util.h"
#include "base/why.h"
#include "engine/reason.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/event.h"
#include "verbs/odp.h"
#include "verbs/orphan.h"
#include "verbs/qp.h"
#include "verbs/srq.h"
#include "verbs/trace-wr.h"

/* ---- how many ---- */

/** The CPUs that the process may use. */
static unsigned cpus(void)
{
	cpu_set_t set;
	long online;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (unsigned)CPU_COUNT(&set);
	online = sysconf(_SC_NPROCESSORS_ONLN);
	return online > 0 ? (unsigned)online : 1;
}

/** The value of ROCEMU_LANES; 0: not set. -EINVAL, with a message printed. */
static int lanes_setting(void)
{
	const char *env = secure_getenv("ROCEMU_LANES");
	unsigned n;

	if (!env || !*env)
		return 0;
	n = lanes_parse(env);
	if (n)
		return (int)n;
	log_error("ROCEMU_LANES=%s: expected a number from 1 to %d", env, LANES_MAX);
	return -EINVAL;
}

/**
 * Fault rules count packets per lane, and each lane has its own dice; with faults there is only one
 * lane.
 */
static unsigned by_default(const struct lane *first)
{
	return lane_is_impaired(first) ? 1 : MIN(cpus(), (unsigned)LANES_DEFAULT_MAX);
}

/* ---- made and freed ---- */

/** Of each error, before its completion is in the CQ. */
static void report_why(void *user, const struct rocemu_why *w)
{
	(void)user;
	reason_report(w);
	if (trace_on())
		vb_trace_why(w);
}

/** A lane of the device as it is now. -errno with text. */
static int make(struct vb_context *c, struct lane **out, char *text, size_t len)
{
	struct lane *first = c->lanes.lane[0];
	struct lane_gid gids[ROCEMU_MAX_GID];
	struct lane_config config = {
		.device = c->netdev.name,
		.ep = {.active_mtu = netdev_active_mtu(c->netdev.mtu),
		       .page_in = vb_can_page_in() ? vb_page_in : NULL,
		       .why = log_enabled(LOG_LVL_WHY) || trace_on() ? report_why : NULL,
		       .domains_of = first ? lane_ep(first) : NULL},
		.gids = gids,
		.ifindex = c->netdev.ifindex,
		.on_events = vb_deliver_events,
		.on_orphaned = vb_context_orphaned,
		.user = c,
		.further = first != NULL,
	};

	for (unsigned i = 0; i < ARRAY_LEN(c->netdev.gids); i++)
		if (c->netdev.gids[i].here)
			gids[config.ngids++] = (struct lane_gid){
				.index = i,
				.gid = c->netdev.gids[i].gid,
				.scope_id = c->netdev.gids[i].scope_id,
			};
	/*
	 * Keys must not be predictable from one run to the next; without entropy they are.
	 */
	if (getentropy(&config.ep.seed, sizeof(config.ep.seed)) < 0)
		config.ep.seed = lane_now();
	return lane_new(out, &config, text, len);
}

int vb_lanes_init(struct vb_context *c)
{
	struct lane *first = NULL;
	char text[512] = "";
	int ret = lanes_setting();

	trace_start();

	if (ret < 0)
		return ret;
	c->spread.most = (unsigned)ret;
	ret = make(c, &first, text, sizeof(text));
	if (ret < 0) {
		log_failure(ret, text);
		return ret;
	}
	c->lanes.lane[0] = first;
	atomic_store(&c->lanes.n, 1);
	c->spread.by_thread = !c->spread.most;
	if (c->spread.by_thread)
		c->spread.most = by_default(first);
	return 0;
}

void vb_lanes_fini(struct vb_context *c)
{
	const unsigned n = atomic_load(&c->lanes.n);

	/* Objects of one lane may use those of others. */
	for (unsigned i = 0; i < n && n > 1 && !c->orphan; i++)
		lane_clear(c->lanes.lane[i]);
	/* The first lane has the memory of all, so it is freed last. */
	for (unsigned i = n; i > 0; i--)
		lane_free(c->lanes.lane[i - 1]);
}

/** The port's lock for changes is held: the device stays as it is. */
static int add_locked(struct vb_context *c, char *text, size_t len)
{
	struct lane *l = NULL;
	int ret = make(c, &l, text, len);

	if (ret < 0)
		return ret;
	lane_set_link(l, !c->port.down);
	ret = lane_attach(l, text, len);
	if (ret < 0)
		lane_free(l);
	else
		lanes_add(&c->lanes, l);
	return ret;
}

/** Make one more lane. False: that failed. */
static bool add(struct vb_context *c)
{
	char text[512] = "";
	int ret;

	mutex_lock(&c->port.update);
	ret = c->port.gone ? -ENODEV : add_locked(c, text, sizeof(text));
	mutex_unlock(&c->port.update);
	if (ret < 0)
		log_info("%s: stays with %u lanes: %s", c->netdev.name, atomic_load(&c->lanes.n),
			 text);
	return ret == 0;
}

/* ---- which; the lock of c->spread held ---- */

static unsigned least_used(const struct vb_context *c, unsigned n)
{
	unsigned least = 0;

	for (unsigned i = 1; i < n; i++)
		if (atomic_load(&c->spread.qps[i]) < atomic_load(&c->spread.qps[least]))
			least = i;
	return least;
}

static struct lane *least_used_lane(struct vb_context *c)
{
	const unsigned n = atomic_load(&c->lanes.n);
	unsigned at = least_used(c, c->spread.most);

	if (at >= n && !add(c)) {
		c->spread.most = n;
		at = least_used(c, n);
	}
	return c->lanes.lane[at];
}

static struct lane *lane_of_thread(struct vb_context *c)
{
	struct vb_spread *s = &c->spread;
	const int tid = gettid();
	struct lane *lane;

	for (unsigned i = 0; i < MIN(s->nmakers, (unsigned)VB_MAKERS); i++)
		if (s->maker[i].tid == tid)
			return s->maker[i].lane;
	lane = least_used_lane(c);
	s->maker[s->nmakers++ % VB_MAKERS] = (struct vb_maker){.tid = tid, .lane = lane};
	return lane;
}

/** For a QP whose CQs and SRQ have none yet. */
static struct lane *next_lane(struct vb_context *c, const struct vb_lane_users *u)
{
	struct vb_cq *const cqs[] = {u->send_cq, u->recv_cq};

	if (!u->send_cq)
		return c->lanes.lane[0]; /* XRC's targets: the first */
	for (unsigned i = 0; i < ARRAY_LEN(cqs); i++) {
		struct ibv_comp_channel *ch = cqs[i] ? cqs[i]->base.channel : NULL;
		struct lane *lane = ch ? atomic_load(&vb_channel_of(ch)->lane) : NULL;

		if (lane)
			return lane;
	}
	return c->spread.by_thread ? lane_of_thread(c) : least_used_lane(c);
}

/** Move an object that no QP has used yet to lane. */
static int settle_cq(struct vb_context *c, struct vb_cq *cq, struct lane *lane)
{
	int ret = 0;

	if (!cq || cq->place.given)
		return 0;
	if (lane != vb_lane_of(&cq->place)) {
		lanes_lock(&c->lanes);
		ret = rocemu_cq_move(cq->rcq, lane_ep(lane));
		if (ret == 0)
			atomic_store_explicit(&cq->place.lane, lane, memory_order_release);
		lanes_unlock(&c->lanes);
	}
	cq->place.given = ret == 0;
	if (ret == 0 && cq->base.channel)
		vb_channel_add_lane(vb_channel_of(cq->base.channel), lane);
	return ret;
}

static int settle_srq(struct vb_context *c, struct vb_srq *srq, struct lane *lane)
{
	int ret = 0;

	if (!srq || srq->place.given)
		return 0;
	if (lane != vb_lane_of(&srq->place)) {
		lanes_lock(&c->lanes);
		ret = rocemu_srq_move(srq->rsrq, lane_ep(lane));
		if (ret == 0)
			atomic_store_explicit(&srq->place.lane, lane, memory_order_release);
		lanes_unlock(&c->lanes);
	}
	srq->place.given = ret == 0;
	return ret;
}

/** An object on lane uses another object, which may be on another lane: join the two. */
static void join(struct lane *lane, const struct vb_place *place)
{
	struct lane *other = vb_lane_of(place);

	if (other == lane)
		return;
	lane_join(lane);
	lane_join(other);
}

static void join_all(struct vb_context *c)
{
	struct lane *l;

	if (atomic_load(&c->lanes.n) > 1)
		vb_each_lane(l, &c->lanes) lane_join(l);
}

static atomic_uint *qps_of(struct vb_context *c, const struct lane *lane)
{
	unsigned i = 0;

	while (c->lanes.lane[i] != lane)
		i++;
	return &c->spread.qps[i];
}

static bool is_full(struct vb_context *c, const struct lane *lane)
{
	return atomic_load(qps_of(c, lane)) >= ROCEMU_MAX_QP;
}

/** Instead of a lane that is full: the one with the fewest QPs, or a new one. -ENOMEM. */
static int other_lane(struct vb_context *c, struct lane **lane)
{
	unsigned n = atomic_load(&c->lanes.n), at = least_used(c, n);

	if (is_full(c, c->lanes.lane[at])) {
		if (n == LANES_MAX || !add(c))
			return REFUSE(
				-ENOMEM, 0,
				"ibv_create_qp: the %u lanes of %s have all the %d QPs that "
				"each can have, and there is no further lane: ROCEMU_LOG=info "
				"prints the reason",
				n, c->netdev.name, ROCEMU_MAX_QP);
		at = n;
		if (c->spread.united)
			join_all(c);
	}
	*lane = c->lanes.lane[at];
	return 0;
}

static int settle(struct vb_context *c, const struct vb_lane_users *u, struct lane **out)
{
	const struct vb_place *places[] = {u->send_cq ? &u->send_cq->place : NULL,
					   u->recv_cq ? &u->recv_cq->place : NULL,
					   u->srq ? &u->srq->place : NULL};
	struct lane *lane = NULL;
	int ret = 0;

	for (unsigned i = 0; i < ARRAY_LEN(places) && !lane; i++)
		if (places[i] && places[i]->given)
			lane = vb_lane_of(places[i]);
	if (!lane)
		lane = next_lane(c, u);
	if (is_full(c, lane))
		ret = u->send_cq ? other_lane(c, &lane)
				 : REFUSE(-ENOMEM, 0,
					  "ibv_create_qp: the first lane of %s, which has all of "
					  "XRC's targets, has %d QPs, and no more",
					  c->netdev.name, ROCEMU_MAX_QP);
	if (ret == 0)
		ret = settle_cq(c, u->send_cq, lane);
	if (ret == 0)
		ret = settle_cq(c, u->recv_cq, lane);
	if (ret == 0)
		ret = settle_srq(c, u->srq, lane);
	for (unsigned i = 0; i < ARRAY_LEN(places) && ret == 0; i++)
		if (places[i])
			join(lane, places[i]);
	*out = lane;
	return ret;
}

/* ---- the calls ---- */

int vb_lanes_take(struct vb_context *c, const struct vb_lane_users *u, struct lane **out)
{
	unsigned total = 0;
	int ret;

	mutex_lock(&c->spread.lock);
	for (unsigned i = 0; i < LANES_MAX; i++)
		total += atomic_load(&c->spread.qps[i]);
	ret = total < VB_MAX_QP ? settle(c, u, out)
				: REFUSE(-ENOMEM, 0,
					 "ibv_create_qp: there are %d QPs, as many as a context "
					 "can have: see max_qp of ibv_query_device()",
					 VB_MAX_QP);
	if (ret == 0)
		atomic_fetch_add(qps_of(c, *out), 1);
	mutex_unlock(&c->spread.lock);
	return ret;
}

void vb_lanes_give_back(struct vb_context *c, const struct lane *lane)
{
	atomic_fetch_sub(qps_of(c, lane), 1);
}

int vb_lanes_take_first(struct vb_context *c, struct vb_cq *cq)
{
	struct lane *first = c->lanes.lane[0];
	int ret;

	mutex_lock(&c->spread.lock);
	ret = settle_cq(c, cq, first);
	if (ret == 0)
		join(first, &cq->place);
	mutex_unlock(&c->spread.lock);
	return ret;
}

void vb_lanes_unite(struct vb_context *c)
{
	mutex_lock(&c->spread.lock);
	c->spread.most = atomic_load(&c->lanes.n);
	c->spread.united = true;
	join_all(c);
	mutex_unlock(&c->spread.lock);
}
