/* SPDX-License-Identifier: BSD-2-Clause */
#include "netlink.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "map.h"

/* RDMA's number, as of its first header. */
enum { PROTOCOL_RDMA = 20 };

/** The keeper's port, 0: there is none. */
static uint32_t keeper_port(void)
{
	static const char name[] = "/netlink";
	char path[MAP_PATH_MAX], text[16];
	const size_t root = strlen(map_root());
	uint64_t port = 0;
	long n;

	if (!root || root + sizeof(name) > sizeof(path))
		return 0;
	memcpy(path, map_root(), root);
	memcpy(path + root, name, sizeof(name));
	n = syscall(SYS_readlinkat, AT_FDCWD, path, text, sizeof(text));
	for (long i = 0; i < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		port = port * 10 + (uint64_t)(text[i] - '0');
	}
	return n > 0 && port <= UINT32_MAX ? (uint32_t)port : 0;
}

int netlink_protocol(int domain, int protocol)
{
	const int saved = errno;

	if (domain == AF_NETLINK && protocol == PROTOCOL_RDMA && keeper_port())
		protocol = NETLINK_USERSOCK;
	errno = saved;
	return protocol;
}

/** Sockets of that protocol have no kernel at the other end: who sends to it had asked for RDMA. */
static bool is_ours(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);

	return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
	       protocol == NETLINK_USERSOCK;
}

const void *netlink_to(int fd, const void *to, socklen_t len, struct sockaddr_storage *out)
{
	const int saved = errno;
	struct sockaddr_nl nl;

	if (!to || len != sizeof(nl))
		return to;
	memcpy(&nl, to, sizeof(nl));
	if (nl.nl_family != AF_NETLINK || nl.nl_pid || nl.nl_groups || !*map_root())
		return to;
	if (is_ours(fd)) {
		nl.nl_pid = keeper_port();
		memcpy(out, &nl, sizeof(nl));
		to = out;
	}
	errno = saved;
	return to;
}

void netlink_from(void *from, socklen_t len)
{
	const int saved = errno;
	struct sockaddr_nl nl;

	if (!from || len != sizeof(nl))
		return;
	memcpy(&nl, from, sizeof(nl));
	if (nl.nl_family == AF_NETLINK && nl.nl_pid && !nl.nl_groups &&
	    nl.nl_pid == keeper_port()) {
		nl.nl_pid = 0;
		memcpy(from, &nl, sizeof(nl));
	}
	errno = saved;
}
