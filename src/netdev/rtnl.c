/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/rtnl.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/syssocket.h"
#include "base/util.h"
#include "wire/ip.h"

#ifndef RTEXT_FILTER_SKIP_STATS
#define RTEXT_FILTER_SKIP_STATS (1 << 3)
#endif
#ifndef NETLINK_GET_STRICT_CHK
#define NETLINK_GET_STRICT_CHK 12
#endif

enum {
	ANSWER_BYTES = 32768, /* the most that the kernel puts into a part of a list */
	TRIES = 4,	      /* of a list that changed while it was read */
};

/* ---- messages ---- */

/**
 * The attributes of a message behind a header of that size, by type, in *at; NULL: it has none.
 * @return false: not well-formed.
 */
static bool attributes(const uint8_t *data, size_t len, const struct rtattr **at, unsigned n)
{
	memset(at, 0, n * sizeof(*at));
	while (len >= sizeof(struct rtattr)) {
		const struct rtattr *a = (const void *)data;
		const unsigned type =
			(uint16_t)(a->rta_type & ~(NLA_F_NESTED | NLA_F_NET_BYTEORDER));

		if (a->rta_len < sizeof(*a) || a->rta_len > len)
			return false;
		if (type < n)
			at[type] = a;
		data += MIN((size_t)RTA_ALIGN(a->rta_len), len);
		len -= MIN((size_t)RTA_ALIGN(a->rta_len), len);
	}
	return true;
}

/* RTA_DATA() and NLMSG_DATA() drop the const. */
static const void *data_of(const struct rtattr *a)
{
	return (const uint8_t *)a + RTA_LENGTH(0);
}

static const void *body_of(const struct nlmsghdr *h)
{
	return (const uint8_t *)h + NLMSG_HDRLEN;
}

static size_t payload(const struct rtattr *a)
{
	return a ? a->rta_len - RTA_LENGTH(0) : 0;
}

static uint32_t number(const struct rtattr *a, uint32_t otherwise)
{
	uint32_t value = otherwise;

	if (payload(a) >= sizeof(value))
		memcpy(&value, data_of(a), sizeof(value));
	return value;
}

/** A string that fits. */
static void text(const struct rtattr *a, char *out, size_t size)
{
	const size_t n = payload(a) ? strnlen(data_of(a), payload(a)) : 0;

	if (n < size) {
		memcpy(out, n ? data_of(a) : "", n);
		out[n] = 0;
	}
}

/** The message's fixed part of that length, and its attributes. */
static const void *open_message(const void *data, size_t len, uint16_t type, size_t fixed,
				const struct rtattr **at, unsigned n)
{
	const struct nlmsghdr *h = data;

	if (len < sizeof(*h) || h->nlmsg_type != type || h->nlmsg_len < NLMSG_SPACE(fixed) ||
	    h->nlmsg_len > len ||
	    !attributes((const uint8_t *)data + NLMSG_SPACE(fixed),
			h->nlmsg_len - NLMSG_SPACE(fixed), at, n))
		return NULL;
	return body_of(h);
}

bool rtnl_decode_link(const void *data, size_t len, struct rtnl_link *out)
{
	const struct rtattr *at[IFLA_LINKINFO + 1], *info[IFLA_INFO_SLAVE_KIND + 1];
	const struct ifinfomsg *m =
		open_message(data, len, RTM_NEWLINK, sizeof(*m), at, ARRAY_LEN(at));

	if (!m || m->ifi_family != AF_UNSPEC || m->ifi_index <= 0)
		return false;
	*out = (struct rtnl_link){.ifindex = (unsigned)m->ifi_index,
				  .flags = m->ifi_flags,
				  .mtu = number(at[IFLA_MTU], 0),
				  .master = number(at[IFLA_MASTER], 0)};
	text(at[IFLA_IFNAME], out->name, sizeof(out->name));
	if (m->ifi_type == ARPHRD_ETHER && payload(at[IFLA_ADDRESS]) == sizeof(out->mac))
		memcpy(out->mac, data_of(at[IFLA_ADDRESS]), sizeof(out->mac));
	if (at[IFLA_LINKINFO] && attributes(data_of(at[IFLA_LINKINFO]), payload(at[IFLA_LINKINFO]),
					    info, ARRAY_LEN(info)))
		text(info[IFLA_INFO_SLAVE_KIND], out->master_kind, sizeof(out->master_kind));
	return out->name[0];
}

bool rtnl_decode_address(const void *data, size_t len, struct rtnl_address *out)
{
	const struct rtattr *at[IFA_FLAGS + 1], *a;
	const struct ifaddrmsg *m =
		open_message(data, len, RTM_NEWADDR, sizeof(*m), at, ARRAY_LEN(at));
	uint32_t flags;

	if (!m)
		return false;
	/* The other one is the peer's, where they differ. */
	a = at[IFA_LOCAL] ? at[IFA_LOCAL] : at[IFA_ADDRESS];
	flags = number(at[IFA_FLAGS], m->ifa_flags);
	*out = (struct rtnl_address){.ifindex = m->ifa_index};
	if (m->ifa_family == AF_INET && payload(a) == 4) {
		gid_from_ipv4(&out->gid, data_of(a));
		return true;
	}
	if (m->ifa_family != AF_INET6 || payload(a) != sizeof(out->gid.raw))
		return false;
	memcpy(out->gid.raw, data_of(a), sizeof(out->gid.raw));
	out->tentative = (flags & IFA_F_DADFAILED) ||
			 ((flags & IFA_F_TENTATIVE) && !(flags & IFA_F_OPTIMISTIC));
	return true;
}

/* ---- requests ---- */

struct reader {
	int fd;
	unsigned ifindex; /* 0: all */
	bool ipv4;	  /* of addresses */
	struct rtnl_listing *out;
	unsigned room_links, room_addresses;
	uint8_t *answer;
	bool changed; /* while the list was read */
};

/** Make room for one more entry. @return false: out of memory. */
static bool grow(void **entries, unsigned n, unsigned *room, size_t size)
{
	const unsigned more = *room ? 2 * *room : 16;
	void *p;

	if (n < *room)
		return true;
	p = realloc(*entries, more * size);
	if (!p)
		return false;
	*entries = p;
	*room = more;
	return true;
}

/** @return 0 or -ENOMEM. */
static int take(struct reader *r, const struct nlmsghdr *h, size_t len)
{
	struct rtnl_listing *out = r->out;
	struct rtnl_address address;
	struct rtnl_link link;

	if (rtnl_decode_link(h, len, &link) && (!r->ifindex || link.ifindex == r->ifindex)) {
		if (!grow((void **)&out->links, out->nlinks, &r->room_links, sizeof(link)))
			return -ENOMEM;
		out->links[out->nlinks++] = link;
	}
	/* A kernel before 4.20 lists those of all interfaces, one without IPv6 lists IPv4 again. */
	if (rtnl_decode_address(h, len, &address) && gid_is_ipv4(&address.gid) == r->ipv4 &&
	    (!r->ifindex || address.ifindex == r->ifindex)) {
		if (!grow((void **)&out->addresses, out->naddresses, &r->room_addresses,
			  sizeof(address)))
			return -ENOMEM;
		out->addresses[out->naddresses++] = address;
	}
	return 0;
}

/** The messages of one part. @return 1: the last one is among them, 0: it is not, or -errno. */
static int take_part(struct reader *r, size_t len, bool list)
{
	struct nlmsghdr *h = (void *)r->answer;
	struct nlmsgerr e;
	int ret;

	for (; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
		r->changed |= h->nlmsg_flags & NLM_F_DUMP_INTR;
		if (h->nlmsg_type == NLMSG_DONE)
			return 1;
		if (h->nlmsg_type == NLMSG_ERROR) {
			if (h->nlmsg_len < NLMSG_LENGTH(sizeof(e)))
				return -EPROTO;
			memcpy(&e, body_of(h), sizeof(e));
			return e.error < 0 ? e.error : -EPROTO;
		}
		ret = take(r, h, len);
		if (ret < 0)
			return ret;
		if (!list)
			return 1;
	}
	return 0;
}

/** Send a request and take what the kernel answers. list: of several messages. */
static int request(struct reader *r, struct nlmsghdr *h, bool list)
{
	int ret;

	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | (list ? NLM_F_DUMP : 0));
	if (send(r->fd, h, h->nlmsg_len, MSG_NOSIGNAL) < 0)
		return -errno;
	do {
		const ssize_t n = TEMP_FAILURE_RETRY(recv(r->fd, r->answer, ANSWER_BYTES, 0));

		ret = n < 0 ? -errno : n == 0 ? -EPROTO : take_part(r, (size_t)n, list);
	} while (ret == 0);
	return MIN(ret, 0);
}

static int read_links(struct reader *r)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg m;
		struct rtattr a;
		uint32_t mask;
	} q = {
		.h = {.nlmsg_type = RTM_GETLINK, .nlmsg_len = sizeof(q)},
		.m = {.ifi_index = (int)r->ifindex},
		.a = {.rta_type = IFLA_EXT_MASK, .rta_len = RTA_LENGTH(sizeof(q.mask))},
		.mask = RTEXT_FILTER_SKIP_STATS,
	};

	return request(r, &q.h, !r->ifindex);
}

static int read_addresses(struct reader *r, bool ipv4)
{
	struct {
		struct nlmsghdr h;
		struct ifaddrmsg m;
	} q = {
		.h = {.nlmsg_type = RTM_GETADDR, .nlmsg_len = sizeof(q)},
		.m = {.ifa_family = ipv4 ? AF_INET : AF_INET6, .ifa_index = r->ifindex},
	};

	r->ipv4 = ipv4;
	return request(r, &q.h, true);
}

static int read_all(struct reader *r)
{
	int ret;

	r->changed = false;
	r->out->nlinks = r->out->naddresses = 0;
	ret = read_links(r);
	if (ret == 0)
		ret = read_addresses(r, true);
	if (ret == 0)
		ret = read_addresses(r, false);
	return ret == 0 && r->ifindex && !r->out->nlinks ? -ENODEV : ret;
}

int rtnl_read(unsigned ifindex, struct rtnl_listing *out)
{
	struct reader r = {.ifindex = ifindex, .out = out};
	const int one = 1;
	int ret;

	*out = (struct rtnl_listing){0};
	r.fd = sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (r.fd < 0)
		return -errno;
	/* The kernel lists the addresses of the interface only. */
	(void)setsockopt(r.fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &one, sizeof(one));
	r.answer = malloc(ANSWER_BYTES);
	ret = r.answer ? 0 : -ENOMEM;
	/* A list that changes all the time is taken as it is; the change is an event. */
	for (unsigned tries = 0; ret == 0 && tries < TRIES; tries++) {
		ret = read_all(&r);
		if (!r.changed)
			break;
	}
	free(r.answer);
	close(r.fd);
	if (ret < 0)
		rtnl_free(out);
	return ret;
}

void rtnl_free(struct rtnl_listing *l)
{
	free(l->links);
	free(l->addresses);
	*l = (struct rtnl_listing){0};
}
