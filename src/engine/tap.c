/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/forks.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/trace.h"
#include "base/util.h"
#include "engine/tap-trace.h"
#include "wire/capture.h"

enum {
	TAP_PATH_LEN = 4096,
	SEEN_SETS = 4096, /* a power of two */
	SEEN_WAYS = 4,
};

/*
 * A packet, and how often it was sent without having been received, or received without having been
 * sent (negative).
 */
struct seen {
	uint64_t key; /* of its length, its ICRC, which covers all of it, destination QPN and PSN */
	int32_t open;
};

struct tap {
	unsigned refs;
	int lock_fd;		       /* holds the file's flock(): owned; -1: no file */
	struct capture_writer *writer; /* owned; NULL after a write error, and without a file */
	bool dirty;
	uint64_t last_ns; /* of the packet written last */
	char path[TAP_PATH_LEN];
	struct seen seen[SEEN_SETS][SEEN_WAYS]; /* by the ICRC, the last one of a set first */
};

/* Guards the process's tap and everything in it. A leaf: taken under a lane's lock, nothing taken
 * under it. */
static struct mutex tap_lock = MUTEX_INITIALIZER;
static struct tap *the_tap;

/* "%p" becomes the process ID, "%%" a percent sign. */
static int expand_path(const char *spec, char *path, size_t size)
{
	size_t n = 0;

	while (*spec && n < size) {
		if (spec[0] == '%' && spec[1] == 'p') {
			n += (size_t)snprintf(path + n, size - n, "%ld", (long)getpid());
			spec += 2;
			continue;
		}
		if (spec[0] == '%' && spec[1] == '%')
			spec++;
		path[n++] = *spec++;
	}
	if (n >= size)
		return -ENAMETOOLONG;
	path[n] = '\0';
	return 0;
}

/*
 * Claim a file: two processes writing one file would destroy both captures. Not truncated here:
 * another process may use it. @return a file descriptor that holds the lock, -EWOULDBLOCK when
 * another process has it, other -errno.
 */
static int claim(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600), err;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int tap_open(struct tap *t, const char *spec, char *errbuf, size_t errlen)
{
	int err = expand_path(spec, t->path, sizeof(t->path));
	size_t n = strlen(t->path);

	t->lock_fd = err ? err : claim(t->path);
	if (t->lock_fd == -EWOULDBLOCK) {
		if ((size_t)snprintf(t->path + n, sizeof(t->path) - n, ".%ld", (long)getpid()) >=
		    sizeof(t->path) - n)
			t->lock_fd = -ENAMETOOLONG;
		else
			t->lock_fd = claim(t->path);
		log_info("capture: another process writes there, this one's goes to %s", t->path);
	}
	if (t->lock_fd < 0) {
		snprintf(errbuf, errlen, "capture: cannot write \"%s\": %s", err ? spec : t->path,
			 strerror(-t->lock_fd));
		return t->lock_fd;
	}
	err = capture_writer_open(&t->writer, t->path, errbuf, errlen);
	if (err)
		close(t->lock_fd);
	return err;
}

int tap_get(struct tap **out, char *errbuf, size_t errlen)
{
	const char *spec = secure_getenv("ROCEMU_PCAP");
	int err = 0;

	*out = NULL;
	trace_start();
	if (!(spec && *spec) && !trace_on())
		return 0;
	mutex_lock(&tap_lock);
	if (!the_tap) {
		struct tap *t = calloc(1, sizeof(*t));

		err = t ? 0 : -ENOMEM;
		if (!t)
			snprintf(errbuf, errlen, "capture: out of memory");
		else if (spec && *spec)
			err = tap_open(t, spec, errbuf, errlen);
		else
			t->lock_fd = -1;
		if (err)
			free(t);
		else
			the_tap = t;
	}
	if (!err) {
		the_tap->refs++;
		*out = the_tap;
	}
	mutex_unlock(&tap_lock);
	return err;
}

/* Lock held. A capture that cannot be written does not stop traffic. */
static void give_up(struct tap *t, int err)
{
	char limit[LIMIT_TEXT_LEN];

	log_error("capture: writing \"%s\": %s; capturing stopped%s", t->path, strerror(-err),
		  limit_text(err, limit));
	capture_writer_close(t->writer);
	t->writer = NULL;
}

static void flush_locked(struct tap *t)
{
	int err;

	if (!t->writer || !t->dirty)
		return;
	t->dirty = false;
	err = capture_flush(t->writer);
	if (err < 0)
		give_up(t, err);
}

void tap_put(struct tap *t)
{
	if (!t)
		return;
	mutex_lock(&tap_lock);
	if (--t->refs == 0) {
		flush_locked(t);
		capture_writer_close(t->writer);
		if (t->lock_fd >= 0)
			close(t->lock_fd);
		if (the_tap == t)
			the_tap = NULL;
		free(t);
	}
	mutex_unlock(&tap_lock);
}

uint64_t tap_now(void)
{
	return clock_ns(CLOCK_REALTIME);
}

/* Captures have CLOCK_REALTIME. */
static uint64_t in_timeline(uint64_t real_ns)
{
	const uint64_t real = tap_now(), now = trace_now();

	return real_ns <= real && real - real_ns < now ? now - (real - real_ns) : now;
}

static uint64_t packet_key(const struct iovec *iov, unsigned niov)
{
	uint8_t tail[ROCEMU_ICRC_LEN] = {0};
	uint64_t qpn_psn = 0;
	uint32_t icrc;
	size_t len = 0;

	/* The last bytes may be in several pieces: push each piece's through. */
	for (unsigned i = 0; i < niov; i++) {
		size_t n = MIN(iov[i].iov_len, sizeof(tail));

		memmove(tail, tail + n, sizeof(tail) - n);
		memcpy(tail + sizeof(tail) - n, (uint8_t *)iov[i].iov_base + iov[i].iov_len - n, n);
		len += iov[i].iov_len;
	}
	memcpy(&icrc, tail, sizeof(icrc));
	/* Two peers' packets often have one length, and in a long capture some ICRCs meet: then the
	 * QPNs differ. */
	if (niov && iov[0].iov_len >= ROCEMU_BTH_LEN)
		memcpy(&qpn_psn,
		       (const uint8_t *)iov[0].iov_base + ROCEMU_BTH_LEN - sizeof(qpn_psn),
		       sizeof(qpn_psn));
	return ((uint64_t)len << 32 | icrc) ^ qpn_psn * 0x9e3779b97f4a7c15u;
}

/*
 * Lock held. What a process sends to itself comes here as sent and as received, in either order if
 * two lanes do it. @return whether this is the second of the two.
 */
static bool seen_before(struct tap *t, bool sent, uint64_t key)
{
	struct seen *set = t->seen[key % SEEN_SETS];
	unsigned i = 0;

	while (i < SEEN_WAYS - 1 && set[i].key != key)
		i++;
	if (set[i].key != key) {
		memmove(set + 1, set, (SEEN_WAYS - 1) * sizeof(*set));
		set[i = 0] = (struct seen){.key = key};
	}
	set[i].open += sent ? 1 : -1;
	return sent ? set[i].open <= 0 : set[i].open >= 0;
}

/*
 * Lock held. Timestamps in the file do not go back, unless the clock was set: a lane that sends
 * takes the time before the system call, and another lane may write meanwhile.
 */
static uint64_t in_order(struct tap *t, uint64_t when_ns)
{
	enum { CLOCK_SET_NS = 100000000 };

	if (when_ns < t->last_ns && t->last_ns - when_ns < CLOCK_SET_NS)
		return t->last_ns;
	t->last_ns = when_ns;
	return when_ns;
}

void tap_write(struct tap *t, const struct tap_addr *a, const struct iovec *iov, unsigned niov)
{
	const struct capture_pkt pkt = {
		.ip =
			{
				.src = a->src,
				.dst = a->dst,
				.sport = a->sport,
				.dport = ROCEMU_UDP_PORT,
				.ip_id = a->ip_id,
				.ip_frag = IP_FLAG_DF,
				.tclass = a->tclass,
				.hop_limit = a->hop_limit,
				.flow_label = a->flow_label,
			},
		.iov = iov,
		.niov = niov,
	};
	int err;

	if (trace_on())
		tap_trace(a, in_timeline(a->when_ns), iov, niov);
	mutex_lock(&tap_lock);
	if (t->writer && !seen_before(t, a->sent, packet_key(iov, niov))) {
		err = capture_write(t->writer, in_order(t, a->when_ns), &pkt);
		t->dirty = true;
		if (err < 0 && err != -EMSGSIZE)
			give_up(t, err);
	}
	mutex_unlock(&tap_lock);
}

bool tap_works_at_exit(void)
{
	return mutex_works_at_exit(&tap_lock);
}

void tap_flush(struct tap *t)
{
	mutex_lock(&tap_lock);
	flush_locked(t);
	mutex_unlock(&tap_lock);
}

static void fork_prepare(void)
{
	mutex_lock(&tap_lock);
	/* Otherwise the child would write its copy of the buffer again when it exits. */
	if (the_tap)
		flush_locked(the_tap);
}

static void fork_parent(void)
{
	mutex_unlock(&tap_lock);
}

/* The parent's file is not touched. */
static void fork_child(void)
{
	/* The writer is leaked: closing it is not safe after fork() in a process with threads. */
	if (the_tap && the_tap->lock_fd >= 0)
		close(the_tap->lock_fd);
	the_tap = NULL;
	mutex_unlock(&tap_lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {fork_prepare, fork_parent, fork_child};

	forks_add(FORK_TAP, &handlers);
}
