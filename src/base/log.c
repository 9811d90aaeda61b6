/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limit.h"
#include "base/sigwrite.h"
#include "base/util.h"

int log_level_of(const char *name)
{
	static const char *const names[] = {"error", "warn", "why", "info", "debug"};

	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(name, names[i]))
			return (int)i;
	return -1;
}

static enum log_level log_threshold(void)
{
	static atomic_int cached = -1;
	int level = atomic_load_explicit(&cached, memory_order_relaxed);
	const char *env;

	if (level >= 0)
		return (enum log_level)level;
	level = LOG_LVL_WARN;
	env = secure_getenv("ROCEMU_LOG");
	if (env && log_level_of(env) >= 0)
		level = log_level_of(env);
	atomic_store_explicit(&cached, level, memory_order_relaxed);
	return (enum log_level)level;
}

bool log_enabled(enum log_level level)
{
	return level <= log_threshold();
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n;

	if (!log_enabled(level))
		return;
	memcpy(line, "rocemu: ", 8);
	va_start(ap, fmt);
	n = vsnprintf(line + 8, sizeof(line) - 9, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	n = MIN(n, (int)sizeof(line) - 10);
	line[8 + n] = '\n';
	/* One write, so that lines of several processes do not mix. */
	if (sigwrite(STDERR_FILENO, line, (size_t)n + 9) < 0)
		return;
}

void log_failure(int err, const char *text)
{
	char limit[LIMIT_TEXT_LEN];

	log_error("%s%s", text, limit_text(err, limit));
}
