/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An exchange: the sending half that connections and SIDRs have in common. It keeps two MADs: a
 * request, which is sent again until it is answered or its retries are spent, and an answer, which
 * is sent again when the peer's message comes again. One timer. Its owner decides what a timeout
 * means.
 */
#ifndef CM_XCHG_H
#define CM_XCHG_H

#include "base/list.h"
#include "cm/cm.h"
#include "transport/timer.h"

enum xchg_kind { XCHG_CONN, XCHG_SIDR };

struct xchg;

/** The owner of an exchange and its callbacks. */
struct xchg_ops {
	enum xchg_kind kind;
	/** Called when nothing is pending any more: free the object if nothing else keeps it. */
	void (*settle)(struct xchg *x);
	/** Its retention has ended: free it. */
	void (*end)(struct xchg *x);
};

/** A MAD kept for sending: now (pending), or again. */
struct xchg_mad {
	uint8_t data[ROCEMU_MAD_LEN];
	uint16_t attr_id; /* 0: none */
	bool pending;
};

struct xchg {
	struct cm *cm; /* borrowed */
	const struct xchg_ops *ops;
	struct timer timer;
	struct list tx_link;	 /* in cm->tx while a MAD is pending */
	struct list linger_link; /* in cm->lingering once the consumer has finished with it */
	struct cm_addr addr;	 /* src is the own address */
	unsigned cell;		 /* of the peer, in shares */
	struct xchg_mad request, answer;
	rocemu_ns_t interval; /* between two tries of the request */
	void *user;	      /* borrowed: the consumer's */
	uint32_t events;      /* in cm->events that are of it */
	uint8_t retries;      /* of the request, still to do */
	bool detached;	      /* the consumer has finished with it */
};

void xchg_init(struct xchg *x, struct cm *cm, const struct xchg_ops *ops,
	       const struct cm_addr *addr);
/** Out of every list of the manager. */
void xchg_fini(struct xchg *x);

/** Send a message, and again every interval, up to retries times; then the timer expires. */
void xchg_request(struct xchg *x, rocemu_ns_t now, const struct rocemu_cm_msg *m,
		  rocemu_ns_t interval, uint8_t retries);
/** The request was answered or is obsolete: drop it, also if it still waits to be sent. */
void xchg_stop(struct xchg *x);
/** The timer has come and a request waits: send it again, or, without retries left, count it as
 * given up. */
void xchg_retry(struct xchg *x, rocemu_ns_t now);
/** As xchg_retry(), but one of the retries, of which there is one, is not sent. */
void xchg_skip(struct xchg *x, rocemu_ns_t now);
/**
 * May a message be sent that answers nothing that came just now? The sender of a request may have
 * forged its address, so one address (a cell) gets CM_UNASKED of them in CM_UNASKED_PERIOD_NS, and
 * what it has earned. Each call that returns true counts.
 */
bool xchg_may_repeat(struct xchg *x, rocemu_ns_t now);
/** The peer has answered, so it has its address: CM_EARNED messages more may be sent to it. */
void xchg_answered(struct xchg *x);
/** Send the request again now, beside its timer. */
void xchg_request_again(struct xchg *x);

/** Send a message, and keep it for xchg_answer_again(). */
void xchg_answer(struct xchg *x, const struct rocemu_cm_msg *m);
/** Keep a message for xchg_answer_again(), without sending it now. */
void xchg_answer_later(struct xchg *x, const struct rocemu_cm_msg *m);
/**
 * The peer has repeated its message: send the kept answer again if it is the message attr_id.
 * @return false: it is another one.
 */
bool xchg_answer_again(struct xchg *x, uint16_t attr_id);

/** Something is still to be sent. */
static inline bool xchg_pending(const struct xchg *x)
{
	return list_linked(&x->tx_link);
}

/** Set the timer to expire after a wait, to which the manager's time scale applies. */
void xchg_timer_set(struct xchg *x, rocemu_ns_t now, rocemu_ns_t wait);
/** The same, but never earlier than its current expiry. */
void xchg_timer_extend(struct xchg *x, rocemu_ns_t now, rocemu_ns_t wait);

/** The consumer has finished with x; free the oldest such object when there are too many. */
void xchg_linger(struct xchg *x);

#endif
