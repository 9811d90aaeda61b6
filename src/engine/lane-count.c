/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Selects the memory of a lane's counters: the device's file of counters under `rocemu run`, else
 * private memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mutex.h"
#include "engine/lane-internal.h"
#include "engine/portcount.h"

static off_t shown_offset(const struct lane *l)
{
	return (off_t)(l->count.row - l->count.file->row) * PORTCOUNT_SHOWN_STRIDE;
}

/** The row's place in the file of endpoints' state becomes a hole again. */
static int clear_shown(const struct lane *l, int fd)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, shown_offset(l),
			 PORTCOUNT_SHOWN_STRIDE);
}

static int open_shown(const struct lane *l, const char *root)
{
	char *path = malloc(PATH_MAX); /* too large for small stacks */
	int fd = -1;

	if (path && portcount_shown_path(path, PATH_MAX, root, l->device))
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	free(path);
	return fd;
}

/** Have memory behind a part of it: without, an access is a SIGBUS where the file system is full.
 */
static bool reserve_shown(const struct lane *l, int fd, size_t at, size_t len)
{
	return countfile_reserve(fd, shown_offset(l) + (off_t)at, len) == 0;
}

/** Without it the lane works, and is in no list of resources. */
static void show(struct lane *l, const char *root)
{
	const int fd = open_shown(l, root);
	void *at = MAP_FAILED;
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size >= shown_offset(l) + PORTCOUNT_SHOWN_STRIDE && clear_shown(l, fd) == 0 &&
	    reserve_shown(l, fd, 0, sizeof(l->count.shown->objects)))
		at = mmap(NULL, sizeof(*l->count.shown), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			  shown_offset(l));
	close(fd);
	if (at == MAP_FAILED)
		return;
	l->count.shown = at;
	rocemu_ep_show(l->ep, l->count.shown);
}

static void unshow(struct lane *l)
{
	const char *root = secure_getenv("ROCEMU_PATHS");
	int fd;

	if (!l->count.shown)
		return;
	munmap(l->count.shown, sizeof(*l->count.shown));
	l->count.shown = NULL;
	/* Release its memory; readers ignore a row without an owner anyway. */
	fd = root ? open_shown(l, root) : -1;
	if (fd >= 0) {
		clear_shown(l, fd);
		close(fd);
	}
}

void lane_show_qp(struct lane *l, uint32_t qpn)
{
	UNCANCELLED;
	const size_t part = qpn % (1 << ROCEMU_QPN_INDEX_BITS) / ROCEMU_SHOWN_PART;
	const size_t len = ROCEMU_SHOWN_PART * sizeof(struct rocemu_qp_info);
	const char *root = secure_getenv("ROCEMU_PATHS");
	int fd;

	if (!l->count.shown || rocemu_ep_shows_part(l->ep, qpn))
		return;
	fd = root ? open_shown(l, root) : -1;
	if (fd < 0)
		return;
	if (reserve_shown(l, fd, offsetof(struct rocemu_ep_shown, qp) + part * len, len))
		rocemu_ep_show_part(l->ep, qpn);
	close(fd);
}

/** A row of the device's file. @return false: there is none. */
static bool claim_row(struct lane *l, const char *root)
{
	char *path = malloc(PATH_MAX);
	int err = -ENAMETOOLONG;

	if (path && portcount_path(path, PATH_MAX, root, l->device))
		err = countfile_join(path, &l->count.file, &l->count.row);
	if (err < 0)
		log_debug("%s: not counted in %s: %s", l->device, path ? path : root,
			  strerror(-err));
	free(path);
	return err == 0;
}

void lane_count_start(struct lane *l)
{
	const char *root = secure_getenv("ROCEMU_PATHS");
	struct port_counts *counts;
	UNCANCELLED;

	if (l->count.row || !root || root[0] != '/' || !claim_row(l, root))
		return;
	counts = (struct port_counts *)(void *)l->count.row->live;
	rocemu_ep_count_in(l->ep, &counts->ep);
	counts->lane = *l->stats;
	l->stats = &counts->lane;
	show(l, root);
}

void lane_count_stop(struct lane *l)
{
	UNCANCELLED;

	if (!l->count.row)
		return;
	unshow(l);
	l->own_stats = *l->stats;
	l->stats = &l->own_stats;
	countfile_release(l->count.row);
	countfile_unmap(l->count.file);
	l->count.row = NULL;
	l->count.file = NULL;
}

void lane_count_disown(struct lane *l)
{
	if (!l->count.row)
		return;
	rocemu_ep_show(l->ep, NULL);
	rocemu_ep_count_in(l->ep, NULL);
	l->own_stats = *l->stats;
	l->stats = &l->own_stats;
	if (l->count.shown)
		munmap(l->count.shown, sizeof(*l->count.shown));
	countfile_unmap(l->count.file);
	l->count = (struct lane_count){0};
}
