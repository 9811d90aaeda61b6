/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A copy of a capture as pcapng with the findings as comments on their packets, for reading them in
 * Wireshark. Frames are copied as they are; of pcapng all other blocks are, too.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "report.h"
#include "verify.h"
#include "capture/blocks.h"

enum {
	MOST_COMMENTS = 32, /* of one block; the rest is only counted */
	COMMENT_ROOM = 1024,
	SECTION_LENGTH = 16,
	BLOCK_SECTION_TYPE = 0x0a0d0d0a,
	BLOCK_INTERFACE_TYPE = 1,
	BLOCK_ENHANCED_TYPE = 6,
	ORDER_MAGIC = 0x1a2b3c4d,
	OPT_COMMENT = 1,
	OPT_TSRESOL = 9,
};

struct note {
	uint64_t frame; /* UINT64_MAX: of the whole capture */
	const struct finding *finding;
};

struct copy {
	FILE *out;	    /* owned */
	struct note *notes; /* owned; by frame */
	size_t n, room, next;
	const struct verify *v;
	struct blocks *in; /* owned */
	uint8_t *block;	   /* owned: the block that is made */
	size_t len, most;
	bool out_of_memory;
	uint64_t frame;
	bool section_done;
};

/* ---- the block that is made ---- */

static void put(struct copy *c, const void *p, size_t n)
{
	uint8_t *bigger;

	if (c->len + n > c->most) {
		size_t most = (c->len + n) * 2;

		bigger = realloc(c->block, most);
		if (bigger == NULL) {
			c->out_of_memory = true;
			return;
		}
		c->block = bigger;
		c->most = most;
	}
	if (n != 0)
		memcpy(c->block + c->len, p, n);
	c->len += n;
}

static void encode32(const struct copy *c, uint8_t *p, uint32_t v)
{
	if (blocks_big_endian(c->in) && blocks_are_pcapng(c->in))
		put_be32(p, v);
	else
		put_le32(p, v);
}

static void put32(struct copy *c, uint32_t v)
{
	uint8_t b[4];

	encode32(c, b, v);
	put(c, b, sizeof(b));
}

/* Two numbers of 16 bits. */
static void put16x2(struct copy *c, uint16_t first, uint16_t second)
{
	bool big = blocks_big_endian(c->in) && blocks_are_pcapng(c->in);

	put32(c, big ? (uint32_t)first << 16 | second : (uint32_t)second << 16 | first);
}

static void put_padded(struct copy *c, const void *p, size_t n)
{
	static const uint8_t zeros[4];

	put(c, p, n);
	put(c, zeros, -n & 3);
}

__attribute__((format(printf, 2, 3))) static void put_comment(struct copy *c, const char *fmt, ...)
{
	char text[COMMENT_ROOM];
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = strlen(text);
	put16x2(c, OPT_COMMENT, (uint16_t)n);
	put_padded(c, text, n);
}

/* Close the block: its end of options and its length at both ends. @return 0, or -errno. */
static int finish_block(struct copy *c)
{
	put32(c, 0);
	put32(c, (uint32_t)c->len + 4);
	if (c->out_of_memory)
		return -ENOMEM;
	encode32(c, c->block + 4, (uint32_t)c->len);
	if (fwrite(c->block, 1, c->len, c->out) != c->len)
		return errno != 0 ? -errno : -EIO;
	return 0;
}

/* ---- comments ---- */

static void comment_finding(struct copy *c, const struct finding *n)
{
	const struct rule *r = &rules[n->rule];
	bool inside = (n->number & SEGMENT_MASK) != 0;

	put_comment(c, "rocemu %s %s: %s%s%s%s (%s)", severity_names[r->severity], r->id,
		    inside ? "packet " : "", inside ? packet_name(n->number) : "",
		    inside ? ": " : "", r->line, n->text);
}

static void comment_frame(struct copy *c, uint64_t frame)
{
	unsigned done = 0, more = 0;

	for (; c->next < c->n && c->notes[c->next].frame <= frame; c->next++) {
		if (c->notes[c->next].frame < frame)
			continue;
		if (done == MOST_COMMENTS)
			more++;
		else
			comment_finding(c, c->notes[c->next].finding);
		done += done < MOST_COMMENTS;
	}
	if (more != 0)
		put_comment(c, "rocemu: %u more findings", more);
}

/* On the capture as a whole. */
static void comment_section(struct copy *c)
{
	const struct verify *v = c->v;
	unsigned done = 0;

	put_comment(c,
		    "rocemu verify: %s, %" PRIu64 " errors, %" PRIu64 " warnings, %" PRIu64
		    " notes; display filter: frame.comment contains \"rocemu error\"",
		    verdict_name(v), v->by_severity[SEV_ERROR], v->by_severity[SEV_WARN],
		    v->by_severity[SEV_NOTE]);
	for (size_t i = c->n; i-- > 0 && c->notes[i].frame == UINT64_MAX && done < MOST_COMMENTS;
	     done++)
		comment_finding(c, c->notes[i].finding);
}

static bool frame_has_notes(struct copy *c)
{
	while (c->next < c->n && c->notes[c->next].frame < c->frame)
		c->next++;
	return c->next < c->n && c->notes[c->next].frame == c->frame;
}

/* ---- copying ---- */

static uint16_t get16(const struct copy *c, const uint8_t *p)
{
	return blocks_big_endian(c->in) ? get_be16(p) : get_le16(p);
}

/* Where a block's options end, without their end mark; what is no option is left out. */
static size_t options_end(const struct copy *c, const struct block *b)
{
	size_t at = b->options, end = b->raw_len - 4;

	while (end - at >= 4 && get16(c, b->raw + at) != 0) {
		size_t n = 4 + ((get16(c, b->raw + at + 2) + 3u) & ~3u);

		if (n > end - at)
			break;
		at += n;
	}
	return at;
}

/* A packet block from its parts, as far as its options. */
static void begin_enhanced(struct copy *c, const struct block *b, uint64_t ticks)
{
	put32(c, BLOCK_ENHANCED_TYPE);
	put32(c, 0);
	put32(c, b->interface);
	put32(c, (uint32_t)(ticks >> 32));
	put32(c, (uint32_t)ticks);
	put32(c, b->caplen);
	put32(c, b->len);
	put_padded(c, b->data, b->caplen);
}

/* A pcapng block, with comments where it gets some. */
static int copy_block(struct copy *c, const struct block *b)
{
	bool frame = b->kind == BLOCK_FRAME, section = b->kind == BLOCK_SECTION;

	c->len = 0;
	if (!section && !(frame && frame_has_notes(c))) {
		if (fwrite(b->raw, 1, b->raw_len, c->out) != b->raw_len)
			return errno != 0 ? -errno : -EIO;
		return 0;
	}
	if (b->options != 0)
		put(c, b->raw, options_end(c, b));
	else
		begin_enhanced(c, b, b->ts_ns); /* a simple packet: no options, no time */
	if (section && !c->out_of_memory) {
		memset(c->block + SECTION_LENGTH, 0xff, 8); /* not known */
		if (!c->section_done)
			comment_section(c);
		c->section_done = true;
	} else {
		comment_frame(c, c->frame);
	}
	return finish_block(c);
}

/* A pcap file's header as pcapng blocks. */
static int begin_file(struct copy *c)
{
	uint8_t resolution[4] = {blocks_nanoseconds(c->in) ? 9 : 6};
	int err;

	c->len = 0;
	put32(c, BLOCK_SECTION_TYPE);
	put32(c, 0);
	put32(c, ORDER_MAGIC);
	put16x2(c, 1, 0);
	put32(c, UINT32_MAX);
	put32(c, UINT32_MAX);
	comment_section(c);
	err = finish_block(c);
	c->len = 0;
	put32(c, BLOCK_INTERFACE_TYPE);
	put32(c, 0);
	put16x2(c, (uint16_t)blocks_link(c->in), 0);
	put32(c, 0);
	put16x2(c, OPT_TSRESOL, 1);
	put(c, resolution, sizeof(resolution));
	return err < 0 ? err : finish_block(c);
}

static int copy_frame(struct copy *c, const struct block *b)
{
	c->len = 0;
	begin_enhanced(c, b, blocks_nanoseconds(c->in) ? b->ts_ns : b->ts_ns / 1000);
	comment_frame(c, c->frame);
	return finish_block(c);
}

static int copy_all(struct copy *c)
{
	bool pcapng = blocks_are_pcapng(c->in);
	int err = pcapng ? 0 : begin_file(c), n = 0;
	struct block b;

	while (err == 0 && (n = blocks_next(c->in, &b)) == 1) {
		c->frame += b.kind == BLOCK_FRAME;
		err = pcapng ? copy_block(c, &b) : copy_frame(c, &b);
	}
	return err < 0 ? err : n;
}

/* ---- the findings, by frame ---- */

static void note_finding(const struct verify *v, const struct flow *f, const struct finding *n,
			 void *user)
{
	struct copy *c = user;

	(void)v;
	(void)f;
	if (c->n == c->room) {
		size_t room = c->room != 0 ? c->room * 2 : 64;
		struct note *bigger = realloc(c->notes, room * sizeof(*bigger));

		if (bigger == NULL) {
			c->out_of_memory = true;
			return;
		}
		c->notes = bigger;
		c->room = room;
	}
	c->notes[c->n++] = (struct note){
		.frame = n->number != 0 ? n->number >> SEGMENT_BITS : UINT64_MAX,
		.finding = n,
	};
}

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int open_both(struct copy *c, const char *in, const char *out, char *err, size_t errlen)
{
	struct source *s;
	char why[160];

	if (strcmp(in, "-") == 0 || same_file(in, out)) {
		snprintf(err, errlen, "--annotate: %s: %s", in,
			 strcmp(in, "-") == 0 ? "must be a file, for it is read twice"
					      : "cannot be written over itself");
		return -1;
	}
	if (source_open(&s, in, err, errlen) < 0)
		return -1;
	if (blocks_open(&c->in, s, why, sizeof(why)) < 0) {
		snprintf(err, errlen, "%s: %s", in, why);
		return -1;
	}
	c->out = fopen(out, "we");
	if (c->out == NULL) {
		snprintf(err, errlen, "cannot write %s: %s", out, strerror(errno));
		return -1;
	}
	return 0;
}

int verify_annotate(struct verify *v, const char *in, const char *out, char *err, size_t errlen)
{
	struct copy c = {.v = v};
	int ret = open_both(&c, in, out, err, errlen);

	if (ret == 0) {
		for_each_kept(v, note_finding, &c);
		errno = 0;
		ret = c.out_of_memory ? -ENOMEM : copy_all(&c);
		if (ret < 0)
			snprintf(err, errlen, "cannot write %s: %s", out, strerror(-ret));
	}
	if (c.out != NULL && fclose(c.out) != 0 && ret == 0) {
		snprintf(err, errlen, "cannot write %s: %s", out, strerror(errno));
		ret = -1;
	}
	blocks_close(c.in);
	free(c.notes);
	free(c.block);
	return ret < 0 ? -1 : 0;
}
