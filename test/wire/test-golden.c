/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The codec against packets that another implementation made: the captures of test/golden, recorded
 * from the kernel's Soft-RoCE driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "golden.h"

enum { BTH_RESV8A_BYTE = 4 };

static void check_decode(const char *file, const struct capture_rec *rec, void *user)
{
	struct rocemu_packet p;
	uint8_t *copy = exact_copy(rec->data, rec->len);

	(void)user;
	if (rocemu_packet_decode(&p, copy, rec->len) != ROCEMU_DROP_NONE)
		fail_msg("%s: packet %u is not taken", file, (unsigned)rec->number);
	assert_int_equal(rec->len, rec->wire_len);
	assert_int_equal(p.hdr_len + p.payload_len + p.h.pad + ROCEMU_ICRC_LEN, rec->len);
	assert_ptr_equal(p.payload, copy + p.hdr_len);
	assert_int_equal((p.payload_len + p.h.pad) % 4, 0);
	free(copy);
}

static void golden__every_packet__decodes(void **state)
{
	(void)state;
	assert_true(golden_for_each(check_decode, NULL) > 0);
}

struct readme_row {
	const char *file;
	unsigned packets;
};

static void count_packet(const char *file, const struct capture_rec *rec, void *user)
{
	struct readme_row *row = user;

	(void)rec;
	if (strcmp(file, row->file) == 0)
		row->packets--;
}

/* The README's table: "| name.pcap | command | packets | ...". */
static void golden__packets_per_file__as_readme_says(void **state)
{
	char line[4096], file[128];
	struct readme_row row = {.file = file};
	FILE *f = fopen(GOLDEN_DIR "/README.md", "r");
	unsigned rows = 0;

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "| %127[^ |] | %*[^|] | %u |", file, &row.packets) != 2)
			continue;
		golden_for_each(count_packet, &row);
		if (row.packets != 0)
			fail_msg("%s: %d packets more or less than README.md says", file,
				 (int)row.packets);
		rows++;
	}
	fclose(f);
	assert_true(rows > 50);
}

static void check_reencode(const char *file, const struct capture_rec *rec, void *user)
{
	struct rocemu_icrc_ctx ctx = golden_icrc_ctx(&rec->ip);
	uint8_t buf[ROCEMU_MAX_HDR_LEN];
	struct rocemu_packet p;
	struct iovec iov;
	size_t n;

	(void)user;
	assert_int_equal(rocemu_packet_decode(&p, rec->data, rec->len), ROCEMU_DROP_NONE);
	memset(buf, 0xa5, sizeof(buf));
	n = rocemu_hdrs_encode(&p.h, buf);
	assert_int_equal(n, p.hdr_len);
	if (memcmp(buf, rec->data, n) != 0)
		fail_msg("%s: headers of packet %u re-encode differently", file,
			 (unsigned)rec->number);
	iov = (struct iovec){.iov_base = exact_copy(p.payload, p.payload_len),
			     .iov_len = p.payload_len};
	assert_int_equal(rocemu_icrc(&ctx, buf, n, &iov, 1, p.payload + p.payload_len, p.h.pad),
			 p.icrc);
	free(iov.iov_base);
}

static void golden__every_packet__encodes_to_the_same_bytes(void **state)
{
	(void)state;
	golden_for_each(check_reencode, NULL);
}

static void check_ip_reencode(const char *file, const struct capture_rec *rec, void *user)
{
	uint8_t buf[IP_UDP_MAX_LEN];
	size_t n;

	(void)file;
	(void)user;
	n = ip_udp_encode(&rec->ip, rec->len, buf);
	/* rec->data lies behind its own headers: rxe's UDP checksum is 0 as well, so all bytes are
	 * the same. */
	assert_memory_equal(buf, rec->data - n, n);
	if (buf[0] >> 4 == 4)
		assert_int_equal(ip_checksum(buf, IPV4_LEN), 0);
}

static void golden__ip_and_udp_headers__encode_to_the_same_bytes(void **state)
{
	(void)state;
	golden_for_each(check_ip_reencode, NULL);
}

static void check_icrc(const char *file, const struct capture_rec *rec, void *user)
{
	struct rocemu_icrc_ctx ctx = golden_icrc_ctx(&rec->ip);
	uint8_t *copy = exact_copy(rec->data, rec->len);
	int32_t id = rec->ip.ip_id; /* 0 for IPv6 */

	(void)user;
	if (rocemu_icrc_check(&ctx, true, copy, rec->len) != id)
		fail_msg("%s: ICRC of packet %u does not match", file, (unsigned)rec->number);
	ctx.ip_id = (uint16_t)(id + 1);
	if (rocemu_gid_is_ipv4(&ctx.src))
		assert_int_equal(rocemu_icrc_check(&ctx, true, copy, rec->len), -1);
	for (uint32_t guess = 0; guess <= 0xffff; guess += 0x1111) {
		ctx.ip_id = (uint16_t)guess;
		assert_int_equal(rocemu_icrc_check(&ctx, false, copy, rec->len), id);
	}
	free(copy);
}

static void golden__icrc__matches_and_solves_to_the_real_id(void **state)
{
	(void)state;
	golden_for_each(check_icrc, NULL);
}

/* The expected result of decoding the first len bytes of a valid packet. */
static enum rocemu_drop verdict_of_prefix(const struct rocemu_packet *whole, size_t len)
{
	size_t hdrs = whole->hdr_len + (size_t)ROCEMU_ICRC_LEN;

	if (len < hdrs)
		return ROCEMU_DROP_SHORT;
	return len - hdrs < whole->h.pad ? ROCEMU_DROP_PAD : ROCEMU_DROP_NONE;
}

static void check_truncations(const char *file, const struct capture_rec *rec, void *user)
{
	struct rocemu_packet whole, p;

	(void)file;
	(void)user;
	assert_int_equal(rocemu_packet_decode(&whole, rec->data, rec->len), ROCEMU_DROP_NONE);
	for (size_t len = 0; len < rec->len; len++) {
		uint8_t *copy = exact_copy(rec->data, len);

		memset(&p, 0xee, sizeof(p));
		assert_int_equal(rocemu_packet_decode(&p, copy, len),
				 verdict_of_prefix(&whole, len));
		assert_int_equal(p.h.dqpn, len < ROCEMU_BTH_LEN ? 0 : whole.h.dqpn);
		free(copy);
	}
}

static void golden__every_truncation__short_and_nothing_read_beyond(void **state)
{
	(void)state;
	golden_for_each(check_truncations, NULL);
}

static void check_bit_flips(const char *file, const struct capture_rec *rec, void *user)
{
	struct rocemu_icrc_ctx ctx = golden_icrc_ctx(&rec->ip);
	uint8_t *copy = exact_copy(rec->data, rec->len);

	(void)user;
	for (size_t bit = 0; bit < rec->len * 8; bit++) {
		bool masked = bit / 8 == BTH_RESV8A_BYTE;
		int32_t r;

		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
		r = rocemu_icrc_check(&ctx, true, copy, rec->len);
		if (r != (masked ? rec->ip.ip_id : -1))
			fail_msg("%s: packet %u with bit %zu flipped: %d", file,
				 (unsigned)rec->number, bit, (int)r);
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(copy);
}

static void golden__any_bit_flipped__icrc_fails_unless_it_may_change_on_the_way(void **state)
{
	(void)state;
	golden_for_each(check_bit_flips, NULL);
}

struct corruption {
	struct rng rng;
	unsigned tried, passed;
};

static void corrupt_some(const char *file, const struct capture_rec *rec, void *user)
{
	struct rocemu_icrc_ctx ctx = golden_icrc_ctx(&rec->ip);
	struct corruption *c = user;
	uint8_t *copy;

	(void)file;
	if (!rocemu_gid_is_ipv4(&ctx.src))
		return;
	copy = exact_copy(rec->data, rec->len);
	for (unsigned i = 0; i < 500; i++) {
		uint32_t at[2] = {rng_below(&c->rng, (uint32_t)rec->len),
				  rng_below(&c->rng, (uint32_t)rec->len)};
		uint8_t x[2] = {(uint8_t)(1 + rng_below(&c->rng, 255)), (uint8_t)rng_u32(&c->rng)};

		if (at[0] == BTH_RESV8A_BYTE || at[0] == at[1])
			continue;
		copy[at[0]] ^= x[0];
		copy[at[1]] ^= x[1];
		c->tried++;
		c->passed += rocemu_icrc_check(&ctx, false, copy, rec->len) >= 0;
		copy[at[0]] ^= x[0];
		copy[at[1]] ^= x[1];
	}
	free(copy);
}

/* With the identification unknown it is a 16-bit check: about one in 65536 corrupted packets
 * passes. */
static void golden__corrupted_with_id_unknown__passes_as_rarely_as_16_bits_allow(void **state)
{
	struct corruption c = {0};

	(void)state;
	rng_init(&c.rng, 1);
	golden_for_each(corrupt_some, &c);
	assert_true(c.tried > 300000);
	assert_in_range(c.passed, 0, 25); /* about 5 expected */
}

static void check_mad(const char *file, const struct capture_rec *rec, void *user)
{
	unsigned *mads = user;
	struct rocemu_packet p;

	if (strncmp(file, "cm_", 3) != 0)
		return;
	assert_int_equal(rocemu_packet_decode(&p, rec->data, rec->len), ROCEMU_DROP_NONE);
	if (p.h.dqpn != 1)
		return;
	assert_int_equal(p.h.opcode, ROCEMU_UD_SEND_ONLY);
	assert_int_equal(p.h.deth.sqpn, 1);
	assert_int_equal(p.h.deth.qkey, 0x80010000);
	assert_int_equal(p.h.pkey, 0xffff);
	assert_true(p.h.ackreq);
	assert_int_equal(p.payload_len, 256);
	assert_int_equal(p.payload[0], 1);    /* base version */
	assert_int_equal(p.payload[1], 0x07); /* class: communication management */
	++*mads;
}

static void golden__cm_mads__are_ud_sends_to_qp1(void **state)
{
	unsigned mads = 0;

	(void)state;
	golden_for_each(check_mad, &mads);
	assert_true(mads > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden__every_packet__decodes),
		cmocka_unit_test(golden__packets_per_file__as_readme_says),
		cmocka_unit_test(golden__every_packet__encodes_to_the_same_bytes),
		cmocka_unit_test(golden__ip_and_udp_headers__encode_to_the_same_bytes),
		cmocka_unit_test(golden__icrc__matches_and_solves_to_the_real_id),
		cmocka_unit_test(golden__every_truncation__short_and_nothing_read_beyond),
		cmocka_unit_test(
			golden__any_bit_flipped__icrc_fails_unless_it_may_change_on_the_way),
		cmocka_unit_test(
			golden__corrupted_with_id_unknown__passes_as_rarely_as_16_bits_allow),
		cmocka_unit_test(golden__cm_mads__are_ud_sends_to_qp1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
