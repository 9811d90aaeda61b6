/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands that change and check memory. */
#include <string.h>

#include "scenario/internal.h"
#include "scenario/setup.h"

static bool has_bytes(struct round *r, const struct scenario_place *p, uint64_t len)
{
	const uint64_t size = p->area < SCENARIO_AREAS		       ? r->setup.area
			      : p->area == SCENARIO_LAST && r->b->last ? ROCEMU_MAX_MTU
								       : 0;

	if (!size)
		return refuse(r, "a place needs mem, send, recv or last");
	return (p->offset <= size && len <= size - p->offset) ||
	       refuse(r, "the area ends at %llu", (unsigned long long)size);
}

/** Memory as it is now. */
static bool bytes_at(struct round *r, const struct scenario_place *p, uint64_t len, uint8_t **bytes)
{
	const enum scenario_area area = (enum scenario_area)p->area;

	*bytes = r->b->memory(r->world, p->end, area);
	if (!*bytes)
		return cannot(r, "memory of the device");
	*bytes += p->offset;
	if (r->b->copy)
		r->b->copy(r->world, p->end, area, p->offset, len, false);
	return true;
}

/** A place and a number of bytes that are there. */
static bool need_bytes(struct round *r, struct scenario_place *p, uint64_t *len, uint8_t **bytes)
{
	if (!need_place(r, p))
		return false;
	*len = 8;
	if (take_word(r, "len") && !need_number(r, "a length", r->setup.area, len))
		return false;
	return has_bytes(r, p, *len) && bytes_at(r, p, *len, bytes);
}

static void changed(struct round *r, const struct scenario_place *p, uint64_t len)
{
	if (r->b->copy)
		r->b->copy(r->world, p->end, (enum scenario_area)p->area, p->offset, len, true);
}

bool run_set(struct round *r)
{
	struct scenario_place p;
	uint64_t len, v;
	uint8_t *bytes;

	if (!need_bytes(r, &p, &len, &bytes))
		return false;
	if (take_word(r, "u64")) {
		if (len != 8)
			return refuse(r, "a u64 has 8 bytes");
		if (!need_number(r, "a number", UINT64_MAX, &v) || !end_of_line(r))
			return false;
		memcpy(bytes, &v, sizeof(v));
		changed(r, &p, len);
		return true;
	}
	if (!take_word(r, "fill"))
		return refuse(r, "'fill BYTE' or 'u64 NUMBER' is expected");
	if (!need_number(r, "a byte", 255, &v) || !end_of_line(r))
		return false;
	memset(bytes, (int)v, len);
	changed(r, &p, len);
	return true;
}

/** What byte i of a checked range must be. */
struct want {
	enum { WANT_UNTOUCHED, WANT_PAYLOAD, WANT_FILL, WANT_U64, WANT_PLACE } kind;
	uint64_t number;      /* of _FILL and _U64; _PAYLOAD: which byte of it is the first */
	const uint8_t *bytes; /* of _PLACE */
	uint8_t value[SCENARIO_BYTES]; /* what bytes is, if the line has them */
};

/** Pairs of hexadecimal digits. */
static bool read_value(struct round *r, struct want *w, uint64_t len)
{
	unsigned n;

	if (!need_hex(r, w->value, &n))
		return false;
	if (n != len)
		return refuse(r, "%llu bytes are expected", (unsigned long long)len);
	w->kind = WANT_PLACE;
	w->bytes = w->value;
	return true;
}

static bool read_want(struct round *r, struct want *w, uint64_t len)
{
	struct scenario_place p;
	uint8_t *bytes;

	if (take_word(r, "untouched")) {
		w->kind = WANT_UNTOUCHED;
	} else if (take_word(r, "payload")) {
		w->kind = WANT_PAYLOAD;
		w->number = 0;
		if (r->next < r->nwords && !need_number(r, "a byte", SCENARIO_AREA, &w->number))
			return false;
	} else if (take_word(r, "fill")) {
		w->kind = WANT_FILL;
		if (!need_number(r, "a byte", 255, &w->number))
			return false;
	} else if (take_word(r, "u64")) {
		w->kind = WANT_U64;
		if (len != 8)
			return refuse(r, "a u64 has 8 bytes");
		if (!need_number(r, "a number", UINT64_MAX, &w->number))
			return false;
	} else if (take_word(r, "bytes")) {
		if (!read_value(r, w, len))
			return false;
	} else if (take_word(r, "=")) {
		w->kind = WANT_PLACE;
		if (!need_place(r, &p))
			return false;
		if (!has_bytes(r, &p, len) || !bytes_at(r, &p, len, &bytes))
			return false;
		w->bytes = bytes;
	} else {
		return refuse(r, "untouched, payload, fill, u64, bytes or '=' is expected");
	}
	return end_of_line(r);
}

static uint8_t wanted(const struct want *w, const struct scenario_place *p, uint64_t i)
{
	switch (w->kind) {
	case WANT_PAYLOAD:
		return (uint8_t)(7 * (w->number + i) + 1);
	case WANT_FILL:
		return (uint8_t)w->number;
	case WANT_U64:
		return ((const uint8_t *)&w->number)[i % 8];
	case WANT_PLACE:
		return w->bytes[i];
	default:
		return scenario_byte((enum scenario_area)p->area, p->offset + i);
	}
}

bool run_check(struct round *r)
{
	struct scenario_place p;
	struct want w = {0};
	uint8_t *bytes;
	uint64_t len;

	if (!need_bytes(r, &p, &len, &bytes) || !read_want(r, &w, len))
		return false;
	for (uint64_t i = 0; i < len; i++)
		if (bytes[i] != wanted(&w, &p, i))
			return fail(r, "byte %llu of the area is 0x%02x, not 0x%02x",
				    (unsigned long long)(p.offset + i), bytes[i],
				    wanted(&w, &p, i));
	return true;
}
