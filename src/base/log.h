/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages for people, on stderr, one line each: "rocemu: <text>". Levels by
 * ROCEMU_LOG=error|warn|why|info|debug (default warn). Not for the packet path. Level why: the
 * reason of each error that the program gets (why.h).
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_LVL_ERROR, LOG_LVL_WARN, LOG_LVL_WHY, LOG_LVL_INFO, LOG_LVL_DEBUG };

void log_msg(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool log_enabled(enum log_level level);
/** The level with this name in ROCEMU_LOG; -1: there is none. */
int log_level_of(const char *name);

/** Log an error; when a resource limit explains -errno, with the remedy. */
void log_failure(int err, const char *text);

#define log_error(...) log_msg(LOG_LVL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_msg(LOG_LVL_WARN, __VA_ARGS__)
#define log_info(...)  log_msg(LOG_LVL_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_LVL_DEBUG, __VA_ARGS__)

#endif
