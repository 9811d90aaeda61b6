/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides which thread makes progress on a lane, and when acknowledgements are sent: decisions
 * only, no socket, no clock, so that tests run in virtual time. Guarded by the lane's lock.
 *
 * Who receives: while application threads poll, they take the packets. Waking the lane's thread for
 * each of them only costs time: an interrupt to another CPU on the sender's side, two context
 * switches on this one.
 *
 *   ARMED    the thread watches the sockets.
 *   POLLED   the thread does not watch the sockets that callers poll. A timer, the guard, wakes it
 *            when polls stop: polls move the timer on.
 *
 *   state    event                                             next state
 *   ARMED    callers have polled for `need` without a pause    POLLED
 *   POLLED   a caller is about to sleep                        ARMED
 *   POLLED   the guard expires, and the poller
 *              has posted in the meantime                      POLLED, PROGRESS_BUSY times in a row
 *              is runnable, but has no processor               POLLED
 *              sleeps or computes                              ARMED
 *
 * If the poller sleeps or computes and a packet has waited for it, it was wrong to rely on it: then
 * `need` is doubled. A poller that waits for a processor polls as soon as it has one. Until then
 * the thread drives the lane each time the guard expires, each time after twice as long, up to
 * PROGRESS_GUARD_MAX_NS.
 *
 * Acknowledgements: an application that gets a message often answers it. An ACK that waits for the
 * answer shares its system call and, on the other side, its receive. Whether a lane's applications
 * answer is learned, as a branch predictor learns.
 *
 * Posts: a program that posts message after message pays a system call and the kernel's path for
 * each, unless some leave together. So once posts have followed each other quickly, the next ones
 * are gathered: until the next poll of an empty CQ, until there are GATHER_MAX or GATHER_BYTES,
 * until a post GATHER_NS after the first, or until an acknowledgement wakes the thread. The first
 * post after a pause is gathered only if earlier requests are in flight: a single message or a long
 * one never waits. If a program posts quickly and then does not poll or post, a timer sends the
 * rest (GATHER_TIMER_NS), or the guard in mode POLLED, and posts are gathered less readily
 * afterwards.
 *
 * A program that requests one completion for many posts (GATHER_MODERATED or more) waits for that
 * completion when its send queue is full. So what waits leaves with the signaled request, and while
 * its acknowledgement is on the way, the program posts the next ones.
 */
#ifndef ENGINE_PROGRESS_H
#define ENGINE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/lane.h"

/*
 * So long after the last poll the guard expires, or half of it: a poll moves it on when half of it
 * has passed, since that is a system call. So long a packet or an acknowledgement may wait when
 * polling has stopped.
 */
#define PROGRESS_GUARD_NS	1000000u
#define PROGRESS_GUARD_MAX_NS	4000000u
#define PROGRESS_PAUSE_NS	20000u /* between two polls: the caller does something else */
#define PROGRESS_NEED_NS	100000u
#define PROGRESS_NEED_MAX_NS	25600000u
#define PROGRESS_STALL_DECAY_NS 1000000000u

enum {
	PROGRESS_BUSY = 8,
	DELAYED_ACK_MAX_SCORE = 7,
	DELAYED_ACK_THRESHOLD = 4,
	DELAYED_ACK_TIMER_SHIFT = 2, /* the timer is at most this many times doubled */
	GATHER_MAX = 120,	     /* posts: they leave in one burst, with an ACK */
	GATHER_BYTES = 61440,	     /* 15 packets of 4 KiB: a UDP burst has 64 KiB at most */
	GATHER_SMALL = 4096,	     /* bytes; a longer message is a burst of its own */
	GATHER_MAX_SCORE = 8,
	GATHER_THRESHOLD = 4,
	GATHER_DISTRUST = -32,
	GATHER_TIMER_SHIFT = 3, /* the timer is at most this many times doubled */
	GATHER_CLOCK = 4,	/* of so many gathered posts one reads the clock */
	GATHER_MODERATED = 16,	/* posts without a completion, before one with: see above */
};

#define GATHER_QUICK_NS \
	2000u /* from the end of a post to the next: the program does nothing in between */
#define GATHER_NS	10000u
#define GATHER_TIMER_NS 100000u /* a timer's interrupt costs more than many posts */

#define DELAYED_ACK_LARGE     4096u  /* octets that take a noticeable part of the following times */
#define DELAYED_ACK_ANSWER_NS 30000u /* a post this soon after the packet is an answer to it */
#define DELAYED_ACK_POLL_NS   5000u  /* polls that find nothing for this long send what is held */
/*
 * Held by the lane's thread, or by a caller while ARMED. Not shorter, because each such wait may
 * set a timer, whose interrupt costs more than many system calls on a virtual machine; vain ones
 * soon lower the score.
 */
#define DELAYED_ACK_THREAD_NS 250000u

enum progress_mode { PROGRESS_ARMED, PROGRESS_POLLED };

struct progress {
	enum progress_mode mode;
	unsigned busy;	      /* times in a row that the guard expired, and the poller had posted */
	rocemu_ns_t since;    /* ARMED: callers poll without a pause since then; 0: they do not */
	rocemu_ns_t need;     /* ... and how long they have to */
	rocemu_ns_t stalled;  /* when need was last doubled or halved */
	rocemu_ns_t guard;    /* POLLED: when the guard expires */
	rocemu_ns_t move_at;  /* ... and from when on a poll moves it; ARMED: 0 */
	rocemu_ns_t patience; /* ... and how long after the last poll that is */
};

enum progress_next {
	PROGRESS_GO_ON,
	PROGRESS_STOP_WATCHING, /* the thread should call progress_stop_watching() */
	PROGRESS_MOVE_GUARD,	/* set the guard's timer to guard */
};

/** What the poller does when the guard expires. */
enum progress_poller {
	PROGRESS_POSTS, /* a post of many long messages sends them, and so does a poll that finds
			   room in the window */
	PROGRESS_WAITS, /* runnable, and without a processor */
	PROGRESS_AWAY,	/* it sleeps or computes */
};

void progress_init(struct progress *p);

/** Does a poll change nothing? Else progress_polled() has to be called. */
static inline bool progress_is_calm(const struct progress *p, rocemu_ns_t now)
{
	return now < p->move_at;
}

/** A caller polls. paused: not at once after the last poll, though it could have. */
enum progress_next progress_polled(struct progress *p, rocemu_ns_t now, bool paused);

/**
 * A caller may sleep now; or, in mode ARMED, the thread received a packet while no caller polled,
 * though none waited for a processor: a program that also waits for something else, as for a change
 * in its memory.
 */
void progress_polls_end(struct progress *p);

/**
 * The thread stops watching: mode is POLLED, and the timer has to be set to guard. @return false:
 * it goes on to watch, since the polls have ended in the meantime.
 */
bool progress_stop_watching(struct progress *p, rocemu_ns_t now);

/**
 * The thread watches again: mode is ARMED. stalled: a packet had been waiting, so it was wrong to
 * stop.
 */
void progress_rearm(struct progress *p, rocemu_ns_t now, bool stalled);

/**
 * The guard has expired in mode POLLED.
 * @return true: the timer has to be set to guard; false: the thread should call progress_rearm().
 */
bool progress_guard(struct progress *p, rocemu_ns_t now, enum progress_poller poller);

struct delayed_ack {
	uint8_t score;	   /* DELAYED_ACK_THRESHOLD and above: answers are expected */
	bool open;	   /* packets came, no answer yet */
	bool held;	   /* acknowledgements are waiting */
	bool in_time;	   /* held ones were answered since the timer last expired, and none late */
	uint8_t calm;	   /* how many times the timer's DELAYED_ACK_THREAD_NS are doubled */
	rocemu_ns_t since; /* of open */
};

void delayed_ack_init(struct delayed_ack *a);
/** Packets came in and there are only acknowledgements to send. @return true: keep them for now. */
bool delayed_ack_offer(struct delayed_ack *a, rocemu_ns_t now);
/** Something other than an acknowledgement is being sent from the caller's thread. */
void delayed_ack_answered(struct delayed_ack *a, rocemu_ns_t now);
/** When the timer has to send what is held from now on. */
rocemu_ns_t delayed_ack_due(const struct delayed_ack *a, rocemu_ns_t now);
/** Nothing else sent the held acknowledgements until delayed_ack_due(): they are sent now. */
void delayed_ack_late(struct delayed_ack *a);
/** The lane's timer has expired: as gather_timer(). */
void delayed_ack_timer(struct delayed_ack *a);

struct gather {
	int8_t score;	   /* GATHER_THRESHOLD and above: more posts are expected */
	uint8_t posts;	   /* that wait */
	uint8_t calm;	   /* how many times the timer's GATHER_TIMER_NS are doubled */
	uint8_t quiet;	   /* posts in a row that request no completion, GATHER_MODERATED at most */
	bool in_time;	   /* gathered requests were sent without the timer since it last expired */
	uint32_t bytes;	   /* in them */
	rocemu_ns_t last;  /* when the last post was done */
	rocemu_ns_t since; /* when the first of those that wait was posted */
};

/** Must the next gather_offer() have the time? false: that of the last one will do. */
static inline bool gather_needs_clock(const struct gather *g)
{
	return g->posts % GATHER_CLOCK == 0 || !g->last;
}

/** Something is posted. @return true: it waits; false: all goes now, gather_sent(). */
bool gather_offer(struct gather *g, rocemu_ns_t now, struct lane_post post);
/** A peer's request came, and not through a socket: a post that follows at once answers it, and
 * does not wait. By sockets an answer is never so quick. */
void gather_request_seen(struct gather *g);
/** The gathered requests were sent. */
void gather_sent(struct gather *g);
/** When the timer has to send the gathered requests. ROCEMU_NEVER: none wait. */
rocemu_ns_t gather_due(const struct gather *g);
/** Nothing sent the gathered requests until gather_due(): they are sent now. */
void gather_late(struct gather *g);
/**
 * The lane's timer has expired. It becomes rarer while all gathered requests are sent without it:
 * setting it, its interrupt and a wakeup of the thread cost more than the requests.
 */
void gather_timer(struct gather *g);

#endif
