/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams for NETLINK_RDMA: whatever they are, the answers are messages and attributes that lie
 * within each other, no larger than a program receives, and of a number that depends on what there
 * is alone.
 */
#include "driver.h"

#include <linux/netlink.h>
#include <string.h>

#include "nldev/abi.h"
#include "nldev/nldev.h"

enum { DEVS = 3, QPS = 200, PORT = 4711 };

struct out {
	size_t datagrams;
	size_t done; /* ends: acknowledgements, errors, ends of dumps */
};

static bool is_nest(unsigned type)
{
	return type == NLDEV_RES_SUMMARY || type == NLDEV_RES_SUMMARY_ENTRY ||
	       type == NLDEV_RES_QP || type == NLDEV_RES_QP_ENTRY ||
	       type == NLDEV_STAT_HWCOUNTERS || type == NLDEV_STAT_HWCOUNTER;
}

static void check_attrs(const uint8_t *p, size_t len)
{
	while (len) {
		struct nlattr a;

		FUZZ_CHECK(len >= sizeof(a));
		memcpy(&a, p, sizeof(a));
		FUZZ_CHECK(a.nla_len >= sizeof(a) && nlout_align(a.nla_len) <= len);
		FUZZ_CHECK(a.nla_type > 0 && a.nla_type < NLDEV_ATTRS);
		if (is_nest(a.nla_type))
			check_attrs(p + sizeof(a), a.nla_len - sizeof(a));
		p += nlout_align(a.nla_len);
		len -= nlout_align(a.nla_len);
	}
}

static void take(void *user, const void *data, size_t len)
{
	struct out *out = user;
	const uint8_t *p = data;

	FUZZ_CHECK(len > 0 && len <= NLOUT_MAX);
	out->datagrams++;
	while (len) {
		struct nlmsghdr h;

		FUZZ_CHECK(len >= sizeof(h));
		memcpy(&h, p, sizeof(h));
		FUZZ_CHECK(h.nlmsg_len >= sizeof(h) && nlout_align(h.nlmsg_len) <= len);
		FUZZ_CHECK(h.nlmsg_pid == PORT);
		if (h.nlmsg_type == NLMSG_ERROR || h.nlmsg_type == NLMSG_DONE) {
			int err;

			FUZZ_CHECK(h.nlmsg_len >= sizeof(h) + sizeof(err));
			memcpy(&err, p + sizeof(h), sizeof(err));
			FUZZ_CHECK(err <= 0 && err > -4096);
			out->done++;
		} else {
			FUZZ_CHECK(h.nlmsg_type >> NLDEV_CLIENT_SHIFT == NLDEV_CLIENT);
			check_attrs(p + sizeof(h), h.nlmsg_len - sizeof(h));
		}
		p += nlout_align(h.nlmsg_len);
		len -= nlout_align(h.nlmsg_len);
	}
}

static const struct countfile *counts(void *user, unsigned dev)
{
	FUZZ_CHECK(dev < DEVS);
	return dev == 1 ? user : NULL;
}

static uint64_t objects(void *user, unsigned dev, enum rocemu_object kind)
{
	(void)user;
	FUZZ_CHECK(dev < DEVS && kind < ROCEMU_OBJECT_COUNT);
	return UINT64_MAX - kind;
}

static bool next_qp(void *user, unsigned dev, uint64_t *cursor, struct nldev_qp *qp)
{
	static const uint8_t types[] = {IBV_QPT_RC,	  IBV_QPT_UC,	    IBV_QPT_UD,
					IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, 0xff};

	(void)user;
	FUZZ_CHECK(dev < DEVS);
	if (*cursor == QPS)
		return false;
	*qp = (struct nldev_qp){
		.pid = 1,
		.info = {.qpn = (uint32_t)(2 + *cursor), .type = types[*cursor % sizeof(types)]}};
	++*cursor;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct netdev devs[DEVS] = {
		{.name = "dev0", .ifname = "lo", .active = true, .naddrs = 1},
		{.name = "a-name-of-63-characters-as-long-as-one-may-be-and-not-one-more-.",
		 .ifname = "eth0"},
		{.name = "x", .ifname = "a-name-of-15-ch"},
	};
	static struct countfile file = {
		.ncounters = 3,
		.counter = {{.name = "counters/a", .divisor = 1},
			    {.name = "hw_counters/b", .divisor = 1, .offset = 7},
			    {.name = "hw_counters/lifespan", .divisor = 1}},
	};
	const struct nldev_world world = {
		.devs = devs,
		.ndevs = DEVS,
		.fw_ver = "1.2.3",
		.counts = counts,
		.objects = objects,
		.next_qp = next_qp,
		.user = &file,
	};
	struct out out = {0};
	struct nlout o = {.port = PORT, .send = take, .user = &out};

	nldev_answer(&world, data, size, &o);
	/* A request has at most one end, and all QPs need less than four datagrams for each 30 of
	 * them. */
	FUZZ_CHECK(out.done <= size / sizeof(struct nlmsghdr));
	FUZZ_CHECK(out.datagrams <= size / sizeof(struct nlmsghdr) * (3 + DEVS + QPS / 8));
	return 0;
}
