/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the lane's own thread: serves consumers that do not poll, and the timers. It alone uses the
 * loop and its watchers; other threads set a request flag and call loop_wake().
 *
 * Timers: timer_fd is the earliest deadline of endpoint, impairment, held acknowledgements and
 * capture, set lazily (only when a new deadline is earlier); guard_fd is set in mode POLLED only
 * (progress.h). An idle lane has no timer set.
 */
#include <errno.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "base/util.h"
#include "engine/agent-watch.h"
#include "engine/lane-shm.h"

#define THREAD_SLICE_NS 100000u	 /* a short slice is scheduled in sooner (Linux 6.12 and later) */
#define BULK_SPIN_NS	100000u	 /* how long to poll for a bulk transfer's next packets */
#define BULK_BUSY_NS	250000u	 /* ... at most, after it could have received what was sent to it */
#define BULK_TURN_NS	2000000u /* ... before timers and other sockets are handled */

enum {
	RETRY_MS = 10,
	RX_BULK = 4,		 /* datagrams in a receive that make it a bulk transfer */
	PEER_BYTES_PER_NS = 4,	 /* that a peer receives */
	PEER_BUSY_BYTES = 16384, /* fewer are received at once */
	EVENT_WAITS = 4,	 /* short waits between events after which the thread polls */
	BULK_BURSTS = 2, /* polling was worth it if at least this many come soon after the first */
	FORWARD_ROUNDS = 64,
};

/* ---- watching ---- */

static void on_socket(struct loop_io *io);

/* Sockets that callers poll in mode POLLED are not watched then; all others always. */
static int watch(struct lane *l) REQUIRES(l);
static int watch(struct lane *l)
{
	int err = 0;

	for (unsigned i = 0; i < l->nsocks; i++) {
		struct lane_sock *s = l->socks[i];
		int r;

		if (s->io.watched || (s->hot && l->progress.mode == PROGRESS_POLLED))
			continue;
		loop_io_init(&s->io, s->fd, on_socket, s);
		r = loop_watch(&l->thread.loop, &s->io);
		if (r)
			err = r;
	}
	return err;
}

/* On the thread. Retried if the system refuses: no other thread reads the sockets. */
static void watch_or_retry(struct lane *l) REQUIRES(l);
static void watch_or_retry(struct lane *l)
{
	const int err = watch(l);

	if (!err)
		return;
	log_info("%s: cannot watch a socket: %s; trying again", l->device, strerror(-err));
	loop_timer_set(&l->thread.loop, &l->thread.retry, RETRY_MS);
}

/* Other lanes' connections; retried when there are descriptors again. */
static void listen_or_retry(struct lane *l) REQUIRES(l);
static void listen_or_retry(struct lane *l)
{
	if (l->forward && forward_is_deaf(l->forward))
		loop_timer_set(&l->thread.loop, &l->thread.retry, RETRY_MS);
}

static void on_retry(struct loop_timer *t)
{
	struct lane *l = t->data;

	lane_lock(l);
	watch_or_retry(l);
	if (l->forward)
		forward_listen(l->forward);
	listen_or_retry(l);
	lane_unlock(l);
}

/* Callers poll: let them. */
static void stop_watching(struct lane *l) REQUIRES(l);
static void stop_watching(struct lane *l)
{
	if (!progress_stop_watching(&l->progress, lane_now()))
		return;
	for (unsigned i = 0; i < l->nsocks; i++) {
		struct lane_sock *s = l->socks[i];

		if (!s->hot)
			continue;
		loop_unwatch(&l->thread.loop, &s->io);
	}
	if (unlikely(l->shm != NULL))
		lane_shm_awake(l);
	l->stats->mode_changes++;
	lane_thread_guard(l);
}

/* Before the thread waits: request wakeups from the rings' senders, and check once more. */
static void rest(struct lane *l) REQUIRES(l);
static void rest(struct lane *l)
{
	if (unlikely(l->shm != NULL) && l->progress.mode == PROGRESS_ARMED && !lane_shm_sleep(l))
		lane_thread_request(l, LANE_REQ_RINGS);
}

static void watch_again(struct lane *l, rocemu_ns_t now, bool stalled) REQUIRES(l);
static void watch_again(struct lane *l, rocemu_ns_t now, bool stalled)
{
	progress_rearm(&l->progress, now, stalled);
	lane_thread_guard(l);
	watch_or_retry(l);
	rest(l);
	if (l->unsettled)
		lane_settle(l, now);
	if (l->next_due < l->thread.armed)
		lane_thread_arm(l, l->next_due);
	/* Send what a poll left to the guard, which is off now. */
	if (l->delayed_ack.held && l->ack_due == ROCEMU_NEVER)
		lane_drive_all(l, now);
}

/* ---- callbacks ---- */

static void drain_fd(int fd)
{
	uint64_t expirations;

	if (read(fd, &expirations, sizeof(expirations)) < 0)
		return; /* set anew in between: nothing to take */
}

static uint64_t fetches(const struct lane *l) REQUIRES(l);
static uint64_t fetches(const struct lane *l)
{
	const struct rocemu_ep_stats *s = rocemu_ep_get_stats(l->ep);

	return s->reads_rcvd + s->atomics_rcvd;
}

static uint64_t events_raised(const struct lane *l) REQUIRES(l);
static uint64_t events_raised(const struct lane *l)
{
	return rocemu_ep_get_stats(l->ep)->cq_events;
}

/*
 * Receive and handle datagrams. s: NULL for the rings. @return datagrams; RX_BULK at least where a
 * READ or an atomic was answered: the requester may send the next one at once.
 */
static uint64_t serve(struct lane *l, struct lane_sock *s, rocemu_ns_t now) REQUIRES(l);
static uint64_t serve(struct lane *l, struct lane_sock *s, rocemu_ns_t now)
{
	const uint64_t datagrams = l->stats->rx_datagrams, fetched = fetches(l);
	const uint64_t *const sent = &rocemu_ep_get_stats(l->ep)->tx_bytes, before = *sent;
	uint64_t n, bytes;

	if (!(s ? lane_rx_sock(l, s, now) : lane_rx_rings(l, now)))
		return 0;
	lane_drive_received(l, now);
	bytes = *sent - before;
	l->thread.peer_free = now;
	if (bytes >= PEER_BUSY_BYTES)
		l->thread.peer_free =
			lane_now() + MIN(bytes / PEER_BYTES_PER_NS, (uint64_t)BULK_BUSY_NS);
	n = l->stats->rx_datagrams - datagrams;
	return fetches(l) == fetched ? n : MAX(n, (uint64_t)RX_BULK);
}

/* 0 if then is yet to come. */
static uint64_t time_since(rocemu_ns_t now, rocemu_ns_t then)
{
	return now > then ? now - then : 0;
}

/*
 * A bulk transfer continues: its next burst comes in less time than it takes to sleep and be woken,
 * which on a virtual machine is longer than to receive and acknowledge the burst, and the sender's
 * window would run out meanwhile. So poll for it, for a bounded time after the last packet: always
 * within a message; after one only if that found packets recently, because it delays a program that
 * spins on memory on the same core. The same for READs and atomics, whose answers peers wait for.
 * A peer first receives what was sent to it: that time does not count. waited: for the first burst.
 */
static void serve_bulk(struct lane *l, struct lane_sock *s, uint64_t waited)
{
	struct spin *spin = &l->thread.bulk;
	rocemu_ns_t now = lane_now(), last = l->thread.peer_free;
	const rocemu_ns_t end = now + BULK_TURN_NS;
	bool pays, mid;
	unsigned found = 0; /* after a message had ended */

	lane_lock(l);
	mid = l->rx.mid_message;
	lane_unlock(l);
	spin_waited(spin, waited < BULK_SPIN_NS ? waited : SPIN_NEVER, false);
	pays = spin_pays(spin);
	while ((mid || pays) && now < end && time_since(now, last) < BULK_SPIN_NS) {
		lane_lock(l);
		if (serve(l, s, now)) {
			if (!mid) {
				spin_waited(spin, time_since(now, last), true);
				found++;
			}
			mid = l->rx.mid_message;
			last = l->thread.peer_free;
		}
		lane_unlock(l);
		now = lane_now();
	}
	/* Every stream ends: polling was in vain if it ended at once. */
	if (!mid && pays && time_since(now, last) >= BULK_SPIN_NS && found < BULK_BURSTS)
		spin_waited(spin, SPIN_NEVER, true);
	l->thread.bulk_served = last;
}

/*
 * The thread raised completion events: a program sleeps in poll(), or in a way that is not
 * ibv_get_cq_event()'s own. If such events follow each other quickly, poll for the next packet:
 * then it costs one wakeup, the program's, and not two. While both ends sleep, a round trip has
 * four wakeups: so a wait of twice the time that is polled counts as short.
 */
static void spin_for_event(struct lane *l, rocemu_ns_t now)
{
	struct lane_thread *t = &l->thread;

	spin_waited(&t->events, time_since(now, t->event_at) / 2, t->event_spun);
	t->event_at = now;
	t->event_spun = spin_pays(&t->events);
	if (t->event_spun)
		loop_spin(&t->loop, SPIN_WAIT_NS);
}

/* Packets in a socket, or in rings (NULL), if there are any. @return there were. */
static bool serve_and_unlock(struct lane *l, struct lane_sock *s) RELEASE(l);
HOT static bool serve_and_unlock(struct lane *l, struct lane_sock *s)
{
	const rocemu_ns_t now = lane_now();
	const bool spun = lane_is_spun(l, now);
	uint64_t events = events_raised(l), datagrams;

	datagrams = serve(l, s, now);
	events = events_raised(l) - events;
	if (datagrams && !spun && !lane_poller_is_displaced(l))
		progress_polls_end(&l->progress);
	/* The first packet in a long time: callers poll it from now on. */
	if (s && s->hot && l->progress.mode == PROGRESS_POLLED)
		loop_unwatch(&l->thread.loop, &s->io);
	lane_unlock(l);
	if (datagrams >= RX_BULK && !spun)
		serve_bulk(l, s, time_since(now, l->thread.bulk_served));
	else if (events && !spun)
		spin_for_event(l, now);
	return datagrams;
}

/* The thread was woken for packets. */
static void serve_woken(struct lane *l, struct lane_sock *s)
{
	lane_lock(l);
	l->stats->thread_wakeups += !loop_spins(&l->thread.loop);
	serve_and_unlock(l, s);
}

/* The only socket with traffic; NULL: none or several, callers' or rings. */
static struct lane_sock *only_hot(const struct lane *l) REQUIRES(l);
static struct lane_sock *only_hot(const struct lane *l)
{
	struct lane_sock *hot = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < l->nsocks; i++)
		if (l->socks[i]->hot) {
			hot = l->socks[i];
			n++;
		}
	return n == 1 && l->progress.mode == PROGRESS_ARMED && !l->shm ? hot : NULL;
}

/* Instead of epoll_wait(): a receive finds the packet with one call less. */
static bool look(struct loop *loop)
{
	struct lane *l = loop->data;
	struct lane_sock *s;

	if (!lane_trylock(l))
		return false;
	s = only_hot(l);
	if (s)
		return serve_and_unlock(l, s);
	lane_unlock(l);
	return false;
}

static void on_socket(struct loop_io *io)
{
	struct lane_sock *s = io->data;

	serve_woken(s->lane, s);
}

static void serve_rings(struct lane *l)
{
	serve_woken(l, NULL);
	lane_lock(l);
	rest(l);
	lane_unlock(l);
}

static void on_ring(struct loop_io *io)
{
	struct shm_rx *r = io->data;
	struct lane *l = r->lane;
	const bool alive = lane_shm_woken(r);
	rocemu_ns_t now;

	serve_rings(l);
	if (alive)
		return;
	lane_lock(l);
	now = lane_now();
	lane_shm_end(l, r, now);
	lane_drive(l, now);
	lane_unlock(l);
}

/* What does the poller do? Without the lock, for which it might wait. */
static enum progress_poller look_at_poller(struct lane *l)
{
	const rocemu_ns_t now = lane_now();
	const uint64_t active = atomic_load_explicit(&l->last_active, memory_order_relaxed);
	struct poller p;
	bool waits;

	if (time_since(now, active) < PROGRESS_GUARD_NS / 2 || !lane_trylock(l))
		return PROGRESS_POSTS;
	p = l->thread.poller;
	lane_unlock(l);
	waits = poller_waits(&p, now);
	lane_lock(l);
	if (l->thread.poller.at_ns < now)
		l->thread.poller = p;
	lane_unlock(l);
	return waits ? PROGRESS_WAITS : PROGRESS_AWAY;
}

static void on_guard(struct loop_io *io)
{
	struct lane *l = io->data;
	const enum progress_poller poller = look_at_poller(l);
	rocemu_ns_t now;
	bool received;

	drain_fd(l->thread.guard_fd);
	lane_lock(l);
	now = lane_now();
	if (l->progress.mode == PROGRESS_POLLED && now >= l->progress.guard) {
		received = lane_rx_hot(l, now);
		lane_drive_all(l, now);
		if (progress_guard(&l->progress, now, poller)) {
			lane_thread_guard(l);
		} else {
			l->stats->stalls += received;
			watch_again(l, now, received);
		}
	}
	lane_unlock(l);
}

static void on_timer(struct loop_io *io)
{
	struct lane *l = io->data;

	drain_fd(l->thread.timer_fd);
	lane_lock(l);
	l->stats->thread_wakeups++;
	l->thread.armed = ROCEMU_NEVER;
	gather_timer(&l->gather);
	delayed_ack_timer(&l->delayed_ack);
	lane_drive(l, lane_now());
	lane_unlock(l);
}

static void on_forward(struct loop_io *io)
{
	struct lane *l = io->data;
	rocemu_ns_t now;

	lane_lock(l);
	now = lane_now();
	for (unsigned i = 0; i < FORWARD_ROUNDS && lane_rx_forwarded(l, now); i++)
		if (l->shm)
			lane_shm_take_offer(l, on_ring);
	listen_or_retry(l);
	lane_drive(l, now);
	lane_unlock(l);
}

static void on_wake(struct loop *loop)
{
	struct lane *l = loop->data;
	unsigned requests;

	requests = atomic_exchange_explicit(&l->thread.requests, 0, memory_order_acq_rel);
	if (requests & LANE_REQ_STOP) {
		loop_stop(loop);
		return;
	}
	agent_watch_woken(l->watch);
	if (!requests)
		return;
	lane_lock(l);
	if (requests & LANE_REQ_SOCKS) {
		lane_sock_reap(l);
		watch_or_retry(l);
	}
	if (l->progress.mode == PROGRESS_ARMED && (requests & LANE_REQ_STOP_WATCHING))
		stop_watching(l);
	if (l->progress.mode == PROGRESS_POLLED && (requests & LANE_REQ_WATCH))
		watch_again(l, lane_now(), false);
	if (requests & LANE_REQ_RINGS) {
		lane_shm_offer(l);
		lane_shm_reap(l);
	}
	lane_unlock(l);
	if (requests & LANE_REQ_RINGS)
		serve_rings(l);
	if (requests & LANE_REQ_RCVBUFS)
		rcvbuf_query_start(&l->thread.rcvbuf_query);
}

/* ---- the thread ---- */

/* As struct sched_attr, which not every libc declares. */
struct sched_attr_v0 {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/*
 * A thread that is woken for a packet should run at once. These settings are optional; nothing
 * depends on them.
 */
static void request_short_slice(void)
{
	struct sched_attr_v0 attr = {
		.size = sizeof(attr),
		.policy = SCHED_NORMAL,
		.nice = getpriority(PRIO_PROCESS, 0),
		.runtime = THREAD_SLICE_NS,
	};

	if (syscall(SYS_sched_setattr, 0, &attr, 0) < 0)
		log_debug("no short scheduling slice for the lane's thread: %s", strerror(errno));
}

static void *thread_main(void *arg)
{
	struct lane *l = arg;
	int err;

	atomic_store_explicit(&l->thread.tid, (unsigned)gettid(), memory_order_relaxed);
	request_short_slice();
	err = loop_run(&l->thread.loop);
	if (err)
		log_error("%s: the lane's thread ends: %s; a file descriptor of the library was "
			  "closed",
			  l->device, strerror(-err));
	return NULL;
}

static int watch_fd(struct lane *l, struct loop_io *io, void (*readable)(struct loop_io *), int fd)
{
	loop_io_init(io, fd, readable, l);
	return fd >= 0 ? loop_watch(&l->thread.loop, io) : 0;
}

static int open_fds(struct lane *l)
{
	struct lane_thread *t = &l->thread;

	t->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (t->timer_fd < 0)
		return -errno;
	t->guard_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (t->guard_fd < 0)
		return -errno;
	return loop_init(&t->loop, on_wake, look, l);
}

/* Everything that the thread watches. */
static int watch_all(struct lane *l) REQUIRES(l);
static int watch_all(struct lane *l)
{
	struct lane_thread *t = &l->thread;
	int err = watch(l);

	if (!err)
		err = watch_fd(l, &t->timer_io, on_timer, t->timer_fd);
	if (!err)
		err = watch_fd(l, &t->guard_io, on_guard, t->guard_fd);
	if (!err && l->forward)
		err = watch_fd(l, &t->forward_io, on_forward, forward_fd(l->forward));
	return err;
}

int lane_thread_start(struct lane *l)
{
	struct lane_thread *t = &l->thread;
	int err = open_fds(l);

	if (err)
		return err;
	t->armed = ROCEMU_NEVER;
	spin_init(&t->bulk, BULK_BURSTS);
	spin_init(&t->events, EVENT_WAITS);
	loop_timer_init(&t->retry, on_retry, l);
	rcvbuf_query_init(&t->rcvbuf_query, l, &t->loop);
	err = watch_all(l);
	if (!err)
		err = agent_watch_new(&l->watch, &t->loop, l->agent);
	if (!err)
		err = thread_start(&t->id, "rocemu-lane", thread_main, l);
	t->running = !err;
	return err;
}

void lane_thread_stop(struct lane *l)
{
	struct lane_thread *t = &l->thread;

	if (t->running) {
		lane_thread_request(l, LANE_REQ_STOP);
		pthread_join(t->id, NULL);
		t->running = false;
	}
	agent_watch_free(l->watch);
	l->watch = NULL;
	rcvbuf_query_fini(&t->rcvbuf_query);
	loop_fini(&t->loop);
	if (t->timer_fd >= 0)
		close(t->timer_fd);
	if (t->guard_fd >= 0)
		close(t->guard_fd);
	t->timer_fd = t->guard_fd = -1;
}
