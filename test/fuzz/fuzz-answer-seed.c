/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-answer starts from: an answer of each kind, and a message of each kind. */
#include "driver.h"

#include <rocemu/cm.h>
#include <string.h>

enum { PEER_QPN = 0x1c003, TYPES = 4, UD = 2 };

static const uint8_t opcodes[] = {
	ROCEMU_RC_ACK,
	ROCEMU_RC_READ_RESP_FIRST,
	ROCEMU_RC_READ_RESP_MIDDLE,
	ROCEMU_RC_READ_RESP_LAST,
	ROCEMU_RC_READ_RESP_ONLY,
	ROCEMU_RC_ATOMIC_ACK,
	ROCEMU_RC_SEND_ONLY,
	ROCEMU_RC_WRITE_ONLY,
	ROCEMU_RC_READ_REQUEST,
	ROCEMU_UC_SEND_ONLY,
	ROCEMU_UD_SEND_ONLY,
	ROCEMU_CNP,
};
static const uint8_t syndromes[] = {0x1f, 0x05, 0x2c, 0x60, 0x64, 0x40};

static void add(struct fuzz_corpus *c, uint8_t type, const struct rocemu_hdrs *h,
		const uint8_t *payload, size_t len)
{
	uint8_t data[1 + ROCEMU_MAX_PACKET] = {type};
	size_t n = 1 + rocemu_hdrs_encode(h, data + 1);

	memcpy(data + n, payload, len);
	fuzz_corpus_add(c, data, n + len + ROCEMU_ICRC_LEN);
}

static void add_message(struct fuzz_corpus *c, uint16_t attr_id)
{
	const struct rocemu_hdrs h = {.opcode = ROCEMU_UD_SEND_ONLY,
				      .dqpn = ROCEMU_GSI_QPN,
				      .deth = {.qkey = ROCEMU_GSI_QKEY, .sqpn = ROCEMU_GSI_QPN}};
	const struct rocemu_cm_msg m = {.attr_id = attr_id, .tid = 3, .rej = {.remote_comm_id = 1}};
	uint8_t mad[ROCEMU_MAD_LEN];

	rocemu_cm_encode(&m, mad);
	add(c, UD, &h, mad, sizeof(mad));
}

void fuzz_seed(struct fuzz_corpus *c)
{
	static const uint8_t payload[16];

	for (uint8_t i = 0; i < sizeof(opcodes); i++)
		for (uint8_t k = 0; k < sizeof(syndromes); k++) {
			const struct rocemu_hdrs h = {.opcode = opcodes[i],
						      .dqpn = PEER_QPN,
						      .aeth = {.syndrome = syndromes[k]}};

			add(c, i % TYPES, &h, payload,
			    opcodes[i] == ROCEMU_RC_ACK ? 0 : sizeof(payload));
		}
#define X(name, id, member, len) add_message(c, id);
	ROCEMU_CM_MESSAGES(X)
#undef X
}
