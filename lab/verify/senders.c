/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deviations that are known of adapters. They are in each of an adapter's packets, and no fault of
 * what uses it: one note for each sender.
 */
#include "base/util.h"
#include "model.h"

enum { PROBES = 8 };

/* clang-format off */
/* Reserved bits of the BTH that an adapter sets. */
static const struct { uint8_t resv8a, resv7; const char *name; } known[] = {
	{0x10, 0, "Huawei's HNS"}, /* in requests; seen in captures, its meaning is not published */
};
/* clang-format on */

/* @return false: noted before, or no more room. */
static bool is_new(struct verify *v, const struct rocemu_gid *sender, unsigned deviation)
{
	uint64_t digest = hosts_digest(v, sender, NULL, deviation) | 1;

	for (unsigned i = 0; i < PROBES; i++) {
		uint64_t *place = &v->senders[(digest >> 8) % SENDERS ^ i];

		if (*place == digest)
			return false;
		if (*place == 0) {
			*place = digest;
			return true;
		}
	}
	return false;
}

bool sender_known(struct verify *v, const struct pkt *p)
{
	const struct rocemu_hdrs *h = &p->p.h;

	for (unsigned i = 0; i < ARRAY_LEN(known); i++) {
		if (h->resv8a != known[i].resv8a || h->resv7 != known[i].resv7)
			continue;
		if (is_new(v, &p->rec->ip.src, i))
			FOUND(v, NULL, VENDOR_BITS, p,
			      "resv8a 0x%x, resv7 0x%x in this sender's packets, as %s sets them",
			      h->resv8a, h->resv7, known[i].name);
		return true;
	}
	return false;
}
