/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/countfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sigwrite.h"

/* Contains the layout's size, so that a file of another version is refused. */
#define MAGIC (UINT64_C(0x726f636d63740000) ^ sizeof(struct countfile))

enum { FOLD_TRIES = 1000 }; /* of a reader; a writer may have died while folding */

static uint64_t load(const uint64_t *value)
{
	return __atomic_load_n(value, __ATOMIC_RELAXED);
}

static bool well_formed(const struct countfile_counter *c)
{
	if (!c->divisor || !memchr(c->name, 0, sizeof(c->name)))
		return false;
	for (unsigned i = 0; i < COUNTFILE_TERMS; i++)
		if (c->term[i] > COUNTFILE_VALUES || c->term[i] < -COUNTFILE_VALUES)
			return false;
	return true;
}

/* System calls by number: in programs under librocemu-paths.so, open() is its own. */
static int open_file(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0644);
}

int countfile_reserve(int fd, off_t at, size_t len)
{
	int r;

	do
		r = fallocate(fd, 0, at, (off_t)len);
	while (r < 0 && errno == EINTR);
	/* Some file systems cannot reserve: on them an access to a full one remains a SIGBUS. */
	return r == 0 || errno == EOPNOTSUPP ? 0 : -errno;
}

int countfile_create(const char *path, const struct countfile_counter *counters, unsigned n)
{
	struct countfile *f;
	int fd, err;

	if (n > COUNTFILE_COUNTERS)
		return -EINVAL;
	for (unsigned i = 0; i < n; i++)
		if (!well_formed(&counters[i]))
			return -EINVAL;
	fd = open_file(path, O_RDWR | O_CREAT | O_EXCL);
	if (fd < 0)
		return -errno;
	f = MAP_FAILED;
	err = sigwrite_resize(fd, sizeof(*f)) < 0
		      ? -errno
		      : countfile_reserve(fd, 0, offsetof(struct countfile, row));
	if (!err)
		f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!err && f == MAP_FAILED)
		err = -errno;
	if (!err) {
		memcpy(f->counter, counters, n * sizeof(*counters));
		f->ncounters = n;
		__atomic_store_n(&f->magic, MAGIC, __ATOMIC_RELEASE);
		munmap(f, sizeof(*f));
	}
	close(fd);
	if (err)
		unlink(path);
	return err;
}

static bool is_ours(const struct countfile *f)
{
	if (__atomic_load_n(&f->magic, __ATOMIC_ACQUIRE) != MAGIC ||
	    f->ncounters > COUNTFILE_COUNTERS)
		return false;
	for (unsigned i = 0; i < f->ncounters; i++)
		if (!well_formed(&f->counter[i]))
			return false;
	return true;
}

/* *fd: its descriptor, which stays open, where there is a place for it. */
static struct countfile *map(const char *path, int *fd)
{
	const int opened = open_file(path, (fd ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK);
	struct countfile *f = MAP_FAILED;
	struct stat st;

	if (opened < 0)
		return NULL;
	if (fstat(opened, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == (off_t)sizeof(*f))
		f = mmap(NULL, sizeof(*f), PROT_READ | (fd ? PROT_WRITE : 0), MAP_SHARED, opened,
			 0);
	if (f != MAP_FAILED && !is_ours(f)) {
		munmap(f, sizeof(*f));
		f = MAP_FAILED;
	}
	if (fd && f != MAP_FAILED)
		*fd = opened;
	else
		syscall(SYS_close, opened);
	return f == MAP_FAILED ? NULL : f;
}

struct countfile *countfile_map(const char *path)
{
	return map(path, NULL);
}

void countfile_unmap(struct countfile *f)
{
	if (f)
		munmap(f, sizeof(*f));
}

int countfile_find(const struct countfile *f, const char *name)
{
	for (unsigned i = 0; i < f->ncounters; i++)
		if (!strcmp(f->counter[i].name, name))
			return (int)i;
	return -1;
}

/** A row's value, read at a moment when the row is not being folded. */
static uint64_t row_value(const struct countfile_row *r, unsigned i)
{
	uint64_t folds, value;

	for (unsigned tries = 0;; tries++) {
		folds = __atomic_load_n(&r->folds, __ATOMIC_ACQUIRE);
		value = load(&r->past[i]) + load(&r->live[i]);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if ((!(folds & 1) && load(&r->folds) == folds) || tries == FOLD_TRIES)
			return value;
	}
}

uint64_t countfile_get(const struct countfile *f, unsigned index)
{
	const struct countfile_counter *c = &f->counter[index];
	const uint32_t used = __atomic_load_n(&f->used, __ATOMIC_ACQUIRE);
	uint64_t sum = 0;

	for (uint32_t r = 0; r < used && r < COUNTFILE_ROWS; r++)
		for (unsigned i = 0; i < COUNTFILE_TERMS && c->term[i]; i++)
			if (c->term[i] > 0)
				sum += row_value(&f->row[r], (unsigned)c->term[i] - 1);
			else
				sum -= row_value(&f->row[r], (unsigned)-c->term[i] - 1);
	return sum / c->divisor + c->offset;
}

uint64_t countfile_value(const struct countfile *f, unsigned value)
{
	const uint32_t used = __atomic_load_n(&f->used, __ATOMIC_ACQUIRE);
	uint64_t sum = 0;

	for (uint32_t r = 0; r < used && r < COUNTFILE_ROWS; r++)
		sum += row_value(&f->row[r], value);
	return sum;
}

/* ---- rows ---- */

/** Process IDs mean something in their namespace only. */
static uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? (uint32_t)st.st_ino : 0;
}

static bool has_ended(uint64_t owner, uint64_t ns)
{
	return owner >> 32 == ns && kill((pid_t)(uint32_t)owner, 0) < 0 && errno == ESRCH;
}

uint32_t countfile_owner(const struct countfile *f, uint32_t row)
{
	const uint64_t owner = __atomic_load_n(&f->row[row].owner, __ATOMIC_ACQUIRE);
	const uint64_t ns = pid_namespace();
	const int saved = errno;
	const bool there = owner && owner >> 32 == ns && !has_ended(owner, ns);

	errno = saved;
	return there ? (uint32_t)owner : 0;
}

static void fold(struct countfile_row *r)
{
	/* Odd: the predecessor died while folding; values that it had not reached count twice. */
	const uint64_t folds = load(&r->folds) | 1;

	__atomic_store_n(&r->folds, folds, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (unsigned i = 0; i < COUNTFILE_VALUES; i++) {
		__atomic_store_n(&r->past[i], load(&r->past[i]) + load(&r->live[i]),
				 __ATOMIC_RELAXED);
		__atomic_store_n(&r->live[i], 0, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&r->folds, folds + 1, __ATOMIC_RELEASE);
}

/** Make the row its owner's. @return false: it has another one. */
static bool take(struct countfile_row *r, uint64_t ns)
{
	uint64_t owner = __atomic_load_n(&r->owner, __ATOMIC_ACQUIRE);

	return (!owner || has_ended(owner, ns)) &&
	       __atomic_compare_exchange_n(&r->owner, &owner, ns << 32 | (uint32_t)getpid(), false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/** All rows up to that one have had a writer. */
static void note_used(struct countfile *f, uint32_t row)
{
	uint32_t used = __atomic_load_n(&f->used, __ATOMIC_RELAXED);

	while (used <= row && !__atomic_compare_exchange_n(&f->used, &used, row + 1, false,
							   __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static int claim(struct countfile *f, int fd, struct countfile_row **row)
{
	const uint32_t used = __atomic_load_n(&f->used, __ATOMIC_ACQUIRE);
	const uint64_t ns = pid_namespace();

	for (uint32_t i = 0; i < COUNTFILE_ROWS; i++) {
		struct countfile_row *r = &f->row[i];
		const off_t at = (off_t)((char *)r - (char *)f);
		int err = i < used ? 0 : countfile_reserve(fd, at, sizeof(*r));

		if (err)
			return err;
		if (!take(r, ns))
			continue;
		fold(r);
		note_used(f, i);
		*row = r;
		return 0;
	}
	return -EUSERS;
}

int countfile_join(const char *path, struct countfile **f, struct countfile_row **row)
{
	const int saved = errno;
	int fd = -1, err;

	*f = map(path, &fd);
	if (!*f)
		return -EINVAL;
	err = claim(*f, fd, row);
	close(fd);
	errno = saved;
	if (err) {
		countfile_unmap(*f);
		*f = NULL;
	}
	return err;
}

void countfile_release(struct countfile_row *row)
{
	__atomic_store_n(&row->owner, 0, __ATOMIC_RELEASE);
}
