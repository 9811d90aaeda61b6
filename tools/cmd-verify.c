/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu verify: is what a capture shows RoCEv2 as the standard has it? */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"
#include "verify/rules.h"
#include "verify/verify.h"

enum { KEEP = 5, PAGE_PACKETS = 100000 };

struct options {
	const char *self;
	const char *html;
	bool json;
	unsigned keep, packets;
};

static void usage(FILE *f)
{
	fputs("usage: rocemu verify [--json] [--html PAGE] [--keep N] FILE...\n"
	      "       rocemu verify --explain ID | --list\n"
	      "\n"
	      "Checks the RoCEv2 packets of captures (pcap or pcapng, \"-\" for standard input): "
	      "ICRC, PSNs, opcodes,\n"
	      "lengths, acknowledges, READ and atomic responses, RNR waits, connection messages.\n"
	      "\n"
	      "  --json          a JSON object per file, one after the other\n"
	      "  --html PAGE     write one page with diagrams, plots over time and the findings; "
	      "one "
	      "FILE only\n"
	      "  --packets N     packets that the page shows, from the first (default 100000)\n"
	      "  --keep N        findings of each kind to print for each direction of a connection "
	      "(default 5); all are counted\n"
	      "  --explain ID    what a finding means, and where the rule comes from\n"
	      "  --list          all findings there are\n"
	      "  --help\n"
	      "\n"
	      "Exit code 0: no errors; 1: errors were found; 2: wrong usage, or a file that is no "
	      "capture of RoCEv2.\n",
	      f);
}

static void explain(const struct rule *r)
{
	printf("%s (%s): %s\n", r->id, severity_names[r->severity], r->line);
	if (*r->text)
		printf("\n%s\n", r->text);
	if (*r->clause)
		printf("\nSource: %s\n", r->clause);
}

static int explain_id(const struct options *o, const char *id)
{
	const struct rule *r = rule_find(id);

	if (r == NULL) {
		fprintf(stderr, "%s: no finding has the ID \"%s\"; --list has all\n", o->self, id);
		return TOOL_USAGE;
	}
	explain(r);
	return TOOL_OK;
}

static int list(void)
{
	for (unsigned i = 0; i < RULE_COUNT; i++)
		printf("%-24s %-8s %s\n", rules[i].id, severity_names[rules[i].severity],
		       rules[i].line);
	return TOOL_OK;
}

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
	if (ferror(f))
		err = EIO;
	if (fclose(f) != 0)
		err = errno;
	if (err == 0)
		return TOOL_OK;
	fprintf(stderr, "%s: cannot write %s: %s\n", o->self, o->html, strerror(err));
	return TOOL_USAGE;
}

static int verify_one(const struct options *o, const char *path)
{
	struct verify *v = verify_new(o->keep, o->html != NULL ? o->packets : 0);
	int code = TOOL_USAGE;
	char err[512];

	if (v == NULL) {
		fprintf(stderr, "%s: no memory\n", o->self);
		return TOOL_USAGE;
	}
	if (verify_file(v, path, err, sizeof(err)) < 0) {
		fprintf(stderr, "%s: %s\n", o->self, err);
	} else {
		code = verify_errors(v) != 0 ? TOOL_FAILED : TOOL_OK;
		if (o->json)
			verify_json(v, stdout, path);
		else
			verify_text(v, stdout, path, isatty(STDOUT_FILENO) && !getenv("NO_COLOR"));
		if (o->html != NULL && write_page(o, v, path) != TOOL_OK)
			code = TOOL_USAGE;
	}
	verify_free(v);
	return code;
}

static bool number(const struct options *o, const char *option, const char *text, unsigned *out)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno == 0 && end != text && *end == 0 && *text != '-' && n >= 1 && n <= 1000000) {
		*out = (unsigned)n;
		return true;
	}
	fprintf(stderr, "%s: %s %s: expected a number from 1 to 1000000\n", o->self, option, text);
	return false;
}

static int verify_all(const struct options *o, char **files, int n)
{
	int worst = TOOL_OK;

	if (n == 0) {
		fprintf(stderr, "%s: expected a capture file; see --help\n", o->self);
		return TOOL_USAGE;
	}
	if (o->html != NULL && n != 1) {
		fprintf(stderr, "%s: --html takes one capture file, not %d\n", o->self, n);
		return TOOL_USAGE;
	}
	for (int i = 0; i < n; i++) {
		int code = verify_one(o, files[i]);

		if (code > worst)
			worst = code;
	}
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "%s: cannot write the report: %s\n", o->self, strerror(errno));
		return TOOL_USAGE;
	}
	return worst;
}

int tool_verify(int argc, char **argv)
{
	static const struct option longs[] = {
		{"json", no_argument, NULL, 'j'},	   {"html", required_argument, NULL, 'H'},
		{"packets", required_argument, NULL, 'p'}, {"keep", required_argument, NULL, 'k'},
		{"explain", required_argument, NULL, 'e'}, {"list", no_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},	   {0},
	};
	struct options o = {.self = argv[0], .keep = KEEP, .packets = PAGE_PACKETS};
	int opt;

	while ((opt = getopt_long(argc, argv, "jh", longs, NULL)) != -1) {
		switch (opt) {
		case 'j':
			o.json = true;
			break;
		case 'H':
			o.html = optarg;
			break;
		case 'p':
			if (!number(&o, "--packets", optarg, &o.packets))
				return TOOL_USAGE;
			break;
		case 'k':
			if (!number(&o, "--keep", optarg, &o.keep))
				return TOOL_USAGE;
			break;
		case 'e':
			return explain_id(&o, optarg);
		case 'l':
			return list();
		case 'h':
			usage(stdout);
			return TOOL_OK;
		default:
			return TOOL_USAGE;
		}
	}
	return verify_all(&o, argv + optind, argc - optind);
}
