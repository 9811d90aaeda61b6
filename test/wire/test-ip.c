/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "wire/ip.h"

static const struct ip_udp v4 = {
	.src.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1},
	.dst.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2},
	.sport = 0xc001,
	.dport = 4791,
	.ip_id = 0xabcd,
	.ip_frag = IP_FLAG_DF,
	.tclass = 0x6a,
	.hop_limit = 63,
};

static const struct ip_udp v6 = {
	.src.raw = {0x20, 0x01, 0x0d, 0xb8, [15] = 1},
	.dst.raw = {0x20, 0x01, 0x0d, 0xb8, [15] = 2},
	.flow_label = 0xabcde,
	.sport = 0xc001,
	.dport = 4791,
	.tclass = 0x6a,
	.hop_limit = 63,
};

/* An encoded packet with n bytes of payload 0, 1, 2, ... */
static size_t make(const struct ip_udp *h, size_t n, uint8_t *buf)
{
	size_t hdr = ip_udp_encode(h, n, buf);

	for (size_t i = 0; i < n; i++)
		buf[hdr + i] = (uint8_t)i;
	return hdr + n;
}

static void ip_udp_encode__ipv4__known_bytes(void **state)
{
	static const uint8_t want[] = {
		0x45, 0x6a, 0x00, 0x20, 0xab, 0xcd, 0x40, 0x00, 0x3f, 0x11, 0x0b,
		0x92, 192,  0,	  2,	1,    192,  0,	  2,	2,    0xc0, 0x01,
		0x12, 0xb7, 0x00, 0x0c, 0x00, 0x00, 0,	  1,	2,    3,
	};
	uint8_t buf[64];

	(void)state;
	assert_int_equal(make(&v4, 4, buf), sizeof(want));
	assert_memory_equal(buf, want, sizeof(want));
	assert_int_equal(ip_checksum(buf, IPV4_LEN), 0);
}

static void ip_udp_encode__ipv6__known_bytes(void **state)
{
	static const uint8_t want[] = {0x66, 0xaa, 0xbc, 0xde, 0x00, 0x0c, 0x11, 0x3f};
	uint8_t buf[64];

	(void)state;
	assert_int_equal(make(&v6, 4, buf), 52);
	assert_memory_equal(buf, want, sizeof(want));
	assert_memory_equal(buf + 8, v6.src.raw, 16);
	assert_memory_equal(buf + 24, v6.dst.raw, 16);
	assert_memory_equal(buf + 40, "\xc0\x01\x12\xb7\x00\x0c\x00\x00", 8);
}

static void ipv4_fields__encoded__the_same_again(void **state)
{
	struct ip_udp got = {.sport = v4.sport, .dport = v4.dport};
	uint8_t buf[64];

	(void)state;
	make(&v4, 4, buf);
	ipv4_fields(&got, buf);
	assert_memory_equal(&got, &v4, sizeof(got));
}

static void ip_checksum__rfc1071_example__its_sum(void **state)
{
	static const uint8_t p[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};

	(void)state;
	assert_int_equal(ip_checksum(p, 8), (uint16_t)~0xddf2);
	assert_int_equal(ip_checksum(p, 3), (uint16_t)~0xf201);
}

static void gid_on_wire__interface_local_groups__link_local_and_reserved_flag(void **state)
{
	/* First two bytes of a GID, and of what it has on the wire. */
	static const uint16_t rows[][2] = {
		{0xff01, 0xff82}, {0xff11, 0xff92}, {0xff31, 0xffb2}, {0xff02, 0xff02},
		{0xff12, 0xff12}, {0xff05, 0xff05}, {0xff0e, 0xff0e}, {0xff0f, 0xff0f},
		{0xfe01, 0xfe01}, {0xfd01, 0xfd01}, {0xff00, 0xff00},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rocemu_gid g = {{(uint8_t)(rows[i][0] >> 8), (uint8_t)rows[i][0], [15] = 5}},
				  want = {{(uint8_t)(rows[i][1] >> 8),
					   (uint8_t)rows[i][1], [15] = 5}};

		g = rocemu_gid_on_wire(&g);
		assert_memory_equal(&g, &want, sizeof(g));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ip_udp_encode__ipv4__known_bytes),
		cmocka_unit_test(ip_udp_encode__ipv6__known_bytes),
		cmocka_unit_test(ipv4_fields__encoded__the_same_again),
		cmocka_unit_test(ip_checksum__rfc1071_example__its_sum),
		cmocka_unit_test(gid_on_wire__interface_local_groups__link_local_and_reserved_flag),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
