/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/netmon.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/forks.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/syssocket.h"
#include "base/thread.h"
#include "base/util.h"

enum {
	NEWS_BYTES = 16384,
	PENDING_MAX = 128,    /* events that are passed on together */
	DATAGRAMS_MAX = 4096, /* of them */
	REPEAT_MS = 100,
};

/*
 * life: starting and ending the thread; taken before lock. lock: the list, and the listener being
 * called; not held during the call, which may take long.
 */
static struct {
	struct mutex life, lock;
	pthread_cond_t told;
	struct list listeners;		       /* guarded by lock */
	const struct netmon_listener *telling; /* guarded by lock */
	bool running;			       /* guarded by life, as are the following */
	const struct netmon_timer *timer;      /* borrowed until the process ends; NULL: none */
	pthread_t thread;
	int netlink_fd, wake_fd; /* owned; the thread's while it runs, as is the next */
	uint64_t due;		 /* when the timer expires */
	atomic_bool stopping;	 /* what wake_fd is readable for; else netmon_wake() */
	atomic_bool repeat;	 /* see netmon_repeat() */
} mon = {
	.life = MUTEX_INITIALIZER,
	.lock = MUTEX_INITIALIZER,
	.told = PTHREAD_COND_INITIALIZER,
	.listeners = {&mon.listeners, &mon.listeners},
	.netlink_fd = -1,
	.wake_fd = -1,
};

/* ---- notifications ---- */

static void notify_all(const struct netmon_event *event)
{
	mutex_lock(&mon.lock);
	list_for_each (it, &mon.listeners) {
		const struct netmon_listener *l = list_entry(it, struct netmon_listener, node);

		if (l->ifindex && event->ifindex && l->ifindex != event->ifindex)
			continue;
		mon.telling = l;
		mutex_unlock(&mon.lock);
		l->notify(l->user, event);
		mutex_lock(&mon.lock);
		mon.telling = NULL;
		pthread_cond_broadcast(&mon.told);
	}
	mutex_unlock(&mon.lock);
}

/** Decode a message of the kernel. @return false: it is no event for listeners. */
static bool read_event(struct nlmsghdr *h, struct netmon_event *event)
{
	const struct ifinfomsg *link = NLMSG_DATA(h);
	const struct ifaddrmsg *addr = NLMSG_DATA(h);

	switch (h->nlmsg_type) {
	case RTM_NEWLINK:
	case RTM_DELLINK:
		/* Bridges send messages of the same type about their ports. */
		if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*link)) || link->ifi_family != AF_UNSPEC)
			return false;
		*event = (struct netmon_event){
			.what = h->nlmsg_type == RTM_DELLINK ? NETMON_GONE : NETMON_LINK,
			.ifindex = (unsigned)link->ifi_index,
			.active = (link->ifi_flags & IFF_UP) && (link->ifi_flags & IFF_RUNNING),
		};
		return true;
	case RTM_NEWADDR:
	case RTM_DELADDR:
		if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*addr)))
			return false;
		*event =
			(struct netmon_event){.what = NETMON_ADDRESSES, .ifindex = addr->ifa_index};
		return true;
	default:
		return false;
	}
}

/** Events that were read and not yet passed on. */
struct pending {
	struct netmon_event event[PENDING_MAX];
	unsigned n;
};

/*
 * A listener reads the state anew at each event. An event that equals the last one of its
 * interface adds nothing while that one waits, so a thousand addresses that are added one after
 * another are read a few times, not a thousand times.
 */
static void add_event(struct pending *p, const struct netmon_event *event)
{
	for (unsigned i = p->n; i > 0; i--) {
		const struct netmon_event *e = &p->event[i - 1];

		if (e->ifindex != event->ifindex)
			continue;
		if (e->what == event->what && e->active == event->active)
			return;
		break;
	}
	p->event[p->n++] = *event;
}

/** Read one datagram. @return 1: more may be there, 0: there is none, or -ENOBUFS: some were lost.
 */
static int read_datagram(int fd, struct pending *p)
{
	/* Used by the thread alone; aligned as the kernel's structures require. */
	static _Alignas(struct nlmsghdr) char buf[NEWS_BYTES];
	struct netmon_event event;
	struct nlmsghdr *h;
	struct sockaddr_nl from = {0};
	socklen_t from_len = sizeof(from);
	ssize_t n =
		recvfrom(fd, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);

	if (n < 0)
		return errno == ENOBUFS || errno == ENOMEM ? -ENOBUFS : 0;
	if (from.nl_pid != 0) /* not the kernel */
		return 1;
	for (h = (void *)buf; n > 0 && NLMSG_OK(h, (size_t)n); h = NLMSG_NEXT(h, n)) {
		if (!read_event(h, &event))
			continue;
		if (p->n == PENDING_MAX)
			return -ENOBUFS;
		add_event(p, &event);
	}
	return 1;
}

/** Read what is there, up to a limit, and pass it on. */
static void read_messages(int fd)
{
	static struct pending p; /* the thread's */
	int more = 1;

	p.n = 0;
	for (unsigned i = 0; i < DATAGRAMS_MAX && more > 0 && p.n < PENDING_MAX; i++)
		more = read_datagram(fd, &p);
	for (unsigned i = 0; i < p.n; i++)
		notify_all(&p.event[i]);
	if (more < 0)
		notify_all(&(struct netmon_event){.what = NETMON_ANYTHING});
}

/* ---- the timer ---- */

static void expire(void)
{
	const uint64_t now = monotonic_ns();

	if (now >= mon.due && mon.timer->expire(now, &mon.due))
		notify_all(&(struct netmon_event){.what = NETMON_TIMER});
}

/* Another thread has a request for this one. @return false: the thread is to end. */
static bool woken(void)
{
	uint64_t count;

	if (read(mon.wake_fd, &count, sizeof(count)) < 0)
		log_debug("the watch over the network: spurious wakeup");
	/* Checked after the read, which may have consumed the request to end. */
	if (atomic_load(&mon.stopping))
		return false;
	notify_all(&(struct netmon_event){.what = NETMON_TIMER});
	return true;
}

/* How long poll() may sleep, in ms. */
static int until_due(void)
{
	const uint64_t now = monotonic_ns(), due = mon.due;
	const int most = atomic_load(&mon.repeat) ? REPEAT_MS : -1;

	if (due == UINT64_MAX || (most >= 0 && due > now + REPEAT_MS * UINT64_C(1000000)))
		return most;
	return due <= now ? 0 : (int)((due - now) / 1000000 + 1);
}

/* No event came for a while: retry what could not be read before. */
static void repeat(void)
{
	if (atomic_exchange(&mon.repeat, false))
		notify_all(&(struct netmon_event){.what = NETMON_ANYTHING});
}

static void *thread_main(void *arg)
{
	struct pollfd fds[] = {
		{.fd = mon.netlink_fd, .events = POLLIN},
		{.fd = mon.wake_fd, .events = POLLIN},
	};

	(void)arg;
	for (;;) {
		const int ready = poll(fds, ARRAY_LEN(fds), until_due());

		if (ready < 0) {
			/* No memory for the call: treated as no event. */
			fds[0].revents = fds[1].revents = 0;
			if (errno != EINTR && errno != ENOMEM && errno != EAGAIN)
				return NULL;
		}
		/* The program has closed them: they would be readable without end. */
		if ((fds[0].revents | fds[1].revents) & POLLNVAL)
			return NULL;
		if (fds[1].revents && !woken())
			return NULL;
		if (fds[0].revents)
			read_messages(fds[0].fd);
		if (ready == 0)
			repeat();
		expire();
	}
}

/* ---- the thread's life; all with mon.life held ---- */

static void close_fds(void)
{
	if (mon.netlink_fd >= 0)
		close(mon.netlink_fd);
	if (mon.wake_fd >= 0)
		close(mon.wake_fd);
	mon.netlink_fd = mon.wake_fd = -1;
}

static int open_fds(void)
{
	const struct sockaddr_nl groups = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};

	mon.netlink_fd = sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	mon.wake_fd = eventfd(0, EFD_CLOEXEC);
	if (mon.netlink_fd < 0 || mon.wake_fd < 0 ||
	    bind(mon.netlink_fd, (const struct sockaddr *)&groups, sizeof(groups)) < 0)
		return -errno;
	return 0;
}

static int start(void)
{
	int err = open_fds();

	mon.due = mon.timer ? mon.timer->start(monotonic_ns()) : UINT64_MAX;
	if (!err)
		err = thread_start(&mon.thread, "rocemu-net", thread_main, NULL);
	if (err)
		close_fds();
	if (err && mon.timer)
		mon.timer->stop();
	mon.running = !err;
	return err;
}

static void wake(void)
{
	const uint64_t one = 1;

	if (write(mon.wake_fd, &one, sizeof(one)) < 0)
		log_debug("the watch over the network is not woken: %s", strerror(errno));
}

static void stop(void)
{
	atomic_store(&mon.stopping, true);
	wake();
	pthread_join(mon.thread, NULL);
	atomic_store(&mon.stopping, false);
	atomic_store(&mon.repeat, false);
	mon.running = false;
	if (mon.timer)
		mon.timer->stop();
	close_fds();
}

/* ---- fork ---- */

/* A listener may be in a call: the child does not use its parent's listeners. */
static void fork_prepare(void)
{
	mutex_lock(&mon.life);
	mutex_lock(&mon.lock);
}

static void fork_parent(void)
{
	mutex_unlock(&mon.lock);
	mutex_unlock(&mon.life);
}

/* The child has no thread; its listeners' devices are the parent's. */
static void fork_child(void)
{
	list_for_each_safe (it, tmp, &mon.listeners)
		list_remove(it);
	mon.telling = NULL;
	mon.running = false;
	if (mon.timer)
		mon.timer->stop();
	close_fds();
	pthread_cond_init(&mon.told, NULL);
	mutex_unlock(&mon.lock);
	mutex_unlock(&mon.life);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {fork_prepare, fork_parent, fork_child};

	forks_add(FORK_NETMON, &handlers);
}

/* ---- listeners ---- */

void netmon_set_timer(const struct netmon_timer *timer)
{
	mutex_lock(&mon.life);
	if (!mon.running)
		mon.timer = timer;
	mutex_unlock(&mon.life);
}

void netmon_wake(void (*first)(void))
{
	mutex_lock(&mon.life);
	if (mon.running) {
		first();
		wake();
	}
	mutex_unlock(&mon.life);
}

void netmon_repeat(void)
{
	atomic_store(&mon.repeat, true);
}

int netmon_add(struct netmon_listener *l)
{
	int err = 0;

	list_init(&l->node);
	mutex_lock(&mon.life);
	if (!mon.running)
		err = start();
	if (!err) {
		mutex_lock(&mon.lock);
		list_append(&mon.listeners, &l->node);
		mutex_unlock(&mon.lock);
	}
	mutex_unlock(&mon.life);
	return err;
}

void netmon_remove(struct netmon_listener *l)
{
	bool last;

	mutex_lock(&mon.life);
	mutex_lock(&mon.lock);
	while (mon.telling == l)
		mutex_wait(&mon.lock, &mon.told);
	list_remove(&l->node);
	last = list_empty(&mon.listeners);
	mutex_unlock(&mon.lock);
	if (last && mon.running)
		stop();
	mutex_unlock(&mon.life);
}
