/* SPDX-License-Identifier: BSD-2-Clause */
#include "drive.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

enum {
	WARM_UP = 3,   /* runs until everything that is made once is there */
	GUARD_S = 120, /* of a section's run */
	PROBLEMS_SHOWN = 200,
	SETTLE_MS = 5000,
};

/* The whole takes too long with a sanitizer, and where each fault has a process of its own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRIDE = 7, FRESH_STRIDE = 31 };
#else
enum { STRIDE = 1, FRESH_STRIDE = 7 };
#endif

struct count {
	long fds, threads, blocks, maps;
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

static struct drive *current; /* for the handler of a crash or a hang */
static rlim_t limit;	      /* of descriptors, without faults */
static bool keep_send_sockets;
static struct fault_control *control; /* whose calls fail */
static pid_t other;		      /* the process that has the control; 0: this one */

/* ---- reports ---- */

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

/* ---- what there is ---- */

static long entries(const char *directory)
{
	DIR *dir = opendir(directory);
	long n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static bool is_send_socket(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int type, type_is = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &(socklen_t){sizeof(type)});

	if (type_is < 0 || type != SOCK_DGRAM || getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return false;
	return (sa.ss_family == AF_INET || sa.ss_family == AF_INET6) &&
	       (ntohs(((struct sockaddr_in *)&sa)->sin_port) >= 0xc000 ||
		ntohs(((struct sockaddr_in *)&sa)->sin_port) == 4791);
}

static long descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *e;
	long n = 0;

	assert_non_null(dir);
	while ((e = readdir(dir)))
		n += !keep_send_sockets || !is_send_socket(atoi(e->d_name));
	closedir(dir);
	return n;
}

static void print_descriptors(void)
{
	char link[64], target[200];

	for (int fd = 3; fd < 200; fd++) {
		struct sockaddr_in sa = {0};
		socklen_t len = sizeof(sa);
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, target, sizeof(target));
		if (n <= 0)
			continue;
		if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
			sa.sin_family = 0;
		fprintf(stderr, "    descriptor %d: %.*s family %d port %d\n", fd, (int)n, target,
			sa.sin_family, ntohs(sa.sin_port));
	}
}

void drive_keep_send_sockets(void)
{
	keep_send_sockets = true;
}

static struct count take_count(void)
{
	const struct fault_live live = fault_live();

	return (struct count){
		.fds = descriptors(),
		.threads = entries("/proc/self/task"),
		.blocks = live.blocks,
		.maps = live.maps,
	};
}

static bool count_is_more(const struct count *now, const struct count *before)
{
	return now->fds > before->fds || now->threads > before->threads ||
	       now->blocks > before->blocks || now->maps > before->maps;
}

static struct count count_most(const struct count *a, const struct count *b)
{
	return (struct count){
		.fds = a->fds > b->fds ? a->fds : b->fds,
		.threads = a->threads > b->threads ? a->threads : b->threads,
		.blocks = a->blocks > b->blocks ? a->blocks : b->blocks,
		.maps = a->maps > b->maps ? a->maps : b->maps,
	};
}

/* A thread that was joined is in /proc for a moment longer; a peer's end takes its time. */
static struct count settled_count(const struct count *before)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct count now = take_count();

	for (unsigned ms = 0; ms < SETTLE_MS && count_is_more(&now, before); ms++) {
		nanosleep(&pause, NULL);
		now = take_count();
	}
	return now;
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
	const int want = d->descriptors ? EMFILE : other ? error : atomic_load(&c->error);

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
	end_fault(d);
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
	after = settled_count(&d->before);
	alarm(0);
	if (after.fds > d->before.fds || after.threads > d->before.threads ||
	    after.maps > d->before.maps || after.blocks > d->before.blocks) {
		drive_problem(d,
			      "left behind: %ld descriptors, %ld threads, %ld blocks, %ld mappings",
			      after.fds - d->before.fds, after.threads - d->before.threads,
			      after.blocks - d->before.blocks, after.maps - d->before.maps);
		fault_live_print();
		print_descriptors();
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

static unsigned long stride(unsigned long otherwise)
{
	const char *env = getenv("ROCEMU_TEST_STRIDE");

	return env ? strtoul(env, NULL, 10) : otherwise;
}

/* The fault to begin with. */
static unsigned long first(void)
{
	const char *env = getenv("ROCEMU_TEST_FROM");

	return env ? strtoul(env, NULL, 10) : 1;
}

/* @return calls that were made to fail. */
static unsigned long run_mode(struct drive *d, drive_section_fn *section, enum fault_mode mode)
{
	struct fault_control *c = control;
	unsigned long done = 0;
	bool any = true;

	d->mode = mode;
	d->means = mode == FAULT_ONCE ? "once" : "from then on";
	for (d->nth = first(); any; d->nth += stride(STRIDE), done += any) {
		d->faults = true;
		fault_arm(c, mode, d->nth);
		run(d, section);
		any = atomic_load(&c->failed) > 0;
		if (getenv("ROCEMU_TEST_VERBOSE"))
			fprintf(stderr, "%s %lu: %s by %s: %s: %s\n", d->means, d->nth, c->name,
				c->where, d->call ? d->call : "nothing failed",
				d->call ? strerror(d->error) : "");
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

void drive_control(struct fault_control *c, pid_t pid)
{
	control = c;
	other = pid;
}

/* The process that has the control lives, and has what it had when no child was there. */
static void check_other(struct drive *d, long *fds)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	char path[64];
	long now = 0;
	int status = 0;

	if (waitpid(other, &status, WNOHANG) != 0)
		fail_msg("%s: call %lu, %s by %s: the process has ended, status 0x%x", d->section,
			 d->nth, control->name, control->where, (unsigned)status);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)other);
	for (unsigned ms = 0; ms < SETTLE_MS; ms++) {
		now = entries(path);
		if (!*fds || now <= *fds)
			break;
		nanosleep(&pause, NULL);
	}
	if (*fds && now > *fds)
		drive_problem(d, "the process has %ld descriptors more", now - *fds);
	*fds = now > *fds ? now : *fds;
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
	if (d->nth > 0 && !other && count_is_more(&d->before, &out->count)) {
		const struct count now = settled_count(&out->count), want = out->count;

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
	if (WIFSIGNALED(status))
		fprintf(stderr, "%s: call %lu: the process ended by signal %d\n", d->section,
			d->nth, WTERMSIG(status));
	return shared->fired;
}

void drive_fresh(const char *name, drive_section_fn *section)
{
	struct drive d = {.section = name, .means = "new process"};
	struct fresh *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long n = 0;
	long fds = 0;

	assert_ptr_not_equal(shared, MAP_FAILED);
	start_watching(&d);
	fork_child(&d, section, FAULT_ONCE, shared);
	if (other)
		check_other(&d, &fds);
	for (unsigned mode = 0; mode < 2; mode++)
		for (d.nth = first();
		     fork_child(&d, section, mode ? FAULT_ALWAYS : FAULT_ONCE, shared);
		     d.nth += stride(FRESH_STRIDE), n++)
			if (other)
				check_other(&d, &fds);
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
