/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accesses memory that may be missing. The program owns the memory of its regions, and may unmap
 * it, remove rights or truncate its file at any moment, while a peer reads or writes it. No check
 * before the access can exclude that; but the fault can be caught: a signal handler (the engine's
 * memfault.c) calls rocemu_memory_fault(), which ends the access if it was in one of these
 * functions. Without a handler the fault is an ordinary crash.
 *
 * An access costs a _setjmp() more than it would, some 3 ns.
 */
#ifndef TRANSPORT_GUARD_H
#define TRANSPORT_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/**
 * words_load() of the program's memory, words_store() to it. @return false: part of it is missing;
 * some may have been copied.
 */
bool guard_load(void *dst, const void *watched, size_t len);
bool guard_store(void *watched, const void *src, size_t len);

/*
 * For the work of guard_run(). Not instrumented: ThreadSanitizer makes accesses in its runtime,
 * with a lock that a jump would leave held.
 */
#if defined(__SANITIZE_THREAD__)
#define GUARDED_WORK __attribute__((no_sanitize("thread"), noinline))
#elif defined(__clang__) && __has_attribute(disable_sanitizer_instrumentation)
#define GUARDED_WORK __attribute__((disable_sanitizer_instrumentation))
#else
#define GUARDED_WORK
#endif

/**
 * Call work(arg), which must not hold resources: it may end in the middle, at an access to the
 * memory of iov[0..niov). @return false: it did.
 */
bool guard_run(void (*work)(void *arg), void *arg, const struct iovec *iov, unsigned niov);

#endif
