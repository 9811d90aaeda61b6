/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagram sockets: life, sending and receiving, readiness. */
#include "rsocket/dgram.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/syssocket.h"

/*
 * A peer may have restarted with another QP: a silent peer gets a request for its QP from time to
 * time.
 */
#define REQUEST_AGAIN_NS 1000000000ull

enum {
	/*
	 * A check of the UDP socket costs a system call, so callers that find data on UD check it
	 * only sometimes.
	 */
	UDP_EVERY = 16,
	DRAIN_MS = 100,
};

/* ---- progress and readiness ---- */

static void progress(struct dgram *d)
{
	list_for_each (it, &d->qps)
		dgram_qp_progress(d, list_entry(it, struct dgram_qp, node));
	if (list_empty(&d->inbox) || ++d->idle >= UDP_EVERY)
		dgram_udp_progress(d);
}

/** The next message's destination is not known, so all QPs need room. */
static bool can_send(const struct dgram *d)
{
	list_for_each (it, &d->qps)
		if (list_entry(it, struct dgram_qp, node)->free_count == 0)
			return false;
	return true;
}

static short dgram_ready(struct rs *rs, short events)
{
	struct dgram *d = dgram_of(rs);
	short r = 0;

	progress(d);
	if (!list_empty(&d->inbox) || d->no_recv)
		r |= POLLIN;
	if (can_send(d) || d->no_send)
		r |= POLLOUT;
	r &= events;
	if (rs->error)
		r |= POLLERR;
	if (d->no_recv && d->no_send)
		r |= POLLHUP;
	return r;
}

static unsigned dgram_arm(struct rs *rs, short events, struct pollfd *fds)
{
	struct dgram *d = dgram_of(rs);

	(void)events;
	list_for_each (it, &d->qps)
		ibv_req_notify_cq(list_entry(it, struct dgram_qp, node)->cq, 0);
	fds[0] = (struct pollfd){.fd = d->epoll, .events = POLLIN};
	return 1;
}

static void dgram_woken(struct rs *rs)
{
	enum { ACK_AT = 256 };
	struct dgram *d = dgram_of(rs);
	struct ibv_cq *cq;
	void *context;

	list_for_each (it, &d->qps) {
		struct dgram_qp *qp = list_entry(it, struct dgram_qp, node);

		while (ibv_get_cq_event(qp->comp, &cq, &context) == 0)
			qp->unacked++;
		if (qp->unacked >= ACK_AT) {
			ibv_ack_cq_events(qp->cq, qp->unacked);
			qp->unacked = 0;
		}
	}
	/* Level-triggered: data left in the UDP socket would wake the thread again at once. */
	dgram_udp_progress(d);
}

/* ---- addresses ---- */

static int dgram_bind(struct rs *rs, const struct sockaddr *addr, socklen_t len)
{
	const int on = rs->reuseaddr;

	if (setsockopt(rs->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	return bind(rs->fd, addr, len) < 0 ? -errno : 0;
}

/** Datagrams that came from other peers before are still read, as with UDP. */
static int dgram_connect(struct rs *rs, const struct sockaddr *addr, socklen_t len)
{
	const struct sockaddr unspec = {.sa_family = AF_UNSPEC};
	struct dgram *d = dgram_of(rs);
	int ret;

	(void)len; /* it was checked */
	if (addr->sa_family == AF_UNSPEC) {
		d->connected = false;
		return connect(rs->fd, &unspec, sizeof(unspec)) < 0 ? -errno : 0;
	}
	dgram_addr_set(&d->peer, addr);
	ret = dgram_udp_connect(d, &d->peer);
	d->connected = ret == 0;
	return ret;
}

static int dgram_getname(struct rs *rs, bool peer, struct sockaddr_storage *addr, socklen_t *len)
{
	const struct dgram *d = dgram_of(rs);

	if (peer && !d->connected)
		return -ENOTCONN;
	if (peer) {
		*len = dgram_addr_len(&d->peer);
		memcpy(addr, &d->peer, *len);
		return 0;
	}
	*len = sizeof(*addr);
	return getsockname(rs->fd, (struct sockaddr *)addr, len) < 0 ? -errno : 0;
}

static int dgram_shutdown(struct rs *rs, int how)
{
	struct dgram *d = dgram_of(rs);

	if (!d->connected)
		return -ENOTCONN;
	d->no_recv |= how != SHUT_WR;
	d->no_send |= how != SHUT_RD;
	return 0;
}

/* ---- receiving ---- */

static void msg_done(struct dgram *d, struct dgram_msg *msg)
{
	list_remove(&msg->node);
	if (msg->qp) {
		dgram_qp_repost(msg->qp, msg);
		return;
	}
	d->inbox_udp -= msg->len + sizeof(*msg);
	free(msg);
}

static ssize_t take(struct dgram *d, const struct iovec *iov, int n, int flags,
		    struct sockaddr_storage *from, socklen_t *from_len)
{
	struct dgram_msg *msg = list_entry(list_first(&d->inbox), struct dgram_msg, node);
	const size_t len = msg->len;
	size_t done = 0;

	for (int i = 0; i < n && done < len; i++) {
		const size_t piece = MIN(iov[i].iov_len, len - done);

		if (piece)
			memcpy(iov[i].iov_base, msg->data + done, piece);
		done += piece;
	}
	if (from) {
		*from_len = dgram_addr_len(&msg->from);
		memcpy(from, &msg->from, *from_len);
	}
	if (!(flags & MSG_PEEK))
		msg_done(d, msg);
	return (ssize_t)(flags & MSG_TRUNC ? len : done);
}

static ssize_t dgram_recv(struct rs *rs, const struct iovec *iov, int n, int flags,
			  struct sockaddr_storage *from, socklen_t *from_len)
{
	struct dgram *d = dgram_of(rs);
	int ret = 0;

	for (;;) {
		progress(d);
		if (!list_empty(&d->inbox))
			return take(d, iov, n, flags, from, from_len);
		if (rs->error) {
			ret = -rs->error;
			rs->error = 0;
			return ret;
		}
		if (d->no_recv)
			return 0;
		ret = rs_wait(rs, POLLIN, flags, -1);
		if (ret < 0)
			return ret;
	}
}

/* ---- sending ---- */

static bool goes_over_udp(const struct dgram_peer *peer, size_t len)
{
	return !peer->ah || len > dgram_qp_room(peer->qp) ||
	       rs_now() - peer->requested_at > REQUEST_AGAIN_NS;
}

static ssize_t dgram_send(struct rs *rs, const struct iovec *iov, int n, int flags,
			  const struct sockaddr *to, socklen_t to_len)
{
	struct dgram *d = dgram_of(rs);
	struct dgram_peer *peer;
	union dgram_addr addr;
	size_t len = 0;
	int ret;

	(void)to_len; /* it was checked */
	if (!to && !d->connected)
		return -EDESTADDRREQ;
	if (d->no_send)
		return -EPIPE;
	if (to)
		dgram_addr_set(&addr, to);
	else
		addr = d->peer;
	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	progress(d);
	for (;;) {
		/* Look it up again after a wait: it may have been removed meanwhile. */
		ret = dgram_peer_get(d, &addr, &peer);
		if (ret < 0)
			return ret;
		if (goes_over_udp(peer, len))
			return dgram_udp_send(d, peer, iov, n, len, flags);
		if (peer->qp->free_count > 0)
			return dgram_qp_send(peer->qp, peer, iov, n, len);
		ret = rs_wait(rs, POLLOUT, flags, -1);
		if (ret < 0)
			return ret;
	}
}

/* ---- life ---- */

/** Posted messages leave before the QP is destroyed. */
static void drain(struct dgram *d)
{
	const uint64_t end = rs_now() + DRAIN_MS * 1000000ull;
	bool busy = true;

	while (busy && rs_now() < end) {
		busy = false;
		list_for_each (it, &d->qps) {
			struct dgram_qp *qp = list_entry(it, struct dgram_qp, node);

			dgram_qp_progress(d, qp);
			busy |= qp->free_count < qp->send_count;
		}
	}
}

static void dgram_close(struct rs *rs)
{
	struct dgram *d = dgram_of(rs);

	drain(d);
	while (!list_empty(&d->inbox)) {
		struct dgram_msg *msg = list_entry(list_first(&d->inbox), struct dgram_msg, node);

		list_remove(&msg->node);
		if (!msg->qp)
			free(msg);
	}
	dgram_peers_free(d);
	while (!list_empty(&d->qps))
		dgram_qp_free(list_entry(list_first(&d->qps), struct dgram_qp, node));
	close(d->epoll);
	close(rs->fd);
	mutex_unlock(&rs->lock);
	rs_fini(rs);
	free(d->udp_buf);
	free(d);
}

static const struct rs_ops dgram_ops = {
	.bind = dgram_bind,
	.connect = dgram_connect,
	.shutdown = dgram_shutdown,
	.close = dgram_close,
	.recv = dgram_recv,
	.send = dgram_send,
	.ready = dgram_ready,
	.arm = dgram_arm,
	.woken = dgram_woken,
	.getname = dgram_getname,
};

static int open_sockets(struct dgram *d, int domain)
{
	struct epoll_event ev = {.events = EPOLLIN};
	const int on = 1;
	int ret = 0;

	d->rs.fd = sys_socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (d->rs.fd < 0 || d->epoll < 0 || epoll_ctl(d->epoll, EPOLL_CTL_ADD, d->rs.fd, &ev) < 0)
		return -errno;
	if (domain == AF_INET6) {
		/* The headers have one kind of address or the other. */
		ret |= setsockopt(d->rs.fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
		ret |= setsockopt(d->rs.fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
	} else {
		ret |= setsockopt(d->rs.fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	}
	return ret < 0 ? -errno : 0;
}

int rs_dgram_new(int domain, struct rs **out)
{
	struct dgram *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return -ENOMEM;
	rs_init(&d->rs, &dgram_ops, domain, SOCK_DGRAM);
	d->epoll = -1;
	list_init(&d->qps);
	list_init(&d->peers);
	list_init(&d->inbox);
	if (getrandom(d->prf.key, sizeof(d->prf.key), GRND_NONBLOCK) < 0)
		d->prf.key[0] = rs_now();
	d->udp_buf = malloc(DGRAM_UDP_MAX);
	ret = d->udp_buf ? open_sockets(d, domain) : -ENOMEM;
	if (ret < 0) {
		if (d->epoll >= 0)
			close(d->epoll);
		if (d->rs.fd >= 0)
			close(d->rs.fd);
		rs_fini(&d->rs);
		free(d->udp_buf);
		free(d);
		return ret;
	}
	*out = &d->rs;
	return 0;
}
