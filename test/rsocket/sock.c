/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock.h"

#include <errno.h>
#include <string.h>

#include "lib/test.h"
#include "verbs/dev.h"

socklen_t sock_len(const union sock_addr *a)
{
	return a->sa.sa_family == AF_INET6 ? sizeof(a->in6) : sizeof(a->in);
}

union sock_addr sock_loopback(int domain, uint16_t port)
{
	union sock_addr a;

	memset(&a, 0, sizeof(a));
	if (domain == AF_INET6) {
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons(port);
		a.in6.sin6_addr = in6addr_loopback;
	} else {
		a.in.sin_family = AF_INET;
		a.in.sin_port = htons(port);
		a.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	}
	return a;
}

int sock_bound(int domain, int type, union sock_addr *at)
{
	socklen_t len = sizeof(*at);
	int fd;

	dev_namespace();
	fd = rsocket(domain, type, 0);
	assert_true(fd >= 0);
	*at = sock_loopback(domain, 0);
	assert_int_equal(rbind(fd, &at->sa, sock_len(at)), 0);
	assert_int_equal(rgetsockname(fd, &at->sa, &len), 0);
	assert_int_equal(len, sock_len(at));
	return fd;
}

struct connecting {
	int fd, ret;
	union sock_addr to;
};

static void *run_connect(void *arg)
{
	struct connecting *c = arg;

	c->ret = rconnect(c->fd, &c->to.sa, sock_len(&c->to));
	return NULL;
}

void sock_pair(int domain, int fds[2])
{
	struct connecting c;
	int listener = sock_bound(domain, SOCK_STREAM, &c.to);
	pthread_t t;

	assert_int_equal(rlisten(listener, 1), 0);
	c.fd = rsocket(domain, SOCK_STREAM, 0);
	assert_true(c.fd >= 0);
	t = sock_thread(run_connect, &c);
	fds[1] = raccept(listener, NULL, NULL);
	sock_join(t);
	assert_int_equal(c.ret, 0);
	assert_true(fds[1] >= 0);
	fds[0] = c.fd;
	assert_int_equal(rclose(listener), 0);
}

short sock_wait(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	assert_int_equal(rpoll(&p, 1, SOCK_GUARD_MS), 1);
	return p.revents;
}

void sock_send_all(int fd, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	while (len > 0) {
		ssize_t n = rsend(fd, p, len, 0);

		assert_true(n > 0);
		p += n;
		len -= (size_t)n;
	}
}

size_t sock_recv_all(int fd, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = rrecv(fd, (uint8_t *)buf + done, len - done, 0);

		assert_true(n >= 0);
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return done;
}

void sock_fill(uint8_t *buf, size_t len, uint32_t seed)
{
	uint32_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < len; i++) {
		x = x * 1664525 + 1013904223;
		buf[i] = (uint8_t)(x >> 24);
	}
}

pthread_t sock_thread(void *(*run)(void *), void *arg)
{
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, run, arg), 0);
	return t;
}

void sock_join(pthread_t t)
{
	assert_int_equal(pthread_join(t, NULL), 0);
}
