/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/cli.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "test.h"

enum { OPT_FILE = 'f', OPT_LOUD = 'l', OPT_WAIT = CLI_LONG, OPT_WAITER, OPT_OWN };

static const struct cli_option options[] = {
	{OPT_FILE, "file", "FILE",
	 "A file; what is in it is long to tell, so that the text of it takes two lines at least",
	 CLI_FILE, .env = "THE_FILE"},
	{OPT_LOUD, "loud", NULL, "Print more"},
	{OPT_WAIT, "wait", "[=SECONDS]", "Wait", .choices = "1 2"},
	{OPT_WAITER, "waiter-with-a-name-of-its-own", "NAME", "Who waits"},
	{OPT_OWN, "own", NULL, "Not shown", .hidden = true},
	CLI_HELP,
	{0},
};

static const struct cli cli = {
	.name = "try",
	.usage = "[OPTIONS] WORD...\n--loud",
	.about = "Tries.",
	.options = options,
	.notes = "  kept   as it is",
	.operand = CLI_FILE,
};

/**
 * All options of a line as "key=value", then the operands, then what was printed on standard error.
 * Borrowed until the next call.
 */
static const char *parsed(const struct cli *c, const char *line)
{
	static char out[2048];
	char copy[512], *argv[32] = {copy}, *save;
	FILE *err = tmpfile(), *f = fmemopen(out, sizeof(out), "w");
	const int old = dup(STDERR_FILENO);
	int argc = 0, opt;

	assert_true(err && f && old >= 0);
	snprintf(copy, sizeof(copy), "%s", line);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	fflush(stderr);
	dup2(fileno(err), STDERR_FILENO);
	optind = 0; /* glibc: begin anew */
	while ((opt = cli_next(c, argc, argv)) != CLI_END && opt != CLI_WRONG)
		fprintf(f, "%s=%s ",
			opt == OPT_FILE	    ? "file"
			: opt == OPT_LOUD   ? "loud"
			: opt == OPT_WAIT   ? "wait"
			: opt == OPT_WAITER ? "waiter"
			: opt == OPT_OWN    ? "own"
					    : "help",
			optarg ? optarg : "");
	fflush(stderr);
	dup2(old, STDERR_FILENO);
	close(old);
	for (; opt == CLI_END && optind < argc; optind++)
		fprintf(f, "%s ", argv[optind]);
	rewind(err);
	for (int ch; (ch = getc(err)) != EOF;)
		putc(ch, f);
	fclose(err);
	fclose(f);
	return out;
}

TEST(cli_next, long_and_short__their_keys_and_values)
{
	assert_string_equal(parsed(&cli, "try --file a --loud --wait x"), "file=a loud= wait= x ");
	assert_string_equal(parsed(&cli, "try -fa -l -f b --file=c"),
			    "file=a loud= file=b file=c ");
	assert_string_equal(parsed(&cli, "try -lfx --wait=3 --own -h"),
			    "loud= file=x wait=3 own= help= ");
	assert_string_equal(parsed(&cli, "try --lo --fi x -- --loud"), "loud= file=x --loud ");
}

TEST(cli_next, operand_before_an_option__option_taken_but_not_of_a_program)
{
	struct cli program = cli;

	assert_string_equal(parsed(&cli, "try x --loud y"), "loud= x y ");
	program.operand = CLI_PROGRAM;
	assert_string_equal(parsed(&program, "try --loud x --loud y"), "loud= x --loud y ");
}

TEST(cli_next, wrong_options__one_line_with_the_word_and_what_to_do)
{
	assert_string_equal(parsed(&cli, "try --frob=3"),
			    "rocemu try: unknown option \"--frob\"; "
			    "\"rocemu try --help\" lists the options\n");
	assert_string_equal(parsed(&cli, "try -x"), "rocemu try: unknown option \"-x\"; "
						    "\"rocemu try --help\" lists the options\n");
	assert_string_equal(parsed(&cli, "try -lx"), "loud= rocemu try: unknown option \"-x\"; "
						     "\"rocemu try --help\" lists the options\n");
	assert_string_equal(parsed(&cli, "try --wai=2"), "rocemu try: \"--wai\" may be --wait or "
							 "--waiter-with-a-name-of-its-own\n");
	assert_string_equal(parsed(&cli, "try --file"),
			    "rocemu try: --file: expected a value: --file FILE\n");
	assert_string_equal(parsed(&cli, "try -f"),
			    "rocemu try: --file: expected a value: --file FILE\n");
	assert_string_equal(parsed(&cli, "try --loud=very"),
			    "rocemu try: \"--loud=very\": --loud takes no value\n");
}

TEST(cli_print_help, a_table__aligned_in_80_columns_and_nothing_hidden)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cli_print_help(&cli, f);
	fclose(f);
	assert_string_equal(
		text,
		"usage: rocemu try [OPTIONS] WORD...\n"
		"       rocemu try --loud\n"
		"\n"
		"Tries.\n"
		"\n"
		"options:\n"
		"  -f, --file FILE       A file; what is in it is long to tell, so that the text\n"
		"                        of it takes two lines at least [$THE_FILE]\n"
		"  -l, --loud            Print more\n"
		"      --wait[=SECONDS]  Wait [values: 1 2]\n"
		"      --waiter-with-a-name-of-its-own NAME\n"
		"                        Who waits\n"
		"  -h, --help            Print this text\n"
		"\n"
		"  kept   as it is\n");
	free(text);
}

TEST(cli_print_help, words_at_and_over_the_width__broken_at_blanks_alone)
{
	static char words[300];
	struct cli c = cli;
	char *text = NULL, *about;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	memset(words, 'x', sizeof(words) - 1);
	words[80] = ' ';  /* a line of 80 */
	words[161] = ' '; /* one of 80 */
	words[163] = '\n';
	c.about = words; /* and a word of 135 */
	cli_print_help(&c, f);
	fclose(f);
	about = strstr(text, "\n\n") + 2;
	assert_int_equal(strcspn(about, "\n"), 80);
	assert_int_equal(strcspn(about + 81, "\n"), 80);
	assert_int_equal(strcspn(about + 162, "\n"), 1);
	assert_int_equal(strcspn(about + 164, "\n"), 135);
	assert_int_equal(about[299], '\n');
	free(text);
}
