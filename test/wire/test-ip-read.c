/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "base/util.h"
#include "golden.h"
#include "capture/ip-read.h"

enum { PAYLOAD = 40, ROOM = 256 };

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

/* An encoded packet with PAYLOAD bytes 0, 1, 2, ... */
static size_t make(const struct ip_udp *h, uint8_t *buf)
{
	size_t hdr = ip_udp_encode(h, PAYLOAD, buf);

	for (size_t i = 0; i < PAYLOAD; i++)
		buf[hdr + i] = (uint8_t)i;
	return hdr + PAYLOAD;
}

/* Put n bytes between a packet's IP header and what follows. proto: that IP's header names. */
static size_t insert(uint8_t *buf, size_t len, const void *bytes, size_t n, uint8_t proto)
{
	bool is_v6 = buf[0] >> 4 == 6;
	size_t at = is_v6 ? IPV6_LEN : IPV4_LEN;

	memmove(buf + at + n, buf + at, len - at);
	memcpy(buf + at, bytes, n);
	if (is_v6) {
		put_be16(buf + 4, (uint16_t)(len + n - IPV6_LEN));
		buf[6] = proto;
	} else {
		put_be16(buf + 2, (uint16_t)(len + n));
		buf[9] = proto;
	}
	return len + n;
}

static enum ip_verdict read_udp(const uint8_t *buf, size_t len, struct ip_packet *ip,
				struct udp_packet *udp)
{
	enum ip_verdict v = ip_read(ip, buf, len);

	return v == IPHDR_OK ? udp_read(udp, ip) : v;
}

static void check_whole(const struct ip_udp *h, const uint8_t *buf, size_t len, unsigned extras)
{
	struct udp_packet udp;
	struct ip_packet ip;

	assert_int_equal(read_udp(buf, len, &ip, &udp), IPHDR_OK);
	ip.h.sport = udp.sport;
	ip.h.dport = udp.dport;
	assert_memory_equal(&ip.h, h, sizeof(ip.h));
	assert_int_equal(ip.extras, extras);
	assert_int_equal(ip.fragment, false);
	assert_int_equal(udp.len, PAYLOAD);
	assert_int_equal(udp.wire_len, PAYLOAD);
	assert_int_equal(udp.payload[1], 1);
}

static void check_round_trip(const struct ip_udp *h)
{
	uint8_t buf[ROOM];
	struct udp_packet udp;
	struct ip_packet ip;
	size_t len = make(h, buf);

	memset(buf + len, 0xee, 6); /* an Ethernet frame's padding is not the packet's */
	check_whole(h, buf, len + 6, 0);
	/* cut by the capture */
	assert_int_equal(read_udp(buf, len - 10, &ip, &udp), IPHDR_OK);
	assert_int_equal(udp.len, PAYLOAD - 10);
	assert_int_equal(udp.wire_len, PAYLOAD);
}

static void ip_read__encoded__the_same_again(void **state)
{
	(void)state;
	check_round_trip(&v4);
	check_round_trip(&v6);
}

static void ip_read__bad_header__its_verdict(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		enum ip_verdict want;
	} t[] = {
		{9, 6, IPHDR_NOT_UDP},	 {0, 0x44, IPHDR_SHORT}, /* shorter than a header */
		{0, 0x55, IPHDR_NOT_IP}, {3, 19, IPHDR_SHORT},
		{25, 7, IPHDR_SHORT},	 {25, 49, IPHDR_SHORT}, /* longer than IP's payload */
		{0, 0x4f, IPHDR_SHORT},	 {7, 1, IPHDR_NOT_UDP}, /* a later fragment */
	};
	struct udp_packet udp;
	struct ip_packet ip;
	uint8_t buf[ROOM];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		size_t len = make(&v4, buf);

		buf[t[i].at] = t[i].value;
		if (read_udp(buf, len, &ip, &udp) != t[i].want)
			fail_msg("case %zu", i);
	}
}

static void ip_read__ipv4_options__passed(void **state)
{
	static const uint8_t router_alert[] = {0x94, 4, 0, 0};
	uint8_t buf[ROOM];
	size_t len;

	(void)state;
	len = insert(buf, make(&v4, buf), router_alert, sizeof(router_alert), IP_PROTO_UDP);
	buf[0] = 0x46;
	check_whole(&v4, buf, len, 1u << IP_EXTRA_OPTIONS);
}

enum { HOP_BY_HOP = 0, ROUTING = 43, FRAGMENT = 44, AUTH = 51, DESTINATION = 60 };

/* One header or several; the last names UDP. */
static const struct {
	uint8_t proto, n, bytes[72];
	unsigned extras;
	bool on_the_way; /* the IPv6 header has another destination than the routing header's last
			  */
} chains[] = {
	{HOP_BY_HOP, 8, {17, 0, 1, 4}, 1u << IP_EXTRA_HOP_BY_HOP, false},
	{DESTINATION, 16, {17, 1, 1, 12}, 1u << IP_EXTRA_DESTINATION, false},
	{AUTH, 24, {17, 4}, 1u << IP_EXTRA_AUTH, false},
	{FRAGMENT, 8, {17, 0, 0, 0, 1, 2, 3, 4}, 1u << IP_EXTRA_FRAGMENT, false}, /* all in one */
	{ROUTING, 24, {17, 2, 4, 0, 0, 0, 0, 0, 0x77}, 1u << IP_EXTRA_SEGMENTS, false},
	{ROUTING,
	 40,
	 {17, 4, 4, 1, 1, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8, [23] = 2, 0x77},
	 1u << IP_EXTRA_SEGMENTS,
	 true},
	{ROUTING,
	 40,
	 {17, 4, 0, 2, 0, 0, 0, 0, 0x77, [24] = 0x20, 0x01, 0x0d, 0xb8, [39] = 2},
	 1u << IP_EXTRA_ROUTING,
	 true},
	{ROUTING, 8, {17, 0, 4, 1}, 1u << IP_EXTRA_SEGMENTS, false}, /* without a list */
	{ROUTING,						     /* a list of one */
	 24,
	 {17, 2, 4, 1, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8, [23] = 2},
	 1u << IP_EXTRA_SEGMENTS,
	 true},
	{ROUTING, /* type 2, mobile IPv6 */
	 24,
	 {17, 2, 2, 1, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8, [23] = 2},
	 1u << IP_EXTRA_ROUTING,
	 true},
	{ROUTING, 24, {17, 2, 77, 1, 0, 0, 0, 0, 0x77}, 1u << IP_EXTRA_ROUTING, false},
	{HOP_BY_HOP,
	 40,
	 {43, 0, 1, 4, 0, 0, 0, 0, 60, 2, 4, 0, [32] = 17, 0, 1, 4},
	 1u << IP_EXTRA_HOP_BY_HOP | 1u << IP_EXTRA_SEGMENTS | 1u << IP_EXTRA_DESTINATION,
	 false},
};

static size_t make_chain(size_t i, uint8_t *buf)
{
	struct ip_udp h = v6;

	if (chains[i].on_the_way)
		h.dst.raw[15] = 0x99;
	return insert(buf, make(&h, buf), chains[i].bytes, chains[i].n, chains[i].proto);
}

static void ip_read__ipv6_extension_headers__passed_and_the_last_destination(void **state)
{
	uint8_t buf[ROOM];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(chains); i++)
		check_whole(&v6, buf, make_chain(i, buf), chains[i].extras);
}

static void ip_read__auth_header_in_ipv4__passed(void **state)
{
	static const uint8_t auth[24] = {17, 4};
	uint8_t buf[ROOM];

	(void)state;
	check_whole(&v4, buf, insert(buf, make(&v4, buf), auth, sizeof(auth), AUTH),
		    1u << IP_EXTRA_AUTH);
}

static void ip_read__fragments__where_they_belong(void **state)
{
	static const uint8_t first[] = {17, 0, 0, 1, 1, 2, 3, 4},
			     later[] = {17, 0, 0, 0x18, 1, 2, 3, 4};
	struct udp_packet udp;
	struct ip_packet ip;
	uint8_t buf[ROOM];
	size_t len;

	(void)state;
	len = make(&v4, buf);
	buf[6] = 0x20;
	put_be16(buf + 2, IPV4_LEN + 24); /* the first has 24 bytes of the datagram */
	assert_int_equal(read_udp(buf, IPV4_LEN + 24, &ip, &udp), IPHDR_OK);
	assert_true(ip.fragment && ip.more && ip.offset == 0 && ip.id == v4.ip_id);
	assert_int_equal(udp.len, 16);
	assert_int_equal(udp.wire_len, PAYLOAD);
	put_be16(buf + 6, 3);
	assert_int_equal(read_udp(buf, len, &ip, &udp), IPHDR_NOT_UDP);
	assert_true(ip.fragment && !ip.more && ip.offset == 24 && ip.id == v4.ip_id);
	assert_int_equal(ip.len, 24);

	len = insert(buf, make(&v6, buf), first, sizeof(first), FRAGMENT);
	assert_int_equal(read_udp(buf, len, &ip, &udp), IPHDR_OK);
	assert_true(ip.fragment && ip.more && ip.offset == 0 && ip.id == 0x01020304);
	len = insert(buf, make(&v6, buf), later, sizeof(later), FRAGMENT);
	assert_int_equal(read_udp(buf, len, &ip, &udp), IPHDR_NOT_UDP);
	assert_true(ip.fragment && !ip.more && ip.offset == 24 && ip.id == 0x01020304);
}

static void udp_read__checksum_of_the_pseudo_header__offloaded(void **state)
{
	static const struct ip_udp *const headers[] = {&v4, &v6};
	struct udp_packet udp;
	struct ip_packet ip;
	uint8_t buf[ROOM];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
		size_t len = make(headers[i], buf), at = len - PAYLOAD - 2;
		uint32_t sum = 17 + UDP_LEN + PAYLOAD;

		assert_int_equal(read_udp(buf, len, &ip, &udp), IPHDR_OK);
		assert_false(udp.offloaded); /* 0: there is none */
		for (size_t k = i == 0 ? 12 : 0; k < 16; k += 2)
			sum += (uint32_t)get_be16(headers[i]->src.raw + k) +
			       get_be16(headers[i]->dst.raw + k);
		put_be16(buf + at, (uint16_t)(sum + (sum >> 16)));
		assert_int_equal(read_udp(buf, len, &ip, &udp), IPHDR_OK);
		assert_true(udp.offloaded);
		buf[at] ^= 1;
		assert_int_equal(read_udp(buf, len, &ip, &udp), IPHDR_OK);
		assert_false(udp.offloaded);
	}
}

static void ip_read__cut_anywhere__no_byte_beyond_is_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(chains); i++) {
		uint8_t buf[ROOM];
		size_t len = make_chain(i, buf);

		for (size_t cut = 0; cut <= len; cut++) {
			uint8_t *p = exact_copy(buf, cut);
			struct udp_packet udp;
			struct ip_packet ip;
			bool whole = cut >= len - PAYLOAD;

			assert_int_equal(read_udp(p, cut, &ip, &udp),
					 whole ? IPHDR_OK : IPHDR_SHORT);
			free(p);
		}
	}
}

static void ip_read__any_bytes__nothing_read_beyond(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 9);
	for (unsigned i = 0; i < 100000; i++) {
		uint8_t buf[ROOM], *p;
		size_t len = i % 3 == 0	  ? make(&v4, buf)
			     : i % 3 == 1 ? make(&v6, buf)
					  : make_chain(rng_below(&rng, ARRAY_LEN(chains)), buf);
		size_t cut = rng_below(&rng, (uint32_t)len + 1);
		struct udp_packet udp;
		struct ip_packet ip;

		for (unsigned k = rng_below(&rng, 4); k > 0; k--)
			buf[rng_below(&rng, 64)] = (uint8_t)rng_u32(&rng);
		p = exact_copy(buf, cut);
		if (ip_read(&ip, p, cut) == IPHDR_OK) {
			assert_true(ip.payload >= p && ip.payload + ip.len <= p + cut);
			assert_true(ip.len <= ip.wire_len);
			if (udp_read(&udp, &ip) == IPHDR_OK) {
				assert_true(udp.payload >= p && udp.payload + udp.len <= p + cut);
				assert_true(udp.len <= udp.wire_len);
			}
		}
		free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ip_read__encoded__the_same_again),
		cmocka_unit_test(ip_read__bad_header__its_verdict),
		cmocka_unit_test(ip_read__ipv4_options__passed),
		cmocka_unit_test(ip_read__ipv6_extension_headers__passed_and_the_last_destination),
		cmocka_unit_test(ip_read__auth_header_in_ipv4__passed),
		cmocka_unit_test(ip_read__fragments__where_they_belong),
		cmocka_unit_test(udp_read__checksum_of_the_pseudo_header__offloaded),
		cmocka_unit_test(ip_read__cut_anywhere__no_byte_beyond_is_read),
		cmocka_unit_test(ip_read__any_bytes__nothing_read_beyond),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
