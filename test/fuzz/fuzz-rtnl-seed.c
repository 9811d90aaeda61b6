/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-rtnl starts from: a link that is a bridge's port, and addresses of both families. */
#include "driver.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/socket.h>

struct message {
	_Alignas(struct nlmsghdr) uint8_t bytes[256];
	size_t len;
};

static void *add(struct message *m, const void *data, size_t len)
{
	void *at = m->bytes + m->len;

	if (data)
		memcpy(at, data, len);
	m->len += NLMSG_ALIGN(len);
	return at;
}

static struct rtattr *add_attribute(struct message *m, uint16_t type, const void *data, size_t len)
{
	const struct rtattr a = {.rta_type = type, .rta_len = (uint16_t)RTA_LENGTH(len)};
	struct rtattr *at = add(m, &a, sizeof(a));

	if (len)
		add(m, data, len);
	return at;
}

static void add_message(struct fuzz_corpus *c, struct message *m, uint16_t type)
{
	const struct nlmsghdr h = {.nlmsg_len = (uint32_t)m->len, .nlmsg_type = type};

	memcpy(m->bytes, &h, sizeof(h));
	fuzz_corpus_add(c, m->bytes, m->len);
}

static void add_link(struct fuzz_corpus *c)
{
	const struct ifinfomsg info = {.ifi_index = 7, .ifi_type = ARPHRD_ETHER, .ifi_flags = 1};
	struct message m = {.len = NLMSG_HDRLEN};
	const uint32_t mtu = 1500, master = 3;
	struct rtattr *nest;
	size_t from;

	add(&m, &info, sizeof(info));
	add_attribute(&m, IFLA_IFNAME, "veth0", 6);
	add_attribute(&m, IFLA_MTU, &mtu, sizeof(mtu));
	add_attribute(&m, IFLA_ADDRESS, "\2\0\0\0\0\1", 6);
	add_attribute(&m, IFLA_MASTER, &master, sizeof(master));
	from = m.len;
	nest = add_attribute(&m, IFLA_LINKINFO, NULL, 0);
	add_attribute(&m, IFLA_INFO_KIND, "veth", 5);
	add_attribute(&m, IFLA_INFO_SLAVE_KIND, "bridge", 7);
	nest->rta_len = (uint16_t)(m.len - from);
	add_message(c, &m, RTM_NEWLINK);
}

static void add_address(struct fuzz_corpus *c, uint8_t family, size_t len)
{
	const struct ifaddrmsg info = {.ifa_family = family, .ifa_index = 7};
	const uint32_t flags = IFA_F_TENTATIVE;
	struct message m = {.len = NLMSG_HDRLEN};
	const uint8_t address[16] = {10, 0, 0, 1};

	add(&m, &info, sizeof(info));
	add_attribute(&m, IFA_ADDRESS, address, len);
	add_attribute(&m, IFA_LOCAL, address, len);
	add_attribute(&m, IFA_FLAGS, &flags, sizeof(flags));
	add_message(c, &m, RTM_NEWADDR);
}

void fuzz_seed(struct fuzz_corpus *c)
{
	add_link(c);
	add_address(c, AF_INET, 4);
	add_address(c, AF_INET6, 16);
}
