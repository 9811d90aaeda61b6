/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rocemu hosts: several hosts on one machine, for tests without privileges. Programs learn of them
 * by the environment: ROCEMU_HOST1 and so on are addresses, ROCEMU_HOSTS is for --on.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "child.h"
#include "hosts-net.h"
#include "tool.h"

#define ENV_HOSTS "ROCEMU_HOSTS"
#define LOOPBACK  "lo" /* in place of a holder's process ID */

enum { COUNT_DEFAULT = 2, MTU_DEFAULT = 1500, MTU_MIN = 1280, MTU_MAX = 65535 };

enum { OPT_COUNT = CLI_LONG, OPT_MTU, OPT_LOOPBACK, OPT_ON };

struct request {
	const char *self; /* "rocemu hosts" */
	unsigned count, mtu;
	unsigned on; /* 0: not given */
	bool loopback;
};

static const struct cli_option options[] = {
	{OPT_COUNT, "count", "N", "How many hosts: 2 (the default) to 9"},
	{OPT_MTU, "mtu", "BYTES", "The MTU of the Ethernet: 1280 to 65535 (default 1500)"},
	{OPT_LOOPBACK, "loopback", NULL,
	 "Make no namespaces: the hosts are 127.0.0.1, 127.0.0.2 and so on"},
	{OPT_ON, "on", "N", "Within CMD: run a program on host N"},
	CLI_HELP,
	{0},
};

const struct cli hosts_cli = {
	.name = "hosts",
	.brief = "make several hosts on this machine, for tests",
	.usage = "[--count N] [--mtu BYTES] [--loopback] [--] CMD [ARGUMENTS]\n"
		 "--on N [--] CMD [ARGUMENTS]",
	.about = "Makes hosts on this machine, without privileges: network namespaces with an "
		 "Ethernet between them. Runs CMD on host 1 and removes the hosts when CMD ends. "
		 "Its exit code, or the signal that ends it, is passed on. ROCEMU_HOST1, "
		 "ROCEMU_HOST2 and so on are the hosts' addresses. Nothing else can be reached "
		 "from them.",
	.options = options,
	.operand = CLI_PROGRAM,
};

static int complain(const struct request *o, const char *what)
{
	fprintf(stderr, "%s: %s\n", o->self, what);
	return TOOL_FAILED;
}

/** @return false after a message. */
static bool parse_number(const struct request *o, const char *option, unsigned min, unsigned max,
			 unsigned *value)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(optarg, &end, 10);
	if (*optarg < '0' || *optarg > '9' || *end || errno || n < min || n > max) {
		fprintf(stderr, "%s: %s: \"%s\": expected a number from %u to %u\n", o->self,
			option, optarg, min, max);
		return false;
	}
	*value = (unsigned)n;
	return true;
}

/** The hosts' addresses, and what --on finds the hosts by: for each a process ID or LOOPBACK. */
static int set_environment(const struct request *o, const struct hosts_net *net)
{
	char list[16 * HOSTS_MAX], name[24], address[24];
	int used = 0;

	for (unsigned i = 0; i < o->count; i++) {
		if (o->loopback)
			used += sprintf(list + used, "%s" LOOPBACK, i ? " " : "");
		else
			used += sprintf(list + used, "%s%d", i ? " " : "", (int)net->holder[i]);
		snprintf(name, sizeof(name), "ROCEMU_HOST%u", i + 1);
		snprintf(address, sizeof(address), "%s.%u", o->loopback ? "127.0.0" : "10.77.0",
			 i + 1);
		if (setenv(name, address, 1) < 0)
			return -1;
	}
	return setenv(ENV_HOSTS, list, 1);
}

/** On loopback a host is a device. It has the name that a host with an interface gives it. */
static int become_loopback(const struct request *o, unsigned number, char **argv)
{
	char spec[48];

	snprintf(spec, sizeof(spec), "rocemu_eth0=127.0.0.%u", number);
	if (setenv("ROCEMU_DEVICES", spec, 1) < 0)
		return complain(o, strerror(errno));
	return child_exec(o->self, argv);
}

static int run_hosts(const struct request *o, char **argv)
{
	struct hosts_net net;
	char err[768] = "";
	int status, ret;

	if (o->loopback) {
		if (set_environment(o, NULL) < 0)
			return complain(o, strerror(errno));
		return become_loopback(o, 1, argv);
	}
	if (hosts_net_make(&net, o->count, o->mtu, err, sizeof(err)) < 0) {
		fprintf(stderr, "%s: %s; \"%s --loopback\" needs no namespaces\n", o->self, err,
			o->self);
		return TOOL_FAILED;
	}
	if (set_environment(o, &net) < 0)
		return complain(o, strerror(errno));
	if (hosts_net_enter(net.holder[0], err, sizeof(err)) < 0)
		return complain(o, err);
	ret = child_run(o->self, argv, &status);
	hosts_net_end(&net);
	return ret ? ret : child_end_as(status);
}

/** The n-th word of a list; "" where there are less. */
static const char *word_of(const char *list, unsigned n, unsigned *words)
{
	for (*words = 0; *(list += strspn(list, " ")); list += strcspn(list, " "))
		if (++*words == n)
			return list;
	return list;
}

static int run_on(const struct request *o, char **argv)
{
	const char *list = getenv(ENV_HOSTS), *host;
	char err[768] = "", *end;
	unsigned words;
	long pid;

	if (!list)
		return complain(o, "--on: there are no hosts (" ENV_HOSTS " is not set): "
				   "it is for programs that \"rocemu hosts\" runs");
	host = word_of(list, o->on, &words);
	if (!*host) {
		fprintf(stderr, "%s: --on: there are %u hosts, no host %u\n", o->self, words,
			o->on);
		return TOOL_USAGE;
	}
	if (!strncmp(host, LOOPBACK, strlen(LOOPBACK)))
		return become_loopback(o, o->on, argv);
	pid = strtol(host, &end, 10);
	if (end == host || pid <= 0 || pid > INT_MAX)
		return complain(o, ENV_HOSTS ": not a list of process IDs");
	if (hosts_net_enter((pid_t)pid, err, sizeof(err)) < 0)
		return complain(o, err);
	return child_exec(o->self, argv);
}

int tool_hosts(int argc, char **argv)
{
	struct request o = {.self = argv[0], .count = COUNT_DEFAULT, .mtu = MTU_DEFAULT};
	bool ok = true;
	int opt;

	while (ok && (opt = cli_next(&hosts_cli, argc, argv)) != CLI_END) {
		switch (opt) {
		case OPT_COUNT:
			ok = parse_number(&o, "--count", 2, HOSTS_MAX, &o.count);
			break;
		case OPT_MTU:
			ok = parse_number(&o, "--mtu", MTU_MIN, MTU_MAX, &o.mtu);
			break;
		case OPT_LOOPBACK:
			o.loopback = true;
			break;
		case OPT_ON:
			ok = parse_number(&o, "--on", 1, HOSTS_MAX, &o.on);
			break;
		case 'h':
			cli_print_help(&hosts_cli, stdout);
			return TOOL_OK;
		default:
			return TOOL_USAGE;
		}
	}
	if (!ok)
		return TOOL_USAGE;
	if (optind == argc) {
		fprintf(stderr, "%s: no command to run; see \"%s --help\"\n", o.self, o.self);
		return TOOL_USAGE;
	}
	return o.on ? run_on(&o, argv + optind) : run_hosts(&o, argv + optind);
}
