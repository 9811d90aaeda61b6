/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines to conform-peer, and its answers. */
#include "conform/remote.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "conform/session.h"

enum { PATIENCE_MS = 10000 };

int remote_open(struct remote *r, const struct rocemu_gid *host, uint16_t port)
{
	const int one = 1, fd = tcp_connect(host, port);

	*r = (struct remote){.fd = fd};
	if (fd < 0)
		return fd;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return 0;
}

void remote_close(struct remote *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

static int send_line(const struct remote *r, const char *line, size_t len)
{
	while (len) {
		const ssize_t n = send(r->fd, line, len, MSG_NOSIGNAL);
		const int error = n < 0 && errno == EAGAIN ? tcp_ready(r->fd, POLLOUT, PATIENCE_MS)
				  : n < 0		   ? -errno
							   : 0;

		if (error)
			return error;
		line += MAX(n, 0);
		len -= (size_t)MAX(n, 0);
	}
	return 0;
}

/** The next line, in r->answer. */
static int wait_line(struct remote *r)
{
	char *end;

	r->got -= r->len;
	memmove(r->answer, r->answer + r->len, r->got);
	r->len = 0;
	while (!(end = memchr(r->answer, '\n', r->got))) {
		const size_t room = sizeof(r->answer) - r->got;
		const int error = room ? tcp_ready(r->fd, POLLIN, PATIENCE_MS) : -EMSGSIZE;
		const ssize_t n = error ? 0 : read(r->fd, r->answer + r->got, room);

		if (error || n <= 0)
			return error ? error : n ? -errno : -ECONNRESET;
		r->got += (size_t)n;
	}
	*end = 0;
	r->len = (size_t)(end - r->answer) + 1;
	return 0;
}

int remote_ask(struct remote *r, const char *fmt, ...)
{
	char *line = NULL;
	int len, error;
	va_list args;

	va_start(args, fmt);
	len = vasprintf(&line, fmt, args);
	va_end(args);
	if (len < 0)
		return -ENOMEM;
	line[len] = '\n'; /* in the place of the zero */
	error = r->fd < 0 ? -ENOTCONN : send_line(r, line, (size_t)len + 1);
	free(line);
	if (!error)
		error = wait_line(r);
	if (error)
		return error;
	if (strncmp(r->answer, "ok", 2) == 0)
		return 0;
	error = strncmp(r->answer, "error ", 6) == 0 ? atoi(r->answer + 6) : 0;
	return error > 0 && error < 4096 ? -error : -EPROTO;
}
