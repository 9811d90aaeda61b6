/* SPDX-License-Identifier: BSD-2-Clause */
/* IPv4 and IPv6 socket addresses: what rdma_cm asks of them. */
#include <string.h>
#include <unistd.h>

#include "base/syssocket.h"
#include "rdmacm/objects.h"

/* Callers hand over a sockaddr that is as long, and as aligned, as its family asks for. */
static const struct sockaddr_in *in4(const struct sockaddr *sa)
{
	return (const struct sockaddr_in *)(const void *)sa;
}

static const struct sockaddr_in6 *in6(const struct sockaddr *sa)
{
	return (const struct sockaddr_in6 *)(const void *)sa;
}

socklen_t rcm_addr_len(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

bool rcm_addr_any(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&in6(sa)->sin6_addr);
	return in4(sa)->sin_addr.s_addr == htonl(INADDR_ANY);
}

bool rcm_addr_loopback(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&in6(sa)->sin6_addr);
	return ntohl(in4(sa)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool rcm_addr_multicast(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET6)
		return IN6_IS_ADDR_MULTICAST(&in6(sa)->sin6_addr);
	return IN_MULTICAST(ntohl(in4(sa)->sin_addr.s_addr));
}

uint16_t rcm_addr_port(const struct sockaddr *sa)
{
	return ntohs(sa->sa_family == AF_INET6 ? in6(sa)->sin6_port : in4(sa)->sin_port);
}

void rcm_addr_set_port(struct sockaddr *sa, uint16_t port)
{
	if (sa->sa_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)sa)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)(void *)sa)->sin_port = htons(port);
}

uint32_t rcm_addr_scope(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? in6(sa)->sin6_scope_id : 0;
}

void rcm_addr_to_gid(const struct sockaddr *sa, struct rocemu_gid *gid)
{
	*gid = (struct rocemu_gid){0};
	if (sa->sa_family == AF_INET6) {
		memcpy(gid->raw, &in6(sa)->sin6_addr, 16);
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &in4(sa)->sin_addr, 4);
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

void rcm_addr_copy(struct sockaddr_storage *to, const struct sockaddr *sa)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, sa, rcm_addr_len(sa));
}

int rcm_addr_route(const struct sockaddr *dst, struct sockaddr_storage *src)
{
	struct sockaddr_storage to;
	socklen_t len = sizeof(*src);
	int err = 0, fd = sys_socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	rcm_addr_copy(&to, dst);
	/* Nothing is sent; a port of 0 would be refused by some kernels. */
	rcm_addr_set_port((struct sockaddr *)&to, ROCEMU_UDP_PORT);
	memset(src, 0, sizeof(*src));
	if (connect(fd, (struct sockaddr *)&to, rcm_addr_len(dst)) < 0 ||
	    getsockname(fd, (struct sockaddr *)src, &len) < 0)
		err = -errno;
	close(fd);
	rcm_addr_set_port((struct sockaddr *)src, 0);
	return err;
}
