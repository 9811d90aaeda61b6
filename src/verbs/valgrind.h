/* SPDX-License-Identifier: BSD-2-Clause */
/* Client requests to valgrind's tools. */
#ifndef VERBS_VALGRIND_H
#define VERBS_VALGRIND_H

#include <stddef.h>

/** Peers read and write that memory from now on. */
void vb_valgrind_shared(const void *addr, size_t length);

#endif
