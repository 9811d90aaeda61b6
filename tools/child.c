/* SPDX-License-Identifier: BSD-2-Clause */
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cli.h"
#include "base/util.h"
#include "tool.h"

enum { EXIT_CANNOT_EXEC = 126, EXIT_NOT_FOUND = 127 }; /* as shells and env(1) have it */

int child_exec(const char *self, char **argv)
{
	int ret;

	cli_before_exec();
	execvp(argv[0], argv);
	ret = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXEC;
	fprintf(stderr, "%s: cannot run \"%s\": %s\n", self, argv[0], strerror(errno));
	return ret;
}

static volatile sig_atomic_t child;

/* Signals sent to this process are for the program. */
static void pass_on(int sig)
{
	const int saved = errno;

	if (child > 0)
		kill((pid_t)child, sig);
	errno = saved;
}

static const int passed[] = {SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
/* A terminal sends these to the program as well. */
static const int keys[] = {SIGINT, SIGQUIT};

/* What the program is to have; blocked until the child's ID is known. */
struct signals {
	struct sigaction passed[ARRAY_LEN(passed)], keys[ARRAY_LEN(keys)];
	sigset_t mask;
};

static void take_signals(struct signals *before)
{
	struct sigaction pass = {.sa_handler = pass_on, .sa_flags = SA_RESTART},
			 ignore = {.sa_handler = SIG_IGN};
	/* Without a terminal they come from a container's engine, to process 1 alone. */
	const bool alone = getpid() == 1 && !isatty(STDIN_FILENO);
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before->mask);
	for (unsigned i = 0; i < ARRAY_LEN(passed); i++)
		sigaction(passed[i], &pass, &before->passed[i]);
	for (unsigned i = 0; i < ARRAY_LEN(keys); i++)
		sigaction(keys[i], alone ? &pass : &ignore, &before->keys[i]);
}

static void give_signals(const struct signals *before)
{
	for (unsigned i = 0; i < ARRAY_LEN(passed); i++)
		sigaction(passed[i], &before->passed[i], NULL);
	for (unsigned i = 0; i < ARRAY_LEN(keys); i++)
		sigaction(keys[i], &before->keys[i], NULL);
	sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

int child_end_as(int status)
{
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0}); /* its core is there already */
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

int child_run(const char *self, char **argv, int *status)
{
	struct signals before;
	pid_t pid, ended;

	take_signals(&before);
	pid = fork();
	if (pid == 0) {
		give_signals(&before);
		_exit(child_exec(self, argv));
	}
	child = pid;
	sigprocmask(SIG_SETMASK, &before.mask, NULL);
	if (pid < 0) {
		fprintf(stderr, "%s: fork: %s\n", self, strerror(errno));
		return TOOL_FAILED;
	}
	while ((ended = waitpid(-1, status, 0)) != pid)
		if (ended < 0 && errno != EINTR)
			return TOOL_FAILED;
	child = 0;
	return TOOL_OK;
}
