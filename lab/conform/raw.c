/* SPDX-License-Identifier: BSD-2-Clause */
#include "conform/raw.h"

#include <errno.h>
#include <sys/socket.h>

#include <netinet/in.h>

#include "base/bytes.h"
#include "base/util.h"

#ifndef IP_NODEFRAG
#define IP_NODEFRAG 22
#endif

enum {
	OPTIONS_LEN = 4, /* a multiple of 4 */
	VERSION = 0x40,	 /* beside the header's length in words */
	MORE = 0x2000,	 /* of ip_frag: more fragments */
	GRAIN = 8,	 /* fragments begin at multiples of it */
	PSEUDO_LEN = 12, /* bytes in front of the UDP header that its checksum covers */
	WRONG = 0x5a5a,
	DATAGRAM_MAX = UDP_LEN + ROCEMU_MAX_PACKET,
};

bool raw_needed(const struct scenario_packet *p)
{
	return p->ip_options || p->fragments > 1 || p->bad_udp_checksum ||
	       scenario_given(p, SCENARIO_PACKET_UDP_LEN) ||
	       (scenario_given(p, SCENARIO_PACKET_DF) && !p->df);
}

static int open_socket(void)
{
	const int fd = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_RAW);
	const int on = 1;

	/* Connection tracking would reassemble what leaves. */
	if (fd >= 0)
		setsockopt(fd, IPPROTO_IP, IP_NODEFRAG, &on, sizeof(on));
	return fd;
}

/** Are raw packets possible? Else *why_not says why they are not. */
static bool can_send(int *fd, const struct ip_udp *h, const char **why_not)
{
	*why_not = "such a packet is one of IPv4, and the device has an address of IPv6";
	if (!rocemu_gid_is_ipv4(&h->dst))
		return false;
	*why_not = "such a packet needs the capability CAP_NET_RAW, which root has";
	if (*fd < 0)
		*fd = open_socket();
	return *fd >= 0;
}

/** A UDP checksum that is neither right nor 0. */
static uint16_t wrong_checksum(const struct ip_udp *h, const uint8_t *udp, size_t len)
{
	uint8_t buf[PSEUDO_LEN + DATAGRAM_MAX];
	uint16_t right;

	memcpy(buf, h->src.raw + 12, 4);
	memcpy(buf + 4, h->dst.raw + 12, 4);
	put_be16(buf + 8, IP_PROTO_UDP);
	put_be16(buf + 10, (uint16_t)len);
	memcpy(buf + PSEUDO_LEN, udp, len);
	right = ip_checksum(buf, PSEUDO_LEN + len);
	return right == WRONG ? 1 : right ^ WRONG;
}

/** The UDP header and its payload. @return bytes. */
static size_t put_datagram(const struct ip_udp *h, const struct scenario_packet *p,
			   const uint8_t *data, size_t len, uint8_t *to)
{
	const size_t n = UDP_LEN + len;

	put_be16(to, h->sport);
	put_be16(to + 2, h->dport);
	put_be16(to + 4, scenario_given(p, SCENARIO_PACKET_UDP_LEN) ? p->udp_len : (uint16_t)n);
	put_be16(to + 6, 0);
	memcpy(to + UDP_LEN, data, len);
	if (p->bad_udp_checksum)
		put_be16(to + 6, wrong_checksum(h, to, n));
	return n;
}

/** An IPv4 packet with a part of a datagram. The kernel fills in its length and checksum. */
static int send_part(int fd, const struct ip_udp *h, bool options, const uint8_t *part, size_t len)
{
	static const uint8_t none[OPTIONS_LEN] = {1, 1, 1, 0}; /* three times "no operation", end */
	struct sockaddr_in address = {.sin_family = AF_INET};
	uint8_t buf[IPV4_LEN + OPTIONS_LEN + DATAGRAM_MAX];
	size_t n = ipv4_encode(h, len, buf);

	if (options) {
		memcpy(buf + n, none, OPTIONS_LEN);
		n += OPTIONS_LEN;
		buf[0] = (uint8_t)(VERSION | n / 4);
	}
	memcpy(buf + n, part, len);
	memcpy(&address.sin_addr, h->dst.raw + 12, sizeof(address.sin_addr));
	return sendto(fd, buf, n + len, 0, (struct sockaddr *)&address, sizeof(address)) < 0
		       ? -errno
		       : 0;
}

/** Both halves of a datagram. */
static int send_fragments(int fd, const struct ip_udp *h, bool options, const uint8_t *datagram,
			  size_t len)
{
	const size_t half = len / 2 / GRAIN * GRAIN;
	struct ip_udp one = *h;
	int error;

	one.ip_frag |= MORE;
	error = send_part(fd, &one, options, datagram, half);
	one.ip_frag = (uint16_t)(h->ip_frag | half / GRAIN);
	return error ? error : send_part(fd, &one, options, datagram + half, len - half);
}

int raw_send(int *fd, const struct ip_udp *h, const struct scenario_packet *p, const uint8_t *data,
	     size_t len, const char **why_not)
{
	uint8_t datagram[DATAGRAM_MAX];

	if (!can_send(fd, h, why_not))
		return -EOPNOTSUPP;
	len = put_datagram(h, p, data, len, datagram);
	return p->fragments > 1 ? send_fragments(*fd, h, p->ip_options, datagram, len)
				: send_part(*fd, h, p->ip_options, datagram, len);
}
