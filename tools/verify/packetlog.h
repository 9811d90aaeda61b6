/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets kept for the page: a bounded number, those at the beginning of the capture. */
#ifndef VERIFY_PACKETLOG_H
#define VERIFY_PACKETLOG_H

#include "model.h"
#include "wire/print.h"

struct logged {
	uint64_t number, ts_ns;
	struct flow *flow; /* borrowed; NULL: of none */
	struct ip_udp ip;
	struct rocemu_hdrs h;
	uint32_t payload_len, icrc;
	uint32_t len;
	bool decoded, cut;
};

struct packet_log {
	struct logged *at; /* owned */
	unsigned n, room, limit;
	uint64_t left_out;
};

#endif
