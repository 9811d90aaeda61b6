/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the process's connection management. Started by the first ID that is bound; exists until the
 * process ends. Then, for any reason of the end, the agent sends the exit MADs to the peers.
 *
 * A forked child starts anew: the CM objects and agent registrations of its parent's IDs belong to
 * the parent alone.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/prf.h"
#include "base/thread.h"
#include "base/timescale.h"
#include "base/util.h"
#include "rdmacm/addr.h"
#include "rdmacm/core.h"
#include "rdmacm/globals.h"
#include "rdmacm/id.h"
#include "rdmacm/mad.h"

/* Requests of one address that wait at all listeners of the process; of all addresses twice as
 * many. */
enum { RCM_HALF_OPEN = 8192 };

#define core   rcm_globals.core
#define client rcm_globals.agent.client

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
	if (id->base.channel) /* a request's ID has its listener's */
		rcm_channel_use(rcm_channel_of(id->base.channel));
}

/* ---- sending ---- */

/* Lost as on any network if sending fails. */
static void send_mad(const struct cm_mad *m) REQUIRES(rcm_lock)
{
	struct gsi_mad mad = mad_make(m);

	if (rcm_agent_local(&mad.src, mad.scope_id))
		mad_send(client, rcm_now(), &mad);
}

static void set_exits(void) REQUIRES(rcm_lock)
{
	struct cm_exit_mad change;

	while (cm_next_exit_mad(core.cm, &change)) {
		struct agent_exit_mad e = {.cm_timeout = CM_DEFAULT_TIMEOUT,
					   .retries = CM_DEFAULT_RETRIES};

		if (change.present)
			e.mad = mad_make(&change.mad);
		if (change.present && rcm_agent_local(&e.mad.src, e.mad.scope_id))
			agent_gsi_exit_set(client, change.comm_id, &e);
		else
			agent_gsi_exit_clear(client, change.comm_id);
	}
}

/* Set the timer to the CM's next deadline, if that is earlier. */
static void arm(void) REQUIRES(rcm_lock)
{
	rocemu_ns_t due = MIN(cm_deadline(core.cm), rcm_timers_deadline());
	struct itimerspec t = {0};

	if (due >= core.armed)
		return;
	core.armed = due;
	due = due ? due : 1; /* 0 would switch it off */
	t.it_value.tv_sec = (time_t)(due / NS_PER_S);
	t.it_value.tv_nsec = (long)(due % NS_PER_S);
	timerfd_settime(core.timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

void rcm_core_wake(void)
{
	uint64_t one = 1;

	if (core.running && write(core.wake_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: the thread wakes anyway */
}

void rcm_drive(void)
{
	struct cm_event ev;
	bool more = true;
	unsigned n;

	if (!core.running || core.driving)
		return; /* the thread that is driving handles the new events */
	core.driving = true;
	while (more) {
		more = false;
		/*
		 * Exit MADs first: the process may die as soon as a program gets an event, and the
		 * peer must then get the current exit MAD.
		 */
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
	if (!core.lost && !agent_gsi_connected(client)) {
		core.lost = true;
		rcm_core_wake();
	}
}

void rcm_drive_out(void)
{
	UNCANCELLED; /* the call has had its effect */
	struct agent_gsi *c;

	rcm_drive();
	c = core.running ? client : NULL;
	rcm_lock_drop();
	if (c)
		agent_gsi_drain(c);
}

/* ---- the thread that receives MADs and keeps time ---- */

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
	case GSI_FRAME_UNREACHABLE:
		cm_unreachable(core.cm, f->comm_id, f->error);
		break;
	}
}

/* A wildcard's addresses are opened at the agent, their devices only when a message comes there. */
static void announce(const struct gsi_frame *f) REQUIRES(rcm_lock)
{
	const struct rcm_local *local =
		f->type == GSI_FRAME_MAD ? rcm_agent_local(&f->m.dst, f->m.scope_id) : NULL;

	if (!local || local->dev)
		return;
	rcm_lock_drop();
	core.ops->arrival(&f->m.dst, f->m.scope_id);
	rcm_lock_take();
}

/* Receive pending frames. */
static void receive(void) REQUIRES(rcm_lock)
{
	struct gsi_frame f;

	while (agent_gsi_recv(client, &f) == 1) {
		announce(&f);
		take(&f);
		/* One by one, because a MAD's effects are bounded. */
		rcm_drive();
	}
}

static bool goes_on(unsigned generation) REQUIRES(rcm_lock)
{
	return core.running && core.generation == generation;
}

/* Has the program closed descriptors that are not its own? They would be readable without end. */
static bool are_closed(const struct pollfd p[2])
{
	const bool closed = (p[0].revents | p[1].revents) & POLLNVAL;

	if (closed)
		log_warn("connection management ends: the program has closed its descriptors");
	return closed;
}

static void *run(void *arg)
{
	unsigned generation = (unsigned)(uintptr_t)arg;
	uint64_t n;

	rcm_lock_take();
	while (goes_on(generation)) {
		struct pollfd p[] = {
			{.fd = agent_gsi_fd(client), .events = POLLIN},
			{.fd = core.timer_fd, .events = POLLIN},
		};

		rcm_lock_drop();
		poll(p, ARRAY_LEN(p), -1);
		if (are_closed(p))
			return NULL;
		rcm_lock_take();
		if (p[1].revents) {
			core.armed = ROCEMU_NEVER;
			if (read(core.timer_fd, &n, sizeof(n)) < 0)
				log_debug("connection management: spurious wakeup");
		}
		agent_gsi_flush(client);
		receive();
		cm_expire(core.cm, rcm_now());
		rcm_timers_expire(rcm_now());
		rcm_drive();
	}
	rcm_lock_drop();
	return NULL;
}

/* ---- the thread that follows devices and finds the next agent ---- */

enum { PAUSE_FIRST_MS = 20, PAUSE_MAX_MS = 5000 };

/* @return how long to wait before the next try, if there is one. */
static int find_agent(int pause_ms)
{
	char text[AGENT_TEXT_MAX];
	int ret = agent_gsi_join(client, text);

	if (ret < 0) {
		log_info("%s", text);
		return MAX(PAUSE_FIRST_MS, MIN(2 * pause_ms, PAUSE_MAX_MS));
	}
	rcm_lock_take();
	core.lost = false;
	rcm_lock_drop();
	return 0;
}

static void *run_watch(void *arg)
{
	unsigned generation = (unsigned)(uintptr_t)arg;
	int pause_ms = 0, look_ms = -1, wait_ms;
	uint64_t n;

	rcm_lock_take();
	while (goes_on(generation)) {
		const struct rcm_core_ops *ops = core.ops;
		const bool lost = core.lost;
		struct pollfd p[] = {
			{.fd = core.wake_fd, .events = POLLIN},
			{.fd = rcm_device_events_fd(), .events = POLLIN},
		};

		rcm_lock_drop();
		wait_ms = lost && (look_ms < 0 || pause_ms < look_ms) ? pause_ms : look_ms;
		poll(p, ARRAY_LEN(p), wait_ms);
		if (are_closed(p))
			return NULL;
		if (p[0].revents && read(p[0].fd, &n, sizeof(n)) < 0)
			log_debug("connection management: spurious wakeup");
		if (p[0].revents || p[1].revents || look_ms >= 0)
			look_ms = ops->look();
		if (lost)
			pause_ms = find_agent(pause_ms);
		rcm_lock_take();
		rcm_drive();
	}
	rcm_lock_drop();
	return NULL;
}

static int start_thread(void *(*fn)(void *)) REQUIRES(rcm_lock)
{
	void *generation = (void *)(uintptr_t)core.generation;
	pthread_t thread;
	const int err = thread_start(&thread, "rocemu-cm", fn, generation);

	if (!err)
		pthread_detach(thread);
	return err;
}

/* ---- life ---- */

/* The agent may have to be started, which takes long. */
static int join_agent(void) REQUIRES(rcm_lock)
{
	UNCANCELLED; /* others wait for the end of it */
	char text[AGENT_TEXT_MAX];
	int err;

	core.starting = true;
	rcm_lock_drop();
	err = agent_gsi_new(&client, text);
	rcm_lock_take();
	core.starting = false;
	rcm_lock_wake_all();
	if (err)
		log_failure(err, text);
	return err;
}

static int start_cm(struct cm_config *config) REQUIRES(rcm_lock)
{
	uint64_t secret[4] = {0};

	if (getrandom(secret, sizeof(secret), 0) < 0)
		secret[0] = rcm_now();
	config->seed = secret[0];
	config->seed_high = secret[1];
	/* Separate ones: programs see these. */
	core.prf = (struct prf){.key = {secret[2], secret[3]}};
	config->id_prefix = agent_gsi_number(client);
	core.cm = cm_new(config);
	return core.cm ? 0 : -ENOMEM;
}

static int start_threads(void) REQUIRES(rcm_lock)
{
	int err;

	core.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	core.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	core.armed = ROCEMU_NEVER;
	core.running = true;
	if (core.timer_fd < 0 || core.wake_fd < 0)
		err = -EMFILE;
	else
		err = start_thread(run);
	if (!err)
		err = start_thread(run_watch);
	if (!err)
		return 0;
	core.running = false;
	core.generation++; /* one of the threads may be there */
	if (core.timer_fd >= 0)
		close(core.timer_fd);
	if (core.wake_fd >= 0)
		close(core.wake_fd);
	return err;
}

static int start(uint64_t guid) REQUIRES(rcm_lock)
{
	struct cm_config config = {
		.ca_guid = guid, .exit_mads = true, .max_half_open = RCM_HALF_OPEN};
	char text[512] = "";
	int err = timescale_get(&config.time_scale, text, sizeof(text));

	if (err) {
		log_error("%s", text);
		return err;
	}
	err = join_agent();
	if (!err)
		err = start_cm(&config);
	if (!err)
		err = start_threads();
	if (err) {
		cm_free(core.cm);
		agent_gsi_free(client);
		core.cm = NULL;
		client = NULL;
	}
	return err;
}

int rcm_core_start(struct rcm_id *id, uint64_t guid, const struct rcm_core_ops *ops)
{
	int err = 0;

	/* Of a parent process: its objects there are not this process's. */
	if (rcm_core_orphaned(id))
		return rcm_orphan_refuse(EINVAL);
	while (core.starting)
		rcm_lock_wait();
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
	if (client)
		agent_gsi_forget(client);
	if (core.running) {
		close(core.timer_fd);
		close(core.wake_fd);
	}
	rcm_lock_forget();
	rcm_globals_forget();
	rcm_lock_drop();
}

enum { EXIT_WAIT_MS = 200 };

static bool has_unsent(void) REQUIRES(rcm_lock)
{
	return core.running && (agent_gsi_waits(client) || rcm_globals.mads.unseen);
}

/* A program may end right after it sent its last MAD: the thread sends what is queued, and captures
 * what the agent has sent. Bounded, because MADs that the agent refuses are not returned. */
__attribute__((destructor)) static void finish_sending(void)
{
	bool unsent = true;

	for (unsigned ms = 0; ms < EXIT_WAIT_MS && unsent; ms++) {
		if (!rcm_lock_take_at_exit())
			return;
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
