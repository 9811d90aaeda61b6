/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/poller.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/countfile.h"
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

/* ---- turns ---- */

enum {
	CPUS = 1024,	 /* in a machine with more, some share an entry */
	VAIN_YIELDS = 6, /* after which a poller is taken to be alone */
};

/* By processor, a cache line each: the poller that was there last. */
struct cpu {
	_Alignas(64) _Atomic pid_t tid;
};

static struct cpu private_cpus[CPUS];
static _Atomic(struct cpu *) cpus = private_cpus;

static _Thread_local struct {
	uint64_t since_ns; /* of its turn */
	unsigned yields;   /* in a row after which no other one had polled */
	bool shares;	   /* others had this processor */
} turn __attribute__((tls_model("initial-exec")));

void poller_share(int dir)
{
	struct cpu *shared;
	struct stat st;
	int fd;

	if (atomic_load(&cpus) != private_cpus)
		return;
	fd = openat(dir, "pollers", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    !countfile_reserve(fd, 0, sizeof(private_cpus))) {
		shared =
			mmap(NULL, sizeof(private_cpus), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (shared != MAP_FAILED)
			atomic_store(&cpus, shared);
	}
	close(fd);
}

struct poller_place poller_here(void)
{
	return (struct poller_place){poller_self(), (unsigned)sched_getcpu()};
}

static _Atomic pid_t *last_on(unsigned cpu)
{
	return &atomic_load_explicit(&cpus, memory_order_acquire)[cpu % CPUS].tid;
}

bool poller_is_displaced(struct poller_place p)
{
	return p.tid && atomic_load_explicit(last_on(p.cpu), memory_order_relaxed) != p.tid;
}

bool poller_takes_turns(void)
{
	return turn.shares;
}

HOT void poller_vain(struct poller_place me, uint64_t now_ns)
{
	if (poller_is_displaced(me)) {
		atomic_store_explicit(last_on(me.cpu), me.tid, memory_order_relaxed);
		turn.shares = true;
		turn.yields = 0;
		turn.since_ns = now_ns;
		return;
	}
	if (likely(!turn.shares) || (!turn.yields && now_ns - turn.since_ns < POLLER_TURN_NS))
		return;
	turn.shares = turn.yields++ < VAIN_YIELDS;
	turn.since_ns = now_ns;
	sched_yield();
}

/* ---- waits ---- */

/* The clock of a thread of this process (Linux; <linux/posix-timers.h> of the kernel has the
 * layout). */
static clockid_t cpu_clock(pid_t tid)
{
	enum { PER_THREAD = 4, SCHED = 2 };

	return (clockid_t)(~(unsigned)tid << 3 | PER_THREAD | SCHED);
}

static bool is_runnable(pid_t tid)
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

static bool read_cpu_time(struct poller *p, clockid_t clock, uint64_t now_ns)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts) < 0) {
		p->tid = 0;
		return false;
	}
	p->at_ns = now_ns;
	p->cpu_ns = (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
	return true;
}

void poller_note(struct poller *p, uint64_t now_ns)
{
	p->tid = poller_self();
	read_cpu_time(p, CLOCK_THREAD_CPUTIME_ID, now_ns);
}

bool poller_waits(struct poller *p, uint64_t now_ns)
{
	const struct poller last = *p;

	return last.tid && read_cpu_time(p, cpu_clock(last.tid), now_ns) &&
	       p->cpu_ns - last.cpu_ns < (now_ns - last.at_ns) / 4 && is_runnable(last.tid);
}
