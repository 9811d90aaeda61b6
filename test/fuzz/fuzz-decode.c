/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The codec on any bytes: the input is a packet from the BTH to the ICRC. What decodes must encode
 * to the same bytes, the ICRC computed over it must pass the check, and printing must stay within
 * its buffer. The same bytes then go through the reader of IP headers.
 */
#include "driver.h"

#include <string.h>

#include <rocemu/wire.h>

#include "capture/ip-read.h"
#include "wire/print.h"

static const struct rocemu_icrc_ctx ctx4 = {
	.src.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1},
	.dst.raw = {[10] = 0xff, 0xff, 127, 0, 0, 2},
	.sport = 0xc000,
	.dport = ROCEMU_UDP_PORT,
	.ip_id = 0x55aa,
	.ip_frag = IP_FLAG_DF,
};

static const struct rocemu_icrc_ctx ctx6 = {
	.src.raw = {0xfd, [15] = 1},
	.dst.raw = {0xfd, [15] = 2},
	.sport = 0xc000,
	.dport = ROCEMU_UDP_PORT,
};

static void check_sealed(const struct rocemu_icrc_ctx *ctx, bool known, const uint8_t *pkt,
			 size_t size, int32_t want)
{
	uint8_t buf[ROCEMU_MAX_PACKET];
	uint32_t icrc;

	memcpy(buf, pkt, size);
	icrc = rocemu_icrc(ctx, pkt, size - ROCEMU_ICRC_LEN, NULL, 0, NULL, 0);
	for (unsigned i = 0; i < ROCEMU_ICRC_LEN; i++)
		buf[size - ROCEMU_ICRC_LEN + i] = (uint8_t)(icrc >> 8 * i);
	FUZZ_CHECK(rocemu_icrc_check(ctx, known, buf, size) == want);
}

static void check_icrc(const uint8_t *data, size_t size)
{
	struct rocemu_icrc_ctx guess = ctx4;
	int32_t id;

	check_sealed(&ctx4, true, data, size, ctx4.ip_id);
	check_sealed(&ctx4, false, data, size, ctx4.ip_id);
	check_sealed(&ctx6, true, data, size, 0);
	/* A solution is one: with it known, the full check passes. */
	id = rocemu_icrc_check(&guess, false, data, size);
	FUZZ_CHECK(id >= -1 && id <= 0xffff);
	if (id >= 0) {
		guess.ip_id = (uint16_t)id;
		FUZZ_CHECK(rocemu_icrc_check(&guess, true, data, size) == id);
	}
}

static void check_decoded(const struct rocemu_packet *p, const uint8_t *data, size_t size)
{
	uint8_t hdr[ROCEMU_MAX_HDR_LEN];
	char text[PRINT_PACKET_MAX];

	FUZZ_CHECK(p->hdr_len == rocemu_opcode_hdr_len(data[0]));
	FUZZ_CHECK(p->payload == data + p->hdr_len);
	FUZZ_CHECK(p->payload_len <= ROCEMU_MAX_MTU);
	FUZZ_CHECK(p->hdr_len + p->payload_len + p->h.pad + ROCEMU_ICRC_LEN == size);
	FUZZ_CHECK(rocemu_hdrs_encode(&p->h, hdr) == p->hdr_len);
	FUZZ_CHECK(memcmp(hdr, data, p->hdr_len) == 0);
	FUZZ_CHECK(print_packet(text, sizeof(text), p) < sizeof(text));
}

static void check_ip(const uint8_t *data, size_t size)
{
	struct udp_packet udp;
	struct ip_packet ip;

	if (ip_read(&ip, data, size) != IPHDR_OK)
		return;
	FUZZ_CHECK(ip.payload >= data && ip.payload + ip.len <= data + size);
	FUZZ_CHECK(ip.len <= ip.wire_len);
	if (udp_read(&udp, &ip) != IPHDR_OK)
		return;
	FUZZ_CHECK(udp.payload >= data && udp.payload + udp.len <= data + size);
	FUZZ_CHECK(udp.len <= udp.wire_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rocemu_packet p;
	enum rocemu_drop why = rocemu_packet_decode(&p, data, size);

	FUZZ_CHECK(why <= ROCEMU_DROP_LENGTH);
	if (why == ROCEMU_DROP_NONE)
		check_decoded(&p, data, size);
	if (size >= ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN && size <= ROCEMU_MAX_PACKET)
		check_icrc(data, size);
	check_ip(data, size);
	return 0;
}
