/* SPDX-License-Identifier: BSD-2-Clause */
#include "drive.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "count.h"
#include "test.h"

enum {
	WARM_UP = 3,   /* runs until everything that is made once is there */
	GUARD_S = 120, /* of a section's run */
	PROBLEMS_SHOWN = 200,
	BASE_MS = 200, /* in which a first client's descriptors are closed */
	WAIT_MS = 60000,
	LAST = 3, /* runs without a fault in a row: there is no further call. Of a thread's calls
		     there are sometimes fewer. */
};

static const struct count anything = {1000000, 1000000, 1000000, 1000000};

struct drive {
	const char *section, *means;
	bool faults;	  /* armed at the start */
	bool descriptors; /* the limit is the fault */
	enum fault_mode mode;
	unsigned long nth;
	bool stopped;
	const char *call; /* the first that failed */
	int error;
	unsigned problems; /* of all runs */
	bool settled;	   /* before is what there may be */
	struct count before;
};

static struct drive *current;	      /* for the handler of a crash or a hang */
static rlim_t limit;		      /* of descriptors, without faults */
static struct fault_control *control; /* whose calls fail */
static const struct drive_others
	*others; /* processes that have the control; NULL: this one has it */

/* ---- reports ---- */

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void describe(const struct drive *d, char *buf, size_t len)
{
	const struct fault_control *c = control;

	if (!d->faults)
		snprintf(buf, len, "%s without faults, after the %lu. (%s)", d->section, d->nth,
			 d->means);
	else if (d->descriptors)
		snprintf(buf, len, "%s with %lu free descriptors", d->section, d->nth);
	else
		snprintf(buf, len, "%s: %s, call %lu, %s by %s", d->section, d->means, d->nth,
			 c->name, c->where);
}

void drive_problem(struct drive *d, const char *fmt, ...)
{
	const bool armed = atomic_load(&control->armed);
	char what[400];
	va_list ap;

	fault_disarm(control);
	if (d->problems++ < PROBLEMS_SHOWN) {
		describe(d, what, sizeof(what));
		fprintf(stderr, "%s: ", what);
		va_start(ap, fmt);
		vfprintf(stderr, fmt, ap);
		va_end(ap);
		fputc('\n', stderr);
	}
	atomic_store(&control->armed, armed);
}

static void on_signal(int number)
{
	char text[500];
	void *frames[40];

	fault_disarm(control);
	if (current) {
		describe(current, text, sizeof(text) - 1);
		dprintf(STDERR_FILENO, "%s: %s\n", text, number == SIGALRM ? "hangs" : "crashed");
	}
	backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
	signal(number, SIG_DFL);
	raise(number == SIGALRM ? SIGABRT : number);
	signal(SIGABRT, SIG_DFL);
	abort();
}

/* ---- runs ---- */

bool drive_stopped(const struct drive *d)
{
	return d->stopped;
}

static void end_fault(struct drive *d)
{
	fault_disarm(control);
	if (d->descriptors)
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit, limit});
}

static void check_error(struct drive *d, const char *call, int error)
{
	const struct fault_control *c = control;
	const int want = d->descriptors ? EMFILE : others ? error : atomic_load(&c->error);

	if (!d->faults || (!d->descriptors && !atomic_load(&c->failed)))
		drive_problem(d, "%s: %s, without a fault", call, strerror(error));
	/* What pthread_create() makes of it. */
	else if (error == EAGAIN && want == ENOMEM &&
		 (d->mode == FAULT_ALWAYS || strstr(c->where, "ld-linux")))
		return;
	else if (error != want)
		drive_problem(d, "%s: %s, not %s", call, strerror(error), strerror(want));
}

void drive_recover(struct drive *d)
{
	if (d->descriptors || atomic_load(&control->failed))
		end_fault(d);
}

int drive_poll(struct drive *d, drive_poll_fn *fn, struct pollfd *p, nfds_t n)
{
	int r = 0;

	for (int ms = 0; ms < WAIT_MS && r <= 0; ms += DRIVE_PATIENCE_MS) {
		r = fn(p, n, DRIVE_PATIENCE_MS);
		if (r <= 0)
			drive_recover(d);
	}
	return r;
}

bool drive_call_failed(struct drive *d, const char *call, int error)
{
	check_error(d, call, error);
	if (d->call)
		drive_problem(d, "%s failed without faults: %s", call, strerror(error));
	else
		d->call = call;
	d->error = error;
	if (d->faults && d->mode == FAULT_ONCE && d->call == call) {
		end_fault(d);
		return true;
	}
	d->stopped = true;
	return false;
}

void drive_call_ended(struct drive *d, const char *call, int error)
{
	check_error(d, call, error);
	d->call = call;
	d->error = error;
	end_fault(d);
	d->stopped = true;
}

void drive_give_up(struct drive *d, const char *why, int error)
{
	if (!d->faults || (!d->descriptors && !atomic_load(&control->failed)))
		drive_problem(d, "%s: %d", why, error);
	d->stopped = true;
}

static void run(struct drive *d, drive_section_fn *section)
{
	struct count after;

	d->stopped = false;
	d->call = NULL;
	alarm(GUARD_S);
	section(d);
	end_fault(d);
	after = count_settled(&d->before);
	alarm(0);
	if (after.fds > d->before.fds || after.threads > d->before.threads ||
	    after.maps > d->before.maps || after.blocks > d->before.blocks) {
		drive_problem(d,
			      "left behind: %ld descriptors, %ld threads, %ld blocks, %ld mappings",
			      after.fds - d->before.fds, after.threads - d->before.threads,
			      after.blocks - d->before.blocks, after.maps - d->before.maps);
		fault_live_print();
		count_print_descriptors();
	}
	/* Connections to the agent come again later: the most that there may be stays. */
	d->before = d->settled ? count_most(&d->before, &after) : after;
	fault_live_mark();
}

static void run_clean(struct drive *d, drive_section_fn *section)
{
	d->faults = false;
	run(d, section);
}

static void watch_signals(void)
{
	static const int numbers[] = {SIGALRM, SIGABRT, SIGSEGV, SIGBUS};

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		signal(numbers[i], on_signal);
}

static void start_watching(struct drive *d)
{
	static const char *const ours[] = {"libibverbs", "librdmacm", "libev.so", NULL};
	static bool watched;
	struct rlimit now;

	if (!control)
		control = fault_control();
	if (!watched)
		fault_watch(ours);
	watched = true;
	watch_signals();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
	limit = now.rlim_cur;
	current = d;
}

static void start(struct drive *d, drive_section_fn *section)
{
	start_watching(d);
	d->means = "start";
	d->before = anything;
	for (unsigned i = 0; i < WARM_UP; i++)
		run_clean(d, section);
	d->settled = true;
	if (d->problems)
		fail_msg("%s does not work without faults", d->section);
}

static void finish(struct drive *d)
{
	current = NULL;
	if (d->problems)
		fail_msg("%s: %u problems", d->section, d->problems);
}

static unsigned long setting(const char *name)
{
	const char *env = getenv(name);

	return env ? strtoul(env, NULL, 10) : 1;
}

/* From one fault to the next. */
static unsigned long stride(void)
{
	return setting("ROCEMU_TEST_STRIDE");
}

/* The fault to begin with. */
static unsigned long first(void)
{
	return setting("ROCEMU_TEST_FROM");
}

/* @return calls that were made to fail. */
static unsigned long run_mode(struct drive *d, drive_section_fn *section, enum fault_mode mode)
{
	struct fault_control *c = control;
	unsigned long done = 0;
	unsigned without = 0;

	d->mode = mode;
	d->means = mode == FAULT_ONCE ? "once" : "from then on";
	for (d->nth = first(); without < LAST; d->nth += stride()) {
		const long begin = now_ms();

		d->faults = true;
		fault_arm(c, mode, d->nth);
		run(d, section);
		without = atomic_load(&c->failed) ? 0 : without + 1;
		done += !without;
		if (getenv("ROCEMU_TEST_VERBOSE"))
			fprintf(stderr, "%s %lu: %s by %s: %s: %s, %ld ms\n", d->means, d->nth,
				c->name, c->where, d->call ? d->call : "nothing failed",
				d->call ? strerror(d->error) : "", now_ms() - begin);
		if (d->stopped || d->call)
			run_clean(d, section);
	}
	return done;
}

void drive_all(const char *name, drive_section_fn *section)
{
	struct drive d = {.section = name};
	unsigned long n;

	start(&d, section);
	n = run_mode(&d, section, FAULT_ONCE);
	print_message("%s: %lu calls failed once\n", name, n);
	n = run_mode(&d, section, FAULT_ALWAYS);
	print_message("%s: %lu calls failed, and those of their kind after them\n", name, n);
	finish(&d);
}

void drive_control(struct fault_control *c, const struct drive_others *o)
{
	control = c;
	others = o;
}

/* The processes that have the control live, and have the descriptors that they have without a
 * fault; 0: see how many. */
static void check_others(struct drive *d, const pid_t pids[], long fds[])
{
	const struct timespec pause = {.tv_nsec = 1000000};
	char path[64];

	for (unsigned i = 0; i < DRIVE_OTHERS; i++) {
		long now = 0;

		snprintf(path, sizeof(path), "/proc/%d/fd", (int)pids[i]);
		if (waitpid(pids[0], NULL, WNOHANG) != 0 || access(path, F_OK) != 0)
			fail_msg("%s: call %lu, %s by %s: a process has ended", d->section, d->nth,
				 control->name, control->where);
		for (unsigned ms = 0; ms < COUNT_SETTLE_MS; ms++) {
			now = count_entries(path);
			if (now <= fds[i] || (!fds[i] && ms == BASE_MS))
				break;
			nanosleep(&pause, NULL);
		}
		if (fds[i] && now > fds[i])
			drive_problem(d, "process %d has %ld descriptors more", (int)pids[i],
				      now - fds[i]);
		if (!fds[i])
			fds[i] = now;
	}
}

/* What a process that ran the section twice has; of all processes the same. */
struct fresh {
	struct count count;
	bool fired;
};

static void run_child(struct drive *d, drive_section_fn *section, enum fault_mode mode,
		      struct fresh *out)
{
	struct fault_control *c = control;

	d->mode = mode;
	d->faults = d->nth > 0;
	d->before = anything;
	if (d->faults)
		fault_arm(c, mode, d->nth);
	run(d, section);
	out->fired = atomic_load(&c->failed) > 0;
	d->before = anything;
	run_clean(d, section);
	if (d->nth > 0 && !others && count_is_more(&d->before, &out->count)) {
		const struct count now = count_settled(&out->count), want = out->count;

		if (count_is_more(&now, &want))
			drive_problem(d,
				      "more than without faults: %ld descriptors, %ld threads, "
				      "%ld blocks, %ld mappings",
				      now.fds - want.fds, now.threads - want.threads,
				      now.blocks - want.blocks, now.maps - want.maps);
	} else if (d->nth == 0) {
		out->count = d->before;
	}
}

/* @return whether a fault came. */
static bool fork_child(struct drive *d, drive_section_fn *section, enum fault_mode mode,
		       struct fresh *shared)
{
	const long start = now_ms();
	const pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		d->problems = 0;
		run_child(d, section, mode, shared);
		_exit(d->problems > 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		d->problems++;
	if (getenv("ROCEMU_TEST_VERBOSE"))
		fprintf(stderr, "%s %lu: %s by %s: %ld ms\n",
			mode == FAULT_ONCE ? "once" : "from then on", d->nth, control->name,
			control->where, now_ms() - start);
	if (WIFSIGNALED(status))
		fprintf(stderr, "%s: call %lu: the process ended by signal %d\n", d->section,
			d->nth, WTERMSIG(status));
	return shared->fired;
}

static bool fork_with_others(struct drive *d, drive_section_fn *section, enum fault_mode mode,
			     struct fresh *shared, long fds[])
{
	const unsigned long nth = d->nth;
	pid_t pids[DRIVE_OTHERS];
	bool fired;

	others->start(pids);
	fired = fork_child(d, section, mode, shared);
	fault_disarm(control);
	d->nth = 0;
	fork_child(d, section, mode, shared);
	d->nth = nth;
	check_others(d, pids, fds);
	alarm(GUARD_S);
	others->stop();
	alarm(0);
	return fired;
}

void drive_fresh(const char *name, drive_section_fn *section)
{
	struct drive d = {.section = name, .means = "new process"};
	struct fresh *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long fds[DRIVE_OTHERS] = {0};
	unsigned long n = 0;

	assert_ptr_not_equal(shared, MAP_FAILED);
	start_watching(&d);
	if (others)
		fork_with_others(&d, section, FAULT_ONCE, shared, fds);
	else
		fork_child(&d, section, FAULT_ONCE, shared);
	for (unsigned i = 0; i < 2; i++) {
		const enum fault_mode mode = i ? FAULT_ALWAYS : FAULT_ONCE;
		unsigned without = 0;

		for (d.nth = first(); without < LAST; d.nth += stride(), n += !without) {
			const bool fired = others ? fork_with_others(&d, section, mode, shared, fds)
						  : fork_child(&d, section, mode, shared);

			without = fired ? 0 : without + 1;
		}
	}
	munmap(shared, sizeof(*shared));
	print_message("%s: %lu processes with a fault\n", name, n);
	finish(&d);
}

/* The limit below which so many numbers are free. */
static rlim_t limit_for(unsigned long descriptors_free)
{
	rlim_t at = 0;

	for (unsigned long found = 0; found < descriptors_free; at++)
		found += fcntl((int)at, F_GETFD) < 0;
	return at;
}

void drive_descriptors(const char *name, drive_section_fn *section)
{
	struct drive d = {.section = name, .descriptors = true};
	bool failed = true;

	start(&d, section);
	for (unsigned mode = 0; mode < 2; mode++)
		for (d.nth = 0, failed = true; failed; d.nth++) {
			const rlim_t now = limit_for(d.nth);

			d.mode = mode ? FAULT_ALWAYS : FAULT_ONCE;
			d.faults = true;
			assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){now, limit}), 0);
			run(&d, section);
			failed = d.call || d.stopped;
			if (failed)
				run_clean(&d, section);
		}
	print_message("%s: works with %lu descriptors\n", name, d.nth - 1);
	finish(&d);
}
