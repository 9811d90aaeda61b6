/* SPDX-License-Identifier: BSD-2-Clause */
/* What valgrind's tools are told. */
#ifndef VERBS_VALGRIND_H
#define VERBS_VALGRIND_H

#include <stddef.h>

/** Peers read and write that memory from now on. */
void vb_valgrind_shared(const void *addr, size_t length);

#endif
