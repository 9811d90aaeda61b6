/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/countfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "test.h"

static const struct countfile_counter counters[] = {
	{.name = "first", .term = {1}, .divisor = 1},
	{.name = "words", .term = {1, 2}, .divisor = 4},
	{.name = "rest", .term = {1, -2}, .divisor = 1},
	{.name = "nothing", .divisor = 1, .offset = 7},
};

static char dir[64], path[96];

static struct countfile *fresh(void)
{
	struct countfile *f;

	snprintf(dir, sizeof(dir), "/tmp/test-countfile-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/dev", dir);
	assert_int_equal(countfile_create(path, counters, ARRAY_LEN(counters)), 0);
	f = countfile_map(path);
	assert_non_null(f);
	return f;
}

/* A writer of the file. */
struct writer {
	struct countfile *f;
	struct countfile_row *row;
};

static struct writer join(void)
{
	struct writer w;

	assert_int_equal(countfile_join(path, &w.f, &w.row), 0);
	return w;
}

static long number(const struct writer *w)
{
	return (long)(w->row - w->f->row);
}

/* Its row stays its own. */
static void unmap(struct writer *w)
{
	countfile_unmap(w->f);
}

static void done(struct countfile *f)
{
	countfile_unmap(f);
	unlink(path);
	rmdir(dir);
}

static uint64_t get(const struct countfile *f, const char *name)
{
	const int i = countfile_find(f, name);

	assert_true(i >= 0);
	return countfile_get(f, (unsigned)i);
}

TEST(countfile, values_of_all_rows__added_and_divided)
{
	struct countfile *reader = fresh();
	struct writer a = join(), b = join();

	assert_int_equal(number(&a), 0);
	assert_int_equal(number(&b), 1);
	assert_int_equal(get(reader, "first"), 0);
	a.row->live[0] = 10;
	b.row->live[0] = 20;
	b.row->live[1] = 12;
	assert_int_equal(get(reader, "first"), 30);
	assert_int_equal(get(reader, "words"), 42 / 4);
	assert_int_equal(get(reader, "rest"), 18);
	assert_int_equal(get(reader, "nothing"), 7);
	assert_int_equal(countfile_find(reader, "none"), -1);
	unmap(&a);
	unmap(&b);
	done(reader);
}

TEST(countfile, row_released__counts_stay_and_the_next_starts_at_0)
{
	struct countfile *f = fresh();
	struct writer a = join(), b;

	a.row->live[0] = 5;
	countfile_release(a.row);
	assert_int_equal(get(f, "first"), 5);
	b = join();
	assert_int_equal(number(&a), number(&b));
	assert_int_equal(b.row->live[0], 0);
	assert_int_equal(get(f, "first"), 5);
	b.row->live[0] = 2;
	assert_int_equal(get(f, "first"), 7);
	unmap(&a);
	unmap(&b);
	done(f);
}

TEST(countfile, owner_dead__row_is_taken_over)
{
	struct countfile *f = fresh();
	struct writer w;
	int status;
	const pid_t child = fork();

	if (child == 0) {
		w = join();
		w.row->live[0] = 9;
		_exit((int)number(&w));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(get(f, "first"), 9);
	w = join();
	assert_int_equal(number(&w), 0);
	assert_int_equal(get(f, "first"), 9);
	unmap(&w);
	done(f);
}

TEST(countfile, owner_died_while_folding__readers_and_the_next_owner_go_on)
{
	struct countfile *f = fresh();
	struct writer a = join(), b;

	a.row->live[0] = 3;
	a.row->folds |= 1;
	countfile_release(a.row);
	assert_int_equal(get(f, "first"), 3);
	b = join();
	assert_int_equal(number(&b), number(&a));
	assert_int_equal(b.row->folds & 1, 0);
	assert_int_equal(get(f, "first"), 3);
	unmap(&a);
	unmap(&b);
	done(f);
}

TEST(countfile, all_rows_in_use__none)
{
	struct countfile *f = fresh();
	struct writer w;

	for (unsigned i = 0; i < COUNTFILE_ROWS; i++) {
		w = join();
		unmap(&w);
	}
	assert_int_equal(countfile_join(path, &w.f, &w.row), -EUSERS);
	done(f);
}

static bool write_file(const char *name, const char *text)
{
	const int fd = open(name, O_WRONLY | O_CLOEXEC);
	const bool ok = fd >= 0 && write(fd, text, strlen(text)) > 0;

	if (fd >= 0)
		close(fd);
	return ok;
}

/* A mount namespace; of an ordinary user with a user namespace, in which the user exists. */
static bool may_mount(void)
{
	char uid[32], gid[32];

	snprintf(uid, sizeof(uid), "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
	snprintf(gid, sizeof(gid), "%u %u 1", (unsigned)getegid(), (unsigned)getegid());
	return unshare(CLONE_NEWNS) == 0 || (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
					     write_file("/proc/self/uid_map", uid) &&
					     write_file("/proc/self/setgroups", "deny") &&
					     write_file("/proc/self/gid_map", gid));
}

/* The tests' process must not have it. @return 0, or 77: this user may not mount. */
static int in_full_file_system(int (*test)(void))
{
	int status;
	const pid_t child = fork();

	assert_return_code(child, errno);
	if (child == 0) {
		snprintf(dir, sizeof(dir), "/tmp/test-countfile-XXXXXX");
		if (!mkdtemp(dir) || !may_mount() ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", dir, "tmpfs", 0, "size=16k")) {
			rmdir(dir);
			_exit(77);
		}
		snprintf(path, sizeof(path), "%s/dev", dir);
		status = test();
		umount2(dir, MNT_DETACH);
		rmdir(dir);
		_exit(status);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Four pages: the head and three rows need three, and some rows more the last one. */
static int fill_rows(void)
{
	struct countfile *reader;
	struct writer w;
	unsigned rows = 0;
	int err;

	if (countfile_create(path, counters, ARRAY_LEN(counters)))
		return 1;
	while ((err = countfile_join(path, &w.f, &w.row)) == 0) {
		w.row->live[0] = 1;
		w.row->live[COUNTFILE_VALUES - 1] = 1;
		rows++;
	}
	reader = countfile_map(path);
	return err == -ENOSPC && rows && reader && get(reader, "first") == rows ? 0 : 2;
}

static int full_at_once(void)
{
	char filler[4096] = "x", name[96];
	int fd;

	snprintf(name, sizeof(name), "%s/filler", dir);
	fd = open(name, O_WRONLY | O_CREAT, 0600);
	while (write(fd, filler, sizeof(filler)) > 0)
		;
	close(fd);
	return countfile_create(path, counters, ARRAY_LEN(counters)) == -ENOSPC &&
			       access(path, F_OK) != 0
		       ? 0
		       : 3;
}

TEST(countfile, file_system_full__error_and_no_sigbus)
{
	const int rows = in_full_file_system(fill_rows), none = in_full_file_system(full_at_once);

	if (rows == 77) {
		print_message("skipped: this user may not mount a file system\n");
		skip();
	}
	assert_int_equal(rows, 0);
	assert_int_equal(none, 0);
}

TEST(countfile_create, bad_counters__refused)
{
	static const struct countfile_counter bad[] = {
		{.name = "divisor 0", .term = {1}},
		{.name = "no such value", .term = {COUNTFILE_VALUES + 1}, .divisor = 1},
		{.name = "nor such", .term = {-COUNTFILE_VALUES - 1}, .divisor = 1},
	};

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(countfile_create("/nowhere/file", &bad[i], 1), -EINVAL);
	assert_int_equal(countfile_create("/nowhere/file", counters, COUNTFILE_COUNTERS + 1),
			 -EINVAL);
	assert_int_equal(countfile_create("/nowhere/file", counters, 1), -ENOENT);
}

/** Write bytes over a file's beginning. */
static void spoil(off_t at, const void *bytes, size_t n)
{
	const int fd = open(path, O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, at), (ssize_t)n);
	close(fd);
}

TEST(countfile_map, files_of_another_kind__refused)
{
	struct countfile *f = fresh();
	const uint32_t many = COUNTFILE_COUNTERS + 1;
	const int16_t term = COUNTFILE_VALUES + 1;
	const uint32_t n = f->ncounters;

	assert_null(countfile_map("/nowhere/file"));
	assert_null(countfile_map(dir));
	assert_null(countfile_map("/dev/null"));
	spoil(offsetof(struct countfile, ncounters), &many, sizeof(many));
	assert_null(countfile_map(path));
	spoil(offsetof(struct countfile, ncounters), &n, sizeof(n));
	spoil(offsetof(struct countfile, counter[1].term[0]), &term, sizeof(term));
	assert_null(countfile_map(path));
	spoil(offsetof(struct countfile, counter[1].term[0]), &counters[1].term[0], sizeof(term));
	spoil(offsetof(struct countfile, magic), &many, sizeof(many));
	assert_null(countfile_map(path));
	spoil(offsetof(struct countfile, magic), &f->magic, sizeof(f->magic));
	assert_int_equal(truncate(path, sizeof(*f) + 1), 0);
	assert_null(countfile_map(path));
	done(f);
}
