/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remembers for a while which client got a request (REQ, SIDR_REQ). Its repetitions go to the same
 * client, even if by then another one listens or none. A REJ whose sender does not have this side's
 * communication ID yet can only be routed by the ID of the REQ it withdraws (IBTA 12.6.7). Also
 * records whether the client has seen the request: a client that dies before has set no exit MAD
 * for it. A table of fixed size; new entries replace the oldest: a missing entry has the same
 * effect as a lost request. Pure.
 */
#ifndef AGENT_GSI_REQS_H
#define AGENT_GSI_REQS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"

enum {
	GSI_REQS_BUCKETS = 1024,
	GSI_REQS_WAYS = 8,
	GSI_REQS_MS = 120000, /* how long one is remembered; longer than requests are repeated */
};

struct gsi_req_id {
	struct rocemu_gid src;
	uint32_t comm_id; /* the requester's */
	uint64_t tid;	  /* of the MAD: the same in repetitions and in a REJ */
	bool sidr;	  /* a SIDR_REQ, else a REQ */
};

struct gsi_req {
	struct gsi_req_id id;
	uint64_t when_ms;
	uint16_t number; /* 0: free */
	bool seen;	 /* the client has reacted to it */
	/* Needed for an answer; filled in by the caller of gsi_reqs_add(). */
	struct rocemu_gid dst;
	uint32_t scope_id;
	uint8_t tclass;
	uint64_t service_id;
};

struct gsi_reqs {
	struct gsi_req buckets[GSI_REQS_BUCKETS][GSI_REQS_WAYS];
};

/** Record the client that got it. @return its entry, borrowed until the next call. */
struct gsi_req *gsi_reqs_add(struct gsi_reqs *rs, const struct gsi_req_id *id, uint16_t number,
			     uint64_t now_ms);

/** @return the client's number, or 0: not known. */
uint16_t gsi_reqs_find(const struct gsi_reqs *rs, const struct gsi_req_id *id, uint64_t now_ms);

/** The client with that number has answered it, or set an exit MAD for it. */
void gsi_reqs_seen(struct gsi_reqs *rs, const struct gsi_req_id *id, uint16_t number);

/**
 * A client is gone: take one of the requests that it got and never reacted to. Its other requests
 * are forgotten. *at: 0 at first.
 * @return false: there is no more.
 */
bool gsi_reqs_take_unseen(struct gsi_reqs *rs, uint16_t number, uint64_t now_ms, unsigned *at,
			  struct gsi_req *req);

#endif
