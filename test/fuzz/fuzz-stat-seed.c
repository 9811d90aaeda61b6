/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-stat starts from: a request, and answers with no, one and some QPs. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "engine/stat-msg.h"

static void add_answer(struct fuzz_corpus *c, uint32_t lanes, uint32_t qps)
{
	const struct stat_head h = {
		.magic = STAT_MAGIC,
		.version = STAT_VERSION,
		.lane_size = sizeof(struct stat_lane),
		.qp_size = sizeof(struct rocemu_qp_report),
		.nlanes = lanes,
		.comm = "program",
	};
	const struct stat_lane lane = {
		.device = "dev0", .nqps = qps, .busy = qps == 1, .holder = "thread"};
	struct rocemu_qp_report qp = {
		.qpn = 17,
		.type = IBV_QPT_RC,
		.state = IBV_QPS_RTS,
		.flags = ROCEMU_REPORT_PATH | ROCEMU_REPORT_TIMER,
		.window = 100000,
		.sends = 9,
		.nwqes = ROCEMU_REPORT_WQES,
		.stats = {.tx_packets = 123456789, .retransmits = 3},
	};
	const size_t size = sizeof(h) + lanes * (sizeof(lane) + qps * sizeof(qp));
	uint8_t *data = malloc(size), *at = data;

	memcpy(at, &h, sizeof(h));
	at += sizeof(h);
	for (uint32_t l = 0; l < lanes; l++) {
		memcpy(at, &lane, sizeof(lane));
		at += sizeof(lane);
		for (uint32_t q = 0; q < qps; q++) {
			qp.wait = (uint8_t)(q % ROCEMU_WAIT_COUNT);
			memcpy(at, &qp, sizeof(qp));
			at += sizeof(qp);
		}
	}
	fuzz_corpus_add(c, data, size);
	free(data);
}

void fuzz_seed(struct fuzz_corpus *c)
{
	const struct stat_request r = {.magic = STAT_MAGIC, .version = STAT_VERSION};

	fuzz_corpus_add(c, &r, sizeof(r));
	add_answer(c, 0, 0);
	add_answer(c, 1, 0);
	add_answer(c, 1, 1);
	add_answer(c, 2, 1);
	add_answer(c, 1, ROCEMU_WAIT_COUNT + 1);
}
