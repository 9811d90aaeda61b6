/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading IP headers, options, extension headers and fragments (RFC 791, 8200, 8754, 4302). */
#include "capture/ip-read.h"

#include <string.h>

#include "base/bytes.h"
#include "base/util.h"

/* clang-format off */
enum { V4_LEN = 2, V4_ID = 4, V4_FRAG = 6, V4_PROTO = 9, V4_MORE = 0x2000, V4_OFFSET = 0x1fff };
enum { V6_LEN = 4, V6_NEXT = 6, V6_HOPS = 7, V6_SRC = 8, V6_DST = 24 };
enum { EXT_NEXT = 0, EXT_LEN = 1, EXT_LEAST = 8 };
enum { FRAG_OFFSET = 2, FRAG_ID = 4, FRAG_MORE = 1, FRAG_GRAIN = 8 };
enum { ROUTING_TYPE = 2, ROUTING_LEFT = 3, ROUTING_LIST = 8 };
enum { ROUTING_SOURCE = 0, ROUTING_MOBILE = 2, ROUTING_SEGMENTS = 4 };
enum { PROTO_HOP_BY_HOP = 0, PROTO_ROUTING = 43, PROTO_FRAGMENT = 44, PROTO_AUTH = 51, PROTO_DESTINATION = 60 };
enum { UDP_SPORT = 0, UDP_DPORT = 2, UDP_LENGTH = 4, UDP_CSUM = 6 };
/* clang-format on */

/* The next n bytes of p's payload are another header. @return false: they are not there. */
static bool take(struct ip_packet *p, size_t n)
{
	if (n > p->len || n > p->wire_len)
		return false;
	p->payload += n;
	p->len -= n;
	p->wire_len -= n;
	return true;
}

static void note(struct ip_packet *p, enum ip_extra e)
{
	p->extras |= (uint8_t)(1u << e);
}

/* Of n bytes that are there; on the wire there were as many as wire. */
static void begin(struct ip_packet *p, const uint8_t *buf, size_t n, size_t wire)
{
	p->payload = buf;
	p->wire_len = wire;
	p->len = MIN(n, wire);
}

static enum ip_verdict read_ipv4(struct ip_packet *p, const uint8_t *buf, size_t len)
{
	struct ip_udp *h = &p->h;
	size_t hdr, all;

	if (len < IPV4_LEN)
		return IPHDR_SHORT;
	hdr = (buf[0] & 0xfu) * 4;
	all = get_be16(buf + V4_LEN);
	if (hdr < IPV4_LEN || all < hdr)
		return IPHDR_SHORT;
	ipv4_fields(h, buf);
	p->proto = buf[V4_PROTO];
	p->more = (h->ip_frag & V4_MORE) != 0;
	p->offset = (uint32_t)(h->ip_frag & V4_OFFSET) * FRAG_GRAIN;
	p->fragment = p->more || p->offset != 0;
	p->id = h->ip_id;
	if (p->fragment) {
		note(p, IP_EXTRA_FRAGMENT);
		/* The sender's, as the ICRC covers it: not in fragments. */
		h->ip_frag &= IP_FLAG_DF;
	}
	if (hdr > IPV4_LEN)
		note(p, IP_EXTRA_OPTIONS);
	begin(p, buf, len, all);
	return take(p, hdr) ? IPHDR_OK : IPHDR_SHORT;
}

static void read_ipv6_fields(struct ip_udp *h, const uint8_t *p)
{
	uint32_t word0 = get_be32(p);

	h->flow_label = word0 & 0xfffff;
	h->tclass = (uint8_t)(word0 >> 20);
	h->hop_limit = p[V6_HOPS];
	memcpy(h->src.raw, p + V6_SRC, 16);
	memcpy(h->dst.raw, p + V6_DST, 16);
}

/*
 * A header of n bytes on the way to the last destination: the ICRC is about that one, since the
 * sender computed it before a router inserted the header.
 */
static void read_routing(struct ip_packet *p, const uint8_t *hdr, size_t n)
{
	uint8_t type = hdr[ROUTING_TYPE];
	size_t last = type == ROUTING_SOURCE ? n - 16 : ROUTING_LIST;

	note(p, type == ROUTING_SEGMENTS ? IP_EXTRA_SEGMENTS : IP_EXTRA_ROUTING);
	if (hdr[ROUTING_LEFT] != 0 && n >= ROUTING_LIST + 16 &&
	    (type == ROUTING_SOURCE || type == ROUTING_MOBILE || type == ROUTING_SEGMENTS))
		memcpy(p->h.dst.raw, hdr + last, 16);
}

static void read_fragment(struct ip_packet *p, const uint8_t *hdr)
{
	uint16_t word = get_be16(hdr + FRAG_OFFSET);

	note(p, IP_EXTRA_FRAGMENT);
	p->more = (word & FRAG_MORE) != 0;
	p->offset = word & ~(uint32_t)(FRAG_GRAIN - 1);
	p->fragment = p->more || p->offset != 0;
	p->id = get_be32(hdr + FRAG_ID);
}

/* Bytes of the extension header at hdr, of which EXT_LEAST are there; 0: it is none. */
static size_t extension_len(uint8_t proto, const uint8_t *hdr)
{
	switch (proto) {
	case PROTO_HOP_BY_HOP:
	case PROTO_ROUTING:
	case PROTO_DESTINATION:
		return (hdr[EXT_LEN] + 1u) * 8;
	case PROTO_FRAGMENT:
		return EXT_LEAST;
	case PROTO_AUTH:
		return (hdr[EXT_LEN] + 2u) * 4;
	default:
		return 0;
	}
}

static bool is_extension(const struct ip_packet *p)
{
	static const uint8_t none[EXT_LEAST];

	/* In IPv4 there is one that is a header of IP as well. */
	return p->v6 ? extension_len(p->proto, none) != 0 : p->proto == PROTO_AUTH;
}

static enum ip_verdict read_extensions(struct ip_packet *p)
{
	while (is_extension(p) && p->offset == 0) {
		const uint8_t *hdr = p->payload;
		uint8_t proto = p->proto;
		size_t n;

		if (p->len < EXT_LEAST)
			return IPHDR_SHORT;
		n = extension_len(proto, hdr);
		if (!take(p, n))
			return IPHDR_SHORT;
		p->proto = hdr[EXT_NEXT];
		if (proto == PROTO_ROUTING)
			read_routing(p, hdr, n);
		else if (proto == PROTO_FRAGMENT)
			read_fragment(p, hdr);
		else
			note(p, proto == PROTO_AUTH	    ? IP_EXTRA_AUTH
				: proto == PROTO_HOP_BY_HOP ? IP_EXTRA_HOP_BY_HOP
							    : IP_EXTRA_DESTINATION);
	}
	return IPHDR_OK;
}

enum ip_verdict ip_read(struct ip_packet *p, const uint8_t *buf, size_t len)
{
	enum ip_verdict v;

	memset(p, 0, sizeof(*p));
	if (len == 0)
		return IPHDR_SHORT;
	switch (buf[0] >> 4) {
	case 4:
		v = read_ipv4(p, buf, len);
		break;
	case 6:
		if (len < IPV6_LEN)
			return IPHDR_SHORT;
		p->v6 = true;
		read_ipv6_fields(&p->h, buf);
		p->proto = buf[V6_NEXT];
		begin(p, buf + IPV6_LEN, len - IPV6_LEN, get_be16(buf + V6_LEN));
		v = IPHDR_OK;
		break;
	default:
		return IPHDR_NOT_IP;
	}
	return v == IPHDR_OK ? read_extensions(p) : v;
}

/* What the checksum field has before the interface computes the checksum (RFC 768's pseudo header).
 */
static uint16_t pseudo_sum(const struct ip_packet *ip, size_t udp_len)
{
	uint8_t p[16 + 16 + 4];
	size_t n = ip->v6 ? 16 : 4;

	memcpy(p, ip->h.src.raw + 16 - n, n);
	memcpy(p + n, ip->h.dst.raw + 16 - n, n);
	put_be16(p + 2 * n, IP_PROTO_UDP);
	put_be16(p + 2 * n + 2, (uint16_t)udp_len);
	return (uint16_t)~ip_checksum(p, 2 * n + 4);
}

enum ip_verdict udp_read(struct udp_packet *u, const struct ip_packet *ip)
{
	const uint8_t *p = ip->payload;
	size_t all;

	if (ip->proto != IP_PROTO_UDP || ip->offset != 0)
		return IPHDR_NOT_UDP;
	if (ip->wire_len < UDP_LEN || ip->len < UDP_LEN)
		return IPHDR_SHORT;
	u->sport = get_be16(p + UDP_SPORT);
	u->dport = get_be16(p + UDP_DPORT);
	all = get_be16(p + UDP_LENGTH);
	if (all < UDP_LEN || (all > ip->wire_len && !ip->fragment))
		return IPHDR_SHORT;
	u->payload = p + UDP_LEN;
	u->wire_len = all - UDP_LEN;
	u->len = MIN(ip->len, all) - UDP_LEN;
	u->offloaded = get_be16(p + UDP_CSUM) != 0 && get_be16(p + UDP_CSUM) == pseudo_sum(ip, all);
	return IPHDR_OK;
}

const char *ip_extra_name(enum ip_extra e)
{
	static const char *const names[] = {
#define X(name, text) text,
		IP_EXTRAS(X)
#undef X
	};

	return names[e];
}
