/* SPDX-License-Identifier: BSD-2-Clause */
/* The program that `rocemu run` is to execute: whether libraries can give it devices at all. */
#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

#include <stdbool.h>

/**
 * Print a warning if the program, found as execvp(3) does, will not load rocemu's libraries.
 * Programs that it starts are not looked at.
 * @param has_sysfs the program sees /sys/class/infiniband without libraries
 */
void program_check(const char *name, bool has_sysfs);

#endif
