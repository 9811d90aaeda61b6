/* SPDX-License-Identifier: BSD-2-Clause */
/* Arguments, options and flags, as programs give them. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/util.h"
#include "lib/test.h"
#include "sock.h"
#include "verbs/dev.h"

#define FAILS(err, call)                      \
	do {                                  \
		errno = 0;                    \
		assert_int_equal((call), -1); \
		assert_int_equal(errno, err); \
	} while (0)

TEST(rsocket, unknown_kind__refused)
{
	FAILS(EAFNOSUPPORT, rsocket(AF_UNIX, SOCK_STREAM, 0));
	FAILS(EAFNOSUPPORT, rsocket(-1, SOCK_STREAM, 0));
	FAILS(EPROTONOSUPPORT, rsocket(AF_INET, SOCK_RAW, 0));
	FAILS(EPROTONOSUPPORT, rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
	FAILS(EPROTONOSUPPORT, rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP));
}

TEST(calls, number_that_is_none__ebadf)
{
	union sock_addr a = sock_loopback(AF_INET, 1);
	socklen_t len = sizeof(a);
	struct iovec iov = {0};
	struct msghdr msg = {0};
	int n = 0;

	FAILS(EBADF, rbind(999, &a.sa, len));
	FAILS(EBADF, rlisten(999, 1));
	FAILS(EBADF, raccept(999, NULL, NULL));
	FAILS(EBADF, rconnect(999, &a.sa, len));
	FAILS(EBADF, rshutdown(999, SHUT_WR));
	FAILS(EBADF, rclose(999));
	FAILS(EBADF, rrecv(999, &n, sizeof(n), 0));
	FAILS(EBADF, rrecvfrom(999, &n, sizeof(n), 0, NULL, NULL));
	FAILS(EBADF, rrecvmsg(999, &msg, 0));
	FAILS(EBADF, rread(999, &n, sizeof(n)));
	FAILS(EBADF, rreadv(999, &iov, 1));
	FAILS(EBADF, rsend(999, &n, sizeof(n), 0));
	FAILS(EBADF, rsendto(999, &n, sizeof(n), 0, &a.sa, len));
	FAILS(EBADF, rsendmsg(999, &msg, 0));
	FAILS(EBADF, rwrite(999, &n, sizeof(n)));
	FAILS(EBADF, rwritev(999, &iov, 1));
	FAILS(EBADF, rgetpeername(999, &a.sa, &len));
	FAILS(EBADF, rgetsockname(999, &a.sa, &len));
	FAILS(EBADF, rsetsockopt(999, SOL_SOCKET, SO_REUSEADDR, &n, sizeof(n)));
	FAILS(EBADF, rgetsockopt(999, SOL_SOCKET, SO_REUSEADDR, &n, &len));
	FAILS(EBADF, rfcntl(999, F_GETFL));
	FAILS(EBADF, riomap(999, &n, sizeof(n), PROT_WRITE, 0, -1));
	FAILS(EBADF, riounmap(999, &n, sizeof(n)));
	FAILS(EBADF, (ssize_t)riowrite(999, &n, sizeof(n), 0, 0));
}

TEST(stream, not_connected__says_so)
{
	union sock_addr a;
	int fd = sock_bound(AF_INET, SOCK_STREAM, &a), n = 0;
	socklen_t len = sizeof(a);

	FAILS(ENOTCONN, rrecv(fd, &n, sizeof(n), 0));
	FAILS(ENOTCONN, rsend(fd, &n, sizeof(n), 0));
	FAILS(ENOTCONN, rgetpeername(fd, &a.sa, &len));
	FAILS(ENOTCONN, rshutdown(fd, SHUT_WR));
	FAILS(EINVAL, rshutdown(fd, 7));
	FAILS(EINVAL, raccept(fd, NULL, NULL));
	FAILS(EOPNOTSUPP, rrecv(fd, &n, sizeof(n), MSG_OOB));
	FAILS(EOPNOTSUPP, rsend(fd, &n, sizeof(n), MSG_OOB));
	FAILS(EINVAL, rreadv(fd, NULL, -1));
	FAILS(EINVAL, rwritev(fd, NULL, -1));
	assert_int_equal(rclose(fd), 0);
	FAILS(EBADF, rclose(fd));
}

TEST(addresses, wrong_family_or_length__refused)
{
	union sock_addr four = sock_loopback(AF_INET, 1), six = sock_loopback(AF_INET6, 1), at;
	int fd = sock_bound(AF_INET, SOCK_STREAM, &at);

	FAILS(EAFNOSUPPORT, rconnect(fd, &six.sa, sizeof(six.in6)));
	FAILS(EINVAL, rconnect(fd, &four.sa, sizeof(four.in) - 1));
	FAILS(EINVAL, rconnect(fd, &four.sa, 0));
	FAILS(EFAULT, rconnect(fd, NULL, sizeof(four.in)));
	assert_int_equal(rclose(fd), 0);
}

TEST(rgetsockname, short_buffer__cut_and_told)
{
	union sock_addr at, got;
	int fd = sock_bound(AF_INET6, SOCK_STREAM, &at);
	socklen_t len = 4;

	memset(&got, 0xee, sizeof(got));
	assert_int_equal(rgetsockname(fd, &got.sa, &len), 0);
	assert_int_equal(len, sizeof(struct sockaddr_in6));
	assert_memory_equal(&got, &at, 4);
	assert_int_equal(((uint8_t *)&got)[4], 0xee);
	len = 0;
	assert_int_equal(rgetsockname(fd, NULL, &len), 0);
	assert_int_equal(len, sizeof(struct sockaddr_in6));
	assert_int_equal(rclose(fd), 0);
}

static int get(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int n = -1;

	if (rgetsockopt(fd, level, name, &n, &len))
		return -errno;
	assert_int_equal(len, sizeof(int));
	return n;
}

static int set(int fd, int level, int name, int n)
{
	return rsetsockopt(fd, level, name, &n, sizeof(n)) ? -errno : 0;
}

TEST(option, flags__kept)
{
	static const struct {
		int level, name;
	} flags[] = {{SOL_SOCKET, SO_REUSEADDR},
		     {SOL_SOCKET, SO_KEEPALIVE},
		     {SOL_SOCKET, SO_OOBINLINE},
		     {IPPROTO_TCP, TCP_NODELAY},
		     {IPPROTO_IPV6, IPV6_V6ONLY}};
	int fd;

	dev_namespace();
	fd = rsocket(AF_INET6, SOCK_STREAM, 0);
	assert_true(fd >= 0);
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		assert_int_equal(get(fd, flags[i].level, flags[i].name), 0);
		assert_int_equal(set(fd, flags[i].level, flags[i].name, 7), 0);
		assert_int_equal(get(fd, flags[i].level, flags[i].name), 1);
		assert_int_equal(rsetsockopt(fd, flags[i].level, flags[i].name, "", 1), -1);
		assert_int_equal(errno, EINVAL);
	}
	assert_int_equal(rclose(fd), 0);
}

TEST(option, sizes__kept_within_bounds)
{
	int fd;

	dev_namespace();
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(set(fd, SOL_SOCKET, SO_RCVBUF, 1 << 20), 0);
	assert_int_equal(get(fd, SOL_SOCKET, SO_RCVBUF), 1 << 20);
	assert_int_equal(set(fd, SOL_SOCKET, SO_SNDBUF, 1), 0);
	assert_int_equal(get(fd, SOL_SOCKET, SO_SNDBUF), 4096);
	assert_int_equal(set(fd, SOL_RDMA, RDMA_SQSIZE, 64), 0);
	assert_int_equal(get(fd, SOL_RDMA, RDMA_SQSIZE), 64);
	assert_int_equal(set(fd, SOL_RDMA, RDMA_RQSIZE, 1 << 30), 0);
	assert_int_equal(get(fd, SOL_RDMA, RDMA_RQSIZE), 8192);
	assert_int_equal(set(fd, SOL_RDMA, RDMA_INLINE, 0), 0);
	assert_int_equal(get(fd, SOL_RDMA, RDMA_INLINE), 0);
	assert_int_equal(set(fd, SOL_RDMA, RDMA_IOMAPSIZE, 1000), 0);
	assert_int_equal(get(fd, SOL_RDMA, RDMA_IOMAPSIZE), 127);
	assert_int_equal(set(fd, SOL_RDMA, RDMA_SQSIZE, -1), -EINVAL);
	assert_int_equal(set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30), 0);
	assert_int_equal(get(fd, IPPROTO_TCP, TCP_KEEPIDLE), 30);
	assert_int_equal(set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 0), -EINVAL);
	assert_true(get(fd, IPPROTO_TCP, TCP_MAXSEG) > 0);
	assert_int_equal(rclose(fd), 0);
}

TEST(option, linger_type_and_error__as_sockets_have_them)
{
	struct linger l = {.l_onoff = 1, .l_linger = 5}, got = {0};
	socklen_t len = sizeof(got);
	int fd;

	dev_namespace();
	fd = rsocket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
	assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &len), 0);
	assert_memory_equal(&l, &got, sizeof(l));
	assert_int_equal(get(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	assert_int_equal(get(fd, SOL_SOCKET, SO_DOMAIN), AF_INET);
	assert_int_equal(get(fd, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
	assert_int_equal(get(fd, SOL_SOCKET, SO_ERROR), 0);
	assert_int_equal(set(fd, SOL_SOCKET, SO_ERROR, 0), -ENOPROTOOPT);
	assert_int_equal(rclose(fd), 0);
}

TEST(option, unknown__enoprotoopt)
{
	int stream, dgram;

	dev_namespace();
	stream = rsocket(AF_INET, SOCK_STREAM, 0);
	dgram = rsocket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(set(stream, SOL_SOCKET, SO_BROADCAST, 1), -ENOPROTOOPT);
	assert_int_equal(get(stream, SOL_SOCKET, SO_BROADCAST), -ENOPROTOOPT);
	assert_int_equal(set(stream, SOL_RDMA, 99, 1), -ENOPROTOOPT);
	assert_int_equal(set(stream, 12345, 1, 1), -ENOPROTOOPT);
	assert_int_equal(set(stream, IPPROTO_IPV6, IPV6_V6ONLY, 1), -ENOPROTOOPT);
	assert_int_equal(set(dgram, IPPROTO_TCP, TCP_NODELAY, 1), -ENOPROTOOPT);
	assert_int_equal(rclose(stream), 0);
	assert_int_equal(rclose(dgram), 0);
}

TEST(option, connected__sizes_are_settled)
{
	int fds[2];

	sock_pair(AF_INET, fds);
	assert_int_equal(set(fds[0], SOL_RDMA, RDMA_SQSIZE, 16), -EINVAL);
	assert_int_equal(set(fds[0], SOL_SOCKET, SO_SNDBUF, 1 << 20), 0);
	assert_int_equal(get(fds[0], SOL_SOCKET, SO_SNDBUF), 128 << 10);
	assert_int_equal(rclose(fds[0]), 0);
	assert_int_equal(rclose(fds[1]), 0);
}

TEST(rfcntl, flags__kept)
{
	int fd, other, n;

	dev_namespace();
	fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(rfcntl(fd, F_GETFL), O_RDWR);
	assert_int_equal(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rfcntl(fd, F_GETFL), O_RDWR | O_NONBLOCK);
	FAILS(EAGAIN, rrecv(fd, &n, sizeof(n), 0));
	assert_int_equal(rfcntl(fd, F_SETFD, 0), 0);
	assert_int_equal(rfcntl(fd, F_GETFD), 0);
	FAILS(EINVAL, rfcntl(fd, F_DUPFD, 0));
	other = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(rfcntl(other, F_GETFL), O_RDWR | O_NONBLOCK);
	assert_int_equal(rclose(fd), 0);
	assert_int_equal(rclose(other), 0);
}
