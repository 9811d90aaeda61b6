/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sets the environment variables by which a program finds rocemu's libraries, keeping the caller's
 * values.
 */
#ifndef TOOLS_LIBRARIES_H
#define TOOLS_LIBRARIES_H

/**
 * LD_LIBRARY_PATH: rocemu's libraries come first. @return an exit code of tool.h; errors are
 * printed, prefixed with self.
 */
int libraries_set_path(const char *self);
/** Options for sanitizers and valgrind; the caller's own come first. @return -1 and errno. */
int libraries_set_checkers(void);
/** LD_PRELOAD: library comes last, because a sanitizer's runtime has to be the first. @return -1
 * and errno. */
int libraries_preload(const char *library);
/**
 * LD_AUDIT, and ROCEMU_AUDIT for the auditor: it replaces each libibverbs and librdmacm by
 * rocemu's. Other auditors of the caller's are called before it. @return -1 and errno; ENOENT: this
 * installation has none.
 */
int libraries_audit(void);

#endif
