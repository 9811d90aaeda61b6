/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <rocemu/wire.h>

#include "base/rng.h"
#include "base/util.h"

/* Every field different, every reserved bit set somewhere: a swap or a wrong mask shows. */
static const struct rocemu_hdrs all_fields = {
	.pad = 2,
	.se = true,
	.becn = true,
	.ackreq = true,
	.resv8a = 0x2a,
	.resv7 = 0x55,
	.pkey = 0x8001,
	.dqpn = 0x123456,
	.psn = 0xfedcba,
	.xrceth = {.srqn = 0xa1a2a3, .resv = 0xa0},
	.deth = {.qkey = 0xb0b1b2b3, .sqpn = 0xb5b6b7, .resv = 0xb4},
	.feth = {.raw = 0x00000012},
	.reth = {.va = 0xc0c1c2c3c4c5c6c7, .rkey = 0xc8c9cacb, .length = 0x7fffffff},
	.atomiceth = {.va = 0xd0d1d2d3d4d5d6d7,
		      .rkey = 0xd8d9dadb,
		      .swap_add = 0xe0e1e2e3e4e5e6e7,
		      .compare = 0xf0f1f2f3f4f5f6f7},
	.aeth = {.syndrome = ROCEMU_NAK_REM_ACCESS, .msn = 0x313233},
	.atomicack = 0x4041424344454647,
	.imm = 0x51525354,
	.ieth = 0x61626364,
};

/* clang-format off */
#define BTH_REST    0xa0, 0x80, 0x01, 0x6a, 0x12, 0x34, 0x56, 0xd5, 0xfe, 0xdc, 0xba
#define XRCETH      0xa0, 0xa1, 0xa2, 0xa3
#define DETH        0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7
#define FETH        0x00, 0x00, 0x00, 0x12
#define RETH        0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0x7f, 0xff, 0xff, 0xff
#define ATOMICETH   0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xdb, \
                    0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7
#define AETH        0x62, 0x31, 0x32, 0x33
#define ATOMICACK   0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47
#define IMMDT       0x51, 0x52, 0x53, 0x54
#define IETH        0x61, 0x62, 0x63, 0x64

static const struct known {
	uint8_t opcode;
	uint8_t len;
	uint8_t bytes[48];
} known[] = {
#define K(op, ...) { ROCEMU_##op, sizeof((uint8_t[]){ ROCEMU_##op, BTH_REST, ##__VA_ARGS__ }), \
		     { ROCEMU_##op, BTH_REST, ##__VA_ARGS__ } }
	K(RC_SEND_MIDDLE),
	K(RC_SEND_LAST_IMM, IMMDT),
	K(RC_SEND_ONLY_INV, IETH),
	K(RC_WRITE_FIRST, RETH),
	K(RC_WRITE_ONLY_IMM, RETH, IMMDT),
	K(RC_READ_REQUEST, RETH),
	K(RC_READ_RESP_ONLY, AETH),
	K(RC_ATOMIC_ACK, AETH, ATOMICACK),
	K(RC_CMP_SWAP, ATOMICETH),
	K(RC_FLUSH, FETH, RETH),
	K(UD_SEND_ONLY_IMM, DETH, IMMDT),
	K(XRC_SEND_MIDDLE, XRCETH),
	K(XRC_WRITE_ONLY_IMM, XRCETH, RETH, IMMDT),
	K(XRC_FETCH_ADD, XRCETH, ATOMICETH),
	K(XRC_SEND_LAST_INV, XRCETH, IETH),
	K(XRC_FLUSH, XRCETH, FETH, RETH),
#undef K
};
/* clang-format on */

static void hdrs_encode__known_fields__known_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		struct rocemu_hdrs h = all_fields;
		uint8_t buf[ROCEMU_MAX_HDR_LEN];

		h.opcode = known[i].opcode;
		memset(buf, 0x77, sizeof(buf));
		assert_int_equal(rocemu_hdrs_encode(&h, buf), known[i].len);
		assert_memory_equal(buf, known[i].bytes, known[i].len);
		assert_int_equal(buf[known[i].len], 0x77);
	}
}

static void assert_ext_equal(const struct rocemu_hdrs *h)
{
	const struct rocemu_hdrs *a = &all_fields;
	uint32_t hdrs = rocemu_opcode_hdrs(h->opcode);

	if ((hdrs & ROCEMU_HDR_XRCETH) != 0) {
		assert_int_equal(h->xrceth.srqn, a->xrceth.srqn);
		assert_int_equal(h->xrceth.resv, a->xrceth.resv);
	}
	if ((hdrs & ROCEMU_HDR_DETH) != 0) {
		assert_int_equal(h->deth.qkey, a->deth.qkey);
		assert_int_equal(h->deth.sqpn, a->deth.sqpn);
		assert_int_equal(h->deth.resv, a->deth.resv);
	}
	if ((hdrs & ROCEMU_HDR_FETH) != 0)
		assert_int_equal(h->feth.raw, a->feth.raw);
	if ((hdrs & ROCEMU_HDR_RETH) != 0) {
		assert_int_equal(h->reth.va, a->reth.va);
		assert_int_equal(h->reth.rkey, a->reth.rkey);
		assert_int_equal(h->reth.length, a->reth.length);
	}
	if ((hdrs & ROCEMU_HDR_ATOMICETH) != 0) {
		assert_int_equal(h->atomiceth.va, a->atomiceth.va);
		assert_int_equal(h->atomiceth.rkey, a->atomiceth.rkey);
		assert_int_equal(h->atomiceth.swap_add, a->atomiceth.swap_add);
		assert_int_equal(h->atomiceth.compare, a->atomiceth.compare);
	}
	if ((hdrs & ROCEMU_HDR_AETH) != 0) {
		assert_int_equal(h->aeth.syndrome, a->aeth.syndrome);
		assert_int_equal(h->aeth.msn, a->aeth.msn);
	}
	if ((hdrs & ROCEMU_HDR_ATOMICACK) != 0)
		assert_int_equal(h->atomicack, a->atomicack);
	if ((hdrs & ROCEMU_HDR_IMMDT) != 0)
		assert_int_equal(h->imm, a->imm);
	if ((hdrs & ROCEMU_HDR_IETH) != 0)
		assert_int_equal(h->ieth, a->ieth);
}

static void assert_bth_equal(const struct rocemu_hdrs *h)
{
	assert_int_equal(h->se, all_fields.se);
	assert_int_equal(h->migreq, all_fields.migreq);
	assert_int_equal(h->tver, all_fields.tver);
	assert_int_equal(h->fecn, all_fields.fecn);
	assert_int_equal(h->becn, all_fields.becn);
	assert_int_equal(h->ackreq, all_fields.ackreq);
	assert_int_equal(h->resv8a, all_fields.resv8a);
	assert_int_equal(h->resv7, all_fields.resv7);
	assert_int_equal(h->pkey, all_fields.pkey);
	assert_int_equal(h->dqpn, all_fields.dqpn);
	assert_int_equal(h->psn, all_fields.psn);
}

static void packet_decode__known_bytes__known_fields(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		bool payload = (rocemu_opcode_ops(known[i].opcode) & ROCEMU_OP_PAYLOAD) != 0;
		size_t rest = payload ? 8 : 0;
		struct rocemu_packet p;
		uint8_t buf[64] = {0};

		memcpy(buf, known[i].bytes, known[i].len);
		memcpy(buf + known[i].len + rest, "\x11\x22\x33\x44", 4);
		if (!payload)
			buf[1] &= 0xcf; /* no payload, so no pad */
		assert_int_equal(rocemu_packet_decode(&p, buf, known[i].len + rest + 4),
				 ROCEMU_DROP_NONE);
		assert_int_equal(p.h.opcode, known[i].opcode);
		assert_int_equal(p.h.pad, payload ? 2 : 0);
		assert_bth_equal(&p.h);
		assert_ext_equal(&p.h);
		assert_int_equal(p.hdr_len, known[i].len);
		assert_ptr_equal(p.payload, buf + known[i].len);
		assert_int_equal(p.payload_len, payload ? 6 : 0);
		assert_int_equal(p.icrc, 0x44332211);
	}
}

static void hdrs_encode__each_bth_flag__its_own_bit(void **state)
{
	struct rocemu_hdrs h = {.opcode = ROCEMU_RC_SEND_ONLY};
	uint8_t buf[ROCEMU_MAX_HDR_LEN];

	(void)state;
	h.se = true;
	rocemu_hdrs_encode(&h, buf);
	assert_int_equal(buf[1], 0x80);
	h.se = false;
	h.migreq = true;
	rocemu_hdrs_encode(&h, buf);
	assert_int_equal(buf[1], 0x40);
	h.migreq = false;
	h.fecn = true;
	rocemu_hdrs_encode(&h, buf);
	assert_int_equal(buf[4], 0x80);
	h.fecn = false;
	h.becn = true;
	rocemu_hdrs_encode(&h, buf);
	assert_int_equal(buf[4], 0x40);
	h.ackreq = true;
	rocemu_hdrs_encode(&h, buf);
	assert_int_equal(buf[8], 0x80);
}

static void hdrs_encode__fields_too_wide__cut(void **state)
{
	struct rocemu_hdrs h = {.opcode = ROCEMU_RC_ACK};
	uint8_t buf[ROCEMU_MAX_HDR_LEN];

	(void)state;
	h.pad = 0xff;
	h.resv8a = 0xff;
	h.resv7 = 0xff;
	h.dqpn = h.psn = h.aeth.msn = 0xff000001;
	assert_int_equal(rocemu_hdrs_encode(&h, buf), 16);
	assert_memory_equal(buf, "\x11\x30\x00\x00\x3f\x00\x00\x01\x7f\x00\x00\x01\x00\x00\x00\x01",
			    16);
}

static void hdrs_encode__unknown_opcode__nothing_written(void **state)
{
	struct rocemu_hdrs h = {.opcode = 0x40};
	uint8_t buf[ROCEMU_MAX_HDR_LEN] = {0x77};

	(void)state;
	assert_int_equal(rocemu_hdrs_encode(&h, buf), 0);
	assert_int_equal(buf[0], 0x77);
}

static enum rocemu_drop decode_of(uint8_t opcode, uint8_t flags, size_t len)
{
	static uint8_t buf[ROCEMU_MAX_PACKET + 64];
	struct rocemu_packet p;

	buf[0] = opcode;
	buf[1] = flags;
	return rocemu_packet_decode(&p, buf, len);
}

static void packet_decode__bad_form__its_reason(void **state)
{
	static const struct {
		uint8_t opcode, flags;
		size_t len;
		enum rocemu_drop why;
	} t[] = {
		{ROCEMU_RC_SEND_ONLY, 0x00, 16, ROCEMU_DROP_NONE},
		{ROCEMU_RC_SEND_ONLY, 0x00, 15, ROCEMU_DROP_SHORT},
		{ROCEMU_RC_SEND_ONLY, 0x00, 11, ROCEMU_DROP_SHORT},
		{ROCEMU_RC_WRITE_ONLY, 0x00, 31, ROCEMU_DROP_SHORT},
		{ROCEMU_RC_SEND_ONLY, 0x01, 16, ROCEMU_DROP_TVER},
		{0x40, 0x00, 64, ROCEMU_DROP_OPCODE},
		{0xff, 0x00, 64, ROCEMU_DROP_OPCODE},
		{ROCEMU_RC_SEND_ONLY, 0x30, 18, ROCEMU_DROP_PAD},
		{ROCEMU_RC_SEND_ONLY, 0x30, 20, ROCEMU_DROP_NONE},
		{ROCEMU_RC_ACK, 0x00, 20, ROCEMU_DROP_NONE},
		{ROCEMU_RC_ACK, 0x10, 20, ROCEMU_DROP_PAD},
		{ROCEMU_RC_ACK, 0x00, 24, ROCEMU_DROP_LENGTH},
		{ROCEMU_RC_READ_REQUEST, 0x00, 36, ROCEMU_DROP_LENGTH},
		{ROCEMU_RC_SEND_MIDDLE, 0x00, 16 + 4096, ROCEMU_DROP_NONE},
		{ROCEMU_RC_SEND_MIDDLE, 0x00, 16 + 4097, ROCEMU_DROP_LENGTH},
		{ROCEMU_RC_SEND_ONLY, 0x30, 16 + 4099, ROCEMU_DROP_NONE},
		{ROCEMU_RC_SEND_ONLY, 0x30, 16 + 4100, ROCEMU_DROP_LENGTH},
		{ROCEMU_CNP, 0x00, 32, ROCEMU_DROP_NONE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		assert_int_equal(decode_of(t[i].opcode, t[i].flags, t[i].len), t[i].why);
}

static void packet_decode__random_headers__reencode_the_same(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 3);
	for (unsigned i = 0; i < 100000; i++) {
		uint8_t buf[64], again[ROCEMU_MAX_HDR_LEN];
		struct rocemu_packet p;

		for (size_t k = 0; k < sizeof(buf); k++)
			buf[k] = (uint8_t)rng_u32(&rng);
		buf[1] &= 0xf0;
		if (rocemu_packet_decode(&p, buf, rng_below(&rng, sizeof(buf) + 1)) !=
		    ROCEMU_DROP_NONE)
			continue;
		assert_int_equal(rocemu_hdrs_encode(&p.h, again), p.hdr_len);
		assert_memory_equal(again, buf, p.hdr_len);
	}
}

static void drop_text__all_and_beyond__a_text(void **state)
{
	(void)state;
	for (int i = 0; i < ROCEMU_DROP_COUNT; i++)
		assert_true(strlen(rocemu_drop_text((enum rocemu_drop)i)) > 0);
	assert_string_equal(rocemu_drop_text(ROCEMU_DROP_ICRC), "ICRC mismatch");
	assert_string_equal(rocemu_drop_text(ROCEMU_DROP_COUNT), "unknown");
	assert_string_equal(rocemu_drop_text((enum rocemu_drop) - 1), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hdrs_encode__known_fields__known_bytes),
		cmocka_unit_test(packet_decode__known_bytes__known_fields),
		cmocka_unit_test(hdrs_encode__each_bth_flag__its_own_bit),
		cmocka_unit_test(hdrs_encode__fields_too_wide__cut),
		cmocka_unit_test(hdrs_encode__unknown_opcode__nothing_written),
		cmocka_unit_test(packet_decode__bad_form__its_reason),
		cmocka_unit_test(packet_decode__random_headers__reencode_the_same),
		cmocka_unit_test(drop_text__all_and_beyond__a_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
