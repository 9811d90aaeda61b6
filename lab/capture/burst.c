/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/burst.h"

#include "base/util.h"
#include "capture/cut.h"
#include "wire/icrc.h"
#include "capture/segment.h"

static bool icrc_fits(const struct capture_rec *rec)
{
	const struct rocemu_icrc_ctx ctx = ip_icrc_ctx(&rec->ip);

	if (rec->v1)
		return icrc_v1_fits(&rec->ip, rec->data, rec->len);
	return rocemu_icrc_check(&ctx, true, rec->data, rec->len) >= 0;
}

void burst_each(const struct capture_rec *rec, burst_fn *fn, void *arg)
{
	const bool whole = rec->wire_len <= rec->len && rec->fragment_at == 0;
	const bool wrong = whole && !icrc_fits(rec);
	struct capture_rec one;
	unsigned k = 0;
	size_t size;

	if (!wrong && (whole || rec->fragment_at != 0)) {
		fn(arg, rec, 0, false);
		return;
	}
	one = *rec;
	size = wrong && !rec->v1 ? segment_size(&rec->ip, rec->data, rec->len) : 0;
	if (!size) {
		one.hides = cut_may_be_burst(rec);
		fn(arg, &one, 0, wrong);
		return;
	}
	for (size_t at = 0; at < rec->len; at += size, k++) {
		one.data = rec->data + at;
		one.len = one.wire_len = MIN(size, rec->len - at);
		one.ip.ip_id = segment_ip_id(&rec->ip, k, one.data, one.len);
		fn(arg, &one, k + 1, !icrc_fits(&one));
	}
}
