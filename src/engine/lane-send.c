/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets that a lane's packets leave by: which one a path takes, how a message to it begins,
 * and one packet whose bytes are ready.
 */
#include <errno.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/syssocket.h"
#include "base/util.h"
#include "base/why.h"
#include "engine/lane-shm.h"
#include "engine/sysmsg.h"
#include "netdev/netdev.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum {
	DEFAULT_HOP_LIMIT = 64, /* for an address vector that left it 0, which no IP stack sends */
	TX_COPY = ROCEMU_OUTPUT_BATCH * ROCEMU_MAX_MTU,
	TX_MAPPED = TX_COPY + LANE_TX_BATCH_BYTES,
};

static void set_free(struct lane *l, unsigned index)
{
	if (!l->tx.set[index])
		return;
	txsock_set_fini(l->tx.set[index]);
	free(l->tx.set[index]);
	l->tx.set[index] = NULL;
	memset(l->tx.route, 0, sizeof(l->tx.route));
}

int lane_tx_init(struct lane *l)
{
	/* Mapped, not allocated: pages that nothing was copied to cost nothing. */
	l->tx.copy =
		mmap(NULL, TX_MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (l->tx.copy == MAP_FAILED) {
		l->tx.copy = NULL;
		return -ENOMEM;
	}
	l->tx.batch = (struct tx_batch *)(void *)(l->tx.copy + TX_COPY);
	return 0;
}

void lane_tx_fini(struct lane *l)
{
	if (l->tx.copy)
		munmap(l->tx.copy, TX_MAPPED);
	l->tx.copy = NULL;
	l->tx.batch = NULL;
	for (unsigned i = 0; i < ARRAY_LEN(l->tx.set); i++)
		set_free(l, i);
}

void lane_tx_forget(struct lane *l, unsigned index, const struct rocemu_gid *now)
{
	for (; index < ARRAY_LEN(l->tx.set); index += ROCEMU_MAX_GID)
		if (l->tx.set[index] && !rocemu_gid_equal(&l->tx.set[index]->gid, now))
			set_free(l, index);
}

/** MTU of the path to an address, as the kernel has it, or 0. */
static unsigned path_mtu(struct lane *l, const struct rocemu_path *path)
{
	const bool v4 = rocemu_gid_is_ipv4(&path->dgid);
	const struct txsock_set *set = *lane_tx_set(l, path);
	const uint32_t scope = set && addr_gid_is_link_local(&path->dgid) ? set->scope_id : 0;
	UNCANCELLED;
	int fd = sys_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;
	socklen_t len = sizeof(mtu);
	union addr to;

	if (fd < 0)
		return 0;
	if (path->own_interface)
		(void)route_bind_socket(fd, v4, l->ifindex);
	if (sys_connect(fd, &to.sa, addr_from_gid(&to, &path->dgid, ROCEMU_UDP_PORT, scope)) ||
	    getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &len))
		mtu = 0;
	close(fd);
	return mtu > 0 ? (unsigned)mtu : 0;
}

/** @return what to do; where that has a value, in text. */
static const char *refused_remedy(struct lane *l, int err, const struct rocemu_path *path,
				  char *text, size_t size)
{
	unsigned mtu;

	switch (err) {
	case EPERM:
		return "this host's firewall, or a filter of the process's cgroup, drops them: let "
		       "UDP port 4791 out";
	case ENETUNREACH:
	case EHOSTUNREACH:
		return "no route leads there: see the routing table; none leads to an address that "
		       "is behind a NAT";
	case ENETDOWN:
	case ENODEV:
	case EADDRNOTAVAIL:
		return "the interface must be up and keep its address";
	case EMSGSIZE:
		mtu = path_mtu(l, path);
		if (!mtu)
			break;
		snprintf(text, size,
			 "the MTU on the way there is %u, and packets are not fragmented: give "
			 "both QPs path MTU %u at most, or the interface this MTU",
			 mtu, 128u << netdev_active_mtu(mtu));
		return text;
	}
	return "check the interface and its routes";
}

static void why_refused(struct lane *l, int err, const struct rocemu_path *path)
{
	char to[ADDR_TEXT_LEN], text[160];
	uint64_t peer;

	memcpy(&peer, path->dgid.raw + sizeof(path->dgid) - sizeof(peer), sizeof(peer));
	addr_gid_text(&path->dgid, to);
	why_say(peer ^ (uint64_t)err, "%s: packets to %s are not sent: %s: %s", l->device, to,
		strerror(err), refused_remedy(l, err, path, text, sizeof(text)));
}

/* Refused packets are lost packets to the transport. */
void lane_send_refused(struct lane *l, int err, const struct rocemu_path *path, unsigned packets)
{
	l->stats->tx_errors += packets;
	if (log_enabled(LOG_LVL_WHY))
		why_refused(l, err, path);
}

static struct txsock_set *tx_set(struct lane *l, const struct rocemu_path *path, int *err)
{
	struct txsock_set *set;

	*err = -EADDRNOTAVAIL;
	if (path->sgid_index >= ROCEMU_MAX_GID)
		return NULL;
	set = *lane_tx_set(l, path);
	/* An address that is gone, and whose index another one has now, has no socket any more. */
	if (likely(set != NULL))
		return rocemu_gid_equal(&set->gid, &path->sgid) ? set : NULL;
	for (unsigned i = 0; i < l->ngids; i++) {
		const struct lane_gid *g = &l->gids[i];

		if (g->index != path->sgid_index || !rocemu_gid_equal(&g->gid, &path->sgid))
			continue;
		set = malloc(sizeof(*set));
		*err = -ENOMEM;
		if (!set)
			return NULL;
		txsock_set_init(set, &g->gid, g->scope_id, l->ifindex);
		set->own_interface = path->own_interface;
		set->no_count = l->held != NULL;
		*lane_tx_set(l, path) = set;
		return set;
	}
	return NULL;
}

HOT struct txsock *lane_tx_sock(struct lane *l, const struct rocemu_path *path)
{
	int err;
	struct txsock_set *set = tx_set(l, path, &err);
	struct txsock *s = set ? txsock_find(set, path, &err) : NULL;

	if (!s)
		lane_send_refused(l, -err, path, 0);
	return s;
}

void lane_tx_set_path(struct rocemu_path *path, const struct txsock *s)
{
	path->sport = s->port;
	if (!path->hop_limit)
		path->hop_limit = DEFAULT_HOP_LIMIT;
}

const struct lane_route *lane_tx_route(struct lane *l, const struct rocemu_path *path,
				       uint32_t lqpn)
{
	struct lane_route *r = &l->tx.route[lqpn % LANE_ROUTES];
	struct rocemu_path marked;

	if (likely(r->sock && r->asked.sgid_index == path->sgid_index &&
		   txgroup_same_path(&r->asked, path)))
		return r;
	marked = *path;
	marked.tclass = ecn_tclass(l->tx.ecn.mode, path, ROCEMU_RC_SEND_ONLY);
	r->sock = lane_tx_sock(l, &marked);
	if (!r->sock)
		return NULL;
	r->asked = *path;
	r->packet = marked;
	lane_tx_set_path(&r->packet, r->sock);
	return r;
}

/* A QP that has the path anew may take another interface than before. */
static void forget_routes(struct lane *l, const struct rocemu_path *path) REQUIRES(l);
static void forget_routes(struct lane *l, const struct rocemu_path *path)
{
	for (unsigned i = 0; i < LANE_ROUTES; i++) {
		struct lane_route *r = &l->tx.route[i];

		if (r->asked.own_interface != path->own_interface &&
		    txgroup_same_path(&r->asked, path))
			r->sock = NULL;
	}
}

int lane_prepare_path(struct lane *l, struct rocemu_path *path, uint32_t dqpn)
{
	int err = lane_find_interface(l, path);
	struct txsock_set *set;
	struct rocemu_path marked = *path;

	if (err)
		return err;
	forget_routes(l, path);
	if (unlikely(l->shm != NULL) && dqpn)
		lane_shm_prepare(l, path, dqpn);
	/* The socket's defaults are for requests: they need no control message then. */
	marked.tclass = ecn_tclass(l->tx.ecn.mode, path, ROCEMU_RC_SEND_ONLY);
	set = tx_set(l, path, &err);
	return set && txsock_find(set, &marked, &err) ? 0 : err;
}

/* ---- messages ---- */

static void add_control(struct msghdr *m, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c =
		(struct cmsghdr *)(void *)((uint8_t *)m->msg_control + m->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	m->msg_controllen += CMSG_SPACE(len);
}

static void add_int(struct msghdr *m, int level, int type, int value)
{
	add_control(m, level, type, &value, sizeof(value));
}

HOT void lane_send_begin(struct msghdr *m, struct iovec *iov, union addr *to,
			 uint8_t control[LANE_SEND_CONTROL], const struct txsock_set *set,
			 struct txsock *s, const struct rocemu_path *path, uint16_t gso_size,
			 size_t len)
{
	const bool v4 = rocemu_gid_is_ipv4(&path->dgid);

	*m = (struct msghdr){.msg_iov = iov, .msg_control = control};
	if (!txsock_is_connected(set, s, path)) {
		m->msg_name = to;
		m->msg_namelen = txsock_address(set, s, path, to);
	}
	if (txsock_needs_segment(s, gso_size, len))
		add_control(m, IPPROTO_UDP, UDP_SEGMENT, &gso_size, sizeof(gso_size));
	if (path->tclass != s->tclass)
		add_int(m, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, path->tclass);
	if (path->hop_limit != s->hop_limit)
		add_int(m, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT,
			path->hop_limit);
	if (!m->msg_controllen)
		m->msg_control = NULL;
}

/*
 * Where a process has an exclusive flow label, the kernel sends no other label that was not
 * requested.
 */
bool lane_send_labels_refused(const struct lane *l, struct txsock *s,
			      const struct rocemu_path *path)
{
	if (s->no_labels || !path->flow_label || rocemu_gid_is_ipv4(&path->dgid))
		return false;
	s->no_labels = true;
	log_debug("%s: source port %u: flow labels refused, sending without", l->device,
		  (unsigned)s->port);
	return true;
}

bool lane_send_try(struct lane *l, const struct rocemu_path *path, const uint8_t *data, size_t len,
		   bool wait)
{
	_Alignas(struct cmsghdr) uint8_t control[LANE_SEND_CONTROL];
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	struct txsock *s = lane_tx_sock(l, path);
	uint64_t when = l->tap ? tap_now() : 0;
	struct msghdr m;
	union addr to;
	ssize_t r;
	int err;

	if (!s) {
		l->stats->tx_errors++;
		return true;
	}
	if (unlikely(l->shm != NULL) && lane_shm_send_raw(l, path, data, len))
		return true;
	txsock_stop_counting(s);
	lane_send_begin(&m, &iov, &to, control, *lane_tx_set(l, path), s, path, 0, len);
	m.msg_iovlen = 1;
	do
		r = sys_sendmsg(s->fd, &m, wait ? 0 : MSG_DONTWAIT);
	while (r < 0 && errno == EINTR);
	err = errno;
	l->stats->tx_syscalls++;
	if (r < 0 && err == EAGAIN)
		return false;
	if (r < 0 &&
	    ((err == EINVAL && lane_send_labels_refused(l, s, path)) || txsock_make_plain(s)))
		return lane_send_try(l, path, data, len, wait);
	if (r < 0) {
		lane_send_refused(l, err, path, 1);
		return true;
	}
	txsock_messages_sent(*lane_tx_set(l, path), s, 1);
	l->stats->tx_datagrams++;
	if (l->tap) {
		const struct tap_addr a = {
			.when_ns = when,
			.src = path->sgid,
			.dst = path->dgid,
			.sport = path->sport,
			.tclass = path->tclass,
			.hop_limit = path->hop_limit,
			.flow_label = path->flow_label,
			.sent = true,
		};

		tap_write(l->tap, &a, &iov, 1);
		lane_tap_dirty(l, lane_now());
	}
	return true;
}
