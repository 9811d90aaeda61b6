/* SPDX-License-Identifier: BSD-2-Clause */
/* The environment variables by which a program finds our libraries, beside what the caller has in
 * them. */
#ifndef TOOLS_LIBRARIES_H
#define TOOLS_LIBRARIES_H

/** LD_LIBRARY_PATH: our libraries come first. @return an exit code of tool.h; what is wrong was
 * said, by self. */
int libraries_set_path(const char *self);
/** Options for sanitizers and valgrind; the caller's own come first. @return -1 and errno. */
int libraries_set_checkers(void);
/** LD_PRELOAD: library comes last, because a sanitizer's runtime has to be the first. @return -1
 * and errno. */
int libraries_preload(const char *library);

#endif
