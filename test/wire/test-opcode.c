/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <rocemu/wire.h>

#include "base/util.h"

/* The kind of operation, without place in the message and extras. */
#define OP_KIND                                                                        \
	(ROCEMU_OP_SEND | ROCEMU_OP_WRITE | ROCEMU_OP_READ_REQ | ROCEMU_OP_READ_RESP | \
	 ROCEMU_OP_ATOMIC | ROCEMU_OP_ACK | ROCEMU_OP_ATOMIC_ACK | ROCEMU_OP_FLUSH |   \
	 ROCEMU_OP_ATOMIC_WRITE | ROCEMU_OP_CNP)
#define OP_PLACE (ROCEMU_OP_FIRST | ROCEMU_OP_MIDDLE | ROCEMU_OP_LAST)

static bool is_known(unsigned opcode)
{
	return rocemu_opcode_hdr_len((uint8_t)opcode) != 0;
}

/* Is there an opcode of this service, kind and place, without immediate or invalidate? */
static bool has_opcode(enum rocemu_service svc, uint32_t kind, uint32_t place)
{
	for (unsigned o = 0; o < 256; o++) {
		uint32_t ops = rocemu_opcode_ops((uint8_t)o);

		if (is_known(o) && rocemu_opcode_service((uint8_t)o) == svc &&
		    (ops & OP_KIND) == kind && (ops & OP_PLACE) == place &&
		    (ops & (ROCEMU_OP_IMM | ROCEMU_OP_INV)) == 0)
			return true;
	}
	return false;
}

/* The lengths of IBTA vol. 1, 9.2 and 9.3, added up by hand. */
static void opcode_hdr_len__each_header_chain__sum_of_its_headers(void **state)
{
	/* clang-format off */
	static const struct {
		uint8_t opcode;
		size_t len;
	} t[] = {
		{ ROCEMU_RC_SEND_MIDDLE, 12 },       { ROCEMU_RC_SEND_ONLY_IMM, 16 },
		{ ROCEMU_RC_WRITE_FIRST, 28 },       { ROCEMU_RC_WRITE_ONLY_IMM, 32 },
		{ ROCEMU_RC_READ_REQUEST, 28 },      { ROCEMU_RC_READ_RESP_FIRST, 16 },
		{ ROCEMU_RC_READ_RESP_MIDDLE, 12 },  { ROCEMU_RC_ACK, 16 },
		{ ROCEMU_RC_ATOMIC_ACK, 24 },        { ROCEMU_RC_CMP_SWAP, 40 },
		{ ROCEMU_RC_SEND_LAST_INV, 16 },     { ROCEMU_RC_FLUSH, 32 },
		{ ROCEMU_RC_ATOMIC_WRITE, 28 },      { ROCEMU_UC_WRITE_ONLY_IMM, 32 },
		{ ROCEMU_UD_SEND_ONLY, 20 },         { ROCEMU_UD_SEND_ONLY_IMM, 24 },
		{ ROCEMU_CNP, 12 },                  { ROCEMU_XRC_WRITE_ONLY_IMM, 36 },
		{ ROCEMU_XRC_FETCH_ADD, 44 },        { ROCEMU_XRC_FLUSH, 36 },
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		assert_int_equal(rocemu_opcode_hdr_len(t[i].opcode), t[i].len);
}

static void opcode_table__first__has_middle_last_and_only(void **state)
{
	(void)state;
	for (unsigned o = 0; o < 256; o++) {
		enum rocemu_service svc = rocemu_opcode_service((uint8_t)o);
		uint32_t ops = rocemu_opcode_ops((uint8_t)o);

		if (!is_known(o) || (ops & OP_PLACE) != ROCEMU_OP_FIRST)
			continue;
		assert_true(has_opcode(svc, ops & OP_KIND, ROCEMU_OP_MIDDLE));
		assert_true(has_opcode(svc, ops & OP_KIND, ROCEMU_OP_LAST));
		assert_true(has_opcode(svc, ops & OP_KIND, ROCEMU_OP_FIRST | ROCEMU_OP_LAST));
	}
}

static void opcode_table__every_opcode__one_kind_one_place_one_direction(void **state)
{
	(void)state;
	for (unsigned o = 0; o < 256; o++) {
		uint32_t ops = rocemu_opcode_ops((uint8_t)o);
		uint32_t way = ops & (ROCEMU_OP_REQUEST | ROCEMU_OP_RESPONSE);
		uint32_t place = ops & OP_PLACE;

		if (!is_known(o))
			continue;
		assert_int_equal(__builtin_popcount(ops & OP_KIND), 1);
		assert_true(place == ROCEMU_OP_FIRST || place == ROCEMU_OP_MIDDLE ||
			    place == ROCEMU_OP_LAST || place == (ROCEMU_OP_FIRST | ROCEMU_OP_LAST));
		/* A CNP belongs to no side. */
		assert_int_equal(__builtin_popcount(way), (ops & ROCEMU_OP_CNP) != 0 ? 0 : 1);
	}
}

static void opcode_table__headers__match_the_properties(void **state)
{
	(void)state;
	for (unsigned o = 0; o < 256; o++) {
		enum rocemu_service svc = rocemu_opcode_service((uint8_t)o);
		uint32_t ops = rocemu_opcode_ops((uint8_t)o);
		uint32_t hdrs = rocemu_opcode_hdrs((uint8_t)o);
		bool reth = (ops & (ROCEMU_OP_WRITE | ROCEMU_OP_READ_REQ | ROCEMU_OP_FLUSH |
				    ROCEMU_OP_ATOMIC_WRITE)) != 0 &&
			    (ops & ROCEMU_OP_FIRST) != 0;
		bool aeth = (ops & (ROCEMU_OP_ACK | ROCEMU_OP_ATOMIC_ACK)) != 0 ||
			    ((ops & ROCEMU_OP_READ_RESP) != 0 && (ops & ROCEMU_OP_MIDDLE) == 0);

		if (!is_known(o))
			continue;
		assert_int_equal((hdrs & ROCEMU_HDR_IMMDT) != 0, (ops & ROCEMU_OP_IMM) != 0);
		assert_int_equal((hdrs & ROCEMU_HDR_IETH) != 0, (ops & ROCEMU_OP_INV) != 0);
		assert_int_equal((hdrs & ROCEMU_HDR_ATOMICETH) != 0, (ops & ROCEMU_OP_ATOMIC) != 0);
		assert_int_equal((hdrs & ROCEMU_HDR_ATOMICACK) != 0,
				 (ops & ROCEMU_OP_ATOMIC_ACK) != 0);
		assert_int_equal((hdrs & ROCEMU_HDR_FETH) != 0, (ops & ROCEMU_OP_FLUSH) != 0);
		assert_int_equal((hdrs & ROCEMU_HDR_DETH) != 0, svc == ROCEMU_SVC_UD);
		assert_int_equal((hdrs & ROCEMU_HDR_XRCETH) != 0,
				 svc == ROCEMU_SVC_XRC && (ops & ROCEMU_OP_REQUEST) != 0);
		assert_int_equal((hdrs & ROCEMU_HDR_RETH) != 0, reth);
		assert_int_equal((hdrs & ROCEMU_HDR_AETH) != 0, aeth);
	}
}

/* IBTA table 38: XRC has RC's operations under the same lower five bits. */
static void opcode_table__xrc__mirrors_rc(void **state)
{
	(void)state;
	for (unsigned o = 0; o < 32; o++) {
		uint8_t xrc = (uint8_t)(o | ROCEMU_SVC_XRC << 5);

		assert_int_equal(is_known(xrc), is_known(o));
		assert_int_equal(rocemu_opcode_ops(xrc), rocemu_opcode_ops((uint8_t)o));
		assert_int_equal(rocemu_opcode_hdrs(xrc) | ROCEMU_HDR_XRCETH,
				 rocemu_opcode_hdrs((uint8_t)o) | ROCEMU_HDR_XRCETH);
	}
}

static void opcode__unknown__no_properties(void **state)
{
	static const uint8_t unknown[] = {0x15, 0x18, 0x1f, 0x2c, 0x40, 0x5f,
					  0x60, 0x66, 0x80, 0x82, 0xb5, 0xff};

	(void)state;
	for (size_t i = 0; i < sizeof(unknown); i++) {
		assert_int_equal(rocemu_opcode_hdr_len(unknown[i]), 0);
		assert_int_equal(rocemu_opcode_hdrs(unknown[i]), 0);
		assert_int_equal(rocemu_opcode_ops(unknown[i]), 0);
		assert_string_equal(rocemu_opcode_name(unknown[i]), "UNKNOWN");
	}
	/* Reliable datagram is left out altogether. */
	for (unsigned o = 0x40; o < 0x60; o++)
		assert_false(is_known(o));
}

static void opcode_name__known__as_in_the_table(void **state)
{
	(void)state;
	assert_string_equal(rocemu_opcode_name(ROCEMU_RC_SEND_FIRST), "RC_SEND_FIRST");
	assert_string_equal(rocemu_opcode_name(ROCEMU_CNP), "CNP");
	assert_string_equal(rocemu_opcode_name(0xbd), "XRC_ATOMIC_WRITE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opcode_hdr_len__each_header_chain__sum_of_its_headers),
		cmocka_unit_test(opcode_table__first__has_middle_last_and_only),
		cmocka_unit_test(opcode_table__every_opcode__one_kind_one_place_one_direction),
		cmocka_unit_test(opcode_table__headers__match_the_properties),
		cmocka_unit_test(opcode_table__xrc__mirrors_rc),
		cmocka_unit_test(opcode__unknown__no_properties),
		cmocka_unit_test(opcode_name__known__as_in_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
