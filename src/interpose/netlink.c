/* SPDX-License-Identifier: BSD-2-Clause */
#include "netlink.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "foreign.h"
#include "map.h"

enum {
	/* RDMA's number, as of its first header. */
	PROTOCOL_RDMA = 20,
	/*
	 * Emulated sockets have this SO_PRIORITY, which netlink does not use; other sockets of
	 * their protocol are the program's own. It stays with the socket through dup(), fork() and
	 * exec().
	 */
	MARK = 5,
};

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

	if (domain != AF_NETLINK || protocol != PROTOCOL_RDMA)
		return protocol;
	foreign_check();
	if (keeper_port())
		protocol = NETLINK_USERSOCK;
	errno = saved;
	return protocol;
}

static bool has_option(int fd, int option, int value)
{
	int v = -1;
	socklen_t len = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, option, &v, &len) == 0 && v == value;
}

static bool is_ours(int fd)
{
	return has_option(fd, SO_PROTOCOL, NETLINK_USERSOCK) && has_option(fd, SO_PRIORITY, MARK);
}

void netlink_made(int fd)
{
	const int saved = errno, mark = MARK;

	setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &mark, sizeof(mark));
	errno = saved;
}

void netlink_bound(int fd, const void *address, socklen_t len)
{
	const int saved = errno;
	struct sockaddr_nl nl;

	if (!address || len < sizeof(nl))
		return;
	memcpy(&nl, address, sizeof(nl));
	if (nl.nl_family != AF_NETLINK || !*map_root())
		return;
	if (is_ours(fd)) {
		nl = (struct sockaddr_nl){.nl_family = AF_NETLINK, .nl_pid = keeper_port()};
		syscall(SYS_connect, fd, &nl, sizeof(nl));
	}
	errno = saved;
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
