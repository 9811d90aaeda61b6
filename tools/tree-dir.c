/* SPDX-License-Identifier: BSD-2-Clause */
#include "tree-dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define NAME   "rocemu-paths-"
#define MEMORY "/dev/shm"

enum {
	HOST_LEN = 8,	/* hexadecimal digits */
	TRIES = 8,	/* others may sweep what is not finished */
	SWEEP_MAX = 64, /* trees: a run is not to wait for hundreds */
	DEPTH_MAX = 32,
};

/* ---- names ---- */

/** "HOST-"; "": not known, and nothing is swept. */
static const char *host(void)
{
	static char text[HOST_LEN + 2];
	FILE *f = *text ? NULL : fopen("/proc/sys/kernel/random/boot_id", "re");

	if (f) {
		if (fread(text, 1, HOST_LEN, f) == HOST_LEN &&
		    strspn(text, "0123456789abcdef") == HOST_LEN)
			text[HOST_LEN] = '-';
		else
			*text = 0;
		fclose(f);
	}
	return text;
}

/* ---- removing ---- */

/* How much: what shows that there is no user goes last, in case this process is killed. */
enum what { BUT_USERS, ALL };

static bool shows_users(int dir, const char *name, unsigned depth)
{
	struct stat st;

	return (depth <= 1 && !strcmp(name, "users")) ||
	       (depth == 0 && !strcmp(name, "shared") &&
		fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode));
}

static bool remove_below(DIR *d, enum what what, unsigned depth);

/** Everything in a directory, which is closed. */
static void empty(int dir, enum what what, unsigned depth)
{
	DIR *d = fdopendir(dir);

	if (!d) {
		close(dir);
		return;
	}
	/* readdir() may skip something where something was removed. */
	while (remove_below(d, what, depth))
		rewinddir(d);
	closedir(d);
}

/** @return is it removed? */
static bool remove_entry(int dir, const char *name, enum what what, unsigned depth)
{
	int fd;

	if (what == BUT_USERS && shows_users(dir, name, depth))
		return false;
	if (unlinkat(dir, name, 0) == 0)
		return true;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		empty(fd, what, depth + 1);
	return unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

/** @return was anything removed? */
static bool remove_below(DIR *d, enum what what, unsigned depth)
{
	const struct dirent *e;
	bool any = false;

	while (depth < DEPTH_MAX && (e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			any |= remove_entry(dirfd(d), e->d_name, what, depth);
	return any;
}

static void remove_all(int dir)
{
	for (int what = BUT_USERS; what <= ALL; what++) {
		const int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (copy >= 0)
			empty(copy, (enum what)what, 0);
	}
}

void tree_dir_remove(const char *path)
{
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0) {
		remove_all(fd);
		close(fd);
	}
	rmdir(path);
}

void tree_dirs_remove(struct tree_dirs *d)
{
	if (d->root[0])
		tree_dir_remove(d->root);
	if (d->shared[0])
		tree_dir_remove(d->shared);
	d->root[0] = d->shared[0] = 0;
}

/* ---- making ---- */

void tree_dirs_close(struct tree_dirs *d)
{
	if (d->users >= 0)
		close(d->users);
	if (d->end >= 0)
		close(d->end);
	d->users = d->end = -1;
}

static int make_one(char *path, size_t len, const char *place)
{
	if (snprintf(path, len, "%s/" NAME "%sXXXXXX", place, host()) >= (int)len) {
		*path = 0;
		return -ENAMETOOLONG;
	}
	if (!mkdtemp(path)) {
		*path = 0;
		return -errno;
	}
	/* A program may be started as another user. */
	return chmod(path, 0755) < 0 ? -errno : 0;
}

/** The directory in memory: a disk's page that is being written back would stop the data path. */
static void make_in_memory(struct tree_dirs *d)
{
	enum { TMPFS_MAGIC = 0x01021994 };
	struct statfs fs;

	if (statfs(d->root, &fs) < 0 || fs.f_type == TMPFS_MAGIC ||
	    make_one(d->shared, sizeof(d->shared), MEMORY) == 0)
		return;
	if (d->shared[0])
		rmdir(d->shared);
	d->shared[0] = 0;
}

/** The FIFO in dir, with this process as its user. -ENOENT, -EWOULDBLOCK: another process sweeps.
 */
static int make_users(struct tree_dirs *d, const char *dir)
{
	char path[sizeof(d->root) + 32];
	struct stat st;

	snprintf(path, sizeof(path), "%s/users", dir);
	if (mkfifo(path, 0600) < 0)
		return -errno;
	/* A writer finds a reader, or fails. */
	d->end = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (d->end < 0 || flock(d->end, LOCK_SH | LOCK_NB) < 0)
		return -errno;
	d->users = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (d->users < 0 || flock(d->users, LOCK_SH | LOCK_NB) < 0 || fstat(d->users, &st) < 0)
		return -errno;
	return st.st_nlink ? 0 : -ENOENT;
}

/** In an order that sweepers rely on: what has no FIFO yet is empty. */
static int make_all(struct tree_dirs *d, const char *place)
{
	char inside[sizeof(d->root) + 16];
	int err = make_one(d->root, sizeof(d->root), place);

	if (err)
		return err;
	snprintf(inside, sizeof(inside), "%s/shared", d->root);
	make_in_memory(d);
	if (!d->shared[0] && mkdir(inside, 0755) < 0)
		return -errno;
	err = make_users(d, d->shared[0] ? d->shared : inside);
	if (!err && d->shared[0] && symlink(d->shared, inside) < 0)
		err = -errno;
	return err;
}

int tree_dirs_make(struct tree_dirs *d, const char *place)
{
	int err = -ENOENT;

	for (unsigned i = 0; i < TRIES && (err == -ENOENT || err == -EWOULDBLOCK); i++) {
		*d = (struct tree_dirs){.users = -1, .end = -1};
		err = make_all(d, place);
		if (err) {
			tree_dirs_remove(d);
			tree_dirs_close(d);
		}
	}
	return err;
}

/* ---- sweeping ---- */

/** Is it this user's, and can no other user write to it? */
static bool is_own(int fd, mode_t type)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & S_IFMT) == type &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/** Of a directory without a FIFO: does its link lead to one that was swept already? */
static bool is_half_swept(int dir)
{
	struct stat st;

	return fstatat(dir, "shared", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) &&
	       fstatat(dir, "shared", &st, 0) < 0 && errno == ENOENT;
}

/** @return has it no user, and will it get none? Then *lock is held, or -1: none is needed. */
static bool is_dead(int dir, int *lock)
{
	const int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;

	*lock = openat(dir, "users", flags | O_NOFOLLOW);
	if (*lock < 0 && errno == ENOENT)
		*lock = openat(dir, "shared/users", flags);
	if (*lock < 0)
		return errno == ENOENT && is_half_swept(dir);
	return is_own(*lock, S_IFIFO) && flock(*lock, LOCK_EX | LOCK_NB) == 0;
}

/** @return is it removed? */
static bool sweep_one(int place, const char *name)
{
	const int dir = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool removed = false;
	int lock = -1;

	if (dir < 0)
		return false;
	if (is_own(dir, S_IFDIR)) {
		if (is_dead(dir, &lock))
			remove_all(dir);
		else if (lock < 0)
			unlinkat(dir, "shared", AT_REMOVEDIR); /* its maker was killed: empty */
		/* Fails where there is something in it. */
		removed = unlinkat(place, name, AT_REMOVEDIR) == 0;
	}
	if (lock >= 0)
		close(lock);
	close(dir);
	return removed;
}

void tree_dirs_sweep(const char *place)
{
	char prefix[sizeof(NAME) + HOST_LEN + 1];
	const struct dirent *e;
	unsigned n = 0;
	DIR *d;

	if (!*host())
		return;
	snprintf(prefix, sizeof(prefix), NAME "%s", host());
	d = opendir(place);
	while (d && n < SWEEP_MAX && (e = readdir(d)) != NULL)
		if (!strncmp(e->d_name, prefix, strlen(prefix)))
			n += sweep_one(dirfd(d), e->d_name);
	if (d)
		closedir(d);
}
