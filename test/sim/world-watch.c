/* SPDX-License-Identifier: BSD-2-Clause */
/* Looks at the packets of a world while they are under way. See world.h. */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

/** How many receives the code of a syndrome stands for (IBTA, table of end-to-end credits). */
static uint32_t credits_of(uint8_t code)
{
	static const uint16_t credits[] = {
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
	};

	return credits[code];
}

/** The end that the packet goes to; NULL: it is of an earlier life. */
static const struct world_side *target(const struct world *w, const struct fabric_packet *p)
{
	const uint32_t qpn = get_be32(p->data + 4) & 0xffffff;

	for (unsigned i = 0; i < 2 * w->nconns; i++) {
		const struct world_side *s = &w->conns[i / 2].side[i % 2];

		if (s->host == p->to && s->qp && rocemu_qp_num(s->qp) == qpn)
			return s;
	}
	return NULL;
}

static void seal(struct fabric_packet *p)
{
	const struct rocemu_icrc_ctx c = {
		.src = p->src,
		.dst = p->dst,
		.sport = p->sport,
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = 0x4000,
	};
	const uint32_t body = p->len - ROCEMU_ICRC_LEN;

	put_le32(p->data + body, rocemu_icrc(&c, p->data, body, NULL, 0, NULL, 0));
}

/** As if the responder counted its receives, which rocemu's does not: its ACK has credits. */
static void add_credits(const struct world *w, struct fabric_packet *p)
{
	const struct world_side *s = target(w, p);
	uint8_t *syndrome = &p->data[ROCEMU_BTH_LEN], code = 0;

	if (!s || s->conn->type != IBV_QPT_RC ||
	    (*syndrome & ~ROCEMU_AETH_NO_CREDITS) != ROCEMU_AETH_ACK)
		return;
	while (credits_of(code + 1) <= s->other->recvs - s->other->received)
		code++;
	*syndrome = ROCEMU_AETH_ACK | code;
	seal(p);
}

bool world_watch(struct fabric *f, struct fabric_packet *p, void *arg)
{
	struct world *w = arg;
	uint64_t head, psn;

	if (w->counts[p->from] && rocemu_opcode_hdrs(p->data[0]) & ROCEMU_HDR_AETH)
		add_credits(w, p);
	memcpy(&head, p->data, 8);
	memcpy(&psn, p->data + 4, 8);
	world_note(w, f->now);
	world_note(w, head);
	world_note(w, psn ^ (uint64_t)p->len << 32 ^ (uint64_t)p->from << 16 ^ p->to);
	if (w->trace) {
		struct rocemu_packet d;

		world_assert(w, rocemu_packet_decode(&d, p->data, p->len) == ROCEMU_DROP_NONE);
		printf("%.3f us: %u to %u: QP %#x %s PSN %u, %u bytes%s, syndrome %#x\n",
		       (double)f->now / 1e3, p->from, p->to, d.h.dqpn,
		       rocemu_opcode_name(d.h.opcode), d.h.psn, d.payload_len,
		       d.h.ackreq ? ", AckReq" : "",
		       rocemu_opcode_hdrs(d.h.opcode) & ROCEMU_HDR_AETH ? d.h.aeth.syndrome : 0);
	}
	return false;
}
