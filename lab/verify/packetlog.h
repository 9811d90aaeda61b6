/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets kept for the page and for explanations: a bounded number, those at the beginning of the
 * capture; and their arrangement in sessions.
 */
#ifndef VERIFY_PACKETLOG_H
#define VERIFY_PACKETLOG_H

#include "model.h"
#include "wire/print.h"

struct logged {
	uint64_t number, ts_ns;
	struct flow *flow;		    /* borrowed; NULL: of none */
	const struct cm_exchange *exchange; /* borrowed; NULL: no CM message, or one without REQ */
	uint8_t *mad;			    /* owned; NULL: none */
	struct ip_udp ip;
	struct rocemu_hdrs h;
	uint32_t hdrs; /* ROCEMU_HDR_* of the extension headers that are there */
	uint32_t payload_len, icrc;
	uint32_t len, mad_len;
	uint16_t mad_attr;	/* of a CM message; 0: none */
	uint16_t segment;	/* of the frame, from 1; 0: all of it */
	bool decoded, cut, bth; /* bth: it is there */
	bool v1;		/* RoCEv1 */
	bool hides;		/* may be a burst's first packet: payload_len is the burst's */
	bool cm_active;		/* of an exchange: from the side that sent the REQ */
	/* set by sessions_make() */
	bool back;	  /* from side 1 of its session */
	bool again;	  /* a request whose PSN was seen before */
	bool late;	  /* a request that closes a gap */
	bool hint;	  /* an acknowledgement that names a gap; psn is the gap's */
	uint32_t session; /* index */
	int32_t psn;	  /* relative to its requester's first */
	uint32_t missing; /* PSNs that should have come before it */
};

static inline bool logged_has(const struct logged *e, uint32_t hdr)
{
	return (e->hdrs & hdr) != 0;
}

struct session;

struct packet_log {
	struct logged *at; /* owned */
	unsigned n, room, limit;
	uint64_t left_out;
	struct session *sessions; /* owned; NULL until sessions_make() */
	unsigned session_n;
	uint32_t *order; /* owned; indices of all packets, session after session */
};

#endif
