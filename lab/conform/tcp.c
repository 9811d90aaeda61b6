/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP connections to programs at the device, by which queue pairs are exchanged. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "conform/session.h"

enum { EXCHANGE_MS = 5000 };

static socklen_t tcp_address(const struct rocemu_gid *gid, uint16_t port,
			     struct sockaddr_storage *to)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;
	struct sockaddr_in *four = (struct sockaddr_in *)to;

	memset(to, 0, sizeof(*to));
	if (rocemu_gid_is_ipv4(gid)) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		memcpy(&four->sin_addr, gid->raw + 12, sizeof(four->sin_addr));
		return sizeof(*four);
	}
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(port);
	memcpy(&six->sin6_addr, gid->raw, sizeof(six->sin6_addr));
	return sizeof(*six);
}

int tcp_ready(int fd, short events, unsigned ms)
{
	struct pollfd p = {.fd = fd, .events = events};
	const int n = poll(&p, 1, (int)ms);

	return n > 0 ? 0 : n == 0 ? -ETIMEDOUT : -errno;
}

int tcp_connect(const struct rocemu_gid *gid, uint16_t port)
{
	struct sockaddr_storage to;
	const socklen_t len = tcp_address(gid, port, &to);
	int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0;
	socklen_t size = sizeof(error);

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, len) < 0)
		error = -errno;
	if (error == -EINPROGRESS) {
		error = tcp_ready(fd, POLLOUT, EXCHANGE_MS);
		if (!error && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0)
			error = -error;
	}
	if (!error)
		return fd;
	close(fd);
	return error;
}

int tcp_read(int fd, void *data, size_t len)
{
	uint8_t *to = data;

	while (len) {
		int error = tcp_ready(fd, POLLIN, EXCHANGE_MS);
		ssize_t n = error ? 0 : read(fd, to, len);

		if (error || n < 0)
			return error ? error : -errno;
		if (n == 0)
			return -ECONNRESET;
		to += n;
		len -= (size_t)n;
	}
	return 0;
}
