/* SPDX-License-Identifier: BSD-2-Clause */
/* What the process reports: counts, rules' totals, the log; and what a forked child does not
 * repeat. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault/report.h"

static char path[64];

static void start_log(void)
{
	char err[256] = "";
	int fd;

	snprintf(path, sizeof(path), "/tmp/rocemu-report-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	setenv("ROCEMU_IMPAIR_LOG", path, 1);
	if (fault_report_start(err, sizeof(err)))
		fail_msg("%s", err);
}

static void stop_log(void)
{
	char err[256];

	unsetenv("ROCEMU_IMPAIR_LOG");
	assert_int_equal(fault_report_start(err, sizeof(err)), 0);
	unlink(path);
}

/* Lines in the file that have this text; NULL: all. */
static unsigned lines(const char *text)
{
	FILE *f = fopen(path, "re");
	char line[512];
	unsigned n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += !text || strstr(line, text) != NULL;
	fclose(f);
	return n;
}

TEST(fault_report, counts_and_totals__in_the_summary)
{
	struct fault_total *t = fault_total_get("drop nth=1", "packets");
	char text[1024];

	assert_ptr_equal(fault_total_get("drop nth=1", "packets"), t);
	assert_ptr_not_equal(fault_total_get("drop nth=2", "packets"), t);
	fault_report_add(FAULT_COUNT_SENT, 20);
	fault_report_add(FAULT_COUNT_LOST, 3);
	fault_total_add(t, true);
	fault_total_add(t, false);
	fault_report_text(text, sizeof(text));
	assert_string_equal(text, "20 packets sent, 3 lost by chance\n"
				  "drop nth=1: acted on 1 of 2 matching packets\n"
				  "drop nth=2: acted on 0 of 0 matching packets\n");
	/* Too small a buffer: what fits. */
	fault_report_text(text, 10);
	assert_string_equal(text, "20 packet");
}

TEST(fault_report, texts_longer_than_kept__the_same_one)
{
	char a[200], b[200];

	memset(a, 'a', sizeof(a));
	a[150] = '\0';
	memcpy(b, a, sizeof(b));
	b[140] = 'b';
	assert_ptr_equal(fault_total_get(a, "packets"), fault_total_get(b, "packets"));
}

TEST(fault_report, more_texts_than_kept__share_the_last)
{
	struct fault_total *last = NULL;
	char text[32];

	/* This process has a great many to report at its end. */
	setenv("ROCEMU_IMPAIR_SUMMARY", "off", 1);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "rule %u", i);
		last = fault_total_get(text, "packets");
	}
	assert_ptr_equal(fault_total_get("one more", "packets"), last);
	assert_string_equal(last->text, "further rules");
}

TEST(fault_log, lines__written_by_a_flush_and_when_the_buffer_is_full)
{
	start_log();
	assert_true(fault_log_on());
	fault_log_line("first %d", 1);
	assert_int_equal(lines(NULL), 0);
	fault_log_flush();
	assert_int_equal(lines(" first 1\n"), 1);
	for (unsigned i = 0; i < 1000; i++)
		fault_log_line("line %u", i);
	assert_in_range(lines(" line "), 100, 999);
	fault_log_flush();
	assert_int_equal(lines(" line "), 1000);
	stop_log();
	assert_false(fault_log_on());
	fault_log_line("nowhere");
}

TEST(fault_log, line_too_long__cut)
{
	char text[2000];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	start_log();
	fault_log_line("%s", text);
	fault_log_line("next");
	fault_log_flush();
	assert_int_equal(lines(NULL), 2);
	assert_int_equal(lines(" next\n"), 1);
	stop_log();
}

TEST(fault_log, file_goes_away__said_once_and_no_more)
{
	char err[256];

	start_log();
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	fault_log_line("lost");
	fault_log_flush();
	assert_false(fault_log_on());
	rmdir(path);
	setenv("ROCEMU_IMPAIR_LOG", "/nonexistent/log", 1);
	assert_int_equal(fault_report_start(err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "\"/nonexistent/log\""));
	stop_log();
}

/* The parent's line is in its buffer when it forks. */
TEST(fault_report, forked_child__neither_logs_nor_counts_for_the_parent)
{
	char text[16384];
	int status;
	pid_t pid;

	start_log();
	fault_report_add(FAULT_COUNT_SENT, 1);
	fault_log_line("the parent's");
	pid = fork();
	if (pid == 0) {
		fault_report_text(text, sizeof(text));
		if (strstr(text, "sent") || strstr(text, "acted on 1"))
			_exit(1);
		fault_log_flush();
		fault_log_line("the child's");
		fault_log_flush();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(lines("parent"), 0);
	assert_int_equal(lines("child"), 1);
	fault_log_flush();
	assert_int_equal(lines("parent"), 1);
	fault_report_text(text, sizeof(text));
	assert_non_null(strstr(text, "packets sent"));
	stop_log();
}

/* At the end of a process: on stderr, unless switched off. */
static unsigned exit_summary(const char *wanted)
{
	int fds[2], status;
	char text[65536];
	unsigned n = 0;
	ssize_t got;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		unsetenv("ROCEMU_IMPAIR_SUMMARY");
		if (wanted)
			setenv("ROCEMU_IMPAIR_SUMMARY", wanted, 1);
		fault_report_add(FAULT_COUNT_RECEIVED, 1);
		exit(0);
	}
	close(fds[1]);
	while ((got = read(fds[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (unsigned)got;
	text[n] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return strstr(text, "1 packets received\n") != NULL;
}

TEST(fault_report, exit__summary_on_stderr_or_off)
{
	assert_int_equal(exit_summary(NULL), 1);
	assert_int_equal(exit_summary("off"), 0);
}
