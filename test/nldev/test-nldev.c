/* SPDX-License-Identifier: BSD-2-Clause */
#include "nldev/nldev.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>

#include "base/util.h"
#include "nldev/abi.h"
#include "test.h"

enum { PORT = 99, SEQ = 5 };
#define ALL  (NLM_F_REQUEST | NLM_F_DUMP)
#define ONE  (NLM_F_REQUEST | NLM_F_ACK)
#define NONE 0xffff

static struct netdev devs[] = {
	{.name = "dev0", .ifname = "lo", .ifindex = 1, .active = true, .guid = 0x1122},
	{.name = "dev1", .ifname = "eth0", .ifindex = 2, .guid = 0x3344},
};
static unsigned nqps;

/* What was answered: messages with content, and how it ended. */
static struct {
	unsigned datagrams, messages, acks, dones;
	int err;
	uint8_t first[NLOUT_MAX];
	size_t first_len;
} got;

static void take(void *user, const void *data, size_t len)
{
	const uint8_t *p = data;

	(void)user;
	got.datagrams++;
	while (len) {
		struct nlmsghdr h;

		assert_true(len >= sizeof(h));
		memcpy(&h, p, sizeof(h));
		assert_true(h.nlmsg_len >= sizeof(h) && h.nlmsg_len <= len);
		assert_int_equal(h.nlmsg_seq, SEQ);
		assert_int_equal(h.nlmsg_pid, PORT);
		if (h.nlmsg_type == NLMSG_ERROR || h.nlmsg_type == NLMSG_DONE) {
			memcpy(&got.err, p + sizeof(h), sizeof(got.err));
			got.acks += h.nlmsg_type == NLMSG_ERROR;
			got.dones += h.nlmsg_type == NLMSG_DONE;
		} else if (!got.messages++) {
			memcpy(got.first, p, h.nlmsg_len);
			got.first_len = h.nlmsg_len;
		}
		p += h.nlmsg_len;
		len -= h.nlmsg_len;
	}
}

static const struct countfile *counts(void *user, unsigned dev)
{
	(void)user;
	(void)dev;
	return NULL;
}

static uint64_t objects(void *user, unsigned dev, enum rocemu_object kind)
{
	(void)user;
	return 100 * dev + kind;
}

static bool next_qp(void *user, unsigned dev, uint64_t *cursor, struct nldev_qp *qp)
{
	(void)user;
	if (dev || *cursor == nqps)
		return false;
	*qp = (struct nldev_qp){.pid = 1, .info = {.qpn = 16 + (uint32_t)(*cursor)++}};
	return true;
}

static void answer(const void *data, size_t len)
{
	const struct nldev_world w = {
		.devs = devs,
		.ndevs = ARRAY_LEN(devs),
		.fw_ver = "1",
		.counts = counts,
		.objects = objects,
		.next_qp = next_qp,
	};
	struct nlout o = {.port = PORT, .send = take};

	memset(&got, 0, sizeof(got));
	nldev_answer(&w, data, len, &o);
}

struct message {
	struct nlmsghdr h;
	uint8_t attrs[64];
};

static struct message message(uint16_t client, uint16_t op, uint16_t flags)
{
	return (struct message){.h = {.nlmsg_len = sizeof(struct nlmsghdr),
				      .nlmsg_type = (uint16_t)(client << NLDEV_CLIENT_SHIFT | op),
				      .nlmsg_flags = flags,
				      .nlmsg_seq = SEQ}};
}

static void add(struct message *m, uint16_t type, const void *value, size_t len)
{
	const struct nlattr a = {.nla_len = (uint16_t)(sizeof(a) + len), .nla_type = type};
	uint8_t *p = (uint8_t *)m + m->h.nlmsg_len;

	memcpy(p, &a, sizeof(a));
	memcpy(p + sizeof(a), value, len);
	m->h.nlmsg_len += (uint32_t)nlout_align(a.nla_len);
}

/** Send a request with a device's and a port's index, except NONE. */
static void ask(uint16_t op, uint16_t flags, uint32_t dev, uint32_t port)
{
	struct message m = message(NLDEV_CLIENT, op, flags);

	if (dev != NONE)
		add(&m, NLDEV_DEV_INDEX, &dev, sizeof(dev));
	if (port != NONE)
		add(&m, NLDEV_PORT_INDEX, &port, sizeof(port));
	answer(&m, m.h.nlmsg_len);
}

/** An attribute of the first message. */
static const uint8_t *attr(uint16_t type)
{
	for (size_t at = sizeof(struct nlmsghdr); at < got.first_len;) {
		struct nlattr a;

		memcpy(&a, got.first + at, sizeof(a));
		if (a.nla_type == type)
			return got.first + at + sizeof(a);
		at += nlout_align(a.nla_len);
	}
	fail();
	return NULL;
}

TEST(nldev, one_device__itself_then_an_acknowledgement)
{
	ask(NLDEV_GET, ONE, 1, NONE);
	assert_int_equal(got.messages, 1);
	assert_int_equal(got.acks, 1);
	assert_int_equal(got.err, 0);
	assert_string_equal((const char *)attr(NLDEV_DEV_NAME), "dev1");
	assert_string_equal((const char *)attr(NLDEV_DEV_PROTOCOL), "roce");
}

TEST(nldev, dump_of_devices__each_then_done)
{
	ask(NLDEV_GET, ALL, NONE, NONE);
	assert_int_equal(got.messages, ARRAY_LEN(devs));
	assert_int_equal(got.dones, 1);
	assert_int_equal(got.acks, 0);
}

TEST(nldev, port__state_of_the_interface)
{
	ask(NLDEV_PORT_GET, ONE, 0, 1);
	assert_int_equal(*attr(NLDEV_PORT_STATE), IBV_PORT_ACTIVE);
	assert_string_equal((const char *)attr(NLDEV_NDEV_NAME), "lo");
	ask(NLDEV_PORT_GET, ONE, 1, 1);
	assert_int_equal(*attr(NLDEV_PORT_STATE), IBV_PORT_DOWN);
}

TEST(nldev, what_is_not_there__refused_as_the_kernel_does)
{
	static const struct {
		uint16_t op, flags;
		uint32_t dev, port;
		int err;
	} cases[] = {
		{NLDEV_GET, ONE, 2, NONE, -EINVAL},
		{NLDEV_GET, ONE, NONE, NONE, -EINVAL},
		{NLDEV_GET, NLM_F_REQUEST, 2, NONE, -EINVAL}, /* an error needs no NLM_F_ACK */
		{NLDEV_PORT_GET, ONE, 0, 0, -EINVAL},
		{NLDEV_PORT_GET, ONE, 0, 2, -EINVAL},
		{NLDEV_PORT_GET, ONE, 0, NONE, -EINVAL},
		{NLDEV_RES_QP_GET, ALL, NONE, NONE, -EINVAL},
		{NLDEV_RES_QP_GET, ONE, 0, 1, -EINVAL}, /* which? */
		{NLDEV_RES_CQ_GET, ONE, 0, NONE, -ENOENT},
		{NLDEV_STAT_GET, ONE, 0, NONE, -EINVAL},
		{2 /* set */, ONE, 0, NONE, -EOPNOTSUPP},
		{NLDEV_OP_MASK, ONE, 0, NONE, -EOPNOTSUPP},
	};

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		ask(cases[i].op, cases[i].flags, cases[i].dev, cases[i].port);
		assert_int_equal(got.messages, 0);
		assert_int_equal(got.err, cases[i].err);
		assert_int_equal(got.dones, cases[i].flags == ALL);
		assert_int_equal(got.acks, cases[i].flags != ALL);
	}
}

TEST(nldev, qps__as_many_as_fit_in_each_datagram)
{
	struct message m = message(NLDEV_CLIENT, NLDEV_RES_QP_GET, ONE);
	const uint32_t dev = 0;
	uint32_t qpn = 16 + 250;

	nqps = 0;
	ask(NLDEV_RES_QP_GET, ALL, 0, NONE);
	assert_int_equal(got.messages, 0);
	nqps = 1000;
	ask(NLDEV_RES_QP_GET, ALL, 0, NONE);
	assert_true(got.messages > 10 && got.messages < 100);
	assert_int_equal(got.datagrams, got.messages + 1);
	assert_true(got.first_len > NLOUT_MAX - 100);
	add(&m, NLDEV_DEV_INDEX, &dev, sizeof(dev));
	add(&m, NLDEV_RES_LQPN, &qpn, sizeof(qpn));
	answer(&m, m.h.nlmsg_len);
	assert_memory_equal(attr(NLDEV_RES_LQPN), &qpn, sizeof(qpn));
	m = message(NLDEV_CLIENT, NLDEV_RES_QP_GET, ONE);
	qpn = 5000;
	add(&m, NLDEV_DEV_INDEX, &dev, sizeof(dev));
	add(&m, NLDEV_RES_LQPN, &qpn, sizeof(qpn));
	answer(&m, m.h.nlmsg_len);
	assert_int_equal(got.err, -ENOENT);
}

TEST(nldev, malformed__refused_or_left_alone)
{
	struct message m = message(NLDEV_CLIENT, NLDEV_GET, ONE);
	const uint16_t half = 0;

	/* An index of two bytes. */
	add(&m, NLDEV_DEV_INDEX, &half, sizeof(half));
	answer(&m, m.h.nlmsg_len);
	assert_int_equal(got.err, -EINVAL);
	/* An attribute that is longer than the message. */
	m = message(NLDEV_CLIENT, NLDEV_GET, ONE);
	add(&m, NLDEV_DEV_INDEX, &(uint32_t){0}, sizeof(uint32_t));
	m.attrs[0] = 200;
	answer(&m, m.h.nlmsg_len);
	assert_int_equal(got.err, -EINVAL);
	/* A message that is longer than the datagram, or shorter than its header. */
	m.h.nlmsg_len = 200;
	answer(&m, 50);
	assert_int_equal(got.datagrams, 0);
	m.h.nlmsg_len = sizeof(m.h) - 1;
	answer(&m, sizeof(m));
	assert_int_equal(got.datagrams, 0);
	/* Another client of NETLINK_RDMA; what is no request. */
	m = message(NLDEV_CLIENT - 1, 1, ONE);
	answer(&m, m.h.nlmsg_len);
	assert_int_equal(got.err, -EINVAL);
	m = message(NLDEV_CLIENT, NLDEV_GET, 0);
	answer(&m, m.h.nlmsg_len);
	assert_int_equal(got.datagrams, 0);
}
