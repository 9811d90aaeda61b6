/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A command line by one table: from it come the arrays of getopt_long(), the text of --help, and
 * the completion of shells (tools/complete-*.c). The manual pages are held against it (test/cli).
 */
#ifndef BASE_CLI_H
#define BASE_CLI_H

#include <stdbool.h>
#include <stdio.h>

/* What the value of an option is, or an operand: what shells offer for it. */
enum cli_value {
	CLI_OTHER, /* numbers, names that are made up */
	CLI_FILE,
	CLI_PID,       /* of a process that uses our devices */
	CLI_INTERFACE, /* a network interface, also in a list or after "name=" */
	CLI_DEVICE,    /* an RDMA device */
	CLI_PROGRAM,   /* a program, and its arguments */
	CLI_FINDING,   /* an ID of `rocemu verify --list` */
	CLI_SCENARIO,  /* a name of `rocemu parity --list` */
	CLI_CASE,      /* an ID of `rocemu conform --list` */
	CLI_SHELL,     /* a shell that we have completion for */
	CLI_VALUES,
};

enum {
	CLI_END = -1, /* no more options: optind is the first operand */
	CLI_WRONG = '?',
	CLI_LONG = 256, /* keys from here on have no letter */
	CLI_OPTIONS_MAX = 32,
	CLI_WIDTH = 80, /* of the text of --help */
};

struct cli_option {
	int key;	  /* what cli_next() returns; below CLI_LONG the option's letter, too */
	const char *name; /* without dashes */
	const char *arg;  /* name of its value, "[=X]" if it may be left out; NULL: takes none */
	const char *help; /* a sentence, without a full stop */
	enum cli_value value;
	const char *choices; /* all values there are, blanks between; NULL: many */
	const char *env;     /* environment variable of the same meaning, or NULL */
	bool hidden;	     /* for our own programs only */
};

/* The last but one of each table; the last is {0}. */
#define CLI_HELP                                                      \
	{                                                             \
		.key = 'h', .name = "help", .help = "Print this text" \
	}

struct cli {
	const char *name;		  /* "run": in messages "rocemu run" */
	const char *brief;		  /* a line for `rocemu --help` */
	const char *usage;		  /* what follows the name; a line for each form */
	const char *about;		  /* paragraphs, wrapped when printed */
	const struct cli_option *options; /* the last one has no name */
	const char *notes;		  /* paragraphs after the options, or NULL */
	enum cli_value
		operand; /* CLI_OTHER: there is none; CLI_PROGRAM: the first one ends the options */
};

/**
 * The next option, as getopt_long() with its optarg and optind. @return its key, CLI_END, or
 * CLI_WRONG, about which one line was written to standard error.
 */
int cli_next(const struct cli *c, int argc, char **argv);

/**
 * At a program's start: from now on a write to a file at its limit (ulimit -f) is an error, and not
 * the program's end by SIGXFSZ.
 */
void cli_begin(void);
/** Before another program is executed: it gets the signal as it was. */
void cli_before_exec(void);
/** Is all out that was printed to f? 0 or -errno. */
int cli_flush(FILE *f);
/**
 * At a program's end. self: its name in messages.
 * @return code, or 1 where it is 0 and standard output could not be written, after a message.
 */
int cli_end(const char *self, int code);

/** The text of --help. */
void cli_print_help(const struct cli *c, FILE *f);

/** Does the option take a value, in the same word or in the next? */
static inline bool cli_takes_value(const struct cli_option *o)
{
	return o->arg && *o->arg != '[';
}

#define cli_for_each(o, c)                                            \
	for (const struct cli_option *o = (c)->options; o->name; o++) \
		if (!o->hidden)

#endif
