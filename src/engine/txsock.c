/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/mutex.h"
#include "base/syssocket.h"
#include "engine/txsock.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "base/why.h"
#include "engine/ipid.h"
#include "engine/sysmsg.h"
#include "engine/txgroup.h"
#include "netdev/route.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum {
	FLOWINFO_SEND = 33,  /* IPV6_FLOWINFO_SEND of <linux/in6.h>, which cannot be included
				together with <netinet/in.h> */
	PORT_FIRST = 0xc000, /* IBTA annex A17: the dynamic range */
	PORT_MASK = 0x3fff,
	/*
	 * Ports tried before the flow shares another user's: neighbours, then all over the range,
	 * so that a few sockets cannot block a flow.
	 */
	PORT_NEIGHBOURS = 16,
	PORT_STRIDE = 997,
	PORT_TRIES = 64,
	SEND_BUFFER = 1 << 20, /* requested; the kernel grants what wmem_max allows */
	EVIDENCE = 16, /* messages that need another segment size or peer than the socket's */
};

void txsock_set_init(struct txsock_set *set, const struct rocemu_gid *gid, uint32_t scope_id,
		     unsigned ifindex)
{
	*set = (struct txsock_set){.gid = *gid, .scope_id = scope_id, .ifindex = ifindex};
}

void txsock_set_fini(struct txsock_set *set)
{
	UNCANCELLED;

	for (unsigned i = 0; i < set->count; i++) {
		close(set->sock[i].fd);
		if (set->sock[i].guard >= 0)
			close(set->sock[i].guard);
	}
	set->count = 0;
}

/* Options that only make things better: a kernel without one still sends. */
static void set_int(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)) < 0)
		return;
}

/* The interface for packets to a group, and delivery to this host's members of the group.
 */
static void set_multicast(int fd, const struct txsock_set *set)
{
	const struct ip_mreqn leave = {.imr_ifindex = (int)set->ifindex};

	if (rocemu_gid_is_ipv4(&set->gid)) {
		set_int(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 1);
		if (!set->ifindex ||
		    !setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &leave, sizeof(leave)))
			return;
	} else {
		set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1);
		set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)set->ifindex);
	}
}

/* Receives nothing, and shares its port with this user's other sockets. */
static int drop_all_input(int fd)
{
	static const struct sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
	const int on = 1;
	struct sock_fprog deaf = {.len = 1, .filter = NULL};
	struct sock_filter filter[ARRAY_LEN(drop_all)];

	memcpy(filter, drop_all, sizeof(filter));
	deaf.filter = filter;
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &deaf, sizeof(deaf)) < 0)
		set_int(fd, SOL_SOCKET, SO_RCVBUF, 0);
	return setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0 ? -errno : 0;
}

static int set_options(int fd, const struct rocemu_gid *gid, const struct txsock *s)
{
	const int err = drop_all_input(fd);

	if (err)
		return err;
	set_int(fd, SOL_SOCKET, SO_SNDBUF, SEND_BUFFER);
	if (rocemu_gid_is_ipv4(gid)) {
		const int df = IP_PMTUDISC_DO;

		set_int(fd, IPPROTO_IP, IP_TOS, s->tclass);
		set_int(fd, IPPROTO_IP, IP_TTL, s->hop_limit);
		set_int(fd, IPPROTO_IP, IP_MULTICAST_TTL, s->hop_limit);
		/* Without DF the kernel picks a random identification: every ICRC would be wrong.
		 */
		return setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &df, sizeof(df)) < 0 ? -errno
											: 0;
	}
	set_int(fd, IPPROTO_IPV6, IPV6_TCLASS, s->tclass);
	set_int(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, s->hop_limit);
	set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, s->hop_limit);
	set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	set_int(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
	set_int(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);
	set_int(fd, IPPROTO_IPV6, FLOWINFO_SEND, 1);
	return 0;
}

/* A kernel before 4.18 would overlook the control message and send a burst as one datagram. */
static bool lacks_gso(int fd)
{
	int size;
	socklen_t len = sizeof(size);

	return getsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, &len) < 0 && errno == ENOPROTOOPT;
}

/**
 * Hold the port at all addresses. @return the socket, or -1: none, which does not prevent sending;
 * -EADDRINUSE: another user has the port.
 */
static int open_guard(int family, uint16_t port)
{
	const union addr any =
		family == AF_INET
			? (union addr){.in = {.sin_family = AF_INET, .sin_port = htons(port)}}
			: (union addr){.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
	int fd = sys_socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return -1;
	if (family == AF_INET6)
		set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!drop_all_input(fd) &&
	    !bind(fd, &any.sa, family == AF_INET ? sizeof(any.in) : sizeof(any.in6)))
		return fd;
	err = errno;
	close(fd);
	return err == EADDRINUSE ? -EADDRINUSE : -1;
}

/* All packets of a device leave by its interface, as an adapter has one wire. */
static void bind_interface(int fd, const struct txsock_set *set)
{
	const bool v4 = rocemu_gid_is_ipv4(&set->gid);
	const int err = set->own_interface ? route_bind_socket(fd, v4, set->ifindex) : 0;

	if (err)
		why_say(set->ifindex,
			"interface %u: sockets cannot be bound to it: %s: packets leave by the "
			"interface that the kernel's routes prefer: allow SO_BINDTOIFINDEX",
			set->ifindex, strerror(-err));
}

static int open_socket(const struct txsock_set *set, struct txsock *s)
{
	const int family = rocemu_gid_is_ipv4(&set->gid) ? AF_INET : AF_INET6;
	UNCANCELLED;
	int fd = sys_socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	bind_interface(fd, set);
	set_multicast(fd, set);
	err = set_options(fd, &set->gid, s);
	for (unsigned i = 0; !err && i < PORT_TRIES; i++) {
		const unsigned off = i < PORT_NEIGHBOURS ? i : i * PORT_STRIDE;
		union addr a;
		socklen_t len;

		s->port = (uint16_t)(PORT_FIRST | ((s->want + off) & PORT_MASK));
		s->guard = open_guard(family, s->port);
		if (s->guard == -EADDRINUSE)
			continue;
		len = addr_from_gid(&a, &set->gid, s->port, set->scope_id);
		if (!bind(fd, &a.sa, len)) {
			s->fd = fd;
			s->max_segments = lacks_gso(fd) ? 1 : TXGROUP_MAX_SEGMENTS;
			return 0;
		}
		if (errno != EADDRINUSE)
			err = -errno;
		if (s->guard >= 0)
			close(s->guard);
	}
	close(fd);
	return err ? err : -EADDRINUSE;
}

struct txsock *txsock_find(struct txsock_set *set, const struct rocemu_path *path, int *err)
{
	struct txsock *s;

	for (unsigned i = 0; i < set->count; i++)
		if (set->sock[i].want == path->sport)
			return &set->sock[i];
	if (set->count < TXSOCK_PER_ADDRESS) {
		s = &set->sock[set->count];
		*s = (struct txsock){
			.want = path->sport,
			.tclass = path->tclass,
			.hop_limit = path->hop_limit,
		};
		*err = open_socket(set, s);
		if (!*err) {
			set->count++;
			return s;
		}
	}
	return set->count ? &set->sock[path->sport % set->count] : NULL;
}

bool txsock_needs_segment(struct txsock *s, uint16_t gso_size, size_t len)
{
	if (gso_size == s->segment) {
		if (s->segment_score)
			s->segment_score--;
		return false;
	}
	/* The kernel does not split what is not longer than a segment. */
	if (!gso_size && len <= s->segment)
		return false;
	if (gso_size != s->segment_wanted) {
		s->segment_wanted = gso_size;
		s->segment_score = 0;
	}
	if (s->segment_score < EVIDENCE)
		s->segment_score++;
	return true;
}

static bool is_peer(const struct txsock_peer *peer, const struct rocemu_path *path)
{
	return rocemu_gid_equal(&peer->gid, &path->dgid) && peer->flow_label == path->flow_label;
}

static bool may_connect(const struct txsock_set *set, const struct txsock *s,
			const struct rocemu_gid *peer)
{
	if (s->no_connect || rocemu_gid_is_multicast(peer))
		return false;
	return !rocemu_gid_is_ipv4(peer) ||
	       (rocemu_gid_equal(peer, &set->gid) && s->guard >= 0 && !set->no_count);
}

/*
 * A message that takes an address: enough of them to one peer, and the socket connects to it. By
 * IPv4, if it is connected, enough of them to others disconnect it.
 */
static void count_other_peer(const struct txsock_set *set, struct txsock *s,
			     const struct rocemu_path *path)
{
	if (!s->counts && !may_connect(set, s, &path->dgid)) {
		s->no_connect |= rocemu_gid_is_ipv4(&path->dgid);
		return;
	}
	if (!is_peer(&s->peer_wanted, path)) {
		s->peer_wanted = (struct txsock_peer){path->dgid, path->flow_label};
		s->peer_score = 0;
	}
	if (s->peer_score < EVIDENCE)
		s->peer_score++;
}

bool txsock_is_connected(const struct txsock_set *set, struct txsock *s,
			 const struct rocemu_path *path)
{
	if (likely(s->connected && is_peer(&s->peer, path))) {
		if (s->peer_score)
			s->peer_score--;
		return true;
	}
	count_other_peer(set, s, path);
	return false;
}

socklen_t txsock_address(const struct txsock_set *set, const struct txsock *s,
			 const struct rocemu_path *path, union addr *to)
{
	const uint32_t scope = addr_gid_is_link_local(&path->dgid) ? set->scope_id : 0;
	const socklen_t len = addr_from_gid(to, &path->dgid, ROCEMU_UDP_PORT, scope);

	if (unlikely(path->flow_label) && to->sa.sa_family == AF_INET6 && !s->no_labels)
		to->in6.sin6_flowinfo = htonl(path->flow_label);
	return len;
}

/* @return whether it was connected. */
static bool disconnect(struct txsock *s)
{
	const struct sockaddr none = {.sa_family = AF_UNSPEC};
	int pending;
	socklen_t len = sizeof(pending);

	if (!s->connected)
		return false;
	s->connected = false;
	s->no_connect = s->counts;
	s->counts = false;
	s->no_connect |= sys_connect(s->fd, &none, sizeof(none)) < 0 ||
			 getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &pending, &len) < 0;
	return true;
}

/* The socket was connected by IPv4. @return false: its packets' identifications are not known. */
static bool start_counting(const struct txsock_set *set, struct txsock *s)
{
	union addr self;
	int32_t id;

	/* Where the guard drops it: this socket has another peer. */
	addr_from_gid(&self, &set->gid, s->port, set->scope_id);
	id = ipid_next(s->fd, &self.in);
	s->counts = true;
	s->next_id = (uint16_t)id;
	return id >= 0;
}

/* If the kernel or a filter refuses it, messages have addresses. */
static void connect_to(const struct txsock_set *set, struct txsock *s,
		       const struct txsock_peer *peer)
{
	const struct rocemu_path path = {.dgid = peer->gid, .flow_label = peer->flow_label};
	union addr to;
	const socklen_t len = txsock_address(set, s, &path, &to);
	bool done = may_connect(set, s, &peer->gid);

	if (done) {
		done = !sys_connect(s->fd, &to.sa, len);
		s->connected |= done;
		s->no_connect = !done;
	}
	if (!done || (rocemu_gid_is_ipv4(&peer->gid) && !start_counting(set, s)))
		disconnect(s);
	s->peer = *peer;
	s->peer_score = 0;
}

static void set_segment(struct txsock *s, uint16_t size)
{
	const int value = size;

	/* A socket that refuses it keeps the one it has. */
	if (!setsockopt(s->fd, IPPROTO_UDP, UDP_SEGMENT, &value, sizeof(value)))
		s->segment = size;
	s->segment_score = 0;
}

void txsock_messages_sent(const struct txsock_set *set, struct txsock *s, unsigned n)
{
	s->next_id = (uint16_t)(s->next_id + n);
	if (unlikely(s->segment_score == EVIDENCE))
		set_segment(s, s->segment_wanted);
	if (unlikely(s->peer_score == EVIDENCE))
		connect_to(set, s, &s->peer_wanted);
}

void txsock_stop_counting(struct txsock *s)
{
	if (unlikely(s->counts))
		disconnect(s);
}

bool txsock_make_plain(struct txsock *s)
{
	const bool had_segment = s->segment != 0, had_peer = disconnect(s);

	if (had_segment)
		set_segment(s, 0);
	return had_peer || (had_segment && !s->segment);
}
