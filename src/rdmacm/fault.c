/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that fail on purpose. The rules and what they have counted are our libibverbs', for the whole process. */
#include <dlfcn.h>

#include "rdmacm/objects.h"
#include "verbs/private.h"

static private_fault_fn *ask; /* NULL: under another libibverbs there are no such faults */

void *rcm_private_symbol(const char *name)
{
	/* The library that we are linked to is loaded; the handle is never closed. */
	void *verbs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);

	return verbs ? dlvsym(verbs, name, PRIVATE_VERSION) : NULL;
}

static void find(void)
{
	union {
		void *object;
		private_fault_fn *function;
	} symbol = {rcm_private_symbol(PRIVATE_FAULT)};

	ask = symbol.function;
}

int rcm_fault(enum fault_verb verb)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return ask ? ask(verb) : 0;
}
