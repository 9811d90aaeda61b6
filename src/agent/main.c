/* SPDX-License-Identifier: BSD-2-Clause */
/* The rocemu-agent program: options, and becoming a daemon. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/holder.h"
#include "agent/server.h"
#include "agent/launch.h"
#include "agent/options.h"
#include "agent/passed.h"
#include "agent/status.h"
#include "base/log.h"
#include "base/util.h"

struct options {
	bool foreground, system, spawned, status, json;
	double idle_timeout_s;
};

static int parse_seconds(const char *arg, double *out)
{
	char *end;

	errno = 0;
	*out = strtod(arg, &end);
	if (!errno && end != arg && !*end && *out >= 0 && *out < 1e9)
		return 0;
	fprintf(stderr, "rocemu-agent: --idle-timeout %s: expected seconds, such as 5 or 0.5\n",
		arg);
	return -1;
}

/* @return 0 go on, 1 done (exit code 0), 2 wrong usage. */
static int parse(int argc, char **argv, struct options *o)
{
	bool idle_given = false;
	int opt;

	*o = (struct options){.idle_timeout_s = 5};
	while ((opt = cli_next(&agent_cli, argc, argv)) != CLI_END) {
		switch (opt) {
		case AGENT_OPT_FOREGROUND:
			o->foreground = true;
			break;
		case AGENT_OPT_SYSTEM:
			o->system = true;
			break;
		case AGENT_OPT_SPAWNED:
			o->spawned = true;
			break;
		case AGENT_OPT_STATUS:
			o->status = true;
			break;
		case AGENT_OPT_JSON:
			o->json = true;
			break;
		case AGENT_OPT_IDLE_TIMEOUT:
			idle_given = true;
			if (parse_seconds(optarg, &o->idle_timeout_s))
				return 2;
			break;
		case 'h':
			cli_print_help(&agent_cli, stdout);
			return 1;
		case AGENT_OPT_VERSION:
			puts("rocemu-agent " ROCEMU_VERSION);
			return 1;
		default:
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "rocemu-agent: unexpected argument '%s'; see --help\n",
			argv[optind]);
		return 2;
	}
	if (o->json && !o->status) {
		fputs("rocemu-agent: --json goes with --status only\n", stderr);
		return 2;
	}
	if (o->system && !idle_given)
		o->idle_timeout_s = 0;
	return 0;
}

/* It serves other programs than the one that started it, with limits of its own perhaps. */
static void raise_limits(void)
{
	static const __rlimit_resource_t all[] = {RLIMIT_NOFILE, RLIMIT_AS,    RLIMIT_DATA,
						  RLIMIT_CPU,	 RLIMIT_FSIZE, RLIMIT_NPROC};
	struct rlimit rl;

	for (unsigned i = 0; i < ARRAY_LEN(all); i++)
		if (getrlimit(all[i], &rl) == 0 && rl.rlim_cur != rl.rlim_max) {
			rl.rlim_cur = rl.rlim_max;
			(void)setrlimit(all[i], &rl);
		}
}

static void report(const struct options *o, int err)
{
	if (o->spawned && write(SPAWN_REPORT_FD, &err, sizeof(err)) < 0)
		log_warn("the process that started the agent is gone");
}

/* Standard descriptors to /dev/null; log messages to ROCEMU_AGENT_LOG. */
static void detach_stdio(void)
{
	const char *log = secure_getenv("ROCEMU_AGENT_LOG");
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), out = -1;

	if (log && *log)
		out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
	if (null < 0)
		return;
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(out >= 0 ? out : null, STDERR_FILENO);
	if (null > 2)
		close(null);
	if (out > 2)
		close(out);
}

/*
 * The parent reports and exits; the child continues without terminal, working directory and
 * inherited descriptors.
 */
static int daemonize(const struct options *o)
{
	pid_t pid = fork();

	if (pid < 0) {
		int err = errno;

		report(o, err);
		return -err;
	}
	if (pid > 0) {
		report(o, 0);
		_exit(0);
	}
	(void)setsid();
	detach_stdio();
	if (chdir("/"))
		log_warn("cannot go to /: %s", strerror(errno));
	if (o->spawned)
		close(SPAWN_REPORT_FD);
	return 0;
}

/* @return a listening descriptor, or -errno with one line in errbuf. */
static int listener(const struct options *o, struct agent_instance *instance, char *errbuf,
		    size_t errlen)
{
	int r = agent_instance_init(instance, o->system);

	*errbuf = '\0';
	if (r) {
		snprintf(errbuf, errlen,
			 "ROCEMU_AGENT_NAME is not at most 32 of A-Z a-z 0-9 _ . -");
		return r;
	}
	/* What a spawned agent has there is the way to report. */
	r = o->spawned ? -ENOENT : agent_listener_passed(instance, errbuf, errlen);
	if (r == -ENOENT && o->system && geteuid() != 0) {
		snprintf(errbuf, errlen, "--system: only root can serve all users");
		return -EPERM;
	}
	if (r == -ENOENT)
		r = agent_listen(instance);
	if (r < 0 && !*errbuf)
		snprintf(errbuf, errlen, "%s",
			 r == -EADDRINUSE ? "another agent runs already; see --status"
					  : strerror(-r));
	return r;
}

static int serve(const struct options *o)
{
	struct server_config config = {.idle_timeout_s = o->idle_timeout_s};
	struct store *st = malloc(sizeof(*st));
	char text[256] = "out of memory";
	int r = st ? listener(o, &config.instance, text, sizeof(text)) : -ENOMEM, fd = r;

	if (r < 0)
		free(st);
	if (r == -EADDRINUSE && o->spawned) {
		/* Another one was quicker: success. */
		report(o, 0);
		return 0;
	}
	if (r < 0) {
		report(o, -r);
		fprintf(stderr, "rocemu-agent: cannot start: %s\n", text);
		return 1;
	}
	if (!o->foreground && daemonize(o) < 0) {
		free(st);
		return 1;
	}
	raise_limits();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); /* they are not waited for */
	store_init(st, fd);
	r = holder_run(st, server_work, &config);
	store_fini(st);
	free(st);
	return r;
}

int main(int argc, char **argv)
{
	struct options o;
	int r;

	cli_begin();
	r = parse(argc, argv, &o);
	if (r)
		return cli_end("rocemu-agent", r == 1 ? 0 : 2);
	if (o.status)
		return cli_end("rocemu-agent", status_print(o.system, o.json));
	umask(077);
	if (o.spawned)
		close_range(SPAWN_REPORT_FD + 1, ~0u, 0);
	return serve(&o);
}
