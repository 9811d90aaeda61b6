/* SPDX-License-Identifier: BSD-2-Clause */
/* GIDs as socket addresses and back: an IPv4-mapped GID is an AF_INET address, any other an
 * AF_INET6 one. */
#ifndef NETDEV_ADDR_H
#define NETDEV_ADDR_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <rocemu/wire.h>

union addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/** @return the length of the socket address. scope_id counts for IPv6 only. */
socklen_t addr_from_gid(union addr *a, const struct rocemu_gid *gid, uint16_t port,
			uint32_t scope_id);

/** @return 0, or -EAFNOSUPPORT: a is of another family or shorter than its family's addresses. */
int addr_to_gid(const union addr *a, socklen_t len, struct rocemu_gid *gid, uint16_t *port);

/** fe80::/10 or ff02::/16: needs a scope to be sent to. */
bool addr_gid_is_link_local(const struct rocemu_gid *gid);

/** 127.0.0.0/8 or ::1. */
bool addr_gid_is_loopback(const struct rocemu_gid *gid);

enum { ADDR_TEXT_LEN = 64 };
/** The address for messages: "127.0.0.1" or "fe80::1". @return buf. */
const char *addr_gid_text(const struct rocemu_gid *gid, char buf[ADDR_TEXT_LEN]);

#endif
