/* SPDX-License-Identifier: BSD-2-Clause */
/* Finding the RoCEv2 packet in a frame, layer by layer. */
#include "capture/encap.h"

#include "base/bytes.h"
#include "capture/blocks.h"

enum {
	MAX_LAYERS = 16, /* limit of headers of tunnels and tags; real networks have fewer */
	SLL_PROTO = 14,	 /* Linux cooked v1: the ethertype, then the packet */
	SLL2_PROTO = 0,	 /* v2: the ethertype comes first, ... */
	SLL2_LEN = 20,	 /* ... the packet here */
	NULL_LEN = 4,	 /* BSD loopback: an address family in whatever byte order */
	ETHER_TYPE = 12,
	ETHER_LEN = 14,
	TAG_LEN = 4,
	MPLS_LEN = 4,
	VXLAN_LEN = 8,
	VXLAN_HAS_VNI = 0x08,
	GENEVE_LEN = 8,
	GRE_LEN = 4,
	ERSPAN2_LEN = 8,
	ERSPAN3_LEN = 12,
	ERSPAN3_MORE = 8, /* with the O bit */
	IP_PROTO_IPIP = 4,
	IP_PROTO_IPV6 = 41,
	IP_PROTO_GRE = 47,
	IP_PROTO_ETHERNET = 143,
	ERF_TYPE = 8,
	ERF_TYPE_MASK = 0x7f,
	ERF_MORE = 0x80, /* of the type, and of an extension's first byte: an extension follows */
	ERF_LEN = 16,
	ERF_EXTENSION = 8,
	ERF_PAD = 2, /* before Ethernet */
};
/* clang-format off */
enum { TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86dd, TYPE_VLAN = 0x8100, TYPE_QINQ = 0x88a8, TYPE_OLD_QINQ = 0x9100,
       TYPE_MPLS = 0x8847, TYPE_MPLS_MULTICAST = 0x8848, TYPE_BRIDGED = 0x6558, TYPE_ERSPAN2 = 0x88be,
       TYPE_ERSPAN3 = 0x22eb, TYPE_ROCE1 = 0x8915 };
enum { ERF_ETHERNET = 2, ERF_COLOR_ETHERNET = 11, ERF_DSM_ETHERNET = 16, ERF_HASH_ETHERNET = 20, ERF_INFINIBAND = 21,
       ERF_IPV4 = 22, ERF_IPV6 = 23, ERF_INFINIBAND_LINK = 25 };
enum { PORT_VXLAN = 4789, PORT_VXLAN_LINUX = 8472, PORT_GENEVE = 6081 };
enum { GRE_CHECKSUM = 0x8000, GRE_ROUTING = 0x4000, GRE_KEY = 0x2000, GRE_SEQUENCE = 0x1000, GRE_VERSION = 7 };
/* clang-format on */

/* What comes next in a frame. */
enum next {
	NEXT_NOTHING,
	NEXT_ETHERNET,
	NEXT_TYPE,
	NEXT_IP,
	NEXT_FOUND,
	NEXT_FRAGMENT,
	NEXT_SHORT,
	NEXT_INFINIBAND,
};

struct walk {
	const struct encap_ports *ports;
	const uint8_t *p;
	size_t len;
	uint16_t type; /* of NEXT_TYPE */
	struct encap_found *found;
};

/* Go on n bytes further. @return next, or that they are not there. */
static enum next skip(struct walk *w, size_t n, enum next next)
{
	if (n > w->len)
		return NEXT_SHORT;
	w->p += n;
	w->len -= n;
	return next;
}

static enum next take_ethernet(struct walk *w)
{
	if (w->len < ETHER_LEN)
		return NEXT_SHORT;
	w->found->dmac = w->p;
	w->type = get_be16(w->p + ETHER_TYPE);
	return skip(w, ETHER_LEN, NEXT_TYPE);
}

/*
 * The last label does not identify the next header: IP shows its version; Ethernet may have a
 * control word.
 */
static enum next take_mpls(struct walk *w)
{
	bool bottom = false;

	w->found->encap = ENCAP_MPLS;
	w->found->dmac = NULL;
	while (!bottom) {
		if (w->len < MPLS_LEN + 1)
			return NEXT_SHORT;
		bottom = (w->p[2] & 1) != 0;
		skip(w, MPLS_LEN, NEXT_NOTHING);
	}
	switch (w->p[0] >> 4) {
	case 4:
	case 6:
		return NEXT_IP;
	case 0:
		return skip(w, MPLS_LEN, NEXT_ETHERNET);
	default:
		return NEXT_ETHERNET;
	}
}

static void note_ip(struct walk *w, const struct ip_packet *ip)
{
	w->found->ip = ip->h;
	w->found->extras = ip->extras;
	w->found->fragment = ip->fragment;
	w->found->fragment_id = ip->id;
	w->found->fragment_at = ip->offset;
}

/* RoCEv1: a GRH, which has an IPv6 header's form. */
static enum next take_grh(struct walk *w)
{
	struct ip_packet grh;
	enum ip_verdict v = ip_read(&grh, w->p, w->len);

	if (v == IPHDR_SHORT)
		return NEXT_SHORT;
	if (v != IPHDR_OK || !grh.v6 || grh.proto != IP_PROTO_IBA || grh.extras != 0)
		return NEXT_NOTHING;
	note_ip(w, &grh);
	w->found->v1 = true;
	w->found->data = grh.payload;
	w->found->len = grh.len;
	w->found->wire_len = grh.wire_len;
	return NEXT_FOUND;
}

static enum next take_type(struct walk *w)
{
	switch (w->type) {
	case TYPE_IPV4:
	case TYPE_IPV6:
		return NEXT_IP;
	case TYPE_VLAN:
	case TYPE_QINQ:
	case TYPE_OLD_QINQ:
		if (w->len < TAG_LEN)
			return NEXT_SHORT;
		w->type = get_be16(w->p + 2);
		return skip(w, TAG_LEN, NEXT_TYPE);
	case TYPE_MPLS:
	case TYPE_MPLS_MULTICAST:
		return take_mpls(w);
	case TYPE_BRIDGED:
		return NEXT_ETHERNET;
	case TYPE_ROCE1:
		return take_grh(w);
	default:
		return NEXT_NOTHING;
	}
}

static enum next take_erspan3(struct walk *w)
{
	bool more, ip;

	if (w->len < ERSPAN3_LEN)
		return NEXT_SHORT;
	more = (w->p[11] & 1) != 0;
	ip = (w->p[10] >> 2 & 0x1f) == 2; /* the frame type: Ethernet or IP */
	return skip(w, ERSPAN3_LEN + (more ? ERSPAN3_MORE : 0), ip ? NEXT_IP : NEXT_ETHERNET);
}

static enum next take_gre(struct walk *w)
{
	uint16_t flags;
	size_t n = GRE_LEN;

	if (w->len < GRE_LEN)
		return NEXT_SHORT;
	flags = get_be16(w->p);
	w->type = get_be16(w->p + 2);
	if ((flags & (GRE_VERSION | GRE_ROUTING)) != 0)
		return NEXT_NOTHING;
	n += (flags & GRE_CHECKSUM ? 4u : 0) + (flags & GRE_KEY ? 4u : 0) +
	     (flags & GRE_SEQUENCE ? 4u : 0);
	w->found->encap =
		w->type == TYPE_ERSPAN2 || w->type == TYPE_ERSPAN3 ? ENCAP_ERSPAN : ENCAP_GRE;
	w->found->dmac = NULL;
	if (skip(w, n, NEXT_TYPE) == NEXT_SHORT)
		return NEXT_SHORT;
	if (w->type == TYPE_ERSPAN2) /* type I has no header, and no sequence numbers */
		return skip(w, flags & GRE_SEQUENCE ? ERSPAN2_LEN : 0, NEXT_ETHERNET);
	if (w->type == TYPE_ERSPAN3)
		return take_erspan3(w);
	return NEXT_TYPE;
}

/* UDP to the port of a tunnel. */
static enum next take_udp(struct walk *w, const struct udp_packet *udp)
{
	const uint8_t *p = udp->payload;

	w->p = p;
	w->len = udp->len;
	switch (udp->dport) {
	case PORT_VXLAN:
	case PORT_VXLAN_LINUX:
		if (w->len < VXLAN_LEN || (p[0] & VXLAN_HAS_VNI) == 0)
			return w->len < VXLAN_LEN ? NEXT_SHORT : NEXT_NOTHING;
		w->found->encap = ENCAP_VXLAN;
		return skip(w, VXLAN_LEN, NEXT_ETHERNET);
	case PORT_GENEVE:
		if (w->len < GENEVE_LEN || (p[0] & 0xc0) != 0)
			return w->len < GENEVE_LEN ? NEXT_SHORT : NEXT_NOTHING;
		w->found->encap = ENCAP_GENEVE;
		w->found->dmac = NULL;
		w->type = get_be16(p + 2);
		return skip(w, GENEVE_LEN + (p[0] & 0x3fu) * 4, NEXT_TYPE);
	default:
		return NEXT_NOTHING;
	}
}

/* An IP header around another, or around Ethernet. */
static enum next take_outer_ip(struct walk *w, const struct ip_packet *ip)
{
	const bool segments = (ip->extras & 1u << IP_EXTRA_SEGMENTS) != 0;

	w->p = ip->payload;
	w->len = ip->len;
	switch (ip->proto) {
	case IP_PROTO_GRE:
		return take_gre(w);
	case IP_PROTO_IPIP:
	case IP_PROTO_IPV6:
	case IP_PROTO_ETHERNET:
		w->found->encap = segments ? ENCAP_SRV6 : ENCAP_IPIP;
		w->found->dmac = NULL;
		return ip->proto == IP_PROTO_ETHERNET ? NEXT_ETHERNET : NEXT_IP;
	default:
		return NEXT_NOTHING;
	}
}

static bool port_wanted(const struct encap_ports *ports, uint16_t port)
{
	for (unsigned i = 0; i < ports->n; i++) {
		if (ports->port[i] == port)
			return true;
	}
	return false;
}

static enum next take_ip(struct walk *w)
{
	struct encap_found *found = w->found;
	struct udp_packet udp;
	struct ip_packet ip;
	enum ip_verdict v = ip_read(&ip, w->p, w->len);

	if (v != IPHDR_OK)
		return v == IPHDR_SHORT ? NEXT_SHORT : NEXT_NOTHING;
	if (ip.offset != 0) {
		note_ip(w, &ip);
		found->data = ip.payload;
		found->len = ip.len;
		found->wire_len = ip.wire_len;
		return ip.proto == IP_PROTO_UDP ? NEXT_FRAGMENT : NEXT_NOTHING;
	}
	if (ip.proto != IP_PROTO_UDP)
		return take_outer_ip(w, &ip);
	if (udp_read(&udp, &ip) != IPHDR_OK)
		return NEXT_SHORT;
	if (!port_wanted(w->ports, udp.dport))
		return take_udp(w, &udp);
	note_ip(w, &ip);
	found->ip.sport = udp.sport;
	found->ip.dport = udp.dport;
	found->offloaded = udp.offloaded;
	found->data = udp.payload;
	found->len = udp.len;
	found->wire_len = udp.wire_len;
	return NEXT_FOUND;
}

/* The header of a record of an Endace card. */
static enum next take_erf(struct walk *w)
{
	uint8_t type;
	bool more;

	if (w->len < ERF_LEN)
		return NEXT_SHORT;
	type = w->p[ERF_TYPE] & ERF_TYPE_MASK;
	more = (w->p[ERF_TYPE] & ERF_MORE) != 0;
	skip(w, ERF_LEN, NEXT_NOTHING);
	while (more) {
		if (w->len < ERF_EXTENSION)
			return NEXT_SHORT;
		more = (w->p[0] & ERF_MORE) != 0;
		skip(w, ERF_EXTENSION, NEXT_NOTHING);
	}
	switch (type) {
	case ERF_ETHERNET:
	case ERF_COLOR_ETHERNET:
	case ERF_DSM_ETHERNET:
	case ERF_HASH_ETHERNET:
		return skip(w, ERF_PAD, NEXT_ETHERNET);
	case ERF_IPV4:
	case ERF_IPV6:
		return NEXT_IP;
	case ERF_INFINIBAND:
	case ERF_INFINIBAND_LINK:
		return NEXT_INFINIBAND;
	default:
		return NEXT_NOTHING;
	}
}

static enum next take_link(struct walk *w, uint32_t link)
{
	switch (link) {
	case LINK_ERF:
		return take_erf(w);
	case LINK_INFINIBAND:
		return NEXT_INFINIBAND;
	case LINK_RAW:
	case LINK_RAW_OLD:
	case LINK_IPV4:
	case LINK_IPV6:
		return NEXT_IP;
	case LINK_NULL:
	case LINK_LOOP:
		return skip(w, NULL_LEN, NEXT_IP);
	case LINK_SLL2:
		if (w->len < SLL2_LEN)
			return NEXT_SHORT;
		w->type = get_be16(w->p + SLL2_PROTO);
		return skip(w, SLL2_LEN, NEXT_TYPE);
	case LINK_SLL:
		if (w->len < SLL_PROTO + 2)
			return NEXT_SHORT;
		w->type = get_be16(w->p + SLL_PROTO);
		return skip(w, SLL_PROTO + 2, NEXT_TYPE);
	case LINK_ETHERNET:
		return NEXT_ETHERNET;
	default:
		return NEXT_NOTHING;
	}
}

bool encap_link_known(uint32_t link)
{
	switch (link) {
	case LINK_ETHERNET:
	case LINK_RAW:
	case LINK_RAW_OLD:
	case LINK_IPV4:
	case LINK_IPV6:
	case LINK_NULL:
	case LINK_LOOP:
	case LINK_SLL:
	case LINK_SLL2:
	case LINK_ERF:
	case LINK_INFINIBAND:
		return true;
	default:
		return false;
	}
}

static enum encap_verdict verdict(enum next next)
{
	switch (next) {
	case NEXT_FOUND:
		return ENCAP_FOUND;
	case NEXT_FRAGMENT:
		return ENCAP_FRAGMENT;
	case NEXT_SHORT:
		return ENCAP_SHORT;
	case NEXT_INFINIBAND:
		return ENCAP_INFINIBAND;
	default:
		return ENCAP_NOTHING;
	}
}

enum encap_verdict encap_find(const struct encap_ports *ports, uint32_t link, const uint8_t *frame,
			      size_t len, struct encap_found *found)
{
	struct walk w = {.ports = ports, .p = frame, .len = len, .found = found};
	enum next next;

	found->encap = ENCAP_NONE;
	found->v1 = found->offloaded = false;
	found->dmac = NULL;
	next = take_link(&w, link);
	for (unsigned i = 0; i < MAX_LAYERS; i++) {
		switch (next) {
		case NEXT_ETHERNET:
			next = take_ethernet(&w);
			break;
		case NEXT_TYPE:
			next = take_type(&w);
			break;
		case NEXT_IP:
			next = take_ip(&w);
			break;
		default:
			return verdict(next);
		}
	}
	return verdict(next);
}

const char *encap_name(enum encap e)
{
	static const char *const names[] = {
#define X(name, text) text,
		ENCAPS(X)
#undef X
	};

	return names[e];
}
