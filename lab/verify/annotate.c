/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A copy of a capture as pcapng with the findings as comments on their packets, for reading them in
 * Wireshark. Frames are copied as they are; of pcapng all other blocks are, too.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "report.h"
#include "verify.h"
#include "capture/block-writer.h"
#include "capture/blocks.h"

enum {
	MOST_COMMENTS = 32, /* of one block; the rest is only counted */
	SECTION_LENGTH = 16,
};

struct note {
	uint64_t frame; /* UINT64_MAX: of the whole capture */
	const struct finding *finding;
};

struct copy {
	FILE *out;	       /* owned */
	struct block_writer w; /* of out */
	struct note *notes;    /* owned; by frame */
	size_t n, room, next;
	const struct verify *v;
	struct blocks *in; /* owned */
	uint64_t frame;
	bool section_done;
};

/* ---- comments ---- */

static void comment_finding(struct copy *c, const struct finding *n)
{
	const struct rule *r = &rules[n->rule];
	bool inside = (n->number & SEGMENT_MASK) != 0;

	block_put_comment(&c->w, "rocemu %s %s: %s%s%s%s (%s)", severity_names[r->severity], r->id,
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
		block_put_comment(&c->w, "rocemu: %u more findings", more);
}

/* On the capture as a whole. */
static void comment_section(struct copy *c)
{
	const struct verify *v = c->v;
	unsigned done = 0;

	block_put_comment(&c->w,
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
static void begin_packet(struct copy *c, const struct block *b, uint64_t ticks)
{
	block_begin_packet(&c->w, b->interface, ticks, b->data, b->caplen, b->len);
}

/* A pcapng block, with comments where it gets some. */
static int copy_block(struct copy *c, const struct block *b)
{
	bool frame = b->kind == BLOCK_FRAME, section = b->kind == BLOCK_SECTION;

	block_begin(&c->w);
	c->w.big = blocks_big_endian(c->in);
	if (!section && !(frame && frame_has_notes(c))) {
		if (fwrite(b->raw, 1, b->raw_len, c->out) != b->raw_len)
			return errno != 0 ? -errno : -EIO;
		return 0;
	}
	if (b->options != 0)
		block_put(&c->w, b->raw, options_end(c, b));
	else
		begin_packet(c, b, b->ts_ns); /* a simple packet: no options, no time */
	if (section && !c->w.out_of_memory) {
		memset(c->w.block + SECTION_LENGTH, 0xff, 8); /* not known */
		if (!c->section_done)
			comment_section(c);
		c->section_done = true;
	} else {
		comment_frame(c, c->frame);
	}
	return block_finish(&c->w);
}

/* A pcap file's header as pcapng blocks. */
static int begin_file(struct copy *c)
{
	int err;

	block_begin_section(&c->w);
	comment_section(c);
	err = block_finish(&c->w);
	return err < 0 ? err
		       : block_write_interface(&c->w, (uint16_t)blocks_link(c->in),
					       blocks_nanoseconds(c->in) ? 9 : 6);
}

static int copy_frame(struct copy *c, const struct block *b)
{
	begin_packet(c, b, blocks_nanoseconds(c->in) ? b->ts_ns : b->ts_ns / 1000);
	comment_frame(c, c->frame);
	return block_finish(&c->w);
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
			c->w.out_of_memory = true;
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
	c->out = c->w.out = fopen(out, "we");
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
		ret = c.w.out_of_memory ? -ENOMEM : copy_all(&c);
		if (ret < 0)
			snprintf(err, errlen, "cannot write %s: %s", out, strerror(-ret));
	}
	if (c.out != NULL && fclose(c.out) != 0 && ret == 0) {
		snprintf(err, errlen, "cannot write %s: %s", out, strerror(errno));
		ret = -1;
	}
	blocks_close(c.in);
	free(c.notes);
	block_writer_fini(&c.w);
	return ret < 0 ? -1 : 0;
}
