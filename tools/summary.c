/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "engine/portcount.h"
#include "stat-show.h"
#include "tool.h"

/* The columns; a value may be the sum of several. 0: no more. */
enum { TERMS = 3 };
#define VALUE(member) (offsetof(struct port_counts, member) / sizeof(uint64_t) + 1)
static const struct column {
	const char *name;
	size_t value[TERMS]; /* of a row, plus 1 */
} columns[] = {
	{"TX", {VALUE(ep.tx_packets)}},
	{"BYTES", {VALUE(ep.tx_bytes)}},
	{"RX", {VALUE(ep.rx_packets)}},
	{"BYTES", {VALUE(ep.rx_bytes)}},
	{"RETRY", {VALUE(ep.retransmits)}},
	{"TMO", {VALUE(ep.timeouts)}},
	{"PROBE", {VALUE(ep.probes)}},
	{"NAK<", {VALUE(ep.naks_rcvd), VALUE(ep.err_naks_rcvd)}},
	{"NAK>", {VALUE(ep.naks_sent), VALUE(ep.err_naks_sent)}},
	{"RNR<", {VALUE(ep.rnr_naks_rcvd)}},
	{"RNR>", {VALUE(ep.rnr_naks_sent)}},
	{"EARLY", {VALUE(ep.kept), VALUE(ep.kept_full)}},
	{"CNP<", {VALUE(ep.cnps_rcvd)}},
	{"DROP", {VALUE(lane.rx_sock_drops)}},
};

int summary_open(struct summary *s, const char *root, const struct netdev *devs, unsigned n)
{
	char path[PATH_MAX];

	s->dev = calloc(n + 1, sizeof(*s->dev));
	if (!s->dev)
		return -ENOMEM;
	for (s->n = 0; s->n < n; s->n++) {
		struct summary_device *d = &s->dev[s->n];

		snprintf(d->name, sizeof(d->name), "%s", devs[s->n].name);
		if (portcount_path(path, sizeof(path), root, d->name))
			d->file = countfile_map(path, false);
	}
	return 0;
}

static void print(const struct summary *s)
{
	char text[16];

	fprintf(stderr, "rocemu: %-16s", "device");
	for (unsigned i = 0; i < ARRAY_LEN(columns); i++)
		fprintf(stderr, " %5s", columns[i].name);
	fputc('\n', stderr);
	for (unsigned d = 0; d < s->n; d++) {
		if (!s->dev[d].file)
			continue;
		fprintf(stderr, "rocemu: %-16s", s->dev[d].name);
		for (unsigned i = 0; i < ARRAY_LEN(columns); i++) {
			uint64_t sum = 0;

			for (unsigned t = 0; t < TERMS && columns[i].value[t]; t++)
				sum += countfile_value(s->dev[d].file,
						       (unsigned)columns[i].value[t] - 1);
			fprintf(stderr, " %5s", stat_short(text, sum));
		}
		fputc('\n', stderr);
	}
}

/* ---- the program ---- */

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
/* The terminal sends these to the program as well. */
static const int ignored[] = {SIGINT, SIGQUIT};

/* What the program is to have; blocked until the child's ID is known. */
struct signals {
	struct sigaction passed[ARRAY_LEN(passed)], ignored[ARRAY_LEN(ignored)];
	sigset_t mask;
};

static void take_signals(struct signals *before)
{
	struct sigaction pass = {.sa_handler = pass_on, .sa_flags = SA_RESTART},
			 ignore = {.sa_handler = SIG_IGN};
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before->mask);
	for (unsigned i = 0; i < ARRAY_LEN(passed); i++)
		sigaction(passed[i], &pass, &before->passed[i]);
	for (unsigned i = 0; i < ARRAY_LEN(ignored); i++)
		sigaction(ignored[i], &ignore, &before->ignored[i]);
}

static void give_signals(const struct signals *before)
{
	for (unsigned i = 0; i < ARRAY_LEN(passed); i++)
		sigaction(passed[i], &before->passed[i], NULL);
	for (unsigned i = 0; i < ARRAY_LEN(ignored); i++)
		sigaction(ignored[i], &before->ignored[i], NULL);
	sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

/** As the program ended. */
static int end_as(int status)
{
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0}); /* its core is there already */
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

int summary_run(struct summary *s, int (*start)(const void *arg, char **argv), const void *arg,
		char **argv)
{
	struct signals before;
	int status = 0;
	pid_t pid;

	take_signals(&before);
	pid = fork();
	if (pid == 0) {
		give_signals(&before);
		_exit(start(arg, argv));
	}
	child = pid;
	sigprocmask(SIG_SETMASK, &before.mask, NULL);
	if (pid < 0) {
		fprintf(stderr, "rocemu run: fork: %s\n", strerror(errno));
		return TOOL_FAILED;
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return TOOL_FAILED;
	child = 0;
	print(s);
	for (unsigned d = 0; d < s->n; d++)
		countfile_unmap(s->dev[d].file);
	free(s->dev);
	return end_as(status);
}
