/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs-check: options, running cases, the tally. See vc.h. Prints TAP on the client's stdout. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vc.h"

void vc_fail(struct vc *vc, const char *file, int line, const char *fmt, ...)
{
	const char *slash = strrchr(file, '/');
	char text[160];
	va_list ap;

	if (vc->why[0])
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(vc->why, sizeof(vc->why), "%s:%d: %s", slash ? slash + 1 : file, line, text);
}

void vc_die(const char *fmt, ...)
{
	va_list ap;

	fputs("verbs-check: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(3);
}

bool vc_case(struct vc *vc, const char *name, bool active_server, vc_run run, void *arg)
{
	bool ok;

	vc->active = vc->opt.server == active_server;
	vc->peer_ended = false;
	vc->peer_ok = false;
	vc->why[0] = vc->peer_why[0] = 0;
	ok = run(vc, arg);
	vc_end(vc, ok);

	ok = ok && vc->peer_ok;
	if (ok)
		vc->passed++;
	else
		vc->failed++;
	if (!vc->opt.server) {
		printf("%s %u - %s%s\n", ok ? "ok" : "not ok", vc->passed + vc->failed, name,
		       active_server ? " (server active)" : "");
		if (vc->why[0])
			printf("# client: %s\n", vc->why);
		if (vc->peer_why[0])
			printf("# server: %s\n", vc->peer_why);
		fflush(stdout);
	}
	return ok;
}

static void usage(FILE *f)
{
	fputs("usage: verbs-check --port PORT [options] [SERVER]\n"
	      "Without SERVER: the server. Both sides must get the same options.\n"
	      "  --device NAME      --address IP (of the GID; default: GID index 0)\n"
	      "  --type rc|xrc|uc|ud   --mtu BYTES   --psn N   --srq\n"
	      "  --timeout CODE     of the acknowledgement, 4.096 us * 2^CODE (default 14)\n"
	      "  --max-size BYTES   leave out what is longer\n"
	      "  --wr               post by ibv_wr_* instead of ibv_post_send\n"
	      "  --cq-ex            poll by ibv_start_poll instead of ibv_poll_cq\n"
	      "  --events           sleep on the completion channel\n"
	      "  --group ops|flow|errors   --big (sizes to 16 MiB)   --huge (one of 2 GiB - 1)\n"
	      "  --no-inv-flag      the device does not mark the receive of a SEND with "
	      "invalidate\n"
	      "  --kill             the server kills itself in the last case of the errors\n",
	      f);
}

static void parse_type(struct vc_options *o, const char *s)
{
	if (strcmp(s, "rc") == 0)
		o->type = IBV_QPT_RC;
	else if (strcmp(s, "xrc") == 0)
		o->xrc = true;
	else if (strcmp(s, "uc") == 0)
		o->type = IBV_QPT_UC;
	else if (strcmp(s, "ud") == 0)
		o->type = IBV_QPT_UD;
	else
		vc_die("--type: rc, uc, ud or xrc expected, not '%s'", s);
}

static void parse(struct vc_options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{"port", 1, NULL, 'p'},	    {"device", 1, NULL, 'd'},
		{"address", 1, NULL, 'a'},  {"type", 1, NULL, 't'},
		{"mtu", 1, NULL, 'm'},	    {"psn", 1, NULL, 'n'},
		{"wr", 0, NULL, 'w'},	    {"cq-ex", 0, NULL, 'x'},
		{"events", 0, NULL, 'e'},   {"group", 1, NULL, 'g'},
		{"big", 0, NULL, 'b'},	    {"huge", 0, NULL, 'H'},
		{"srq", 0, NULL, 's'},	    {"kill", 0, NULL, 'k'},
		{"help", 0, NULL, 'h'},	    {"timeout", 1, NULL, 'T'},
		{"max-size", 1, NULL, 'M'}, {"no-inv-flag", 0, NULL, 'I'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		/* clang-format off */
		switch (c) {
		case 'p': o->port = (unsigned)strtoul(optarg, NULL, 0); break;
		case 'd': o->device = optarg; break;
		case 'a': o->address = optarg; break;
		case 't': parse_type(o, optarg); break;
		case 'm': o->mtu = (unsigned)strtoul(optarg, NULL, 0); break;
		case 'n': o->psn = (uint32_t)strtoul(optarg, NULL, 0) & 0xffffff; break;
		case 'T': o->timeout = (uint8_t)(strtoul(optarg, NULL, 0) & 31); break;
		case 'M': o->max_size = strtoul(optarg, NULL, 0); break;
		case 'w': o->wr_api = true; break;
		case 'x': o->cq_ex = true; break;
		case 'e': o->events = true; break;
		case 'g': o->group = optarg; break;
		case 'b': o->big = true; break;
		case 'H': o->huge = true; break;
		case 'I': o->no_inv_flag = true; break;
		case 's': o->srq = true; break;
		case 'k': o->kill = true; break;
		case 'h': usage(stdout); exit(0);
		default: usage(stderr); exit(2);
		}
		/* clang-format on */
	}
	o->host = argv[optind];
	o->server = !o->host;
	if (o->port == 0 || o->port > 65535) {
		usage(stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct vc *vc);
	} groups[] = {
		{"ops", vc_group_ops},
		{"flow", vc_group_flow},
		{"errors", vc_group_errors},
	};
	/* The first PSN is near the end of the number space: every run wraps. */
	struct vc vc = {.opt = {.type = IBV_QPT_RC, .psn = 0xfffff0, .timeout = 14}};
	bool known = false;

	parse(&vc.opt, argc, argv);
	vc_connect_peer(&vc);
	vc_open(&vc);
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		if (!vc.opt.group || strcmp(vc.opt.group, groups[i].name) == 0) {
			known = true;
			groups[i].run(&vc);
		}
	if (!known)
		vc_die("--group: ops, flow or errors expected, not '%s'", vc.opt.group);
	vc_close(&vc);
	if (!vc.opt.server)
		printf("1..%u\n# %u passed, %u failed\n", vc.passed + vc.failed, vc.passed,
		       vc.failed);
	return vc.failed ? 1 : 0;
}
