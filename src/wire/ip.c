/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPv4, IPv6 and UDP headers around a RoCEv2 packet.
 */
#include "wire/ip.h"

#include <assert.h>

#include "base/bytes.h"
#include "base/util.h"

/* clang-format off */
enum { V4_VERSION_IHL = 0, V4_TOS = 1, V4_LEN = 2, V4_ID = 4, V4_FRAG = 6, V4_TTL = 8, V4_PROTO = 9,
       V4_CSUM = 10, V4_SRC = 12, V4_DST = 16 };
enum { V6_WORD0 = 0, V6_LEN = 4, V6_NEXT = 6, V6_HOPS = 7, V6_SRC = 8, V6_DST = 24 };
enum { UDP_SPORT = 0, UDP_DPORT = 2, UDP_LENGTH = 4, UDP_CSUM = 6 };
/* The second byte of an IPv6 group's address: flags, and the scope (RFC 4291 2.7). */
enum { GROUP_RESERVED = 0x80, GROUP_SCOPE = 0x0f, SCOPE_INTERFACE = 1, SCOPE_LINK = 2 };
/* clang-format on */

HOT bool rocemu_gid_is_ipv4(const struct rocemu_gid *g)
{
	return gid_is_ipv4(g);
}

bool rocemu_gid_is_multicast(const struct rocemu_gid *g)
{
	return gid_is_ipv4(g) ? (g->raw[12] & 0xf0) == 0xe0 : g->raw[0] == 0xff;
}

struct rocemu_gid rocemu_gid_on_wire(const struct rocemu_gid *g)
{
	struct rocemu_gid on_wire = *g;

	if (g->raw[0] == 0xff && (g->raw[1] & GROUP_SCOPE) == SCOPE_INTERFACE)
		on_wire.raw[1] =
			(uint8_t)((g->raw[1] & ~GROUP_SCOPE) | GROUP_RESERVED | SCOPE_LINK);
	return on_wire;
}

bool gid_is_scopeless_group(const struct rocemu_gid *g)
{
	return g->raw[0] == 0xff && (g->raw[1] & GROUP_SCOPE) == 0;
}

struct rocemu_icrc_ctx ip_icrc_ctx(const struct ip_udp *h)
{
	return (struct rocemu_icrc_ctx){
		.src = h->src,
		.dst = h->dst,
		.sport = h->sport,
		.dport = h->dport,
		.ip_id = h->ip_id,
		.ip_frag = h->ip_frag,
	};
}

void gid_from_ipv4(struct rocemu_gid *g, const uint8_t *addr)
{
	memset(g->raw, 0, 10);
	g->raw[10] = g->raw[11] = 0xff;
	memcpy(g->raw + 12, addr, 4);
}

uint16_t ip_checksum(const uint8_t *buf, size_t len)
{
	uint32_t sum = 0;

	for (; len > 1; len -= 2, buf += 2) {
		sum += get_be16(buf);
		sum = (sum & 0xffff) + (sum >> 16);
	}
	if (len == 1)
		sum += (uint32_t)*buf << 8;
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

size_t ipv4_encode(const struct ip_udp *h, size_t ip_payload, uint8_t *p)
{
	p[V4_VERSION_IHL] = 0x45;
	p[V4_TOS] = h->tclass;
	put_be16(p + V4_LEN, (uint16_t)(IPV4_LEN + ip_payload));
	put_be16(p + V4_ID, h->ip_id);
	put_be16(p + V4_FRAG, h->ip_frag);
	p[V4_TTL] = h->hop_limit;
	p[V4_PROTO] = IP_PROTO_UDP;
	put_be16(p + V4_CSUM, 0);
	memcpy(p + V4_SRC, h->src.raw + 12, 4);
	memcpy(p + V4_DST, h->dst.raw + 12, 4);
	put_be16(p + V4_CSUM, ip_checksum(p, IPV4_LEN));
	return IPV4_LEN;
}

static size_t ipv6_encode(const struct ip_udp *h, size_t udp_len, uint8_t *p)
{
	put_be32(p + V6_WORD0, 6u << 28 | (uint32_t)h->tclass << 20 | (h->flow_label & 0xfffff));
	put_be16(p + V6_LEN, (uint16_t)udp_len);
	p[V6_NEXT] = IP_PROTO_UDP;
	p[V6_HOPS] = h->hop_limit;
	memcpy(p + V6_SRC, h->src.raw, 16);
	memcpy(p + V6_DST, h->dst.raw, 16);
	return IPV6_LEN;
}

size_t ip_udp_encode(const struct ip_udp *h, size_t payload_len, uint8_t *buf)
{
	size_t udp_len = UDP_LEN + payload_len;
	size_t n;

	assert(payload_len <= IP_UDP_MAX_PAYLOAD);
	if (gid_is_ipv4(&h->src) && gid_is_ipv4(&h->dst))
		n = ipv4_encode(h, udp_len, buf);
	else
		n = ipv6_encode(h, udp_len, buf);
	put_be16(buf + n + UDP_SPORT, h->sport);
	put_be16(buf + n + UDP_DPORT, h->dport);
	put_be16(buf + n + UDP_LENGTH, (uint16_t)udp_len);
	put_be16(buf + n + UDP_CSUM, 0);
	return n + UDP_LEN;
}

void ipv4_fields(struct ip_udp *h, const uint8_t *p)
{
	h->ip_id = get_be16(p + V4_ID);
	h->ip_frag = get_be16(p + V4_FRAG);
	h->tclass = p[V4_TOS];
	h->hop_limit = p[V4_TTL];
	gid_from_ipv4(&h->src, p + V4_SRC);
	gid_from_ipv4(&h->dst, p + V4_DST);
}
