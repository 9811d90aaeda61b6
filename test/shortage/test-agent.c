/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory, descriptors and other means run out in the agent, while new processes connect by it: it
 * goes on, keeps nothing of them, and the next call works.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "drive.h"
#include "netns.h"
#include "sections.h"

enum { PARTS = 16 }; /* each with an agent of its own, at once: most of the time they wait */

static struct fault_control *control;
static char control_file[] = "/tmp/rocemu-fault-XXXXXX";
static pid_t agent; /* its holder, which is to live as long as its worker */
static pid_t worker;
static unsigned long ticks; /* of CPU time: of all agents so far */

static void make_control(void)
{
	const int fd = mkstemp(control_file);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(*control)), 0);
	control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(control, MAP_FAILED);
	close(fd);
}

static pid_t find_worker(void)
{
	FILE *f = popen("\"$ROCEMU_AGENT_BIN\" --status --json", "re");
	char text[4096] = "";
	const char *at;

	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	pclose(f);
	at = strstr(text, "\"pid\": ");
	assert_non_null(at);
	return (pid_t)strtol(at + strlen("\"pid\": "), NULL, 10);
}

/* CPU time of the process so far, in clock ticks. */
static unsigned long cpu_time(pid_t pid)
{
	unsigned long user = 0, system = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f,
				"%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
				&user, &system),
			 2);
	fclose(f);
	return user + system;
}

static void start_agent(pid_t pids[DRIVE_OTHERS])
{
	agent = fork();
	if (agent == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		setenv("FAULT_CONTROL", control_file, 1);
		setenv("LD_PRELOAD", getenv("FAULT_LIBRARY"), 1);
		execl(getenv("ROCEMU_AGENT_BIN"), "rocemu-agent", "--foreground", "--idle-timeout",
		      "0", NULL);
		_exit(127);
	}
	assert_true(agent > 0);
	/* It has the control by the time that it answers. */
	while (system("\"$ROCEMU_AGENT_BIN\" --status >/dev/null 2>&1") != 0)
		assert_int_equal(waitpid(agent, NULL, WNOHANG), 0);
	worker = find_worker();
	assert_true(worker > 0 && worker != agent);
	pids[0] = agent;
	pids[1] = worker;
}

static void stop_agent(void)
{
	struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, worker, 0), .events = POLLIN};
	int status;

	assert_true(end.fd >= 0);
	ticks += cpu_time(agent) + cpu_time(worker);
	kill(agent, SIGTERM);
	assert_int_equal(waitpid(agent, &status, 0), agent);
	assert_int_equal(status, 0);
	/* It has the agent's name until then. */
	assert_int_equal(poll(&end, 1, -1), 1);
	close(end.fd);
}

static const struct drive_others agents = {start_agent, stop_agent};

static void set_number(const char *name, unsigned value)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", value);
	setenv(name, number, 1);
}

static void run_part(void)
{
	const time_t begin = time(NULL);
	time_t wall;

	netns_enter();
	make_control();
	drive_control(control, &agents);
	drive_fresh("connection by the agent", section_connection);
	unlink(control_file);
	/* One that spins takes all that it can get. */
	wall = time(NULL) - begin + 1;
	if (ticks > (unsigned long)(wall * sysconf(_SC_CLK_TCK)) / 2)
		fail_msg("the agents took %lu ticks in %ld s", ticks, (long)wall);
}

TEST(agent, any_call_in_it_fails__lives_and_later_calls_work)
{
	unsigned failed = 0;
	int status;

	setenv("ROCEMU_TIME_SCALE", "100", 1);
	if (getenv("ROCEMU_TEST_FROM")) {
		run_part();
		return;
	}
	netns_enter();
	set_number("ROCEMU_TEST_STRIDE", PARTS);
	for (unsigned part = 1; part <= PARTS; part++) {
		const pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			set_number("ROCEMU_TEST_FROM", part); /* and each PARTS-th */
			run_part();
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		failed += status != 0;
	assert_int_equal(failed, 0);
}
