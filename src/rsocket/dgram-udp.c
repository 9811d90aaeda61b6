/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP side of a datagram socket, for peers whose QPs are not known yet. A datagram begins with
 *
 *	0 tag 0x55555555    4 IP version  5 operation  6 length of this header  7 reserved
 *	8 the sender's QPN  12 the sender's IPv4 or IPv6 address
 *
 * An operation is "data", which user data follows, or "control", the answer to it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "rsocket/dgram.h"

enum {
	TAG = 0,
	VERSION = 4,
	OP = 5,
	LENGTH = 6,
	QPN = 8,
	ADDR = 12,
	HEADER4 = 16,
	HEADER6 = 28,
	OP_DATA = 0,
	OP_CTRL = 7,
	UDP_TAG = 0x55555555,
	QPN_MASK = 0xffffff,
	MOST_IOV = 16,
	RESOLVE_MS = 200, /* a sender waits for it when there is no answer */
};

/* ---- addresses ---- */

bool dgram_addr_equal(const union dgram_addr *a, const union dgram_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family || dgram_port(a) != dgram_port(b))
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0 &&
	       a->in6.sin6_scope_id == b->in6.sin6_scope_id;
}

void dgram_addr_set(union dgram_addr *a, const struct sockaddr *from)
{
	memset(a, 0, sizeof(*a));
	memcpy(a, from, from->sa_family == AF_INET6 ? sizeof(a->in6) : sizeof(a->in));
	/* Only a link-local address needs it. */
	if (a->sa.sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&a->in6.sin6_addr))
		a->in6.sin6_scope_id = 0;
}

static bool is_any(const union dgram_addr *a)
{
	return a->sa.sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr)
					   : a->in.sin_addr.s_addr == htonl(INADDR_ANY);
}

int dgram_udp_autobind(struct dgram *d)
{
	union dgram_addr name = {.sa.sa_family = AF_UNSPEC};
	socklen_t len = sizeof(name);

	if (getsockname(d->rs.fd, &name.sa, &len) < 0)
		return -errno;
	if (dgram_port(&name) != 0)
		return 0;
	return bind(d->rs.fd, &name.sa, len) < 0 ? -errno : 0;
}

/** The local address that datagrams to a peer leave from. */
static int local_for(struct dgram *d, const union dgram_addr *to, union dgram_addr *local)
{
	union dgram_addr name;
	socklen_t len = sizeof(name);
	struct rdma_cm_id *id;
	int ret = 0;

	if (getsockname(d->rs.fd, &name.sa, &len) < 0)
		return -errno;
	if (!is_any(&name)) {
		dgram_addr_set(local, &name.sa);
		return 0;
	}
	/* A wildcard: use the address that rdma_cm would connect from. */
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP))
		return -errno;
	name = *to;
	if (rdma_resolve_addr(id, NULL, &name.sa, RESOLVE_MS))
		ret = -errno;
	else
		dgram_addr_set(local, rdma_get_local_addr(id));
	rdma_destroy_id(id);
	return ret;
}

/* ---- peers ---- */

static uint64_t key_of(const struct dgram *d, const union dgram_addr *a)
{
	uint64_t words[3] = {dgram_port(a)};

	if (a->sa.sa_family == AF_INET6)
		memcpy(words + 1, &a->in6.sin6_addr, sizeof(a->in6.sin6_addr));
	else
		words[1] = a->in.sin_addr.s_addr;
	return prf_hash(&d->prf, words, ARRAY_LEN(words));
}

struct dgram_peer *dgram_peer_find(struct dgram *d, const union dgram_addr *addr)
{
	hash_for_each (peer, struct dgram_peer, by_addr, &d->by_addr, key_of(d, addr)) {
		if (!dgram_addr_equal(&peer->addr, addr))
			continue;
		list_remove(&peer->age);
		list_append(&d->peers, &peer->age);
		return peer;
	}
	return NULL;
}

static void peer_free(struct dgram *d, struct dgram_peer *peer)
{
	hash_remove(&d->by_addr, &peer->by_addr);
	list_remove(&peer->age);
	if (peer->ah)
		ibv_destroy_ah(peer->ah);
	free(peer);
}

void dgram_peers_free(struct dgram *d)
{
	while (!list_empty(&d->peers))
		peer_free(d, list_entry(list_first(&d->peers), struct dgram_peer, age));
}

static int peer_new(struct dgram *d, const union dgram_addr *addr, struct dgram_qp *qp,
		    struct dgram_peer **out)
{
	struct dgram_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return -ENOMEM;
	if (d->by_addr.n == DGRAM_PEERS)
		peer_free(d, list_entry(list_first(&d->peers), struct dgram_peer, age));
	peer->addr = *addr;
	peer->qp = qp;
	hash_add(&d->by_addr, &peer->by_addr, key_of(d, addr));
	list_append(&d->peers, &peer->age);
	*out = peer;
	return 0;
}

int dgram_peer_get(struct dgram *d, const union dgram_addr *addr, struct dgram_peer **out)
{
	union dgram_addr local;
	struct dgram_qp *qp;
	int ret;

	*out = dgram_peer_find(d, addr);
	if (*out)
		return 0;
	ret = dgram_udp_autobind(d);
	if (ret == 0)
		ret = local_for(d, addr, &local);
	if (ret == 0)
		ret = dgram_qp_get(d, &local, &qp);
	return ret < 0 ? ret : peer_new(d, addr, qp, out);
}

static bool same_host(const union dgram_addr *a, const union dgram_addr *b)
{
	return a->sa.sa_family == AF_INET6
		       ? memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0
		       : a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
}

/** A socket without address and port gets the address that it will send from. */
static int bind_for(struct dgram *d, const union dgram_addr *to)
{
	union dgram_addr name;
	socklen_t len = sizeof(name);
	int ret;

	if (getsockname(d->rs.fd, &name.sa, &len) < 0)
		return -errno;
	if (dgram_port(&name) != 0)
		return 0;
	ret = local_for(d, to, &name);
	if (ret < 0)
		return ret;
	if (name.sa.sa_family == AF_INET6)
		name.in6.sin6_port = 0;
	else
		name.in.sin_port = 0;
	return bind(d->rs.fd, &name.sa, dgram_addr_len(&name)) < 0 ? -errno : 0;
}

int dgram_udp_connect(struct dgram *d, const union dgram_addr *to)
{
	const struct sockaddr unspec = {.sa_family = AF_UNSPEC};
	struct dgram_peer *peer;
	union dgram_addr name;
	socklen_t len = sizeof(name);
	int ret = bind_for(d, to);

	if (ret == 0)
		ret = dgram_peer_get(d, to, &peer);
	if (ret < 0)
		return ret;
	/*
	 * Connected, so that the kernel reports ICMP errors. The kernel may choose another source
	 * address: then it would drop the answers, and the socket stays unconnected.
	 */
	if (connect(d->rs.fd, &to->sa, dgram_addr_len(to)) < 0 ||
	    getsockname(d->rs.fd, &name.sa, &len) < 0)
		return -errno;
	if (!same_host(&name, &peer->qp->local))
		ret = connect(d->rs.fd, &unspec, sizeof(unspec)) < 0 ? -errno : 0;
	return ret;
}

/** The peer has sent its QP number. An older one may be out of date. */
static void peer_learn(struct dgram_peer *peer, struct dgram_qp *qp, uint32_t qpn)
{
	if (peer->qp != qp && peer->ah) {
		ibv_destroy_ah(peer->ah);
		peer->ah = NULL;
	}
	peer->qp = qp;
	peer->qpn = qpn;
	peer->requested_at = rs_now();
	if (!peer->ah)
		dgram_qp_ah(qp, &peer->addr, &peer->ah);
}

/* ---- sending ---- */

static size_t header_encode(const struct dgram_qp *qp, uint8_t op, uint8_t p[HEADER6])
{
	const bool v6 = qp->local.sa.sa_family == AF_INET6;
	const size_t len = v6 ? HEADER6 : HEADER4;

	memset(p, 0, HEADER6);
	put_be32(p + TAG, UDP_TAG);
	p[VERSION] = v6 ? 6 : 4;
	p[OP] = op;
	p[LENGTH] = (uint8_t)len;
	put_be32(p + QPN, qp->id->qp->qp_num);
	if (v6)
		memcpy(p + ADDR, &qp->local.in6.sin6_addr, sizeof(struct in6_addr));
	else
		memcpy(p + ADDR, &qp->local.in.sin_addr, sizeof(struct in_addr));
	return len;
}

union control {
	struct cmsghdr align;
	uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/** From the QP's address, since the peer looks for the QP at the source address. */
static void set_source(struct msghdr *msg, union control *control, const struct dgram_qp *qp)
{
	struct cmsghdr *c = &control->align;

	memset(control, 0, sizeof(*control));
	msg->msg_control = control->bytes;
	if (qp->local.sa.sa_family == AF_INET6) {
		struct in6_pktinfo info = {.ipi6_addr = qp->local.in6.sin6_addr};

		c->cmsg_level = IPPROTO_IPV6;
		c->cmsg_type = IPV6_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(c), &info, sizeof(info));
		msg->msg_controllen = CMSG_SPACE(sizeof(info));
	} else {
		struct in_pktinfo info = {.ipi_spec_dst = qp->local.in.sin_addr};

		c->cmsg_level = IPPROTO_IP;
		c->cmsg_type = IP_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info));
		memcpy(CMSG_DATA(c), &info, sizeof(info));
		msg->msg_controllen = CMSG_SPACE(sizeof(info));
	}
}

static ssize_t send_op(struct dgram *d, struct dgram_peer *peer, uint8_t op,
		       const struct iovec *iov, int n, int flags)
{
	uint8_t header[HEADER6];
	struct iovec all[MOST_IOV + 1];
	struct msghdr msg = {
		.msg_name = &peer->addr,
		.msg_namelen = dgram_addr_len(&peer->addr),
		.msg_iov = all,
		.msg_iovlen = (size_t)n + 1,
	};
	union control control;
	ssize_t ret;

	all[0].iov_base = header;
	all[0].iov_len = header_encode(peer->qp, op, header);
	for (int i = 0; i < n; i++)
		all[i + 1] = iov[i];
	set_source(&msg, &control, peer->qp);
	ret = sendmsg(d->rs.fd, &msg, flags | MSG_NOSIGNAL);
	return ret < 0 ? -errno : ret - (ssize_t)all[0].iov_len;
}

ssize_t dgram_udp_send(struct dgram *d, struct dgram_peer *peer, const struct iovec *iov, int n,
		       size_t len, int flags)
{
	struct iovec flat = {.iov_len = len};
	uint8_t *p;
	ssize_t ret;

	if (len + HEADER6 > DGRAM_UDP_MAX)
		return -EMSGSIZE;
	peer->requested_at = rs_now();
	flags = (flags & MSG_DONTWAIT) | (d->rs.nonblock ? MSG_DONTWAIT : 0);
	if (n <= MOST_IOV)
		return send_op(d, peer, OP_DATA, iov, n, flags);
	flat.iov_base = p = malloc(MAX(len, (size_t)1));
	if (!p)
		return -ENOMEM;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len)
			memcpy(p, iov[i].iov_base, iov[i].iov_len);
		p += iov[i].iov_len;
	}
	ret = send_op(d, peer, OP_DATA, &flat, 1, flags);
	free(flat.iov_base);
	return ret;
}

/* ---- receiving ---- */

/** Bytes of the header, or 0: it is none. */
static size_t header_decode(int domain, const uint8_t *p, size_t len, uint32_t *qpn)
{
	const bool v6 = domain == AF_INET6;
	const size_t want = v6 ? HEADER6 : HEADER4;

	if (len < want || get_be32(p + TAG) != UDP_TAG || p[VERSION] != (v6 ? 6 : 4) ||
	    p[LENGTH] != want)
		return 0;
	*qpn = get_be32(p + QPN) & QPN_MASK;
	return want;
}

/** Into the inbox, or dropped if it is full, as UDP allows. */
static void keep(struct dgram *d, const union dgram_addr *from, const uint8_t *data, size_t len)
{
	struct dgram_msg *msg;

	if (d->inbox_udp + len + sizeof(*msg) > MAX(d->rs.set.rcvbuf, (uint32_t)DGRAM_UDP_MAX * 2))
		return;
	msg = malloc(sizeof(*msg) + len);
	if (!msg)
		return;
	*msg = (struct dgram_msg){.data = (uint8_t *)(msg + 1), .len = len, .from = *from};
	memcpy(msg + 1, data, len);
	/* Empty datagrams count as well. */
	d->inbox_udp += len + sizeof(*msg);
	list_append(&d->inbox, &msg->node);
}

static bool local_of(struct msghdr *msg, union dgram_addr *local)
{
	memset(local, 0, sizeof(*local));
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			local->in.sin_family = AF_INET;
			local->in.sin_addr = info.ipi_addr;
			return true;
		}
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			local->in6.sin6_family = AF_INET6;
			local->in6.sin6_addr = info.ipi6_addr;
			if (IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
				local->in6.sin6_scope_id = info.ipi6_ifindex;
			return true;
		}
	}
	return false;
}

static void take(struct dgram *d, const union dgram_addr *from, const union dgram_addr *local,
		 size_t len)
{
	const uint8_t *p = d->udp_buf;
	struct dgram_peer *peer;
	struct dgram_qp *qp;
	uint32_t qpn;
	const size_t header = header_decode(d->rs.domain, p, len, &qpn);

	if (header == 0 || (p[OP] != OP_DATA && p[OP] != OP_CTRL))
		return;
	if (d->connected && !dgram_addr_equal(from, &d->peer))
		return;
	peer = dgram_peer_find(d, from);
	/* An unrequested answer does not create a peer. */
	if (p[OP] == OP_CTRL && !peer)
		return;
	if (dgram_qp_get(d, local, &qp) == 0 && (peer || peer_new(d, from, qp, &peer) == 0)) {
		peer_learn(peer, qp, qpn);
		if (p[OP] == OP_DATA)
			send_op(d, peer, OP_CTRL, NULL, 0, MSG_DONTWAIT);
	}
	if (p[OP] == OP_DATA)
		keep(d, from, p + header, len - header);
}

void dgram_udp_progress(struct dgram *d)
{
	union dgram_addr from, peer, local;
	union control control;
	struct iovec iov = {.iov_base = d->udp_buf, .iov_len = DGRAM_UDP_MAX};
	struct msghdr msg;
	bool any = false;
	ssize_t len;

	d->idle = 0;
	for (;;) {
		msg = (struct msghdr){
			.msg_name = &from,
			.msg_namelen = sizeof(from),
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control.bytes,
			.msg_controllen = sizeof(control.bytes),
		};
		len = recvmsg(d->rs.fd, &msg, MSG_DONTWAIT);
		if (len < 0) {
			if (errno != EAGAIN && errno != EINTR)
				d->rs.error = errno;
			if (any) /* other threads may be about to poll for it */
				rs_wake(&d->rs);
			return;
		}
		any = true;
		if (local_of(&msg, &local)) {
			dgram_addr_set(&peer, &from.sa);
			take(d, &peer, &local, (size_t)len);
		}
	}
}
