/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM messages (IBTA chapter 12): their order, and what they tell about the connection they make:
 * which QPs belong together, the path MTU, the starting PSNs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "model.h"

/* clang-format off */
enum { MAD_CLASS = 1, MAD_ATTR = 16, MAD_LEN = 256, CLASS_CM = 7, MAX_EXCHANGES = 1 << 14 };
/* Offsets from the start of the MAD (12.6). */
enum { CM_LOCAL = 24, CM_REMOTE = 28, REQ_QPN = 56, REQ_PSN = 68, REQ_MTU = 74, REP_QPN = 36, REP_PSN = 44 };
enum { REQ = 0x10, MRA, REJ, REP, RTU, DREQ, DREP };
/* clang-format on */

static const char *const names[] = {"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP"};

/** What has been seen of an exchange; bits 1 << (attribute - REQ). */
struct cm_exchange {
	struct cm_exchange *next;
	struct rocemu_gid active, passive; /* who sent the REQ, and to whom */
	uint32_t active_id, passive_id;
	bool passive_known;
	uint32_t seen, qpn, psn, mtu;
};

static uint32_t bit(unsigned attr)
{
	return 1u << (attr - REQ);
}

static bool same(const struct rocemu_gid *a, const struct rocemu_gid *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* The exchange that a message other than REQ belongs to; NULL: its REQ was not seen. */
static struct cm_exchange *exchange_find(struct verify *v, const struct ip_udp *ip, uint32_t local,
					 uint32_t remote)
{
	for (struct cm_exchange *e = v->exchanges; e != NULL; e = e->next) {
		bool passive_match = !e->passive_known || e->passive_id == local;

		if (same(&e->active, &ip->dst) && same(&e->passive, &ip->src) &&
		    e->active_id == remote && passive_match)
			return e;
		if (same(&e->active, &ip->src) && same(&e->passive, &ip->dst) &&
		    e->active_id == local && (!e->passive_known || e->passive_id == remote))
			return e;
	}
	return NULL;
}

static void exchange_begin(struct verify *v, const struct ip_udp *ip, const uint8_t *mad)
{
	struct cm_exchange *e = v->exchanges;
	uint32_t id = get_be32(mad + CM_LOCAL);

	while (e != NULL && !(e->active_id == id && same(&e->active, &ip->src) &&
			      same(&e->passive, &ip->dst) && e->qpn == get_be24(mad + REQ_QPN)))
		e = e->next;
	if (e != NULL) /* repeated */
		return;
	if (v->exchange_n >= MAX_EXCHANGES)
		return;
	e = calloc(1, sizeof(*e));
	if (e == NULL) {
		v->out_of_memory = true;
		return;
	}
	v->exchange_n++;
	e->next = v->exchanges;
	v->exchanges = e;
	e->active = ip->src;
	e->passive = ip->dst;
	e->active_id = id;
	e->seen = bit(REQ);
	e->qpn = get_be24(mad + REQ_QPN);
	e->psn = get_be24(mad + REQ_PSN);
	e->mtu = mad[REQ_MTU] >> 4;
	e->mtu = e->mtu >= 1 && e->mtu <= 5 ? 128u << e->mtu : 0;
}

static void announce(struct flow *f, uint32_t psn, uint32_t mtu)
{
	flow_restart(f);
	f->psn_announced = true;
	f->announced_psn = psn;
	f->mtu = mtu;
}

static void exchange_connect(struct verify *v, const struct cm_exchange *e, const uint8_t *mad)
{
	struct ip_udp out = {.src = e->active, .dst = e->passive};
	struct ip_udp back = {.src = e->passive, .dst = e->active};
	struct flow *to_passive, *to_active;

	to_passive = flow_get(v, &out, ROCEMU_SVC_RC, get_be24(mad + REP_QPN));
	to_active = flow_get(v, &back, ROCEMU_SVC_RC, e->qpn);
	if (to_passive == NULL || to_active == NULL)
		return;
	/* "Starting PSN": what the receiver of the message is to begin with (12.7.31). */
	announce(to_passive, get_be24(mad + REP_PSN), e->mtu);
	announce(to_active, e->psn, e->mtu);
	flow_pair(v, to_passive, to_active);
}

/* A message that cannot be, whatever the capture has missed. */
static bool order_wrong(const struct cm_exchange *e, unsigned attr, bool from_active)
{
	bool repeated = (e->seen & bit(attr)) != 0;

	switch (attr) {
	case REP:
		return from_active ||
		       (!repeated && (e->seen & (bit(REJ) | bit(RTU) | bit(DREQ))) != 0);
	case RTU:
		return !from_active || (!repeated && (e->seen & bit(DREP)) != 0);
	case DREQ:
		return !repeated && (e->seen & bit(DREP)) != 0;
	case REJ:
		return (e->seen & bit(RTU)) != 0;
	default:
		return false;
	}
}

/* The message that must have come before, when it was not seen; else 0. */
static unsigned missing_before(const struct cm_exchange *e, unsigned attr)
{
	unsigned want = attr == RTU || attr == DREQ ? REP : attr == DREP ? DREQ : 0;

	return want != 0 && (e->seen & bit(want)) == 0 ? want : 0;
}

void exchange_input(struct verify *v, const struct pkt *p)
{
	const uint8_t *mad = p->p.payload;
	const struct ip_udp *ip = &p->rec->ip;
	struct cm_exchange *e;
	unsigned attr, missing;
	bool first;

	if (p->cut || p->p.payload_len < MAD_LEN || mad[MAD_CLASS] != CLASS_CM)
		return;
	attr = get_be16(mad + MAD_ATTR);
	if (attr == REQ) {
		exchange_begin(v, ip, mad);
		return;
	}
	if (attr < MRA || attr > DREP)
		return; /* SIDR has no states; alternate paths are not followed */
	e = exchange_find(v, ip, get_be32(mad + CM_LOCAL), get_be32(mad + CM_REMOTE));
	if (e == NULL)
		return;
	if (order_wrong(e, attr, same(&e->active, &ip->src)))
		FOUND(v, NULL, CM_ORDER, p, "%s, communication ID 0x%x", names[attr - REQ],
		      e->active_id);
	else if ((missing = missing_before(e, attr)) != 0)
		FOUND(v, NULL, CM_MISSING, p, "%s without %s, communication ID 0x%x",
		      names[attr - REQ], names[missing - REQ], e->active_id);
	first = (e->seen & bit(attr)) == 0;
	e->seen |= bit(attr);
	if (attr == REP && first && (e->seen & bit(REJ)) == 0) {
		e->passive_id = get_be32(mad + CM_LOCAL);
		e->passive_known = true;
		exchange_connect(v, e, mad);
	}
}

void exchange_free(struct verify *v)
{
	while (v->exchanges != NULL) {
		struct cm_exchange *e = v->exchanges;

		v->exchanges = e->next;
		free(e);
	}
}
