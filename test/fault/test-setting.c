/* SPDX-License-Identifier: BSD-2-Clause */
/* ROCEMU_IMPAIR is parsed once for each text, and all get the same. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault/setting.h"

static struct impair im;
static unsigned serial;
static char err[256];

static int get(const char *text)
{
	if (text)
		setenv("ROCEMU_IMPAIR", text, 1);
	else
		unsetenv("ROCEMU_IMPAIR");
	err[0] = '\0';
	return setting_get(&im, &serial, err, sizeof(err));
}

TEST(setting, unset_or_empty__off)
{
	unsigned before;

	assert_int_equal(get(NULL), 0);
	assert_false(im.on);
	before = serial;
	assert_int_equal(get(""), 0);
	assert_false(im.on);
	assert_int_equal(serial, before);
}

TEST(setting, same_text__parsed_once)
{
	char path[] = "/tmp/rocemu-setting-XXXXXX", text[64];
	int fd = mkstemp(path);
	unsigned before;
	uint64_t seed;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "loss=25%\n", 9), 9);
	close(fd);
	snprintf(text, sizeof(text), "@%s", path);
	assert_int_equal(get(text), 0);
	unlink(path);
	assert_true(im.on && im.loss == 0.25);
	before = serial;
	seed = im.seed;
	memset(&im, 0, sizeof(im));
	assert_int_equal(get(text), 0);
	assert_true(im.on && im.loss == 0.25);
	assert_int_equal(serial, before);
	assert_int_equal(im.seed, seed);
}

TEST(setting, another_text__another_serial)
{
	unsigned first, second;

	assert_int_equal(get("dup=1%"), 0);
	first = serial;
	assert_int_equal(get("dup=2%"), 0);
	second = serial;
	assert_true(second != first);
	assert_int_equal(get("dup=1%"), 0);
	assert_true(serial != first && serial != second);
	first = serial;
	assert_int_equal(get(NULL), 0);
	assert_false(im.on);
	assert_true(serial != first);
}

TEST(setting, wrong_text__refused_each_time_and_off)
{
	assert_int_equal(get("loss=1%"), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(get("loss=lots"), -EINVAL);
		assert_non_null(strstr(err, "lots"));
		assert_false(im.on);
	}
	assert_int_equal(get("loss=1%"), 0);
	assert_true(im.on);
}

TEST(setting, forked_child__has_it)
{
	int status = -1;
	unsigned before;
	pid_t pid;

	assert_int_equal(get("loss=1%"), 0);
	before = serial;
	pid = fork();
	if (pid == 0)
		_exit(get("loss=1%") || serial != before || !im.on);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}
