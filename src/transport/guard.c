/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/guard.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

#include "base/tsan.h"
#include "base/util.h"
#include "base/words.h"

/* Must not be initialized as a whole: clearing landing would cost as much as filling it. */
struct guard {
	jmp_buf landing;
	const struct iovec *iov; /* the memory that may be missing */
	unsigned niov;
};

/*
 * The access that this thread is in, or NULL. A signal handler reads it, on any thread, so it must
 * not be allocated on first use. The TLS model that ensures this has little room in programs that
 * load the library late: keep thread-local data small.
 */
static _Thread_local struct guard *volatile current __attribute__((tls_model("initial-exec")));

/* The handler runs on the same thread: only the compiler must keep the order. */
static inline void enter(struct guard *g)
{
	tsan_ignore_begin();
	current = g;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void leave(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	current = NULL;
	tsan_ignore_end();
}

HOT bool guard_run(void (*work)(void *arg), void *arg, const struct iovec *iov, unsigned niov)
{
	struct guard g;

	g.iov = iov;
	g.niov = niov;
	if (_setjmp(g.landing))
		return false;
	enter(&g);
	work(arg);
	leave();
	return true;
}

struct copy {
	void *dst;
	const void *src;
	size_t len;
};

HOT GUARDED_WORK static void load(void *arg)
{
	const struct copy *c = arg;

	words_load(c->dst, c->src, c->len);
}

HOT GUARDED_WORK static void store(void *arg)
{
	const struct copy *c = arg;

	words_store(c->dst, c->src, c->len);
}

HOT bool guard_load(void *dst, const void *watched, size_t len)
{
	struct copy c = {.dst = dst, .src = watched, .len = len};
	const struct iovec iov = {.iov_base = (void *)(uintptr_t)watched, .iov_len = len};

	return guard_run(load, &c, &iov, 1);
}

HOT bool guard_store(void *watched, const void *src, size_t len)
{
	struct copy c = {.dst = watched, .src = src, .len = len};
	const struct iovec iov = {.iov_base = watched, .iov_len = len};

	return guard_run(store, &c, &iov, 1);
}

/** Is it in a page of the memory? Some machines name the page only. */
static bool meant(const struct iovec *iov, uintptr_t address)
{
	const uintptr_t in_page = 4095, base = (uintptr_t)iov->iov_base;

	return iov->iov_len && (address | in_page) >= base &&
	       (address & ~in_page) <= base + (iov->iov_len - 1);
}

void rocemu_memory_fault(const void *address)
{
	struct guard *g = current;

	for (unsigned i = 0; g && i < g->niov; i++) {
		if (!meant(&g->iov[i], (uintptr_t)address))
			continue;
		current = NULL;
		/* No tsan_ignore_end(): ThreadSanitizer ends what is ignored when it calls a
		 * handler. */
		longjmp(g->landing, 1);
	}
}
