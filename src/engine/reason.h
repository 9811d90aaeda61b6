/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints reasons of an endpoint (include/rocemu/why.h) as lines for people. */
#ifndef ENGINE_REASON_H
#define ENGINE_REASON_H

#include <stddef.h>

#include <rocemu/why.h>

/** The line, without its end: "QP 0x12: text: rule: remedy [0x101]". Cut to what fits. */
void reason_text(char *out, size_t size, const struct rocemu_why *w);

/** The code's name, static: "NO_ANSWER". */
const char *reason_name(enum rocemu_why_code code);

/** Print it at the log level "why", unless it repeats (base/why.h). */
void reason_report(const struct rocemu_why *w);

#endif
