/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exit MADs: sent for a client that has ended. While it lives they are in a list of it; then they
 * are due. A REJ is sent once; a DREQ is repeated at the connection's CM timeout until an answer
 * comes or its retries are used up (IBTA 12.10.8). Pure: the owner sends what is due.
 */
#ifndef AGENT_GSI_WILLS_H
#define AGENT_GSI_WILLS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/gsi-frame.h"
#include "agent/protocol.h"
#include "base/list.h"

enum {
	GSI_EXITS_BUCKETS = 4096,
	GSI_EXITS_MS_MIN = 10,	  /* between two sendings, whatever the client says */
	GSI_EXITS_MS_MAX = 60000, /* likewise */
};

struct gsi_exit_mad {
	struct list by_id; /* in a bucket */
	struct list node;  /* in a client's list, or in due */
	uint32_t comm_id;
	uint32_t interval_ms;
	unsigned left; /* how often it is still sent */
	bool repeat;   /* an answer is waited for */
	bool due;
	uint64_t due_ms;
	struct gsi_mad mad;
};

struct gsi_exits {
	struct list by_id[GSI_EXITS_BUCKETS];
	struct list due; /* of dead clients, the next to be sent first */
	unsigned due_count;
	uint64_t given_up;	    /* that nobody answered, so far */
	struct gsi_exit_mad *taken; /* sent for the last time: owned until the next call */
};

void gsi_exits_init(struct gsi_exits *w);
/** Forget what is due; clients' lists are theirs. */
void gsi_exits_fini(struct gsi_exits *w);

/**
 * Set the exit MAD of an ID, in the place of an earlier one; f: a GSI_FRAME_EXIT_SET. repeat: it is
 * a DREQ. *count: of the list, at most AGENT_GSI_EXITS_MAX.
 * @return 0, -ENOBUFS, -ENOMEM.
 */
int gsi_exits_set(struct gsi_exits *w, struct list *of_client, unsigned *count,
		  const struct gsi_frame *f, bool repeat);

/** A living client's ID has none any more. */
void gsi_exits_clear(struct gsi_exits *w, unsigned *count, uint32_t comm_id);

/** Their client has ended: all of the list are due now. */
void gsi_exits_execute(struct gsi_exits *w, struct list *of_client, uint64_t now_ms);

/** Forget all of a list, which may be that of what is due. */
void gsi_exits_forget(struct gsi_exits *w, struct list *of_client);

/** Forget what is due of a client's: it is back. */
void gsi_exits_recall(struct gsi_exits *w, uint16_t number);

/** Is anything of a dead client's still due? */
bool gsi_exits_linger(const struct gsi_exits *w, uint16_t number);

/**
 * A DREP, REJ or DREQ for a communication ID came from an address. @return true: it was the answer
 * to one that was due, which is forgotten.
 */
bool gsi_exits_answered(struct gsi_exits *w, uint32_t comm_id, const struct rocemu_gid *src);

/** When the next one is due; UINT64_MAX: none. */
uint64_t gsi_exits_next_ms(const struct gsi_exits *w);

/**
 * The next that is due: to be sent by the caller, borrowed until the next call for w. Each comes as
 * often as it is to be sent; a DREQ whose last sending was not answered in time is forgotten.
 * @return NULL: none is due now.
 */
struct gsi_mad *gsi_exits_take(struct gsi_exits *w, uint64_t now_ms);

#endif
