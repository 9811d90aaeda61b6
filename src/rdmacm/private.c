/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/private.h"

#include <dlfcn.h>
#include <pthread.h>

rcm_private_fn *rcm_private_function(const char *name)
{
	/* The library that we are linked to is loaded; the handle is never closed. */
	void *verbs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	union {
		void *object;
		rcm_private_fn *function;
	} symbol = {verbs ? dlvsym(verbs, name, PRIVATE_VERSION) : NULL};

	return symbol.function;
}

static private_fault_fn *fault_of; /* NULL: under another libibverbs there are no such faults */

static void find_fault(void)
{
	fault_of = (private_fault_fn *)rcm_private_function(PRIVATE_FAULT);
}

int rcm_fault(enum fault_verb verb)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_fault);
	return fault_of ? fault_of(verb) : 0;
}
