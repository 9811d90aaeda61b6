/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/block-writer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { COMMENT_ROOM = 1024 };

void block_begin(struct block_writer *w)
{
	w->len = 0;
}

void block_put(struct block_writer *w, const void *p, size_t n)
{
	uint8_t *bigger;

	if (w->len + n > w->most) {
		size_t most = (w->len + n) * 2;

		bigger = realloc(w->block, most);
		if (bigger == NULL) {
			w->out_of_memory = true;
			return;
		}
		w->block = bigger;
		w->most = most;
	}
	if (n != 0)
		memcpy(w->block + w->len, p, n);
	w->len += n;
}

static void encode32(const struct block_writer *w, uint8_t *p, uint32_t v)
{
	if (w->big)
		put_be32(p, v);
	else
		put_le32(p, v);
}

void block_put32(struct block_writer *w, uint32_t v)
{
	uint8_t b[4];

	encode32(w, b, v);
	block_put(w, b, sizeof(b));
}

void block_put16x2(struct block_writer *w, uint16_t first, uint16_t second)
{
	block_put32(w, w->big ? (uint32_t)first << 16 | second : (uint32_t)second << 16 | first);
}

void block_put_padded(struct block_writer *w, const void *p, size_t n)
{
	static const uint8_t zeros[4];

	block_put(w, p, n);
	block_put(w, zeros, -n & 3);
}

void block_put_comment(struct block_writer *w, const char *fmt, ...)
{
	char text[COMMENT_ROOM];
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = strlen(text);
	block_put16x2(w, BLOCK_OPT_COMMENT, (uint16_t)n);
	block_put_padded(w, text, n);
}

void block_begin_section(struct block_writer *w)
{
	block_begin(w);
	block_put32(w, BLOCK_SECTION_TYPE);
	block_put32(w, 0);
	block_put32(w, BLOCK_ORDER_MAGIC);
	block_put16x2(w, 1, 0);
	block_put32(w, UINT32_MAX); /* its length: not known */
	block_put32(w, UINT32_MAX);
}

int block_write_interface(struct block_writer *w, uint16_t link, uint8_t digits)
{
	const uint8_t resolution[4] = {digits};

	block_begin(w);
	block_put32(w, BLOCK_INTERFACE_TYPE);
	block_put32(w, 0);
	block_put16x2(w, link, 0);
	block_put32(w, 0);
	block_put16x2(w, BLOCK_OPT_TSRESOL, 1);
	block_put(w, resolution, sizeof(resolution));
	return block_finish(w);
}

void block_begin_packet(struct block_writer *w, uint32_t interface, uint64_t ticks,
			const void *data, uint32_t caplen, uint32_t len)
{
	block_begin(w);
	block_put32(w, BLOCK_ENHANCED_TYPE);
	block_put32(w, 0);
	block_put32(w, interface);
	block_put32(w, (uint32_t)(ticks >> 32));
	block_put32(w, (uint32_t)ticks);
	block_put32(w, caplen);
	block_put32(w, len);
	block_put_padded(w, data, caplen);
}

int block_finish(struct block_writer *w)
{
	block_put32(w, 0);
	block_put32(w, (uint32_t)w->len + 4);
	if (w->out_of_memory)
		return -ENOMEM;
	encode32(w, w->block + 4, (uint32_t)w->len);
	errno = 0;
	if (fwrite(w->block, 1, w->len, w->out) != w->len)
		return errno != 0 ? -errno : -EIO;
	return 0;
}

void block_writer_fini(struct block_writer *w)
{
	free(w->block);
}
