/* SPDX-License-Identifier: BSD-2-Clause */
#include "../lib/test.h"

#include <stdlib.h>
#include <string.h>

#include <rocemu/mad.h>

#include "golden.h"

static const uint8_t header[ROCEMU_MAD_HDR_LEN] = {
	0x01, 0x07, 0x02, 0x83, 0x11, 0x12, 0x21, 0x22, 0x31, 0x32, 0x33, 0x34,
	0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x00, 0x00, 0x51, 0x52, 0x53, 0x54,
};

TEST(mad, header__fields_and_back)
{
	uint8_t mad[ROCEMU_MAD_LEN] = {0}, again[ROCEMU_MAD_HDR_LEN];
	struct rocemu_mad m;

	memcpy(mad, header, sizeof(header));
	assert_int_equal(rocemu_mad_decode(&m, mad, sizeof(mad)), ROCEMU_MAD_OK);
	assert_int_equal(m.base_version, 1);
	assert_int_equal(m.mgmt_class, 7);
	assert_int_equal(m.class_version, 2);
	assert_int_equal(m.method, 0x83);
	assert_int_equal(m.status, 0x1112);
	assert_int_equal(m.class_specific, 0x2122);
	assert_int_equal(m.tid, 0x3132333435363738);
	assert_int_equal(m.attr_id, 0x4142);
	assert_int_equal(m.attr_mod, 0x51525354);
	assert_ptr_equal(m.data, mad + ROCEMU_MAD_HDR_LEN);
	memset(again, 0xa5, sizeof(again));
	rocemu_mad_encode(&m, again);
	assert_memory_equal(again, header, sizeof(again));
}

TEST(mad_decode, any_other_length__refused)
{
	uint8_t mad[ROCEMU_MAD_LEN + 44] = {0};
	struct rocemu_mad m;

	memcpy(mad, header, sizeof(header));
	for (size_t len = 0; len <= sizeof(mad); len++) {
		uint8_t *copy = exact_copy(mad, len);

		assert_int_equal(rocemu_mad_decode(&m, copy, len),
				 len == ROCEMU_MAD_LEN ? ROCEMU_MAD_OK : ROCEMU_MAD_LENGTH);
		free(copy);
	}
}

TEST(mad_decode, other_base_version__told_with_the_version)
{
	uint8_t mad[ROCEMU_MAD_LEN] = {0x80};
	struct rocemu_mad m;

	assert_int_equal(rocemu_mad_decode(&m, mad, sizeof(mad)), ROCEMU_MAD_BASE_VERSION);
	assert_int_equal(m.base_version, 0x80);
}

TEST(mad_verdict, texts__known_and_unknown)
{
	assert_string_equal(rocemu_mad_verdict_text(ROCEMU_MAD_OK), "taken");
	assert_string_equal(rocemu_mad_verdict_text(ROCEMU_MAD_LENGTH), "wrong length");
	assert_string_equal(rocemu_mad_verdict_text(ROCEMU_MAD_VERDICT_COUNT), "unknown");
}
