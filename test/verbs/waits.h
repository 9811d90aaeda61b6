/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections whose receives raise events, and threads that wait for one, over dev.h. Errors end
 * the test. */
#ifndef TEST_VERBS_WAITS_H
#define TEST_VERBS_WAITS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "dev.h"

enum { WAITS_LEN = 64 };

/** One end of a connection, with a context of its own. Send completions are polled and make no
 * events. */
struct waits_end {
	struct dev d;
	struct ibv_cq *send_cq;
	struct ibv_qp *qp;
};

void waits_end_open(struct waits_end *e);
void waits_end_close(struct waits_end *e);
/** Two ends, connected with each other. */
void waits_open_both(struct waits_end *a, struct waits_end *b);
void waits_close_both(struct waits_end *a, struct waits_end *b);
/** Post a receive at one end, and a SEND of WAITS_LEN bytes at the other. */
void waits_send(struct waits_end *from, struct waits_end *to);

/** As after many short waits: the next one begins with looking. */
void waits_channel_keen(struct ibv_comp_channel *ch);
void waits_keen(struct waits_end *e);
/** The lane's thread leaves packets to those who poll. */
void waits_lane_polled(struct ibv_cq *cq);

/** A thread that calls ibv_get_cq_event() once. */
struct waits_thread {
	struct waits_end *end;
	pthread_t thread;
	atomic_int tid; /* 0: it does not run yet */
	int ret, err;
};

void waits_start(struct waits_thread *w, struct waits_end *e);
/** Until it sleeps, as it does only when it has looked for long enough. */
void waits_until_asleep(const struct waits_thread *w);
/** Until it looks, or sleeps. @return does it look? */
bool waits_until_looking(const struct waits_thread *w);

#endif
