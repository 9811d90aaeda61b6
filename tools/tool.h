/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared declarations of rocemu's subcommands. A subcommand is one file with one function; main.c
 * has the table.
 *
 * Exit codes: 0 done, 1 it could not be done or something was found wrong, 2 wrong usage. Messages
 * go to standard error, one line each, beginning with "rocemu SUBCOMMAND: ".
 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

struct cli; /* base/cli.h */

/* A subcommand: its options, and its function, for which argv[0] is "rocemu SUBCOMMAND". */
struct command {
	const struct cli *cli;
	int (*run)(int argc, char **argv);
};

/* All of them; the last one has no cli. */
extern const struct command tool_commands[];
extern const struct cli run_cli, devices_cli, stat_cli, decode_cli, verify_cli, explain_cli,
	hosts_cli, completion_cli, conform_cli;

int tool_run(int argc, char **argv);
int tool_devices(int argc, char **argv);
int tool_decode(int argc, char **argv);
int tool_verify(int argc, char **argv);
int tool_explain(int argc, char **argv);
int tool_agent(int argc, char **argv);
int tool_parity(int argc, char **argv);
int tool_conform(int argc, char **argv);
int tool_stat(int argc, char **argv);
int tool_hosts(int argc, char **argv);
int tool_completion(int argc, char **argv);

/* ---- paths.c: paths of the other parts, in the build tree or installed ---- */

/**
 * The directories with the drop-in libraries, for LD_LIBRARY_PATH. @return false: not found.
 */
bool paths_libraries(char *out, size_t len);
/** The agent's program. @return false: not found. */
bool paths_agent(char out[static PATH_MAX]);
/** The library that maps paths (src/interpose). @return false: not found. */
bool paths_interposer(char out[static PATH_MAX]);
/** The auditor of the dynamic linker (src/interpose/audit.c). @return false: not found. */
bool paths_auditor(char out[static PATH_MAX]);
/** The program behind "rocemu parity". @return false: not found. */
bool paths_parity(char out[static PATH_MAX]);

/** Suppressions for valgrind. @return false: not found. */
bool paths_suppressions(char out[static PATH_MAX]);

/* What is in completion/. */
extern const char completion_bash[], completion_zsh[], completion_fish[];

/* The commit that this was built from; empty where the source is none of a repository. */
extern const char tool_commit[];

/* ---- output.c ---- */

/**
 * Red where that can be seen: text in colour when f is a terminal and NO_COLOR is not set, else
 * plain.
 */
void out_bad(FILE *f, const char *text);
/**
 * In place: what a terminal could take for a command becomes '?': control characters but newlines
 * and tabs, and what is no UTF-8. For text with names of files, which others may have made.
 */
void out_printable(char *text);
/** A line "SELF: TEXT" to stderr, of which no more than 511 bytes of TEXT, as out_printable(). */
void out_error(const char *self, const char *text);

#endif
