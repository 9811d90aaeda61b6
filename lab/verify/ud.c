/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks unreliable datagrams. Receivers do not order or acknowledge them: only errors that make a
 * receiver drop them, and impossible values, are findings. PSNs count per source QP, whatever QPs
 * it sends to.
 */
#include <stdlib.h>
#include <string.h>

#include <rocemu/mad.h>

#include "model.h"

enum {
	MAX_SOURCES = 1 << 16,
	QPN_MULTICAST = 0xffffff,
	RECENT = 64,
};

/** A QP that sends datagrams. */
struct ud_source {
	struct hash_node node;
	struct rocemu_gid src;
	uint32_t qpn;
	uint32_t expected; /* PSN */
	uint32_t hidden;   /* as requests' */
	bool veiled;
	uint64_t seen; /* bit 0: the PSN before */
};

/* NULL: too many, or no memory. A new one has seen nothing. */
static struct ud_source *source_get(struct verify *v, const struct rocemu_gid *src, uint32_t qpn)
{
	const uint64_t key = hosts_digest(v, src, NULL, qpn);
	struct ud_source *s;

	hash_for_each (known, struct ud_source, node, &v->ud_sources, key) {
		if (known->qpn == qpn && rocemu_gid_equal(&known->src, src))
			return known;
	}
	if (v->follow != NULL && v->ud_sources.n == MAX_SOURCES) /* begin anew */
		ud_free(v);
	s = v->ud_sources.n < MAX_SOURCES ? calloc(1, sizeof(*s)) : NULL;
	if (s == NULL)
		return NULL;
	s->src = *src;
	s->qpn = qpn;
	hash_add(&v->ud_sources, &s->node, key);
	return s;
}

/* What is missing may have gone where the capture does not look: all of this are notes. */
static void check_psn(struct verify *v, struct flow *f, const struct pkt *p)
{
	struct ud_source *s = source_get(v, &p->rec->ip.src, p->p.h.deth.sqpn);
	bool unsure = v->deth_cut || v->bth_cut != 0, shown;
	uint32_t psn = p->p.h.psn;
	int32_t d;

	if (s == NULL)
		return;
	d = s->seen != 0 ? rocemu_psn_diff(psn, s->expected) : 0;
	shown = rocemu_psn_diff(psn, s->hidden) > 0;
	s->veiled = s->veiled || p->hides;
	if (d >= 0) {
		s->hidden = psn_add(psn, 1 + veil_behind(p));
		if (d > 0 && shown)
			FOUND_UNLESS(unsure, v, f, UD_PSN, p, "PSN %u from QP 0x%x, expected %u",
				     psn, s->qpn, s->expected);
		s->seen = d + 1 < RECENT ? s->seen << (d + 1) | 1 : 1;
		s->expected = psn_add(psn, 1);
		return;
	}
	if (-d > RECENT) {
		FOUND_UNLESS(unsure, v, f, UD_PSN, p,
			     "PSN %u from QP 0x%x, expected %u: counted anew", psn, s->qpn,
			     s->expected);
		s->seen = 1;
		s->hidden = s->expected = psn_add(psn, 1);
		return;
	}
	FOUND_UNLESS(unsure || s->veiled, v, f, UD_PSN, p, "PSN %u from QP 0x%x %s", psn, s->qpn,
		     s->seen >> (-d - 1) & 1 ? "again: doubled by the network" : "came late");
	s->seen |= (uint64_t)1 << (-d - 1);
}

static void check_qkey(struct verify *v, struct flow *f, const struct pkt *p)
{
	uint32_t qkey = p->p.h.deth.qkey;

	if (f->dqpn == ROCEMU_GSI_QPN) {
		if (qkey != ROCEMU_GSI_QKEY)
			FOUND(v, f, GSI, p, "Q_Key 0x%08x", qkey);
		return;
	}
	if (f->qkey_known && f->qkey != qkey)
		FOUND(v, f, QKEY, p, "0x%08x to QP 0x%x, before 0x%08x", qkey, f->dqpn, f->qkey);
	f->qkey_known = true;
	f->qkey = qkey;
}

void ud_input(struct verify *v, struct flow *f, const struct pkt *p)
{
	uint32_t sqpn = p->p.h.deth.sqpn;

	f->rq.packets++;
	f->rq.bytes += p->p.payload_len;
	if (!pkt_has(p, ROCEMU_HDR_DETH)) {
		v->deth_cut = true;
		if (f->dqpn == ROCEMU_GSI_QPN)
			veil_note(v, &p->rec->ip, BETWEEN_MAD_CUT);
		return;
	}
	if (sqpn == 0 || sqpn == QPN_MULTICAST || f->dqpn == 0)
		FOUND(v, f, UD_QPN, p, "from QP 0x%x to QP 0x%x", sqpn, f->dqpn);
	check_qkey(v, f, p);
	check_psn(v, f, p);
	if (f->dqpn == ROCEMU_GSI_QPN)
		exchange_input(v, p);
}

static bool is_multicast(const struct rocemu_gid *g)
{
	return gid_is_ipv4(g) ? (g->raw[12] & 0xf0) == 0xe0 : g->raw[0] == 0xff;
}

/* RFC 1112 and RFC 2464: the group's address is part of the frame's. */
static bool mac_fits(const struct rocemu_gid *g, const uint8_t *mac)
{
	if (gid_is_ipv4(g))
		return mac[0] == 0x01 && mac[1] == 0x00 && mac[2] == 0x5e &&
		       mac[3] == (g->raw[13] & 0x7f) && mac[4] == g->raw[14] &&
		       mac[5] == g->raw[15];
	return mac[0] == 0x33 && mac[1] == 0x33 && memcmp(mac + 2, g->raw + 12, 4) == 0;
}

void multicast_check(struct verify *v, struct flow *f, const struct pkt *p)
{
	const struct rocemu_gid *dst = &p->rec->ip.dst;
	const uint8_t *mac = p->rec->dmac;
	bool group = is_multicast(dst);

	if (group != (p->p.h.dqpn == QPN_MULTICAST) || (group && f->svc != ROCEMU_SVC_UD))
		FOUND(v, f, MCAST_QPN, p, "%s to QP 0x%x at %s address",
		      rocemu_opcode_name(p->p.h.opcode), p->p.h.dqpn,
		      group ? "a multicast" : "an ordinary");
	if (group && mac != NULL && !p->rec->v1 && !mac_fits(dst, mac))
		FOUND(v, f, MCAST_MAC, p, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
		      mac[3], mac[4], mac[5]);
}

void ud_free(struct verify *v)
{
	hash_for_all (s, struct ud_source, node, &v->ud_sources)
		free(s);
	hash_fini(&v->ud_sources);
}
