/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worlds: hosts on a fabric (fabric.h), connections of all services between them, random verbs
 * calls and random faults, all drawn from one seed, so that a seed replays its run exactly. Checked
 * while it runs, whatever network and programs do:
 *
 *	- each signaled request completes exactly once, in posting order, and so does each receive;
 *	- what completed well has had its effect, once: memory, atomics' values, received messages;
 *	- no request fails on a connection that nothing happened to but random loss;
 *	- no QP is without progress for longer than its timeout and retries allow;
 *	- the window of a peer holds what its QPs have in flight, no more and no less;
 *	- no packet is dropped for a reason that cannot occur;
 *	- no packet of a peer is taken for a forged one;
 *	- at the end all is quiet, and all objects can be given back.
 *
 * A world that breaks one of them prints its seed and what it saw, and ends the process with 1.
 *
 * Files: world.c (objects and the loop), world-op.c (requests and their effects),
 * world-fault.c (what happens to connections and hosts), world-watch.c (packets under way),
 * world-inside.c (looks into the endpoint).
 */
#ifndef TEST_SIM_WORLD_H
#define TEST_SIM_WORLD_H

#include "fabric.h"

enum {
	WORLD_MAX_HOSTS = 6,
	WORLD_MAX_CONNS = 16,
	WORLD_DEPTH = 16, /* requests of a side */
	WORLD_RECVS = 32,
	WORLD_SLOT = 65536,	 /* memory of one request */
	WORLD_SMALL_SLOT = 8192, /* what most worlds use of it */
	WORLD_GUARD = 64,	 /* ... of which the end is never written */
	WORLD_GRH = 40,
};

/* clang-format off */
#define WORLD_OPS(X)   \
	X(SEND)        \
	X(SEND_IMM)    \
	X(WRITE)       \
	X(WRITE_IMM)   \
	X(READ)        \
	X(FAA)         \
	X(CAS)         \
	X(ATOMIC_WRITE)\
	X(FLUSH)       \
	X(BIND)        \
	X(LOCAL_INV)   \
	X(SEND_INV)
/* clang-format on */

enum world_op_kind {
#define X(name) WORLD_##name,
	WORLD_OPS(X)
#undef X
		WORLD_OP_COUNT
};

/** A request that is posted and not complete. */
struct world_op {
	enum world_op_kind kind;
	uint32_t len;
	bool signaled;
	uint64_t old;	  /* atomics: what must come back */
	uint64_t message; /* number among those that take a receive at the other end */
};

/** A message that takes a receive, as the receiver must see it. */
struct world_message {
	uint64_t op; /* number of the request */
	enum world_op_kind kind;
	uint32_t len;
};

/** Memory of a side, in the world's arena. */
struct world_memory {
	uint8_t src[WORLD_DEPTH][WORLD_SLOT]; /* what requests send, and read into */
	uint8_t recv[WORLD_RECVS][WORLD_SLOT];
	uint8_t dst[WORLD_DEPTH][WORLD_SLOT]; /* what the other side writes */
	uint8_t fixed[WORLD_SLOT];	      /* what it reads */
	uint64_t counter;		      /* its atomics */
};

/** Of a side's window, as its owner and the other side together see it. */
enum world_mw_state { MW_UNBOUND, MW_BINDING, MW_BOUND, MW_INVALIDATING };

struct world_side {
	struct world *world;
	struct world_conn *conn;
	struct world_side *other;
	unsigned host;
	struct rocemu_qp *qp; /* NULL: destroyed */
	struct rocemu_cq *scq, *rcq;
	struct rocemu_srq *srq; /* XRC, the receiving side */
	struct rocemu_mr *local,
		*remote;      /* src and recv; dst, fixed and counter. NULL: deregistered */
	struct rocemu_mw *mw; /* over dst, for the other side's WRITEs; or NULL */
	enum world_mw_state mw_state;
	struct rocemu_path path; /* UD */
	struct world_memory *m;
	struct world_op ops[WORLD_DEPTH];
	uint64_t posted, done;
	struct world_message messages[2 * WORLD_RECVS]; /* that the other side sends here */
	uint64_t due;					/* messages that it posted */
	uint64_t recvs, received;			/* receives posted, completed */
	uint64_t counter;     /* what the other side's counter is when all posted is executed */
	uint64_t newest;      /* UC: number of the newest message received, and one */
	uint64_t id;	      /* of its data; another one in each life */
	bool sends, fetches;  /* can it post, with responses */
	bool sqd;	      /* in SQD, or on the way */
	bool failed;	      /* a request completed in error */
	rocemu_ns_t progress; /* time of the last */
	rocemu_ns_t patience; /* so long it may be without */
	uint8_t rd_atomic;
};

enum world_conn_state { CONN_ALIVE, CONN_ENDING, CONN_WAITING };

struct world_conn {
	enum world_conn_state state;
	enum ibv_qp_type type;
	enum ibv_mtu mtu;
	uint8_t timeout;
	struct world_side side[2];
	bool moving;	   /* both sides drain, to change their addresses */
	uint8_t gid_index; /* of both */
	bool excused;	   /* something happened to it: its requests may fail */
	rocemu_ns_t until; /* WAITING: packets of its last life may be under way */
};

struct world_stats {
	uint64_t packets, lost, requests, good, bad, lives, faults;
	struct rocemu_ep_stats ep;
};

struct world {
	uint64_t seed, digest;
	struct rng rng;
	struct fabric *fabric;
	struct world_conn conns[WORLD_MAX_CONNS];
	unsigned nconns, nhosts;
	struct world_memory *arena;   /* of all sides, kept from one world to the next */
	uint32_t slot;		      /* bytes that a request of this world may use of its memory */
	bool counts[WORLD_MAX_HOSTS]; /* whose ACKs of RC QPs have credits */
	bool rough;  /* connections are destroyed, regions deregistered, links go down */
	bool ending; /* nothing new, all is to come to its end */
	rocemu_ns_t back_at[WORLD_MAX_HOSTS]; /* when a paused host goes on, or a link comes back;
						 0: is there */
	bool away[WORLD_MAX_HOSTS]; /* ... for so long that requests may fail, or its link is down
				     */
	struct world_stats stats;
	bool trace;
};

/* ---- world.c ---- */

/** Run the world of that seed to its end. stats are added to. @return the digest of all that
 * happened. */
uint64_t world_run(uint64_t seed, bool trace, struct world_stats *stats);
void world_fail(const struct world *w, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
/** What happened becomes part of the digest. */
void world_note(struct world *w, uint64_t what);
#define world_assert(w, x) \
	((x) ? (void)0 : world_fail(w, "%s:%d: not so: %s", __FILE__, __LINE__, #x))
void side_fail(const struct world_side *s, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
/** A new life for a connection: QPs in RTS, memory set up. */
void conn_begin(struct world *w, struct world_conn *c);
/** Give back what the connection has. */
void conn_end(struct world *w, struct world_conn *c);

/* ---- world-watch.c ---- */

/** A filter of the fabric: sees all packets, loses none. */
bool world_watch(struct fabric *f, struct fabric_packet *p, void *arg);

/* ---- world-op.c ---- */

/** Post one request, drawn at random. */
void side_post(struct world_side *s);
bool side_post_kind(struct world_side *s, enum world_op_kind kind);
/** Post at most n of the receives that are due (UC, UD: that have room). */
void side_post_recvs(struct world_side *s, unsigned n);
void side_poll(struct world_side *s);
/** Is a completion to come? The end of an unsignaled request is not seen. */
bool side_waits(const struct world_side *s);
/** A life begins: fill the memory that the other side reads. */
void side_fill(struct world_side *s);

/* ---- world-fault.c ---- */

/** One random thing happens to the connection. */
void world_fault(struct world *w, struct world_conn *c);
/** What is to happen by now: hosts go on, connections get another life. */
void world_mend(struct world *w);
/** To the error state: all that is outstanding is flushed at once. */
void side_break(struct world_side *s);
/** Out of SQD, where it is drained and may. */
void side_undrain(struct world_side *s);
/** The addresses that the connection uses, for a modify. */
struct ibv_ah_attr side_ah(const struct world_side *s);

/* ---- world-inside.c ---- */

/** Windows, and what is kept, of all endpoints. */
void world_check_inside(struct world *w);
/** All objects were given back: what the endpoints hold of their own is, too. */
void world_check_empty(struct world *w);
/** For a report: what the QP of a side waits for. */
void side_print_inside(const struct world_side *s);

#endif
