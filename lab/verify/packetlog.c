/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets kept for the page and for explanations; what does not fit is counted. */
#include "packetlog.h"

#include <stdlib.h>
#include <string.h>

#include <rocemu/mad.h>

#include "exchange.h"
#include "capture/cut.h"

struct packet_log *packet_log_new(unsigned limit)
{
	struct packet_log *l = calloc(1, sizeof(*l));

	if (l != NULL)
		l->limit = limit;
	return l;
}

void packet_log_free(struct packet_log *l)
{
	if (l == NULL)
		return;
	for (unsigned i = 0; i < l->n; i++)
		free(l->at[i].mad);
	free(l->at);
	free(l->sessions);
	free(l->order);
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

/* Some REJ has no ID of its sender's. */
static bool from_active(const struct cm_exchange *x, const struct rocemu_cm_msg *m)
{
	if (x->sidr || m->attr_id == ROCEMU_CM_REQ)
		return m->attr_id != ROCEMU_CM_SIDR_REP;
	return m->rtu.local_comm_id == x->active_id && m->rtu.remote_comm_id != x->active_id;
}

/* A MAD is kept whole: its message is printed, and names the connection that it is about. */
static void keep_mad(struct verify *v, struct logged *e, const struct pkt *p)
{
	struct rocemu_cm_msg m;

	if (p->p.h.dqpn != ROCEMU_GSI_QPN ||
	    rocemu_opcode_service(p->p.h.opcode) != ROCEMU_SVC_UD ||
	    p->p.h.deth.qkey != ROCEMU_GSI_QKEY || p->cut || p->hides || p->p.payload_len == 0 ||
	    p->p.payload_len > ROCEMU_MAD_LEN)
		return;
	e->mad = malloc(p->p.payload_len);
	if (e->mad == NULL)
		return;
	memcpy(e->mad, p->p.payload, p->p.payload_len);
	e->mad_len = p->p.payload_len;
	if (rocemu_cm_decode(&m, e->mad, e->mad_len) != ROCEMU_MAD_OK)
		return;
	e->mad_attr = m.attr_id;
	e->exchange = exchange_of_message(v, &p->rec->ip, &m);
	e->cm_active = e->exchange != NULL && from_active(e->exchange, &m);
}

void packet_log_add(struct verify *v, const struct pkt *p, struct flow *f, bool decoded)
{
	struct packet_log *l = v->log;
	struct logged *e;

	if (!make_room(l)) {
		l->left_out++;
		return;
	}
	e = &l->at[l->n++];
	*e = (struct logged){
		.number = p->rec->number,
		.segment = p->number & SEGMENT_MASK,
		.ts_ns = p->rec->ts_ns,
		.flow = f,
		.ip = p->rec->ip,
		.h = p->p.h,
		.len = (uint32_t)p->rec->wire_len,
		.decoded = decoded,
		.bth = cut_has_bth(p->rec),
		.v1 = p->rec->v1,
		.cut = p->cut,
	};
	if (decoded) {
		e->hdrs = p->hdrs;
		e->hides = p->hides;
		e->payload_len = p->p.payload_len;
		e->icrc = p->p.icrc;
		keep_mad(v, e, p);
	}
}
