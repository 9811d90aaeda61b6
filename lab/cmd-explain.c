/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu explain: what happens in a capture, in words and as a ladder diagram. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cli.h"
#include "tool.h"
#include "verify/explain.h"

enum { KEEP = 5, LIMIT = 100, PACKETS = 100000, WIDTH = 100, WIDTH_MAX = 200 };

struct options {
	const char *self, *svg;
	bool ignored[RULE_COUNT];
	struct explain x;
};

enum { OPT_CONNECTION = CLI_LONG, OPT_LIMIT, OPT_SVG, OPT_IGNORE };

static const struct cli_option options[] = {
	{OPT_CONNECTION, "connection", "N",
	 "Describe that connection only; numbers as in \"rocemu verify\""},
	{OPT_LIMIT, "limit", "N", "Print at most N steps, and N rows of a diagram (default 100)"},
	{OPT_SVG, "svg", "FILE",
	 "Write the diagrams to FILE as SVG instead; its colours follow the reader's system, light "
	 "or dark",
	 CLI_FILE},
	{OPT_IGNORE, "ignore", "ID[,ID]...",
	 "Leave findings out, as \"rocemu verify\" does; with \"icrc\" packets are described "
	 "whatever "
	 "their ICRC is",
	 CLI_FINDING},
	CLI_HELP,
	{0},
};

const struct cli explain_cli = {
	.name = "explain",
	.brief = "describe a capture in words and as a diagram",
	.usage = "[OPTIONS] CAPTURE",
	.about = "Prints what happens in a capture (pcap or pcapng, \"-\" for standard input): for "
		 "each connection what its two ends do, step by step, and a ladder diagram of its "
		 "packets, named as Wireshark names them. PSNs count from each side's first. "
		 "Repetitions are folded.",
	.options = options,
	.notes = "Exit code 0, or 2: wrong usage, or a file that is no capture of RoCEv2.",
	.operand = CLI_FILE,
};

static int failed(const struct options *o, const char *what, int err)
{
	fprintf(stderr, "%s: cannot write %s: %s\n", o->self, what, strerror(err));
	return TOOL_USAGE;
}

static int write_svg(const struct options *o, struct verify *v, const char *path)
{
	const char *slash = strrchr(path, '/');
	FILE *f = fopen(o->svg, "we");
	int err;
	bool ok;

	if (f == NULL)
		return failed(o, o->svg, errno);
	ok = explain_svg(v, f, slash != NULL ? slash + 1 : path, &o->x);
	err = -cli_flush(f);
	if (fclose(f) != 0 && err == 0)
		err = errno;
	if (err != 0)
		return failed(o, o->svg, err);
	if (!ok)
		fprintf(stderr, "%s: no memory\n", o->self);
	return ok ? TOOL_OK : TOOL_USAGE;
}

static int explain_file(const struct options *o, const char *path)
{
	struct verify *v = verify_new(KEEP, PACKETS);
	int code = TOOL_USAGE, out;
	char err[512];

	if (v != NULL)
		verify_ignore(v, o->ignored);
	if (v == NULL)
		fprintf(stderr, "%s: no memory\n", o->self);
	else if (verify_file(v, path, err, sizeof(err)) < 0)
		out_error(o->self, err);
	else if (o->svg != NULL)
		code = write_svg(o, v, path);
	else if (!explain_text(v, stdout, &o->x))
		fprintf(stderr, "%s: no memory\n", o->self);
	else if ((out = cli_flush(stdout)) != 0)
		failed(o, "the explanation", -out);
	else
		code = TOOL_OK;
	verify_free(v);
	return code;
}

static bool number(const struct options *o, const char *option, const char *text, unsigned *out)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno == 0 && end != text && *end == 0 && *text != '-' && n >= 1 && n <= PACKETS) {
		*out = (unsigned)n;
		return true;
	}
	fprintf(stderr, "%s: %s %s: expected a number from 1 to %d\n", o->self, option, text,
		PACKETS);
	return false;
}

static unsigned terminal_width(void)
{
	struct winsize w;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0)
		return WIDTH;
	return w.ws_col > WIDTH_MAX ? WIDTH_MAX : w.ws_col;
}

int tool_explain(int argc, char **argv)
{
	struct options o = {.self = argv[0], .x = {.limit = LIMIT, .width = terminal_width()}};
	int opt;

	while ((opt = cli_next(&explain_cli, argc, argv)) != CLI_END) {
		switch (opt) {
		case OPT_CONNECTION:
			if (!number(&o, "--connection", optarg, &o.x.connection))
				return TOOL_USAGE;
			break;
		case OPT_LIMIT:
			if (!number(&o, "--limit", optarg, &o.x.limit))
				return TOOL_USAGE;
			break;
		case OPT_IGNORE:
			if (!rules_ignore(o.ignored, optarg, argv[0]))
				return TOOL_USAGE;
			break;
		case OPT_SVG:
			o.svg = optarg;
			break;
		case 'h':
			cli_print_help(&explain_cli, stdout);
			return TOOL_OK;
		default:
			return TOOL_USAGE;
		}
	}
	if (optind + 1 != argc) {
		fprintf(stderr, "%s: expected one capture file; see --help\n", argv[0]);
		return TOOL_USAGE;
	}
	return explain_file(&o, argv[optind]);
}
