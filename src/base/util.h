/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <stddef.h>

#define ARRAY_LEN(a)			(sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define likely(x)			__builtin_expect(!!(x), 1)
#define unlikely(x)			__builtin_expect(!!(x), 0)
#define MIN(a, b)			((a) < (b) ? (a) : (b))
#define MAX(a, b)			((a) > (b) ? (a) : (b))
#define NS_PER_S			1000000000u
#define NS_PER_MS			1000000u

/*
 * HOT: most messages take it. Such functions are placed side by side, so that a message touches few
 * pages. APART: exceptions and few kinds of messages take it. It is not made part of its caller,
 * which others take, too.
 */
#define HOT   __attribute__((hot))
#define APART __attribute__((noinline))

/* clang's thread-safety attributes; nothing under gcc. */
#if defined(__clang__)
#define TS(x) __attribute__((x))
#else
#define TS(x)
#endif
#define CAPABILITY(name)	  TS(capability(name))
#define GUARDED_BY(l)		  TS(guarded_by(l))
#define REQUIRES(...)		  TS(requires_capability(__VA_ARGS__))
#define ACQUIRE(...)		  TS(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...)	  TS(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...)		  TS(release_capability(__VA_ARGS__))
#define ASSERT_HELD(...)	  TS(assert_capability(__VA_ARGS__))
#define EXCLUDES(...)		  TS(locks_excluded(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS TS(no_thread_safety_analysis)

#endif
