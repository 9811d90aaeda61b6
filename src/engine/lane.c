/* SPDX-License-Identifier: BSD-2-Clause */
/* Creates lanes, attaches them to a slot of port 4791, frees them, and handles fork().
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/client.h"
#include "base/evq.h"
#include "base/forks.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/timescale.h"
#include "base/trace.h"
#include "engine/agent-watch.h"
#include "engine/forward.h"
#include "engine/lane-shm.h"
#include "engine/stat-server.h"
#include "fault/like.h"
#include "fault/report.h"
#include "fault/setting.h"

enum { STAT_TRIES = 100, STAT_TRY_NS = 1000000, EXIT_WAIT_S = 1 };

/* All lanes of the process, for fork(). Guarded by registry_lock, which is taken before any lane's
 * lock. */
static struct mutex registry_lock = MUTEX_INITIALIZER;
static struct list registry = {&registry, &registry};

/* ---- fork ---- */

/*
 * A child has none of the lanes' threads, and the sockets are the parent's: receiving packets,
 * releasing the slot or writing the capture would affect the parent. So the child's copies are
 * dead: their descriptors are closed, calls on them do nothing. A lane that the child makes itself
 * is like any other.
 */
static void disown(struct lane *l)
{
	l->dead = true;
	lane_lock_init(l);
	lane_sock_disown(l);
	lane_shm_disown(l);
	lane_count_disown(l);
	lane_backlog_fini(l);
	lane_tx_fini(l);
	rcvbuf_fini(&l->rcvbuf);
	if (l->thread.rcvbuf_query.loop && l->thread.rcvbuf_query.fd >= 0)
		close(l->thread.rcvbuf_query.fd);
	if (l->forward)
		forward_close(l->forward);
	if (l->thread.timer_fd >= 0)
		close(l->thread.timer_fd);
	if (l->thread.guard_fd >= 0)
		close(l->thread.guard_fd);
	loop_fini(&l->thread.loop);
	if (l->watch)
		agent_watch_forget(l->watch);
	if (l->agent)
		agent_client_forget(l->agent);
	l->agent = NULL;
	l->tap = NULL;
}

static void fork_prepare(void)
{
	mutex_lock(&registry_lock);
	forward_hold_forks();
}

static void fork_parent(void)
{
	forward_let_fork();
	mutex_unlock(&registry_lock);
}

static void fork_child(void)
{
	forward_let_fork();
	lane_lock_forget();
	poller_forget();
	stat_server_forget();
	list_for_each_safe (it, tmp, &registry) {
		struct lane *l = list_entry(it, struct lane, node);

		disown(l);
		list_remove(it);
		if (l->on_orphaned)
			l->on_orphaned(l->user);
	}
	mutex_unlock(&registry_lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {fork_prepare, fork_parent, fork_child};

	forks_add(FORK_LANES, &handlers);
}

/*
 * The lane's thread may have the lock: it has just made the completion at which the program exits,
 * has not sent the answer yet, and waits for a processor. Bounded, since another thread may keep
 * the lock. This thread has it if the program exits from a signal handler.
 */
static bool take_at_exit(struct lane *l, const struct timespec *end) TRY_ACQUIRE(true, l);
static bool take_at_exit(struct lane *l, const struct timespec *end)
{
	return lane_lock_owner(l) != (uint32_t)gettid() && lane_lock_until(l, end);
}

/* A program may exit with its QPs open, right after its last completion. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	struct timespec end;

	stat_server_exit();
	/* What the lanes send is captured, reported and recorded. */
	if (!tap_works_at_exit() || !trace_works_at_exit() || !fault_report_works_at_exit() ||
	    !mutex_lock_at_exit(&registry_lock))
		return;
	evq_end();
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += EXIT_WAIT_S;
	list_for_each (it, &registry) {
		struct lane *l = list_entry(it, struct lane, node);

		if (!take_at_exit(l, &end))
			continue;
		lane_flush(l);
		lane_impair_release(l);
		lane_backlog_drain(l);
		if (l->tap)
			tap_flush(l->tap);
		lane_unlock(l);
	}
	mutex_unlock(&registry_lock);
}

/* ---- `rocemu stat` ---- */

static int fill_stat(struct stat_buf *b, uint32_t *nlanes, const atomic_bool *stop)
{
	int err = 0;

	/* Held for long by a process that hangs in fork() or exit(). */
	for (unsigned i = 0; !mutex_trylock(&registry_lock); i++) {
		if (i >= STAT_TRIES || atomic_load(stop))
			return -EBUSY;
		nanosleep(&(struct timespec){.tv_nsec = STAT_TRY_NS}, NULL);
	}
	list_for_each (it, &registry) {
		struct lane *l = list_entry(it, struct lane, node);

		err = lane_stat(l, b, stop);
		if (err)
			break;
		++*nlanes;
	}
	mutex_unlock(&registry_lock);
	return err;
}

static void enlist(struct lane *l)
{
	mutex_lock(&registry_lock);
	list_append(&registry, &l->node);
	mutex_unlock(&registry_lock);
}

/* ---- new and free ---- */

static int fail(char *errbuf, size_t errlen, int err, const char *what)
{
	char policy[LIMIT_TEXT_LEN];

	snprintf(errbuf, errlen, "%s: %s%s", what, strerror(-err), refusal_text(err, policy));
	return err;
}

static int init_endpoint(struct lane *l, const struct lane_config *c, char *errbuf, size_t errlen)
{
	struct rocemu_ep_config ep = c->ep;
	struct like like;
	int err;

	if (c->ngids > ROCEMU_MAX_GID)
		return fail(errbuf, errlen, -EINVAL, "too many addresses");
	ep.rnr_chance = l->impair.rnr;
	ep.rnr_seed = impair_rnr_seed(&l->impair);
	/* With delays on purpose, more is under way than in a ring. */
	if (l->shm && !l->impair.on)
		ep.window_nearby = LANE_SHM_WINDOW;
	err = timescale_get(&ep.time_scale, errbuf, errlen);
	if (!err)
		err = like_get(&like, errbuf, errlen);
	if (err)
		return err;
	ep.traits = like.traits;
	ep.max_rd_atomic = (uint8_t)like.limits.max_qp_rd_atom;
	l->ep = rocemu_ep_new(&ep);
	if (!l->ep)
		return fail(errbuf, errlen, -ENOMEM, "endpoint");
	rocemu_ep_set_send_credits(l->ep, 0); /* lane_output() sets it */
	for (unsigned i = 0; i < c->ngids; i++) {
		l->gids[i] = c->gids[i];
		err = rocemu_ep_set_gid(l->ep, c->gids[i].index, &c->gids[i].gid);
		if (err)
			return fail(errbuf, errlen, err, "GID table");
	}
	l->ngids = c->ngids;
	l->ifindex = c->ifindex;
	return 0;
}

static int init_lane(struct lane *l, const struct lane_config *c, char *errbuf, size_t errlen)
{
	int err = setting_get(&l->impair, NULL, errbuf, errlen);

	if (err)
		return err;
	if (!ecn_parse(&l->tx.ecn.mode, secure_getenv("ROCEMU_ECN"))) {
		snprintf(errbuf, errlen, "ROCEMU_ECN=%s: expected \"auto\", \"on\" or \"off\"",
			 secure_getenv("ROCEMU_ECN"));
		return -EINVAL;
	}
	err = lane_shm_init(l, errbuf, errlen);
	if (err)
		return err;
	if (lane_rx_init(l) || lane_tx_init(l))
		return fail(errbuf, errlen, -ENOMEM, "lane");
	err = l->impair.on ? lane_impair_init(l, errbuf, errlen) : 0;
	if (err)
		return err;
	err = init_endpoint(l, c, errbuf, errlen);
	return err ? err : tap_get(&l->tap, errbuf, errlen);
}

int lane_new(struct lane **out, const struct lane_config *config, char *errbuf, size_t errlen)
{
	struct lane *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return fail(errbuf, errlen, -ENOMEM, "lane");
	l->stats = &l->own_stats;
	list_init(&l->node);
	list_init(&l->retired);
	list_init(&l->tx.backlog);
	lane_lock_init(l);
	snprintf(l->device, sizeof(l->device), "%s", config->device ? config->device : "lane");
	l->on_events = config->on_events;
	l->on_orphaned = config->on_orphaned;
	l->user = config->user;
	l->further = config->further;
	l->thread.timer_fd = l->thread.guard_fd = -1;
	loop_none(&l->thread.loop);
	l->ack_due = l->tap_due = l->next_due = l->thread.armed = ROCEMU_NEVER;
	progress_init(&l->progress);
	delayed_ack_init(&l->delayed_ack);
	err = init_lane(l, config, errbuf, errlen);
	if (err) {
		lane_free(l);
		return err;
	}
	enlist(l);
	*out = l;
	return 0;
}

/* Back to the state before lane_attach(). */
static void detach(struct lane *l)
{
	lane_thread_stop(l);
	lane_shm_close(l);
	lane_sock_close_all(l);
	forward_free(l->forward);
	l->forward = NULL;
	agent_client_free(l->agent);
	l->agent = NULL;
	l->attached = false;
}

/* ROCEMU_LOG=debug: what the lane did. */
static void log_stats(const struct lane *l)
{
	if (!log_enabled(LOG_LVL_DEBUG))
		return;
#define X(name, text)                                                           \
	if (l->stats->name)                                                     \
		log_debug("%s: slot %u: %llu %s", l->device, (unsigned)l->slot, \
			  (unsigned long long)l->stats->name, text);
	LANE_STATS(X)
#undef X
}

void lane_free(struct lane *l)
{
	if (!l)
		return;
	if (l->dead) {
		/*
		 * The endpoint may have been in the middle of a change when the parent forked: not
		 * used.
		 */
		return;
	}
	mutex_lock(&registry_lock);
	list_remove(&l->node);
	mutex_unlock(&registry_lock);
	if (l->attached)
		stat_server_unuse();
	lane_leave(l);
	detach(l);
	log_stats(l);
	lane_lock(l);
	lane_impair_release(l);
	lane_unlock(l);
	lane_impair_fini(l);
	rcvbuf_fini(&l->rcvbuf);
	lane_lock(l); /* for the analysis: no other thread uses the lane any more */
	lane_backlog_drain(l);
	lane_unlock(l);
	lane_backlog_fini(l);
	lane_tx_fini(l);
	lane_rx_fini(l);
	lane_shm_fini(l);
	tap_put(l->tap);
	lane_lock(l); /* endpoints of joined lanes may refer to its objects */
	rocemu_ep_free(l->ep);
	lane_unlock(l);
	lane_count_stop(l);
	lane_lock_fini(l);
	free(l);
}

/* ---- attach ---- */

static int open_forward(struct lane *l)
{
	char instance[FORWARD_INSTANCE_LEN];
	int err;

	agent_client_instance(l->agent, instance, sizeof(instance));
	err = forward_new(&l->forward, instance, l->slot);
	if (err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS)
		return err;
	/* Without it, datagrams that GRO merged into another lane's are lost and sent again. */
	if (err)
		log_warn("%s: cannot take forwarded packets of slot %u: %s", l->device,
			 (unsigned)l->slot, strerror(-err));
	return 0;
}

static int attach_locked(struct lane *l, char *errbuf, size_t errlen) REQUIRES(l);
static int attach_locked(struct lane *l, char *errbuf, size_t errlen)
{
	int err = agent_client_new(&l->agent, errbuf, errlen);

	if (err)
		return err;
	l->slot = agent_client_slot(l->agent);
	if (l->further && l->slot >= LANE_FURTHER_SLOTS)
		return fail(errbuf, errlen, -ENOSPC, "one more lane");
	err = lane_sock_open_all(l, errbuf, errlen);
	if (err)
		return err;
	err = open_forward(l);
	if (err)
		return fail(errbuf, errlen, err, "the lane's socket for forwarded packets");
	err = rocemu_ep_set_slot(l->ep, l->slot, agent_client_first_index(l->agent));
	if (err)
		return fail(errbuf, errlen, err, "slot");
	lane_shm_start(l);
	err = lane_thread_start(l);
	if (err)
		return fail(errbuf, errlen, err, "the lane's thread");
	lane_count_start(l);
	l->attached = true;
	lane_enter(l);
	return 0;
}

int lane_attach(struct lane *l, char *errbuf, size_t errlen)
{
	UNCANCELLED;
	bool before;
	int err = 0;

	lane_lock(l);
	before = l->attached;
	if (l->dead)
		err = fail(errbuf, errlen, -ENODEV, "this device was opened before fork()");
	else if (!l->attached)
		err = attach_locked(l, errbuf, errlen);
	if (err && !l->dead)
		detach(l);
	lane_unlock(l);
	if (!err && !before)
		stat_server_use(fill_stat);
	return err;
}

struct rocemu_ep *lane_ep(struct lane *l)
{
	return l->ep;
}

void lane_get_stats(struct lane *l, struct lane_stats *out)
{
	lane_lock(l);
	*out = *l->stats;
	lane_unlock(l);
}

void lane_set_mtu(struct lane *l, enum ibv_mtu mtu)
{
	lane_lock(l);
	if (!l->dead)
		rocemu_ep_set_active_mtu(l->ep, mtu);
	lane_unlock(l);
}

bool lane_is_impaired(const struct lane *l)
{
	return l->impair.on;
}

void lane_clear(struct lane *l)
{
	lane_lock(l);
	if (!l->dead)
		rocemu_ep_clear(l->ep);
	lane_unlock(l);
}

void lane_fail(struct lane *l)
{
	lane_lock(l);
	if (!l->dead) {
		rocemu_ep_fail(l->ep, lane_now());
		lane_kick(l);
	}
	lane_unlock(l);
}
