/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which client got a request (REQ, SIDR_REQ), for a while: its repetitions go to the same one,
 * though another one may listen by then or nobody; and a REJ whose sender has not learned our
 * communication ID yet can only be routed by the ID of the REQ it takes back (IBTA 12.6.7). And
 * whether it has seen it: one that dies with a request unseen has set no exit MAD for it. A table
 * of fixed size whose oldest entries give way: one that is missing is as if the request had not
 * come. Pure.
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
	bool seen;	 /* the client has said something of it */
	/* What an answer needs, filled in by who adds it. */
	struct rocemu_gid dst;
	uint32_t scope_id;
	uint8_t tclass;
	uint64_t service_id;
};

struct gsi_reqs {
	struct gsi_req buckets[GSI_REQS_BUCKETS][GSI_REQS_WAYS];
};

/** Remember who got it. @return its entry, borrowed until the next call. */
struct gsi_req *gsi_reqs_add(struct gsi_reqs *rs, const struct gsi_req_id *id, uint16_t number,
			     uint64_t now_ms);

/** @return the client's number, or 0: not known. */
uint16_t gsi_reqs_find(const struct gsi_reqs *rs, const struct gsi_req_id *id, uint64_t now_ms);

/** The client with that number has answered it, or set an exit MAD for it. */
void gsi_reqs_seen(struct gsi_reqs *rs, const struct gsi_req_id *id, uint16_t number);

/**
 * A client is gone: take one of those that it got and never said anything of. *at: 0 at first.
 * @return false: there is no more.
 */
bool gsi_reqs_take_unseen(struct gsi_reqs *rs, uint16_t number, uint64_t now_ms, unsigned *at,
			  struct gsi_req *req);

#endif
