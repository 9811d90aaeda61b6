/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls, as <infiniband/verbs.h> declares them, and how they fail. */
#ifndef VERBS_CALL_H
#define VERBS_CALL_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/why.h"

/** Fail the way calls that return an object do. err: an errno. */
static inline void *vb_null(int err)
{
	errno = err;
	return NULL;
}

/**
 * Fail the way calls that return an errno do; err is -errno or 0. Sets errno too, which some
 * programs read.
 */
static inline int vb_errno(int err)
{
	if (err < 0)
		errno = -err;
	return -err;
}

#endif
