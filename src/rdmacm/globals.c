/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/globals.h"

#include <unistd.h>

/* clang-format off */
#define LIST(list) {&rcm_globals.list, &rcm_globals.list}
#define INITIAL                                                                                    \
	{                                                                                          \
		.core = {.generation = 1},                                                         \
		.agent = {.calls = LIST(agent.calls), .opened = LIST(agent.opened)},                                             \
		.timers = {.pending = LIST(timers.pending)},                                       \
		.devices = {.lock = MUTEX_INITIALIZER,                                     \
			    .list = LIST(devices.list),                                            \
			    .events_fd = -1},                                                      \
		.private = {.once = PTHREAD_ONCE_INIT},                                            \
	}
/* clang-format on */

struct rcm_globals rcm_globals = INITIAL;
static const struct rcm_globals initial = INITIAL; /* too large for small stacks */

void rcm_globals_forget(void)
{
	const struct rcm_private private = rcm_globals.private; /* the library has not changed */
	const unsigned generation = rcm_globals.core.generation + 1;
	struct list *n;

	/* IDs still exist, and may stop their timers. Held MADs are lost. */
	while ((n = list_first(&rcm_globals.timers.pending)) != NULL)
		list_remove(n);
	/* The descriptors of the parent's contexts are in it. */
	if (rcm_globals.devices.events_fd >= 0)
		close(rcm_globals.devices.events_fd);
	rcm_globals = initial;
	rcm_globals.private = private;
	rcm_globals.core.generation = generation;
}
