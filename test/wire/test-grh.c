/* SPDX-License-Identifier: BSD-2-Clause */
#include "../lib/test.h"

#include <string.h>

#include <rocemu/mad.h>

#include "wire/ip.h"

/* IBTA 8.3: IPVer 6, TClass 0xa1, FlowLabel 0xb1b2b, PayLen 0x0c0d, NxtHdr 0x1b, HopLmt 0x3e. */
static const uint8_t grh6[ROCEMU_GRH_LEN] = {
	0x6a, 0x1b, 0x1b, 0x2b, 0x0c, 0x0d, 0x1b, 0x3e, 0xfd, 0x77, 2,	  3,	4,  5,
	6,    7,    8,	  9,	10,   11,   12,	  13,	14,   15,   0xfd, 0x78, 22, 23,
	24,   25,   26,	  27,	28,   29,   30,	  31,	32,   33,   34,	  35,
};

/* A UDP packet of 64 bytes after the header, checksum by hand. */
static const uint8_t grh4[ROCEMU_GRH_LEN] = {
	[20] = 0x45, 0x20, 0,  84, 0x12, 0x34, 0x40, 0,	 61, 17,
	0x16,	     0xa7, 10, 77, 0,	 2,    10,   77, 0,  3,
};

TEST(grh, ipv6__fields_and_back)
{
	uint8_t again[ROCEMU_GRH_LEN];
	struct rocemu_grh g;

	assert_true(rocemu_grh_decode(&g, grh6));
	assert_int_equal(g.ipver, 6);
	assert_int_equal(g.tclass, 0xa1);
	assert_int_equal(g.flow_label, 0xb1b2b);
	assert_int_equal(g.paylen, 0x0c0d);
	assert_int_equal(g.nxthdr, 0x1b);
	assert_int_equal(g.hop_limit, 0x3e);
	assert_memory_equal(g.sgid.raw, grh6 + 8, 16);
	assert_memory_equal(g.dgid.raw, grh6 + 24, 16);
	memset(again, 0xa5, sizeof(again));
	rocemu_grh_encode(&g, again);
	assert_memory_equal(again, grh6, sizeof(again));
}

TEST(grh, ipv4__fields_and_back)
{
	static const struct rocemu_gid src = {{[10] = 0xff, 0xff, 10, 77, 0, 2}};
	static const struct rocemu_gid dst = {{[10] = 0xff, 0xff, 10, 77, 0, 3}};
	uint8_t again[ROCEMU_GRH_LEN];
	struct rocemu_grh g;

	assert_true(rocemu_grh_decode(&g, grh4));
	assert_int_equal(g.ipver, 4);
	assert_int_equal(g.tclass, 0x20);
	assert_int_equal(g.flow_label, 0);
	assert_int_equal(g.paylen, 64);
	assert_int_equal(g.nxthdr, 17);
	assert_int_equal(g.hop_limit, 61);
	assert_int_equal(g.ip_id, 0x1234);
	assert_int_equal(g.ip_frag, 0x4000);
	assert_memory_equal(&g.sgid, &src, sizeof(src));
	assert_memory_equal(&g.dgid, &dst, sizeof(dst));
	memset(again, 0xa5, sizeof(again));
	rocemu_grh_encode(&g, again);
	assert_memory_equal(again, grh4, sizeof(again));
}

/* Annex A17.4.5: the first 20 bytes are not defined. They may be left from an IPv6 packet. */
TEST(grh_decode, ipv4_behind_anything__found)
{
	uint8_t buf[ROCEMU_GRH_LEN];
	struct rocemu_grh g;

	memcpy(buf, grh4, sizeof(buf));
	memcpy(buf, grh6, 20);
	assert_true(rocemu_grh_decode(&g, buf));
	assert_int_equal(g.ipver, 4);
	memset(buf, 0xff, 20);
	assert_true(rocemu_grh_decode(&g, buf));
	assert_int_equal(g.ipver, 4);
}

/* An IPv6 packet's addresses may look like the beginning of an IPv4 header. */
TEST(grh_decode, ipv6_with_0x45_at_byte_20__is_ipv6)
{
	uint8_t buf[ROCEMU_GRH_LEN];
	struct rocemu_grh g;

	memcpy(buf, grh6, sizeof(buf));
	memcpy(buf + 20, grh4 + 20, 10);
	assert_true(rocemu_grh_decode(&g, buf));
	assert_int_equal(g.ipver, 6);
}

TEST(grh_decode, neither__refused)
{
	uint8_t buf[ROCEMU_GRH_LEN];
	struct rocemu_grh g;

	for (unsigned bit = 0; bit < 20 * 8; bit++) { /* one wrong bit: the checksum does not fit */
		memcpy(buf, grh4, sizeof(buf));
		buf[20 + bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
		assert_false(rocemu_grh_decode(&g, buf));
	}
	memcpy(buf, grh6, sizeof(buf));
	for (unsigned v = 0; v < 16; v++) {
		buf[0] = (uint8_t)(v << 4);
		assert_int_equal(rocemu_grh_decode(&g, buf), v == 6);
	}
}

TEST(grh_encode, fields_too_wide__cut)
{
	struct rocemu_grh g = {.ipver = 0xf6, .flow_label = 0xfff00001}, again;
	uint8_t buf[ROCEMU_GRH_LEN];

	rocemu_grh_encode(&g, buf);
	assert_true(rocemu_grh_decode(&again, buf));
	assert_int_equal(again.ipver, 6);
	assert_int_equal(again.tclass, 0);
	assert_int_equal(again.flow_label, 1);
	g = (struct rocemu_grh){.ipver = 4, .paylen = 0xffff};
	rocemu_grh_encode(&g, buf);
	assert_int_equal(buf[22] << 8 | buf[23], 0xffff);
	assert_int_equal(ip_checksum(buf + 20, IPV4_LEN), 0);
}
