/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/forks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

static const struct fork_handlers *levels[FORK_LEVELS];
static bool registered;

static void prepare(void)
{
	for (unsigned i = 0; i < FORK_LEVELS; i++)
		if (levels[i])
			levels[i]->prepare();
}

static void parent(void)
{
	for (unsigned i = FORK_LEVELS; i-- > 0;)
		if (levels[i])
			levels[i]->parent();
}

static void child(void)
{
	for (unsigned i = FORK_LEVELS; i-- > 0;)
		if (levels[i])
			levels[i]->child();
}

void forks_add(enum fork_level level, const struct fork_handlers *handlers)
{
	levels[level] = handlers;
	if (!registered)
		pthread_atfork(prepare, parent, child);
	registered = true;
}
