/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu conform: what a RoCEv2 device does with each packet of the standard. */
#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cli.h"
#include "base/util.h"
#include "conform/identify.h"
#include "conform/outputs.h"
#include "conform/past.h"
#include "conform/pcap.h"
#include "conform/text.h"
#include "tool.h"

enum {
	MTU = 1024,
	PATIENCE_MS = 2000,
	ONLY_MAX = 64,
	CASE_TEXT_MAX = 1 << 20,
	WIDTH = 100,
	WIDTH_MAX = 160,
	WORDS_MAX = 1024,
	REPEAT_MAX = 1000,
};

enum {
	OPT_FROM = CLI_LONG,
	OPT_ONLY,
	OPT_LIST,
	OPT_IDENTIFY,
	OPT_CASE,
	OPT_PORT,
	OPT_MTU,
	OPT_STRICT,
	OPT_MAY_BREAK,
	OPT_PUBLIC,
	OPT_VERBOSE,
	OPT_DRY_RUN,
	OPT_NAME,
	OPT_DIFF,
	OPT_MATRIX,
	OPT_PCAP,
	OPT_KNOWN,
	OPT_REPEAT,
	OPT_FAIL_ON,
	/* Outputs: in the order of OUTPUT_JSON and so on. */
	OPT_JSON,
	OPT_JUNIT,
	OPT_TAP,
	OPT_HTML,
};

static const struct cli_option options[] = {
	{OPT_FROM, "from", "ADDRESS",
	 "Send from this address of the host (default: the one that routing chooses)"},
	{OPT_ONLY, "only", "PATTERN", "Cases whose ID matches, as seq/*; may be repeated",
	 CLI_CASE},
	{OPT_CASE, "case", "FILE", "Cases of a file instead of those of the program", CLI_FILE},
	{OPT_LIST, "list", NULL, "Print the cases that would be carried out, and end"},
	{OPT_IDENTIFY, "identify", NULL,
	 "Name the known device whose traits fit best, by the cases that record them"},
	{OPT_DRY_RUN, "dry-run", NULL, "Print them with what each does, and end"},
	{OPT_PORT, "port", "PEER=PORT", "TCP port, or CM service, of a peer (see below)"},
	{OPT_MTU, "mtu", "BYTES", "Path MTU of pingpong's queue pairs (default 1024)",
	 .choices = "256 512 1024"},
	{OPT_KNOWN, "known", "FILE",
	 "Differences that are accepted, \"ID | reason\"; or a list of the program: rocemu, "
	 "rxe-6.1",
	 CLI_FILE},
	{OPT_REPEAT, "repeat", "N", "Each case N times; what differs now and then is inconclusive"},
	{OPT_FAIL_ON, "fail-on", "WHAT",
	 "The least verdict that makes the exit code 1 (default fail)",
	 .choices = "fail warn inconclusive never"},
	{OPT_STRICT, "strict", NULL, "What differs from a SHOULD is FAIL, too"},
	{OPT_MAY_BREAK, "may-break-it", NULL,
	 "Also cases that may do harm to the device or its host"},
	{OPT_PUBLIC, "allow-public", NULL,
	 "Also addresses that are neither private, link-local nor loopback"},
	{OPT_JSON, "json", "FILE", "Write the results as JSON; \"-\": to standard output",
	 CLI_FILE},
	{OPT_JUNIT, "junit", "FILE", "The same as JUnit's XML", CLI_FILE},
	{OPT_TAP, "tap", "FILE", "The same as TAP", CLI_FILE},
	{OPT_HTML, "html", "FILE", "The same as one page, with the packets of what differs",
	 CLI_FILE},
	{OPT_PCAP, "pcap", "DIR",
	 "Write the packets of each case to DIR, pcapng with comments for Wireshark", CLI_FILE},
	{OPT_NAME, "name", "TEXT", "The device's name in what is written, as \"NIC-7 fw 1.2\""},
	{OPT_DIFF, "diff", NULL, "Compare two files of --json: what changed in the second"},
	{OPT_MATRIX, "matrix", NULL, "Show files of --json side by side; with --html as a page"},
	{OPT_VERBOSE, "verbose", NULL, "Print each line of each case, and what came of it"},
	CLI_HELP,
	{0},
};

const struct cli conform_cli = {
	.name = "conform",
	.brief = "show what a RoCEv2 device does with each packet of the standard",
	.usage = "[OPTIONS] ADDRESS\n"
		 "--diff OLD NEW\n"
		 "--matrix [--html PAGE] FILE...",
	.about =
		"Sends packets to the device at ADDRESS from a UDP socket of its own, and compares "
		"what comes back with what the standard demands. Cases that need nothing at the "
		"device ask its QP 1. Others need a program there, and are left out where it does "
		"not run; the command that starts it is printed.",
	.options = options,
	.operand = CLI_FILE,
	.notes = "Peers: rc_pingpong (TCP port 18515), uc_pingpong (18516), ud_pingpong (18517), "
		 "rping (CM service 7174), write_bw (TCP port 18521), read_bw (18522), "
		 "atomic_bw (18523), conform_peer (18520).\n\n"
		 "Exit code 0: no case is FAIL (or what --fail-on names); 1: one is; 2: wrong "
		 "usage, the device cannot be reached, or a file cannot be written. --diff: 1: a "
		 "case got worse.",
};

/* Of --fail-on: each includes those before it. */
enum fail_on { FAIL_NEVER, FAIL_FAIL, FAIL_WARN, FAIL_INCONCLUSIVE };
static const char *const fail_on_text[] = {"never", "fail", "warn", "inconclusive"};

/* Of command_options.output. */
enum { OUTPUT_JSON, OUTPUT_JUNIT, OUTPUT_TAP, OUTPUT_HTML, OUTPUTS };

struct command_options {
	const char *self;
	struct conform_options o;
	const char *only[ONLY_MAX];
	unsigned onlys;
	bool diff, matrix, identify;
	bool list, dry_run, allow_public, verbose;
	const char *name, *pcap;
	unsigned repeat;
	enum fail_on fail_on;
	struct conform_known known;
	char words[WORDS_MAX]; /* by which a case is carried out again */
	struct conform_output output[OUTPUTS + 1];
	struct conform_catalogue cases;
	const struct conform_case **chosen; /* owned: a family behind the other */
	unsigned nchosen;
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

	/* The servers' receives have 4096 bytes: several packets. */
	if (!read_number(text, 1024, &n) || n < 256 || n & (n - 1))
		return wrong(c, "--mtu", text, "256, 512 or 1024");
	c->o.mtu = n;
	return true;
}

static bool read_repeat(struct command_options *c, const char *text)
{
	return read_number(text, REPEAT_MAX, &c->repeat) ||
	       wrong(c, "--repeat", text, "a number from 1 to 1000");
}

static bool read_fail_on(struct command_options *c, const char *text)
{
	for (unsigned i = 0; i < ARRAY_LEN(fail_on_text); i++) {
		c->fail_on = (enum fail_on)i;
		if (strcmp(fail_on_text[i], text) == 0)
			return true;
	}
	return wrong(c, "--fail-on", text, "fail, warn, inconclusive or never");
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
	if (c->identify && !conform_identify_wants(k))
		return false;
	for (unsigned i = 0; i < c->onlys; i++)
		if (fnmatch(c->only[i], k->id, 0) == 0)
			return true;
	return !c->onlys;
}

/** Does an earlier case begin the family? */
static bool is_family_begun(const struct command_options *c, const struct conform_case *k)
{
	for (unsigned i = 0; i < c->nchosen; i++)
		if (conform_same_family(c->chosen[i], k))
			return true;
	return false;
}

/** A family may be in several files. */
static bool choose(struct command_options *c)
{
	c->chosen = calloc(c->cases.ncases + 1, sizeof(struct conform_case *));
	for (unsigned i = 0; c->chosen && i < c->cases.ncases; i++) {
		const struct conform_case *first = &c->cases.cases[i];

		if (is_family_begun(c, first))
			continue;
		for (unsigned k = i; k < c->cases.ncases; k++) {
			const struct conform_case *next = &c->cases.cases[k];

			if (conform_same_family(first, next) && is_chosen(c, next))
				c->chosen[c->nchosen++] = next;
		}
	}
	if (!c->chosen)
		fprintf(stderr, "%s: no memory\n", c->self);
	else if (!c->nchosen)
		fprintf(stderr, "%s: no case matches --only; see --list\n", c->self);
	return c->nchosen;
}

static void begin_text(const struct command_options *c, struct conform_text *t)
{
	const bool terminal = isatty(STDOUT_FILENO);
	const bool taken = c->identify || conform_outputs_to_stdout(c->output);
	struct winsize w;

	*t = (struct conform_text){.f = taken ? NULL : stdout, .width = WIDTH};
	t->live = !taken && terminal && !c->verbose;
	t->colour = !taken && terminal && !getenv("NO_COLOR");
	if (!t->live && !c->verbose && isatty(STDERR_FILENO))
		t->also = stderr;
	if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col)
		t->width = w.ws_col < WIDTH_MAX ? w.ws_col : WIDTH_MAX;
}

static int exit_code(const struct command_options *c, const struct conform_report *p)
{
	const bool failed = (c->fail_on >= FAIL_FAIL && p->count[CONFORM_FAIL]) ||
			    (c->fail_on >= FAIL_WARN && p->count[CONFORM_WARN]) ||
			    (c->fail_on >= FAIL_INCONCLUSIVE && p->count[CONFORM_INCONCLUSIVE]);

	if (p->stopped)
		return p->dead ? TOOL_FAILED : TOOL_USAGE;
	if (c->identify)
		return conform_identified(p) ? TOOL_OK : TOOL_FAILED;
	return failed ? TOOL_FAILED : TOOL_OK;
}

static int run_all(struct command_options *c, struct conform_session *s)
{
	struct conform_report p = {.name = c->name,
				   .version = ROCEMU_VERSION,
				   .words = c->words,
				   .known = &c->known,
				   .chosen = c->nchosen};
	const struct conform_plan plan = {c->chosen, c->nchosen, c->repeat, &c->known};
	const struct rocemu_gid from = conform_gid(s);
	struct conform_text t;
	int code = TOOL_USAGE;

	begin_text(c, &t);
	conform_report_begin(&p, &c->o, &from);
	p.has_noise = conform_noise(s, &p.noise);
	conform_text_begin(&t, &p);
	if (!conform_all(s, &plan, &p, &t)) {
		fprintf(stderr, "%s: no memory\n", c->self);
	} else {
		conform_text_end(&t, &p);
		if (c->identify && !conform_outputs_to_stdout(c->output))
			conform_identify(stdout, &p);
		if (conform_outputs_write(c->output, c->self, &p) &&
		    (!c->pcap || conform_pcap(c->pcap, &p, c->self)))
			code = exit_code(c, &p);
	}
	conform_report_free(&p);
	return code;
}

static int run(struct command_options *c)
{
	struct conform_session *s;
	struct scenario_error e;
	char error[512];
	int code;

	if (!c->cases.ncases && !conform_catalogue_built_in(&c->cases, &e)) {
		report_error(c, &e);
		return TOOL_USAGE;
	}
	if (!choose(c))
		return TOOL_USAGE;
	for (unsigned i = 0; (c->list || c->dry_run) && i < c->nchosen; i++)
		conform_report_case(stdout, c->chosen[i], c->dry_run);
	if (c->list || c->dry_run)
		return TOOL_OK;
	if ((c->pcap && !conform_pcap_directory(c->pcap, c->self)) ||
	    !conform_outputs_open(c->output, c->self))
		return TOOL_USAGE;
	if (c->verbose)
		c->o.log = conform_outputs_to_stdout(c->output) ? stderr : stdout;
	s = conform_open(&c->o, error, sizeof(error));
	if (!s) {
		fprintf(stderr, "%s: %s\n", c->self, error);
		return TOOL_USAGE;
	}
	code = run_all(c, s);
	conform_close(s);
	return code;
}

/* ---- options ---- */

/** Quoted for a shell where it has to be. */
static void add_word(struct command_options *c, const char *option, const char *value)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_=./:,+";
	const char *quote = value && value[strspn(value, plain)] ? "'" : "";
	const size_t n = strlen(c->words);

	snprintf(c->words + n, sizeof(c->words) - n, " --%s%s%s%s%s", option, value ? " " : "",
		 quote, value ? value : "", quote);
}

/** Those that decide what is sent: they are in the command that carries a case out again. */
static void keep_option(struct command_options *c, int option)
{
	switch (option) {
	case OPT_FROM:
	case OPT_CASE:
	case OPT_PORT:
	case OPT_MTU:
	case OPT_STRICT:
	case OPT_MAY_BREAK:
	case OPT_PUBLIC:
		break;
	default:
		return;
	}
	for (const struct cli_option *o = options; o->name; o++)
		if (o->key == option)
			add_word(c, o->name, o->arg ? optarg : NULL);
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
	case OPT_IDENTIFY:
		c->output[OUTPUT_JSON].write = conform_identify_json;
		return c->identify = true;
	case OPT_STRICT:
		return c->o.strict = true;
	case OPT_MAY_BREAK:
		return c->o.may_break = true;
	case OPT_PUBLIC:
		return c->allow_public = true;
	case OPT_VERBOSE:
		setlinebuf(stdout);
		return c->verbose = true;
	case OPT_KNOWN:
		return conform_known_read(&c->known, optarg, c->self);
	case OPT_REPEAT:
		return read_repeat(c, optarg);
	case OPT_FAIL_ON:
		return read_fail_on(c, optarg);
	case OPT_NAME:
		c->name = optarg;
		return true;
	case OPT_JSON:
	case OPT_JUNIT:
	case OPT_TAP:
	case OPT_HTML:
		c->output[option - OPT_JSON].path = optarg;
		return true;
	case OPT_DIFF:
		return c->diff = true;
	case OPT_MATRIX:
		return c->matrix = true;
	case OPT_PCAP:
		c->pcap = optarg;
		return true;
	default:
		return false;
	}
}

static int run_operands(struct command_options *c, int n, char **operand)
{
	const char *expected = NULL;

	if (c->diff)
		expected = n == 2 ? NULL : "two files of --json";
	else if (c->matrix)
		expected = n >= 1 ? NULL : "files of --json";
	else if (n != 1 && !((c->list || c->dry_run) && n == 0))
		expected = "one address";
	if (expected)
		fprintf(stderr, "%s: expected %s; see --help\n", c->self, expected);
	else if (c->diff || c->matrix)
		return conform_compare(c->self, operand, (unsigned)n, c->diff,
				       c->output[OUTPUT_HTML].path);
	else if (n == 0 || read_target(c, operand[0]))
		return run(c);
	return TOOL_USAGE;
}

int tool_conform(int argc, char **argv)
{
	struct command_options c = {.self = argv[0],
				    .name = "",
				    .repeat = 1,
				    .fail_on = FAIL_FAIL,
				    .o = {.mtu = MTU, .patience_ms = PATIENCE_MS},
				    .output = {[OUTPUT_JSON] = {"--json", conform_json},
					       [OUTPUT_JUNIT] = {"--junit", conform_junit},
					       [OUTPUT_TAP] = {"--tap", conform_tap},
					       [OUTPUT_HTML] = {"--html", conform_html}}};
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
		keep_option(&c, opt);
		good = read_option(&c, opt);
	}
	if (good)
		code = run_operands(&c, argc - optind, argv + optind);
	free(c.chosen);
	conform_known_free(&c.known);
	conform_catalogue_free(&c.cases);
	return code;
}
