/* SPDX-License-Identifier: BSD-2-Clause */
/* UD responder: checks, the GRH in front of the payload, completions. */
#include "hostile.h"

#include <string.h>

#include "wire/ip.h"

static struct hostile h;

#define UD(name) TEST(ud_resp, name)

UD(datagram__receive_posted__grh_and_payload_placed)
{
	hostile_start(&h, IBV_QPT_UD);
	hostile_recv(&h, 1, 0, 40 + 64);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY_IMM, 99, 10);
	EXPECT(&h, "recv 1 len 50 imm 1020304 grh from 1234");
	assert_memory_equal(h.recv + 40, h.payload, 10);
	assert_int_equal(h.recv[50], 0xee);
	hostile_free(&h);
}

UD(grh__ipv4__header_in_the_last_20_bytes_and_checksum_right)
{
	static const uint8_t nothing[20];

	hostile_start(&h, IBV_QPT_UD);
	hostile_recv(&h, 1, 0, 128);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 4);
	EXPECT(&h, "recv 1 len 44 grh from 1234");
	assert_memory_equal(h.recv, nothing, 20);
	assert_int_equal(h.recv[20], 0x45);
	assert_int_equal(h.recv[21], 0x20); /* TOS */
	assert_int_equal(h.recv[23],
			 20 + 8 + 20 + 4 + 4); /* total length: UDP, BTH + DETH, payload, ICRC */
	assert_int_equal(h.recv[28], 61);      /* TTL */
	assert_memory_equal(h.recv + 32, h.peer.raw + 12, 4);
	assert_memory_equal(h.recv + 36, h.self.raw + 12, 4);
	assert_int_equal(ip_checksum(h.recv + 20, 20), 0);
	hostile_free(&h);
}

UD(grh__ipv6__header_fills_it)
{
	hostile_start(&h, IBV_QPT_UD);
	h.peer = (struct rocemu_gid){{0xfd, [15] = 2}};
	h.self = (struct rocemu_gid){{0xfd, [15] = 1}};
	hostile_recv(&h, 1, 0, 128);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 4);
	EXPECT(&h, "recv 1 len 44 grh from 1234");
	assert_int_equal(h.recv[0], 0x62); /* version 6, traffic class 0x20 */
	assert_int_equal(h.recv[5], 8 + 20 + 4 + 4);
	assert_int_equal(h.recv[7], 61);
	assert_memory_equal(h.recv + 8, h.peer.raw, 16);
	assert_memory_equal(h.recv + 24, h.self.raw, 16);
	hostile_free(&h);
}

UD(datagram__not_acceptable__dropped_and_no_receive_used)
{
	struct rocemu_hdrs wrong = {.opcode = ROCEMU_UD_SEND_ONLY,
				    .deth = {.qkey = HOSTILE_QKEY + 1}};

	hostile_start(&h, IBV_QPT_UD);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 8);
	EXPECT(&h, "drop NO_RECV");
	hostile_recv(&h, 1, 0, 48);
	hostile_send_hdrs(&h, &wrong, 8);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 1, 9);
	EXPECT(&h, "drop QKEY; drop TOO_LONG");
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 2, 8);
	EXPECT(&h, "recv 1 len 48 grh from 1234");
	hostile_free(&h);
}

UD(receive_memory_gone__local_protection_error)
{
	hostile_start(&h, IBV_QPT_UD);
	hostile_recv(&h, 1, 0, 100);
	assert_int_equal(rocemu_mr_dereg(h.recv_mr), 0);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 8);
	EXPECT(&h, "drop ACCESS; recv 1 LOC_PROT_ERR; ERR");
	hostile_free(&h);
}

/* As the adapters have it that programs like UCX were written on. */
UD(service_level__tells_an_ipv4_header)
{
	struct rocemu_cqe cqe;

	hostile_start(&h, IBV_QPT_UD);
	hostile_recv(&h, 1, 0, 100);
	hostile_recv(&h, 2, 0, 100);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 8);
	assert_int_equal(rocemu_cq_poll(h.cq, &cqe, 1), 1);
	assert_int_equal(cqe.sl, 2);
	h.peer = (struct rocemu_gid){{0xfd, [15] = 2}};
	h.self = (struct rocemu_gid){{0xfd, [15] = 1}};
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 1, 8);
	assert_int_equal(rocemu_cq_poll(h.cq, &cqe, 1), 1);
	assert_int_equal(cqe.sl, 0);
	hostile_free(&h);
}

/* As for connections (test/scenario/resp.scenario), but the habit is the sender's: others are not
 * held to it. */
UD(ip_identification__unlike_what_the_sender_always_had__dropped)
{
	struct rocemu_gid first;

	hostile_start(&h, IBV_QPT_UD);
	first = h.peer;
	for (unsigned i = 0; i < 32; i++) {
		hostile_recv(&h, 1, 0, 128);
		hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 4);
		EXPECT(&h, "recv 1 len 44 grh from 1234");
	}
	hostile_recv(&h, 1, 0, 128);
	h.ip_id = 1000;
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 4);
	EXPECT(&h, "drop ICRC");
	h.peer.raw[15]++;
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 4);
	EXPECT(&h, "recv 1 len 44 grh from 1234");
	h.peer = first;
	hostile_recv(&h, 2, 0, 128);
	h.ip_id = 127; /* the last place in a GSO burst */
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 4);
	EXPECT(&h, "recv 2 len 44 grh from 1234");
	hostile_free(&h);
}
