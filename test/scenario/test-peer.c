/* SPDX-License-Identifier: BSD-2-Clause */
/* What the peer of a scenario says of a packet that a device sent. */
#include "test.h"

#include <string.h>

#include "base/util.h"
#include "scenario/peer.h"

enum { QPN = 0x1c003, SPORT = 0xc123 };

/** A CNP with an ICRC that is right for the IPv4 flags: what is wrong with it. */
static const char *flags_fault(struct rocemu_hdrs h, size_t len, uint8_t last_byte, uint16_t flags,
			       uint16_t id)
{
	const struct scenario_setup setup = {.type = IBV_QPT_RC};
	const struct scenario_peer peer = {.setup = &setup,
					   .gid = {{[10] = 0xff, 0xff, 127, 0, 0, 2}},
					   .device_gid = {{[10] = 0xff, 0xff, 127, 0, 0, 1}},
					   .qpn = QPN};
	const struct rocemu_icrc_ctx ctx = {.src = peer.device_gid,
					    .dst = peer.gid,
					    .sport = SPORT,
					    .dport = ROCEMU_UDP_PORT,
					    .ip_id = id,
					    .ip_frag = flags};
	uint8_t data[64] = {0};
	size_t n;
	uint32_t icrc;

	h.opcode = ROCEMU_CNP;
	h.dqpn = QPN;
	n = rocemu_hdrs_encode(&h, data) + len;
	data[n - 1] = last_byte;
	icrc = rocemu_icrc(&ctx, data, n, NULL, 0, NULL, 0);
	for (unsigned i = 0; i < ROCEMU_ICRC_LEN; i++)
		data[n++] = (uint8_t)(icrc >> 8 * i);
	return scenario_packet_fault(&peer, SPORT, data, n, &h);
}

static const char *cnp_fault(struct rocemu_hdrs h, size_t len, uint8_t last_byte)
{
	return flags_fault(h, len, last_byte, 0x4000, 0);
}

TEST(peer, packet_without_df__seen_by_its_icrc)
{
	const struct rocemu_hdrs h = {.pkey = ROCEMU_PKEY_DEFAULT, .becn = true};

	for (unsigned id = 0; id <= UINT16_MAX; id++) {
		assert_string_equal(flags_fault(h, ROCEMU_CNP_LEN, 0, 0x4000, (uint16_t)id), "");
		assert_string_equal(flags_fault(h, ROCEMU_CNP_LEN, 0, 0, (uint16_t)id),
				    " WITHOUT DF");
	}
	assert_string_equal(flags_fault(h, ROCEMU_CNP_LEN, 0, 0x8000, 0), " WITH A WRONG ICRC");
	assert_string_equal(flags_fault(h, ROCEMU_CNP_LEN, 0, 0x2000, 0), " WITH A WRONG ICRC");
}

TEST(peer, cnp__its_form__each_field_is_looked_at)
{
	static const char wrong[] = " WITH A WRONG FORM";
	const struct rocemu_hdrs right = {.pkey = ROCEMU_PKEY_DEFAULT, .becn = true};
	struct rocemu_hdrs h[] = {right, right, right, right};

	assert_string_equal(cnp_fault(right, ROCEMU_CNP_LEN, 0), "");
	h[0].psn = 1;
	h[1].se = true;
	h[2].migreq = true;
	h[3].pkey = 0x7fff;
	for (size_t i = 0; i < ARRAY_LEN(h); i++)
		assert_string_equal(cnp_fault(h[i], ROCEMU_CNP_LEN, 0), wrong);
	assert_string_equal(cnp_fault(right, ROCEMU_CNP_LEN, 1), wrong);
	assert_string_equal(cnp_fault(right, ROCEMU_CNP_LEN - 4, 0), wrong);
	assert_string_equal(cnp_fault(right, ROCEMU_CNP_LEN + 4, 0), wrong);
}

/** CRC-32 of bytes, bit by bit. */
static uint32_t crc32_of(const uint8_t *data, size_t len)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < 8 * len; i++) {
		crc ^= data[i / 8] >> i % 8 & 1;
		crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	return ~crc;
}

/** IBTA A17.3.3: what changes on the way is all ones; bytes of all ones stand for the LRH. */
static uint32_t icrc_of(uint16_t udp_len, uint16_t id, uint16_t frag, const uint8_t *bth, size_t n)
{
	const uint16_t ip_len = (uint16_t)(20 + 8 + n + ROCEMU_ICRC_LEN);
	const uint8_t headers[] = {
		0xff,
		0xff,
		0xff,
		0xff,
		0xff,
		0xff,
		0xff,
		0xff,
		0x45,
		0xff,
		(uint8_t)(ip_len >> 8),
		(uint8_t)ip_len,
		(uint8_t)(id >> 8),
		(uint8_t)id,
		(uint8_t)(frag >> 8),
		(uint8_t)frag,
		0xff,
		17,
		0xff,
		0xff,
		127,
		0,
		0,
		2,
		127,
		0,
		0,
		1,
		SPORT >> 8,
		SPORT & 0xff,
		0x12,
		0xb7,
		(uint8_t)(udp_len >> 8),
		(uint8_t)udp_len,
		0xff,
		0xff,
	};
	uint8_t all[sizeof(headers) + 256];

	memcpy(all, headers, sizeof(headers));
	memcpy(all + sizeof(headers), bth, n);
	all[sizeof(headers) + 4] = 0xff;
	return crc32_of(all, sizeof(headers) + n);
}

/** Is the ICRC of p the one of its headers as they are sent? */
static bool icrc_is_right(struct scenario_packet p, uint16_t udp_len)
{
	const struct scenario_setup setup = {.type = IBV_QPT_RC};
	const struct scenario_peer peer = {.setup = &setup,
					   .gid = {{[10] = 0xff, 0xff, 127, 0, 0, 2}},
					   .device_gid = {{[10] = 0xff, 0xff, 127, 0, 0, 1}},
					   .qpn = QPN,
					   .sport = SPORT};
	uint8_t data[ROCEMU_MAX_PACKET];
	size_t hdr_len, n;
	uint32_t icrc = 0;

	p.h.opcode = ROCEMU_RC_SEND_ONLY;
	p.h.psn = 7;
	p.len = 64;
	scenario_peer_complete(&peer, &p);
	n = scenario_peer_encode(&peer, &p, data, &hdr_len) - ROCEMU_ICRC_LEN;
	for (unsigned i = 0; i < ROCEMU_ICRC_LEN; i++)
		icrc |= (uint32_t)data[n + i] << 8 * i;
	return icrc == icrc_of(udp_len, p.ip_id, p.df ? 0x4000 : 0, data, n);
}

TEST(peer, packet_of_its_own_headers__icrc_covers_them)
{
	const uint16_t right = 8 + ROCEMU_BTH_LEN + 64 + ROCEMU_ICRC_LEN;
	struct scenario_packet p = {0};

	assert_true(icrc_is_right(p, right));
	assert_false(icrc_is_right(p, right + 4));
	p.given = 1ull << SCENARIO_PACKET_DF;
	assert_true(icrc_is_right(p, right));
	p.given = 1ull << SCENARIO_PACKET_UDP_LEN;
	for (unsigned len = 0; len < 1000; len += 97) {
		p.udp_len = (uint16_t)len;
		assert_true(icrc_is_right(p, p.udp_len));
	}
}
