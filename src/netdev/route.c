/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/route.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/netconf.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/syssocket.h"
#include "base/util.h"
#include "netdev/addr.h"

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

enum {
	NUD_KNOWN = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP,
	ANSWER_BYTES = 1024, /* what is used of an answer; on the stack, which may be small */
	UNICAST_IF4 = 50,    /* IP_UNICAST_IF of <linux/in.h>, IPV6_UNICAST_IF of */
	UNICAST_IF6 = 76,    /* <linux/in6.h>: not to be included with <netinet/in.h> */
	VIA6_LEN = 2 + 16,   /* struct rtvia with an IPv6 address */
};

#define CACHE_NS 1000000000u

/* ---- rtnetlink ---- */

struct request {
	struct nlmsghdr h;
	_Alignas(NLMSG_ALIGNTO) char body[128];
};

struct answer {
	_Alignas(struct nlmsghdr) char buf[ANSWER_BYTES];
	size_t len; /* of the message in buf */
};

/* Its fixed part. */
static const void *body_of(const struct answer *a)
{
	return a->buf + NLMSG_HDRLEN;
}

int route_open(void)
{
	const int fd = sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	return fd < 0 ? -errno : fd;
}

static void request_init(struct request *r, uint16_t type, const void *body, size_t len)
{
	memset(r, 0, sizeof(*r));
	r->h.nlmsg_type = type;
	r->h.nlmsg_flags = NLM_F_REQUEST;
	r->h.nlmsg_len = (uint32_t)NLMSG_LENGTH(len);
	memcpy(NLMSG_DATA(&r->h), body, len);
}

static void request_add(struct request *r, uint16_t type, const void *data, size_t len)
{
	struct rtattr *a = (void *)((char *)r + NLMSG_ALIGN(r->h.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(a), data, len);
	r->h.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->h.nlmsg_len) + RTA_ALIGN(a->rta_len));
}

/*
 * The kernel answers before the request has returned. body_len: of the answer's fixed part.
 * @return 0, the kernel's -errno, or -EPROTO: no answer of that type.
 */
static int request_do(int fd, const struct request *r, uint16_t type, size_t body_len,
		      struct answer *a)
{
	const struct nlmsghdr *h = (const void *)a->buf;
	struct nlmsgerr e;
	ssize_t n;

	if (send(fd, r, r->h.nlmsg_len, MSG_NOSIGNAL) < 0)
		return -errno;
	n = recv(fd, a->buf, sizeof(a->buf), MSG_DONTWAIT);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(e.error)) || h->nlmsg_len < NLMSG_LENGTH(0))
		return -EPROTO;
	a->len = MIN((size_t)n, (size_t)h->nlmsg_len);
	if (h->nlmsg_type == NLMSG_ERROR) {
		memcpy(&e.error, body_of(a), sizeof(e.error));
		return e.error < 0 ? e.error : -EPROTO;
	}
	return h->nlmsg_type == type && a->len >= NLMSG_LENGTH(body_len) ? 0 : -EPROTO;
}

/* The data of an attribute behind the fixed part. NULL: there is none of that length. */
static const void *attribute_at(const struct answer *a, size_t body_len, uint16_t type, size_t len)
{
	const struct rtattr *at;

	for (size_t i = NLMSG_ALIGN(NLMSG_LENGTH(body_len)); i + RTA_LENGTH(0) <= a->len;
	     i += RTA_ALIGN(at->rta_len)) {
		at = (const void *)(a->buf + i);
		if (at->rta_len < RTA_LENGTH(0) || i + at->rta_len > a->len)
			return NULL;
		if ((at->rta_type & NLA_TYPE_MASK) == type)
			return RTA_PAYLOAD(at) >= len ? (const char *)at + RTA_LENGTH(0) : NULL;
	}
	return NULL;
}

/* Of a route. */
static const void *attribute(const struct answer *a, uint16_t type, size_t len)
{
	return attribute_at(a, sizeof(struct rtmsg), type, len);
}

/* ---- routes ---- */

/* An address as rtnetlink has it. */
static const uint8_t *bytes_of(const struct rocemu_gid *gid, size_t *len)
{
	*len = rocemu_gid_is_ipv4(gid) ? 4 : 16;
	return gid->raw + sizeof(gid->raw) - *len;
}

/* src NULL: any; oif 0: any. flags: RTM_F_FIB_MATCH: the entry of the table, not the way that the
 * kernel makes of it. @return as request_do(). */
static int lookup(int fd, const struct rocemu_gid *src, const struct rocemu_gid *dst, uint32_t oif,
		  unsigned flags, struct answer *a)
{
	struct rtmsg rt = {.rtm_family = rocemu_gid_is_ipv4(dst) ? AF_INET : AF_INET6,
			   .rtm_flags = flags};
	struct request r;
	size_t len;
	const uint8_t *to = bytes_of(dst, &len);

	rt.rtm_dst_len = (uint8_t)(8 * len);
	rt.rtm_src_len = src ? rt.rtm_dst_len : 0;
	request_init(&r, RTM_GETROUTE, &rt, sizeof(rt));
	request_add(&r, RTA_DST, to, len);
	if (src)
		request_add(&r, RTA_SRC, bytes_of(src, &len), len);
	if (oif)
		request_add(&r, RTA_OIF, &oif, sizeof(oif));
	return request_do(fd, &r, RTM_NEWROUTE, sizeof(rt), a);
}

static uint8_t type_of(const struct answer *a)
{
	struct rtmsg rt;

	memcpy(&rt, body_of(a), sizeof(rt));
	return rt.rtm_type;
}

static unsigned interface_of(const struct answer *a)
{
	const void *oif = attribute(a, RTA_OIF, sizeof(uint32_t));
	uint32_t ifindex = 0;

	if (oif)
		memcpy(&ifindex, oif, sizeof(ifindex));
	return ifindex;
}

static bool has_gateway(const struct answer *a)
{
	return attribute(a, RTA_GATEWAY, 1) || attribute(a, RTA_VIA, 1);
}

/* The way that an answer describes. */
static void take(const struct answer *a, const struct rocemu_gid *dst, struct route *r)
{
	size_t len;
	const uint8_t *to = bytes_of(dst, &len), *via = attribute(a, RTA_VIA, VIA6_LEN);
	const void *gateway = attribute(a, RTA_GATEWAY, len);

	r->next = *dst;
	r->ifindex = interface_of(a);
	if (gateway)
		memcpy(r->next.raw + (to - dst->raw), gateway, len);
	else if (via) /* an IPv6 router of an IPv4 route */
		memcpy(r->next.raw, via + VIA6_LEN - sizeof(r->next.raw), sizeof(r->next.raw));
}

/* A route by that interface, which the one that the kernel prefers is not. */
static bool find_own(int fd, unsigned ifindex, const struct rocemu_gid *src,
		     const struct rocemu_gid *dst, struct route *r)
{
	struct answer a, entry;

	if (rocemu_gid_is_ipv4(dst)) {
		/* Without a route, the kernel takes any destination for a neighbour. */
		if (lookup(fd, src, dst, ifindex, 0, &a) ||
		    (!has_gateway(&a) && lookup(fd, src, dst, ifindex, RTM_F_FIB_MATCH, &entry)))
			return false;
	} else if (lookup(fd, src, dst, ifindex, 0, &a) || interface_of(&a) != ifindex) {
		/* With a source, the interface is a preference among routes of one metric only. */
		if (lookup(fd, NULL, dst, ifindex, 0, &a) || interface_of(&a) != ifindex)
			return false;
	}
	take(&a, dst, r);
	return true;
}

/* net.ipv4.conf.INTERFACE.rp_filter; that of "all" with -1. 0: it cannot be read. */
static int rp_filter(int fd, int32_t ifindex)
{
	const struct netconfmsg m = {.ncm_family = AF_INET};
	int32_t value = 0;
	const void *at;
	struct request r;
	struct answer a;

	request_init(&r, RTM_GETNETCONF, &m, sizeof(m));
	request_add(&r, NETCONFA_IFINDEX, &ifindex, sizeof(ifindex));
	if (request_do(fd, &r, RTM_NEWNETCONF, sizeof(m), &a))
		return 0;
	at = attribute_at(&a, sizeof(m), NETCONFA_RP_FILTER, sizeof(value));
	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

/*
 * Does this host drop a packet that comes in by the interface, if its own packets to the sender
 * would prefer another one? The higher of the two settings counts; 1 is strict, 2 is not.
 */
static bool is_strict(int fd, unsigned ifindex)
{
	return MAX(rp_filter(fd, NETCONFA_IFINDEX_ALL), rp_filter(fd, (int32_t)ifindex)) == 1;
}

/* Then it has no routes. */
static bool is_down(unsigned ifindex)
{
	const unsigned flags = route_interface_flags(ifindex);

	return flags && !(flags & IFF_UP);
}

static enum route_kind kind_of_error(int err)
{
	return err == -EPROTO || err == -EPERM || err == -EOPNOTSUPP || err == -ENOBUFS
		       ? ROUTE_UNKNOWN
		       : ROUTE_NONE;
}

/* The way that the kernel prefers. */
static void find_preferred(int fd, unsigned ifindex, const struct rocemu_gid *src,
			   const struct rocemu_gid *dst, struct route *r)
{
	const bool scoped = addr_gid_is_link_local(dst);
	struct answer a;
	const int err = lookup(fd, src, dst, scoped ? ifindex : 0, 0, &a);
	uint8_t type;

	*r = (struct route){.kind = kind_of_error(err), .next = *dst};
	if (err)
		return;
	type = type_of(&a);
	if (type == RTN_LOCAL || type == RTN_ANYCAST) {
		r->kind = ROUTE_LOCAL;
		r->bind = scoped ? ifindex : 0;
	} else if (type == RTN_BROADCAST) {
		r->kind = ROUTE_BROADCAST;
	} else {
		take(&a, dst, r);
		r->kind = !ifindex || r->ifindex == ifindex ? ROUTE_OWN : ROUTE_OTHER;
	}
}

/* No table needs to be read. */
static bool is_surely_local(const struct rocemu_gid *src, const struct rocemu_gid *dst)
{
	return rocemu_gid_equal(src, dst) || addr_gid_is_loopback(dst);
}

void route_find(int fd, unsigned ifindex, const struct rocemu_gid *src,
		const struct rocemu_gid *dst, struct route *r)
{
	struct route own = {.kind = ROUTE_OWN, .ifindex = ifindex, .next = *dst};
	bool found;

	*r = (struct route){.kind = ROUTE_LOCAL, .next = *dst};
	if (is_surely_local(src, dst))
		return;
	find_preferred(fd, ifindex, src, dst, r);
	if (ifindex && (r->kind == ROUTE_OTHER || r->kind == ROUTE_NONE)) {
		found = find_own(fd, ifindex, src, dst, &own);
		if (found && r->kind == ROUTE_OTHER && rocemu_gid_is_ipv4(dst) &&
		    is_strict(fd, ifindex))
			r->kind = ROUTE_FILTERED;
		else if (found || is_down(ifindex))
			*r = own;
	}
	if (r->kind == ROUTE_OWN)
		r->bind = ifindex;
}

/* The interface that has the address; 0: none, or not known. */
static unsigned route_home(int fd, const struct rocemu_gid *addr)
{
	struct answer a;

	if (lookup(fd, NULL, addr, 0, RTM_F_FIB_MATCH, &a) || type_of(&a) != RTN_LOCAL)
		return 0;
	return interface_of(&a);
}

bool route_neighbour_known(int fd, const struct route *r)
{
	struct ndmsg nd = {.ndm_family = rocemu_gid_is_ipv4(&r->next) ? AF_INET : AF_INET6,
			   .ndm_ifindex = (int)r->ifindex};
	struct request req;
	struct answer a;
	size_t len;
	const uint8_t *next = bytes_of(&r->next, &len);
	int err;

	request_init(&req, RTM_GETNEIGH, &nd, sizeof(nd));
	request_add(&req, NDA_DST, next, len);
	err = request_do(fd, &req, RTM_NEWNEIGH, sizeof(nd), &a);
	if (err)
		return err != -ENOENT;
	memcpy(&nd, body_of(&a), sizeof(nd));
	return nd.ndm_state & NUD_KNOWN;
}

/* ---- ways that were found a moment ago ---- */

int route_cached(struct route_cache *c, uint64_t now_ns, unsigned ifindex,
		 const struct rocemu_gid *src, const struct rocemu_gid *dst, struct route *r)
{
	const unsigned at = (unsigned)(dst->raw[15] ^ dst->raw[14] ^ src->raw[15] ^ dst->raw[13]);
	struct route_entry *e = &c->entry[at % ARRAY_LEN(c->entry)];
	int fd;

	*r = (struct route){.kind = ROUTE_LOCAL, .next = *dst};
	if (is_surely_local(src, dst))
		return 0;
	if (now_ns >= e->until || !rocemu_gid_equal(&e->dst, dst) ||
	    !rocemu_gid_equal(&e->src, src)) {
		fd = route_open();
		if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS)
			return fd;
		*e = (struct route_entry){.src = *src, .dst = *dst, .until = now_ns + CACHE_NS};
		if (fd >= 0) {
			ifindex = ifindex ? ifindex : route_home(fd, src);
			if (ifindex)
				route_find(fd, ifindex, src, dst, &e->route);
			close(fd);
		}
	}
	*r = e->route;
	return 0;
}

/* ---- sockets ---- */

int route_bind_socket(int fd, bool ipv4, unsigned ifindex)
{
	const int index = (int)ifindex;
	const uint32_t wire = htonl(ifindex);
	int bound = 0;
	socklen_t len = sizeof(bound);

	if (!getsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &bound, &len) && bound)
		return 0;
	if (!setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof(index)) ||
	    !setsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? UNICAST_IF4 : UNICAST_IF6,
			&wire, sizeof(wire)))
		return 0;
	return -errno;
}

unsigned route_interface_flags(unsigned ifindex)
{
	struct ifreq ifr = {0};
	const int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned flags = 0;

	if (fd < 0)
		return 0;
	if (if_indextoname(ifindex, ifr.ifr_name) && !ioctl(fd, SIOCGIFFLAGS, &ifr))
		flags = (unsigned short)ifr.ifr_flags;
	close(fd);
	return flags;
}
