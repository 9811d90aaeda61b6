/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups packets into sessions, one diagram each. A connection with the CM exchange that made it;
 * the datagrams between two QPs; a CM exchange without packets of its connection; or packets of two
 * hosts that belong to none.
 */
#ifndef VERIFY_SESSION_H
#define VERIFY_SESSION_H

#include "packetlog.h"

enum {
	SESSION_GAPS = 16,
	/* rocemu names a second gap by an ACK of a PSN so far before it, which others drop. */
	HINT_BEHIND = 1 << 22,
};

enum session_kind { SESSION_CONNECTION, SESSION_DATAGRAMS, SESSION_CM, SESSION_OTHER };

/** PSNs [from, from + n) that are missing. */
struct psn_gap {
	uint32_t from, n;
};

/** One of the two ends. */
struct session_side {
	struct rocemu_gid gid;
	uint32_t qpn; /* 0: not known */
	bool psn_known;
	uint32_t psn; /* of its first request */
	/* while the packets are arranged */
	bool next_known, next_open, response_open;
	uint32_t next, response_next;
	struct psn_gap gaps[SESSION_GAPS]; /* the newest */
	unsigned gap_n;
};

struct session {
	enum session_kind kind;
	enum rocemu_service svc;
	const struct flow *flow;     /* borrowed; one direction; NULL: none */
	unsigned connection;	     /* number in the reports; 0: none */
	uint32_t mtu;		     /* 0: not known */
	unsigned first, n;	     /* packets: place of the first in the log's order, how many */
	struct session_side side[2]; /* 0 sent the first packet */
};

/** Arrange the packets of v->log, after verify_finish(). @return false: no memory. */
bool sessions_make(struct verify *v);

#endif
