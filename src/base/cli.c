/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/cli.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <string.h>

#include "base/limit.h"

enum {
	COLUMN_MAX = 30, /* where the texts of options begin, at most */
	HEAD_MAX = 256,
};

/* ---- options ---- */

/* The table in getopt_long()'s form. letters: three bytes for each option. */
static void fill(const struct cli *c, struct option *longs, char *letters)
{
	unsigned n = 0;

	/* "+": options after the program are its own; ":": getopt_long() prints no messages */
	letters = stpcpy(letters, c->operand == CLI_PROGRAM ? "+:" : ":");
	for (const struct cli_option *o = c->options; o->name; o++) {
		assert(n < CLI_OPTIONS_MAX);
		longs[n++] = (struct option){.name = o->name, .val = o->key};
		if (o->arg)
			longs[n - 1].has_arg =
				cli_takes_value(o) ? required_argument : optional_argument;
		if (o->key >= CLI_LONG)
			continue;
		*letters++ = (char)o->key;
		if (cli_takes_value(o))
			*letters++ = ':';
	}
	longs[n] = (struct option){0};
	*letters = 0;
}

static const struct cli_option *find(const struct cli *c, int key)
{
	const struct cli_option *o = c->options;

	while (o->name && o->key != key)
		o++;
	return o->name ? o : NULL;
}

/** A long option that is in no table, or begins like several of it. */
static void refuse_word(const struct cli *c, const char *word)
{
	const size_t len = strcspn(word, "=");
	const char *before = "may be";
	bool several = false;

	fprintf(stderr, "rocemu %s: ", c->name);
	cli_for_each (o, c) {
		if (len <= 2 || strncmp(o->name, word + 2, len - 2) != 0)
			continue;
		if (!several)
			fprintf(stderr, "\"%.*s\"", (int)len, word);
		fprintf(stderr, " %s --%s", before, o->name);
		before = "or";
		several = true;
	}
	if (!several)
		fprintf(stderr, "unknown option \"%.*s\"; \"rocemu %s --help\" lists the options",
			(int)len, word, c->name);
	fputc('\n', stderr);
}

static void refuse(const struct cli *c, int opt, const char *word)
{
	const struct cli_option *o = find(c, optopt);

	if (optopt == 0)
		refuse_word(c, word);
	else if (!o)
		fprintf(stderr,
			"rocemu %s: unknown option \"-%c\"; \"rocemu %s --help\" lists the "
			"options\n",
			c->name, optopt, c->name);
	else if (opt == ':')
		fprintf(stderr, "rocemu %s: --%s: expected a value: --%s %s\n", c->name, o->name,
			o->name, o->arg);
	else
		fprintf(stderr, "rocemu %s: \"%s\": --%s takes no value\n", c->name, word, o->name);
}

int cli_next(const struct cli *c, int argc, char **argv)
{
	struct option longs[CLI_OPTIONS_MAX + 1];
	char letters[3 * CLI_OPTIONS_MAX + 1];
	int opt;

	fill(c, longs, letters);
	opterr = 0;
	opt = getopt_long(argc, argv, letters, longs, NULL);
	if (opt != '?' && opt != ':')
		return opt;
	refuse(c, opt, argv[optind - 1]);
	return CLI_WRONG;
}

/* ---- the text of --help ---- */

/**
 * Each line of text, broken at blanks where it is too long for the width, after so many blanks. The
 * cursor is at column `at`, at most `indent`, of a line.
 */
static void print_wrapped(FILE *f, const char *text, int at, int indent)
{
	while (*text) {
		size_t room = (size_t)(CLI_WIDTH - indent), len = strcspn(text, "\n"), end = len;

		if (len > room)
			for (end = room; end > 0 && text[end] != ' ';)
				end--;
		if (end == 0 && len > 0) /* a word as long as a line */
			end = strcspn(text, " \n");
		fprintf(f, "%*s%.*s\n", end ? indent - at : 0, "", (int)end, text);
		at = 0;
		text += end;
		if (*text)
			text++;
	}
}

/* "  -p, --pid PID" */
static int head_of(const struct cli_option *o, char out[static HEAD_MAX])
{
	char letter[] = "    ";

	if (o->key < CLI_LONG)
		snprintf(letter, sizeof(letter), "-%c, ", o->key);
	return snprintf(out, HEAD_MAX, "  %s--%s%s%s", letter, o->name,
			cli_takes_value(o) ? " " : "", o->arg ? o->arg : "");
}

static void print_option(const struct cli_option *o, FILE *f, int column)
{
	char head[HEAD_MAX], text[2048];
	const int at = head_of(o, head);
	int n = snprintf(text, sizeof(text), "%s", o->help);

	if (o->choices)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " [values: %s]", o->choices);
	if (o->env)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " [$%s]", o->env);
	assert(n < (int)sizeof(text));
	fputs(head, f);
	if (at + 2 > column)
		fputc('\n', f);
	print_wrapped(f, text, at + 2 > column ? 0 : at, column);
}

static int column_of(const struct cli *c)
{
	char head[HEAD_MAX];
	int column = 0;

	cli_for_each (o, c) {
		const int at = head_of(o, head) + 2;

		if (at > column && at <= COLUMN_MAX)
			column = at;
	}
	return column;
}

void cli_print_help(const struct cli *c, FILE *f)
{
	const int column = column_of(c);
	const char *line = c->usage;

	for (const char *before = "usage:"; *line; before = "      ") {
		const int len = (int)strcspn(line, "\n");

		fprintf(f, "%s rocemu %s %.*s\n", before, c->name, len, line);
		line += len + (line[len] == '\n');
	}
	fputc('\n', f);
	print_wrapped(f, c->about, 0, 0);
	fputs("\noptions:\n", f);
	cli_for_each (o, c)
		print_option(o, f, column);
	if (!c->notes)
		return;
	fputc('\n', f);
	print_wrapped(f, c->notes, 0, 0);
}

/* ---- a program's start and end ---- */

static struct sigaction limit_action; /* of SIGXFSZ, as the program found it */

void cli_begin(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};

	sigaction(SIGXFSZ, &ignore, &limit_action);
}

void cli_before_exec(void)
{
	sigaction(SIGXFSZ, &limit_action, NULL);
}

int cli_flush(FILE *f)
{
	const bool before = ferror(f);

	/* stdio keeps no errno: the next write has the same. */
	if (before) {
		clearerr(f);
		fputc('\n', f);
	}
	errno = 0;
	if (fflush(f) == 0 && !before)
		return 0;
	return errno ? -errno : -EIO;
}

int cli_end(const char *self, int code)
{
	const int err = cli_flush(stdout);
	char limit[LIMIT_TEXT_LEN];

	/* Another error has its message already. */
	if (err && code == 0)
		fprintf(stderr, "%s: cannot write to standard output: %s%s\n", self, strerror(-err),
			limit_text(err, limit));
	return err && code == 0 ? 1 : code;
}
