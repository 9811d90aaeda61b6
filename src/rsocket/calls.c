/* SPDX-License-Identifier: BSD-2-Clause */
/* The exported calls: arguments are checked here, and each kind of socket implements them. */
#include <limits.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <string.h>

#include "base/why.h"
#include "rsocket/rs.h"

/* ---- making and ending ---- */

static int check_kind(int domain, int type, int protocol)
{
	const int stream_or_datagram = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;

	if (domain != AF_INET && domain != AF_INET6 && (domain != AF_IB || type != SOCK_STREAM))
		return -EAFNOSUPPORT;
	if (type != SOCK_STREAM && type != SOCK_DGRAM)
		return -EPROTONOSUPPORT;
	return protocol == 0 || protocol == stream_or_datagram ? 0 : -EPROTONOSUPPORT;
}

/** Publish a new socket, or free it if that fails. @return its number, or -errno. */
static int publish(struct rs *rs)
{
	const int fd = rs->fd, ret = rs_add(rs);

	if (ret == 0)
		return fd;
	mutex_lock(&rs->lock);
	rs->sleep.closing = true;
	mutex_unlock(&rs->lock);
	rs_keepalive_stop(rs);
	mutex_lock(&rs->lock);
	rs->ops->close(rs);
	return ret;
}

static int new_socket(int domain, int type, int protocol)
{
	const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct rs *rs;
	int ret = check_kind(domain, kind, protocol);

	if (ret == 0)
		ret = kind == SOCK_STREAM ? rs_stream_new(domain, &rs) : rs_dgram_new(domain, &rs);
	if (ret < 0)
		return ret;
	rs->nonblock = type & SOCK_NONBLOCK;
	return publish(rs);
}

int rsocket(int domain, int type, int protocol)
{
	return (int)rs_ret(new_socket(domain, type, protocol));
}

int rclose(int socket)
{
	UNCANCELLED;
	struct rs *rs;

	if (rs_close_orphan(socket))
		return 0;
	rs = rs_get(socket);
	if (!rs)
		return -1;
	rs_remove(rs);
	rs->ops->close(rs);
	return 0;
}

int rshutdown(int socket, int how)
{
	struct rs *rs = rs_get(socket);
	int ret;

	if (!rs)
		return -1;
	if (how == SHUT_RD || how == SHUT_WR || how == SHUT_RDWR)
		ret = rs->ops->shutdown(rs, how);
	else
		ret = REFUSE(
			-EINVAL, (unsigned)socket,
			"rshutdown: how is %d: it must be SHUT_RD, SHUT_WR or SHUT_RDWR: pass one",
			how);
	rs_wake(rs);
	rs_put(rs);
	return (int)rs_ret(ret);
}

/* ---- addresses ---- */

/** Is it a complete address of the socket's family? */
static int check_addr(const struct rs *rs, const struct sockaddr *addr, socklen_t len)
{
	if (!addr)
		return -EFAULT;
	if (len >= sizeof(addr->sa_family) && addr->sa_family != rs->domain)
		return -EAFNOSUPPORT;
	if (len < rs_addr_len(rs->domain))
		return REFUSE(-EINVAL, (unsigned)rs->fd,
			      "rsocket %d: an address has %u bytes: its family needs %u: pass the "
			      "whole address",
			      rs->fd, (unsigned)len, (unsigned)rs_addr_len(rs->domain));
	return 0;
}

/** As the kernel does: copy what fits, and return the real length. */
static void give_addr(const struct sockaddr_storage *from, socklen_t from_len,
		      struct sockaddr *addr, socklen_t *len)
{
	if (!len)
		return;
	if (addr && from_len)
		memcpy(addr, from, MIN(*len, from_len));
	*len = from_len;
}

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rs *rs = rs_get(socket);
	int ret;

	if (!rs)
		return -1;
	ret = check_addr(rs, addr, addrlen);
	if (ret == 0)
		ret = rs->ops->bind(rs, addr, addrlen);
	rs_put(rs);
	return (int)rs_ret(ret);
}

int rlisten(int socket, int backlog)
{
	struct rs *rs = rs_get(socket);
	int ret;

	if (!rs)
		return -1;
	if (rs->ops->listen)
		ret = rs->ops->listen(rs, backlog);
	else
		ret = REFUSE(-EOPNOTSUPP, (unsigned)socket,
			     "rlisten: rsocket %d is a datagram socket: only streams listen: use "
			     "SOCK_STREAM",
			     socket);
	rs_put(rs);
	return (int)rs_ret(ret);
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rs *rs = rs_get(socket), *conn;
	struct sockaddr_storage peer;
	socklen_t len = 0;
	int ret;

	if (!rs)
		return -1;
	if (rs->ops->accept)
		ret = rs->ops->accept(rs, &conn);
	else
		ret = REFUSE(-EOPNOTSUPP, (unsigned)socket,
			     "raccept: rsocket %d is a datagram socket: only streams accept: use "
			     "SOCK_STREAM",
			     socket);
	rs_put(rs);
	if (ret < 0)
		return (int)rs_ret(ret);
	if (addr && addrlen && conn->ops->getname(conn, true, &peer, &len) == 0)
		give_addr(&peer, len, addr, addrlen);
	return (int)rs_ret(publish(conn));
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rs *rs = rs_get(socket);
	int ret;

	if (!rs)
		return -1;
	/* A datagram socket is disconnected by an address of AF_UNSPEC. */
	if (addr && rs->type == SOCK_DGRAM && addrlen >= sizeof(addr->sa_family) &&
	    addr->sa_family == AF_UNSPEC)
		ret = 0;
	else
		ret = check_addr(rs, addr, addrlen);
	if (ret == 0)
		ret = rs->ops->connect(rs, addr, addrlen);
	rs_put(rs);
	return (int)rs_ret(ret);
}

static int get_name(int socket, bool peer, struct sockaddr *addr, socklen_t *addrlen)
{
	struct sockaddr_storage name;
	struct rs *rs = rs_get(socket);
	socklen_t len = 0;
	int ret;

	if (!rs)
		return -1;
	ret = addrlen ? rs->ops->getname(rs, peer, &name, &len) : -EFAULT;
	rs_put(rs);
	if (ret == 0)
		give_addr(&name, len, addr, addrlen);
	return (int)rs_ret(ret);
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return get_name(socket, true, addr, addrlen);
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return get_name(socket, false, addr, addrlen);
}

/* ---- receiving; unknown flags are ignored, as by the kernel ---- */

static ssize_t receive(int socket, const struct iovec *iov, size_t n, int flags,
		       struct sockaddr_storage *from, socklen_t *from_len)
{
	struct rs *rs;
	ssize_t ret;

	if (n > IOV_MAX)
		return -EMSGSIZE;
	if (flags & (MSG_OOB | MSG_ERRQUEUE))
		return REFUSE(-EOPNOTSUPP, (unsigned)socket,
			      "rrecv: flags are 0x%x: rsockets have no urgent data and no error "
			      "queue: remove MSG_OOB and MSG_ERRQUEUE",
			      (unsigned)flags);
	rs = rs_get(socket);
	if (!rs)
		return -errno;
	ret = rs->ops->recv(rs, iov, (int)n, flags, from, from_len);
	rs_put(rs);
	return ret;
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen)
{
	const struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct sockaddr_storage from;
	socklen_t from_len = 0;
	ssize_t ret = receive(socket, &iov, 1, flags, &from, &from_len);

	if (ret >= 0 && src_addr)
		give_addr(&from, from_len, src_addr, addrlen);
	return rs_ret(ret);
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	return rrecvfrom(socket, buf, len, flags, NULL, NULL);
}

ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecvfrom(socket, buf, count, 0, NULL, NULL);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	struct sockaddr_storage from;
	socklen_t from_len;

	if (iovcnt < 0 || iovcnt > IOV_MAX)
		return rs_ret(
			REFUSE(-EINVAL, (unsigned)socket,
			       "rreadv: iovcnt is %d: it must be 0 to %d: read in several calls",
			       iovcnt, IOV_MAX));
	return rs_ret(receive(socket, iov, (size_t)iovcnt, 0, &from, &from_len));
}

static size_t total(const struct iovec *iov, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	struct sockaddr_storage from;
	socklen_t from_len = 0;
	size_t room;
	ssize_t ret;

	/* With MSG_TRUNC a datagram's whole length is returned; a stream ignores the flag. */
	ret = receive(socket, msg->msg_iov, msg->msg_iovlen, flags | MSG_TRUNC, &from, &from_len);
	if (ret < 0)
		return rs_ret(ret);
	msg->msg_flags = 0;
	msg->msg_controllen = 0;
	if (msg->msg_name)
		give_addr(&from, from_len, msg->msg_name, &msg->msg_namelen);
	room = total(msg->msg_iov, msg->msg_iovlen);
	if ((size_t)ret <= room)
		return ret;
	msg->msg_flags |= MSG_TRUNC;
	return flags & MSG_TRUNC ? ret : (ssize_t)room;
}

/* ---- sending ---- */

static ssize_t transmit(int socket, const struct iovec *iov, size_t n, int flags,
			const struct sockaddr *to, socklen_t to_len)
{
	struct rs *rs;
	ssize_t ret = 0;

	if (n > IOV_MAX)
		return -EMSGSIZE;
	if (flags & MSG_OOB)
		return REFUSE(-EOPNOTSUPP, (unsigned)socket,
			      "rsend: flags are 0x%x: rsockets have no urgent data: remove MSG_OOB",
			      (unsigned)flags);
	rs = rs_get(socket);
	if (!rs)
		return -errno;
	if (to && rs->type == SOCK_DGRAM)
		ret = check_addr(rs, to, to_len);
	if (ret == 0)
		ret = rs->ops->send(rs, iov, (int)n, flags, to, to_len);
	rs_put(rs);
	return ret;
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen)
{
	const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return rs_ret(transmit(socket, &iov, 1, flags, dest_addr, addrlen));
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	return rsendto(socket, buf, len, flags, NULL, 0);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsendto(socket, buf, count, 0, NULL, 0);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	if (iovcnt < 0 || iovcnt > IOV_MAX)
		return rs_ret(
			REFUSE(-EINVAL, (unsigned)socket,
			       "rwritev: iovcnt is %d: it must be 0 to %d: write in several calls",
			       iovcnt, IOV_MAX));
	return rs_ret(transmit(socket, iov, (size_t)iovcnt, 0, NULL, 0));
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	/* Ancillary data is not supported. */
	if (msg->msg_control && msg->msg_controllen)
		return rs_ret(REFUSE(-EOPNOTSUPP, (unsigned)socket,
				     "rsendmsg: msg_controllen is %zu: rsockets have no ancillary "
				     "data: set it to 0",
				     msg->msg_controllen));
	return rs_ret(transmit(socket, msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name,
			       msg->msg_namelen));
}

/* ---- flags ---- */

int rfcntl(int socket, int cmd, ...)
{
	struct rs *rs;
	va_list args;
	int arg, ret;

	va_start(args, cmd);
	arg = va_arg(args, int);
	va_end(args);
	rs = rs_get(socket);
	if (!rs)
		return -1;
	switch (cmd) {
	case F_GETFL:
		ret = O_RDWR | (rs->nonblock ? O_NONBLOCK : 0);
		break;
	case F_SETFL:
		rs->nonblock = arg & O_NONBLOCK;
		ret = 0;
		break;
	case F_GETFD:
		ret = fcntl(rs->fd, F_GETFD);
		ret = ret < 0 ? -errno : ret;
		break;
	case F_SETFD:
		ret = fcntl(rs->fd, F_SETFD, arg) < 0 ? -errno : 0;
		break;
	default:
		ret = REFUSE(-EINVAL, (unsigned)socket,
			     "rfcntl: cmd is %d: valid are F_GETFL, F_SETFL, F_GETFD and F_SETFD: "
			     "use these",
			     cmd);
	}
	rs_put(rs);
	return (int)rs_ret(ret);
}

/* ---- mapped memory ---- */

static int datagrams_have_no(const char *call, int socket)
{
	return REFUSE(-EOPNOTSUPP, (unsigned)socket,
		      "%s: rsocket %d is a datagram socket: only streams have mapped memory: use "
		      "SOCK_STREAM",
		      call, socket);
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rs *rs;
	int64_t ret;

	if (len == 0 || (prot & ~(PROT_READ | PROT_WRITE)) || flags)
		return (off_t)rs_ret(
			REFUSE(-EINVAL, (unsigned)socket,
			       "riomap: len is %zu, prot 0x%x, flags 0x%x: len must not be 0, prot "
			       "only PROT_READ and PROT_WRITE, flags 0: change them",
			       len, (unsigned)prot, (unsigned)flags));
	rs = rs_get(socket);
	if (!rs)
		return -1;
	if (rs->type == SOCK_STREAM)
		ret = rs_iomap(rs, buf, len, prot, offset);
	else
		ret = datagrams_have_no("riomap", socket);
	rs_put(rs);
	return (off_t)rs_ret(ret);
}

int riounmap(int socket, void *buf, size_t len)
{
	struct rs *rs = rs_get(socket);
	int ret;

	if (!rs)
		return -1;
	if (rs->type == SOCK_STREAM)
		ret = rs_iounmap(rs, buf, len);
	else
		ret = datagrams_have_no("riounmap", socket);
	rs_put(rs);
	return (int)rs_ret(ret);
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	struct rs *rs = rs_get(socket);
	ssize_t ret;

	if (!rs)
		return (size_t)-1;
	if (flags & MSG_OOB)
		ret = REFUSE(
			-EOPNOTSUPP, (unsigned)socket,
			"riowrite: flags are 0x%x: rsockets have no urgent data: remove MSG_OOB",
			(unsigned)flags);
	else if (rs->type == SOCK_STREAM)
		ret = rs_iowrite(rs, buf, count, offset, flags);
	else
		ret = datagrams_have_no("riowrite", socket);
	rs_put(rs);
	return (size_t)rs_ret(ret);
}
