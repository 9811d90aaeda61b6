/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/private.h"

#include <dlfcn.h>

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
