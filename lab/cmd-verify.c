/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu verify: is what a capture shows RoCEv2 as the standard has it? */
#include <errno.h>
#include <limits.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cli.h"
#include "tool.h"
#include "verify/rules.h"
#include "verify/verify.h"

enum {
	KEEP = 5,
	ANNOTATED = 10000, /* findings of each kind and direction */
	PAGE_PACKETS = 100000,
	CONNECTIONS = 1 << 15,
	LEAST_CONNECTIONS = 16,
};

#define NEVER SEV_COUNT /* of --fail-on */

struct options {
	const char *self;
	const char *html, *annotate, *interface;
	const char *junit_path;
	FILE *junit; /* owned */
	bool json, follow, diff;
	unsigned keep, packets, connections;
	bool ignored[RULE_COUNT];
	uint16_t ports[ENCAP_PORTS];
	unsigned port_n;
	enum severity fail_on;
};

enum {
	OPT_INTERFACE = 'i',
	OPT_JSON = 'j',
	OPT_FOLLOW = CLI_LONG,
	OPT_CONNECTIONS,
	OPT_PORT,
	OPT_HTML,
	OPT_ANNOTATE,
	OPT_JUNIT,
	OPT_DIFF,
	OPT_FAIL_ON,
	OPT_IGNORE,
	OPT_PACKETS,
	OPT_KEEP,
	OPT_EXPLAIN,
	OPT_LIST,
};

static const struct cli_option option_table[] = {
	{OPT_INTERFACE, "interface", "INTERFACE",
	 "Capture there (\"any\": everywhere) until SIGINT; implies --follow", CLI_INTERFACE},
	{OPT_FOLLOW, "follow", NULL,
	 "Print findings as they are made, for days; idle connections are forgotten"},
	{OPT_CONNECTIONS, "connections", "N",
	 "Follow at most N connections at a time (default 32768)"},
	{OPT_PORT, "port", "N[,N]...", "UDP ports of RoCEv2 (default 4791)"},
	{OPT_JSON, "json", NULL, "Print a JSON object per file"},
	{OPT_HTML, "html", "PAGE",
	 "Write one page with diagrams, plots over time and the findings; one FILE only", CLI_FILE},
	{OPT_ANNOTATE, "annotate", "OUT",
	 "Copy the capture to OUT, pcapng with the findings as comments, for Wireshark; one FILE "
	 "only",
	 CLI_FILE},
	{OPT_JUNIT, "junit", "OUT", "Write the findings as JUnit's XML", CLI_FILE},
	{OPT_DIFF, "diff", NULL,
	 "Compare two captures: what is new, gone or changed in the second"},
	{OPT_FAIL_ON, "fail-on", "WHAT",
	 "The least severity that makes the exit code 1 (default error)",
	 .choices = "error warning note never"},
	{OPT_IGNORE, "ignore", "ID[,ID]...",
	 "Leave findings out; \"rxe\" stands for all that begin with \"rxe-\"; with \"icrc\" "
	 "packets are judged whatever their ICRC is",
	 CLI_FINDING},
	{OPT_PACKETS, "packets", "N",
	 "Packets that the page shows, from the first (default 100000)"},
	{OPT_KEEP, "keep", "N",
	 "Findings of each kind to print for each direction of a connection (default 5); all are "
	 "counted"},
	{OPT_EXPLAIN, "explain", "ID",
	 "Print what a finding means, its causes, what to do, and where the rule comes from",
	 CLI_FINDING},
	{OPT_LIST, "list", NULL, "List all findings there are"},
	CLI_HELP,
	{0},
};

const struct cli verify_cli = {
	.name = "verify",
	.brief = "check the packets of a capture against the standard",
	.usage = "[OPTIONS] FILE...\n"
		 "[OPTIONS] -i INTERFACE\n"
		 "[--json] --diff BEFORE AFTER\n"
		 "--explain ID | --list",
	.about =
		"Checks the RoCEv2 packets of captures (pcap or pcapng, also compressed by gzip or "
		"zstd; \"-\" for standard input): ICRC, PSNs, opcodes, lengths, acknowledges, READ "
		"and atomic responses, RNR waits, connection messages.",
	.options = option_table,
	.notes = "Exit code 0: nothing that --fail-on names; 1: such findings (--diff: more of "
		 "them); 2: wrong usage, or a file that is no capture of RoCEv2.",
	.operand = CLI_FILE,
};

/* ---- rules ---- */

static int explain_id(const struct options *o, const char *id)
{
	const struct rule *r = rule_find(id);
	const struct advice *a;

	if (r == NULL) {
		fprintf(stderr, "%s: no finding has the ID \"%s\"; --list has all\n", o->self, id);
		return TOOL_USAGE;
	}
	a = &advices[r - rules];
	printf("%s (%s): %s\n\n%s\n\nLikely causes: %s\n\nWhat to do: %s\n", r->id,
	       severity_names[r->severity], r->line, r->text, a->causes, a->remedy);
	printf("\nCounter that moves: %s\n", *a->counter ? a->counter : "none");
	if (*r->clause)
		printf("\nSource: %s\n", r->clause);
	return TOOL_OK;
}

static int list(void)
{
	for (unsigned i = 0; i < RULE_COUNT; i++)
		printf("%-24s %-8s %s\n", rules[i].id, severity_names[rules[i].severity],
		       rules[i].line);
	return TOOL_OK;
}

/* ---- signals ---- */

static volatile sig_atomic_t stop;

static void stop_now(int sig)
{
	(void)sig;
	stop = 1;
}

/*
 * Ctrl-C goes to tcpdump as well, which then writes what it still has: so the pipe gets a second to
 * end by itself.
 */
static void stop_soon(int sig)
{
	static const struct itimerval second = {{1, 0}, {1, 0}};
	static volatile sig_atomic_t asked;

	(void)sig;
	if (asked)
		stop = 1;
	asked = 1;
	setitimer(ITIMER_REAL, &second, NULL);
}

/* Signals end the capture and not the report, where a capture has no end by itself. */
static void catch_signals(bool live)
{
	struct sigaction sa = {.sa_handler = live ? stop_now : stop_soon};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sa.sa_handler = stop_now;
	sigaction(SIGALRM, &sa, NULL);
}

/* ---- judging ---- */

static int write_page(const struct options *o, struct verify *v, const char *name)
{
	FILE *f = fopen(o->html, "we");
	int err = 0;

	if (f == NULL) {
		fprintf(stderr, "%s: cannot write %s: %s\n", o->self, o->html, strerror(errno));
		return TOOL_USAGE;
	}
	if (!verify_html(v, f, name))
		err = ENOMEM;
	if (err == 0)
		err = -cli_flush(f);
	if (fclose(f) != 0 && err == 0)
		err = errno;
	if (err == 0)
		return TOOL_OK;
	fprintf(stderr, "%s: cannot write %s: %s\n", o->self, o->html, strerror(err));
	return TOOL_USAGE;
}

static struct verify *new_verify(const struct options *o)
{
	struct verify *v = verify_new(o->keep, o->html != NULL ? o->packets : 0);

	if (v == NULL) {
		fprintf(stderr, "%s: no memory\n", o->self);
		return NULL;
	}
	verify_ignore(v, o->ignored);
	if (o->port_n != 0)
		verify_ports(v, o->ports, o->port_n);
	if (o->annotate != NULL)
		verify_keep(v, ANNOTATED);
	if (o->follow)
		verify_follow(v, stdout, o->json, 2 * o->connections);
	return v;
}

/* Check one capture. @return false: unusable, with a message printed. */
static bool judge(const struct options *o, struct verify *v, const char *path)
{
	bool endless = o->interface != NULL || strcmp(path, "-") == 0;
	char err[512];
	int ret;

	if (endless) {
		catch_signals(o->interface != NULL);
		verify_stop_at(v, &stop);
	}
	ret = o->interface != NULL ? verify_live(v, path, err, sizeof(err))
				   : verify_file(v, path, err, sizeof(err));
	if (ret == 0)
		return true;
	if (o->junit != NULL)
		verify_junit_unusable(o->junit, path, err);
	out_error(o->self, err);
	return false;
}

static int exit_code(const struct options *o, const struct verify *v)
{
	bool fail = verify_errors(v) != 0 && o->fail_on <= SEV_ERROR;

	fail = fail || (verify_warnings(v) != 0 && o->fail_on <= SEV_WARN);
	fail = fail || (verify_notes(v) != 0 && o->fail_on <= SEV_NOTE);
	return fail ? TOOL_FAILED : TOOL_OK;
}

/** A capture's name for a report in text. */
static const char *shown(const char *path, char out[static PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s", path);
	out_printable(out);
	return out;
}

static int report(const struct options *o, struct verify *v, const char *path)
{
	int code = exit_code(o, v);
	char err[512], name[PATH_MAX];

	if (o->json)
		verify_json(v, stdout, path);
	else
		verify_text(v, stdout, shown(path, name),
			    isatty(STDOUT_FILENO) && !getenv("NO_COLOR"));
	if (o->html != NULL && write_page(o, v, path) != TOOL_OK)
		code = TOOL_USAGE;
	if (o->annotate != NULL && verify_annotate(v, path, o->annotate, err, sizeof(err)) < 0) {
		out_error(o->self, err);
		code = TOOL_USAGE;
	}
	if (o->junit != NULL)
		verify_junit(v, o->junit, path, o->fail_on);
	return code;
}

static int verify_one(const struct options *o, const char *path)
{
	struct verify *v = new_verify(o);
	int code = TOOL_USAGE;

	if (v != NULL && judge(o, v, path))
		code = report(o, v, path);
	verify_free(v);
	return code;
}

static int verify_two(const struct options *o, char **files)
{
	struct verify *a = new_verify(o), *b = new_verify(o);
	char first[PATH_MAX], second[PATH_MAX];
	int code = TOOL_USAGE;

	if (a != NULL && b != NULL && judge(o, a, files[0]) && judge(o, b, files[1])) {
		verify_diff(a, b, o->json ? files[0] : shown(files[0], first),
			    o->json ? files[1] : shown(files[1], second), o->json, stdout);
		code = verify_worse(a, b, o->fail_on) ? TOOL_FAILED : TOOL_OK;
	}
	verify_free(a);
	verify_free(b);
	return code;
}

/* ---- options ---- */

static bool number(const struct options *o, const char *option, const char *text, unsigned least,
		   unsigned *out)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno == 0 && end != text && *end == 0 && *text != '-' && n >= least && n <= 1000000) {
		*out = (unsigned)n;
		return true;
	}
	fprintf(stderr, "%s: %s %s: expected a number from %u to 1000000\n", o->self, option, text,
		least);
	return false;
}

static bool ports(struct options *o, const char *text)
{
	const char *p = text;
	unsigned long n;
	char *end;

	for (o->port_n = 0; o->port_n < ENCAP_PORTS; p = end + 1) {
		n = *p >= '0' && *p <= '9' ? strtoul(p, &end, 10) : 0;
		if (n == 0 || n > 0xffff)
			break;
		o->ports[o->port_n++] = (uint16_t)n;
		if (*end == 0)
			return true;
		if (*end != ',')
			break;
	}
	fprintf(stderr, "%s: --port %s: expected up to %u UDP ports with commas between\n", o->self,
		text, ENCAP_PORTS);
	return false;
}

static bool fail_on(struct options *o, const char *text)
{
	for (unsigned s = 0; s < SEV_COUNT; s++) {
		if (strcmp(text, severity_names[s]) == 0) {
			o->fail_on = s;
			return true;
		}
	}
	o->fail_on = NEVER;
	if (strcmp(text, "never") == 0)
		return true;
	fprintf(stderr, "%s: --fail-on %s: expected error, warning, note or never\n", o->self,
		text);
	return false;
}

/* Do the options fit together, and the number of files? */
static bool check(const struct options *o, int n)
{
	const char *wrong = NULL;

	if (o->interface != NULL && (n != 0 || o->diff || o->annotate != NULL))
		wrong = "-i takes neither files nor --diff nor --annotate";
	else if (o->interface == NULL && n == 0)
		wrong = "expected a capture file; see --help";
	else if (o->diff && (n != 2 || o->html != NULL || o->annotate != NULL || o->follow))
		wrong = "--diff takes two capture files, and of the options for output --json "
			"alone";
	else if (o->follow && (n > 1 || o->html != NULL || o->annotate != NULL))
		wrong = "--follow takes one capture, and neither --html nor --annotate";
	else if (o->html != NULL && n != 1)
		wrong = "--html takes one capture file";
	else if (o->annotate != NULL && n != 1)
		wrong = "--annotate takes one capture file";
	if (wrong != NULL)
		fprintf(stderr, "%s: %s\n", o->self, wrong);
	return wrong == NULL;
}

static int verify_each(const struct options *o, char **files, int n)
{
	int worst = TOOL_OK;

	if (o->interface != NULL)
		return verify_one(o, o->interface);
	if (o->diff)
		return verify_two(o, files);
	for (int i = 0; i < n; i++) {
		int code = verify_one(o, files[i]);

		if (code > worst)
			worst = code;
	}
	return worst;
}

static int verify_all(struct options *o, char **files, int n)
{
	int code, err = 0, stdout_err;

	if (!check(o, n))
		return TOOL_USAGE;
	if (o->junit_path != NULL) {
		o->junit = fopen(o->junit_path, "we");
		if (o->junit == NULL) {
			fprintf(stderr, "%s: cannot write %s: %s\n", o->self, o->junit_path,
				strerror(errno));
			return TOOL_USAGE;
		}
		verify_junit_begin(o->junit);
	}
	code = verify_each(o, files, n);
	if (o->junit != NULL) {
		verify_junit_end(o->junit);
		err = -cli_flush(o->junit);
		if (fclose(o->junit) != 0 && err == 0)
			err = errno;
		if (err != 0)
			fprintf(stderr, "%s: cannot write %s: %s\n", o->self, o->junit_path,
				strerror(err));
	}
	stdout_err = cli_flush(stdout);
	if (stdout_err != 0) {
		fprintf(stderr, "%s: cannot write the report: %s\n", o->self,
			strerror(-stdout_err));
		return TOOL_USAGE;
	}
	return err != 0 ? TOOL_USAGE : code;
}

/* One option. @return false: wrong, with a message printed. */
static bool option(struct options *o, int opt)
{
	switch (opt) {
	case OPT_JSON:
		o->json = true;
		return true;
	case OPT_HTML:
		o->html = optarg;
		return true;
	case OPT_ANNOTATE:
		o->annotate = optarg;
		return true;
	case OPT_JUNIT:
		o->junit_path = optarg;
		return true;
	case OPT_INTERFACE:
		o->interface = optarg;
		o->follow = true;
		return true;
	case OPT_FOLLOW:
		o->follow = true;
		return true;
	case OPT_DIFF:
		o->diff = true;
		return true;
	case OPT_PORT:
		return ports(o, optarg);
	case OPT_FAIL_ON:
		return fail_on(o, optarg);
	case OPT_IGNORE:
		return rules_ignore(o->ignored, optarg, o->self);
	case OPT_PACKETS:
		return number(o, "--packets", optarg, 1, &o->packets);
	case OPT_KEEP:
		return number(o, "--keep", optarg, 1, &o->keep);
	case OPT_CONNECTIONS:
		return number(o, "--connections", optarg, LEAST_CONNECTIONS, &o->connections);
	default:
		return false;
	}
}

int tool_verify(int argc, char **argv)
{
	struct options o = {
		.self = argv[0],
		.keep = KEEP,
		.packets = PAGE_PACKETS,
		.connections = CONNECTIONS,
		.fail_on = SEV_ERROR,
	};
	int opt;

	while ((opt = cli_next(&verify_cli, argc, argv)) != CLI_END) {
		switch (opt) {
		case OPT_EXPLAIN:
			return explain_id(&o, optarg);
		case OPT_LIST:
			return list();
		case 'h':
			cli_print_help(&verify_cli, stdout);
			return TOOL_OK;
		default:
			if (!option(&o, opt))
				return TOOL_USAGE;
		}
	}
	return verify_all(&o, argv + optind, argc - optind);
}
