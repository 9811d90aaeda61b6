/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu conform: what a RoCEv2 device does with each packet of the standard. */
#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli.h"
#include "conform/conform.h"
#include "conform/report.h"
#include "tool.h"

enum { MTU = 1024, PATIENCE_MS = 2000, ONLY_MAX = 64, CASE_TEXT_MAX = 1 << 20 };

enum {
	OPT_FROM = CLI_LONG,
	OPT_ONLY,
	OPT_LIST,
	OPT_CASE,
	OPT_PORT,
	OPT_MTU,
	OPT_STRICT,
	OPT_MAY_BREAK,
	OPT_PUBLIC,
	OPT_VERBOSE,
	OPT_DRY_RUN,
};

static const struct cli_option options[] = {
	{OPT_FROM, "from", "ADDRESS",
	 "Send from this address of the host (default: the one that routing chooses)"},
	{OPT_ONLY, "only", "PATTERN", "Cases whose ID matches, as seq/*; may be repeated"},
	{OPT_CASE, "case", "FILE", "Cases of a file instead of those of the program", CLI_FILE},
	{OPT_LIST, "list", NULL, "Print the cases that would be carried out, and end"},
	{OPT_DRY_RUN, "dry-run", NULL, "Print them with what each does, and end"},
	{OPT_PORT, "port", "PEER=PORT", "TCP port, or CM service, of a peer (see below)"},
	{OPT_MTU, "mtu", "BYTES", "Path MTU of pingpong's queue pairs (default 1024)",
	 .choices = "256 512 1024 2048 4096"},
	{OPT_STRICT, "strict", NULL, "What differs from a SHOULD is FAIL, too"},
	{OPT_MAY_BREAK, "may-break-it", NULL,
	 "Also cases that may do harm to the device or its host"},
	{OPT_PUBLIC, "allow-public", NULL,
	 "Also addresses that are neither private, link-local nor loopback"},
	{OPT_VERBOSE, "verbose", NULL, "Print each line of each case, and what came of it"},
	CLI_HELP,
	{0},
};

const struct cli conform_cli = {
	.name = "conform",
	.brief = "show what a RoCEv2 device does with each packet of the standard",
	.usage = "[OPTIONS] ADDRESS",
	.about =
		"Sends packets to the device at ADDRESS from a UDP socket of its own, and compares "
		"what comes back with what the standard demands. Cases that need nothing at the "
		"device ask its QP 1. Others need a program there, and are left out where it does "
		"not run; the command that starts it is printed.",
	.options = options,
	.notes = "Peers: rc_pingpong (TCP port 18515), uc_pingpong (18516), ud_pingpong (18517), "
		 "rping (CM service 7174), conform_peer (TCP port 18520).\n\n"
		 "Exit code 0, 1: a case is FAIL, or 2: wrong usage, or the device cannot be "
		 "reached.",
};

struct command_options {
	const char *self;
	struct conform_options o;
	const char *only[ONLY_MAX];
	unsigned onlys;
	bool list, dry_run, allow_public, verbose;
	struct conform_catalogue cases;
};

/* ---- words of the command line ---- */

static bool wrong(const struct command_options *c, const char *option, const char *text,
		  const char *expected)
{
	fprintf(stderr, "%s: %s %s: expected %s\n", c->self, option, text, expected);
	return false;
}

static bool read_number(const char *text, unsigned max, unsigned *out)
{
	char *end;
	const unsigned long n = strtoul(text, &end, 10);

	*out = (unsigned)n;
	return end != text && !*end && *text != '-' && n && n <= max;
}

static bool read_mtu(struct command_options *c, const char *text)
{
	unsigned n;

	if (!read_number(text, 4096, &n) || n < 256 || n & (n - 1))
		return wrong(c, "--mtu", text, "256, 512, 1024, 2048 or 4096");
	c->o.mtu = n;
	return true;
}

static bool read_port(struct command_options *c, const char *text)
{
	const char *equals = strchr(text, '=');
	unsigned n;

	for (unsigned i = SCENARIO_PEER_NONE + 1; equals && i < CONFORM_PEER_COUNT; i++) {
		if (strlen(conform_peer_text[i]) != (size_t)(equals - text) ||
		    memcmp(conform_peer_text[i], text, (size_t)(equals - text)) != 0)
			continue;
		if (!read_number(equals + 1, 65535, &n))
			break;
		c->o.port[i] = (uint16_t)n;
		return true;
	}
	return wrong(c, "--port", text, "PEER=PORT, as rc_pingpong=18515");
}

static bool report_error(const struct command_options *c, const struct scenario_error *e)
{
	fprintf(stderr, "%s: %s:%u:%u: %s\n", c->self, e->file, e->line, e->column, e->text);
	return false;
}

static bool read_cases(struct command_options *c, const char *path)
{
	struct scenario_error e = {.file = path};
	FILE *f = fopen(path, "re");
	char *text = malloc(CASE_TEXT_MAX + 1);
	size_t len = 0;
	bool good = f && text;

	if (good)
		len = fread(text, 1, CASE_TEXT_MAX + 1, f);
	if (good && ferror(f))
		good = false;
	if (!good)
		fprintf(stderr, "%s: cannot read %s: %s\n", c->self, path, strerror(errno));
	else if (!conform_catalogue_add(&c->cases, text, len, path, &e))
		good = report_error(c, &e);
	if (f)
		fclose(f);
	free(text);
	return good;
}

/** Only networks of one's own, as the packets are those of an attacker. */
static bool is_public(const struct rocemu_gid *g)
{
	const uint8_t *a = g->raw + 12;

	if (!rocemu_gid_is_ipv4(g)) {
		static const uint8_t loopback[16] = {[15] = 1};

		return (g->raw[0] & 0xfe) != 0xfc && !(g->raw[0] == 0xfe && g->raw[1] == 0x80) &&
		       memcmp(g->raw, loopback, sizeof(loopback)) != 0;
	}
	return a[0] != 10 && a[0] != 127 && !(a[0] == 172 && (a[1] & 0xf0) == 16) &&
	       !(a[0] == 192 && a[1] == 168) && !(a[0] == 169 && a[1] == 254) &&
	       !(a[0] == 100 && (a[1] & 0xc0) == 64);
}

static bool read_target(struct command_options *c, const char *text)
{
	struct rocemu_gid *g = &c->o.target;

	*g = (struct rocemu_gid){{[10] = 0xff, [11] = 0xff}};
	if (inet_pton(AF_INET, text, g->raw + 12) != 1 && inet_pton(AF_INET6, text, g->raw) != 1)
		return wrong(c, "ADDRESS", text, "an IPv4 or IPv6 address");
	if (!is_public(g) || c->allow_public)
		return true;
	fprintf(stderr,
		"%s: %s is a public address: these packets are for devices of one's own "
		"(--allow-public)\n",
		c->self, text);
	return false;
}

/* ---- carrying out ---- */

static bool is_chosen(const struct command_options *c, const struct conform_case *k)
{
	for (unsigned i = 0; i < c->onlys; i++)
		if (fnmatch(c->only[i], k->id, 0) == 0)
			return true;
	return !c->onlys;
}

static int run_all(struct command_options *c)
{
	char error[512];
	struct conform_session *s = conform_open(&c->o, error, sizeof(error));
	struct conform_report *report;
	int code;

	if (!s) {
		fprintf(stderr, "%s: %s\n", c->self, error);
		return TOOL_USAGE;
	}
	report = conform_report_begin(stdout, &c->o);
	for (unsigned i = 0; i < c->cases.ncases; i++) {
		struct conform_result r;

		if (!is_chosen(c, &c->cases.cases[i]))
			continue;
		conform_run(s, &c->cases.cases[i], &r);
		conform_report_add(report, &r);
	}
	code = conform_report_end(report) ? TOOL_FAILED : TOOL_OK;
	conform_close(s);
	return code;
}

static int run(struct command_options *c)
{
	struct scenario_error e;
	unsigned chosen = 0;

	if (!c->cases.ncases && !conform_catalogue_built_in(&c->cases, &e)) {
		report_error(c, &e);
		return TOOL_USAGE;
	}
	for (unsigned i = 0; i < c->cases.ncases; i++) {
		const struct conform_case *k = &c->cases.cases[i];

		chosen += is_chosen(c, k);
		if ((c->list || c->dry_run) && is_chosen(c, k))
			conform_report_case(stdout, k, c->dry_run);
	}
	if (!chosen) {
		fprintf(stderr, "%s: no case matches --only; see --list\n", c->self);
		return TOOL_USAGE;
	}
	return c->list || c->dry_run ? TOOL_OK : run_all(c);
}

/** @return false: wrong. */
static bool read_option(struct command_options *c, int option)
{
	switch (option) {
	case OPT_FROM:
		c->o.from = optarg;
		return true;
	case OPT_ONLY:
		if (c->onlys == ONLY_MAX)
			return wrong(c, "--only", optarg, "64 patterns at most");
		c->only[c->onlys++] = optarg;
		return true;
	case OPT_CASE:
		return read_cases(c, optarg);
	case OPT_PORT:
		return read_port(c, optarg);
	case OPT_MTU:
		return read_mtu(c, optarg);
	case OPT_LIST:
		return c->list = true;
	case OPT_DRY_RUN:
		return c->dry_run = true;
	case OPT_STRICT:
		return c->o.strict = true;
	case OPT_MAY_BREAK:
		return c->o.may_break = true;
	case OPT_PUBLIC:
		return c->allow_public = true;
	case OPT_VERBOSE:
		setlinebuf(stdout);
		c->o.log = stdout;
		return true;
	default:
		return false;
	}
}

int tool_conform(int argc, char **argv)
{
	struct command_options c = {.self = argv[0], .o = {.mtu = MTU, .patience_ms = PATIENCE_MS}};
	int opt, code = TOOL_USAGE;
	bool good = true;

#define X(NAME, number, command) c.o.port[SCENARIO_PEER_##NAME] = number;
	CONFORM_PEERS(X)
#undef X
	while (good && (opt = cli_next(&conform_cli, argc, argv)) != CLI_END) {
		if (opt == 'h') {
			cli_print_help(&conform_cli, stdout);
			return TOOL_OK;
		}
		good = read_option(&c, opt);
	}
	if (good && optind + 1 != argc && !((c.list || c.dry_run) && optind == argc))
		fprintf(stderr, "%s: expected one address; see --help\n", argv[0]);
	else if (good && (optind == argc || read_target(&c, argv[optind])))
		code = run(&c);
	conform_catalogue_free(&c.cases);
	return code;
}
