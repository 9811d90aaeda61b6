/* SPDX-License-Identifier: BSD-2-Clause */
/* FLUSH as the responder has it (annex A19): rights by placement type, range or region, answers. */
#include <string.h>

#include "hostile.h"

static struct hostile h;
#define FLUSH(name) TEST(resp_flush, name)

enum {
	GLOBAL = ROCEMU_FLUSH_GLOBAL,
	PERSISTENT = ROCEMU_FLUSH_PERSISTENT,
	WHOLE = ROCEMU_FLUSH_MR << ROCEMU_FETH_LEVEL_SHIFT,
};

static void start(unsigned qp_access)
{
	hostile_new(&h, IBV_QPT_RC, false);
	h.qp_access = qp_access;
	hostile_connect(&h, IBV_QPS_RTS);
}

static void flush(uint32_t psn, uint32_t feth, uint64_t off, uint32_t len)
{
	struct rocemu_hdrs hdrs = {
		.opcode = h.xrcd ? ROCEMU_XRC_FLUSH : ROCEMU_RC_FLUSH,
		.psn = psn,
		.ackreq = true,
		.feth = {.raw = feth},
		.reth = {.va = (uintptr_t)h.mem + off, .rkey = h.rkey, .length = len},
	};

	hostile_send_hdrs(&h, &hdrs, 0);
}

FLUSH(each_type_and_level__answered_by_an_empty_read_response)
{
	start(HOSTILE_FLUSHABLE);
	flush(0, GLOBAL, 0, 100);
	flush(1, PERSISTENT, HOSTILE_MEM - 8, 8);
	EXPECT(&h, "only 0+0; only 1+0");
	flush(2, GLOBAL | PERSISTENT, 0, HOSTILE_MEM);
	flush(3, GLOBAL | WHOLE, 1u << 30, 0xffffffff); /* the range does not count */
	EXPECT(&h, "only 2+0; only 3+0");
	flush(4, GLOBAL, 16, 0);
	EXPECT(&h, "only 4+0");
	hostile_free(&h);
}

FLUSH(reserved_bits_of_the_header__ignored)
{
	start(HOSTILE_FLUSHABLE);
	flush(0, GLOBAL | 0xffffffc0, 0, 100);
	EXPECT(&h, "only 0+0");
	hostile_free(&h);
}

FLUSH(after_writes__answered_behind_them_once_all_is_stored)
{
	start(HOSTILE_FLUSHABLE);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_FIRST, 0, HOSTILE_MTU, 0, HOSTILE_MTU + 8);
	hostile_send(&h, ROCEMU_RC_WRITE_LAST, 1, 8);
	flush(2, GLOBAL, 0, HOSTILE_MTU + 8);
	assert_memory_equal(h.mem, h.payload, HOSTILE_MTU);
	EXPECT(&h, "only 2+0"); /* which acknowledges the WRITE as well */
	hostile_free(&h);
}

FLUSH(before_the_writes_arrived__nothing_but_the_nak_until_they_are_there)
{
	start(HOSTILE_FLUSHABLE);
	flush(1, GLOBAL, 0, 8);
	EXPECT(&h, "nak 60 0/0");
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 0, 8, 0, 8);
	EXPECT(&h, "only 1+0");
	hostile_free(&h);
}

FLUSH(within_a_message__invalid_request)
{
	start(HOSTILE_FLUSHABLE);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_FIRST, 0, HOSTILE_MTU, 0, HOSTILE_MTU + 8);
	flush(1, GLOBAL, 0, 8);
	EXPECT(&h, "drop SEQUENCE; nak 61 1/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

FLUSH(duplicate__answered_again_with_its_own_psn)
{
	start(HOSTILE_FLUSHABLE);
	flush(0, GLOBAL, 0, 8);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 1, 8, 0, 8);
	EXPECT(&h, "only 0+0; ack 1/2");
	flush(0, GLOBAL, 0, 8);
	EXPECT(&h, "only 0+0");
	hostile_free(&h);
}

FLUSH(duplicate_no_longer_held_or_of_another_kind__dropped_silently)
{
	start(HOSTILE_FLUSHABLE);
	for (uint32_t psn = 0; psn <= HOSTILE_RD_ATOMIC; psn++) {
		flush(psn, GLOBAL, 0, 8);
		hostile_effects(&h);
	}
	flush(0, GLOBAL, 0, 8);
	hostile_send_reth(&h, ROCEMU_RC_ATOMIC_WRITE, 1, 8, 16, 8);
	EXPECT(&h, "drop STALE_ATOMIC; drop STALE_ATOMIC");
	hostile_free(&h);
}

FLUSH(more_than_max_dest_rd_atomic__invalid_request)
{
	start(HOSTILE_FLUSHABLE);
	for (uint32_t psn = 0; psn <= HOSTILE_RD_ATOMIC; psn++)
		flush(psn, GLOBAL, 0, 8);
	EXPECT(&h, "drop SEQUENCE; only 0+0; only 1+0; nak 61 2/2; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

FLUSH(type_or_level_there_is_not__invalid_request)
{
	static const uint32_t bad[] = {0, 4, 8, GLOBAL | 4, GLOBAL | 2 << 4, PERSISTENT | 3 << 4};

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		start(HOSTILE_FLUSHABLE);
		flush(0, bad[i], 0, 8);
		EXPECT(&h, "drop OPCODE; nak 61 0/0; event QP_REQ_ERR; ERR");
		hostile_free(&h);
	}
}

FLUSH(qp_without_the_right__invalid_request)
{
	static const struct {
		uint32_t type, has;
	} rows[] = {
		{GLOBAL, ROCEMU_ACCESS_FLUSH_PERSISTENT},
		{PERSISTENT, ROCEMU_ACCESS_FLUSH_GLOBAL},
		{GLOBAL | PERSISTENT, ROCEMU_ACCESS_FLUSH_GLOBAL},
		{GLOBAL, IBV_ACCESS_REMOTE_WRITE},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		start(rows[i].has);
		flush(0, rows[i].type, 0, 8);
		EXPECT(&h, "drop ACCESS; nak 61 0/0; event QP_REQ_ERR; ERR");
		hostile_free(&h);
	}
}

FLUSH(region_without_the_right_or_range_outside__access_error)
{
	static const struct {
		int access;
		uint32_t feth;
		uint64_t off;
		uint32_t len;
	} rows[] = {
		{HOSTILE_ALL_ACCESS, GLOBAL, 0, 8},
		{HOSTILE_ALL_ACCESS | ROCEMU_ACCESS_FLUSH_GLOBAL, PERSISTENT, 0, 8},
		{HOSTILE_ALL_ACCESS, GLOBAL | WHOLE, 0, 8},
		{HOSTILE_FLUSHABLE, GLOBAL, HOSTILE_MEM - 8, 9},
		{HOSTILE_FLUSHABLE, GLOBAL, UINT64_MAX, 0},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct rocemu_mr *mr;

		start(HOSTILE_FLUSHABLE);
		assert_int_equal(rocemu_mr_reg(h.pd, h.mem, HOSTILE_MEM, (uintptr_t)h.mem,
					       rows[i].access, &mr),
				 0);
		h.rkey = rocemu_mr_rkey(mr);
		flush(0, rows[i].feth, rows[i].off, rows[i].len);
		EXPECT(&h, "drop ACCESS; nak 62 0/0; event QP_ACCESS_ERR; ERR");
		hostile_free(&h);
	}
}

FLUSH(key_nobody_has__access_error_even_for_no_bytes)
{
	start(HOSTILE_FLUSHABLE);
	h.rkey ^= 0x100;
	flush(0, GLOBAL, 0, 0);
	EXPECT(&h, "drop ACCESS; nak 62 0/0; event QP_ACCESS_ERR; ERR");
	hostile_free(&h);
}

FLUSH(over_xrc__by_the_srqs_protection_domain)
{
	hostile_new(&h, IBV_QPT_XRC_RECV, false);
	h.qp_access = HOSTILE_FLUSHABLE;
	hostile_connect(&h, IBV_QPS_RTS);
	flush(0, GLOBAL, 0, 8);
	EXPECT(&h, "only 0+0");
	hostile_free(&h);
}
