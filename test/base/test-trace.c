/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests the timeline's file: whole lines, none missing, with any recorders. */
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/trace.h"
#include "base/tsan.h"

enum { THREADS = 4, EACH = 30000 }; /* several times what the buffers hold */

static const struct trace_kind kind = {"test", TRACE_INSTANT, "", {"n", "x:hex", "s:text"}};
static char path[] = "/tmp/rocemu-test-trace-XXXXXX";

static void record(uint32_t track, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const uint64_t arg[] = {i, i, (uintptr_t) "text"};

		trace_add(&kind, "event", trace_now(), track, 0, arg);
	}
}

static void *record_many(void *track)
{
	record((uint32_t)(uintptr_t)track, EACH);
	return NULL;
}

/* Lines of the file with this in it; each line must be whole. */
static unsigned count(const char *what)
{
	FILE *f = fopen(path, "r");
	char line[1024];
	unsigned n = 0;

	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(line, "[\n");
	while (fgets(line, sizeof(line), f)) {
		assert_true(line[0] == '{');
		assert_non_null(strstr(line, "},\n"));
		n += strstr(line, what) != NULL;
	}
	fclose(f);
	return n;
}

TEST(trace, not_asked_for__off)
{
	trace_start();
	assert_false(trace_on());
}

/* As where the disk is full. */
TEST(trace, file_can_grow_no_more__off)
{
	char file[] = "/tmp/rocemu-test-trace-XXXXXX";
	const struct rlimit limit = {4096, 4096};
	pid_t child = fork();
	int status;

	assert_return_code(child, 0);
	if (!child) {
		close(mkstemp(file));
		setrlimit(RLIMIT_FSIZE, &limit);
		setenv("ROCEMU_TRACE", file, 1);
		trace_start();
		if (!trace_on())
			_exit(1);
		record(1, 1000);
		trace_flush();
		unlink(file);
		_exit(trace_on() ? 2 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

TEST(trace, several_threads__every_event_once)
{
	pthread_t thread[THREADS];

	assert_return_code(close(mkstemp(path)), 0);
	setenv("ROCEMU_TRACE", path, 1);
	trace_start();
	assert_true(trace_on());
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&thread[i], NULL, record_many, (void *)(uintptr_t)(100 + i)),
			0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	trace_flush();
	for (unsigned i = 0; i < THREADS; i++) {
		char track[32];

		snprintf(track, sizeof(track), "\"tid\":%u,", 100 + i);
		assert_int_equal(count(track), EACH);
	}
	assert_int_equal(count("\"n\":29999,\"hex\":\"0x752f\",\"text\":\"text\""), THREADS);
}

TEST(trace, title_of_any_bytes__stays_json)
{
	trace_title(7, "a \"quoted\\ name\n\x80");
	assert_int_equal(count("\"a ?quoted? name??\""), 1);
}

TEST(trace, forked_child__events_of_both_once)
{
	int status;
	pid_t child;

	if (tsan_watches()) {
		print_message("skipped: ThreadSanitizer allows no threads in the child of a "
			      "process that has some\n");
		unlink(path);
		skip();
	}
	record(200, 10);
	child = fork();
	assert_return_code(child, 0);
	if (!child) {
		trace_start();
		record(201, 10);
		trace_flush();
		_exit(trace_on() ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	trace_flush();
	assert_int_equal(count("\"tid\":200,"), 10);
	assert_int_equal(count("\"tid\":201,"), 10);
	unlink(path);
}
