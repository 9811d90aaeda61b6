/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of habits share: QPs that write to each other, and an rdma_cm connection. */
#ifndef PROG_HABITS_H
#define PROG_HABITS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Each CHECK() is a step. A thread that has set cancel_at > 0 cancels itself before that step's
 * call. */
extern _Thread_local unsigned cancel_at;
void step(void);

#define CHECK(condition)                                                           \
	do {                                                                       \
		step();                                                            \
		if (!(condition)) {                                                \
			printf("%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, \
			       strerror(errno));                                   \
			fflush(stdout);                                            \
			_exit(1);                                                  \
		}                                                                  \
	} while (0)

enum { BUF = 65536 };

/** One end: a context with all that an RC QP needs. */
struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	union ibv_gid gid;
	char *buf;
};

/** The first device there is, and a QP in state INIT. */
void end_open(struct end *e);
/** Both QPs of two ends, or an end's with itself, to RTS. */
void end_connect(struct end *from, const struct end *to);
void end_close(struct end *e);
/** Post a WRITE of the first len bytes of a buffer to the peer's; an errno. */
int end_post(struct end *e, const struct end *to, uint32_t len);
/** Wait for a success. */
void end_wait(struct end *e);

/** An rdma_cm server that accepts, counts and disconnects all clients, in its own threads. */
struct server {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct sockaddr_in at;
	pthread_t thread;
	atomic_uint served;
};

void server_start(struct server *s);
void server_stop(struct server *s);
/** Connect to it, wait for its disconnect, destroy everything. */
void server_use(const struct server *s);

/** The process ends here if the child's status is not 0. */
void wait_for(pid_t child);

int run_stack(void);
int run_cancel(const char *what);
int run_fork(const char *what);
int run_exit(const char *what);
int run_words(void);
int run_storm(void);
/** Close all descriptors after rdma_create_event_channel(), as daemons do, and wait for a signal.
 */
void run_closed(void) __attribute__((noreturn));

#endif
