/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/forks.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/sigwrite.h"
#include "base/thread.h"

enum {
	EVENTS = 8192,		  /* in a buffer */
	EVENTS_SOON = EVENTS / 2, /* this many wake the thread */
	LINE_LEN = 1024, /* more than an event needs: all names are defined in rocemu, and short */
	TEXT_LEN = 1 << 16, /* of a write call */
};

struct event {
	const struct trace_kind *kind;
	const char *name;
	uint64_t when_ns, id, arg[TRACE_ARGS];
	uint32_t track;
};

struct buffer {
	unsigned n;
	struct event event[EVENTS];
};

atomic_bool trace_is_on;

/* The writer holds this lock and takes the other one under it. */
static struct mutex write_lock = MUTEX_INITIALIZER;
static int fd = -1;	       /* owned; guarded by write_lock */
static char text[TEXT_LEN];    /* guarded by write_lock */
static struct buffer *writing; /* owned; guarded by write_lock */

static struct mutex buffer_lock = MUTEX_INITIALIZER;
static struct buffer *recording; /* owned; guarded by buffer_lock, exchanged with both locks held */
static bool have_thread, ending; /* guarded by buffer_lock */
static pthread_cond_t soon = PTHREAD_COND_INITIALIZER;
static pthread_t thread;

uint64_t trace_now(void)
{
	return monotonic_ns();
}

/* ---- text; all with write_lock held ---- */

static void stop(int err)
{
	char limit[LIMIT_TEXT_LEN];

	atomic_store(&trace_is_on, false);
	log_error("timeline: %s: %s; it ends here%s", secure_getenv("ROCEMU_TRACE"), strerror(err),
		  limit_text(-err, limit));
	close(fd);
	fd = -1;
}

static void put(const char *from, size_t len)
{
	while (len && fd >= 0) {
		ssize_t n = sigwrite(fd, from, len);

		if (n < 0 && errno != EINTR)
			stop(errno);
		if (n > 0) {
			from += n;
			len -= (size_t)n;
		}
	}
}

/* Events are many: snprintf() would take most of the time. Names and texts are of characters that
 * JSON takes as they are. */
static char *put_text(char *to, const char *from)
{
	while (*from)
		*to++ = *from++;
	return to;
}

static char *put_number(char *to, uint64_t n, unsigned base)
{
	char digits[20];
	unsigned len = 0;

	do
		digits[len++] = "0123456789abcdef"[n % base];
	while (n /= base);
	while (len)
		*to++ = digits[--len];
	return to;
}

/* Microseconds. */
static char *put_time(char *to, uint64_t ns)
{
	to = put_number(to, ns / 1000, 10);
	*to++ = '.';
	*to++ = (char)('0' + ns / 100 % 10);
	*to++ = (char)('0' + ns / 10 % 10);
	*to++ = (char)('0' + ns % 10);
	return to;
}

static char *put_hex(char *to, uint64_t n)
{
	return put_text(put_number(put_text(to, "\"0x"), n, 16), "\"");
}

static char *put_arg(char *to, const char *name, uint64_t value)
{
	const char kind = name[1] == ':' ? name[0] : 0;

	to = put_text(put_text(put_text(to, "\""), kind ? name + 2 : name), "\":");
	if (kind == 'x')
		return put_hex(to, value);
	if (kind == 's')
		return put_text(put_text(put_text(to, "\""), (const char *)(uintptr_t)value), "\"");
	return put_number(to, value, 10);
}

/* @return length. */
static size_t format(const struct event *e, unsigned pid, char line[static LINE_LEN])
{
	const struct trace_kind *k = e->kind;
	char *to = put_text(put_text(put_text(line, "{\"name\":\""), k->prefix), e->name);

	to = put_text(put_text(put_text(to, "\",\"cat\":\""), k->category), "\",\"ph\":\"");
	*to++ = (char)k->phase;
	to = put_time(put_text(to, "\",\"ts\":"), e->when_ns);
	to = put_number(put_text(to, ",\"pid\":"), pid, 10);
	to = put_number(put_text(to, ",\"tid\":"), e->track, 10);
	if (k->phase == TRACE_INSTANT)
		to = put_text(to, ",\"s\":\"t\"");
	else
		to = put_text(put_hex(put_text(to, ",\"id2\":{\"local\":"), e->id), "}");
	for (unsigned i = 0; i < TRACE_ARGS && k->arg[i]; i++)
		to = put_arg(put_text(to, i ? "," : ",\"args\":{"), k->arg[i], e->arg[i]);
	to = put_text(to, k->arg[0] ? "}},\n" : "},\n");
	return (size_t)(to - line);
}

static void write_buffer(const struct buffer *b)
{
	const unsigned pid = (unsigned)getpid();
	size_t used = 0;

	for (unsigned i = 0; i < b->n; i++) {
		if (TEXT_LEN - used < LINE_LEN) {
			put(text, used);
			used = 0;
		}
		used += format(&b->event[i], pid, text + used);
	}
	put(text, used);
}

/* What was recorded so far. */
static void flush_locked(void)
{
	struct buffer *b;

	mutex_lock(&buffer_lock);
	b = recording;
	recording = writing;
	writing = b;
	mutex_unlock(&buffer_lock);
	if (!b)
		return;
	write_buffer(b);
	b->n = 0;
}

void trace_flush(void)
{
	MUTEX_HELD(&write_lock);
	flush_locked();
}

static void write_title(const char *what, uint32_t track, const char *title)
{
	char line[LINE_LEN], safe[128];
	size_t n = 0;

	for (; title[n] && n < sizeof(safe) - 1; n++)
		safe[n] = title[n] < ' ' || title[n] > '~' || strchr("\"\\", title[n]) ? '?'
										       : title[n];
	safe[n] = 0;
	put(line, (size_t)snprintf(line, sizeof(line),
				   "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%" PRIu32
				   ",\"args\":{\"name\":\"%s\"}},\n",
				   what, (int)getpid(), track, safe));
}

void trace_title(uint32_t track, const char *title)
{
	if (!trace_on())
		return;
	MUTEX_HELD(&write_lock);
	write_title("thread_name", track, title);
}

/* ---- recording ---- */

void trace_add(const struct trace_kind *kind, const char *name, uint64_t when_ns, uint32_t track,
	       uint64_t id, const uint64_t *arg)
{
	struct event *e;

	mutex_lock(&buffer_lock);
	while (recording->n == EVENTS) {
		mutex_unlock(&buffer_lock);
		trace_flush();
		mutex_lock(&buffer_lock);
	}
	e = &recording->event[recording->n++];
	*e = (struct event){
		.kind = kind, .name = name, .when_ns = when_ns, .id = id, .track = track};
	for (unsigned i = 0; i < TRACE_ARGS && kind->arg[i]; i++)
		e->arg[i] = arg[i];
	if (recording->n == EVENTS_SOON)
		pthread_cond_signal(&soon);
	mutex_unlock(&buffer_lock);
}

static void *thread_main(void *unused)
{
	bool end = false;

	while (!end) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += TRACE_FLUSH_MS * 1000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		mutex_lock(&buffer_lock);
		if (!ending && recording->n < EVENTS_SOON) {
			const int before = buffer_lock.before;

			pthread_cond_clockwait(&soon, &buffer_lock.m, CLOCK_MONOTONIC, &until);
			buffer_lock.before = before;
		}
		end = ending;
		mutex_unlock(&buffer_lock);
		trace_flush();
	}
	return unused;
}

/* ---- beginning and end ---- */

/*
 * Truncates the file unless another process has it open; the first process writes the bracket that
 * opens the list.
 */
static int open_file(const char *path)
{
	int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	struct stat st;

	if (file < 0)
		return -errno;
	if (flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &st) == 0 && st.st_size == 0 &&
	    sigwrite(file, "[\n", 2) != 2) {
		const int err = errno;

		close(file);
		return -err;
	}
	/* Marks the file as in use for other processes; kept until the process ends. */
	flock(file, LOCK_SH);
	return file;
}

static int start_thread(void)
{
	const int err = thread_start(&thread, "rocemu-trace", thread_main, NULL);

	have_thread = !err;
	return err;
}

static int begin(const char *path)
{
	char name[32] = "";

	for (struct buffer **b = &recording; b; b = b == &recording ? &writing : NULL)
		if (!*b && !(*b = calloc(1, sizeof(**b))))
			return -ENOMEM;
	if (fd < 0)
		fd = open_file(path);
	if (fd < 0)
		return fd;
	prctl(PR_GET_NAME, name);
	write_title("process_name", 0, name);
	write_title("thread_name", TRACE_TRACK_GSI, "QP 1: connection management");
	write_title("thread_name", TRACE_TRACK_TIMERS, "timers");
	write_title("thread_name", TRACE_TRACK_LATE, "packets sent late (--impair)");
	return start_thread();
}

void trace_start(void)
{
	const char *path = secure_getenv("ROCEMU_TRACE");
	int err;

	if (!path || !*path)
		return;
	MUTEX_HELD(&write_lock);
	if (have_thread)
		return;
	err = begin(path);
	if (err < 0)
		log_error("timeline: cannot write \"%s\": %s", path, strerror(-err));
	else
		atomic_store(&trace_is_on, true);
}

bool trace_works_at_exit(void)
{
	/* In this order: who has write_lock may be waiting for the other one. */
	return mutex_works_at_exit(&buffer_lock) && mutex_works_at_exit(&write_lock);
}

__attribute__((destructor)) static void finish(void)
{
	/* The thread takes both to write the rest. */
	if (!have_thread || !trace_works_at_exit())
		return;
	mutex_lock(&buffer_lock);
	ending = true;
	pthread_cond_signal(&soon);
	mutex_unlock(&buffer_lock);
	pthread_join(thread, NULL);
	have_thread = false;
}

static void fork_prepare(void)
{
	mutex_lock(&write_lock);
	mutex_lock(&buffer_lock);
}

static void fork_parent(void)
{
	mutex_unlock(&buffer_lock);
	mutex_unlock(&write_lock);
}

/*
 * The parent writes what it recorded. The child records into the same file once it opens a device.
 */
static void fork_child(void)
{
	if (recording)
		recording->n = 0;
	atomic_store(&trace_is_on, false);
	have_thread = false;
	pthread_cond_init(&soon, NULL);
	fork_parent();
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {fork_prepare, fork_parent, fork_child};

	forks_add(FORK_TRACE, &handlers);
}
