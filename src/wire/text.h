/* SPDX-License-Identifier: BSD-2-Clause */
/* Text under construction in a caller's buffer, as the printers of this folder make it. */
#ifndef WIRE_TEXT_H
#define WIRE_TEXT_H

#include <stddef.h>

#include <rocemu/wire.h>

/** len goes on counting when the buffer is full. */
struct text {
	char *buf; /* borrowed; always ends with a zero, unless size is 0 */
	size_t size, len;
};

/** Empty text in buf[0..size). */
struct text text_start(char *buf, size_t size);

/** Append, as printf(). */
void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** Append an address: "10.77.0.2" or "fd77::2". */
void text_add_gid(struct text *t, const struct rocemu_gid *g);

#endif
