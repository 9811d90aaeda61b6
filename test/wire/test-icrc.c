/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <isa-l/crc.h>

#include <rocemu/wire.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "base/util.h"
#include "wire/icrc.h"

static const struct rocemu_icrc_ctx v4 = {
	.src.raw = {[10] = 0xff, 0xff, 10, 0, 0, 1},
	.dst.raw = {[10] = 0xff, 0xff, 10, 0, 0, 2},
	.sport = 0xc123,
	.dport = ROCEMU_UDP_PORT,
	.ip_id = 0x1234,
	.ip_frag = 0x4000,
};

static const struct rocemu_icrc_ctx v6 = {
	.src.raw = {0xfd, [15] = 1},
	.dst.raw = {0xfd, [15] = 2},
	.sport = 0xc123,
	.dport = ROCEMU_UDP_PORT,
};

/* CRC-32 bit by bit, not complemented at either end: shares nothing with the code under test. */
static uint32_t slow_crc(uint32_t state, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		state ^= p[i];
		for (int b = 0; b < 8; b++)
			state = state >> 1 ^ ((state & 1) != 0 ? 0xedb88320u : 0);
	}
	return state;
}

/* The ICRC by the letter of annex A17.3.3, for packets without IP options. */
static uint32_t slow_icrc(const struct rocemu_icrc_ctx *c, const uint8_t *pkt, size_t len)
{
	uint8_t b[8 + 40 + 8] = {0};
	size_t n = 8, udp_len = 8 + len + 4;
	uint32_t crc;

	memset(b, 0xff, 8);
	if (rocemu_gid_is_ipv4(&c->src)) {
		b[n] = 0x45;
		b[n + 1] = 0xff;
		put_be16(b + n + 2, (uint16_t)(20 + udp_len));
		put_be16(b + n + 4, c->ip_id);
		put_be16(b + n + 6, c->ip_frag);
		b[n + 8] = 0xff;
		b[n + 9] = 17;
		b[n + 10] = b[n + 11] = 0xff;
		memcpy(b + n + 12, c->src.raw + 12, 4);
		memcpy(b + n + 16, c->dst.raw + 12, 4);
		n += 20;
	} else {
		b[n] = 0x6f;
		b[n + 1] = b[n + 2] = b[n + 3] = 0xff;
		put_be16(b + n + 4, (uint16_t)udp_len);
		b[n + 6] = 17;
		b[n + 7] = 0xff;
		memcpy(b + n + 8, c->src.raw, 16);
		memcpy(b + n + 24, c->dst.raw, 16);
		n += 40;
	}
	put_be16(b + n, c->sport);
	put_be16(b + n + 2, c->dport);
	put_be16(b + n + 4, (uint16_t)udp_len);
	b[n + 6] = b[n + 7] = 0xff;
	n += 8;
	crc = slow_crc(0xffffffff, b, n);
	crc = slow_crc(crc, pkt, 4);
	crc = slow_crc(crc, (const uint8_t *)"\xff", 1);
	return ~slow_crc(crc, pkt + 5, len - 5);
}

static void fill(uint8_t *p, size_t n, struct rng *rng)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)rng_u32(rng);
}

/* What icrc.c relies on: zlib's conventions, so that a result is the next call's seed. */
static void crc32_gzip_refl__check_string__zlibs_value_and_chains(void **state)
{
	const uint8_t *s = (const uint8_t *)"123456789";

	(void)state;
	assert_int_equal(crc32_gzip_refl(0, s, 9), 0xcbf43926);
	assert_int_equal(crc32_gzip_refl(crc32_gzip_refl(0, s, 4), s + 4, 5), 0xcbf43926);
	assert_int_equal(crc32_gzip_refl(0xcbf43926, s, 0), 0xcbf43926);
}

static void icrc__both_families_many_lengths__as_the_slow_one(void **state)
{
	uint8_t pkt[600];
	struct rng rng;

	(void)state;
	rng_init(&rng, 4);
	fill(pkt, sizeof(pkt), &rng);
	for (size_t len = ROCEMU_BTH_LEN; len <= sizeof(pkt); len++) {
		assert_int_equal(rocemu_icrc(&v4, pkt, len, NULL, 0, NULL, 0),
				 slow_icrc(&v4, pkt, len));
		assert_int_equal(rocemu_icrc(&v6, pkt, len, NULL, 0, NULL, 0),
				 slow_icrc(&v6, pkt, len));
	}
}

static void icrc__packet_in_pieces__as_in_one(void **state)
{
	uint8_t pkt[500];
	struct rng rng;

	(void)state;
	rng_init(&rng, 5);
	fill(pkt, sizeof(pkt), &rng);
	for (unsigned i = 0; i < 2000; i++) {
		size_t hdr = 12 + rng_below(&rng, 53), pad = rng_below(&rng, 4), at = hdr;
		struct iovec iov[5];

		for (unsigned k = 0; k < 4; k++) {
			iov[k].iov_base = pkt + at;
			iov[k].iov_len = rng_below(&rng, 100); /* 0 as well */
			at += iov[k].iov_len;
		}
		iov[4].iov_base = pkt + at;
		iov[4].iov_len = sizeof(pkt) - pad - at;
		assert_int_equal(rocemu_icrc(&v4, pkt, hdr, iov, 5, pkt + sizeof(pkt) - pad, pad),
				 slow_icrc(&v4, pkt, sizeof(pkt)));
	}
}

/* One packet of len bytes with its ICRC; malloc()ed. */
static uint8_t *sealed(const struct rocemu_icrc_ctx *c, size_t len, struct rng *rng)
{
	uint8_t *p = malloc(len);

	assert_non_null(p);
	fill(p, len, rng);
	put_le32(p + len - 4, rocemu_icrc(c, p, len - 4, NULL, 0, NULL, 0));
	return p;
}

/* Lengths that need every power of the table in icrc.c, up to the largest datagram. */
static void icrc_check__id_unknown_any_length__solves_to_the_real_id(void **state)
{
	static const size_t lens[] = {16,   17,	  20,	44,   63,   80,	  108,	 236,	492,  1004,
				      1072, 2028, 4076, 4124, 4176, 8172, 16364, 32748, 65507};
	struct rng rng;

	(void)state;
	rng_init(&rng, 6);
	for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
		for (unsigned k = 0; k < 50; k++) {
			struct rocemu_icrc_ctx c = v4;
			uint8_t *p;

			c.ip_id = (uint16_t)rng_u32(&rng);
			p = sealed(&c, lens[i], &rng);
			assert_int_equal(rocemu_icrc_check(&c, true, p, lens[i]), c.ip_id);
			assert_int_equal(rocemu_icrc_check(&v4, false, p, lens[i]), c.ip_id);
			free(p);
		}
	}
}

static void icrc_check__every_id__solved(void **state)
{
	struct rocemu_icrc_ctx c = v4;
	uint8_t p[64] = {0x64};

	(void)state;
	for (uint32_t id = 0; id <= 0xffff; id++) {
		c.ip_id = (uint16_t)id;
		put_le32(p + 60, rocemu_icrc(&c, p, 60, NULL, 0, NULL, 0));
		assert_int_equal(rocemu_icrc_check(&v4, false, p, 64), id);
	}
}

/* Only the 16 bits of the identification are free: the bits right behind them are not. */
static void icrc_check__id_unknown_flags_differ__fails(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 10);
	for (unsigned bit = 0; bit < 16; bit++) {
		struct rocemu_icrc_ctx c = v4;
		uint8_t *p;

		c.ip_frag ^= (uint16_t)(1u << bit);
		p = sealed(&c, 100, &rng);
		assert_int_equal(rocemu_icrc_check(&v4, false, p, 100), -1);
		free(p);
	}
}

static void icrc_check__ipv6__full_check_whatever_is_known(void **state)
{
	struct rng rng;
	uint8_t *p;

	(void)state;
	rng_init(&rng, 7);
	p = sealed(&v6, 200, &rng);
	assert_int_equal(rocemu_icrc_check(&v6, false, p, 200), 0);
	assert_int_equal(rocemu_icrc_check(&v6, true, p, 200), 0);
	for (size_t bit = 0; bit < 200 * 8; bit++) {
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(rocemu_icrc_check(&v6, false, p, 200), bit / 8 == 4 ? 0 : -1);
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(p);
}

static void icrc_check__addressing_changed__fails(void **state)
{
	struct rocemu_icrc_ctx c = v4;
	struct rng rng;
	uint8_t *p;

	(void)state;
	rng_init(&rng, 8);
	p = sealed(&v4, 100, &rng);
	c.src.raw[15] ^= 1;
	assert_int_equal(rocemu_icrc_check(&c, true, p, 100), -1);
	c = v4;
	c.sport ^= 1;
	assert_int_equal(rocemu_icrc_check(&c, true, p, 100), -1);
	c = v4;
	c.ip_frag = 0;
	assert_int_equal(rocemu_icrc_check(&c, true, p, 100), -1);
	assert_int_equal(rocemu_icrc_check(&c, false, p, 100), -1);
	free(p);
}

static void icrc_check__no_room_for_bth_and_icrc__fails(void **state)
{
	uint8_t p[16] = {0};

	(void)state;
	for (size_t len = 0; len < 16; len++)
		assert_int_equal(rocemu_icrc_check(&v4, false, p, len), -1);
}

/* A path of few: so that the same forms come again, one after another and mixed. */
static struct rocemu_icrc_ctx some_ctx(struct rng *rng)
{
	struct rocemu_icrc_ctx c = rng_below(rng, 4) ? v4 : v6;

	c.sport = (uint16_t)(0xc000 + rng_below(rng, 2));
	c.ip_id = (uint16_t)(rng_below(rng, 2) ? rng_below(rng, 3) : rng_u32(rng));
	c.ip_frag ^= (uint16_t)(rng_below(rng, 8) == 0);
	c.src.raw[15] ^= (uint8_t)(rng_below(rng, 8) == 0);
	c.dst.raw[15] ^= (uint8_t)(rng_below(rng, 8) == 0);
	return c;
}

static void icrc_memo__packets_that_are_alike_and_others__as_the_slow_one(void **state)
{
	static const size_t lens[] = {12, 20, 24, 92, 108, 252, 253, 300};
	static struct icrc_memo memo;
	uint8_t pkt[304];
	struct rng rng;

	(void)state;
	rng_init(&rng, 11);
	for (unsigned i = 0; i < 20000; i++) {
		const struct rocemu_icrc_ctx c = some_ctx(&rng);
		const size_t n = lens[rng_below(&rng, ARRAY_LEN(lens))];

		fill(pkt, n, &rng);
		pkt[4] = (uint8_t)(rng_below(&rng, 8) ? 0 : rng_u32(&rng));
		assert_int_equal(icrc_memo_compute(&memo, &c, pkt, n), slow_icrc(&c, pkt, n));
	}
}

static unsigned known_forms(const struct icrc_memo *m)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ICRC_FORMS; i++)
		n += m->form[i].known;
	return n;
}

/* A burst of n messages and an ACK, twice, with any identifications. */
static unsigned known_after_two_bursts(unsigned n, size_t message)
{
	enum { ACK = 16 }; /* BTH and AETH */
	struct icrc_memo *memo = calloc(1, sizeof(*memo));
	const uint8_t pkt[ICRC_MEMO_MAX_LEN] = {0};
	struct rocemu_icrc_ctx c = v4;
	unsigned known;

	assert_non_null(memo);
	for (unsigned i = 0; i < 2 * (n + 1); i++) {
		c.ip_id = (uint16_t)(0xfffe + 3 * i);
		icrc_memo_compute(memo, &c, pkt, i % (n + 1) == n ? ACK : message);
	}
	known = known_forms(memo);
	free(memo);
	return known;
}

static void icrc_memo__messages_and_their_ack__all_known(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 4; n++)
		for (size_t len = 12; len <= ICRC_MEMO_MAX_LEN - ROCEMU_ICRC_LEN; len += 4)
			assert_int_equal(known_after_two_bursts(n, len), len == 16 ? 1 : 2);
}

static void icrc_memo_check__any_packet__as_without(void **state)
{
	static const size_t lens[] = {16, 24, 96, 256, 260};
	static struct icrc_memo memo;
	unsigned right = 0, wrong = 0;
	struct rng rng;

	(void)state;
	rng_init(&rng, 12);
	for (unsigned i = 0; i < 20000; i++) {
		const struct rocemu_icrc_ctx sent = some_ctx(&rng);
		const size_t len = lens[rng_below(&rng, ARRAY_LEN(lens))];
		const bool known = rng_below(&rng, 2);
		struct rocemu_icrc_ctx c = sent;
		uint8_t *p = sealed(&sent, len, &rng);
		int32_t id;

		/* Another place in a burst than was guessed, and a corrupted packet. */
		if (!rng_below(&rng, 4))
			c.ip_id++;
		if (!rng_below(&rng, 4))
			p[rng_below(&rng, (uint32_t)len)] ^= 0x10;
		id = icrc_memo_check(&memo, &c, known, p, len);
		assert_int_equal(id, rocemu_icrc_check(&c, known, p, len));
		right += id >= 0;
		wrong += id < 0;
		free(p);
	}
	assert_true(right > 1000 && wrong > 1000);
	for (size_t len = 0; len < 16; len++)
		assert_int_equal(icrc_memo_check(&memo, &v4, false, (uint8_t[16]){0}, len), -1);
}

/* A READ REQUEST; the value is zlib's, over eight bytes of ones, the GRH with the fields that may
 * change as ones, and the packet with byte 4 as ones. */
static void icrc_v1_fits__known_packet__any_other_byte_does_not(void **state)
{
	static const uint8_t good[] = {0x0c, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x31,
				       0x80, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
				       0x16, 0x9b, 0xf0, 0x00, 0x00, 0x00, 0x42, 0xd2,
				       0x00, 0x00, 0x00, 0x00, 0x91, 0x20, 0x60, 0xce};
	const struct ip_udp grh = {
		.src.raw = {0xfd, 0x77, [15] = 2},
		.dst.raw = {0xfd, 0x77, [15] = 3},
		.flow_label = 5,
		.tclass = 6,
		.hop_limit = 7,
	};
	struct ip_udp other = grh;
	uint8_t p[sizeof(good)];

	(void)state;
	assert_true(icrc_v1_fits(&grh, good, sizeof(good)));
	for (size_t i = 0; i < sizeof(good); i++) {
		memcpy(p, good, sizeof(p));
		p[i] ^= 0x10;
		assert_int_equal(icrc_v1_fits(&grh, p, sizeof(p)), i == 4);
	}
	other.src.raw[15] = 3;
	assert_false(icrc_v1_fits(&other, good, sizeof(good)));
	for (size_t len = 0; len < 16; len++)
		assert_false(icrc_v1_fits(&grh, good, len));
}

static void gid_is_ipv4__mapped_only(void **state)
{
	struct rocemu_gid any = {0};

	(void)state;
	assert_true(rocemu_gid_is_ipv4(&v4.src));
	assert_false(rocemu_gid_is_ipv4(&v6.src));
	assert_false(rocemu_gid_is_ipv4(&any));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc32_gzip_refl__check_string__zlibs_value_and_chains),
		cmocka_unit_test(icrc__both_families_many_lengths__as_the_slow_one),
		cmocka_unit_test(icrc__packet_in_pieces__as_in_one),
		cmocka_unit_test(icrc_check__id_unknown_any_length__solves_to_the_real_id),
		cmocka_unit_test(icrc_check__every_id__solved),
		cmocka_unit_test(icrc_check__id_unknown_flags_differ__fails),
		cmocka_unit_test(icrc_check__ipv6__full_check_whatever_is_known),
		cmocka_unit_test(icrc_check__addressing_changed__fails),
		cmocka_unit_test(icrc_check__no_room_for_bth_and_icrc__fails),
		cmocka_unit_test(icrc_memo__packets_that_are_alike_and_others__as_the_slow_one),
		cmocka_unit_test(icrc_memo__messages_and_their_ack__all_known),
		cmocka_unit_test(icrc_memo_check__any_packet__as_without),
		cmocka_unit_test(icrc_v1_fits__known_packet__any_other_byte_does_not),
		cmocka_unit_test(gid_is_ipv4__mapped_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
