/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The errors table, executed: rows of single requests (lab/parity/error-rows.c), and of events
 * and calls that are more than one request (bodies.c). The rows are independent of the bench that
 * executes them. There are two, libibverbs (bench-verbs.c) and the simulator, which also loses
 * packets (bench-sim.c). docs/errors.md is printed from the same rows.
 */
#ifndef TEST_ERRORS_H
#define TEST_ERRORS_H

#include <stdio.h>

#include "../../lab/parity/error-rows.h"

enum {
	ERR_MEM = 16384, /* bytes of a region */
	ERR_MTU = 1024,
	ERR_COMPLETIONS = 40, /* most of a row, of one end */
};

/* ---- the bench ---- */

struct err_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	uint32_t vendor_err;
	uint32_t byte_len;
};

struct err_bench_ops {
	const char *name;
	struct err_bench *(*open)(const struct err_config *c);
	void (*close)(struct err_bench *b);
	/** A region of ERR_MEM bytes. */
	struct err_region (*reg)(struct err_bench *b, enum err_end end, unsigned access,
				 bool other_pd);
	void (*dereg)(struct err_bench *b, enum err_end end, struct err_region *r);
	/** Post to the other end; of a UD request only remote_qpn and remote_qkey are set. An
	 * errno. */
	int (*post)(struct err_bench *b, enum err_end end, struct ibv_send_wr *wr);
	int (*recv)(struct err_bench *b, enum err_end end, struct ibv_recv_wr *wr);
	int (*modify)(struct err_bench *b, enum err_end end, struct ibv_qp_attr *attr, int mask);
	/** Post the bind of a new window to a region without IBV_ACCESS_MW_BIND. */
	int (*bind)(struct err_bench *b, enum err_end end, uint64_t wr_id);
	int (*arm_srq)(struct err_bench *b, unsigned limit);
	/** The responder answers a request that is under way with nonsense; NULL: cannot be had
	 * here. */
	int (*bad_response)(struct err_bench *b);
	/** Destroy the QP. */
	void (*vanish)(struct err_bench *b, enum err_end end);
	enum ibv_qp_state (*state)(struct err_bench *b, enum err_end end);
	uint32_t (*qpn)(struct err_bench *b, enum err_end end);
	/**
	 * Run until that many completions and all these events (bits 1 << ibv_event_type) have come
	 * at an end; further ones are reported as well.
	 * @return completions in wc, at most ERR_COMPLETIONS.
	 */
	unsigned (*collect)(struct err_bench *b, enum err_end end, unsigned least, uint32_t events,
			    struct err_wc *wc, uint32_t *came);
	/** Was a packet with the result lost? Then the requester may run out of retries. */
	bool (*nak_lost)(struct err_bench *b);
};

struct err_bench {
	const struct err_bench_ops *ops;
	bool vendor_err_is_nak;	     /* of the requester's completions */
	struct err_region mem[ENDS]; /* all access */
};

/* ---- what there is besides err_rows ---- */

/** Statuses and events that no row has, and why. */
struct err_absent {
	int code; /* enum ibv_wc_status or enum ibv_event_type */
	const char *name, *why;
};
extern const struct err_absent err_absent_statuses[], err_absent_events[];
extern const unsigned err_nabsent_statuses, err_nabsent_events;

/** Events and immediate errors that are more than one request: rows with a body. */
extern const struct err_row err_bodies[];
extern const unsigned err_nbodies;

/* ---- run.c ---- */

/**
 * Execute a row. @return true: as wanted; else each difference has been printed as a line "bench,
 * row[, loss mask]: what: is, wanted ...".
 */
bool err_run(const struct err_bench_ops *ops, const struct err_row *row, uint32_t loss_mask);

/** Print such a line; false. */
bool err_differs(const char *bench, const struct err_row *row, uint32_t loss_mask, const char *what,
		 const char *got, const char *want);

/* ---- names.c ---- */

const char *err_status_name(int status);
const char *err_state_name(enum ibv_qp_state state);
/** Print the names of a set of events, separated by commas; *any: something is before, or now is.
 */
void err_event_names(uint32_t events, const char *suffix, bool *any, FILE *out);

/* ---- for bodies ---- */

/** A SEND to the other end that nothing is wrong with. */
struct ibv_send_wr err_wr(struct err_bench *b, enum err_end from, struct ibv_sge *sge,
			  uint64_t wr_id, uint32_t len);
int err_post_recv(struct err_bench *b, enum err_end end, uint64_t wr_id, uint32_t len);

/* ---- the benches ---- */

extern const struct err_bench_ops err_bench_sim, err_bench_verbs;

/** What bench-verbs.c works on: set by the program before a row is run. */
struct err_verbs {
	const char *device[ENDS];   /* borrowed; the same name: one context for both */
	unsigned settle_ms;	    /* how long nothing more may come before a row's end is seen */
	unsigned patience_ms;	    /* limit of the wait for expected completions */
	unsigned event_patience_ms; /* and after them the events */
	bool vendor_err_is_nak;
};
extern struct err_verbs err_verbs;

/** Exit code of a program whose devices do not do what a row is prepared with. */
enum { ERR_EXIT_BROKEN = 3 };

/* ---- naks.c ---- */

/** The AETH syndrome of the first RNR NAK or NAK in a capture; 0: none; <0: it cannot be read. */
int err_nak_in_capture(const char *path);

#endif
