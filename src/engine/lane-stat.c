/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a lane's part of an answer to `rocemu stat`. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/lane-internal.h"

enum { BATCH = 32 /* QPs under the lock at once */ };

#define WAIT_NS 250000000u /* for a lane's lock, each time */

/* Waits for the lock: repeated trylock would never get it from a polling thread. */
static bool take(struct lane *l, const atomic_bool *stop) TRY_ACQUIRE(true, l);
static bool take(struct lane *l, const atomic_bool *stop)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += WAIT_NS;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	return !atomic_load(stop) && lane_lock_until(l, &end);
}

static void name_of_thread(uint32_t tid, char name[static STAT_NAME])
{
	char path[48];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%u/comm", (unsigned)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, name, STAT_NAME - 1);
	if (fd >= 0)
		close(fd);
	name[n > 0 ? n : 0] = 0;
	name[strcspn(name, "\n")] = 0;
}

static void note_busy(const struct lane *l, struct stat_lane *s)
{
	s->busy = 1;
	s->busy_tid = lane_lock_owner(l);
	if (s->busy_tid)
		name_of_thread(s->busy_tid, s->holder);
}

static void copy_counts(struct lane *l, struct stat_lane *s) REQUIRES(l);
static void copy_counts(struct lane *l, struct stat_lane *s)
{
	s->slot = l->slot;
	s->counts.ep = *rocemu_ep_get_stats(l->ep);
	s->counts.lane = *l->stats;
	for (unsigned i = 0; i < ROCEMU_OBJECT_COUNT; i++)
		s->objects[i] = rocemu_ep_object_count(l->ep, (enum rocemu_object)i);
}

/**
 * The counts and, with the first of them, QPs until there are no more. s: not in b, which moves.
 * @return 0, -EBUSY or -ENOMEM.
 */
static int add(struct lane *l, struct stat_buf *b, struct stat_lane *s, const atomic_bool *stop)
{
	uint32_t next = 0;

	do {
		struct rocemu_qp_report *r = stat_buf_reserve(b, BATCH * sizeof(*r));
		unsigned got;

		if (!r)
			return -ENOMEM;
		if (!take(l, stop))
			return -EBUSY;
		if (!next)
			copy_counts(l, s);
		got = rocemu_ep_report(l->ep, lane_now(), &next, r, BATCH);
		lane_unlock(l);
		b->len += got * sizeof(*r);
		s->nqps += got;
	} while (next != UINT32_MAX);
	return 0;
}

int lane_stat(struct lane *l, struct stat_buf *b, const atomic_bool *stop)
{
	const size_t at = b->len;
	struct stat_lane s = {0};
	int err;

	if (!stat_buf_reserve(b, sizeof(s)))
		return -ENOMEM;
	b->len += sizeof(s);
	memcpy(s.device, l->device, sizeof(s.device));
	err = add(l, b, &s, stop);
	if (err == -EBUSY) {
		note_busy(l, &s);
		err = 0;
	}
	memcpy(b->data + at, &s, sizeof(s));
	return err;
}
