/* SPDX-License-Identifier: BSD-2-Clause */
/* Declares the calls of <infiniband/verbs.h>, and helpers for their errors. */
#ifndef VERBS_CALL_H
#define VERBS_CALL_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/why.h"

/** Fail as calls that return an object. err: an errno. */
static inline void *vb_null(int err)
{
	errno = err;
	return NULL;
}

/**
 * Fail as calls that return an errno; err is -errno or 0. Sets errno too, which some programs read.
 */
static inline int vb_errno(int err)
{
	if (err < 0)
		errno = -err;
	return -err;
}

#endif
