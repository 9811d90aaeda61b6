/* SPDX-License-Identifier: BSD-2-Clause */
#include "../lib/test.h"

#include <stdlib.h>
#include <string.h>

#include <rocemu/cm.h>

#include "base/util.h"
#include "golden.h"

static const uint8_t cma4[ROCEMU_CMA_LEN] = {
	0, 0x40, 0xe4, 0x71, [16] = 10, 77, 0, 2, [32] = 10, 77, 0, 3,
};

static const uint8_t cma6[ROCEMU_CMA_LEN] = {
	0, 0x60, 0x12, 0x34, 0xfd, 0x77, [19] = 2, 0xfd, 0x78, [35] = 3,
};

TEST(cma, ipv4__mapped_addresses_and_back)
{
	static const struct rocemu_gid src = {{[10] = 0xff, 0xff, 10, 77, 0, 2}};
	static const struct rocemu_gid dst = {{[10] = 0xff, 0xff, 10, 77, 0, 3}};
	uint8_t buf[ROCEMU_CMA_LEN];
	struct rocemu_cma c;

	assert_int_equal(rocemu_cma_decode(&c, cma4, sizeof(cma4)), ROCEMU_MAD_OK);
	assert_int_equal(c.ip_version, 4);
	assert_int_equal(c.sport, 0xe471);
	assert_memory_equal(&c.src, &src, sizeof(src));
	assert_memory_equal(&c.dst, &dst, sizeof(dst));
	memset(buf, 0xa5, sizeof(buf));
	assert_int_equal(rocemu_cma_encode(&c, buf), ROCEMU_CMA_LEN);
	assert_memory_equal(buf, cma4, sizeof(buf));
}

TEST(cma, ipv6__addresses_and_back)
{
	static const struct rocemu_gid src = {{0xfd, 0x77, [15] = 2}},
				       dst = {{0xfd, 0x78, [15] = 3}};
	uint8_t buf[ROCEMU_CMA_LEN];
	struct rocemu_cma c;

	assert_int_equal(rocemu_cma_decode(&c, cma6, sizeof(cma6)), ROCEMU_MAD_OK);
	assert_int_equal(c.ip_version, 6);
	assert_int_equal(c.sport, 0x1234);
	assert_memory_equal(&c.src, &src, sizeof(src));
	assert_memory_equal(&c.dst, &dst, sizeof(dst));
	assert_int_equal(rocemu_cma_encode(&c, buf), ROCEMU_CMA_LEN);
	assert_memory_equal(buf, cma6, sizeof(buf));
}

TEST(cma_decode, truncated_or_other_versions__refused)
{
	uint8_t buf[ROCEMU_CMA_LEN];
	struct rocemu_cma c;

	for (size_t len = 0; len < ROCEMU_CMA_LEN; len++) {
		uint8_t *copy = exact_copy(cma4, len);

		assert_int_equal(rocemu_cma_decode(&c, copy, len), ROCEMU_MAD_LENGTH);
		free(copy);
	}
	for (unsigned v = 0; v < 16; v++) {
		memcpy(buf, cma4, sizeof(buf));
		buf[1] = (uint8_t)(v << 4 | 0xf); /* the low bits are reserved */
		assert_int_equal(rocemu_cma_decode(&c, buf, sizeof(buf)),
				 v == 4 || v == 6 ? ROCEMU_MAD_OK : ROCEMU_MAD_FIELD);
	}
	for (unsigned v = 1; v < 256; v++) {
		memcpy(buf, cma4, sizeof(buf));
		buf[0] = (uint8_t)v;
		assert_int_equal(rocemu_cma_decode(&c, buf, sizeof(buf)), ROCEMU_MAD_FIELD);
	}
}

TEST(cma_encode, ip_version_not_4_or_6__0_and_nothing_written)
{
	uint8_t buf[ROCEMU_CMA_LEN] = {0xa5};
	struct rocemu_cma c = {.ip_version = 5};

	assert_int_equal(rocemu_cma_encode(&c, buf), 0);
	assert_int_equal(buf[0], 0xa5);
}

TEST(service_id, ports__to_number_and_back)
{
	enum rocemu_port_space ps;
	uint16_t port;

	assert_int_equal(rocemu_cm_service_id(ROCEMU_PS_TCP, 7174), 0x0000000001061c06);
	assert_int_equal(rocemu_cm_service_id(ROCEMU_PS_UDP, 0xffff), 0x000000000111ffff);
	assert_true(rocemu_cm_service_port(0x0000000001061c06, &ps, &port));
	assert_int_equal(ps, ROCEMU_PS_TCP);
	assert_int_equal(port, 7174);
	assert_true(rocemu_cm_service_port(0x0000000000020001, &ps, &port));
	assert_int_equal(ps, ROCEMU_PS_IPOIB);
	assert_int_equal(port, 1);
}

TEST(service_id, outside_of_the_port_spaces__no_port)
{
	static const uint64_t ids[] = {
		0, 0x00000001, 0x01070001, 0x0000000101061c06, 0x1000000001061c06, UINT64_MAX};
	enum rocemu_port_space ps;
	uint16_t port;

	for (unsigned i = 0; i < ARRAY_LEN(ids); i++)
		assert_false(rocemu_cm_service_port(ids[i], &ps, &port));
	assert_string_equal(rocemu_port_space_text(ROCEMU_PS_UDP), "udp");
	assert_null(rocemu_port_space_text(0x0107));
}

/* Annex A11: the prefix is the upper five bytes, then protocol and port. */
TEST(service_id, ip_service__by_its_prefix)
{
	assert_true(rocemu_cm_service_is_ip(0x0000000001000000));
	assert_true(rocemu_cm_service_is_ip(0x0000000001ffffff));
	assert_false(rocemu_cm_service_is_ip(0x0000000002000000));
	assert_false(rocemu_cm_service_is_ip(0x0000000000ffffff));
	assert_false(rocemu_cm_service_is_ip(0x0100000001061c06));
}
