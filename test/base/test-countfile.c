/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/countfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	f = countfile_map(path, true);
	assert_non_null(f);
	return f;
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
	struct countfile *f = fresh(), *reader = countfile_map(path, false);
	struct countfile_row *a = countfile_claim(f), *b = countfile_claim(f);

	assert_non_null(reader);
	assert_true(a && b && a != b);
	assert_int_equal(get(reader, "first"), 0);
	a->live[0] = 10;
	b->live[0] = 20;
	b->live[1] = 12;
	assert_int_equal(get(reader, "first"), 30);
	assert_int_equal(get(reader, "words"), 42 / 4);
	assert_int_equal(get(reader, "rest"), 18);
	assert_int_equal(get(reader, "nothing"), 7);
	assert_int_equal(countfile_find(reader, "none"), -1);
	countfile_unmap(reader);
	done(f);
}

TEST(countfile, row_released__counts_stay_and_the_next_starts_at_0)
{
	struct countfile *f = fresh();
	struct countfile_row *a = countfile_claim(f), *b;

	a->live[0] = 5;
	countfile_release(a);
	assert_int_equal(get(f, "first"), 5);
	b = countfile_claim(f);
	assert_ptr_equal(a, b);
	assert_int_equal(b->live[0], 0);
	assert_int_equal(get(f, "first"), 5);
	b->live[0] = 2;
	assert_int_equal(get(f, "first"), 7);
	done(f);
}

TEST(countfile, owner_dead__row_is_taken_over)
{
	struct countfile *f = fresh();
	struct countfile_row *row;
	int status;
	const pid_t child = fork();

	if (child == 0) {
		row = countfile_claim(f);
		row->live[0] = 9;
		_exit(row == &f->row[0] ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(get(f, "first"), 9);
	assert_ptr_equal(countfile_claim(f), &f->row[0]);
	assert_int_equal(get(f, "first"), 9);
	done(f);
}

TEST(countfile, owner_died_while_folding__readers_and_the_next_owner_go_on)
{
	struct countfile *f = fresh();
	struct countfile_row *row = countfile_claim(f);

	row->live[0] = 3;
	row->folds |= 1;
	countfile_release(row);
	assert_int_equal(get(f, "first"), 3);
	assert_ptr_equal(countfile_claim(f), row);
	assert_int_equal(row->folds & 1, 0);
	assert_int_equal(get(f, "first"), 3);
	done(f);
}

TEST(countfile, all_rows_in_use__none)
{
	struct countfile *f = fresh();

	for (unsigned i = 0; i < COUNTFILE_ROWS; i++)
		assert_non_null(countfile_claim(f));
	assert_null(countfile_claim(f));
	done(f);
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

	assert_null(countfile_map("/nowhere/file", false));
	assert_null(countfile_map(dir, false));
	assert_null(countfile_map("/dev/null", true));
	spoil(offsetof(struct countfile, ncounters), &many, sizeof(many));
	assert_null(countfile_map(path, true));
	spoil(offsetof(struct countfile, ncounters), &n, sizeof(n));
	spoil(offsetof(struct countfile, counter[1].term[0]), &term, sizeof(term));
	assert_null(countfile_map(path, true));
	spoil(offsetof(struct countfile, counter[1].term[0]), &counters[1].term[0], sizeof(term));
	f->magic++;
	assert_null(countfile_map(path, true));
	f->magic--;
	assert_int_equal(truncate(path, sizeof(*f) + 1), 0);
	assert_null(countfile_map(path, true));
	done(f);
}
