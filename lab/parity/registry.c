/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of scenarios, filled by the subjects' files at the first question. */
#include <stdarg.h>
#include <string.h>

#include "parity.h"

static struct scenario all[600];
static unsigned count;

void registry_add(void (*run)(struct pair *, const void *), const void *arg, unsigned flags,
		  const char *fmt, ...)
{
	struct scenario *s = &all[count];
	va_list ap;

	if (count == COUNT(all))
		broken("more scenarios than registry.c has room for");
	va_start(ap, fmt);
	vsnprintf(s->name, sizeof(s->name), fmt, ap);
	va_end(ap);
	s->run = run;
	s->arg = arg;
	s->flags = flags;
	count++;
}

const struct scenario *registry_all(unsigned *n)
{
	if (!count) {
		scenarios_data();
		scenarios_wr();
		scenarios_windows();
		scenarios_xrc();
		scenarios_errors();
		scenarios_flush();
		scenarios_states();
		scenarios_limits();
		scenarios_queries();
		scenarios_events();
	}
	*n = count;
	return all;
}

const struct scenario *registry_find(const char *name)
{
	unsigned n;
	const struct scenario *s = registry_all(&n);

	for (unsigned i = 0; i < n; i++)
		if (!strcmp(s[i].name, name))
			return &s[i];
	return NULL;
}
