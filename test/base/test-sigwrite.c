/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests writes for which the kernel sends a signal. Its default action would end the test. */
#include "base/sigwrite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/util.h"
#include "test.h"

static const int signals[] = {SIGXFSZ, SIGPIPE};

/* A file of at most so many bytes, which may be no larger. */
static int limited_file(rlim_t bytes)
{
	const struct rlimit limit = {bytes, RLIM_INFINITY};
	char path[] = "/tmp/test-sigwrite-XXXXXX";
	const int fd = mkstemp(path);

	assert_return_code(fd, errno);
	unlink(path);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	return fd;
}

static void close_limited(int fd)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

	close(fd);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
}

static int pipe_without_reader(void)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	return fds[1];
}

/* They are not blocked and not pending. */
static void expect_untouched(void)
{
	sigset_t mask, pending;

	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	sigpending(&pending);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		assert_int_equal(sigismember(&mask, signals[i]), 0);
		assert_int_equal(sigismember(&pending, signals[i]), 0);
	}
}

TEST(sigwrite, file_at_its_limit__written_up_to_it_then_efbig)
{
	const int fd = limited_file(6);

	assert_int_equal(sigwrite(fd, "12345678", 8), 6);
	assert_int_equal(sigwrite(fd, "78", 2), -1);
	assert_int_equal(errno, EFBIG);
	expect_untouched();
	close_limited(fd);
}

TEST(sigwrite_resize, beyond_the_limit__efbig)
{
	const int fd = limited_file(6);

	assert_int_equal(sigwrite_resize(fd, 6), 0);
	assert_int_equal(sigwrite_resize(fd, 7), -1);
	assert_int_equal(errno, EFBIG);
	expect_untouched();
	close_limited(fd);
}

TEST(sigwrite, pipe_without_reader__epipe)
{
	const int fd = pipe_without_reader();

	assert_int_equal(sigwrite(fd, "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	expect_untouched();
	close(fd);
}

TEST(sigwrite, no_limit__written)
{
	int fds[2];
	char c = 0;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(sigwrite(fds[1], "x", 1), 1);
	assert_int_equal(read(fds[0], &c, 1), 1);
	assert_int_equal(c, 'x');
	expect_untouched();
	close(fds[0]);
	close(fds[1]);
}

TEST(sigwrite, program_has_the_signal_pending__still_pending)
{
	const int fd = pipe_without_reader();
	sigset_t set, before, pending;
	int got = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, &before);
	raise(SIGPIPE);
	assert_int_equal(sigwrite(fd, "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	sigpending(&pending);
	assert_int_equal(sigismember(&pending, SIGPIPE), 1);
	assert_int_equal(sigwait(&set, &got), 0);
	assert_int_equal(got, SIGPIPE);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	expect_untouched();
	close(fd);
}
