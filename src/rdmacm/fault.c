/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that fail on purpose. The rules and what they have counted are our libibverbs', for the whole process. */
#include <dlfcn.h>

#include "rdmacm/objects.h"
#include "verbs/private.h"

static private_fault_fn *ask; /* NULL: under another libibverbs there are no such faults */

static void find(void)
{
	/* The library that we are linked to is there; the handle is kept for good. */
	void *verbs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	union {
		void *object;
		private_fault_fn *function;
	} symbol = {verbs ? dlvsym(verbs, PRIVATE_FAULT, PRIVATE_VERSION) : NULL};

	ask = symbol.function;
}

int rcm_fault(enum fault_verb verb)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return ask ? ask(verb) : 0;
}
