/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/sigwrite.h"
#include "base/util.h"
#include "wire/bth.h"

enum {
	LOG_BUFFER = 16384,
	LOG_LINE = 384,
	TOTALS = 2 * FAULT_RULES,
	SUMMARY_LEN = TOTALS * 192,
};

/* The log and the list of totals; their numbers are atomics. */
static struct mutex report_lock = MUTEX_INITIALIZER;
static const char *reporter = "";
static _Atomic bool logging;
static char log_path[4096];
static char log_buffer[LOG_BUFFER];
static size_t log_used;
static unsigned ntotals;
static struct fault_total totals[TOTALS];
static _Atomic uint64_t counts[FAULT_COUNT_COUNT];

/* ---- the log ---- */

/*
 * Opened for each batch, so that no descriptor exists that a program could close. O_APPEND lets
 * several processes write to it. Lock held.
 */
static int write_log(void)
{
	const char *p = log_buffer;
	int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
	int err = fd < 0 ? -errno : 0;

	while (fd >= 0 && log_used) {
		ssize_t n = sigwrite(fd, p, log_used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err = -errno;
			break;
		}
		p += n;
		log_used -= (size_t)n;
	}
	log_used = 0;
	if (fd >= 0)
		close(fd);
	return err;
}

static void flush_locked(void)
{
	char limit[LIMIT_TEXT_LEN];
	int err;

	if (!log_used)
		return;
	err = write_log();
	if (!err)
		return;
	log_error("impairment: writing \"%s\": %s; no more is logged%s", log_path, strerror(-err),
		  limit_text(err, limit));
	atomic_store(&logging, false);
}

bool fault_log_on(void)
{
	return atomic_load_explicit(&logging, memory_order_relaxed);
}

void fault_log_line(const char *fmt, ...)
{
	char line[LOG_LINE];
	struct timespec ts;
	va_list ap;
	int n, m;

	if (!fault_log_on())
		return;
	clock_gettime(CLOCK_REALTIME, &ts);
	n = snprintf(line, sizeof(line), "%lld.%09ld pid=%ld ", (long long)ts.tv_sec, ts.tv_nsec,
		     (long)getpid());
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	if (m < 0)
		return;
	n = MIN(n + m, (int)sizeof(line) - 2);
	line[n++] = '\n';
	mutex_lock(&report_lock);
	if (log_used + (size_t)n > sizeof(log_buffer))
		flush_locked();
	memcpy(log_buffer + log_used, line, (size_t)n);
	log_used += (size_t)n;
	mutex_unlock(&report_lock);
}

void fault_log_packet(const char *device, const struct fault_packet *p, const char *by,
		      const char *what, uint64_t ns)
{
	char late[40] = "";

	if (ns)
		snprintf(late, sizeof(late), " time=%" PRIu64 "ns", ns);
	fault_log_line("%s %s \"%s\" %s qp=0x%06x dqp=0x%06x psn=%u %s%s", device,
		       p->dir == FAULT_TX ? "tx" : "rx", by ? by : what,
		       rocemu_opcode_name(p->hdr[0]), p->qp, bth_dqpn(p->hdr), bth_psn(p->hdr),
		       what, late);
}

void fault_log_flush(void)
{
	mutex_lock(&report_lock);
	flush_locked();
	mutex_unlock(&report_lock);
}

/* ---- the summary ---- */

void fault_report_name(const char *who)
{
	reporter = who;
}

void fault_report_add(enum fault_count what, uint64_t n)
{
	atomic_fetch_add_explicit(&counts[what], n, memory_order_relaxed);
}

struct fault_total *fault_total_get(const char *text, const char *unit)
{
	struct fault_total *t;
	unsigned i = 0;

	mutex_lock(&report_lock);
	while (i < ntotals && strncmp(totals[i].text, text, sizeof(totals[i].text) - 1) != 0)
		i++;
	t = &totals[MIN(i, (unsigned)TOTALS - 1)];
	if (i == ntotals && i < TOTALS) {
		ntotals++;
		snprintf(t->text, sizeof(t->text), "%s", i < TOTALS - 1 ? text : "further rules");
		t->unit = unit;
	}
	mutex_unlock(&report_lock);
	return t;
}

void fault_total_add(struct fault_total *t, bool acted)
{
	atomic_fetch_add_explicit(&t->matched, 1, memory_order_relaxed);
	if (acted)
		atomic_fetch_add_explicit(&t->acted, 1, memory_order_relaxed);
}

static void append(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void append(char *buf, size_t size, const char *fmt, ...)
{
	const size_t used = strlen(buf);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf + used, size - used, fmt, ap);
	va_end(ap);
}

/* One line: "20480 packets sent, 203 lost by chance". */
static void append_counts(char *buf, size_t size)
{
	static const char *const names[] = {
#define X(name, text) [FAULT_COUNT_##name] = text,
		FAULT_COUNTS(X)
#undef X
	};
	bool any = false;

	for (unsigned i = 0; i < FAULT_COUNT_COUNT; i++) {
		const uint64_t n = atomic_load(&counts[i]);

		if (n)
			append(buf, size, "%s%" PRIu64 " %s", any ? ", " : reporter, n, names[i]);
		any |= n > 0;
	}
	if (any)
		append(buf, size, "\n");
}

void fault_report_text(char *buf, size_t size)
{
	buf[0] = '\0';
	append_counts(buf, size);
	if (!buf[0] && !ntotals)
		return;
	mutex_lock(&report_lock);
	for (unsigned i = 0; i < ntotals; i++)
		append(buf, size, "%s%s: acted on %" PRIu64 " of %" PRIu64 " matching %s\n",
		       reporter, totals[i].text, atomic_load(&totals[i].acted),
		       atomic_load(&totals[i].matched), totals[i].unit);
	mutex_unlock(&report_lock);
}

static bool summary_wanted(void)
{
	const char *env = secure_getenv("ROCEMU_IMPAIR_SUMMARY");
	bool any = false;

	for (unsigned i = 0; i < FAULT_COUNT_COUNT; i++)
		any |= atomic_load(&counts[i]) > 0;
	for (unsigned i = 0; i < ntotals; i++)
		any |= atomic_load(&totals[i].matched) > 0;
	return any && (!env || strcmp(env, "off") != 0);
}

bool fault_report_works_at_exit(void)
{
	return mutex_works_at_exit(&report_lock);
}

/* Runs after destructors without a priority, in which lanes send their last packets. */
__attribute__((destructor(101))) static void report_at_exit(void)
{
	static char text[SUMMARY_LEN];
	char *rest = text, *line;

	if (!fault_report_works_at_exit())
		return;
	fault_log_flush();
	if (!summary_wanted())
		return;
	fault_report_text(text, sizeof(text));
	while ((line = strsep(&rest, "\n")) != NULL)
		if (*line)
			log_warn("impairment of process %ld: %s", (long)getpid(), line);
}

/* ---- start and fork ---- */

static void fork_prepare(void)
{
	mutex_lock(&report_lock);
}

static void fork_parent(void)
{
	mutex_unlock(&report_lock);
}

/* The parent reports its own faults. The texts stay: lanes of the parent point to them. */
static void fork_child(void)
{
	log_used = 0;
	for (unsigned i = 0; i < FAULT_COUNT_COUNT; i++)
		atomic_store(&counts[i], 0);
	for (unsigned i = 0; i < ntotals; i++) {
		atomic_store(&totals[i].matched, 0);
		atomic_store(&totals[i].acted, 0);
	}
	mutex_unlock(&report_lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {fork_prepare, fork_parent, fork_child};

	forks_add(FORK_REPORT, &handlers);
}

int fault_report_start(char *errbuf, size_t errlen)
{
	const char *path = secure_getenv("ROCEMU_IMPAIR_LOG");
	int err = 0;

	mutex_lock(&report_lock);
	if (path && *path && strcmp(path, log_path) != 0) {
		flush_locked();
		err = strlen(path) < sizeof(log_path) ? 0 : -ENAMETOOLONG;
		if (!err) {
			memcpy(log_path, path, strlen(path) + 1);
			err = write_log();
		}
		atomic_store(&logging, !err);
		if (err) {
			log_path[0] = '\0';
			snprintf(errbuf, errlen, "impairment: cannot write the log \"%s\": %s",
				 path, strerror(-err));
		}
	} else if (!path || !*path) {
		flush_locked();
		atomic_store(&logging, false);
		log_path[0] = '\0';
	}
	mutex_unlock(&report_lock);
	return err;
}
