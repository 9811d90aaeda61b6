/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * With AF_IB, a GID and a service ID replace IP address and port. On RoCE each GID is an IP
 * address, so AF_IB is another notation of what AF_INET and AF_INET6 express.
 */
#include <endian.h>
#include <string.h>
#include <unistd.h>

#include "base/syssocket.h"
#include "base/util.h"
#include "rdmacm/addr.h"

/* Callers pass a sockaddr with the length and alignment of its family. */
static const struct sockaddr_in *in4(const struct sockaddr *sa)
{
	return (const struct sockaddr_in *)(const void *)sa;
}

static const struct sockaddr_in6 *in6(const struct sockaddr *sa)
{
	return (const struct sockaddr_in6 *)(const void *)sa;
}

static const struct sockaddr_ib *ib(const struct sockaddr *sa)
{
	return (const struct sockaddr_ib *)(const void *)sa;
}

socklen_t rcm_addr_len(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	default:
		return 0;
	}
}

void rcm_addr_ip(const struct sockaddr *sa, struct sockaddr_storage *ip)
{
	struct rocemu_gid gid;

	memset(ip, 0, sizeof(*ip));
	if (sa->sa_family != AF_IB) {
		memcpy(ip, sa, rcm_addr_len(sa));
		return;
	}
	rcm_addr_to_gid(sa, &gid);
	rcm_addr_from_gid((struct sockaddr *)ip, &gid, rcm_addr_port(sa),
			  (uint32_t)ib(sa)->sib_scope_id);
}

bool rcm_addr_any(const struct sockaddr *sa)
{
	static const struct rocemu_gid none, none_v4 = {.raw = {[10] = 0xff, [11] = 0xff}};
	struct rocemu_gid gid;

	rcm_addr_to_gid(sa, &gid);
	/* ::ffff:0.0.0.0 is a wildcard as a GID, but not as AF_INET6. */
	return rocemu_gid_equal(&gid, &none) ||
	       (sa->sa_family != AF_INET6 && rocemu_gid_equal(&gid, &none_v4));
}

bool rcm_addr_loopback(const struct sockaddr *sa)
{
	static const struct rocemu_gid v6 = {.raw = {[15] = 1}};
	struct rocemu_gid gid;

	rcm_addr_to_gid(sa, &gid);
	if (rocemu_gid_is_ipv4(&gid))
		return sa->sa_family != AF_INET6 && gid.raw[12] == IN_LOOPBACKNET;
	return rocemu_gid_equal(&gid, &v6);
}

bool rcm_addr_multicast(const struct sockaddr *sa)
{
	struct rocemu_gid gid;

	rcm_addr_to_gid(sa, &gid);
	if (rocemu_gid_is_ipv4(&gid))
		return gid.raw[12] >> 4 == 0xe;
	return gid.raw[0] == 0xff;
}

bool rcm_addr_link_local(const struct sockaddr *sa)
{
	struct rocemu_gid gid;

	rcm_addr_to_gid(sa, &gid);
	return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

uint16_t rcm_addr_port(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_IB:
		return (uint16_t)be64toh(ib(sa)->sib_sid & ib(sa)->sib_sid_mask);
	case AF_INET6:
		return ntohs(in6(sa)->sin6_port);
	default:
		return ntohs(in4(sa)->sin_port);
	}
}

void rcm_addr_set_port(struct sockaddr *sa, uint16_t port)
{
	if (sa->sa_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)sa)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)(void *)sa)->sin_port = htons(port);
}

uint64_t rcm_addr_service(enum rdma_port_space ps, const struct sockaddr *sa)
{
	if (sa->sa_family == AF_IB)
		return be64toh(ib(sa)->sib_sid);
	return rocemu_cm_service_id((enum rocemu_port_space)ps, rcm_addr_port(sa));
}

int rcm_addr_own_service(enum rdma_port_space ps, const struct sockaddr *sa, uint64_t *service_id)
{
	/*
	 * For each port space: the service IDs that an ID may have, and the one that it gets by
	 * default.
	 */
	static const enum rdma_port_space spaces[] = {RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP};
	uint64_t mask, wanted;

	*service_id = rcm_addr_service(ps, sa);
	if (sa->sa_family != AF_IB)
		return 0;
	mask = be64toh(ib(sa)->sib_sid_mask) & RDMA_IB_IP_PS_MASK;
	wanted = *service_id & mask;
	for (size_t i = 0; i < ARRAY_LEN(spaces); i++) {
		uint64_t space = rocemu_cm_service_id((enum rocemu_port_space)spaces[i], 0);

		if ((ps == RDMA_PS_IB || ps == spaces[i]) && wanted == (space & mask)) {
			*service_id = space | rcm_addr_port(sa);
			return 0;
		}
	}
	return -EPROTONOSUPPORT;
}

uint32_t rcm_addr_scope(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_INET6:
		return in6(sa)->sin6_scope_id;
	case AF_IB:
		return (uint32_t)ib(sa)->sib_scope_id;
	default:
		return 0;
	}
}

void rcm_addr_to_gid(const struct sockaddr *sa, struct rocemu_gid *gid)
{
	*gid = (struct rocemu_gid){0};
	switch (sa->sa_family) {
	case AF_INET6:
		memcpy(gid->raw, &in6(sa)->sin6_addr, 16);
		break;
	case AF_IB:
		memcpy(gid->raw, &ib(sa)->sib_addr, 16);
		break;
	default:
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, &in4(sa)->sin_addr, 4);
		break;
	}
}

void rcm_addr_from_gid(struct sockaddr *sa, const struct rocemu_gid *gid, uint16_t port,
		       uint32_t scope)
{
	if (rocemu_gid_is_ipv4(gid)) {
		struct sockaddr_in *s = (struct sockaddr_in *)(void *)sa;

		*s = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&s->sin_addr, gid->raw + 12, 4);
	} else {
		struct sockaddr_in6 *s = (struct sockaddr_in6 *)(void *)sa;

		*s = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
		memcpy(&s->sin6_addr, gid->raw, 16);
		if (IN6_IS_ADDR_LINKLOCAL(&s->sin6_addr))
			s->sin6_scope_id = scope;
	}
}

void rcm_addr_make(struct sockaddr *sa, sa_family_t family, const struct rocemu_gid *gid,
		   uint64_t service_id, uint32_t scope)
{
	struct sockaddr_ib *to = (struct sockaddr_ib *)(void *)sa;

	if (family != AF_IB) {
		rcm_addr_from_gid(sa, gid, (uint16_t)service_id, scope);
		return;
	}
	*to = (struct sockaddr_ib){
		.sib_family = AF_IB,
		.sib_pkey = htons(ROCEMU_PKEY_DEFAULT),
		.sib_sid = htobe64(service_id),
		.sib_sid_mask = htobe64(UINT64_MAX),
	};
	memcpy(&to->sib_addr, gid->raw, 16);
	if (rcm_addr_link_local(sa))
		to->sib_scope_id = scope;
}

void rcm_addr_copy(struct sockaddr_storage *to, const struct sockaddr *sa)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, sa, rcm_addr_len(sa));
}

int rcm_addr_route(const struct sockaddr *dst, const struct sockaddr *from,
		   struct sockaddr_storage *src)
{
	struct sockaddr_storage to, own;
	socklen_t len = sizeof(*src);
	int err = 0, fd = sys_socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	rcm_addr_copy(&to, dst);
	/* Nothing is sent; a port of 0 would be refused by some kernels. */
	rcm_addr_set_port((struct sockaddr *)&to, ROCEMU_UDP_PORT);
	if (from) {
		rcm_addr_copy(&own, from);
		rcm_addr_set_port((struct sockaddr *)&own, 0);
	}
	memset(src, 0, sizeof(*src));
	if ((from && bind(fd, (struct sockaddr *)&own, rcm_addr_len(from)) < 0) ||
	    connect(fd, (struct sockaddr *)&to, rcm_addr_len(dst)) < 0 ||
	    getsockname(fd, (struct sockaddr *)src, &len) < 0)
		err = -errno;
	close(fd);
	rcm_addr_set_port((struct sockaddr *)src, 0);
	return err;
}
