/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accesses that ThreadSanitizer is to ignore, in a program that was built with it. A thread of
 * rocemu does a peer's reads and writes on its behalf. They are ordered with the program's own
 * accesses by messages, which the sanitizer cannot see.
 */
#ifndef BASE_TSAN_H
#define BASE_TSAN_H

#include <stdbool.h>

#include "base/util.h"

/* Of the sanitizer's runtime, NULL without it. */
#define TSAN_WEAK __attribute__((weak, visibility("default")))
TSAN_WEAK void AnnotateIgnoreReadsBegin(const char *file, int line);
TSAN_WEAK void AnnotateIgnoreReadsEnd(const char *file, int line);
TSAN_WEAK void AnnotateIgnoreWritesBegin(const char *file, int line);
TSAN_WEAK void AnnotateIgnoreWritesEnd(const char *file, int line);
#undef TSAN_WEAK

static inline bool tsan_watches(void)
{
	return unlikely(AnnotateIgnoreReadsBegin && AnnotateIgnoreReadsEnd &&
			AnnotateIgnoreWritesBegin && AnnotateIgnoreWritesEnd);
}

/** On the calling thread, until tsan_ignore_end(). */
static inline void tsan_ignore_begin(void)
{
	if (!tsan_watches())
		return;
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

static inline void tsan_ignore_end(void)
{
	if (!tsan_watches())
		return;
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

#endif
