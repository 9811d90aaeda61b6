/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the back end in memory among themselves. */
#ifndef TEST_SCENARIO_WORLD_H
#define TEST_SCENARIO_WORLD_H

#include <rocemu/endpoint.h>

#include "base/rng.h"
#include "scenario/names.h"

enum {
	PEER_QPN = 7 << 14 | 3, /* of the peer that writes packets */
	LOSE_MAX = 8,
	REASONS = 32,
	SRQS_MAX = 32,
};

/** A reason, and how many completions there were when it was given. */
struct reason {
	struct rocemu_why why;
	uint32_t completions;
};

struct end {
	struct rocemu_ep *ep; /* owns all of the objects */
	struct rocemu_pd *pd, *other_pd;
	struct rocemu_cq *cq;
	struct rocemu_srq *srq;		       /* the newest, or NULL */
	struct rocemu_srq *all_srqs[SRQS_MAX]; /* NULL once destroyed */
	uint32_t srqn[SRQS_MAX];
	unsigned srqs; /* that were made */
	struct rocemu_xrcd *xrcd;
	struct rocemu_qp *qp; /* NULL once destroyed */
	uint32_t qpn;
	struct rocemu_mw *mw;		      /* or NULL */
	struct rocemu_mr *mr[SCENARIO_AREAS]; /* NULL once deregistered */
	uint32_t lkey[SCENARIO_AREAS], rkey[SCENARIO_AREAS];
	struct rocemu_gid gid;
	uint64_t sends, recvs; /* posted so far: the numbers of requests */
	bool told_error;
	struct reason reason[REASONS]; /* the first ones */
	unsigned given, taken;	       /* of them */
	uint32_t vendor_err;	       /* of the last completion */
	uint32_t first_vendor_err;     /* of the first that failed and was not flushed */
	struct rocemu_packet last;     /* that it sent; its payload is below */
	bool sent;
	size_t log_len;
	char log[SCENARIO_EFFECTS_MAX]; /* what it did since the last look */
	char text[SCENARIO_EFFECTS_MAX];
	uint8_t last_payload[ROCEMU_MAX_MTU];
	uint8_t memory[SCENARIO_AREAS][SCENARIO_AREA] __attribute__((aligned(64)));
};

/** Of the next times packets of an end whose text matches, those are lost whose bit is set. */
struct lose {
	unsigned end, times;
	uint64_t mask; /* of the next packets, from bit 0 on; then from the start again */
	char pattern[SCENARIO_LINE_MAX];
};

/** A packet on the link of a pair. */
struct flying {
	struct flying *next;
	uint64_t at; /* arrival */
	unsigned to; /* end */
	struct rocemu_gid src, dst;
	uint16_t sport;
	uint8_t tclass;
	uint32_t len;
	uint8_t data[];
};

struct world {
	struct scenario_setup setup;
	uint64_t now;
	struct end *end[SCENARIO_ENDS]; /* owned; the second one NULL unless it is a pair */
	struct lose lose[LOSE_MAX];
	unsigned loses;
	struct flying *first; /* owned, by arrival */
	uint64_t in_at;	      /* when the last packet of the peer's came */
	uint64_t reply_at;    /* when the first one left behind it, if replied */
	uint64_t out_at[2];   /* when the last one left, and the one before it */
	unsigned outs;	      /* packets that left */
	bool replied;
	struct rng rng;
};

/** Registered addresses: there is no memory there, so that a mistake does not pass. */
static inline uint64_t area_iova(unsigned area)
{
	return 0x100000ull * (area + 1);
}

/* ---- endpoint.c ---- */

/** The address of an end's peer. */
struct rocemu_gid peer_gid(const struct world *w, unsigned end);
uint32_t peer_qpn(const struct world *w, unsigned end);

/* ---- link.c ---- */

/** As of struct scenario_backend. */
int link_lose(void *world, unsigned end, const struct scenario_loss *l);
/** A packet leaves an end. @return true: it is lost. */
bool link_loses(struct world *w, unsigned end, const char *text);
/** It goes to an end. */
void link_send(struct world *w, unsigned to, const struct rocemu_tx *t, const uint8_t *data,
	       uint32_t len);
/** The first packet on the link comes. */
void link_arrive(struct world *w);
void link_free(struct world *w);

/* ---- request.c ---- */

/** As it is in packets and requests. */
uint64_t place_address(const struct scenario_place *p);
int world_post_send(void *world, unsigned end, const struct scenario_request *r);
int world_post_recv(void *world, unsigned end, const struct scenario_request *r);

/* ---- srq.c ---- */

int srq_new(struct end *e, uint32_t max_wr, bool other_pd, bool other_domain);
/** The number-th that was made, or the newest (0); NULL: there is none. */
struct rocemu_srq *srq_of(const struct end *e, unsigned number);
/** As of struct scenario_backend. */
int end_srq(void *world, unsigned end, const struct scenario_srq *c);
bool end_srq_number(void *world, unsigned end, unsigned which, uint32_t *srqn);

/* ---- effects.c ---- */

/** Add "; " and the text to what the end did. */
void say(struct end *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void say_drop(struct end *e, enum rocemu_drop why);
/** Completions. */
void say_completions(struct end *e);
/** The names of events. Valid until the next call. */
const char *take_events(struct end *e);
/** These, events, and the error state. */
void say_rest(struct end *e);

/* ---- counter.c ---- */

/** @return false: there is no counter of this name. */
bool counter_value(const struct end *e, const char *name, uint64_t *value);

/* ---- report.c ---- */

/** The callback of struct rocemu_ep_config; end: a struct end. */
void take_reason(void *end, const struct rocemu_why *why);
bool report_value(const struct world *w, unsigned end, const char *name, char *text, size_t size);
bool reason_value(const struct world *w, unsigned end, const char *name, char *text, size_t size);

/* ---- input.c ---- */

/** A packet of the peer's, with what it leaves open, comes to the first end. */
void peer_sends(struct world *w, const struct scenario_packet *p);
/** What is wrong with a packet that the first end, which is alone, sent: "", or " WITH ...". */
const char *packet_fault(const struct world *w, const struct rocemu_tx *t, const uint8_t *data,
			 uint32_t len, const struct rocemu_hdrs *h);
/** t as the bytes from the BTH to the ICRC, with the ICRC. @return how many. */
uint32_t flatten(struct rocemu_tx *t, uint8_t *to);

#endif
