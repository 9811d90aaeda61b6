/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions that only our libibverbs has (verbs/private.h). */
#ifndef RDMACM_PRIVATE_H
#define RDMACM_PRIVATE_H

#include "verbs/private.h"

typedef void rcm_private_fn(void);

/** To be cast to the function's type. NULL: another libibverbs is loaded. */
rcm_private_fn *rcm_private_function(const char *name);

/** A call begins: 0, or the -errno with which it is to fail on purpose: rules and counters are
 * libibverbs', for the whole process. Lock not held. */
int rcm_fault(enum fault_verb verb);

#endif
