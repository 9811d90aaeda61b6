/* SPDX-License-Identifier: BSD-2-Clause */
/* Handles objects that a child of fork() inherits: see orphan.c. */
#ifndef VERBS_ORPHAN_H
#define VERBS_ORPHAN_H

#include "verbs/context.h"

/** The lane's on_orphaned. */
void vb_context_orphaned(void *user);
/** A call on an object of an orphaned context. The first prints a message. @return -ENODEV. */
int vb_orphan_refuse(void);
/** Free an object of such a context; its other resources are freed already. @return 0.
 */
int vb_orphan_free(void *object);

/** The begin of a call that is not on the data path. @return 0 or -ENODEV. */
static inline int vb_orphan_check(const struct vb_context *c)
{
	return likely(!c->orphan) ? 0 : vb_orphan_refuse();
}

#endif
