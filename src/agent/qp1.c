/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/qp1.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/gsi.h"
#include "agent/group.h"
#include "agent/link.h"
#include "agent/socket.h"
#include "base/cmsg.h"
#include "base/log.h"
#include "base/util.h"
#include "wire/bth.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define AGAIN_S 0.1

enum {
	SPORT_TRIES = 16, /* ports beside GSI_SPORT */
	RX_BATCH = 32,
	RX_BATCHES = 8,	   /* of one address in a round, then others have their turn */
	RX_ADDRESSES = 32, /* with one batch each in a round */
	/* More than any packet of QP 1 has, so that longer ones show. */
	RX_BUF = 512,
	RX_CONTROL = 128,
	ECN_MASK = 3,
};

static void set_int(int fd, int level, int option, int value)
{
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

/* @return false: it has IP options, or came in fragments. */
static bool read_control(struct qp1 *q, struct msghdr *m, struct gsi_mad *d)
{
	bool good = true;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (cmsg_network(c, &d->tclass, &d->hop_limit))
			continue;
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
			uint32_t overflow = (uint32_t)cmsg_int(c);

			q->gsi->counters[AGENT_GSI_COUNT_rx_overflow] += overflow - q->overflow;
			q->overflow = overflow;
		}
		good &= !cmsg_is_forbidden(c);
	}
	return good;
}

/* One datagram. Packets for QP 0 and slots without a socket have no receiver. */
static void take(struct qp1 *q, struct msghdr *m, const union addr *from, const uint8_t *data,
		 size_t len)
{
	static const enum agent_gsi_counter drops[] = {
		[GSI_FORM] = AGENT_GSI_COUNT_rx_form,
		[GSI_KEY] = AGENT_GSI_COUNT_rx_key,
		[GSI_ICRC] = AGENT_GSI_COUNT_rx_icrc,
	};
	struct gsi_mad d = {.dst = q->group->addr, .scope_id = q->group->scope_id};
	enum gsi_verdict v;

	if (len < ROCEMU_BTH_LEN || bth_dqpn(data) != ROCEMU_GSI_QPN) {
		q->group->dropped++;
		return;
	}
	(void)addr_to_gid(from, m->msg_namelen, &d.src, &d.sport);
	v = read_control(q, m, &d) ? gsi_packet_decode(&d, data, len) : GSI_FORM;
	q->gsi->counters[AGENT_GSI_COUNT_rx]++;
	if (v)
		q->gsi->counters[drops[v]]++;
	else
		q->ops->input(q->gsi, q, &d);
}

static int receive(struct qp1 *q)
{
	static uint8_t bufs[RX_BATCH][RX_BUF];
	static union {
		struct cmsghdr align;
		uint8_t bytes[RX_CONTROL];
	} controls[RX_BATCH];
	union addr from[RX_BATCH];
	struct iovec iov[RX_BATCH];
	struct mmsghdr mm[RX_BATCH];
	int n;

	for (unsigned i = 0; i < RX_BATCH; i++) {
		iov[i] = (struct iovec){.iov_base = bufs[i], .iov_len = RX_BUF};
		mm[i].msg_hdr = (struct msghdr){
			.msg_name = &from[i],
			.msg_namelen = sizeof(from[i]),
			.msg_iov = &iov[i],
			.msg_iovlen = 1,
			.msg_control = controls[i].bytes,
			.msg_controllen = RX_CONTROL,
		};
	}
	n = recvmmsg(q->watcher.fd, mm, RX_BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++)
		take(q, &mm[i].msg_hdr, &from[i], bufs[i], mm[i].msg_len);
	return n;
}

/* The error in a control message of the error queue. */
static int returned_error(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct sock_extended_err e;

		if (((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
		     (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR)) &&
		    c->cmsg_len >= CMSG_LEN(sizeof(e))) {
			memcpy(&e, CMSG_DATA(c), sizeof(e));
			return (int)e.ee_errno;
		}
	}
	return 0;
}

/* Read a packet that the network returned, with the part that the router has quoted. */
static void on_returned(struct ev_loop *loop, ev_io *w, int revents)
{
	struct qp1 *q = w->data;
	union {
		struct cmsghdr align;
		uint8_t bytes[512];
	} control;
	union addr to;
	uint8_t buf[RX_BUF];

	if (revents & EV_ERROR) {
		ev_timer_again(loop, &q->again);
		return;
	}
	for (unsigned i = 0; i < RX_BATCHES * RX_BATCH; i++) {
		struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};
		struct msghdr m = {.msg_name = &to,
				   .msg_namelen = sizeof(to),
				   .msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = control.bytes,
				   .msg_controllen = sizeof(control)};
		ssize_t n = recvmsg(w->fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);
		struct gsi_mad d = {0};

		if (n < 0)
			return;
		/* The address is that of the packet's destination. */
		(void)addr_to_gid(&to, m.msg_namelen, &d.dst, &d.sport);
		d.src = q->group->addr;
		d.sport = q->sport;
		d.scope_id = q->group->scope_id;
		/* A forger of this error must have seen the request: its ICRC is right. */
		if (gsi_packet_decode(&d, buf, (size_t)n) == GSI_OK)
			q->ops->returned(q->gsi, q, &d, returned_error(&m));
	}
}

/* ---- sockets to send from ---- */

/*
 * A socket for sending only: a filter drops packets to its port. Its error queue reports packets
 * that did not reach their destination.
 */
static int tx_socket(const struct group *g, uint16_t port, unsigned ifindex)
{
	const bool v4 = rocemu_gid_is_ipv4(&g->addr);
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog deaf = {.len = 1, .filter = &drop};
	int fd = data_socket_open_unbound(&g->addr, ifindex != 0), r = fd;

	if (fd >= 0 && ifindex)
		r = route_bind_socket(fd, v4, ifindex);
	if (r >= 0)
		r = data_socket_bind(fd, &g->addr, g->scope_id, port);
	if (r >= 0) {
		(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &deaf, sizeof(deaf));
		set_int(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVERR : IPV6_RECVERR, 1);
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return r;
}

static void tx_close(struct qp1 *q, struct qp1_tx *tx)
{
	ev_io_stop(q->loop, &tx->returned);
	if (tx->fd >= 0)
		close(tx->fd);
	tx->fd = -1;
}

/* ifindex: as in the struct. @return whether there is a socket. */
static bool tx_open(struct qp1 *q, struct qp1_tx *tx, uint16_t port, unsigned ifindex)
{
	tx_close(q, tx);
	tx->fd = tx_socket(q->group, port, ifindex);
	tx->ifindex = tx->fd >= 0 ? ifindex : 0;
	ev_io_init(&tx->returned, on_returned, tx->fd, EV_READ);
	tx->returned.data = q;
	if (tx->fd >= 0)
		ev_io_start(q->loop, &tx->returned);
	return tx->fd >= 0;
}

/* When something is sent first: most addresses of a wildcard listener send nothing. */
static void open_any(struct qp1 *q)
{
	q->tx_tried = true;
	for (unsigned i = 0; i < SPORT_TRIES; i++) {
		const uint16_t port = (uint16_t)(GSI_SPORT + i);

		if (!tx_open(q, &q->any, port, 0))
			continue;
		q->sport = port;
		/* With q->own. The port was free: no other socket has it. */
		(void)data_socket_share(q->any.fd);
		return;
	}
}

/* The socket for a destination. */
static int tx_fd(struct qp1 *q, const struct rocemu_gid *dst)
{
	const struct group *g = q->group;
	struct route r;

	if (q->any.fd < 0)
		return g->places[0].fd;
	if (route_cached(&q->ways, link_now_ms() * 1000000u, g->scope_id, &g->addr, dst, &r) ||
	    !r.bind)
		return q->any.fd;
	/* Opened again when the interface has come back with another index. */
	if (q->own.ifindex != r.bind && !tx_open(q, &q->own, q->sport, r.bind))
		log_debug("a MAD may leave by another interface: no socket for interface %u: %s",
			  r.bind, strerror(-q->own.fd));
	return q->own.fd >= 0 ? q->own.fd : q->any.fd;
}

/*
 * How many batches of packets an address may take in this round. When many have packets, each has
 * its turn in some of the rounds only, so that clients do not wait for all of them.
 */
static unsigned batches(struct qp1_turns *t, unsigned round, int fd)
{
	unsigned n;

	if (round != t->round) {
		t->before = t->now;
		t->now = 0;
		t->round = round;
	}
	t->now++;
	n = MAX(t->before, 1u);
	if (((unsigned)fd + round) % (1 + (n - 1) / RX_ADDRESSES))
		return 0;
	return MAX(RX_BATCHES / n, 1u);
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct qp1 *q = w->data;

	if (revents & EV_ERROR) {
		ev_timer_again(loop, &q->again);
		return;
	}
	for (unsigned n = batches(&q->gsi->turns, ev_iteration(loop), w->fd); n > 0; n--)
		if (receive(q) < RX_BATCH)
			break;
}

/* Watch again what could not be watched for lack of memory. */
static void on_again(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct qp1 *q = w->data;

	(void)revents;
	ev_timer_stop(loop, w);
	ev_io_start(loop, &q->watcher);
	if (q->any.fd >= 0)
		ev_io_start(loop, &q->any.returned);
	if (q->own.fd >= 0)
		ev_io_start(loop, &q->own.returned);
}

struct qp1 *qp1_new(struct gsi *gsi, const struct qp1_ops *ops, struct group *group,
		    struct ev_loop *loop)
{
	struct qp1 *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->gsi = gsi;
	q->ops = ops;
	q->group = group;
	q->loop = loop;
	q->psn = prf_u32(&gsi->prf);
	/* Unusual, but as good: receivers do not look at the source port. */
	q->sport = AGENT_PORT;
	/* Then the kernel splits what a sender's burst merged. */
	set_int(group->places[0].fd, IPPROTO_UDP, UDP_GRO, 0);
	q->any.fd = q->own.fd = -1;
	ev_init(&q->any.returned, on_returned);
	ev_init(&q->own.returned, on_returned);
	ev_timer_init(&q->again, on_again, 0., AGAIN_S);
	q->again.data = q;
	ev_io_init(&q->watcher, on_readable, group->places[0].fd, EV_READ);
	q->watcher.data = q;
	ev_io_start(loop, &q->watcher);
	return q;
}

void qp1_free(struct qp1 *q)
{
	ev_io_stop(q->loop, &q->watcher);
	ev_timer_stop(q->loop, &q->again);
	tx_close(q, &q->any);
	tx_close(q, &q->own);
	free(q);
}

static size_t put_control(struct msghdr *m, int level, int type, int value)
{
	struct cmsghdr *c =
		(struct cmsghdr *)(void *)((uint8_t *)m->msg_control + m->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(sizeof(value));
	memcpy(CMSG_DATA(c), &value, sizeof(value));
	return m->msg_controllen + CMSG_SPACE(sizeof(value));
}

int qp1_send(struct qp1 *q, struct gsi_mad *d)
{
	bool ipv4 = rocemu_gid_is_ipv4(&q->group->addr);
	union {
		struct cmsghdr align;
		uint8_t bytes[2 * CMSG_SPACE(sizeof(int))];
	} control = {0};
	uint8_t buf[GSI_PACKET_LEN];
	struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};
	union addr to;
	struct msghdr m = {.msg_name = &to,
			   .msg_namelen =
				   addr_from_gid(&to, &d->dst, AGENT_PORT, q->group->scope_id),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes};

	if (!q->tx_tried)
		open_any(q);
	d->sport = q->sport;
	d->ip_id = 0;
	gsi_hdr_encode(d, q->psn++);
	gsi_packet_encode(d, buf);
	m.msg_controllen = put_control(&m, ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
				       ipv4 ? IP_TOS : IPV6_TCLASS, d->tclass);
	if (d->hop_limit)
		m.msg_controllen = put_control(&m, ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
					       ipv4 ? IP_TTL : IPV6_HOPLIMIT, d->hop_limit);
	if (sendmsg(tx_fd(q, &d->dst), &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	if (errno == EAGAIN)
		return -EAGAIN;
	/*
	 * The error may be that of an earlier packet; it is reported once. Or the interface has
	 * gone, and the address is on another one.
	 */
	q->ways = (struct route_cache){0};
	return sendmsg(tx_fd(q, &d->dst), &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}
