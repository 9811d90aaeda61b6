/* SPDX-License-Identifier: BSD-2-Clause */
/* wire-peers: see wire-peers.c. */
#ifndef WIRE_PEERS_H
#define WIRE_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdnoreturn.h>

#include <infiniband/verbs.h>

enum {
	WRITE_LEN = 50001,     /* checked */
	STREAM_LEN = 64 << 10, /* not checked */
	STREAM_DEPTH = 4,      /* WRITEs of the stream that are outstanding */
	MESSAGE_LEN = 3001,
	NAME_LEN = 16,
	RECVS = 4,
};

/** What a request is for: its wr_id. */
enum kind { WRITE, READ, SEND, STREAM, RECV, KINDS };
enum step { FILLED, TAKEN, LAST };

struct message {
	uint32_t round;
	uint8_t step;
	uint8_t stop; /* this round is to be the last */
	uint8_t data[MESSAGE_LEN];
};

/** One side's memory. The peer writes to written and stream_in, and reads filled. */
struct memory {
	uint8_t filled[WRITE_LEN], written[WRITE_LEN], read[WRITE_LEN];
	uint8_t stream_out[STREAM_LEN], stream_in[STREAM_LEN];
	struct message out[2], in[RECVS];
};

/** What the sides send each other by TCP. */
struct hello {
	char name[NAME_LEN]; /* the client's */
	union ibv_gid gid;
	uint64_t addr; /* of struct memory */
	uint32_t qpn, rkey;
	uint32_t rounds; /* the client's; 0: until the server is to stop */
	uint8_t timeout; /* the client's */
};

struct options {
	const char *host, *name, *device;
	unsigned port, rounds;
	uint8_t gid_index, timeout;
	bool poll;
	bool careless; /* wrong data is no error */
};

struct conn {
	const struct options *o; /* borrowed */
	pthread_t thread;
	int sock;		     /* owned */
	struct ibv_context *ctx;     /* borrowed */
	struct ibv_pd *pd;	     /* borrowed */
	struct ibv_comp_channel *ch; /* owned, as the following */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct memory *mem;
	struct hello mine, peers;
	bool serves;
	bool quiet;		/* the stream ends */
	unsigned streams;	/* outstanding */
	unsigned done[KINDS];	/* completions */
	unsigned waited[KINDS]; /* for that many */
	/* Of the server. Both guarded by lock. */
	bool pauses, ends;
	pthread_mutex_t lock;
};

noreturn void die(const char *what);

/* ---- wire-peers-conn.c ---- */

/** Make the QP, exchange QPNs by c->sock and connect. */
void conn_open(struct conn *c);
/** All rounds; prints the result. @return whether all went well. */
bool conn_run(struct conn *c);
/** The server is to stop: after the present round, or at once if c pauses. */
void conn_stop(struct conn *c);
void conn_close(struct conn *c);

#endif
