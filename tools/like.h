/* SPDX-License-Identifier: BSD-2-Clause */
/* `rocemu run --like`: the emulated devices behave as a given device. */
#ifndef TOOLS_LIKE_H
#define TOOLS_LIKE_H

/**
 * Set the environment for it. name: a personality of the program, or a file. Traits that are not
 * emulated are named on standard error. @return TOOL_OK, or TOOL_USAGE after a message of self's.
 */
int like_set(const char *self, const char *name);

#endif
