/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/util.h"
#include "golden.h"
#include "capture/cut.h"

/* Of a packet that is cut anywhere: the BTH and the payload's length as of the whole one. */
static void check_cuts(const char *file, const struct capture_rec *rec, void *user)
{
	struct rocemu_packet whole = {0}, p = {0}; /* also headers that it does not have */
	struct capture_rec cut = *rec;
	uint32_t hdrs;

	(void)user;
	assert_int_equal(rocemu_packet_decode(&whole, rec->data, rec->len), ROCEMU_DROP_NONE);
	for (cut.len = 0; cut.len <= rec->len; cut.len++) {
		uint8_t *data = exact_copy(rec->data, cut.len);
		enum rocemu_drop why;

		cut.data = data;
		why = cut_decode(&p, &hdrs, &cut);
		if (why != (cut_has_bth(&cut) ? ROCEMU_DROP_NONE : ROCEMU_DROP_SHORT))
			fail_msg("%s: packet %u cut to %zu", file, (unsigned)rec->number, cut.len);
		if (cut_has_bth(&cut)) {
			assert_int_equal(p.h.psn, whole.h.psn);
			assert_int_equal(p.h.dqpn, whole.h.dqpn);
			assert_int_equal(p.payload_len, whole.payload_len);
			assert_int_equal(p.payload == NULL, cut.len < rec->len);
		}
		if (cut.len >= whole.hdr_len) {
			assert_int_equal(hdrs, rocemu_opcode_hdrs(whole.h.opcode));
			assert_memory_equal(&p.h, &whole.h, sizeof(p.h));
		} else if (cut_has_bth(&cut)) {
			assert_true((hdrs & ~rocemu_opcode_hdrs(whole.h.opcode)) == 0);
			assert_int_not_equal(hdrs, rocemu_opcode_hdrs(whole.h.opcode));
		}
		free(data);
	}
}

static void cut_decode__every_packet_cut_anywhere__what_is_there(void **state)
{
	(void)state;
	golden_for_each(check_cuts, NULL);
}

/* A packet of n bytes of which the first `len` were captured. */
static struct capture_rec packet(uint8_t opcode, size_t wire_len, size_t len)
{
	static uint8_t data[3 * 4200];

	memset(data, 0, sizeof(data));
	data[0] = opcode;
	data[2] = data[3] = 0xff;
	return (struct capture_rec){.data = data, .len = len, .wire_len = wire_len};
}

static void cut_decode__xrc_write_cut_between_its_headers__those_before(void **state)
{
	struct capture_rec rec = packet(ROCEMU_XRC_WRITE_ONLY_IMM, 100, 12 + 4 + 16 + 3);
	struct rocemu_packet p;
	uint32_t hdrs;
	char names[64];

	(void)state;
	assert_int_equal(cut_decode(&p, &hdrs, &rec), ROCEMU_DROP_NONE);
	assert_int_equal(hdrs, ROCEMU_HDR_XRCETH | ROCEMU_HDR_RETH);
	assert_int_equal(p.payload_len, 100 - 36 - 4);
	assert_int_equal(cut_names(names, sizeof(names), hdrs), strlen("XRCETH, RETH"));
	assert_string_equal(names, "XRCETH, RETH");
	rec.len = 12;
	assert_int_equal(cut_decode(&p, &hdrs, &rec), ROCEMU_DROP_NONE);
	assert_int_equal(hdrs, 0);
}

static void cut_decode__longer_than_any_packet__its_first_headers(void **state)
{
	struct capture_rec rec = packet(ROCEMU_RC_WRITE_ONLY, 9000, 40);
	struct rocemu_packet p;
	uint32_t hdrs;

	(void)state;
	assert_int_equal(cut_decode(&p, &hdrs, &rec), ROCEMU_DROP_LENGTH);
	assert_int_equal(hdrs, ROCEMU_HDR_RETH);
	assert_int_equal(p.payload_len, 9000 - 28 - 4);
	assert_null(p.payload);
}

static void cut_may_be_burst__lengths_and_the_checksum(void **state)
{
	enum { H = 12 + 4, ACK = 16 + 4 };
	static const struct {
		uint8_t opcode;
		size_t wire_len;
		bool offloaded, cut, whole;
	} t[] = {
		{ROCEMU_RC_SEND_MIDDLE, H + 1024, false, false, false},
		{ROCEMU_RC_SEND_MIDDLE, H + 1024, true, false, false}, /* no sum of packets */
		{ROCEMU_RC_SEND_MIDDLE, 2 * (H + 1024), false, true, false},
		{ROCEMU_RC_SEND_MIDDLE, 2 * (H + 1024), true, true, true},
		{ROCEMU_RC_SEND_MIDDLE, 3 * (H + 4096), false, true, true},
		{ROCEMU_RC_SEND_ONLY, H + 1000, false, false, false},
		{ROCEMU_RC_SEND_ONLY, H + 1000, true, true, true},
		{ROCEMU_RC_SEND_ONLY, H + 12, true, false, false}, /* no room for another */
		{ROCEMU_RC_SEND_ONLY, 5 * (H + 1000), false, true, true},
		{ROCEMU_RC_ACK, ACK, true, false, false},
		{ROCEMU_RC_ACK, 2 * ACK, false, true, false},
		{ROCEMU_RC_ACK, 2 * ACK, true, true, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct capture_rec rec = packet(t[i].opcode, t[i].wire_len, 16);

		rec.offloaded = t[i].offloaded;
		if (cut_may_be_burst(&rec) != t[i].cut)
			fail_msg("case %zu, cut", i);
		rec.len = rec.wire_len;
		if (cut_may_be_burst(&rec) != t[i].whole)
			fail_msg("case %zu, whole", i);
		rec.len = 16;
		rec.v1 = true; /* no UDP, no segmentation */
		assert_false(cut_may_be_burst(&rec));
		rec.v1 = false;
		rec.fragment = true;
		assert_false(cut_may_be_burst(&rec));
		rec.len = 11;
		rec.fragment = false;
		assert_false(cut_may_be_burst(&rec));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_decode__every_packet_cut_anywhere__what_is_there),
		cmocka_unit_test(cut_decode__xrc_write_cut_between_its_headers__those_before),
		cmocka_unit_test(cut_decode__longer_than_any_packet__its_first_headers),
		cmocka_unit_test(cut_may_be_burst__lengths_and_the_checksum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
