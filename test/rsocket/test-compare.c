/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compares the same calls on TCP sockets and on rsockets: results, errno and poll() must be equal.
 * TCP goes first. On loopback its answers come at once; an rsocket's may take a moment, so poll()
 * waits there until it reports the same, and absent events are waited for a while.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/util.h"
#include "lib/test.h"
#include "rsocket/rs.h"
#include "sock.h"
#include "verbs/dev.h"

/* ---- both kinds ---- */

static int tcp_socket(int domain, int type, int protocol)
{
	return socket(domain, type | SOCK_CLOEXEC, protocol);
}

static ssize_t tcp_send(int fd, const void *buf, size_t len, int flags)
{
	return send(fd, buf, len, flags | MSG_NOSIGNAL);
}

struct api {
	int (*socket)(int, int, int);
	int (*bind)(int, const struct sockaddr *, socklen_t);
	int (*listen)(int, int);
	int (*accept)(int, struct sockaddr *, socklen_t *);
	int (*connect)(int, const struct sockaddr *, socklen_t);
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*recv)(int, void *, size_t, int);
	ssize_t (*readv)(int, const struct iovec *, int);
	ssize_t (*writev)(int, const struct iovec *, int);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	int (*poll)(struct pollfd *, nfds_t, int);
	int (*select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
	int (*shutdown)(int, int);
	int (*close)(int);
	int (*getsockopt)(int, int, int, void *, socklen_t *);
	int (*setsockopt)(int, int, int, const void *, socklen_t);
	int (*getpeername)(int, struct sockaddr *, socklen_t *);
	int (*getsockname)(int, struct sockaddr *, socklen_t *);
};

static int tcp_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept(fd, addr, len);
}

static int tcp_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return connect(fd, addr, len);
}

static int tcp_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	return bind(fd, addr, len);
}

static int tcp_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	return getpeername(fd, addr, len);
}

static int tcp_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return getsockname(fd, addr, len);
}

static const struct api tcp = {
	tcp_socket, tcp_bind,	listen,		 tcp_accept,	  tcp_connect,
	tcp_send,   recv,	readv,		 writev,	  recvmsg,
	sendmsg,    poll,	select,		 shutdown,	  close,
	getsockopt, setsockopt, tcp_getpeername, tcp_getsockname,
};
static const struct api ours = {
	rsocket, rbind,	      rlisten,	   raccept,	 rconnect,     rsend,	rrecv,
	rreadv,	 rwritev,     rrecvmsg,	   rsendmsg,	 rpoll,	       rselect, rshutdown,
	rclose,	 rgetsockopt, rsetsockopt, rgetpeername, rgetsockname,
};

/* ---- results, a line per call ---- */

enum { LINES = 400, LINE = 120 };

struct trace {
	const struct api *api;
	char lines[LINES][LINE];
	int n;
	uint32_t seed;
	struct trace *before; /* TCP's; NULL: this is it */
};

__attribute__((format(printf, 2, 3))) static void say(struct trace *t, const char *format, ...)
{
	va_list args;
	char *line = t->lines[t->n];

	assert_true(t->n < LINES);
	va_start(args, format);
	vsnprintf(line, LINE, format, args);
	va_end(args);
	if (t->before && strcmp(line, t->before->lines[t->n]) != 0) {
		print_message("seed %u:\n", t->seed);
		for (int i = 0; i < t->n; i++)
			print_message("  %s\n", t->lines[i]);
		fail_msg("TCP: %s\nrsocket: %s", t->before->lines[t->n], line);
	}
	t->n++;
}

/** The previous run's result at this place: a number after the first '='. */
static int said_before(const struct trace *t)
{
	return t->before ? atoi(strchr(t->before->lines[t->n], '=') + 1) : 0;
}

static ssize_t ret(struct trace *t, const char *what, ssize_t n)
{
	const int err = n < 0 ? errno : 0;

	say(t, "%s = %zd %s", what, n, err ? strerrorname_np(err) : "");
	return n;
}

enum { SOON_MS = 10 };

/** expect: what may be compared. */
static void poll_one(struct trace *t, const char *who, int fd, short events, int mask)
{
	const int want = said_before(t);
	const uint64_t end = rs_now() + (uint64_t)SOCK_GUARD_MS * 1000000;
	struct pollfd p = {.fd = fd, .events = events};
	int n;

	do {
		n = t->api->poll(&p, 1, t->before && want == 0 ? SOON_MS : 0);
		assert_int_equal(n, p.revents != 0);
	} while (t->before && (p.revents & mask) != want && rs_now() < end);
	say(t, "poll %s 0x%x =%d", who, (unsigned)events, p.revents & mask);
}

/* ---- a life of both ---- */

enum { ALL = POLLIN | POLLOUT | POLLERR | POLLHUP };

static void get_error(struct trace *t, int fd)
{
	socklen_t len = sizeof(int);
	int n = -1;

	t->api->getsockopt(fd, SOL_SOCKET, SO_ERROR, &n, &len);
	say(t, "SO_ERROR %d, %u bytes", n, len);
}

static int listener(const struct api *api, union sock_addr *at)
{
	int fd = api->socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(*at);

	assert_true(fd >= 0);
	*at = sock_loopback(AF_INET, 0);
	assert_int_equal(api->bind(fd, &at->sa, len = sock_len(at)), 0);
	assert_int_equal(api->getsockname(fd, &at->sa, &len), 0);
	return fd;
}

static void wait_for(const struct api *api, int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	assert_int_equal(api->poll(&p, 1, SOCK_GUARD_MS), 1);
}

static void connecting(struct trace *t)
{
	const struct api *api = t->api;
	union sock_addr at, name;
	socklen_t len = sizeof(name);
	int l, a, b, err;
	char c;

	l = listener(api, &at);
	a = api->socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	poll_one(t, "new", a, ALL, ALL);
	poll_one(t, "new", a, 0, ALL);
	ret(t, "recv", api->recv(a, &c, 1, 0));
	ret(t, "shutdown", api->shutdown(a, SHUT_WR));
	ret(t, "getpeername", api->getpeername(a, &name.sa, &len));
	ret(t, "accept", api->accept(a, NULL, NULL));
	ret(t, "listen", api->listen(l, 4));
	ret(t, "listen again", api->listen(l, 4));
	poll_one(t, "listener", l, ALL, ALL);
	ret(t, "accept", api->accept(l, NULL, NULL));
	ret(t, "recv of listener", api->recv(l, &c, 1, 0));
	ret(t, "connect", api->connect(a, &at.sa, sock_len(&at)));
	poll_one(t, "listener", l, ALL, ALL);
	b = api->accept(l, NULL, NULL);
	assert_true(b >= 0);
	poll_one(t, "connected", a, ALL, ALL);
	poll_one(t, "accepted", b, ALL, ALL);
	poll_one(t, "listener", l, ALL, ALL);
	get_error(t, a);
	/* The first query may report success. */
	(void)api->connect(a, &at.sa, sock_len(&at));
	ret(t, "connect again", api->connect(a, &at.sa, sock_len(&at)));
	ret(t, "bind", api->bind(a, &at.sa, sock_len(&at)));
	ret(t, "listen", api->listen(a, 1));
	len = sizeof(name);
	ret(t, "getpeername", api->getpeername(a, &name.sa, &len));
	say(t, "is the listener's: %d", name.in.sin_port == at.in.sin_port);
	api->close(b);
	api->close(a);
	/* There is no listener any more. */
	api->close(l);
	a = api->socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	err = api->connect(a, &at.sa, sock_len(&at)) ? errno : 0;
	if (err == EINPROGRESS) {
		poll_one(t, "refused", a, ALL, ALL);
		get_error(t, a);
	} else {
		say(t, "poll refused 0x%x =%d", ALL, ALL);
		say(t, "SO_ERROR %d, %zu bytes", err, sizeof(int));
	}
	get_error(t, a);
	api->close(a);
	ret(t, "close again", api->close(a));
}

static void make_pair(const struct api *api, int fds[2])
{
	union sock_addr at;
	int l = listener(api, &at);

	assert_int_equal(api->listen(l, 1), 0);
	fds[0] = api->socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (api->connect(fds[0], &at.sa, sock_len(&at)))
		assert_int_equal(errno, EINPROGRESS);
	wait_for(api, l, POLLIN);
	fds[1] = api->accept(l, NULL, NULL);
	assert_true(fds[1] >= 0);
	wait_for(api, fds[0], POLLOUT);
	api->close(l);
}

/** Until so many bytes are there. */
static void wait_bytes(const struct api *api, int fd, size_t n)
{
	const uint64_t end = rs_now() + (uint64_t)SOCK_GUARD_MS * 1000000;
	static char buf[65536];

	while (api->recv(fd, buf, n, MSG_PEEK | MSG_DONTWAIT) != (ssize_t)n)
		assert_true(rs_now() < end);
}

static void moving(struct trace *t)
{
	const struct api *api = t->api;
	static char many[IOV_MAX + 1], buf[IOV_MAX + 1];
	static struct iovec iov[IOV_MAX + 1];
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = IOV_MAX};
	struct timeval none = {0};
	fd_set r, w, e;
	int fds[2];

	make_pair(api, fds);
	sock_fill((uint8_t *)many, sizeof(many), 3);
	for (int i = 0; i <= IOV_MAX; i++)
		iov[i] = (struct iovec){many + i, 1};
	ret(t, "recv", api->recv(fds[1], buf, 1, MSG_DONTWAIT));
	ret(t, "send 0", api->send(fds[0], buf, 0, 0));
	ret(t, "sendmsg most", api->sendmsg(fds[0], &msg, 0));
	msg.msg_iovlen++;
	ret(t, "sendmsg one more", api->sendmsg(fds[0], &msg, 0));
	ret(t, "writev most", api->writev(fds[0], iov, IOV_MAX));
	ret(t, "writev one more", api->writev(fds[0], iov, IOV_MAX + 1));
	ret(t, "writev -1", api->writev(fds[0], iov, -1));
	ret(t, "writev none", api->writev(fds[0], iov, 0));
	wait_bytes(api, fds[1], IOV_MAX);
	ret(t, "recv peek", api->recv(fds[1], buf, 10, MSG_PEEK));
	say(t, "same %d", memcmp(buf, many, 10) == 0);
	ret(t, "recv peek and all", api->recv(fds[1], buf, 10, MSG_PEEK | MSG_WAITALL));
	for (int i = 0; i <= IOV_MAX; i++)
		iov[i] = (struct iovec){buf + i, 1};
	ret(t, "readv most", api->readv(fds[1], iov, IOV_MAX));
	say(t, "same %d", memcmp(buf, many, IOV_MAX) == 0);
	ret(t, "readv one more", api->readv(fds[1], iov, IOV_MAX + 1));
	ret(t, "recvmsg one more", api->recvmsg(fds[1], &msg, 0));
	wait_bytes(api, fds[1], IOV_MAX);
	msg.msg_iovlen = IOV_MAX;
	msg.msg_flags = -1;
	ret(t, "recvmsg all", api->recvmsg(fds[1], &msg, MSG_WAITALL));
	say(t, "same %d, flags %d", memcmp(buf, many, IOV_MAX) == 0, msg.msg_flags);
	ret(t, "recv all of too little", api->recv(fds[1], buf, 5, MSG_WAITALL | MSG_DONTWAIT));
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	for (int i = 0; i < 2; i++) {
		FD_SET(fds[i], &r);
		FD_SET(fds[i], &w);
		FD_SET(fds[i], &e);
	}
	ret(t, "select", api->select(MAX(fds[0], fds[1]) + 1, &r, &w, &e, &none));
	say(t, "read %d, write %d", FD_ISSET(fds[0], &r), FD_ISSET(fds[0], &w));
	api->close(fds[0]);
	api->close(fds[1]);
}

/* ---- any sequence ---- */

struct end {
	int fd;
	bool closed, no_read, no_write;
	size_t unread; /* of what the other has sent */
};

static bool is_fully_shut(const struct end *e)
{
	return e->closed || (e->no_read && e->no_write);
}

/**
 * Known differences: once the peer has closed both directions an rsocket reports POLLHUP, while TCP
 * reports an error on the next send; and there is no POLLHUP while there is data to read.
 */
static int comparable(const struct end *me, const struct end *peer)
{
	return me->unread || is_fully_shut(peer) ? ALL & ~POLLHUP : ALL;
}

static void one_step(struct trace *t, struct end *ends, uint32_t x)
{
	const struct api *api = t->api;
	enum { MOST_UNREAD = 30000 };
	static char buf[4096];
	struct end *me = &ends[x & 1], *peer = &ends[!(x & 1)];
	const size_t len = 1 + (x >> 8) % 3000;
	ssize_t n;

	if (me->closed)
		return;
	switch ((x >> 1) % 16) {
	case 0:
		if (!peer->no_write || me->no_write)
			break; /* more would come, or TCP has dropped the connection's state */
		ret(t, "shutdown read", api->shutdown(me->fd, SHUT_RD));
		me->no_read = true;
		break;
	case 1:
		if (me->no_write && peer->no_write)
			break; /* TCP has dropped the connection's state */
		ret(t, "shutdown write", api->shutdown(me->fd, SHUT_WR));
		me->no_write = true;
		break;
	case 2:
		if (me->unread)
			break; /* TCP would reset the connection */
		ret(t, "close", api->close(me->fd));
		me->closed = me->no_read = me->no_write = true;
		break;
	case 3:
	case 4:
	case 5:
	case 6:
	case 7:
	case 8:
		if (is_fully_shut(peer) || (peer->no_read && !me->no_write) ||
		    peer->unread > MOST_UNREAD)
			break;
		n = ret(t, "send", api->send(me->fd, buf, len, MSG_DONTWAIT));
		if (n > 0) {
			peer->unread += (size_t)n;
			wait_bytes(api, peer->fd, peer->unread);
		}
		break;
	default:
		n = ret(t, "recv",
			api->recv(me->fd, buf, len, MSG_DONTWAIT | (x & 0x1000000 ? MSG_PEEK : 0)));
		if (n > 0 && !(x & 0x1000000))
			me->unread -= (size_t)n;
	}
	for (int i = 0; i < 2; i++) {
		if (ends[i].closed)
			continue;
		poll_one(t, i ? "b" : "a", ends[i].fd, x & 0x2000000 ? POLLIN : POLLIN | POLLOUT,
			 comparable(&ends[i], &ends[!i]));
	}
}

static void wander(struct trace *t, uint32_t seed)
{
	enum { STEPS = 40 };
	uint32_t x = seed * 2654435761u + 12345;
	struct end ends[2] = {0};
	int fds[2];

	make_pair(t->api, fds);
	ends[0].fd = fds[0];
	ends[1].fd = fds[1];
	for (int i = 0; i < STEPS; i++) {
		x = x * 1664525 + 1013904223;
		one_step(t, ends, x >> 4 | x << 28);
	}
	for (int i = 0; i < 2; i++)
		if (!ends[i].closed)
			t->api->close(ends[i].fd);
}

static struct trace traces[2];

static void compare(void (*run)(struct trace *, uint32_t), uint32_t seed)
{
	dev_namespace();
	traces[0].api = &tcp;
	traces[0].n = traces[1].n = 0;
	traces[1].seed = seed;
	traces[1].api = &ours;
	traces[1].before = &traces[0];
	run(&traces[0], seed);
	run(&traces[1], seed);
	assert_int_equal(traces[0].n, traces[1].n);
}

static void run_connecting(struct trace *t, uint32_t seed)
{
	(void)seed;
	connecting(t);
}

static void run_moving(struct trace *t, uint32_t seed)
{
	(void)seed;
	moving(t);
}

TEST(compare, connecting__as_tcp)
{
	compare(run_connecting, 0);
}

TEST(compare, moving_data__as_tcp)
{
	compare(run_moving, 0);
}

TEST(compare, any_sequence_of_calls__as_tcp)
{
	enum { SEEDS = 40 };

	for (uint32_t seed = 1; seed <= SEEDS; seed++)
		compare(wander, seed);
}
