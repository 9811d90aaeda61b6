/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks that memory to be registered exists. */
#ifndef VERBS_PAGES_H
#define VERBS_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/** Is all of addr[0..length), at least a byte, memory that may be read, and written if write?
 * -EFAULT, -EINVAL (wraps around). */
int vb_pages_check(const void *addr, size_t length, bool write);

#endif
