/* SPDX-License-Identifier: BSD-2-Clause */
#include "../lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "cm-vectors.h"
#include "wire/print.h"

static const char *text_of(const uint8_t *mad, size_t len)
{
	static char buf[PRINT_MAD_MAX];
	size_t n = print_mad(buf, sizeof(buf), mad, len);

	assert_true(n < sizeof(buf));
	assert_int_equal(strlen(buf), n);
	return buf;
}

TEST(print_mad, every_message__name_and_what_tells_it_apart)
{
	static const char *const want[CM_VECTORS] = {
		"CM REQ local-comm-id 0x01020304 service 0x1112131415161718 rd qpn 0x414243 psn "
		"7434867 mtu 4096 "
		"resp-res 68 init-depth 84 retry 6 rnr-retry 3 ack-timeout 19 "
		"ece 0xf1f2f3:0xd5d6d7d8 "
		"path a0a1:a2a3:a4a5:a6a7:a8a9:aaab:acad:aeaf > "
		"b0b1:b2b3:b4b5:b6b7:b8b9:babb:bcbd:bebf "
		"alternate 4041:4243:4445:4647:4849:4a4b:4c4d:4e4f > "
		"5051:5253:5455:5657:5859:5a5b:5c5d:5e5f",
		"CM MRA local-comm-id 0x01020304 remote-comm-id 0x05060708 to LAP service-timeout "
		"22",
		"CM REJ local-comm-id 0x01020304 remote-comm-id 0x05060708 to REP reason 7197 "
		"(unknown reason)",
		"CM REP local-comm-id 0x01020304 remote-comm-id 0x05060708 qpn 0x212223 psn "
		"4276803 resp-res 81 "
		"init-depth 82 rnr-retry 5 srq ece 0xf1f2f3:0xd5d6d7d8",
		"CM RTU local-comm-id 0x01020304 remote-comm-id 0x05060708",
		"CM DREQ local-comm-id 0x01020304 remote-comm-id 0x05060708 remote-qpn 0x212223",
		"CM DREP local-comm-id 0x01020304 remote-comm-id 0x05060708",
		"CM SIDR_REQ request-id 0x01020304 service 0x1112131415161718",
		"CM SIDR_REP request-id 0x01020304 service 0x3132333435363738 status 5 (version "
		"not supported) ece 0xf1f2f3:0xd5d6d7d8",
		"CM LAP local-comm-id 0x01020304 remote-comm-id 0x05060708 remote-qpn 0x212223 "
		"alternate a0a1:a2a3:a4a5:a6a7:a8a9:aaab:acad:aeaf > "
		"b0b1:b2b3:b4b5:b6b7:b8b9:babb:bcbd:bebf",
		"CM APR local-comm-id 0x01020304 remote-comm-id 0x05060708 status 11 (proposed hop "
		"limit rejected)",
	};

	for (unsigned i = 0; i < CM_VECTORS; i++)
		assert_string_equal(text_of(cm_vectors()[i].bytes, ROCEMU_MAD_LEN), want[i]);
}

TEST(print_mad, ip_service__port_and_addresses)
{
	static const struct rocemu_cma cma = {
		.ip_version = 4,
		.sport = 40000,
		.src.raw = {[10] = 0xff, 0xff, 10, 77, 0, 2},
		.dst.raw = {[10] = 0xff, 0xff, 10, 77, 0, 3},
	};
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_SIDR_REQ};
	uint8_t mad[ROCEMU_MAD_LEN];

	m.sidr_req.service_id = rocemu_cm_service_id(ROCEMU_PS_UDP, 7174);
	rocemu_cma_encode(&cma, m.sidr_req.private_data);
	rocemu_cm_encode(&m, mad);
	assert_string_equal(text_of(mad, sizeof(mad)),
			    "CM SIDR_REQ request-id 0x00000000 service 0x1111c06 (udp:7174) "
			    "from 10.77.0.2 port 40000 to 10.77.0.3");
}

TEST(print_mad, not_a_cm_message__header_and_what_is_wrong)
{
	uint8_t mad[ROCEMU_MAD_LEN];

	memcpy(mad, cm_vectors()[0].bytes, sizeof(mad));
	assert_string_equal(text_of(mad, 100), "MAD: wrong length");
	mad[17] = 0x77;
	assert_string_equal(text_of(mad, sizeof(mad)),
			    "MAD class 0x07 version 2 method 0x03 attribute 0x0077 status 0x0000: "
			    "attribute ID not of a message of this class");
	mad[1] = 0x03;
	assert_string_equal(text_of(mad, sizeof(mad)),
			    "MAD class 0x03 version 2 method 0x03 attribute 0x0077 status 0x0000");
	mad[0] = 2;
	assert_string_equal(text_of(mad, sizeof(mad)), "MAD: MAD base version not 1");
}

TEST(print_mad, largest_fields__fits)
{
	struct rocemu_cm_msg m;
	uint8_t mad[ROCEMU_MAD_LEN];
	static const struct rocemu_cma cma = {
		.ip_version = 6, .sport = 65535, .src.raw = {0xff}, .dst.raw = {0xff}};

	for (unsigned i = 0; i < CM_VECTORS; i++) {
		memcpy(mad, cm_vectors()[i].bytes, ROCEMU_MAD_HDR_LEN);
		memset(mad + ROCEMU_MAD_HDR_LEN, 0xff, ROCEMU_MAD_DATA_LEN);
		text_of(mad, sizeof(mad));
	}
	m = cm_vectors()[0].msg;
	m.req.service_id = rocemu_cm_service_id(ROCEMU_PS_SCTP, 65535);
	m.req.transport = ROCEMU_CM_EXTENDED;
	m.req.srq = true;
	memset(&m.req.private_data, 0xff, sizeof(m.req.private_data));
	rocemu_cma_encode(&cma, m.req.private_data);
	memset(m.req.private_data + 4, 0xff, 32);
	rocemu_cm_encode(&m, mad);
	assert_true(strlen(text_of(mad, sizeof(mad))) > 300);
}

TEST(print_mad, small_buffer__cut_and_full_length_told)
{
	const uint8_t *mad = cm_vectors()[0].bytes;
	size_t whole = print_mad(NULL, 0, mad, ROCEMU_MAD_LEN);

	assert_int_equal(whole, strlen(text_of(mad, ROCEMU_MAD_LEN)));
	for (size_t size = 1; size <= whole; size++) {
		char *buf = malloc(size);

		assert_non_null(buf);
		assert_int_equal(print_mad(buf, size, mad, ROCEMU_MAD_LEN), whole);
		assert_int_equal(strlen(buf), size - 1);
		free(buf);
	}
}

TEST(print_packet, ud_to_qp_1__the_mad_follows)
{
	struct rocemu_packet p = {
		.h = {.opcode = ROCEMU_UD_SEND_ONLY,
		      .pkey = ROCEMU_PKEY_DEFAULT,
		      .dqpn = 1,
		      .psn = 7,
		      .deth = {.qkey = ROCEMU_GSI_QKEY, .sqpn = 1}},
		.payload = cm_vectors()[4].bytes,
		.payload_len = ROCEMU_MAD_LEN,
	};
	char buf[PRINT_PACKET_MAX];

	size_t whole = print_packet(buf, sizeof(buf), &p);

	assert_string_equal(buf, "UD SEND_ONLY qpn 0x1 psn 7 sqpn 0x1 qkey 0x80010000 len 256 "
				 "CM RTU local-comm-id 0x01020304 remote-comm-id 0x05060708");
	assert_int_equal(whole, strlen(buf));
	for (size_t size = 0; size <= whole; size++) {
		char *small = malloc(size != 0 ? size : 1);

		assert_non_null(small);
		assert_int_equal(print_packet(small, size, &p), whole);
		if (size != 0)
			assert_int_equal(strlen(small), size - 1);
		free(small);
	}
	p.h.deth.qkey = 0x11111111;
	print_packet(buf, sizeof(buf), &p);
	assert_string_equal(buf, "UD SEND_ONLY qpn 0x1 psn 7 sqpn 0x1 qkey 0x11111111 len 256");
}
