/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to memory that may not be there. The program owns the memory of its regions, and may unmap
 * it, take rights away or cut the file under it at any moment, while a peer reads or writes it. No
 * check before the access can exclude that; but the fault can be caught: a signal handler (the
 * engine's memfault.c) asks rocemu_memory_fault() whether it was in an access of these functions,
 * and ends the access then. Without a handler the fault is a crash as any other.
 *
 * An access costs a _setjmp() more than it would, some 3 ns.
 */
#ifndef TRANSPORT_GUARD_H
#define TRANSPORT_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/** memcpy(). @return false: dst or src is not all there; some of it may have been copied. */
bool guard_copy(void *dst, const void *src, size_t len);

/*
 * For the work of guard_run(). Where ThreadSanitizer is in our own code, it makes the accesses in
 * its runtime, with a lock held that a jump out of them would leave held.
 */
#if defined(__SANITIZE_THREAD__)
#define GUARDED_WORK __attribute__((no_sanitize("thread"), noinline))
#elif defined(__clang__) && __has_attribute(disable_sanitizer_instrumentation)
#define GUARDED_WORK __attribute__((disable_sanitizer_instrumentation))
#else
#define GUARDED_WORK
#endif

/**
 * work(arg), which must own nothing that is to be given back: it may end in the middle, at an
 * access to the memory of iov[0..niov). @return false: it did.
 */
bool guard_run(void (*work)(void *arg), void *arg, const struct iovec *iov, unsigned niov);

#endif
