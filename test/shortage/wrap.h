/* SPDX-License-Identifier: BSD-2-Clause */
/* The interface of the wrappers (wrap.c). caller: the address that the wrapper returns to. */
#ifndef TEST_SHORTAGE_WRAP_H
#define TEST_SHORTAGE_WRAP_H

#include "fault.h"

/** A call was made. @return true: it fails, with errno set. */
bool fault_hits(enum fault_kind kind, const char *name, int error, const void *caller);

/** A block was allocated. @return p, which may be NULL. */
void *fault_block_add(void *p, const void *caller);
void fault_block_remove(const void *p);
/** Mappings were made (n: 1) or removed (-1). */
void fault_map_count(const void *caller, int n);

#endif
