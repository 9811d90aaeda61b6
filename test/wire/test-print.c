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
#include "wire/print.h"

static const char *text_of(const struct rocemu_packet *p)
{
	static char buf[PRINT_PACKET_MAX];
	size_t n = print_packet(buf, sizeof(buf), p);

	assert_true(n < sizeof(buf));
	assert_int_equal(strlen(buf), n);
	return buf;
}

static struct rocemu_packet packet(uint8_t opcode, uint32_t len)
{
	return (struct rocemu_packet){
		.h = {.opcode = opcode, .pkey = ROCEMU_PKEY_DEFAULT, .dqpn = 0x12, .psn = 256},
		.payload_len = len,
	};
}

static void print_packet__send__name_place_and_length(void **state)
{
	struct rocemu_packet p = packet(ROCEMU_RC_SEND_ONLY, 64);

	(void)state;
	p.h.ackreq = true;
	assert_string_equal(text_of(&p), "RC SEND_ONLY qpn 0x12 psn 256 ackreq len 64");
	p.h.se = p.h.fecn = p.h.becn = true;
	p.h.pkey = 0x8001;
	assert_string_equal(text_of(&p),
			    "RC SEND_ONLY qpn 0x12 psn 256 pkey 0x8001 fecn becn se ackreq len 64");
}

static void print_packet__each_header__its_fields(void **state)
{
	struct rocemu_packet p = packet(ROCEMU_XRC_WRITE_ONLY_IMM, 5);

	(void)state;
	p.h.xrceth.srqn = 7;
	p.h.reth.va = 0x1000;
	p.h.reth.rkey = 0xab;
	p.h.reth.length = 5;
	p.h.imm = 0x11223344;
	assert_string_equal(
		text_of(&p),
		"XRC WRITE_ONLY_IMM qpn 0x12 psn 256 srqn 0x7 va 0x1000 rkey 0xab dmalen 5 "
		"imm 0x11223344 len 5");
	p = packet(ROCEMU_RC_CMP_SWAP, 0);
	p.h.atomiceth.compare = 1;
	p.h.atomiceth.swap_add = 2;
	assert_string_equal(text_of(&p),
			    "RC CMP_SWAP qpn 0x12 psn 256 va 0x0 rkey 0x0 compare 0x1 swap 0x2");
	p.h.opcode = ROCEMU_RC_FETCH_ADD;
	assert_string_equal(text_of(&p), "RC FETCH_ADD qpn 0x12 psn 256 va 0x0 rkey 0x0 add 0x2");
	p = packet(ROCEMU_UD_SEND_ONLY, 9);
	p.h.deth.sqpn = 0x34;
	p.h.deth.qkey = 0x11111111;
	assert_string_equal(text_of(&p),
			    "UD SEND_ONLY qpn 0x12 psn 256 sqpn 0x34 qkey 0x11111111 len 9");
	p = packet(ROCEMU_RC_SEND_LAST_INV, 0);
	p.h.ieth = 0x99;
	assert_string_equal(text_of(&p), "RC SEND_LAST_INV qpn 0x12 psn 256 inv 0x99 len 0");
	p = packet(ROCEMU_RC_FLUSH, 0);
	p.h.feth.raw = 0x12; /* IBTA 9.2.4 FETH: selectivity above four bits of placement */
	p.h.reth.length = 8;
	assert_string_equal(text_of(&p), "RC FLUSH qpn 0x12 psn 256 placement 2 selectivity 1 "
					 "va 0x0 rkey 0x0 dmalen 8");
	p = packet(ROCEMU_RC_ATOMIC_ACK, 0);
	p.h.aeth.syndrome = 0x1f;
	p.h.aeth.msn = 3;
	p.h.atomicack = 0x10;
	assert_string_equal(text_of(&p), "RC ATOMIC_ACK qpn 0x12 psn 256 ack msn 3 orig 0x10");
	p = packet(ROCEMU_CNP, 16);
	p.h.becn = true;
	assert_string_equal(text_of(&p), "CNP qpn 0x12 psn 256 becn len 16");
}

static void print_packet__syndromes__in_words(void **state)
{
	static const struct {
		uint8_t syndrome;
		const char *text;
	} t[] = {
		{0x1f, "ack"},
		{0x03, "ack credits 3"},
		{0x2c, "rnr-nak 0.64 ms"},
		{0x60, "nak psn-sequence"},
		{0x61, "nak invalid-request"},
		{0x62, "nak remote-access"},
		{0x63, "nak remote-operational"},
		{0x64, "nak invalid-rd"},
		{0x65, "syndrome 0x65"},
		{0x41, "syndrome 0x41"},
		{0xff, "syndrome 0xff"},
	};
	struct rocemu_packet p = packet(ROCEMU_RC_ACK, 0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		char want[128] = "RC ACK qpn 0x12 psn 256 ";

		p.h.aeth.syndrome = t[i].syndrome;
		strcat(strcat(want, t[i].text), " msn 0");
		assert_string_equal(text_of(&p), want);
	}
}

static void print_packet__every_opcode_largest_fields__fits(void **state)
{
	struct rocemu_packet p;

	(void)state;
	memset(&p, 0xff, sizeof(p));
	p.h.se = p.h.migreq = p.h.fecn = p.h.becn = p.h.ackreq = true;
	p.h.pkey = 0x7fff;
	for (unsigned o = 0; o < 256; o++) {
		p.h.opcode = (uint8_t)o;
		text_of(&p);
	}
}

static void print_packet__small_buffer__cut_and_full_length_told(void **state)
{
	struct rocemu_packet p = packet(ROCEMU_RC_SEND_ONLY, 64);
	size_t whole = print_packet(NULL, 0, &p);

	(void)state;
	assert_int_equal(whole, strlen(text_of(&p)));
	for (size_t size = 1; size <= whole; size++) {
		char *buf = malloc(size);

		assert_non_null(buf);
		assert_int_equal(print_packet(buf, size, &p), whole);
		assert_int_equal(strlen(buf), size - 1);
		free(buf);
	}
}

static void print_flow__both_families__addresses(void **state)
{
	struct ip_udp ip = {
		.src.raw = {[10] = 0xff, 0xff, 10, 77, 0, 2},
		.dst.raw = {[10] = 0xff, 0xff, 10, 77, 0, 3},
	};
	char buf[128];

	(void)state;
	assert_int_equal(print_flow(buf, sizeof(buf), &ip), 21);
	assert_string_equal(buf, "10.77.0.2 > 10.77.0.3");
	ip.src = (struct rocemu_gid){.raw = {0xfd, 0x77, [15] = 2}};
	print_gid(buf, sizeof(buf), &ip.src);
	assert_string_equal(buf, "fd77::2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(print_packet__send__name_place_and_length),
		cmocka_unit_test(print_packet__each_header__its_fields),
		cmocka_unit_test(print_packet__syndromes__in_words),
		cmocka_unit_test(print_packet__every_opcode_largest_fields__fits),
		cmocka_unit_test(print_packet__small_buffer__cut_and_full_length_told),
		cmocka_unit_test(print_flow__both_families__addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
