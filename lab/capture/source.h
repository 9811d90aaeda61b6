/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a file or standard input, decompressing gzip and zstd. Memory is bounded for any input:
 * only a buffer and the decompressor's window are kept. Time is bounded as well: a file that
 * decompressed has more than 1 GiB and more than 2000 times its length is refused.
 */
#ifndef CAPTURE_SOURCE_H
#define CAPTURE_SOURCE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source;

/**
 * Open the file at path ("-": standard input). Errors: -errno of open(), -ENOMEM; the text is in
 * errbuf.
 */
int source_open(struct source **out, const char *path, char *errbuf, size_t errlen);

/**
 * Read n bytes into buf, fewer only at the end of the input.
 * @return bytes read, or -EIO: cannot be read or is damaged (source_error()).
 */
long source_read(struct source *s, uint8_t *buf, size_t n);

/** End of the input as soon as *stop is not 0 and a signal interrupts reading; borrowed. */
void source_stop_at(struct source *s, const volatile sig_atomic_t *stop);

/** After -EIO; borrowed as long as s lives. */
const char *source_error(const struct source *s);

/** NULL is allowed. */
void source_close(struct source *s);

#endif
