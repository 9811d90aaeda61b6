/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-nldev starts from: each operation, alone and as a dump, with the attributes that the
 * rdma tool sends. */
#include "driver.h"

#include <linux/netlink.h>
#include <string.h>

#include "nldev/abi.h"

static size_t put_u32(uint8_t *p, uint16_t type, uint32_t value)
{
	const struct nlattr a = {.nla_len = sizeof(a) + sizeof(value), .nla_type = type};

	memcpy(p, &a, sizeof(a));
	memcpy(p + sizeof(a), &value, sizeof(value));
	return sizeof(a) + sizeof(value);
}

static size_t put_request(uint8_t *buf, uint16_t op, uint16_t flags, const uint16_t *attrs,
			  unsigned n, uint32_t value)
{
	struct nlmsghdr h = {
		.nlmsg_type = (uint16_t)(NLDEV_CLIENT << NLDEV_CLIENT_SHIFT | op),
		.nlmsg_flags = flags,
		.nlmsg_seq = 3,
	};
	size_t len = sizeof(h);

	for (unsigned i = 0; i < n; i++)
		len += put_u32(buf + len, attrs[i], value);
	h.nlmsg_len = (uint32_t)len;
	memcpy(buf, &h, sizeof(h));
	return len;
}

void fuzz_seed(struct fuzz_corpus *c)
{
	static const uint16_t attrs[] = {NLDEV_DEV_INDEX, NLDEV_PORT_INDEX, NLDEV_RES_LQPN,
					 NLDEV_STAT_RES, NLDEV_STAT_MODE};
	static const uint16_t flags[] = {NLM_F_REQUEST, NLM_F_REQUEST | NLM_F_ACK,
					 NLM_F_REQUEST | NLM_F_DUMP, NLM_F_ACK, 0};
	uint8_t buf[512];
	size_t len;

	for (uint16_t op = 0; op < 27; op++)
		for (unsigned f = 0; f < sizeof(flags) / sizeof(flags[0]); f++)
			for (unsigned n = 0; n <= 5; n++) {
				len = put_request(buf, op, flags[f], attrs, n, 1);
				fuzz_corpus_add(c, buf, len);
			}
	len = put_request(buf, NLDEV_RES_QP_GET, NLM_F_REQUEST | NLM_F_DUMP, attrs, 1, 2);
	len += put_request(buf + len, NLDEV_STAT_GET, NLM_F_REQUEST | NLM_F_ACK, attrs, 2, 1);
	len += put_request(buf + len, NLDEV_GET, NLM_F_REQUEST | NLM_F_DUMP, attrs, 0, 0);
	fuzz_corpus_add(c, buf, len);
}
