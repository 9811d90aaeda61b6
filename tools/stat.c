/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu stat: the state of processes that use emulated devices; the command line. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

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

static void usage(FILE *f)
{
	fputs("usage: rocemu stat [OPTIONS]\n"
	      "\n"
	      "Shows the user's processes that use emulated devices (root: everybody's), their "
	      "devices and QPs.\n"
	      "\n"
	      "  -p, --pid PID      only this process\n"
	      "  -d, --device NAME  only this device\n"
	      "  -q, --qp QPN       only QPs of this number\n"
	      "  -s, --sort KEY     the largest first: tx, rx, packets, retransmits, naks, rnr, "
	      "rtt; or qp, by number\n"
	      "  --json             for programs\n"
	      "  --dump PID         what each QP of a process has in its queues and waits for\n"
	      "  --watch[=SECONDS]  again and again, on a terminal with rates (default: each "
	      "second)\n"
	      "  --prometheus PORT  serve http://127.0.0.1:PORT/metrics\n"
	      "  --help\n",
	      f);
}

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
	case 'p':
		return parse_pid(o, "--pid", optarg);
	case 'd':
		o->filter.device = optarg;
		return TOOL_OK;
	case 'q':
		if (!parse_number(optarg, 0xffffff, &n))
			return complain(o, "--qp", optarg, "expected a QP number");
		o->filter.qpn = (uint32_t)n;
		return TOOL_OK;
	case 's':
		o->sort = optarg;
		if (stat_is_sort_key(optarg))
			return TOOL_OK;
		return complain(o, "--sort", optarg,
				"expected qp, tx, rx, packets, retransmits, naks, rnr or rtt");
	case 'j':
		o->form = JSON;
		return TOOL_OK;
	case 'D':
		o->form = DUMP;
		return parse_pid(o, "--dump", optarg);
	case 'w':
		return parse_seconds(o, optarg);
	case 'P':
		o->form = METRICS;
		if (!parse_number(optarg, UINT16_MAX, &n))
			return complain(o, "--prometheus", optarg, "expected a TCP port");
		o->port = (unsigned)n;
		return TOOL_OK;
	default:
		return TOOL_USAGE; /* getopt_long() has said what is wrong */
	}
}

/** @return -1: go on, else the exit code. */
static int parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"pid", required_argument, NULL, 'p'},
		{"device", required_argument, NULL, 'd'},
		{"qp", required_argument, NULL, 'q'},
		{"sort", required_argument, NULL, 's'},
		{"json", no_argument, NULL, 'j'},
		{"dump", required_argument, NULL, 'D'},
		{"watch", optional_argument, NULL, 'w'},
		{"prometheus", required_argument, NULL, 'P'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	enum form form = TABLE;
	int opt, ret;

	while ((opt = getopt_long(argc, argv, "p:d:q:s:h", longs, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
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
	return fflush(stdout) ? TOOL_FAILED : TOOL_OK;
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
