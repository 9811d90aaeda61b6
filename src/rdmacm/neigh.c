/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks that the next hop can be resolved. The kernel's rdma_cm resolves the neighbour's Ethernet
 * address, and reports ADDR_ERROR when there is no answer. The kernel delivers rocemu's packets, so
 * that address is not needed here; but without this check only the connection manager's timeout
 * would detect a wrong address, 103 s later.
 *
 * The kernel's neighbour table is read by rtnetlink, which needs no privilege. For a neighbour that
 * is not in it, an empty datagram to the discard port has the kernel look for it; the table is read
 * again until it is there, or the program's time is over. An unknown state counts as resolved.
 */
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/syssocket.h"
#include "rdmacm/addr.h"
#include "rdmacm/device.h"
#include "rdmacm/neigh.h"

enum {
	DISCARD_PORT = 9, /* RFC 863 */
	NUD_KNOWN = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP,
	ANSWER_BYTES = 1024, /* of one route or neighbour; on the stack, which may be small */
};

/* The next hop of a packet: an address on an interface. */
struct hop {
	int family;
	size_t len;
	uint8_t addr[16];
	uint32_t ifindex;
};

/* ---- rtnetlink ---- */

struct request {
	struct nlmsghdr h;
	_Alignas(NLMSG_ALIGNTO) char body[128];
};

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

/* The kernel answers before the request has returned. @return the answer of that type, in buf;
 * NULL with *err: there is none. */
static struct nlmsghdr *request_do(int fd, const struct request *r, uint16_t type, void *buf,
				   int *err)
{
	struct nlmsghdr *h = buf;
	struct nlmsgerr *e;
	ssize_t n;

	*err = -EPROTO;
	if (send(fd, r, r->h.nlmsg_len, 0) < 0)
		return NULL;
	n = recv(fd, buf, ANSWER_BYTES, MSG_DONTWAIT);
	if (n < 0 || !NLMSG_OK(h, (size_t)n))
		return NULL;
	e = NLMSG_DATA(h);
	if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(sizeof(*e)))
		*err = e->error;
	return h->nlmsg_type == type ? h : NULL;
}

/* ---- routes and neighbours ---- */

/* @return true: the hop that packets take needs an Ethernet address. */
static bool find_hop(int fd, const struct sockaddr *to, const struct rcm_local *from,
		     struct hop *hop)
{
	_Alignas(struct nlmsghdr) char buf[ANSWER_BYTES];
	size_t skip = to->sa_family == AF_INET ? 12 : 0; /* ::ffff: */
	struct rtmsg rt = {.rtm_family = (uint8_t)to->sa_family};
	uint32_t scope = rcm_addr_scope(to);
	struct nlmsghdr *h;
	struct rtattr *a;
	struct rocemu_gid gid;
	struct request r;
	int err;

	rcm_addr_to_gid(to, &gid);
	*hop = (struct hop){.family = to->sa_family, .len = 16 - skip};
	memcpy(hop->addr, gid.raw + skip, hop->len);
	rt.rtm_dst_len = rt.rtm_src_len = (uint8_t)(8 * hop->len);
	request_init(&r, RTM_GETROUTE, &rt, sizeof(rt));
	request_add(&r, RTA_DST, hop->addr, hop->len);
	request_add(&r, RTA_SRC, from->gid.raw + skip, hop->len);
	if (scope)
		request_add(&r, RTA_OIF, &scope, sizeof(scope));
	h = request_do(fd, &r, RTM_NEWROUTE, buf, &err);
	if (!h || h->nlmsg_len < NLMSG_LENGTH(sizeof(rt)))
		return false;
	memcpy(&rt, NLMSG_DATA(h), sizeof(rt));
	if (rt.rtm_type != RTN_UNICAST)
		return false;
	for (size_t at = NLMSG_LENGTH(sizeof(rt)); at + RTA_LENGTH(0) <= h->nlmsg_len;
	     at += RTA_ALIGN(a->rta_len)) {
		a = (void *)((char *)h + at);
		if (a->rta_len < RTA_LENGTH(0) || at + a->rta_len > h->nlmsg_len)
			return false;
		if (a->rta_type == RTA_OIF && RTA_PAYLOAD(a) == sizeof(hop->ifindex))
			memcpy(&hop->ifindex, RTA_DATA(a), sizeof(hop->ifindex));
		else if (a->rta_type == RTA_GATEWAY && RTA_PAYLOAD(a) == hop->len)
			memcpy(hop->addr, RTA_DATA(a), hop->len);
		else if (a->rta_type == RTA_VIA || a->rta_type == RTA_MULTIPATH)
			return false; /* of another family; any of several */
	}
	return hop->ifindex != 0;
}

static bool is_known(int fd, const struct hop *hop)
{
	_Alignas(struct nlmsghdr) char buf[ANSWER_BYTES];
	struct ndmsg nd = {.ndm_family = (uint8_t)hop->family, .ndm_ifindex = (int)hop->ifindex};
	struct nlmsghdr *h;
	struct request r;
	int err;

	request_init(&r, RTM_GETNEIGH, &nd, sizeof(nd));
	request_add(&r, NDA_DST, hop->addr, hop->len);
	h = request_do(fd, &r, RTM_NEWNEIGH, buf, &err);
	if (!h || h->nlmsg_len < NLMSG_LENGTH(sizeof(nd)))
		return err != -ENOENT;
	memcpy(&nd, NLMSG_DATA(h), sizeof(nd));
	return nd.ndm_state & NUD_KNOWN;
}

/* Does the interface resolve neighbours' addresses? */
static bool has_neighbours(const struct hop *hop)
{
	struct ifreq ifr = {0};
	int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool yes;

	if (fd < 0)
		return false;
	yes = if_indextoname(hop->ifindex, ifr.ifr_name) && ioctl(fd, SIOCGIFFLAGS, &ifr) == 0 &&
	      !(ifr.ifr_flags & (IFF_NOARP | IFF_LOOPBACK | IFF_POINTOPOINT));
	close(fd);
	return yes;
}

static void solicit(const struct sockaddr *to, const struct rcm_local *from)
{
	struct sockaddr_storage own, there;
	int fd = sys_socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	rcm_addr_from_gid((struct sockaddr *)&own, &from->gid, 0, from->scope_id);
	rcm_addr_copy(&there, to);
	rcm_addr_set_port((struct sockaddr *)&there, DISCARD_PORT);
	if (bind(fd, (struct sockaddr *)&own, rcm_addr_len((struct sockaddr *)&own)) == 0)
		sendto(fd, "", 0, MSG_NOSIGNAL, (struct sockaddr *)&there, rcm_addr_len(to));
	close(fd);
}

bool rcm_neigh_known(const struct sockaddr *to, const struct rcm_local *from)
{
	bool known = true;
	struct rocemu_gid gid;
	struct hop hop;
	int fd;

	rcm_addr_to_gid(to, &gid);
	if (rcm_addr_loopback(to) || rocemu_gid_equal(&gid, &from->gid))
		return true;
	fd = sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return true;
	if (find_hop(fd, to, from, &hop) && !is_known(fd, &hop) && has_neighbours(&hop)) {
		solicit(to, from);
		/* Often the answer has come by now. */
		known = is_known(fd, &hop);
	}
	close(fd);
	return known;
}
