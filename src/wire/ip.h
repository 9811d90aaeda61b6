/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The headers below the BTH as they stand on the wire: IPv4 or IPv6, UDP. The engine's sockets do
 * not deliver them; captures need them rebuilt. ip-read.h parses those of captures.
 */
#ifndef WIRE_IP_H
#define WIRE_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rocemu/wire.h>

enum {
	IPV4_LEN = 20,
	IPV6_LEN = 40,
	UDP_LEN = 8,
	IP_UDP_MAX_LEN = IPV6_LEN + UDP_LEN,
	IP_PROTO_UDP = 17,
	IP_PROTO_IBA = 0x1b,	/* a GRH's: a BTH follows */
	IP_FLAG_DF = 0x4000,	/* of ip_udp.ip_frag */
	IP_FRAGMENTED = 0x3fff, /* more fragments, and the offset */
	/* Largest UDP payload of an IPv4 packet; IPv6 could take 20 bytes more. */
	IP_UDP_MAX_PAYLOAD = 0xffff - IPV4_LEN - UDP_LEN,
};

/** IP and UDP headers of a RoCEv2 packet, host order. */
struct ip_udp {
	struct rocemu_gid src, dst; /* both IPv4-mapped: an IPv4 header; else an IPv6 header */
	uint32_t flow_label;	    /* 20 bits, IPv6 only */
	uint16_t sport, dport;
	uint16_t ip_id;	   /* IPv4 only: identification */
	uint16_t ip_frag;  /* IPv4 only: flags (IP_FLAG_DF) and fragment offset */
	uint8_t tclass;	   /* TOS or traffic class */
	uint8_t hop_limit; /* TTL or hop limit */
};

/** As rocemu_gid_is_ipv4(), for inlining. */
static inline bool gid_is_ipv4(const struct rocemu_gid *g)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(g->raw, prefix, sizeof(prefix)) == 0;
}

/** An IPv6 group of the reserved scope 0: no host takes packets to it (RFC 4291 2.7). */
bool gid_is_scopeless_group(const struct rocemu_gid *g);

/** What the ICRC covers of these headers. */
struct rocemu_icrc_ctx ip_icrc_ctx(const struct ip_udp *h);

/** Make an IPv4-mapped GID of the four bytes at addr. */
void gid_from_ipv4(struct rocemu_gid *g, const uint8_t *addr);

/**
 * Write IP and UDP headers for payload_len bytes of UDP payload (<= IP_UDP_MAX_PAYLOAD) to buf,
 * which has room for IP_UDP_MAX_LEN bytes. The IPv4 header checksum is computed, the UDP checksum
 * is 0.
 *
 * @return bytes written.
 */
size_t ip_udp_encode(const struct ip_udp *h, size_t payload_len, uint8_t *buf);

/**
 * Write the IPv4 header alone, for ip_payload bytes after it (<= 65515), checksum included. Ports
 * are not used. @return IPV4_LEN.
 */
size_t ipv4_encode(const struct ip_udp *h, size_t ip_payload, uint8_t *p);

/** Fill the address and IPv4 members of *h from the IPV4_LEN bytes at p. Nothing is checked. */
void ipv4_fields(struct ip_udp *h, const uint8_t *p);

/** The Internet checksum (RFC 1071) of buf[0..len), host order; 0 over a right header. */
uint16_t ip_checksum(const uint8_t *buf, size_t len);

#endif
