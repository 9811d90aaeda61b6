/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real-NIC backend: the system's libibverbs beside rocemu's, in a separate link-map namespace,
 * so that its provider libraries bind to it and not to rocemu. Its devices are listed after the
 * emulated ones, and an entry point called with an object of it calls the same symbol there
 * (REAL_CALL). Inline functions of verbs.h use a real device through its context's ops without any
 * help, except for errno and for mixed objects (real-ops.c).
 *
 * Nothing is loaded on a machine without RDMA devices. Without the library each of its symbols is a
 * function that fails with EOPNOTSUPP, so callers need not check.
 */
#ifndef VERBS_REAL_H
#define VERBS_REAL_H

#include <errno.h>
#include <stdbool.h>

#include "verbs/call.h"
#include "verbs/real-table.h" /* made by gen-symbols.py: REAL_TABLE(X), X(name, version, kind) */

#define REAL_DECLARE(name, version, kind) extern void (*real_##name)(void);
REAL_TABLE(REAL_DECLARE)
#undef REAL_DECLARE

/** The real library's function of that name, or one that fails with EOPNOTSUPP. */
#define REAL(name) ((__typeof__(&name))real_##name)

/**
 * Each namespace has its own libc, and so its own errno: it is copied there before a call, and back
 * after it.
 */
void real_errno_in(void);
void real_errno_out(void);

#define REAL_CALL(name, ...)                                                    \
	({                                                                      \
		real_errno_in();                                                \
		__typeof__((name)(__VA_ARGS__)) ret_ = REAL(name)(__VA_ARGS__); \
		real_errno_out();                                               \
		ret_;                                                           \
	})

#define REAL_CALL_VOID(name, ...)        \
	do {                             \
		real_errno_in();         \
		REAL(name)(__VA_ARGS__); \
		real_errno_out();        \
	} while (0)

/**
 * Load the library, unless that has been done, has failed before, is switched off (ROCEMU_REAL) or
 * there is no real device. Errors are printed once, on stderr. @return whether it is loaded.
 */
bool real_load(void);

/** Is it loaded? */
bool real_loaded(void);

/**
 * The real devices, in the real library's own array (to be freed with its ibv_free_device_list), or
 * NULL when there is none. n: how many.
 */
struct ibv_device **real_device_list(unsigned *n);

/** ibv_fork_init() of the real library: now, or as soon as it is loaded. Returns an errno. */
int real_fork_init(void);

/* real-ops.c */
/** Wrap a real context's ops where errno or objects of both kinds matter. */
void real_ops_wrap(struct ibv_context *ctx);
/** Restore the context's own ops, before closing it. */
void real_ops_unwrap(struct ibv_context *ctx);

/* real-forward.c */
/**
 * The cmd_fd of rocemu's contexts, for programs that duplicate it or set flags on it: nothing is
 * behind it. -1 without one.
 */
int vb_placeholder_fd(void);

#endif
