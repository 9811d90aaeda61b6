/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of this process's resource limits (setrlimit(2)), or which policy of the system, explains
 * an error.
 */
#ifndef BASE_LIMIT_H
#define BASE_LIMIT_H

enum { LIMIT_TEXT_LEN = 192 };

/**
 * In buf, what may be the cause of an error and what to do, to be appended to a message: "; this
 * process may have 64 file descriptors ...". "" where no limit is known to be the cause.
 * err: -errno. @return buf
 */
const char *limit_text(int err, char buf[static LIMIT_TEXT_LEN]);

/**
 * The same for a system call that a policy may have refused (EPERM, EACCES, ENOSYS, EAFNOSUPPORT):
 * a filter of system calls, or a security profile. Not for what another process has refused.
 */
const char *refusal_text(int err, char buf[static LIMIT_TEXT_LEN]);

#endif
