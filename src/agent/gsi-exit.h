/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Schedules exit MADs: sent for a client that has ended. While it is alive they are in its list;
 * after its end they are due. A REJ is sent once; a DREQ is repeated at the connection's CM timeout
 * until an answer comes or its retries are used up (IBTA 12.10.8). Pure: the owner sends what is
 * due.
 */
#ifndef AGENT_GSI_EXIT_H
#define AGENT_GSI_EXIT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/gsi-frame.h"
#include "agent/protocol.h"
#include "agent/quota.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/prf.h"

enum {
	GSI_EXITS_MS_MIN = 10,	  /* minimum between two sendings, whatever the client requested */
	GSI_EXITS_MS_MAX = 60000, /* likewise */
	GSI_EXITS_QUEUES = 33,	  /* one for each CM timeout, and one of what is not yet sent */
};

struct gsi_exit_mad {
	struct hash_node by_id;
	struct list node;   /* in the list of a client that is alive, or of its number */
	struct list by_due; /* in a queue, when it is due */
	uint32_t comm_id;
	uint32_t uid;	    /* whose */
	uint8_t cm_timeout; /* code of the interval */
	unsigned left;	    /* how often it is still sent */
	bool repeat;	    /* an answer is waited for */
	bool due;
	uint64_t due_ms;
	struct gsi_mad mad;
};

struct gsi_exits {
	struct quotas *quotas; /* borrowed */
	struct prf prf; /* of the table's keys: users choose IDs, and peers which are looked up */
	struct hash by_id;
	struct list lingering[AGENT_GSI_CLIENTS]; /* of dead clients, by number */
	/*
	 * The same, the next to be sent first in each: all of a queue wait for the same time, so
	 * that the last one added is the last to be sent.
	 */
	struct list due[GSI_EXITS_QUEUES];
	unsigned due_count;
	uint64_t given_up;	    /* not answered so far */
	struct gsi_exit_mad *taken; /* sent for the last time: owned until the next call */
};

void gsi_exits_init(struct gsi_exits *w, struct quotas *quotas, struct prf prf);
/** Free those that are due; the clients own their lists. */
void gsi_exits_fini(struct gsi_exits *w);

/**
 * Set or replace the exit MAD of an ID; f: a GSI_FRAME_EXIT_SET. repeat: it is a DREQ. *count: of
 * the list, at most AGENT_GSI_EXITS_MAX. uid: the client's user, who has a quota.
 * @return 0, -ENOBUFS, -ENOMEM.
 */
int gsi_exits_set(struct gsi_exits *w, struct list *of_client, unsigned *count, uint32_t uid,
		  const struct gsi_frame *f, bool repeat);

/** Remove that of an ID of a live client. */
void gsi_exits_clear(struct gsi_exits *w, unsigned *count, uint32_t comm_id);

/** The client has ended: all of its list are due now. now_ms is never less than the last one. */
void gsi_exits_execute(struct gsi_exits *w, struct list *of_client, uint64_t now_ms);

/** Free all of a list. */
void gsi_exits_forget(struct gsi_exits *w, struct list *of_client);

/** Drop a client's due ones: the client is back. */
void gsi_exits_recall(struct gsi_exits *w, uint16_t number);

/** Is anything of a dead client's still due? */
bool gsi_exits_linger(const struct gsi_exits *w, uint16_t number);

/** The user of the dead client with that number, of whom something is due. */
uint32_t gsi_exits_user(const struct gsi_exits *w, uint16_t number);

/**
 * A DREP, REJ or DREQ for a communication ID came from an address. @return true: it was the answer
 * to one that was due, which is dropped.
 */
bool gsi_exits_answered(struct gsi_exits *w, uint32_t comm_id, const struct rocemu_gid *src);

/** When the next one is due; UINT64_MAX: none. */
uint64_t gsi_exits_next_ms(const struct gsi_exits *w);

/**
 * The next that is due: to be sent by the caller, borrowed until the next call for w. Each comes as
 * often as it is to be sent; a DREQ whose last sending was not answered in time is dropped.
 * @return NULL: none is due now.
 */
struct gsi_mad *gsi_exits_take(struct gsi_exits *w, uint64_t now_ms);

#endif
