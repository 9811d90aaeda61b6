/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets, and packets as bytes. */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "responder.h"

enum {
	SOCKET_BUFFER = 4 << 20,
	DF = 0x4000,
	TTL = 64,
	UDP_LEN = 8,
	GSI_HDR_LEN = ROCEMU_BTH_LEN + 8
};

/** Any address of IP. */
union address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static struct {
	int fd;
	struct rocemu_gid gid;
	uint8_t data[1 << 16];
} net = {.fd = -1};

/* ---- addresses ---- */

static union address address_of(const struct rocemu_gid *gid, uint16_t port)
{
	union address a = {.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};

	memcpy(&a.in6.sin6_addr, gid->raw, sizeof(gid->raw));
	if (rocemu_gid_is_ipv4(gid)) {
		a = (union address){.in = {.sin_family = AF_INET, .sin_port = htons(port)}};
		memcpy(&a.in.sin_addr, gid->raw + 12, sizeof(a.in.sin_addr));
	}
	return a;
}

static struct rocemu_gid gid_of(const union address *a)
{
	struct rocemu_gid gid = {{[10] = 0xff, [11] = 0xff}};

	if (a->sa.sa_family == AF_INET)
		memcpy(gid.raw + 12, &a->in.sin_addr, sizeof(a->in.sin_addr));
	else
		memcpy(gid.raw, &a->in6.sin6_addr, sizeof(gid.raw));
	return gid;
}

static socklen_t address_len(const union address *a)
{
	return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

struct rocemu_gid net_gid(void)
{
	return net.gid;
}

int net_family(void)
{
	return rocemu_gid_is_ipv4(&net.gid) ? AF_INET : AF_INET6;
}

uint64_t net_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- sockets ---- */

static void option(int fd, int level, int name, int value)
{
	setsockopt(fd, level, name, &value, sizeof(value));
}

/** Packets have DF, and so the identification 0. What comes is read with its TOS and TTL. */
static void udp_options(int fd, uint8_t ecn)
{
	option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	option(fd, SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER);
	if (net_family() == AF_INET) {
		option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
		option(fd, IPPROTO_IP, IP_TOS, ecn);
		option(fd, IPPROTO_IP, IP_TTL, mutant(M_TTL) ? 1 : TTL);
		option(fd, IPPROTO_IP, IP_RECVTOS, 1);
		option(fd, IPPROTO_IP, IP_RECVTTL, 1);
		option(fd, IPPROTO_IP, IP_RECVOPTS, 1);
		option(fd, IPPROTO_IP, IP_RECVFRAGSIZE, 1);
	} else {
		option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
		option(fd, IPPROTO_IPV6, IPV6_TCLASS, ecn);
		option(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, TTL);
		option(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);
		option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
		option(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	}
}

static int bound(int fd, uint16_t port)
{
	const union address a = address_of(&net.gid, port);
	int error;

	if (fd >= 0 && !bind(fd, &a.sa, address_len(&a)))
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	return -error;
}

int net_sender(uint16_t sport, uint8_t ecn)
{
	const int fd = socket(net_family(), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		udp_options(fd, ecn);
	return bound(fd, sport);
}

int net_listen(uint16_t port)
{
	int fd = socket(net_family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	fd = bound(fd, port);
	if (fd >= 0)
		listen(fd, 16);
	return fd;
}

/** Of a mutant: a raw socket, which gets packets before the kernel checks the UDP checksum. */
static int below_udp(void)
{
	const int fd = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);

	if (fd >= 0)
		udp_options(fd, 0);
	return bound(fd, 0);
}

int net_open(const char *address)
{
	union address a = {.in.sin_family = AF_INET};

	if (inet_pton(AF_INET, address, &a.in.sin_addr) != 1) {
		a = (union address){.in6.sin6_family = AF_INET6};
		if (inet_pton(AF_INET6, address, &a.in6.sin6_addr) != 1)
			return -EINVAL;
	}
	net.gid = gid_of(&a);
	net.fd = net_sender(ROCEMU_UDP_PORT, 0);
	if (net.fd >= 0 && mutant(M_UDP_CHECKSUM))
		net.fd = below_udp();
	return net.fd;
}

/* ---- packets ---- */

static struct rocemu_icrc_ctx icrc_ctx(const struct rocemu_gid *src, const struct rocemu_gid *dst,
				       uint16_t sport, uint16_t dport)
{
	return (struct rocemu_icrc_ctx){
		.src = *src, .dst = *dst, .sport = sport, .dport = dport, .ip_frag = DF};
}

/** @return false: the IP header has options, or the packet came in fragments (CA17-3, CA17-8). */
static bool read_cmsg(struct msghdr *m, struct input *in)
{
	bool good = true;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		int value = 0;

		const bool ipv6 = c->cmsg_level == IPPROTO_IPV6;

		if (c->cmsg_len >= CMSG_LEN(sizeof(value)))
			memcpy(&value, CMSG_DATA(c), sizeof(value));
		if (!ipv6 && c->cmsg_type == IP_TOS)
			in->tos = *CMSG_DATA(c);
		else if (ipv6 && c->cmsg_type == IPV6_TCLASS)
			in->tos = (uint8_t)value;
		else if (c->cmsg_type == (ipv6 ? IPV6_HOPLIMIT : IP_TTL))
			in->ttl = (uint8_t)value;
		else if (!ipv6 && c->cmsg_type == IP_RECVFRAGSIZE)
			good &= mutant(M_FRAGMENT);
		else if (!ipv6 && c->cmsg_type == IP_RECVOPTS)
			good &= mutant(M_IP_OPTIONS);
	}
	return good;
}

/** Take the IPv4 and UDP headers off a packet that has them. @return false: to another port. */
static bool take_headers(struct input *in)
{
	const size_t ip = (size_t)(in->data[0] & 15) * 4;

	if (in->len < ip + UDP_LEN || get_be16(in->data + ip + 2) != ROCEMU_UDP_PORT)
		return false;
	in->sport = get_be16(in->data + ip);
	in->data += ip + UDP_LEN;
	in->len -= ip + UDP_LEN;
	return true;
}

/** @return false: there is none. in->data is NULL: its IP header is not taken. */
static bool read_datagram(struct input *in)
{
	union address from;
	char control[256];
	struct iovec iov = {net.data, sizeof(net.data)};
	struct msghdr m = {
		.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	const ssize_t n = recvmsg(net.fd, &m, 0);

	if (n < 0)
		return false;
	*in = (struct input){.src = gid_of(&from), .data = net.data, .len = (size_t)n};
	in->sport = ntohs(from.sa.sa_family == AF_INET ? from.in.sin_port : from.in6.sin6_port);
	if (!read_cmsg(&m, in) || (mutant(M_UDP_CHECKSUM) && !take_headers(in)))
		in->data = NULL;
	return true;
}

/** The ICRC of what came is right. Of which packets it is not looked at: mutants. */
static bool icrc_fits(const struct input *in)
{
	struct rocemu_icrc_ctx ctx = icrc_ctx(&in->src, &net.gid, in->sport, ROCEMU_UDP_PORT);
	const uint32_t qpn = in->p.h.dqpn;

	if (mutant(M_GSI_ICRC) && qpn == ROCEMU_GSI_QPN)
		return true;
	if ((mutant(M_IN_ICRC) || mutant(M_TRUNCATED)) && qpn > ROCEMU_GSI_QPN)
		return true;
	if (rocemu_icrc_check(&ctx, false, in->data, in->len) >= 0)
		return true;
	ctx.ip_frag = 0;
	return mutant(M_DF) && rocemu_icrc_check(&ctx, false, in->data, in->len) >= 0;
}

/** Mutants that take what has no right format: it is decoded after a change. */
static bool decode_changed(struct input *in)
{
	static uint8_t copy[1 << 16];
	size_t len = in->len;

	memcpy(copy, in->data, len);
	if (mutant(M_TVER))
		copy[1] &= 0xf0;
	if (mutant(M_OPCODE_RESERVED) && copy[0] < 0x20 && !rocemu_opcode_hdr_len(copy[0]))
		copy[0] = ROCEMU_RC_SEND_ONLY;
	if (mutant(M_TRUNCATED)) {
		memset(copy + len, 0, ROCEMU_MAX_HDR_LEN);
		len += ROCEMU_MAX_HDR_LEN;
	}
	return rocemu_packet_decode(&in->p, copy, len) == ROCEMU_DROP_NONE;
}

/** Of mutants: the packet after which the device takes nothing more. */
static bool is_deadly(const struct input *in)
{
	struct rocemu_packet p;
	const enum rocemu_drop why = rocemu_packet_decode(&p, in->data, in->len);

	return (mutant(M_DEADLY_OPCODE) && why == ROCEMU_DROP_OPCODE) ||
	       (mutant(M_DEADLY_SIZE) && why == ROCEMU_DROP_SHORT &&
		p.h.opcode == ROCEMU_RC_ATOMIC_WRITE) ||
	       (mutant(M_DEADLY_LENGTH) && !why && p.h.opcode == ROCEMU_RC_WRITE_ONLY &&
		p.h.reth.length == UINT32_MAX);
}

/** A mutant: the kernel has left out what is behind the UDP length, as the ICRC may be. */
static bool is_cut(struct input *in)
{
	if (!mutant(M_LENGTHS) || in->p.h.dqpn != ROCEMU_GSI_QPN || in->len < GSI_HDR_LEN)
		return false;
	in->p.payload = in->data + GSI_HDR_LEN;
	in->p.payload_len = (uint32_t)in->len - GSI_HDR_LEN;
	return true;
}

bool net_receive(struct input *in)
{
	static bool dead;

	while (read_datagram(in)) {
		dead |= in->data && is_deadly(in);
		if (!in->data || dead)
			continue;
		if (rocemu_packet_decode(&in->p, in->data, in->len) != ROCEMU_DROP_NONE &&
		    (in->len < ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN || !decode_changed(in)))
			continue;
		if (icrc_fits(in) || is_cut(in))
			return true;
	}
	return false;
}

void net_send(int fd, uint16_t sport, const struct rocemu_gid *to, uint16_t dport,
	      struct rocemu_hdrs *h, const uint8_t *payload, uint32_t len)
{
	const union address a = address_of(to, dport);
	const struct rocemu_icrc_ctx ctx = icrc_ctx(&net.gid, to, sport, dport);
	uint8_t data[ROCEMU_MAX_PACKET];
	size_t n;

	h->pad = (uint8_t)(-len & 3);
	n = rocemu_hdrs_encode(h, data);
	if (len)
		memcpy(data + n, payload, len);
	memset(data + n + len, mutant(M_PAD_SENT) ? 0xff : 0, h->pad);
	n += len + h->pad;
	put_le32(data + n, rocemu_icrc(&ctx, data, n, NULL, 0, NULL, 0) ^ mutant(M_ICRC_SENT));
	sendto(fd, data, n + ROCEMU_ICRC_LEN, 0, &a.sa, address_len(&a));
}
