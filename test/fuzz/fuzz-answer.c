/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that a device sends to the peer whose packets a scenario writes: any bytes have a text.
 */
#include "driver.h"

#include <rocemu/cm.h>
#include <string.h>

#include "scenario/peer.h"

enum { PEER_QPN = 0x1c003, SPORT = 0xc123 };

/** What stands in a line of a result. */
static void check_text(const char *text, size_t size)
{
	const char *end = memchr(text, 0, size);

	FUZZ_CHECK(end && end > text);
	for (; text < end; text++)
		FUZZ_CHECK((unsigned char)*text >= 0x20 && (unsigned char)*text < 0x7f);
}

static void check_mad(struct scenario_peer *peer, const struct rocemu_packet *p)
{
	struct scenario_packet next = {.mad = {.attr_id = ROCEMU_CM_DREQ, .len = ROCEMU_MAD_LEN}};
	struct rocemu_cm_msg m;
	char text[SCENARIO_LINE_MAX];

	scenario_mad_text(p->payload, p->payload_len, text, sizeof(text));
	check_text(text, sizeof(text));
	scenario_peer_take_mad(peer, p->payload, p->payload_len);
	scenario_peer_encode_mad(peer, &next);
	FUZZ_CHECK(rocemu_cm_decode(&m, next.data, next.data_len) == ROCEMU_MAD_OK);
	FUZZ_CHECK(m.dreq.remote_qpn == peer->exchange.qpn &&
		   m.dreq.remote_comm_id == peer->exchange.peer_id);
}

/** data: the type of the queue pair, then the packet from its BTH to the ICRC. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						 IBV_QPT_XRC_SEND};
	struct scenario_setup setup = {.sq_psn = 0xfffffe, .rq_psn = 5};
	struct scenario_peer peer = {.setup = &setup,
				     .qpn = PEER_QPN,
				     .exchange = {.comm_id = 1, .peer_id = 2, .tid = 3}};
	struct rocemu_packet p;
	char text[SCENARIO_LINE_MAX];
	const char *fault;

	if (!size || rocemu_packet_decode(&p, data + 1, size - 1) != ROCEMU_DROP_NONE)
		return 0;
	setup.type = types[data[0] % 4];
	scenario_packet_text(&setup, 0, &p, text, sizeof(text));
	check_text(text, sizeof(text));
	fault = scenario_packet_fault(&peer, SPORT, data + 1, size - 1, &p.h);
	FUZZ_CHECK(!*fault || *fault == ' ');
	if (scenario_is_mad(&p.h))
		check_mad(&peer, &p);
	return 0;
}
