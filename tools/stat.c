/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu stat: the state of processes that use emulated devices; the command line. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "stat-show.h"
#include "tool.h"

enum form { TABLE, JSON, DUMP, METRICS, WATCH };

struct options {
	const char *self;
	enum form form;
	struct stat_filter filter;
	const char *sort;
	double seconds;
	unsigned port;
};

enum {
	OPT_PID = 'p',
	OPT_DEVICE = 'd',
	OPT_QP = 'q',
	OPT_SORT = 's',
	OPT_JSON = CLI_LONG,
	OPT_DUMP,
	OPT_WATCH,
	OPT_PROMETHEUS,
};

static const struct cli_option options[] = {
	{OPT_PID, "pid", "PID", "Show this process only", CLI_PID},
	{OPT_DEVICE, "device", "NAME", "Show this device only", CLI_DEVICE},
	{OPT_QP, "qp", "QPN", "Show QPs of this number only"},
	{OPT_SORT, "sort", "KEY", "Order of QPs: the largest first, or qp: by number",
	 .choices = "qp tx rx packets retransmits naks rnr rtt"},
	{OPT_JSON, "json", NULL, "Print JSON"},
	{OPT_DUMP, "dump", "PID",
	 "Show what each QP of a process has in its queues, and what it waits for", CLI_PID},
	{OPT_WATCH, "watch", "[=SECONDS]",
	 "Print again and again, with rates on a terminal (default: each second)"},
	{OPT_PROMETHEUS, "prometheus", "PORT", "Serve http://127.0.0.1:PORT/metrics"},
	CLI_HELP,
	{0},
};

const struct cli stat_cli = {
	.name = "stat",
	.brief = "show what processes that use the devices do",
	.usage = "[OPTIONS]",
	.about = "Shows the user's processes that use emulated devices (root: everybody's), their "
		 "devices and QPs.",
	.options = options,
};

static int complain(const struct options *o, const char *option, const char *value,
		    const char *what)
{
	fprintf(stderr, "%s: %s %s: %s\n", o->self, option, value, what);
	return TOOL_USAGE;
}

static bool parse_number(const char *text, unsigned long max, unsigned long *out)
{
	char *end;

	*out = strtoul(text, &end, 0);
	return *text >= '0' && *text <= '9' && !*end && *out >= 1 && *out <= max;
}

static int parse_pid(struct options *o, const char *option, const char *text)
{
	unsigned long n;

	if (!parse_number(text, 1ul << 30, &n))
		return complain(o, option, text, "expected a process ID");
	o->filter.pid = (pid_t)n;
	return TOOL_OK;
}

static int parse_seconds(struct options *o, const char *text)
{
	char *end;

	o->form = WATCH;
	if (!text)
		return TOOL_OK;
	o->seconds = strtod(text, &end);
	if (*end || !(o->seconds >= 0.1 && o->seconds <= 3600))
		return complain(o, "--watch", text, "expected seconds from 0.1 to 3600");
	return TOOL_OK;
}

static int parse_option(struct options *o, int opt)
{
	unsigned long n;

	switch (opt) {
	case OPT_PID:
		return parse_pid(o, "--pid", optarg);
	case OPT_DEVICE:
		o->filter.device = optarg;
		return TOOL_OK;
	case OPT_QP:
		if (!parse_number(optarg, 0xffffff, &n))
			return complain(o, "--qp", optarg, "expected a QP number");
		o->filter.qpn = (uint32_t)n;
		return TOOL_OK;
	case OPT_SORT:
		o->sort = optarg;
		if (stat_is_sort_key(optarg))
			return TOOL_OK;
		return complain(o, "--sort", optarg,
				"expected qp, tx, rx, packets, retransmits, naks, rnr or rtt");
	case OPT_JSON:
		o->form = JSON;
		return TOOL_OK;
	case OPT_DUMP:
		o->form = DUMP;
		return parse_pid(o, "--dump", optarg);
	case OPT_WATCH:
		return parse_seconds(o, optarg);
	case OPT_PROMETHEUS:
		o->form = METRICS;
		if (!parse_number(optarg, UINT16_MAX, &n))
			return complain(o, "--prometheus", optarg, "expected a TCP port");
		o->port = (unsigned)n;
		return TOOL_OK;
	default:
		return TOOL_USAGE; /* cli_next() has printed the error */
	}
}

/** @return -1: go on, else the exit code. */
static int parse(int argc, char **argv, struct options *o)
{
	enum form form = TABLE;
	int opt, ret;

	while ((opt = cli_next(&stat_cli, argc, argv)) != CLI_END) {
		if (opt == 'h') {
			cli_print_help(&stat_cli, stdout);
			return TOOL_OK;
		}
		ret = parse_option(o, opt);
		if (ret)
			return ret;
		if (form != TABLE && o->form != form) {
			fprintf(stderr,
				"%s: --json, --dump, --watch and --prometheus exclude each other\n",
				o->self);
			return TOOL_USAGE;
		}
		form = o->form;
	}
	if (optind == argc)
		return -1;
	return complain(o, "argument", argv[optind], "not expected");
}

static int show(const struct options *o)
{
	struct stat_list l;
	bool empty;

	if (stat_read(&l, o->filter.pid)) {
		fprintf(stderr, "%s: out of memory\n", o->self);
		return TOOL_FAILED;
	}
	empty = l.n == 0;
	if (o->form == JSON)
		stat_print_json(stdout, &l, &o->filter);
	else if (o->form == DUMP)
		stat_print_dump(stdout, &l, &o->filter);
	else
		stat_print_table(stdout, &l, &o->filter, o->sort);
	stat_list_free(&l);
	if (empty && o->filter.pid) {
		fprintf(stderr, "%s: process %d is not yours, or has no QP on an emulated device\n",
			o->self, (int)o->filter.pid);
		return TOOL_FAILED;
	}
	if (empty && o->form == TABLE)
		puts("no process has a QP on an emulated device");
	return TOOL_OK;
}

int tool_stat(int argc, char **argv)
{
	struct options o = {.self = argv[0], .seconds = 1};
	const int ret = parse(argc, argv, &o);

	if (ret >= 0)
		return ret;
	if (o.form == METRICS)
		return stat_serve(o.self, o.port);
	if (o.form == WATCH)
		return stat_watch(o.seconds, &o.filter, o.sort);
	return show(&o);
}
