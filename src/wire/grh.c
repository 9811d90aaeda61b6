/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GRH (IBTA vol. 1, 8.3), and the IPv4 header that stands in its place (annex A17.4.5). The
 * IPv4 header itself is ip.c's.
 */
#include <string.h>

#include <rocemu/mad.h>

#include "base/bytes.h"
#include "base/util.h"
#include "wire/ip.h"

/* clang-format off */
enum { GRH_WORD0 = 0, GRH_PAYLEN = 4, GRH_NXTHDR = 6, GRH_HOPLMT = 7, GRH_SGID = 8, GRH_DGID = 24 };
enum { GRH_IPVER_SHIFT = 28, GRH_TCLASS_SHIFT = 20, GRH_FLOW_MASK = 0xfffff };
enum { IPV4_NO_OPTIONS = 0x45, IPV4_TOTAL = 2, IPV4_PROTO = 9 };
enum { GRH_IPV4 = ROCEMU_GRH_LEN - IPV4_LEN, IPV4_MAX_PAYLOAD = 0xffff - IPV4_LEN };
/* clang-format on */

void rocemu_grh_encode(const struct rocemu_grh *g, uint8_t buf[ROCEMU_GRH_LEN])
{
	if (g->ipver == 4) {
		struct ip_udp ip = {
			.src = g->sgid,
			.dst = g->dgid,
			.ip_id = g->ip_id,
			.ip_frag = g->ip_frag,
			.tclass = g->tclass,
			.hop_limit = g->hop_limit,
		};

		memset(buf, 0, GRH_IPV4);
		ipv4_encode(&ip, MIN(g->paylen, IPV4_MAX_PAYLOAD), buf + GRH_IPV4);
		return;
	}
	put_be32(buf + GRH_WORD0, (uint32_t)g->ipver << GRH_IPVER_SHIFT |
					  (uint32_t)g->tclass << GRH_TCLASS_SHIFT |
					  (g->flow_label & GRH_FLOW_MASK));
	put_be16(buf + GRH_PAYLEN, g->paylen);
	buf[GRH_NXTHDR] = g->nxthdr;
	buf[GRH_HOPLMT] = g->hop_limit;
	memcpy(buf + GRH_SGID, g->sgid.raw, sizeof(g->sgid.raw));
	memcpy(buf + GRH_DGID, g->dgid.raw, sizeof(g->dgid.raw));
}

static bool grh_decode_ipv4(struct rocemu_grh *g, const uint8_t *p)
{
	struct ip_udp ip = {0};
	uint16_t all = get_be16(p + IPV4_TOTAL);

	ipv4_fields(&ip, p);
	if (p[0] != IPV4_NO_OPTIONS || ip_checksum(p, IPV4_LEN) != 0 || all < IPV4_LEN ||
	    p[IPV4_PROTO] != IP_PROTO_UDP || (ip.ip_frag & IP_FRAGMENTED) != 0)
		return false;
	*g = (struct rocemu_grh){
		.ipver = 4,
		.tclass = ip.tclass,
		.paylen = (uint16_t)(all - IPV4_LEN),
		.nxthdr = IP_PROTO_UDP,
		.hop_limit = ip.hop_limit,
		.sgid = ip.src,
		.dgid = ip.dst,
		.ip_id = ip.ip_id,
		.ip_frag = ip.ip_frag,
	};
	return true;
}

bool rocemu_grh_decode(struct rocemu_grh *g, const uint8_t buf[ROCEMU_GRH_LEN])
{
	uint32_t word0 = get_be32(buf + GRH_WORD0);

	if (grh_decode_ipv4(g, buf + GRH_IPV4))
		return true;
	if (word0 >> GRH_IPVER_SHIFT != 6)
		return false;
	*g = (struct rocemu_grh){
		.ipver = 6,
		.tclass = (uint8_t)(word0 >> GRH_TCLASS_SHIFT),
		.flow_label = word0 & GRH_FLOW_MASK,
		.paylen = get_be16(buf + GRH_PAYLEN),
		.nxthdr = buf[GRH_NXTHDR],
		.hop_limit = buf[GRH_HOPLMT],
	};
	memcpy(g->sgid.raw, buf + GRH_SGID, sizeof(g->sgid.raw));
	memcpy(g->dgid.raw, buf + GRH_DGID, sizeof(g->dgid.raw));
	return true;
}
