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
#include "capture/blocks.h"
#include "capture/encap.h"

static const struct encap_ports ports = {.port = {ROCEMU_UDP_PORT}, .n = 1};

static const struct ip_udp inner = {
	.src.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1},
	.dst.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2},
	.sport = 0xc001,
	.dport = ROCEMU_UDP_PORT,
	.ip_id = 7,
	.ip_frag = IP_FLAG_DF,
	.hop_limit = 64,
};

/* A frame that is written from the outside in. */
struct frame {
	uint8_t b[512];
	size_t n;
};

static void add(struct frame *f, const void *p, size_t n)
{
	assert_true(f->n + n <= sizeof(f->b));
	memcpy(f->b + f->n, p, n);
	f->n += n;
}

#define ADD(f, ...) add(f, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void add_ethernet(struct frame *f, uint8_t last, uint16_t type)
{
	ADD(f, 2, 0, 0, 0, 0, last, 2, 0, 0, 0, 0, 9, (uint8_t)(type >> 8), (uint8_t)type);
}

/* The packet that is to be found. */
static void add_packet(struct frame *f)
{
	f->n += ip_udp_encode(&inner, 16, f->b + f->n);
	memset(f->b + f->n, 0x5a, 16);
	f->n += 16;
}

static void add_ipv4(struct frame *f, uint8_t proto, size_t payload)
{
	struct ip_udp ip = {.src.raw = {[10] = 0xff, 0xff, 10, 0, 0, 1},
			    .dst.raw = {[10] = 0xff, 0xff, 10, 0, 0, 2}};

	ipv4_encode(&ip, payload, f->b + f->n);
	f->b[f->n + 9] = proto;
	f->n += IPV4_LEN;
}

static void add_udp(struct frame *f, uint16_t port, size_t payload)
{
	struct ip_udp ip = {
		.src.raw = {0xfd, [15] = 1}, .dst.raw = {0xfd, [15] = 2}, .dport = port};

	f->n += ip_udp_encode(&ip, payload, f->b + f->n);
}

enum { PACKET = 20 + 8 + 16, IN_ETHERNET = 14 + PACKET };

static void ethernet(struct frame *f)
{
	add_ethernet(f, 1, 0x0800);
	add_packet(f);
}

static void two_tags(struct frame *f)
{
	add_ethernet(f, 1, 0x88a8);
	ADD(f, 0, 5, 0x81, 0, 0, 6, 8, 0);
	add_packet(f);
}

static void mpls(struct frame *f)
{
	add_ethernet(f, 9, 0x8847);
	ADD(f, 0, 1, 0x00, 64, 0, 2, 0x01, 64);
	add_packet(f);
}

static void mpls_pseudowire(struct frame *f)
{
	add_ethernet(f, 9, 0x8847);
	ADD(f, 0, 2, 0x01, 64, 0, 0, 0, 0);
	ethernet(f);
}

static void mpls_no_control_word(struct frame *f)
{
	add_ethernet(f, 9, 0x8848);
	ADD(f, 0, 2, 0x01, 64);
	add_ethernet(f, 1, 0x0800);
	f->b[f->n - 14] = 0x22; /* an address that looks like no IP header and no control word */
	add_packet(f);
}

static void vxlan(struct frame *f)
{
	add_ethernet(f, 9, 0x86dd);
	add_udp(f, 4789, 8 + IN_ETHERNET);
	ADD(f, 8, 0, 0, 0, 0, 0, 42, 0);
	ethernet(f);
}

static void geneve(struct frame *f)
{
	add_ethernet(f, 9, 0x86dd);
	add_udp(f, 6081, 12 + IN_ETHERNET);
	ADD(f, 1, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 2, 3, 4);
	ethernet(f);
}

static void gre_ip(struct frame *f)
{
	add_ethernet(f, 9, 0x0800);
	add_ipv4(f, 47, 12 + PACKET);
	ADD(f, 0xa0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1); /* checksum and key */
	add_packet(f);
}

static void gre_bridged(struct frame *f)
{
	add_ethernet(f, 9, 0x0800);
	add_ipv4(f, 47, 4 + IN_ETHERNET);
	ADD(f, 0, 0, 0x65, 0x58);
	ethernet(f);
}

static void gre_mpls(struct frame *f)
{
	add_ethernet(f, 9, 0x0800);
	add_ipv4(f, 47, 8 + PACKET);
	ADD(f, 0, 0, 0x88, 0x47, 0, 2, 0x01, 64);
	add_packet(f);
}

static void erspan1(struct frame *f)
{
	add_ethernet(f, 9, 0x0800);
	add_ipv4(f, 47, 4 + IN_ETHERNET);
	ADD(f, 0, 0, 0x88, 0xbe);
	ethernet(f);
}

static void erspan2(struct frame *f)
{
	add_ethernet(f, 9, 0x0800);
	add_ipv4(f, 47, 16 + IN_ETHERNET);
	ADD(f, 0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0);
	ethernet(f);
}

static void erspan3(struct frame *f)
{
	add_ethernet(f, 9, 0x0800);
	add_ipv4(f, 47, 20 + IN_ETHERNET);
	ADD(f, 0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	ethernet(f);
}

static void erspan3_with_more(struct frame *f)
{
	add_ethernet(f, 9, 0x0800);
	add_ipv4(f, 47, 28 + IN_ETHERNET);
	ADD(f, 0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
	    0, 0, 0, 0);
	ethernet(f);
}

static void erspan3_of_ip(struct frame *f)
{
	add_ethernet(f, 9, 0x0800);
	add_ipv4(f, 47, 20 + PACKET);
	ADD(f, 0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0);
	add_packet(f);
}

static void ip_in_ip(struct frame *f)
{
	add_ethernet(f, 9, 0x0800);
	add_ipv4(f, 4, PACKET);
	add_packet(f);
}

/* An outer IPv6 header, and behind it n bytes of extension headers, the first of which is proto. */
static void add_ipv6(struct frame *f, uint8_t proto, const void *ext, size_t n, size_t payload)
{
	size_t at = f->n;

	add_udp(f, 0, n + payload - UDP_LEN);
	f->b[at + 6] = proto;
	f->n = at + IPV6_LEN;
	add(f, ext, n);
}

static const uint8_t segments_to_ip[24] = {4, 2, 4, 0}, segments_to_ethernet[24] = {143, 2, 4, 1},
		     hop_by_hop[8] = {47, 0, 1, 4};

static void srv6(struct frame *f)
{
	add_ethernet(f, 9, 0x86dd);
	add_ipv6(f, 43, segments_to_ip, sizeof(segments_to_ip), PACKET);
	add_packet(f);
}

static void srv6_of_ethernet(struct frame *f)
{
	add_ethernet(f, 9, 0x86dd);
	add_ipv6(f, 43, segments_to_ethernet, sizeof(segments_to_ethernet), IN_ETHERNET);
	ethernet(f);
}

static void gre_behind_hop_by_hop(struct frame *f)
{
	add_ethernet(f, 9, 0x86dd);
	add_ipv6(f, 0, hop_by_hop, sizeof(hop_by_hop), 4 + PACKET);
	ADD(f, 0, 0, 8, 0);
	add_packet(f);
}

/* ERF's header and two extensions. */
static void add_erf(struct frame *f, uint8_t type)
{
	ADD(f, 0, 0, 0, 0, 0, 0, 0, 0, 0x80 | type, 0, 0, 0, 0, 0, 0, 0);
	ADD(f, 0x81, 0, 0, 0, 0, 0, 0, 0, 0x01, 0, 0, 0, 0, 0, 0, 0);
}

static void vxlan_in_gre_in_vxlan(struct frame *f)
{
	add_ethernet(f, 9, 0x86dd);
	add_udp(f, 8472, 8 + 14 + 20 + 4 + 14 + 48 + 8 + IN_ETHERNET);
	ADD(f, 8, 0, 0, 0, 0, 0, 42, 0);
	add_ethernet(f, 8, 0x0800);
	add_ipv4(f, 47, 4 + 14 + 48 + 8 + IN_ETHERNET);
	ADD(f, 0, 0, 0x65, 0x58);
	vxlan(f);
}

static const struct {
	void (*make)(struct frame *f);
	enum encap encap;
	bool ethernet; /* directly around the packet */
} kinds[] = {
	{ethernet, ENCAP_NONE, true},
	{two_tags, ENCAP_NONE, true},
	{mpls, ENCAP_MPLS, false},
	{mpls_pseudowire, ENCAP_MPLS, true},
	{mpls_no_control_word, ENCAP_MPLS, true},
	{vxlan, ENCAP_VXLAN, true},
	{geneve, ENCAP_GENEVE, true},
	{gre_ip, ENCAP_GRE, false},
	{gre_bridged, ENCAP_GRE, true},
	{gre_mpls, ENCAP_MPLS, false},
	{erspan1, ENCAP_ERSPAN, true},
	{erspan2, ENCAP_ERSPAN, true},
	{erspan3, ENCAP_ERSPAN, true},
	{erspan3_with_more, ENCAP_ERSPAN, true},
	{erspan3_of_ip, ENCAP_ERSPAN, false},
	{ip_in_ip, ENCAP_IPIP, false},
	{srv6, ENCAP_SRV6, false},
	{srv6_of_ethernet, ENCAP_SRV6, true},
	{gre_behind_hop_by_hop, ENCAP_GRE, false},
	{vxlan_in_gre_in_vxlan, ENCAP_VXLAN, true},
};

static void encap_find__tunnels__packet_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct encap_found found;
		struct frame f = {0};

		kinds[i].make(&f);
		if (encap_find(&ports, LINK_ETHERNET, f.b, f.n, &found) != ENCAP_FOUND)
			fail_msg("frame %zu", i);
		assert_memory_equal(&found.ip, &inner, sizeof(inner));
		assert_int_equal(found.len, 16);
		assert_int_equal(found.wire_len, 16);
		assert_int_equal(found.data[0], 0x5a);
		assert_int_equal(found.encap, kinds[i].encap);
		assert_int_equal(found.dmac != NULL, kinds[i].ethernet);
	}
}

static void encap_find__cut_anywhere__no_byte_beyond_is_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct encap_found found;
		struct frame f = {0};

		kinds[i].make(&f);
		for (size_t cut = 0; cut <= f.n; cut++) {
			uint8_t *p = exact_copy(f.b, cut);
			bool there =
				encap_find(&ports, LINK_ETHERNET, p, cut, &found) == ENCAP_FOUND;

			assert_int_equal(there, cut >= f.n - 16);
			if (there)
				assert_int_equal(found.len, cut - (f.n - 16));
			free(p);
		}
	}
}

/* Routers insert headers; the sender's are found behind them. */
static void encap_find__options_and_extension_headers__noted(void **state)
{
	static const uint8_t ext[] = {43, 0, 1, 4, 0, 0, 0, 0, 17, 2, 4, 0};
	struct encap_found found;
	struct frame f = {0};

	(void)state;
	add_ethernet(&f, 1, 0x86dd);
	add_ipv6(&f, 0, ext, sizeof(ext), 20 + 8 + 16); /* 20: the rest of the routing header */
	f.n += 20;
	ADD(&f, 0xc0, 1, 0x12, 0xb7, 0, 24, 0, 0);
	f.n += 16;
	assert_int_equal(encap_find(&ports, LINK_ETHERNET, f.b, f.n, &found), ENCAP_FOUND);
	assert_int_equal(found.len, 16);
	assert_int_equal(found.extras, 1u << IP_EXTRA_HOP_BY_HOP | 1u << IP_EXTRA_SEGMENTS);

	f.n = 0;
	ethernet(&f);
	memmove(f.b + 38, f.b + 34, f.n - 34);
	memcpy(f.b + 34, "\x94\x04\x00\x00", 4);
	f.b[14] = 0x46;
	put_be16(f.b + 16, PACKET + 4);
	assert_int_equal(encap_find(&ports, LINK_ETHERNET, f.b, f.n + 4, &found), ENCAP_FOUND);
	assert_memory_equal(&found.ip, &inner, sizeof(inner));
	assert_int_equal(found.extras, 1u << IP_EXTRA_OPTIONS);
}

static void encap_find__roce_v1__addresses_of_the_grh(void **state)
{
	struct encap_found found;
	struct frame f = {0};

	(void)state;
	add_ethernet(&f, 1, 0x8100);
	ADD(&f, 0, 5, 0x89, 0x15);
	add_udp(&f, 0, 16 - UDP_LEN);
	f.n -= UDP_LEN;
	f.b[18 + 6] = IP_PROTO_IBA;
	f.n += 20; /* the frame's padding */
	assert_int_equal(encap_find(&ports, LINK_ETHERNET, f.b, f.n, &found), ENCAP_FOUND);
	assert_true(found.v1);
	assert_int_equal(found.ip.src.raw[0], 0xfd);
	assert_int_equal(found.ip.sport, 0);
	assert_int_equal(found.len, 16);
	assert_int_equal(found.wire_len, 16);
	assert_ptr_equal(found.data, f.b + 18 + 40);
	assert_int_equal(encap_find(&ports, LINK_ETHERNET, f.b, 18 + 39, &found), ENCAP_SHORT);
	f.b[18 + 6] = 17; /* no BTH follows */
	assert_int_equal(encap_find(&ports, LINK_ETHERNET, f.b, f.n, &found), ENCAP_NOTHING);
}

static void encap_find__erf_records__by_their_type(void **state)
{
	struct encap_found found;
	struct frame f = {0};

	(void)state;
	add_erf(&f, 2);
	ADD(&f, 0, 0);
	ethernet(&f);
	assert_int_equal(encap_find(&ports, LINK_ERF, f.b, f.n, &found), ENCAP_FOUND);
	assert_memory_equal(&found.ip, &inner, sizeof(inner));
	assert_false(found.v1);
	for (size_t cut = 0; cut < 32; cut++) {
		uint8_t *p = exact_copy(f.b, cut);

		assert_int_equal(encap_find(&ports, LINK_ERF, p, cut, &found), ENCAP_SHORT);
		free(p);
	}
	f.b[8] = 0x80 | 21;
	assert_int_equal(encap_find(&ports, LINK_ERF, f.b, f.n, &found), ENCAP_INFINIBAND);
	f.b[8] = 0x80 | 27; /* metadata */
	assert_int_equal(encap_find(&ports, LINK_ERF, f.b, f.n, &found), ENCAP_NOTHING);
	f.n = 0;
	add_erf(&f, 22);
	add_packet(&f);
	assert_int_equal(encap_find(&ports, LINK_ERF, f.b, f.n, &found), ENCAP_FOUND);
	assert_int_equal(encap_find(&ports, LINK_INFINIBAND, f.b, f.n, &found), ENCAP_INFINIBAND);
}

static void encap_find__any_bytes__found_within_the_frame(void **state)
{
	static const uint32_t links[] = {LINK_NULL, LINK_ETHERNET, LINK_RAW, LINK_SLL, LINK_SLL2,
					 LINK_IPV6, LINK_LOOP,	   LINK_ERF, 4711};
	struct rng rng;

	(void)state;
	rng_init(&rng, 1);
	for (unsigned n = 0; n < 20000; n++) {
		struct encap_found found;
		enum encap_verdict v;
		struct frame f = {0};
		uint8_t *p;

		kinds[rng_below(&rng, ARRAY_LEN(kinds))].make(&f);
		for (unsigned k = rng_below(&rng, 6); k > 0; k--)
			f.b[rng_below(&rng, (uint32_t)f.n)] = (uint8_t)rng_u32(&rng);
		f.n = rng_below(&rng, (uint32_t)f.n + 1);
		p = exact_copy(f.b, f.n);
		v = encap_find(&ports, links[n % ARRAY_LEN(links)], p, f.n, &found);
		if (v == ENCAP_FOUND || v == ENCAP_FRAGMENT) {
			assert_true(found.data >= p && found.data + found.len <= p + f.n);
			assert_true(found.len <= found.wire_len);
			assert_true(found.dmac == NULL ||
				    (found.dmac >= p && found.dmac + 6 <= p + f.n));
		}
		free(p);
	}
}

static void encap_find__fragments__the_first_and_later_ones(void **state)
{
	struct encap_found found;
	struct frame f = {0};

	(void)state;
	ethernet(&f);
	put_be16(f.b + 16, 20 + 8 + 8); /* the first has 8 of 16 bytes */
	put_be16(f.b + 20, 0x2000);
	assert_int_equal(encap_find(&ports, LINK_ETHERNET, f.b, f.n, &found), ENCAP_FOUND);
	assert_true(found.fragment && found.fragment_at == 0 && found.fragment_id == inner.ip_id);
	assert_int_equal(found.len, 8);
	assert_int_equal(found.wire_len, 16);
	put_be16(f.b + 20, 2); /* the rest */
	assert_int_equal(encap_find(&ports, LINK_ETHERNET, f.b, f.n, &found), ENCAP_FRAGMENT);
	assert_true(found.fragment && found.fragment_at == 16 && found.fragment_id == inner.ip_id);
	assert_int_equal(found.len, 16);
	f.b[23] = 6; /* of TCP */
	assert_int_equal(encap_find(&ports, LINK_ETHERNET, f.b, f.n, &found), ENCAP_NOTHING);
}

/* The tunnel's fragment has the packet's beginning. */
static void encap_find__tunnel_in_fragments__packet_is_cut(void **state)
{
	struct encap_found found;
	struct frame f = {0};

	(void)state;
	ip_in_ip(&f);
	put_be16(f.b + 16, 20 + PACKET - 8);
	put_be16(f.b + 20, 0x2000);
	assert_int_equal(encap_find(&ports, LINK_ETHERNET, f.b, f.n - 8, &found), ENCAP_FOUND);
	assert_false(found.fragment);
	assert_int_equal(found.len, 8);
	assert_int_equal(found.wire_len, 16);
}

static void encap_find__other_ports__those_alone(void **state)
{
	static const struct encap_ports other = {.port = {18515, 4792}, .n = 2};
	struct encap_found found;
	struct frame f = {0};

	(void)state;
	ethernet(&f);
	assert_int_equal(encap_find(&other, LINK_ETHERNET, f.b, f.n, &found), ENCAP_NOTHING);
	put_be16(f.b + 14 + 20 + 2, 4792);
	assert_int_equal(encap_find(&other, LINK_ETHERNET, f.b, f.n, &found), ENCAP_FOUND);
	assert_int_equal(encap_find(&ports, LINK_ETHERNET, f.b, f.n, &found), ENCAP_NOTHING);
}

static void encap_find__tags_without_end__given_up(void **state)
{
	struct encap_found found;
	struct frame f = {.n = sizeof(f.b)};

	(void)state;
	for (size_t i = 0; i < sizeof(f.b); i += 2)
		put_be16(f.b + i, 0x8100);
	assert_int_equal(encap_find(&ports, LINK_ETHERNET, f.b, f.n, &found), ENCAP_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(encap_find__tunnels__packet_found),
		cmocka_unit_test(encap_find__cut_anywhere__no_byte_beyond_is_read),
		cmocka_unit_test(encap_find__options_and_extension_headers__noted),
		cmocka_unit_test(encap_find__roce_v1__addresses_of_the_grh),
		cmocka_unit_test(encap_find__erf_records__by_their_type),
		cmocka_unit_test(encap_find__any_bytes__found_within_the_frame),
		cmocka_unit_test(encap_find__fragments__the_first_and_later_ones),
		cmocka_unit_test(encap_find__tunnel_in_fragments__packet_is_cut),
		cmocka_unit_test(encap_find__other_ports__those_alone),
		cmocka_unit_test(encap_find__tags_without_end__given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
