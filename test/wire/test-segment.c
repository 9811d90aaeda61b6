/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "capture/segment.h"

enum { SEND_FIRST = 0, SEND_MIDDLE = 1, SEND_LAST = 2, ROOM = 65536 };

static const struct ip_udp v4 = {
	.src.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1},
	.dst.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2},
	.sport = 0xc001,
	.dport = ROCEMU_UDP_PORT,
	.ip_id = 0xfffe,
	.ip_frag = IP_FLAG_DF,
};
static const struct ip_udp v6 = {
	.src.raw = {0xfd, [15] = 1},
	.dst.raw = {0xfd, [15] = 2},
	.sport = 0xc002,
	.dport = ROCEMU_UDP_PORT,
};

/* One packet of a message of n, with an ICRC for its identification. */
static size_t packet(const struct ip_udp *ip, uint16_t id, uint8_t opcode, uint32_t psn,
		     size_t payload, uint8_t fill, uint8_t *p)
{
	struct rocemu_icrc_ctx ctx = ip_icrc_ctx(ip);
	size_t len = ROCEMU_BTH_LEN + payload;

	ctx.ip_id = id;
	memset(p, 0, ROCEMU_BTH_LEN);
	p[0] = opcode;
	put_be16(p + 2, 0xffff);
	put_be24(p + 5, 0x11);
	put_be24(p + 9, psn);
	memset(p + ROCEMU_BTH_LEN, fill, payload);
	put_le32(p + len, rocemu_icrc(&ctx, p, len, NULL, 0, NULL, 0));
	return len + ROCEMU_ICRC_LEN;
}

enum ids { COUNTED, ALIKE, ANY };

static size_t burst(const struct ip_udp *ip, enum ids ids, size_t mtu, unsigned n, size_t last,
		    uint8_t *p)
{
	size_t len = 0;

	for (unsigned k = 0; k < n; k++) {
		uint16_t id = ids == COUNTED ? (uint16_t)(ip->ip_id + k)
			      : ids == ALIKE ? ip->ip_id
					     : (uint16_t)(ip->ip_id + k * k * 17);

		len += packet(ip, id,
			      k == 0	  ? SEND_FIRST
			      : k + 1 < n ? SEND_MIDDLE
					  : SEND_LAST,
			      k + 10, k + 1 < n ? mtu : last, 0xff, p + len);
	}
	return len;
}

static void expect_burst(const struct ip_udp *ip, enum ids ids, size_t mtu, unsigned n, size_t last)
{
	static uint8_t p[ROOM];
	size_t len = burst(ip, ids, mtu, n, last, p), size = segment_size(ip, p, len);
	struct rocemu_icrc_ctx ctx = ip_icrc_ctx(ip);

	assert_int_equal(size, ROCEMU_BTH_LEN + mtu + ROCEMU_ICRC_LEN);
	for (unsigned k = 0; k < n; k++) {
		size_t one = k + 1 < n ? size : len - size * (n - 1);

		ctx.ip_id = segment_ip_id(ip, k, p + k * size, one);
		assert_true(rocemu_icrc_check(&ctx, true, p + k * size, one) >= 0);
		if (ids == COUNTED)
			assert_int_equal(ctx.ip_id, ip == &v4 ? (uint16_t)(ip->ip_id + k) : 0);
	}
}

static void segment_size__bursts__their_packets(void **state)
{
	static const size_t mtus[] = {256, 512, 1024, 2048, 4096, 64};

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		expect_burst(&v4, COUNTED, mtus[i], 2, mtus[i]);
		expect_burst(&v4, COUNTED, mtus[i], 15, 4);
		expect_burst(&v4, ALIKE, mtus[i], 5, 100);
		expect_burst(&v4, ANY, mtus[i], 5, 100);
		expect_burst(&v6, COUNTED, mtus[i], 3, 8);
		expect_burst(&v4, COUNTED, mtus[i], 2, 0);
	}
}

/* Two packets whose payload could begin a packet at each fourth byte. */
static size_t two_of_candidates(size_t mtu, uint8_t *p)
{
	size_t len = 0;

	for (unsigned k = 0; k < 2; k++) {
		uint8_t *one = p + len;
		struct rocemu_icrc_ctx ctx = ip_icrc_ctx(&v4);

		ctx.ip_id = (uint16_t)(v4.ip_id + k);
		len += packet(&v4, 0, k ? SEND_LAST : SEND_FIRST, k, mtu, 0, one);
		for (size_t i = 0; i < mtu; i += 4)
			put_be32(one + ROCEMU_BTH_LEN + i, 0x0000ffff);
		put_le32(one + ROCEMU_BTH_LEN + mtu,
			 rocemu_icrc(&ctx, one, ROCEMU_BTH_LEN + mtu, NULL, 0, NULL, 0));
	}
	return len;
}

/* 64 ICRCs are tried: mtu / 4 - 1 wrong ones, and the right one. */
static void segment_size__many_candidates__bounded(void **state)
{
	static uint8_t p[ROOM];

	(void)state;
	assert_int_equal(segment_size(&v4, p, two_of_candidates(256, p)), 256 + 16);
	assert_int_equal(segment_size(&v4, p, two_of_candidates(260, p)), 0);
}

static void segment_size__no_burst__0(void **state)
{
	static uint8_t p[ROOM];
	struct rng rng;
	size_t len;

	(void)state;
	rng_init(&rng, 1);
	len = packet(&v4, v4.ip_id, SEND_FIRST, 1, 4096, 0, p);
	assert_int_equal(segment_size(&v4, p, len), 0);
	assert_int_equal(segment_size(&v4, p, 15), 0);
	assert_int_equal(segment_size(&v4, p, 0), 0);
	for (unsigned n = 0; n < 200; n++) {
		for (size_t i = 0; i < 4096; i++)
			p[i] = (uint8_t)rng_u32(&rng);
		assert_int_equal(segment_size(&v4, p, 4096), 0);
	}
	memset(p, 0, sizeof(p)); /* every fourth byte could begin a packet */
	assert_int_equal(segment_size(&v4, p, 65507), 0);
}

static void segment_ip_id__damaged__counted(void **state)
{
	static uint8_t p[ROOM];
	size_t len = burst(&v4, COUNTED, 256, 3, 256, p), size = segment_size(&v4, p, len);

	(void)state;
	p[size + 20] ^= 1;
	p[size + 90] ^= 4;
	assert_int_equal(segment_size(&v4, p, len), size);
	assert_int_equal(segment_ip_id(&v4, 1, p + size, size), 0xffff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segment_size__bursts__their_packets),
		cmocka_unit_test(segment_size__many_candidates__bounded),
		cmocka_unit_test(segment_size__no_burst__0),
		cmocka_unit_test(segment_ip_id__damaged__counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
