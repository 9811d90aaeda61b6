/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/stat-msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

_Static_assert(sizeof(struct stat_head) % 8 == 0 && sizeof(struct stat_lane) % 8 == 0 &&
		       sizeof(struct rocemu_qp_report) % 8 == 0,
	       "what follows is not aligned");

bool stat_request_is_valid(const void *data, size_t len)
{
	struct stat_request r;

	if (len != sizeof(r))
		return false;
	memcpy(&r, data, sizeof(r));
	return r.magic == STAT_MAGIC && r.version == STAT_VERSION;
}

static bool ends(const char *text, size_t size)
{
	return memchr(text, 0, size) != NULL;
}

int stat_check(const void *data, size_t len)
{
	const struct stat_head *h = data;
	size_t at = sizeof(*h);

	if (len < 2 * sizeof(uint32_t) || h->magic != STAT_MAGIC)
		return -EPROTO;
	if (h->version != STAT_VERSION || len < sizeof(*h) ||
	    h->lane_size != sizeof(struct stat_lane) ||
	    h->qp_size != sizeof(struct rocemu_qp_report))
		return -EPROTONOSUPPORT;
	if (!ends(h->comm, sizeof(h->comm)) || h->err < 0)
		return -EPROTO;
	for (uint32_t i = 0; i < h->nlanes; i++) {
		const struct stat_lane *l = (const void *)((const uint8_t *)data + at);

		if (len - at < sizeof(*l) || !ends(l->device, sizeof(l->device)) ||
		    !ends(l->holder, sizeof(l->holder)))
			return -EPROTO;
		at += sizeof(*l);
		if ((len - at) / sizeof(struct rocemu_qp_report) < l->nqps)
			return -EPROTO;
		at += l->nqps * sizeof(struct rocemu_qp_report);
		for (uint32_t q = 0; q < l->nqps; q++)
			if (stat_qps(l)[q].nwqes > ROCEMU_REPORT_WQES)
				return -EPROTO;
	}
	return at == len ? 0 : -EPROTO;
}

/* Where the lanes end is counted from the front. */
const struct stat_lane *stat_lane_next(const struct stat_head *h, const struct stat_lane *l)
{
	const struct stat_lane *at = (const void *)(h + 1);

	for (uint32_t i = 0; i < h->nlanes; i++) {
		const bool found = !l;

		if (found)
			return at;
		if (at == l)
			l = NULL;
		at = (const void *)(stat_qps(at) + at->nqps);
	}
	return NULL;
}

void *stat_buf_reserve(struct stat_buf *b, size_t n)
{
	const size_t room = MAX(b->len + n, 2 * b->room);
	uint8_t *data;

	if (b->len + n <= b->room)
		return b->data + b->len;
	data = b->len + n <= STAT_BYTES_MAX ? realloc(b->data, room) : NULL;
	if (!data)
		return NULL;
	b->data = data;
	b->room = room;
	return data + b->len;
}
