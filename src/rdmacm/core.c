/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process's connection management: the one lock, the connection manager, the connection to the
 * agent, and the thread that receives MADs and keeps time. Started by the first ID that is bound;
 * lives as long as the process. When that ends, for any reason, the agent sends its exit
 * MADs to the peers.
 *
 * A child process made by fork() starts anew: what its parent's IDs had of CM and agent is the
 * parent's alone.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/client-gsi.h"
#include "base/forks.h"
#include "base/log.h"
#include "base/prf.h"
#include "base/timescale.h"
#include "rdmacm/addr.h"
#include "rdmacm/core.h"
#include "rdmacm/globals.h"
#include "rdmacm/id.h"
#include "rdmacm/mad.h"

/* Requests of one address that wait at all listeners of the process; of all addresses twice as many. */
enum { RCM_HALF_OPEN = 8192 };

#define core rcm_globals.core

uint32_t rcm_random(void)
{
	uint32_t value;

	/* PSNs must be unpredictable for peers that have seen others. */
	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != (ssize_t)sizeof(value))
		value = (uint32_t)prf_u64(&core.prf);
	return value;
}

struct cm *rcm_core_cm(void)
{
	return core.cm;
}

bool rcm_core_orphaned(const struct rcm_id *id)
{
	return id->generation && id->generation != core.generation;
}

bool rcm_core_has(const struct rcm_id *id)
{
	if (rcm_core_orphaned(id))
		rcm_orphan_refuse(EINVAL);
	return core.running && id->generation == core.generation;
}

void rcm_core_join(struct rcm_id *id)
{
	id->generation = core.generation;
	if (id->base.channel) /* that of a request's ID is its listener's */
		rcm_channel_use(rcm_channel_of(id->base.channel));
}

/* ---- sending ---- */

static struct rcm_local *find_opened(const struct rocemu_gid *gid) REQUIRES(rcm_lock)
{
	for (size_t i = 0; i < core.nopened; i++)
		if (memcmp(&core.opened[i].gid, gid, sizeof(*gid)) == 0)
			return &core.opened[i];
	return NULL;
}

bool rcm_core_local(const struct rocemu_gid *gid, struct rcm_local *local)
{
	const struct rcm_local *o = find_opened(gid);

	if (o)
		*local = *o;
	return o != NULL;
}

/* Lost as on any network if it does not go. */
static void send_mad(const struct cm_mad *m) REQUIRES(rcm_lock)
{
	const struct rcm_local *o = find_opened(&m->addr.src);
	struct gsi_mad mad;

	if (!o)
		return;
	mad = mad_make(m, o->scope_id);
	mad_send(core.client, rcm_now(), &mad);
}

static void set_exits(void) REQUIRES(rcm_lock)
{
	struct cm_will change;

	while (cm_next_will(core.cm, &change)) {
		const struct rcm_local *o = change.present ? find_opened(&change.mad.addr.src) : NULL;
		struct agent_exit_mad e = {.cm_timeout = CM_DEFAULT_TIMEOUT,
					   .retries = CM_DEFAULT_RETRIES};

		if (!o) {
			agent_gsi_exit_clear(core.client, change.comm_id);
			continue;
		}
		e.mad = mad_make(&change.mad, o->scope_id);
		agent_gsi_exit_set(core.client, change.comm_id, &e);
	}
}

/* Make the timer ring when the CM needs it, if it would later. */
static void arm(void) REQUIRES(rcm_lock)
{
	rocemu_ns_t due = MIN(cm_deadline(core.cm), rcm_timers_deadline());
	struct itimerspec t = {0};

	if (due >= core.armed)
		return;
	core.armed = due;
	due = due ? due : 1; /* 0 would switch it off */
	t.it_value.tv_sec = (time_t)(due / 1000000000u);
	t.it_value.tv_nsec = (long)(due % 1000000000u);
	timerfd_settime(core.timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

void rcm_core_wake(void)
{
	uint64_t one = 1;

	if (core.running && write(core.wake_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: it wakes anyway */
}

void rcm_drive(void)
{
	struct cm_event ev;
	bool more = true;
	unsigned n;

	if (!core.running || core.driving)
		return; /* the caller that drives handles what is new */
	core.driving = true;
	while (more) {
		more = false;
		/* First: whoever is told of a connection may end at that very moment, and its peer has to hear the
		 * right thing. */
		set_exits();
		while ((n = cm_output(core.cm, rcm_now(), core.mads, ARRAY_LEN(core.mads))) > 0)
			for (unsigned i = 0; i < n; i++)
				send_mad(&core.mads[i]);
		while (cm_next_event(core.cm, &ev)) {
			more = true;
			core.ops->cm_event(&ev);
		}
	}
	set_exits();
	core.driving = false;
	arm();
	if (agent_gsi_fd(core.client) != core.polled_fd ||
	    agent_gsi_waits(core.client) != core.polled_out)
		rcm_core_wake();
}

/* ---- the thread ---- */

static void take(const struct gsi_frame *f) REQUIRES(rcm_lock)
{
	struct cm_addr addr;
	enum cm_drop drop;

	switch (f->type) {
	case GSI_FRAME_MAD:
		if (!mad_received(&f->m, rcm_now(), &addr))
			break;
		drop = cm_input(core.cm, rcm_now(), f->m.mad, sizeof(f->m.mad), &addr);
		if (drop)
			log_debug("a message of QP 1 was not taken: %s", cm_drop_text(drop));
		break;
	case GSI_FRAME_SENT:
		mad_sent(&f->m);
		break;
	case GSI_FRAME_UNREACHED:
		cm_unreached(core.cm, f->comm_id, f->error);
		break;
	}
}

/* Take what there is. @return false: there is no agent now. */
static bool receive(void) REQUIRES(rcm_lock)
{
	struct gsi_frame f;
	int ret;

	while ((ret = agent_gsi_recv(core.client, &f)) != 0) {
		if (ret == 1) {
			take(&f);
			/* Each on its own: what a MAD brings about is bounded. */
			rcm_drive();
		} else if (ret == -EADDRINUSE)
			log_error("%s", agent_gsi_text(core.client));
		else
			return false;
	}
	return true;
}

enum { EXIT_WAIT_MS = 200 };
enum { PAUSE_FIRST_MS = 20, PAUSE_MAX_MS = 5000 };

static void *run(void *arg)
{
	unsigned generation = (unsigned)(uintptr_t)arg;
	const struct rcm_core_ops *ops;
	int pause = PAUSE_FIRST_MS;
	uint64_t n;

	rcm_lock_take();
	ops = core.ops;
	while (core.running && core.generation == generation) {
		struct pollfd p[4] = {
			{.fd = agent_gsi_fd(core.client), .events = POLLIN},
			{.fd = core.timer_fd, .events = POLLIN},
			{.fd = core.wake_fd, .events = POLLIN},
			{.fd = rcm_device_events_fd(), .events = POLLIN},
		};

		core.polled_fd = p[0].fd;
		core.polled_out = agent_gsi_waits(core.client);
		if (core.polled_out)
			p[0].events |= POLLOUT;
		rcm_lock_drop();
		poll(p, ARRAY_LEN(p), p[0].fd < 0 ? pause : -1);
		if (p[2].revents || p[3].revents)
			ops->look();
		rcm_lock_take();
		if ((p[2].revents && read(core.wake_fd, &n, sizeof(n)) < 0) ||
		    (p[1].revents && read(core.timer_fd, &n, sizeof(n)) < 0))
			log_debug("connection management: spurious wakeup");
		if (p[1].revents)
			core.armed = ROCEMU_NEVER;
		if (p[0].revents & POLLOUT)
			agent_gsi_flush(core.client);
		pause = receive() ? PAUSE_FIRST_MS : MIN(2 * pause, PAUSE_MAX_MS);
		cm_expire(core.cm, rcm_now());
		rcm_timers_expire(rcm_now());
		rcm_drive();
	}
	rcm_lock_drop();
	return NULL;
}

static int start_thread(void) REQUIRES(rcm_lock)
{
	sigset_t all, old;
	pthread_t thread;
	int err;

	/* Signals are the program's threads' business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, NULL, run, (void *)(uintptr_t)core.generation);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return -err;
	pthread_detach(thread);
	return 0;
}

/* ---- life ---- */

static int start(uint64_t guid) REQUIRES(rcm_lock)
{
	struct cm_config config = {
		.ca_guid = guid, .wills = true, .max_half_open = RCM_HALF_OPEN};
	uint64_t secret[4] = {0};
	char text[512] = "";
	int err;

	err = timescale_get(&config.time_scale, text, sizeof(text));
	if (err) {
		log_error("%s", text);
		return err;
	}
	err = agent_gsi_new(&core.client, text, sizeof(text));
	if (err) {
		log_failure(err, text);
		return err;
	}
	if (getrandom(secret, sizeof(secret), 0) < 0)
		secret[0] = rcm_now();
	config.seed = secret[0];
	config.seed_high = secret[1];
	/* Of its own: programs see these. */
	core.prf = (struct prf){.key = {secret[2], secret[3]}};
	config.id_prefix = agent_gsi_number(core.client);
	core.cm = cm_new(&config);
	core.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	core.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	core.armed = ROCEMU_NEVER;
	core.polled_fd = agent_gsi_fd(core.client);
	core.running = true;
	if (!core.cm)
		err = -ENOMEM;
	else if (core.timer_fd < 0 || core.wake_fd < 0)
		err = -EMFILE;
	else
		err = start_thread();
	if (err) {
		core.running = false;
		if (core.timer_fd >= 0)
			close(core.timer_fd);
		if (core.wake_fd >= 0)
			close(core.wake_fd);
		cm_free(core.cm);
		agent_gsi_free(core.client);
		core.cm = NULL;
		core.client = NULL;
	}
	return err;
}

int rcm_core_start(struct rcm_id *id, uint64_t guid, const struct rcm_core_ops *ops)
{
	int err = 0;

	/* Of a parent process: what it had there is not ours. */
	if (rcm_core_orphaned(id))
		return rcm_orphan_refuse(EINVAL);
	if (!core.running) {
		core.ops = ops;
		err = start(guid);
	}
	if (!err)
		rcm_core_join(id);
	return err;
}

static void fork_prepare(void) NO_THREAD_SAFETY_ANALYSIS
{
	rcm_lock_take();
}

static void fork_parent(void) NO_THREAD_SAFETY_ANALYSIS
{
	rcm_lock_drop();
}

static void fork_child(void) NO_THREAD_SAFETY_ANALYSIS
{
	if (core.running) {
		agent_gsi_forget(core.client);
		close(core.timer_fd);
		close(core.wake_fd);
	}
	rcm_lock_forget();
	rcm_globals_forget();
	rcm_lock_drop();
}

static bool has_unsent(void) REQUIRES(rcm_lock)
{
	return core.running && (agent_gsi_waits(core.client) || rcm_globals.mads.unseen);
}

/* A program may end right after it sent its last MAD: the thread sends what is queued, and captures
 * what the agent has sent. Bounded, because what the agent refuses is not returned. */
__attribute__((destructor)) static void finish_sending(void)
{
	bool unsent = true;

	for (unsigned ms = 0; ms < EXIT_WAIT_MS && unsent; ms++) {
		rcm_lock_take();
		unsent = has_unsent();
		rcm_lock_drop();
		if (unsent)
			poll(NULL, 0, 1);
	}
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {fork_prepare, fork_parent, fork_child};

	forks_add(FORK_RDMACM, &handlers);
}

/* ---- addresses and ports ---- */

static int open_one(const struct rcm_local *local) REQUIRES(rcm_lock)
{
	struct rcm_local *v = find_opened(&local->gid);
	int err;

	/* It may have moved to another device. */
	if (v) {
		*v = *local;
		return 0;
	}
	v = realloc(core.opened, (core.nopened + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	core.opened = v;
	err = agent_gsi_open(core.client, &local->gid, local->scope_id);
	if (err)
		return err;
	v[core.nopened++] = *local;
	return 0;
}

int rcm_core_open_all(const struct rcm_local *locals, int n)
{
	int err = 0, good = 0;

	for (int i = 0; i < n; i++) {
		int ret = open_one(&locals[i]);

		if (ret == 0) {
			good++;
			continue;
		}
		log_error("%s", agent_gsi_text(core.client));
		err = ret;
	}
	/* A wildcard does without addresses that cannot be had. */
	return good ? 0 : err;
}

void rcm_core_open_new(const struct rcm_local *locals, int n)
{
	for (int i = 0; i < n && core.running; i++)
		if (open_one(&locals[i]))
			log_info("%s", agent_gsi_text(core.client));
}

void rcm_core_close(const struct rcm_device *dev)
{
	size_t kept = 0;

	for (size_t i = 0; i < core.nopened; i++)
		if (core.opened[i].dev != dev)
			core.opened[kept++] = core.opened[i];
	core.nopened = kept;
}

int rcm_core_bind(struct rcm_id *id, const struct sockaddr *sa, uint64_t *service_id)
{
	/* An IPv4 wildcard has never been one of IPv6, so the two may stand side by side. */
	bool afonly = id->afonly < 0 ? sa->sa_family == AF_INET : id->afonly;
	struct agent_gsi_bind b = {
		.service_id = *service_id,
		.scope_id = rcm_addr_scope(sa),
		.flags = (id->reuseaddr ? AGENT_GSI_REUSEADDR : 0) | (afonly ? AGENT_GSI_AFONLY : 0),
	};
	int err;

	rcm_addr_to_gid(sa, &b.addr);
	err = agent_gsi_bind(core.client, &b, &id->bind_key);
	if (err)
		return err;
	id->bound = true;
	*service_id = b.service_id;
	return 0;
}

int rcm_core_listen(struct rcm_id *id)
{
	return id->bound ? agent_gsi_listen(core.client, id->bind_key) : -EINVAL;
}

void rcm_core_unbind(struct rcm_id *id)
{
	if (id->bound)
		agent_gsi_unbind(core.client, id->bind_key);
	id->bound = false;
}
