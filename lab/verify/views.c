/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Removes copies from captures at several points: merged from both hosts, taken at "any", or of a
 * mirror port in both directions. Such a capture has the same packet once for each point that it
 * passed, and only the first counts: the others would look like retransmissions. The n-th copy at
 * one interface is the n-th at the others. Where the file does not identify the interface, its
 * beginning shows whether nearly all packets are there k times (view_note(), views_decide()).
 *
 * Memory is bounded: a newer packet replaces the oldest of the WAYS packets that have the same set
 * of places in the table. With one place for each set, two packets between whose copies the other's
 * came would replace each other, and both would look like retransmissions.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"
#include "model.h"
#include "capture/cut.h"

enum {
	PLACES = 1 << 15,
	WAYS = 8,
	INTERFACES = 4,
	HEAD = 28,	/* bytes of a packet that are looked at, besides its ICRC */
	CONGESTION = 4, /* of the BTH: switches change it */
	UINT16_MOST = 0xffff,
	SURE_PACKETS = 16, /* different ones, before all being there several times means anything */
	SURE_PERCENT = 70,
};
#define APART_NS \
	(10 * UINT64_C(1000000000)) /* of two hosts' clocks, and then it is another packet */

struct view {
	uint64_t hash, ts_ns;
	uint32_t interface[INTERFACES];
	uint16_t count[INTERFACES]; /* 0: free */
};

static uint64_t mix(uint64_t h, const uint8_t *p, size_t n)
{
	for (; n >= 8; n -= 8, p += 8)
		h = (h ^ get_be64(p)) * 0x9e3779b97f4a7c15u;
	while (n-- != 0)
		h = (h ^ *p++) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint64_t digest(const struct capture_rec *rec)
{
	uint8_t head[HEAD] = {0};
	size_t n = MIN(rec->len, sizeof(head));
	uint64_t h = mix(rec->ip.sport, rec->ip.src.raw, sizeof(rec->ip.src.raw));

	memcpy(head, rec->data, n);
	head[CONGESTION] = 0;
	h = mix(mix(h, rec->ip.dst.raw, sizeof(rec->ip.dst.raw)), head, sizeof(head));
	if (rec->len >= ROCEMU_ICRC_LEN && rec->len == rec->wire_len)
		h = mix(h, rec->data + rec->len - ROCEMU_ICRC_LEN, ROCEMU_ICRC_LEN);
	return h ^ rec->wire_len;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The entry of a packet; a new one if it is another packet, or too old. NULL: no memory. */
static struct view *view_of(struct verify *v, const struct capture_rec *rec)
{
	uint64_t hash = digest(rec);
	struct view *set, *w;

	if (v->views == NULL)
		v->views = calloc(PLACES, sizeof(*v->views));
	if (v->views == NULL) {
		v->out_of_memory = true;
		return NULL;
	}
	set = &v->views[hash % (PLACES / WAYS) * WAYS];
	w = set;
	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].count[0] != 0 && set[i].hash == hash) {
			w = &set[i];
			break;
		}
		if (set[i].ts_ns < w->ts_ns)
			w = &set[i];
	}
	if (w->hash != hash || apart(rec->ts_ns, w->ts_ns) > APART_NS)
		*w = (struct view){.hash = hash};
	w->ts_ns = rec->ts_ns;
	return w;
}

static void count_up(uint16_t *n)
{
	if (*n < UINT16_MOST)
		++*n;
}

void view_note(struct verify *v, const struct capture_rec *rec)
{
	struct view *w = view_of(v, rec);

	if (w != NULL)
		count_up(&w->count[0]);
}

void views_decide(struct verify *v)
{
	unsigned of_count[VIEWS_MOST + 1] = {0}, all = 0;

	for (unsigned i = 0; v->views != NULL && i < PLACES; i++) {
		unsigned n = v->views[i].count[0];

		all += n != 0;
		of_count[MIN(n, (unsigned)VIEWS_MOST)] += n != 0;
	}
	v->copies = 1;
	for (unsigned k = 2; k < VIEWS_MOST; k++) {
		if (all >= SURE_PACKETS && of_count[k] * 100 >= all * SURE_PERCENT)
			v->copies = k;
	}
	free(v->views);
	v->views = NULL;
}

/* Datagrams are never sent again with their PSN; and within a host no network doubles them. */
static bool never_again(const struct capture_rec *rec)
{
	return rec->fragment_at == 0 && rocemu_opcode_service(rec->data[0]) == ROCEMU_SVC_UD &&
	       rocemu_gid_equal(&rec->ip.src, &rec->ip.dst);
}

bool view_again(struct verify *v, const struct capture_rec *rec)
{
	bool enough = cut_has_bth(rec) || rec->fragment_at != 0;
	struct view *w = enough ? view_of(v, rec) : NULL;
	unsigned at = 0, most = 0;

	if (w == NULL) /* no memory, or not enough of it to recognize it */
		return false;
	if (w->count[0] != 0 && never_again(rec))
		return true;
	if (v->copies > 1) {
		count_up(&w->count[0]);
		return (w->count[0] - 1u) % v->copies != 0;
	}
	while (at < INTERFACES && w->count[at] != 0 && w->interface[at] != rec->interface)
		at++;
	if (at == INTERFACES)
		return true;
	w->interface[at] = rec->interface;
	for (unsigned i = 0; i < INTERFACES; i++)
		most = MAX(most, i != at ? w->count[i] : 0u);
	count_up(&w->count[at]);
	return w->count[at] <= most;
}
