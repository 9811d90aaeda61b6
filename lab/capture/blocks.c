/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the blocks of pcap and pcapng files. */
#include "capture/blocks.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"

enum {
	MAX_BLOCK = 16 << 20, /* limit of a block's or frame's length; larger lengths are refused */
	MAX_INTERFACES = 1 << 12,
	PCAP_HEADER = 24,
	PCAP_RECORD = 16,
	PCAP_RECORD_KUZNETZOV = 24, /* of old Linux tools: eight bytes more */
	BLOCK_LEAST = 12,
	SECTION_LEAST = 28,
	INTERFACE_BODY = 8,
	ENHANCED_BODY = 20,
	SIMPLE_BODY = 4,
};

/* clang-format off */
enum { PCAP_LINK = 20 };
enum { BLOCK_INTERFACE_DESCRIPTION = 1, BLOCK_PACKET = 2, BLOCK_SIMPLE = 3, BLOCK_ENHANCED = 6 };
enum { OPT_END = 0, OPT_TSRESOL = 9, OPT_TSOFFSET = 14 };
/* clang-format on */
#define MAGIC_US	0xa1b2c3d4u
#define MAGIC_NS	0xa1b23c4du
#define MAGIC_KUZNETZOV 0xa1b2cd34u
#define MAGIC_SECTION	0x0a0d0d0au
#define MAGIC_ORDER	0x1a2b3c4du

struct interface {
	uint32_t link, snaplen;
	uint8_t resolution; /* in the option's encoding */
	uint64_t offset_s;
};

struct blocks {
	struct source *source; /* owned */
	bool pcapng, big_endian, nanoseconds;
	uint32_t link;
	unsigned record_len;
	struct interface *interfaces; /* owned; of the section */
	uint32_t interface_n, interface_room;
	uint8_t *buf; /* owned: the block */
	size_t room;
	uint8_t first[4]; /* read while opening, and not used yet */
	bool first_there;
	char error[160];
};

static uint16_t get16(const struct blocks *f, const uint8_t *p)
{
	return f->big_endian ? get_be16(p) : get_le16(p);
}

static uint32_t get32(const struct blocks *f, const uint8_t *p)
{
	return f->big_endian ? get_be32(p) : get_le32(p);
}

static uint64_t get64(const struct blocks *f, const uint8_t *p)
{
	return f->big_endian ? get_be64(p) : (uint64_t)get_le32(p + 4) << 32 | get_le32(p);
}

__attribute__((format(printf, 2, 3))) static int damaged(struct blocks *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->error, sizeof(f->error), fmt, ap);
	va_end(ap);
	return -EIO;
}

static bool make_room(struct blocks *f, size_t n)
{
	uint8_t *bigger;

	if (n <= f->room)
		return true;
	n = MAX(n, (size_t)1 << 16);
	bigger = realloc(f->buf, n);
	if (bigger == NULL)
		return false;
	f->buf = bigger;
	f->room = n;
	return true;
}

/* n bytes to buf + at. @return n; 0: the input ended before the first; -EIO. */
static long take(struct blocks *f, size_t at, size_t n)
{
	long got;

	if (!make_room(f, at + n))
		return damaged(f, "no memory for a frame of %zu bytes", n);
	got = source_read(f->source, f->buf + at, n);
	if (got < 0)
		return damaged(f, "%s", source_error(f->source));
	if (got != 0 && (size_t)got < n)
		return damaged(f, "it ends within a frame");
	return got;
}

/* ---- pcap ---- */

static bool pcap_magic(struct blocks *f, uint32_t magic)
{
	f->record_len = magic == MAGIC_KUZNETZOV ? PCAP_RECORD_KUZNETZOV : PCAP_RECORD;
	f->nanoseconds = magic == MAGIC_NS;
	return magic == MAGIC_US || magic == MAGIC_NS || magic == MAGIC_KUZNETZOV;
}

static int pcap_open(struct blocks *f)
{
	long got = take(f, 4, PCAP_HEADER - 4);

	if (got < 0)
		return -EINVAL;
	if (got == 0) {
		damaged(f, "its header is cut off");
		return -EINVAL;
	}
	f->link = get32(f, f->buf + PCAP_LINK) & 0xffff; /* above: the length of a checksum */
	return 0;
}

static int pcap_next_frame(struct blocks *f, struct block *b)
{
	long got = take(f, 0, f->record_len);
	uint32_t frac;

	if (got <= 0)
		return (int)got;
	frac = get32(f, f->buf + 4);
	*b = (struct block){
		.kind = BLOCK_FRAME,
		.ts_ns = (uint64_t)get32(f, f->buf) * NS_PER_S +
			 (uint64_t)frac * (f->nanoseconds ? 1 : 1000),
		.caplen = get32(f, f->buf + 8),
		.len = get32(f, f->buf + 12),
		.link = f->link,
	};
	if (b->caplen > MAX_BLOCK)
		return damaged(f, "a frame of %u bytes", b->caplen);
	if (b->caplen != 0) {
		got = take(f, 0, b->caplen);
		if (got <= 0)
			return got < 0 ? -EIO : damaged(f, "it ends within a frame");
	}
	b->data = f->buf;
	return 1;
}

/* ---- pcapng ---- */

static uint64_t time_ns(const struct interface *i, uint64_t ticks)
{
	unsigned n = i->resolution & 0x7f;
	uint64_t ns = ticks;

	if ((i->resolution & 0x80) != 0) {
		if (n > 63)
			return 0;
		ns = (ticks >> n) * NS_PER_S +
		     (uint64_t)((unsigned __int128)(ticks & (((uint64_t)1 << n) - 1)) * NS_PER_S >>
				n);
	} else {
		for (; n < 9; n++)
			ns *= 10;
		for (; n > 9 && ns != 0; n--)
			ns /= 10;
	}
	return ns + i->offset_s * NS_PER_S;
}

static int interface_add(struct blocks *f, const uint8_t *body, size_t len)
{
	struct interface *i, *bigger;
	size_t at = INTERFACE_BODY;

	if (len < INTERFACE_BODY)
		return damaged(f, "an interface of %zu bytes", len);
	if (f->interface_n == MAX_INTERFACES)
		return damaged(f, "more than %u interfaces", MAX_INTERFACES);
	if (f->interface_n == f->interface_room) {
		f->interface_room = f->interface_room != 0 ? f->interface_room * 2 : 4;
		bigger = realloc(f->interfaces, f->interface_room * sizeof(*bigger));
		if (bigger == NULL)
			return damaged(f, "no memory for its interfaces");
		f->interfaces = bigger;
	}
	i = &f->interfaces[f->interface_n++];
	*i = (struct interface){
		.link = get16(f, body), .snaplen = get32(f, body + 4), .resolution = 6};
	while (len - at >= 4) {
		unsigned code = get16(f, body + at), n = get16(f, body + at + 2);

		if (code == OPT_END || n > len - at - 4)
			break;
		if (code == OPT_TSRESOL && n == 1)
			i->resolution = body[at + 4];
		if (code == OPT_TSOFFSET && n == 8)
			i->offset_s = get64(f, body + at + 4);
		at += 4 + ((n + 3u) & ~3u);
		if (at > len)
			break;
	}
	return 0;
}

/* The frame of an enhanced or of an obsolete packet block: the two differ in how they begin. */
static int frame_of(struct blocks *f, struct block *b, const uint8_t *body, size_t len, bool old)
{
	const struct interface *i;

	if (len < ENHANCED_BODY)
		return damaged(f, "a packet block of %zu bytes", len);
	b->interface = old ? get16(f, body) : get32(f, body);
	b->caplen = get32(f, body + 12);
	b->len = get32(f, body + 16);
	if (b->caplen > len - ENHANCED_BODY)
		return damaged(f, "a frame of %u bytes in a block of %zu", b->caplen, len);
	if (b->interface >= f->interface_n)
		return damaged(f, "a frame of interface %u, of %u", b->interface, f->interface_n);
	i = &f->interfaces[b->interface];
	b->kind = BLOCK_FRAME;
	b->link = i->link;
	b->ts_ns = time_ns(i, (uint64_t)get32(f, body + 4) << 32 | get32(f, body + 8));
	b->data = body + ENHANCED_BODY;
	b->options = 8 + ENHANCED_BODY + ((b->caplen + 3u) & ~3u);
	if (b->options > b->raw_len - 4)
		b->options = 0;
	return 1;
}

static int simple_frame(struct blocks *f, struct block *b, const uint8_t *body, size_t len)
{
	uint32_t snaplen;

	if (len < SIMPLE_BODY || f->interface_n == 0)
		return damaged(f, "a simple packet block %s",
			       len < SIMPLE_BODY ? "without length" : "without an interface");
	b->kind = BLOCK_FRAME;
	b->link = f->interfaces[0].link;
	snaplen = f->interfaces[0].snaplen;
	b->len = b->caplen = get32(f, body);
	if (snaplen != 0)
		b->caplen = MIN(b->caplen, snaplen);
	b->caplen = (uint32_t)MIN((size_t)b->caplen, len - SIMPLE_BODY);
	b->data = body + SIMPLE_BODY;
	return 1;
}

/* The rest of a section header's first twelve bytes determines the byte order. */
static int section_begin(struct blocks *f)
{
	uint32_t order = get_be32(f->buf + 8);

	if (order != MAGIC_ORDER && get_le32(f->buf + 8) != MAGIC_ORDER)
		return damaged(f, "a section without byte order");
	f->big_endian = order == MAGIC_ORDER;
	f->interface_n = 0;
	return 0;
}

/* The block whose first twelve bytes are in buf, of which have were read from the file. */
static int block_take(struct blocks *f, struct block *b)
{
	bool section = get_be32(f->buf) == MAGIC_SECTION;
	uint32_t total, type;
	const uint8_t *body;
	size_t len;
	long got;

	if (section && section_begin(f) < 0)
		return -EIO;
	type = get32(f, f->buf);
	total = get32(f, f->buf + 4);
	if (total < (section ? SECTION_LEAST : BLOCK_LEAST) || total > MAX_BLOCK || total % 4 != 0)
		return damaged(f, "a block of %u bytes", total);
	if (total > BLOCK_LEAST) {
		got = take(f, BLOCK_LEAST, total - BLOCK_LEAST);
		if (got <= 0)
			return got < 0 ? -EIO : damaged(f, "it ends within a block");
	}
	if (get32(f, f->buf + total - 4) != total)
		return damaged(f, "a block whose two lengths differ");
	*b = (struct block){.raw = f->buf, .raw_len = total};
	body = f->buf + 8;
	len = total - BLOCK_LEAST;
	if (section) {
		b->kind = BLOCK_SECTION;
		b->options = SECTION_LEAST - 4;
		return 1;
	}
	switch (type) {
	case BLOCK_INTERFACE_DESCRIPTION:
		return interface_add(f, body, len) < 0 ? -EIO : 1;
	case BLOCK_ENHANCED:
	case BLOCK_PACKET:
		return frame_of(f, b, body, len, type == BLOCK_PACKET);
	case BLOCK_SIMPLE:
		return simple_frame(f, b, body, len);
	default:
		return 1;
	}
}

static int pcapng_next(struct blocks *f, struct block *b)
{
	size_t there = 0;
	long got;

	if (f->first_there) {
		memcpy(f->buf, f->first, sizeof(f->first));
		there = sizeof(f->first);
		f->first_there = false;
	}
	got = take(f, there, BLOCK_LEAST - there);
	if (got == 0 && there == 0)
		return 0;
	if (got <= 0)
		return got < 0 ? -EIO : damaged(f, "its header is cut off");
	return block_take(f, b);
}

/* ---- both ---- */

/* The first four bytes, in buf, identify the format. */
static int open_either(struct blocks *f)
{
	long got;

	if (!make_room(f, PCAP_HEADER)) {
		damaged(f, "no memory");
		return -ENOMEM;
	}
	got = take(f, 0, sizeof(f->first));
	if (got <= 0) {
		if (got == 0)
			damaged(f, "it is empty");
		return -EINVAL;
	}
	f->pcapng = get_be32(f->buf) == MAGIC_SECTION;
	if (f->pcapng) {
		memcpy(f->first, f->buf, sizeof(f->first));
		f->first_there = true;
		return 0;
	}
	f->big_endian = pcap_magic(f, get_be32(f->buf));
	if (f->big_endian || pcap_magic(f, get_le32(f->buf)))
		return pcap_open(f);
	damaged(f, "it is not pcap or pcapng");
	return -EINVAL;
}

int blocks_open(struct blocks **out, struct source *s, char *err, size_t errlen)
{
	struct blocks *f = calloc(1, sizeof(*f));
	int ret;

	*out = NULL;
	if (f == NULL) {
		source_close(s);
		snprintf(err, errlen, "no memory");
		return -ENOMEM;
	}
	f->source = s;
	ret = open_either(f);
	if (ret < 0) {
		snprintf(err, errlen, "%s", f->error);
		blocks_close(f);
		return ret;
	}
	*out = f;
	return 0;
}

int blocks_next(struct blocks *f, struct block *b)
{
	return f->pcapng ? pcapng_next(f, b) : pcap_next_frame(f, b);
}

bool blocks_are_pcapng(const struct blocks *f)
{
	return f->pcapng;
}

uint32_t blocks_link(const struct blocks *f)
{
	return f->link;
}

bool blocks_nanoseconds(const struct blocks *f)
{
	return f->nanoseconds;
}

bool blocks_big_endian(const struct blocks *f)
{
	return f->big_endian;
}

const char *blocks_error(const struct blocks *f)
{
	return f->error;
}

void blocks_close(struct blocks *f)
{
	if (f == NULL)
		return;
	source_close(f->source);
	free(f->interfaces);
	free(f->buf);
	free(f);
}
