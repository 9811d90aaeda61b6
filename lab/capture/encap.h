/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the RoCEv2 packet, or RoCEv1's, in a captured frame: behind Ethernet, VLAN tags and MPLS
 * labels, also inside VXLAN, Geneve, GRE, ERSPAN (I, II, III), IP in IP and SRv6, in any order up
 * to a depth; behind IPv4 options and IPv6 extension headers. Pure.
 */
#ifndef CAPTURE_ENCAP_H
#define CAPTURE_ENCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/ip-read.h"

enum { ENCAP_PORTS = 8 };

/** The UDP ports that RoCEv2 is looked for at. */
struct encap_ports {
	uint16_t port[ENCAP_PORTS];
	unsigned n;
};

/* clang-format off */
/* X(NAME, "name"): what a packet was found in, the innermost counts */
#define ENCAPS(X) \
	X(NONE, "none") X(MPLS, "mpls") X(VXLAN, "vxlan") X(GENEVE, "geneve") X(GRE, "gre") \
	X(ERSPAN, "erspan") X(IPIP, "ip-in-ip") X(SRV6, "srv6")
/* clang-format on */

enum encap {
#define X(name, text) ENCAP_##name,
	ENCAPS(X)
#undef X
		ENCAP_COUNT
};

/** What is in a frame. */
enum encap_verdict {
	ENCAP_NOTHING = 0, /* no RoCE packet */
	ENCAP_FOUND,	   /* a packet, or the first fragment of one */
	ENCAP_FRAGMENT,	   /* a later fragment of UDP; its port is in the first */
	ENCAP_SHORT,	   /* it ends within the headers that it should have */
	ENCAP_INFINIBAND,  /* a packet of native InfiniBand */
};

/** A packet that was found; pointers are borrowed from the frame. */
struct encap_found {
	struct ip_udp ip; /* of RoCEv1 what the GRH has; no ports */
	bool v1;	  /* RoCEv1: a GRH in place of IP and UDP */
	uint8_t extras;	  /* bit 1 << enum ip_extra for each header between IP's and UDP's */
	bool fragment;
	uint32_t fragment_id; /* the same in all fragments of a packet between two addresses */
	uint32_t fragment_at; /* a fragment's place in UDP's bytes */
	bool offloaded;	      /* as udp_packet's */
	const uint8_t *data;  /* from the BTH on; of a later fragment all that it has */
	size_t len, wire_len; /* of the packet; of a later fragment its own */
	const uint8_t *dmac;  /* of the Ethernet header directly around it, or NULL */
	enum encap encap;
};

/** Can frames of this link type (LINK_*) be read? */
bool encap_link_known(uint32_t link);
/** Any bytes are safe. Of ENCAP_NOTHING *found is not set. */
enum encap_verdict encap_find(const struct encap_ports *ports, uint32_t link, const uint8_t *frame,
			      size_t len, struct encap_found *found);
/** "vxlan". */
const char *encap_name(enum encap e);

#endif
