/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulator: endpoints ("nodes") in virtual time, joined by virtual links with faults. It
 * drives each endpoint exactly as an engine would (output, input, deadline, expire), through
 * <rocemu/endpoint.h> alone, and keeps a ledger of everything posted, so that each run can be
 * checked against what must hold whatever the network did:
 *
 *	- memory is what the operations make it, guard bytes and everything untouched included;
 *	- every signaled request completes exactly once, in posting order; so does every receive;
 *	- the run ends: nothing to send, nothing under way, no timer running;
 *	- no packet was dropped for a reason that cannot occur on these links.
 *
 * A run that breaks one of them prints its seed and parameters and leaves a capture of its last
 * packets.
 *
 * Files: sim.c (time, links, the loop), sim-object.c (QPs, memory, posting, the ledger), sim-xrc.c,
 * sim-text.c (effects and completions as text, the failure report), op.h (operations with their
 * expected outcome).
 */
#ifndef TEST_SIM_H
#define TEST_SIM_H

#include <rocemu/endpoint.h>

#include "base/rng.h"

enum {
	SIM_MAX_NODES = 8,
	SIM_GUARD = 128, /* guard bytes around each memory region */
	SIM_TEXT_MAX = 8192,
	SIM_HISTORY = 4096, /* packets kept for the capture of a failing run */
};

#define SIM_US 1000ull
#define SIM_MS 1000000ull
#define SIM_S  1000000000ull

/** One direction between two nodes. All zero: instant and perfect. */
struct sim_link_config {
	rocemu_ns_t delay_ns;
	uint32_t ns_per_kib;  /* the bottleneck: time to send 1024 bytes */
	uint32_t queue_bytes; /* most bytes that wait for it, the rest is lost; 0: no limit */
	uint64_t loss_mask;   /* bit i: the i-th packet of this direction is lost */
	double loss, dup, reorder, corrupt; /* probabilities of each packet */
	rocemu_ns_t storm_ns, calm_ns;	    /* the rates apply in storms only; 0: always */
};

struct sim_link {
	struct sim_link_config c;
	uint64_t packets; /* seen so far */
	rocemu_ns_t busy_until;
};

struct sim_config {
	const char *name; /* printed on failure; static */
	uint64_t seed;
	unsigned nodes; /* 0: 2 */
	bool ipv6;
	struct sim_link_config link; /* of every direction; see also sim->link[][] */
	uint64_t loss_mask;	     /* counts the packets of all directions together */
	rocemu_ns_t max_ns;	     /* bound of virtual time, 0: 1000 s */
	uint64_t max_packets;	     /* 0: 4 million */
	struct rocemu_ep_config ep;  /* seed is replaced */
};

/** A packet under way. Shared by the heap and the history. */
struct sim_packet {
	rocemu_ns_t at; /* arrival */
	uint64_t order; /* among packets that arrive at the same time */
	rocemu_ns_t sent_at;
	unsigned refs;
	unsigned from, to; /* nodes; to may be SIM_MAX_NODES: an unused address */
	struct rocemu_gid src, dst;
	uint16_t sport;
	uint8_t tclass, hop_limit;
	uint32_t len;
	uint8_t data[];
};

struct sim_node {
	struct sim *sim;	  /* borrowed */
	struct rocemu_ep *ep;	  /* owned */
	struct rocemu_pd *pd;	  /* owned; what sim_qp_new() and sim_mem_new() use */
	struct rocemu_xrcd *xrcd; /* owned; of XRC_RECV QPs and of SRQs that name no other */
	struct rocemu_gid gid;
	unsigned index;
	bool gone; /* takes no packets and sends none: a dead host */
	struct rocemu_event events[256];
	unsigned nevents;
};

struct sim {
	struct sim_config cfg;
	struct rng rng;
	rocemu_ns_t now;
	struct sim_node node[SIM_MAX_NODES];
	unsigned nodes;
	struct sim_link link[SIM_MAX_NODES][SIM_MAX_NODES];
	uint64_t packets; /* sent so far, all directions */
	uint64_t loss_mask;
	uint64_t allowed_drops; /* bits 1 << enum rocemu_drop that sim_end() accepts */
	struct sim_packet **heap;
	size_t heap_len, heap_size;
	uint64_t next_order;
	struct sim_packet *history[SIM_HISTORY];
	uint64_t history_len; /* ever; the ring holds the last of them */
	struct sim_qp *qps;   /* every one, newest first */
	struct sim_mem *mems;
	struct sim_srq *srqs;
	uint64_t next_wr_id;
	char effects[SIM_TEXT_MAX]; /* see sim_effects() */
	size_t effects_len;
	char done[SIM_TEXT_MAX];
};

/**
 * Registered memory filled with random bytes; want is what it must hold at the end, guards
 * included.
 */
struct sim_mem {
	struct sim_node *node;
	struct sim_mem *next;
	struct rocemu_mr *mr; /* NULL once deregistered */
	uint8_t *alloc;	      /* guard | buf | guard, owned */
	uint8_t *buf;
	uint8_t *want;	     /* of buf */
	uint8_t *want_alloc; /* owned */
	uint64_t iova;	     /* of buf; not its address */
	uint32_t len;
	uint32_t used; /* by sim_mem_take() */
};

/** A posted work request and its completion. */
struct sim_done {
	uint64_t wr_id;
	bool signaled;
	bool done;
	enum ibv_wc_opcode opcode; /* wanted */
	int64_t want_len;	   /* wanted byte_len of a good completion; -1: any */
	bool want_imm;		   /* a good completion carries imm */
	uint32_t imm;
	struct rocemu_cqe cqe;
};

struct sim_ledger {
	struct sim_done *e; /* owned */
	size_t n, size;
	size_t next;	  /* the oldest that may complete next */
	size_t good, bad; /* completions seen, by status */
};

/** A shared receive queue: receives complete in any order. */
struct sim_srq {
	struct sim_srq *next;
	struct sim_node *node;
	struct rocemu_srq *srq; /* NULL once destroyed */
	struct rocemu_cq *cq;	/* XRC: owned */
	struct sim_ledger rq;
};

struct sim_qp {
	struct sim *sim;
	struct sim_qp *next;
	struct sim_node *node;
	struct sim_qp *peer; /* or NULL */
	struct rocemu_qp *qp;
	struct rocemu_cq *scq,
		*rcq;	     /* owned, one pair per QP; XRC_RECV: none, XRC_SEND: the first */
	struct sim_srq *srq; /* or NULL; XRC_RECV: the one its peer sends to */
	enum ibv_qp_type type;
	struct rocemu_path ud_path; /* UD: to the peer */
	uint32_t qkey;
	bool sig_all;
	bool may_lose_receives; /* UC, UD: receives may be left at the end */
	bool no_poll;		/* the test polls the CQs itself */
	struct sim_ledger sq, rq;
};

struct sim_qp_opts {
	enum ibv_qp_type type; /* for an XRC connection: XRC_SEND */
	enum ibv_mtu mtu;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t rd_atomic, dest_rd_atomic;
	uint32_t psn, peer_psn; /* first PSN of this side's and of the peer's requests */
	unsigned access;	/* IBV_ACCESS_* of the QP */
	unsigned depth;		/* of both queues; the CQs hold twice as much */
	uint32_t qkey;
	bool sig_all;
	struct sim_srq *srq; /* of sim_qp_new(), and of the second one of sim_connect() */
};

/**
 * RC at MTU 256, PSNs 100 and 500, everything allowed; timeout 1 ms, 7 retries, RNR without limit
 * at 10 us.
 */
#define SIM_QP_OPTS                       \
	((struct sim_qp_opts){            \
		.type = IBV_QPT_RC,       \
		.mtu = IBV_MTU_256,       \
		.timeout = 8,             \
		.retry_cnt = 7,           \
		.rnr_retry = 7,           \
		.min_rnr_timer = 1,       \
		.rd_atomic = 4,           \
		.dest_rd_atomic = 4,      \
		.psn = 100,               \
		.peer_psn = 500,          \
		.access = SIM_ACCESS_ALL, \
		.depth = 256,             \
		.qkey = 0x11111111,       \
	})

#define SIM_ACCESS_ALL                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | ROCEMU_ACCESS_FLUSH_GLOBAL | ROCEMU_ACCESS_FLUSH_PERSISTENT)

/* ---- sim.c: the network ---- */

struct sim *sim_new(const struct sim_config *cfg);
/**
 * Everything is freed in the order that the endpoint requires; fails the test if a call refuses.
 */
void sim_free(struct sim *s);
/** Check the invariants, then sim_free(). */
void sim_end(struct sim *s);
/** The invariants alone; the run must be quiescent. */
void sim_check(struct sim *s);
/** Until nothing is left to happen. */
void sim_run(struct sim *s);
/** Until s->now is now + ns, whatever is left. */
void sim_run_for(struct sim *s, rocemu_ns_t ns);
/** True when nothing is under way and no deadline is set. */
bool sim_quiescent(struct sim *s);

/**
 * A packet from node `from` to node `to` with these headers (pad is set here), as any host could
 * send it; it takes the link's delay but meets no faults. src: NULL
 * for from's own address.
 */
void sim_inject(struct sim *s, unsigned from, unsigned to, const struct rocemu_gid *src,
		const struct rocemu_hdrs *h, const void *payload, uint32_t len);

/* ---- sim-object.c ---- */

struct sim_mem *sim_mem_new(struct sim *s, unsigned node, uint32_t len, unsigned access);
/** The next len bytes of m, aligned to 8, with a gap behind them. @return their offset. */
uint32_t sim_mem_take(struct sim_mem *m, uint32_t len);
/** The operation copies src[so..so+len) to dst[d..). */
void sim_want_copy(struct sim_mem *dst, uint32_t d, const struct sim_mem *src, uint32_t so,
		   uint32_t len);
/** What is there is left open: it is taken as it is. Only at the end of a run. */
void sim_want_any(struct sim_mem *m, uint32_t off, uint32_t len);
/** m's bytes at off as a number, in host order; and what they must be. */
uint64_t sim_mem_u64(const struct sim_mem *m, uint32_t off);
void sim_want_u64(struct sim_mem *m, uint32_t off, uint64_t v);

struct sim_srq *sim_srq_new(struct sim *s, unsigned node, unsigned depth);
/** An XRC SRQ of that domain (NULL: the node's). */
struct sim_srq *sim_xrc_srq_new(struct sim *s, unsigned node, struct rocemu_xrcd *xrcd,
				unsigned depth);
/** A QP in RESET. */
struct sim_qp *sim_qp_new(struct sim *s, unsigned node, const struct sim_qp_opts *o);
/** RESET -> INIT, INIT -> RTR towards peer, RTR -> RTS. */
void sim_qp_init(struct sim_qp *q, const struct sim_qp_opts *o);
void sim_qp_rtr(struct sim_qp *q, struct sim_qp *peer, const struct sim_qp_opts *o);
void sim_qp_rts(struct sim_qp *q, const struct sim_qp_opts *o);

struct sim_pair {
	struct sim_qp *a, *b;
};

/**
 * Two QPs, on nodes na and nb, connected and in RTS; a's requests begin at o->psn, b's at
 * o->peer_psn. XRC_SEND: b is an XRC_RECV QP and has an SRQ of that kind, o->srq or a new one.
 */
struct sim_pair sim_connect(struct sim *s, unsigned na, unsigned nb, const struct sim_qp_opts *o);

/** A work request under construction. */
struct sim_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge[ROCEMU_MAX_SGE + 1];
	const struct rocemu_path *ud_path; /* NULL: the QP's own */
};

struct sim_wr sim_wr(enum ibv_wr_opcode opcode, unsigned flags);
void sim_wr_local(struct sim_wr *w, const struct sim_mem *m, uint32_t off, uint32_t len);
void sim_wr_remote(struct sim_wr *w, const struct sim_mem *m, uint32_t off);
/**
 * Post; wr_id 0 becomes the next number. 0 or the endpoint's error; only what was taken is in the
 * ledger.
 */
int sim_post(struct sim_qp *q, struct sim_wr *w);
int sim_post_recv(struct sim_qp *q, const struct sim_mem *m, uint32_t off, uint32_t len);
int sim_srq_post(struct sim_srq *srq, const struct sim_mem *m, uint32_t off, uint32_t len);

/* Shorthands; they must succeed. Flags are IBV_SEND_SIGNALED unless the name states otherwise. */
void sim_send(struct sim_qp *q, const struct sim_mem *m, uint32_t off, uint32_t len);
void sim_write(struct sim_qp *q, const struct sim_mem *m, uint32_t off, uint32_t len,
	       const struct sim_mem *r, uint32_t roff);
void sim_recv(struct sim_qp *q, const struct sim_mem *m, uint32_t off, uint32_t len);

/** Take what is in the CQs into the ledgers. The loop does it after each step. */
void sim_poll(struct sim_qp *q);
void sim_xrc_poll(struct sim_srq *srq);
/** Take one completion into the ledger that has its request; ordered: where it must be the next. */
void sim_take(struct sim_qp *q, struct sim_ledger *l, const struct rocemu_cqe *c, bool ordered);
void sim_ledger_check(struct sim_qp *q);
void sim_mem_check(struct sim *s, const struct sim_mem *m);
void sim_objects_free(struct sim *s);

/* ---- sim-text.c ---- */

/** Note a packet in the effects. */
void sim_note_packet(struct sim *s, const struct sim_packet *p, const char *fate);
/**
 * What was sent since the last call, one item a packet: "A SEND_ONLY 100;
 * B ACK 100": node, opcode without its service, PSN; "NAK 62" and "RNR 01" for such AETHs; "lost"
 * where it was.
 */
const char *sim_effects(struct sim *s);
/** The completions of a QP in the order of their work requests: "send OK; send FLUSH; recv OK". */
const char *sim_done(struct sim_qp *q);
/** All completions so far were successful. */
bool sim_all_good(const struct sim_qp *q);

/**
 * The run is wrong: print the error, with seed and parameters, write the capture, fail the test.
 */
void sim_fail(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
#define sim_assert(s, cond)                                                  \
	do {                                                                 \
		if (!(cond))                                                 \
			sim_fail(s, "%s:%d: %s", __FILE__, __LINE__, #cond); \
	} while (0)

#endif
