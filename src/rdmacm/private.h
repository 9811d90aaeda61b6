/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions that only our libibverbs has (verbs/private.h). */
#ifndef RDMACM_PRIVATE_H
#define RDMACM_PRIVATE_H

#include "verbs/private.h"

typedef void rcm_private_fn(void);

/** To be cast to the function's type. NULL: another libibverbs is loaded. */
rcm_private_fn *rcm_private_function(const char *name);

#endif
