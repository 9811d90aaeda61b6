/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An end of a pair, by verbs. Everything that is done with it is a struct verbs_call, so that it
 * may be in this process or in another one:
 *
 *	verbs.c        the back end: two ends
 *	verbs-end.c    carries calls out: the end's objects
 *	verbs-post.c   requests, by either of two ways
 *	verbs-poll.c   completions, by any of four ways
 *	verbs-remote.c calls to the end of another process
 *	verbs-wire.c   an end that is alone: its peer is on UDP, and writes the packets
 */
#ifndef TEST_SCENARIO_VERBS_END_H
#define TEST_SCENARIO_VERBS_END_H

#include "scenario/names.h"
#include "verbs.h"

enum {
	VERBS_MAGIC = 0x72636d75, /* also: the same byte order */
	VERBS_LIST = 64,	  /* requests of one call */
	VERBS_TEXT = SCENARIO_EFFECTS_MAX,
	VERBS_GUARD_S = 60, /* of each wait */
	VERBS_PORT = 1,
	VERBS_RECVS = 4096,
};

/** What an end's peer has to have of it. */
struct verbs_self {
	union ibv_gid gid;
	uint32_t qpn, target_qpn, srqn;
	uint32_t probe_qpn; /* of the queue pair that answers whatever the scenario does */
	uint64_t addr[SCENARIO_AREAS];
	uint32_t lkey[SCENARIO_AREAS], rkey[SCENARIO_AREAS];
	uint32_t mw_rkey; /* 0: it has no window */
};

enum verbs_what {
	VERBS_START, /* setup; index */
	VERBS_PROBE,
	VERBS_STOP,
	VERBS_MODIFY, /* setup, number: the state, mask */
	VERBS_SEND,   /* number: of requests, which follow */
	VERBS_RECV,   /* one follows */
	VERBS_EFFECTS,
	VERBS_COMPLETIONS, /* number */
	VERBS_STATE,
	VERBS_READ,  /* area, offset, len; the bytes follow the answer */
	VERBS_WRITE, /* area, offset, len; the bytes follow */
	VERBS_DEREG,
	VERBS_REG, /* access, other_pd */
	VERBS_MW,  /* number: the type, other_pd */
	VERBS_DESTROY_QP,
	VERBS_NOTIFY, /* number: solicited only */
	VERBS_EVENT,  /* number: wait */
	VERBS_ASYNC,  /* number: of asynchronous events */
	VERBS_VENDOR_ERR,
	VERBS_SRQ_LIMIT, /* number */
	VERBS_KILL,
};

struct verbs_call {
	uint32_t magic, what;
	uint32_t index; /* which end it is */
	int32_t mask, access;
	uint32_t area, other_pd;
	uint64_t number, offset, len;
	struct scenario_setup setup;
	struct verbs_self peer;
	uint64_t follows; /* bytes behind it */
};

struct verbs_answer {
	uint32_t magic;
	int32_t result; /* negative: errno */
	struct verbs_self self;
	struct scenario_setup setup; /* VERBS_START: as it came to be */
	uint64_t follows;	     /* bytes behind it: text or memory */
};

struct verbs_end {
	struct ibv_context *ctx; /* owned, as all that follows */
	struct ibv_pd *pd, *other_pd;
	struct ibv_comp_channel *channel[2];
	struct ibv_cq *cq[2]; /* of sends, of receives; extended ones with verbs_way.cq_ex */
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx; /* qp, or NULL */
	struct ibv_qp *probe;  /* or NULL */
	struct ibv_qp *target; /* XRC: what the peer's QP is connected to */
	struct ibv_ah *ah;     /* UD */
	struct ibv_mw *mw;     /* or NULL */
	struct ibv_mr *mr[SCENARIO_AREAS], *old_mr[SCENARIO_AREAS]; /* or NULL */
	uint8_t *memory[SCENARIO_AREAS];			    /* owned: mmap */
	struct scenario_setup setup;
	struct verbs_self self, peer;
	unsigned index;
	uint64_t sends, recvs;
	struct scenario_place grh[VERBS_RECVS]; /* where the receive of this number begins */
	bool told_error;
	uint32_t vendor_err; /* of the first completion that failed and was not flushed */
	size_t text_len;
	char text[VERBS_TEXT];
};

/* ---- verbs-end.c ---- */

/** The device, opened once; the GID. @return false: an error was printed. */
bool verbs_end_open(struct verbs_end *e);
/**
 * Carry a call out. data: c->follows bytes, or where c->len bytes of VERBS_READ go. Text is in
 * e->text.
 */
void verbs_end_do(struct verbs_end *e, const struct verbs_call *c, void *data,
		  struct verbs_answer *a);
enum ibv_qp_state verbs_end_state(struct verbs_end *e);
void verbs_say(struct verbs_end *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- verbs-post.c ---- */

/** @return 0 or a negative errno. */
int verbs_post_send(struct verbs_end *e, const struct scenario_request *r, unsigned n);
int verbs_post_recv(struct verbs_end *e, const struct scenario_request *r);

/* ---- verbs-poll.c ---- */

/** Completions that there are are said, up to n. */
unsigned verbs_poll(struct verbs_end *e, unsigned n);
/** Wait until n were said, or for too long; then those that there are besides. */
void verbs_wait(struct verbs_end *e, unsigned n);
bool verbs_cq_event(struct verbs_end *e, bool wait);
/** Asynchronous events; wait until there are n, or for too long. Each is said with a word before
 * it. */
void verbs_async(struct verbs_end *e, unsigned n, const char *word);

/* ---- verbs-wire.c: the end is alone, and packets are its peer ---- */

/** Is there such a peer for this queue pair? */
bool verbs_wire_possible(const struct scenario_setup *s);
/** What the end has to have of it. */
struct verbs_self verbs_wire_self(void);
/** The end is there, with its probe. s is borrowed until the next one. */
void verbs_wire_begin(const struct scenario_setup *s, const struct verbs_self *device);
/** See struct scenario_backend. */
int verbs_wire_settle(void);
int verbs_wire_input(const struct verbs_self *device, const struct scenario_packet *p);
const char *verbs_wire_why_not(void);
const struct rocemu_packet *verbs_wire_last(void);
uint8_t *verbs_wire_payload(void);
uint64_t verbs_wire_address(const struct scenario_place *p);
/** Packets, then completions, events and the error state, which look() has. */
void verbs_wire_effects(unsigned n, const char *(*look)(void *world), void *world,
			char text[VERBS_TEXT]);

/* ---- verbs-remote.c ---- */

/** Is end b in another process? */
bool verbs_remote_there(void);
/** @return false: the other process is gone. Text is in text[VERBS_TEXT]. */
bool verbs_remote_do(struct verbs_call *c, void *data, struct verbs_answer *a, char *text);

#endif
