/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/gsi.h"

#include <string.h>

#include "base/bytes.h"
#include "wire/ip.h"

enum {
	PKEY_MASK = 0x7fff, /* bit 15 distinguishes full from limited members */
	SEALED_LEN = GSI_PACKET_LEN - ROCEMU_ICRC_LEN,
};

static struct rocemu_icrc_ctx icrc_ctx(const struct gsi_mad *m, uint16_t ip_id)
{
	return (struct rocemu_icrc_ctx){.src = m->src,
					.dst = m->dst,
					.sport = m->sport,
					.dport = ROCEMU_UDP_PORT,
					.ip_id = ip_id,
					.ip_frag = IP_FLAG_DF};
}

void gsi_hdr_encode(struct gsi_mad *m, uint32_t psn)
{
	/* AckReq on QP 1 has no meaning; it is there because the kernel's CM sends it, too. */
	const struct rocemu_hdrs h = {.opcode = ROCEMU_UD_SEND_ONLY,
				      .migreq = true,
				      .ackreq = true,
				      .pkey = ROCEMU_PKEY_DEFAULT,
				      .dqpn = ROCEMU_GSI_QPN,
				      .psn = psn & ROCEMU_PSN_MASK,
				      .deth = {.qkey = ROCEMU_GSI_QKEY, .sqpn = ROCEMU_GSI_QPN}};

	(void)rocemu_hdrs_encode(&h, m->hdr);
}

static void flip(const struct gsi_mad *m, uint16_t sealed, uint8_t *packet)
{
	for (unsigned i = 0; i < m->nflips && i < GSI_FLIPS_MAX; i++) {
		const unsigned bit = m->flips[i] & ~(unsigned)GSI_FLIP_SEALED;

		if ((m->flips[i] & GSI_FLIP_SEALED) == sealed && bit < 8 * GSI_PACKET_LEN)
			packet[bit / 8] ^= (uint8_t)(0x80u >> bit % 8);
	}
}

void gsi_packet_encode(const struct gsi_mad *m, uint8_t packet[static GSI_PACKET_LEN])
{
	const struct rocemu_icrc_ctx ctx = icrc_ctx(m, m->ip_id);

	memcpy(packet, m->hdr, GSI_HDR_LEN);
	memcpy(packet + GSI_HDR_LEN, m->mad, ROCEMU_MAD_LEN);
	flip(m, GSI_FLIP_SEALED, packet);
	put_le32(packet + SEALED_LEN, rocemu_icrc(&ctx, packet, SEALED_LEN, NULL, 0, NULL, 0));
	flip(m, 0, packet);
}

enum gsi_verdict gsi_packet_decode(struct gsi_mad *m, const uint8_t *packet, size_t len)
{
	const struct rocemu_icrc_ctx ctx = icrc_ctx(m, m->ip_id);
	struct rocemu_packet pkt;
	int32_t id;

	if (len != GSI_PACKET_LEN || rocemu_packet_decode(&pkt, packet, len) ||
	    pkt.h.opcode != ROCEMU_UD_SEND_ONLY || pkt.payload_len != ROCEMU_MAD_LEN ||
	    pkt.h.dqpn != ROCEMU_GSI_QPN || pkt.h.deth.sqpn != ROCEMU_GSI_QPN)
		return GSI_FORM;
	/* C10-122 and 10.2.5: a QP of general services has the well-known Q_Key, and the P_Key must
	 * match the port's, of which there is one. */
	if (pkt.h.deth.qkey != ROCEMU_GSI_QKEY ||
	    (pkt.h.pkey & PKEY_MASK) != (ROCEMU_PKEY_DEFAULT & PKEY_MASK))
		return GSI_KEY;
	id = rocemu_icrc_check(&ctx, false, packet, len);
	if (id < 0)
		return GSI_ICRC;
	m->ip_id = (uint16_t)id;
	memcpy(m->hdr, packet, GSI_HDR_LEN);
	memcpy(m->mad, packet + GSI_HDR_LEN, ROCEMU_MAD_LEN);
	return GSI_OK;
}
