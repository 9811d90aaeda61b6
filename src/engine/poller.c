/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/poller.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"

static _Thread_local pid_t self __attribute__((tls_model("initial-exec")));

void poller_forget(void)
{
	self = 0;
}

pid_t poller_self(void)
{
	if (!self)
		self = gettid();
	return self;
}

/* The clock of a thread of this process (Linux; <linux/posix-timers.h> of the kernel has the
 * layout). */
static clockid_t cpu_clock(pid_t tid)
{
	enum { PER_THREAD = 4, SCHED = 2 };

	return (clockid_t)(~(unsigned)tid << 3 | PER_THREAD | SCHED);
}

static bool is_ready(pid_t tid)
{
	char path[64], text[128];
	const char *state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	/* TID (NAME) STATE; a name may have brackets, and has 15 characters at most. */
	state = strrchr(text, ')');
	return state && state[1] == ' ' && state[2] == 'R';
}

bool poller_starves(struct poller *p, pid_t tid, uint64_t span_ns, bool polled)
{
	struct timespec ts;
	uint64_t cpu_ns, had;

	if (!tid || clock_gettime(cpu_clock(tid), &ts) < 0)
		return false;
	cpu_ns = (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
	had = tid == p->tid && cpu_ns >= p->cpu_ns ? cpu_ns - p->cpu_ns : span_ns;
	p->tid = tid;
	p->cpu_ns = cpu_ns;
	return !polled && had < span_ns / 4 && is_ready(tid);
}
