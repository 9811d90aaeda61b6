/* SPDX-License-Identifier: BSD-2-Clause */
#include "steps.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

enum { MAY_NOT = 77 }; /* exit code: no tracing here */

void *steps_memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static void child(void (*work)(void *arg), void *arg)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(MAY_NOT);
	raise(SIGSTOP);
	work(arg);
	raise(SIGSTOP);
	_exit(0);
}

/** Let the child go on. @return whether it stands again, and by which signal, or has ended. */
static int go(pid_t pid, enum __ptrace_request how)
{
	int status;

	assert_int_equal(ptrace(how, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

void steps_run(void (*work)(void *arg), void (*seen)(void *arg), void *arg)
{
	const pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid)
		child(work, arg);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == MAY_NOT)
		skip();
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL), 0);
	do {
		status = go(pid, PTRACE_SINGLESTEP);
		seen(arg);
	} while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	status = go(pid, PTRACE_CONT);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
