/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that a subcommand runs: as itself, or as a child that it waits for. */
#ifndef TOOLS_CHILD_H
#define TOOLS_CHILD_H

/** Become argv[0]. self names the subcommand in messages. @return when it cannot: the exit code. */
int child_exec(const char *self, char **argv);

/**
 * Run argv[0] in a child and wait for its end. Signals that are sent to this process are passed on.
 * Other children that end, those that process 1 inherits, are no zombies.
 * @return 0, and the status as of waitpid(2); or an exit code after a message.
 */
int child_run(const char *self, char **argv, int *status);

/** End as the child did: by the same signal, or @return its exit code. */
int child_end_as(int status);

#endif
