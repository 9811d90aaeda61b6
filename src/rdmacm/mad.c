/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/mad.h"

#include <string.h>

enum { IP_DONT_FRAGMENT = 0x4000 };

static uint32_t next_psn;

void mad_seal(struct agent_cm_dgram *d, uint8_t packet[AGENT_CM_DGRAM_LEN], const struct cm_mad *m,
	      uint16_t sport, uint32_t scope_id)
{
	const struct rocemu_hdrs h = {
		.opcode = ROCEMU_UD_SEND_ONLY,
		.migreq = true,
		.ackreq = true, /* as the kernel's QP 1 has it */
		.pkey = 0xffff,
		.dqpn = ROCEMU_GSI_QPN,
		.psn = next_psn++ & ROCEMU_PSN_MASK,
		.deth = {.qkey = ROCEMU_GSI_QKEY, .sqpn = ROCEMU_GSI_QPN},
	};
	const struct rocemu_icrc_ctx ctx = {
		.src = m->addr.src,
		.dst = m->addr.dst,
		.sport = sport,
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = IP_DONT_FRAGMENT,
	};
	size_t n = rocemu_hdrs_encode(&h, packet);
	uint32_t icrc;

	memcpy(packet + n, m->data, ROCEMU_MAD_LEN);
	n += ROCEMU_MAD_LEN;
	icrc = rocemu_icrc(&ctx, packet, n, NULL, 0, NULL, 0);
	for (unsigned i = 0; i < ROCEMU_ICRC_LEN; i++)
		packet[n + i] = (uint8_t)(icrc >> 8 * i);
	*d = (struct agent_cm_dgram){
		.src = m->addr.src,
		.dst = m->addr.dst,
		.scope_id = scope_id,
		.sport = sport,
		.tclass = m->addr.tclass,
		.hop_limit = m->addr.hop_limit,
		.len = AGENT_CM_DGRAM_LEN,
		.data = packet,
	};
}

void mad_send(struct cm_client *client, struct agent_cm_dgram *d, uint8_t *packet)
{
	(void)packet;
	cm_client_send(client, d);
}

bool mad_open(const struct agent_cm_dgram *d, struct cm_addr *addr, const uint8_t **mad,
	      size_t *len)
{
	struct rocemu_packet p;

	if (rocemu_packet_decode(&p, d->data, d->len) != ROCEMU_DROP_NONE ||
	    p.h.opcode != ROCEMU_UD_SEND_ONLY)
		return false;
	*addr = (struct cm_addr){
		.src = d->src,
		.dst = d->dst,
		.tclass = d->tclass,
		.hop_limit = d->hop_limit,
	};
	*mad = p.payload;
	*len = p.payload_len;
	return true;
}

void mad_forget(void)
{
}
