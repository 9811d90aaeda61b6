/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps what captures that were cut do not show: packets without BTH or extension headers, packets
 * behind others in a burst. Findings that could come of that are undecided.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/util.h"
#include "model.h"

enum { LEAST = ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN, MOST_SEGMENTS = 128 /* Linux's UDP_SEGMENT */ };

void found_unless(struct verify *v, struct flow *f, bool doubt, enum rule_id rule, uint64_t number,
		  uint64_t ts_ns, const char *fmt, ...)
{
	char text[FINDING_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (doubt && !v->ignored[rule])
		found_at(v, f, RULE_UNDECIDED, number, ts_ns, "%s: %s", rules[rule].id, text);
	else
		found_at(v, f, rule, number, ts_ns, "%s", text);
}

uint32_t veil_behind(const struct pkt *p)
{
	return p->hides ? (uint32_t)MIN(p->rec->wire_len / LEAST, (size_t)MOST_SEGMENTS) : 0;
}

unsigned veil_pair(const struct verify *v, const struct rocemu_gid *a, const struct rocemu_gid *b)
{
	return (hosts_digest(v, a, b, 0) ^ hosts_digest(v, b, a, 0)) % PAIRS;
}

void veil_note(struct verify *v, const struct ip_udp *ip, uint8_t what)
{
	unsigned at = veil_pair(v, &ip->src, &ip->dst);

	v->between[at] |= what;
	v->mads_cut[at] += what == BETWEEN_MAD_CUT;
}

uint32_t veil_mads(const struct verify *v, const struct flow *f)
{
	return v->mads_cut[f->hosts->pair];
}

bool veiled(const struct verify *v, const struct flow *q)
{
	return q->rq.veiled || (q->peer != NULL && q->peer->veils) ||
	       veil_between(v, q->hosts->pair, BETWEEN_BTH_CUT);
}
