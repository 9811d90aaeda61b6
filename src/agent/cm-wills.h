/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wills: what clients want to be sent when they end. While a client lives its wills are kept in a
 * list of it; when it has ended they are due. A REJ is sent once; a DREQ again and again at the
 * connection's CM timeout until an answer comes or its retries are used up (IBTA 12.10.8). Pure:
 * who owns this asks what is due and sends it.
 */
#ifndef AGENT_CM_WILLS_H
#define AGENT_CM_WILLS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol-cm.h"
#include "base/list.h"

enum {
	CM_WILLS_BUCKETS = 4096,
	CM_WILLS_MS_MIN = 10,	 /* between two sendings, whatever the client says */
	CM_WILLS_MS_MAX = 60000, /* likewise */
};

struct cm_will_entry {
	struct list by_id; /* in a bucket */
	struct list node;  /* in a client's list, or in due */
	uint32_t comm_id;
	uint32_t interval_ms;
	unsigned left; /* how often it is still sent */
	bool repeat;   /* an answer is waited for */
	bool due;
	uint64_t due_ms;
	struct agent_cm_dgram dgram; /* data is bytes */
	uint8_t bytes[AGENT_CM_DGRAM_LEN];
};

struct cm_wills {
	struct list by_id[CM_WILLS_BUCKETS];
	struct list due; /* of dead clients' wills, the next to be sent first */
	unsigned due_count;
	uint64_t given_up;	     /* that nobody answered, so far */
	struct cm_will_entry *taken; /* sent for the last time: owned until the next call */
};

void cm_wills_init(struct cm_wills *w);
/** Forget what is due; clients' lists are theirs. */
void cm_wills_fini(struct cm_wills *w);

/**
 * Leave a will, in the place of an earlier one of that ID; f: a CM_FRAME_WILL with a datagram,
 * whose bytes are copied. repeat: it is a DREQ. *count: of the list, at most AGENT_CM_WILLS_MAX.
 * @return 0, -ENOBUFS, -ENOMEM.
 */
int cm_wills_set(struct cm_wills *w, struct list *of_client, unsigned *count,
		 const struct cm_frame *f, bool repeat);

/** Take a living client's will back. */
void cm_wills_clear(struct cm_wills *w, unsigned *count, uint32_t comm_id);

/** Their client has ended: all of the list are due now. */
void cm_wills_execute(struct cm_wills *w, struct list *of_client, uint64_t now_ms);

/** Forget all of a list, which may be that of what is due. */
void cm_wills_forget(struct cm_wills *w, struct list *of_client);

/** Forget what is due of a client's: it is back. */
void cm_wills_recall(struct cm_wills *w, uint16_t number);

/** Is anything of a dead client's still due? */
bool cm_wills_linger(const struct cm_wills *w, uint16_t number);

/**
 * A DREP, REJ or DREQ for a communication ID came from an address. @return true: it was the answer
 * to a will that was due, which is forgotten.
 */
bool cm_wills_answered(struct cm_wills *w, uint32_t comm_id, const struct rocemu_gid *src);

/** When the next one is due; UINT64_MAX: none. */
uint64_t cm_wills_next_ms(const struct cm_wills *w);

/**
 * The next that is due: to be sent by the caller, borrowed until the next call for w. Each comes as
 * often as it is to be sent; a DREQ whose last sending was not answered in time is forgotten.
 * @return NULL: none is due now.
 */
const struct agent_cm_dgram *cm_wills_take(struct cm_wills *w, uint64_t now_ms);

#endif
