/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads IP headers as captures have them: with IPv4 options, IPv6 extension headers, fragments, and
 * cut anywhere. Pure; any bytes are safe. What the engine's packets have is in ip.h.
 */
#ifndef CAPTURE_IP_READ_H
#define CAPTURE_IP_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ip.h"

/* clang-format off */
/* X(NAME, "name"): headers between IP's own and the next protocol, in the order of their bits */
#define IP_EXTRAS(X) \
	X(OPTIONS, "IPv4 options") X(HOP_BY_HOP, "hop-by-hop options") X(ROUTING, "routing") \
	X(SEGMENTS, "segment routing (SRH)") X(DESTINATION, "destination options") \
	X(AUTH, "authentication (AH)") X(FRAGMENT, "fragment")
/* clang-format on */

enum ip_extra {
#define X(name, text) IP_EXTRA_##name,
	IP_EXTRAS(X)
#undef X
		IP_EXTRA_COUNT
};

enum ip_verdict {
	IPHDR_OK = 0,
	IPHDR_SHORT, /* a header is truncated, or a length field is less than its header's length */
	IPHDR_NOT_IP,  /* not IPv4 and not IPv6 */
	IPHDR_NOT_UDP, /* another protocol, or a later fragment */
};

/** An IP packet, or a fragment of one; pointers are borrowed from the bytes that were read. */
struct ip_packet {
	struct ip_udp h; /* without ports; dst: the last destination that a routing header names */
	uint8_t proto;	 /* of the payload */
	uint8_t extras;	 /* bit 1 << enum ip_extra for each such header */
	bool v6, fragment, more;
	uint32_t id;	 /* of a fragment: the same in all of its packet */
	uint32_t offset; /* of a fragment: where its payload belongs */
	const uint8_t *payload;
	size_t len, wire_len; /* of the payload: bytes that are there, and those on the wire */
};

/**
 * Read the IPv4 or IPv6 header at buf[0..len), and what is between it and the payload. A later
 * fragment's payload is none of proto's headers. Checksums are not checked; bytes after the packet
 * (Ethernet's padding) are left out.
 * @return IPHDR_OK, IPHDR_SHORT, or IPHDR_NOT_IP.
 */
enum ip_verdict ip_read(struct ip_packet *p, const uint8_t *buf, size_t len);

/** A UDP header and its payload, whose pointer is borrowed. */
struct udp_packet {
	uint16_t sport, dport;
	const uint8_t *payload;
	size_t len, wire_len;
	/* The checksum is the pseudo header's alone: the packet was captured in a host, before its
	 * interface computed the rest, and is possibly a burst that the interface segments. */
	bool offloaded;
};

/**
 * Read the UDP header that ip's payload begins with; of a packet in fragments, of the first.
 * @return IPHDR_OK, IPHDR_SHORT, or IPHDR_NOT_UDP.
 */
enum ip_verdict udp_read(struct udp_packet *u, const struct ip_packet *ip);

/** "routing". */
const char *ip_extra_name(enum ip_extra e);

#endif
