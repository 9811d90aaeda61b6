/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/util.h"

enum { GID_IPV4 = 12 }; /* offset of the IPv4 address in ::ffff:a.b.c.d */

socklen_t addr_from_gid(union addr *a, const struct rocemu_gid *gid, uint16_t port,
			uint32_t scope_id)
{
	if (rocemu_gid_is_ipv4(gid)) {
		memset(&a->in, 0, sizeof(a->in));
		a->in.sin_family = AF_INET;
		a->in.sin_port = htons(port);
		memcpy(&a->in.sin_addr, gid->raw + GID_IPV4, 4);
		return sizeof(a->in);
	}
	memset(&a->in6, 0, sizeof(a->in6));
	a->in6.sin6_family = AF_INET6;
	a->in6.sin6_port = htons(port);
	a->in6.sin6_scope_id = scope_id;
	memcpy(&a->in6.sin6_addr, gid->raw, 16);
	return sizeof(a->in6);
}

HOT int addr_to_gid(const union addr *a, socklen_t len, struct rocemu_gid *gid, uint16_t *port)
{
	if (len >= sizeof(a->in) && a->sa.sa_family == AF_INET) {
		memset(gid->raw, 0, 10);
		memset(gid->raw + 10, 0xff, 2);
		memcpy(gid->raw + GID_IPV4, &a->in.sin_addr, 4);
		*port = ntohs(a->in.sin_port);
		return 0;
	}
	if (len >= sizeof(a->in6) && a->sa.sa_family == AF_INET6) {
		memcpy(gid->raw, &a->in6.sin6_addr, 16);
		*port = ntohs(a->in6.sin6_port);
		return 0;
	}
	return -EAFNOSUPPORT;
}

bool addr_gid_is_link_local(const struct rocemu_gid *gid)
{
	return (gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80) ||
	       (gid->raw[0] == 0xff && (gid->raw[1] & 0x0f) == 0x02);
}

bool addr_gid_is_loopback(const struct rocemu_gid *gid)
{
	static const struct rocemu_gid loopback6 = {.raw = {[15] = 1}};

	return rocemu_gid_is_ipv4(gid) ? gid->raw[GID_IPV4] == IN_LOOPBACKNET
				       : rocemu_gid_equal(gid, &loopback6);
}

const char *addr_gid_text(const struct rocemu_gid *gid, char buf[ADDR_TEXT_LEN])
{
	const char *text = rocemu_gid_is_ipv4(gid)
				   ? inet_ntop(AF_INET, gid->raw + GID_IPV4, buf, ADDR_TEXT_LEN)
				   : inet_ntop(AF_INET6, gid->raw, buf, ADDR_TEXT_LEN);

	return text ? text : "?";
}
