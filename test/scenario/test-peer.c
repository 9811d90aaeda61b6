/* SPDX-License-Identifier: BSD-2-Clause */
/* What the peer of a scenario says of a packet that a device sent. */
#include "test.h"

#include <string.h>

#include "base/util.h"
#include "scenario/peer.h"

enum { QPN = 0x1c003, SPORT = 0xc123 };

/** A CNP with a right ICRC: what is wrong with it. */
static const char *cnp_fault(struct rocemu_hdrs h, size_t len, uint8_t last_byte)
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
					    .ip_frag = 0x4000};
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
