/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests files of a tree: contents that are shared and changed, and file systems with few links or
 * none. */
#include "tree-files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

/* A file has so many links at most (meson.build: --wrap); -1: without a limit. */
static int links_left = -1, link_error;

int __real_linkat(int from, const char *old, int to, const char *new, int flags);
int __wrap_linkat(int from, const char *old, int to, const char *new, int flags);

int __wrap_linkat(int from, const char *old, int to, const char *new, int flags)
{
	struct stat st;

	if (links_left >= 0 && fstatat(from, old, &st, 0) == 0 && (int)st.st_nlink > links_left) {
		errno = link_error;
		return -1;
	}
	return __real_linkat(from, old, to, new, flags);
}

static struct tree_files files;

static void begin(int left, int error)
{
	char dir[] = "/tmp/rocemu-test-XXXXXX";

	links_left = left;
	link_error = error;
	assert_non_null(mkdtemp(dir));
	tree_files_open(&files, dir);
	assert_int_equal(files.err, 0);
}

static void end(void)
{
	char command[600];

	links_left = -1;
	assert_int_equal(files.err, 0);
	tree_files_close(&files);
	snprintf(command, sizeof(command), "rm -r '%s'", files.root);
	assert_int_equal(system(command), 0);
}

static const char *content(const char *name, struct stat *st)
{
	static char text[100];
	const int fd = openat(files.fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	assert_true(fd >= 0 && n >= 0 && fstat(fd, st) == 0);
	assert_int_equal(st->st_mode & 0777, 0444);
	close(fd);
	text[n] = 0;
	return text;
}

/** 20 files with one content, in a directory, then every other one with another content. */
static void fill(void)
{
	const int dir = tree_dir(&files, "a/%s", "b");
	char name[40], path[60];
	struct stat st;

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 20; i++) {
			snprintf(name, sizeof(name), "%u", i);
			tree_put_common(&files, dir, name, round && i % 2 ? "1" : "");
		}
		for (unsigned i = 0; i < 20; i++) {
			snprintf(path, sizeof(path), "a/b/%u", i);
			assert_string_equal(content(path, &st), round && i % 2 ? "1\n" : "");
		}
	}
	close(dir);
	assert_int_equal(faccessat(files.fd, "fresh", F_OK, 0), -1);
}

TEST(tree_files, common_content__one_file_with_many_names)
{
	struct stat first, second;

	begin(-1, 0);
	fill();
	assert_string_equal(content("a/b/0", &first), "");
	assert_string_equal(content("a/b/2", &second), "");
	assert_int_equal(first.st_ino, second.st_ino);
	end();
}

TEST(tree_files, few_links_to_a_file__further_files)
{
	struct stat first, last;

	begin(4, EMLINK);
	fill();
	(void)content("a/b/0", &first);
	(void)content("a/b/18", &last);
	assert_int_not_equal(first.st_ino, last.st_ino);
	assert_true(first.st_nlink > 1);
	end();
}

TEST(tree_files, no_links__files)
{
	struct stat st;

	begin(0, EPERM);
	fill();
	(void)content("a/b/0", &st);
	assert_int_equal(st.st_nlink, 1);
	end();
}

TEST(tree_files, changed_content__whole_and_of_that_name_alone)
{
	struct stat st;

	begin(-1, 0);
	tree_put_common(&files, files.fd, "x", "0");
	tree_put_common(&files, files.fd, "y", "0");
	tree_put(&files, files.fd, "x", "17");
	assert_string_equal(content("x", &st), "17\n");
	assert_string_equal(content("y", &st), "0\n");
	tree_put(&files, files.fd, "x", "18");
	tree_put_common(&files, files.fd, "y", "0");
	assert_string_equal(content("x", &st), "18\n");
	assert_string_equal(content("y", &st), "0\n");
	end();
}

TEST(tree_files, error__is_kept_and_the_rest_does_nothing)
{
	begin(-1, 0);
	tree_put(&files, files.fd, "no/such/directory", "0");
	assert_int_equal(files.err, -ENOENT);
	tree_put(&files, files.fd, "x", "0");
	assert_int_equal(tree_dir(&files, "d"), -1);
	assert_int_equal(faccessat(files.fd, "x", F_OK, 0), -1);
	files.err = 0;
	end();
}
