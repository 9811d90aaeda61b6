/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the control messages (recvmsg(2)) that a socket delivers with a datagram. */
#ifndef BASE_CMSG_H
#define BASE_CMSG_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef IP_RECVFRAGSIZE
#define IP_RECVFRAGSIZE 25
#endif
#ifndef IPV6_RECVFRAGSIZE
#define IPV6_RECVFRAGSIZE 77
#endif

/** Of one that is an int; some kernels give one byte for TOS. */
static inline int cmsg_int(const struct cmsghdr *c)
{
	int v = 0;

	if (c->cmsg_len >= CMSG_LEN(sizeof(int)))
		memcpy(&v, CMSG_DATA(c), sizeof(int));
	else if (c->cmsg_len >= CMSG_LEN(1))
		v = *CMSG_DATA(c);
	return v;
}

/** Take the network header's traffic class or hop limit. @return false: it is something else. */
static inline bool cmsg_network(const struct cmsghdr *c, uint8_t *tclass, uint8_t *hop_limit)
{
	if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
	    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS))
		*tclass = (uint8_t)cmsg_int(c);
	else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
		 (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT))
		*hop_limit = (uint8_t)cmsg_int(c);
	else
		return false;
	return true;
}

/**
 * Options of a UDP socket that has to tell of IP options, extension headers and fragments; 0 ends
 * them. RoCEv2 has none of these, and a receiver drops such packets (IBTA CA17-3, CA17-8, CA17-24).
 * Other packets have no such control message. An old kernel may not know an option: it delivers
 * what it would tell of.
 */
static inline const int *cmsg_forbidden_options(bool ipv4)
{
	static const int of_ipv4[] = {IP_RECVOPTS, IP_RECVFRAGSIZE, 0};
	static const int of_ipv6[] = {IPV6_RECVHOPOPTS, IPV6_RECVDSTOPTS, IPV6_RECVRTHDR,
				      IPV6_RECVFRAGSIZE, 0};

	return ipv4 ? of_ipv4 : of_ipv6;
}

/** Does it tell of such a thing? */
static inline bool cmsg_is_forbidden(const struct cmsghdr *c)
{
	if (c->cmsg_level == IPPROTO_IP)
		return c->cmsg_type == IP_RECVOPTS || c->cmsg_type == IP_RECVFRAGSIZE;
	return c->cmsg_level == IPPROTO_IPV6 &&
	       (c->cmsg_type == IPV6_HOPOPTS || c->cmsg_type == IPV6_DSTOPTS ||
		c->cmsg_type == IPV6_RTHDR || c->cmsg_type == IPV6_RECVFRAGSIZE);
}

/** Take an IPv6 packet's flow label. @return false: it is something else. */
static inline bool cmsg_flow_label(const struct cmsghdr *c, uint32_t *label)
{
	enum {
		TYPE = 11,
		LABEL_MASK = 0xfffff
	}; /* IPV6_FLOWINFO of <linux/in6.h>, which cannot be included together with this header */
	uint32_t word;

	if (c->cmsg_level != IPPROTO_IPV6 || c->cmsg_type != TYPE ||
	    c->cmsg_len < CMSG_LEN(sizeof(word)))
		return false;
	memcpy(&word, CMSG_DATA(c), sizeof(word));
	*label = ntohl(word) & LABEL_MASK;
	return true;
}

#endif
