/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets kept for the page; what does not fit is counted. */
#include "packetlog.h"

#include <stdlib.h>

struct packet_log *packet_log_new(unsigned limit)
{
	struct packet_log *l = calloc(1, sizeof(*l));

	if (l != NULL)
		l->limit = limit;
	return l;
}

void packet_log_free(struct packet_log *l)
{
	if (l != NULL)
		free(l->at);
	free(l);
}

static bool make_room(struct packet_log *l)
{
	unsigned room = l->room != 0 ? l->room * 2 : 64;
	struct logged *bigger;

	if (l->n == l->limit)
		return false;
	if (l->n < l->room)
		return true;
	bigger = realloc(l->at, room * sizeof(*bigger));
	if (bigger == NULL)
		return false;
	l->at = bigger;
	l->room = room;
	return true;
}

void packet_log_add(struct packet_log *l, const struct pkt *p, struct flow *f, bool decoded)
{
	struct logged *e;

	if (!make_room(l)) {
		l->left_out++;
		return;
	}
	e = &l->at[l->n++];
	*e = (struct logged){
		.number = p->rec->number,
		.ts_ns = p->rec->ts_ns,
		.flow = f,
		.ip = p->rec->ip,
		.h = p->p.h,
		.len = (uint32_t)p->rec->wire_len,
		.decoded = decoded,
		.cut = p->cut,
	};
	if (decoded) {
		e->payload_len = p->p.payload_len;
		e->icrc = p->p.icrc;
	}
}
