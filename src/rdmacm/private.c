/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/private.h"

#include <dlfcn.h>

#include "rdmacm/globals.h"

typedef void any_fn(void);

static any_fn *find(const char *name)
{
	/* libibverbs is loaded already, being a dependency; the handle is never closed. */
	void *verbs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	union {
		void *object;
		any_fn *function;
	} symbol = {verbs ? dlvsym(verbs, name, PRIVATE_VERSION) : NULL};

	return symbol.function;
}

static void find_all(void)
{
	struct rcm_private *p = &rcm_globals.private;

	p->capture = (private_capture_fn *)find(PRIVATE_CAPTURE);
	p->devices = (private_devices_fn *)find(PRIVATE_DEVICES);
	p->emulates = (private_emulates_fn *)find(PRIVATE_EMULATES);
	p->fault = (private_fault_fn *)find(PRIVATE_FAULT);
	p->gids = (private_gids_fn *)find(PRIVATE_GIDS);
	p->unpolled = (private_unpolled_fn *)find(PRIVATE_UNPOLLED);
}

const struct rcm_private *rcm_private(void)
{
	pthread_once(&rcm_globals.private.once, find_all);
	return &rcm_globals.private;
}

int rcm_fault(enum fault_verb verb)
{
	private_fault_fn *fault = rcm_private()->fault;

	return fault ? fault(verb) : 0;
}
