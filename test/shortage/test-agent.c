/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory, descriptors and other means run out in the agent, while new processes connect by it: it
 * goes on, keeps nothing of them, and the next call works.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "drive.h"
#include "netns.h"
#include "sections.h"

static struct fault_control *control;
static pid_t agent;

static void start_agent(void)
{
	char file[] = "/tmp/rocemu-fault-XXXXXX";
	const int fd = mkstemp(file);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(*control)), 0);
	control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(control, MAP_FAILED);
	agent = fork();
	if (agent == 0) {
		setenv("FAULT_CONTROL", file, 1);
		setenv("LD_PRELOAD", getenv("FAULT_LIBRARY"), 1);
		execl(getenv("ROCEMU_AGENT_BIN"), "rocemu-agent", "--foreground", "--idle-timeout",
		      "0", NULL);
		_exit(127);
	}
	assert_true(agent > 0);
	/* It has the control by the time that it answers. */
	while (system("\"$ROCEMU_AGENT_BIN\" --status >/dev/null 2>&1") != 0)
		assert_int_equal(waitpid(agent, NULL, WNOHANG), 0);
	close(fd);
	unlink(file);
}

static void stop_agent(void)
{
	fault_disarm(control);
	kill(agent, SIGTERM);
	waitpid(agent, NULL, 0);
}

/* CPU time of the agent so far, in clock ticks. */
static unsigned long cpu_time(void)
{
	unsigned long user = 0, system = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)agent);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f,
				"%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
				&user, &system),
			 2);
	fclose(f);
	return user + system;
}

TEST(agent, any_call_in_it_fails__lives_and_later_calls_work)
{
	time_t begin, wall;
	unsigned long ticks;

	netns_enter_once();
	setenv("ROCEMU_TIME_SCALE", "100", 1);
	start_agent();
	drive_control(control, agent);
	begin = time(NULL);
	drive_fresh("connection by the agent", section_connection);
	wall = time(NULL) - begin + 1;
	ticks = cpu_time();
	stop_agent();
	/* One that spins takes all that it can get. */
	if (ticks > (unsigned long)(wall * sysconf(_SC_CLK_TCK)) / 2)
		fail_msg("the agent took %lu ticks in %ld s", ticks, (long)wall);
}
