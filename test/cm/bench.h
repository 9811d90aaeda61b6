/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection manager, and a scripted peer, which sends exactly the messages of a test. The
 * manager's actions are recorded as text:
 *
 *     bench_start(&b);
 *     c = bench_conn(&b, CM_REP_SENT);
 *     bench_says(&b, c, ROCEMU_CM_RTU);
 *     assert_string_equal(bench_effects(&b, c), "RTU event; ESTABLISHED");
 */
#ifndef TEST_CM_BENCH_H
#define TEST_CM_BENCH_H

#include "cm/cm.h"
#include "test.h"

enum {
	BENCH_SERVICE = 0x01061c06,
	BENCH_PEER_ID = 0x80000001,
	BENCH_PEER_QPN = 0x50,
	BENCH_OWN_QPN = 0x20,
	BENCH_RETRIES = 2,
};
#define BENCH_OWN_GUID	0xa0ull
#define BENCH_PEER_GUID 0xb0ull
#define BENCH_TID	0x7788ull /* of what the peer begins */

extern const struct rocemu_gid bench_own, bench_peer, bench_other;

struct bench {
	struct cm *cm;
	rocemu_ns_t now;
	struct cm_listener *listener;
	struct rocemu_cm_msg sent; /* the last */
	struct cm_addr sent_addr;
	struct cm_event event; /* the last */
	enum cm_drop drop;     /* of the last message that came in */
	uint16_t sport;	       /* from where messages come; 0: not known */
	char text[256];
};

/** A manager with LAP events and exit MADs, and a listener on BENCH_SERVICE. */
void bench_start(struct bench *b);
/** The same, otherwise configured; without a listener. */
void bench_start_config(struct bench *b, const struct cm_config *config);
/** Free it. What is left in it is the test's. */
void bench_end(struct bench *b);

/** A message of a correct peer for c (NULL: for none), to change before it comes in. */
void bench_message(const struct bench *b, const struct cm_conn *c, uint16_t attr_id,
		   struct rocemu_cm_msg *m);
/** It comes in from the peer. */
enum cm_drop bench_in(struct bench *b, const struct rocemu_cm_msg *m);
/** ... from another address. */
enum cm_drop bench_in_from(struct bench *b, const struct rocemu_cm_msg *m,
			   const struct rocemu_gid *from);
/** ... from and to any address. */
enum cm_drop bench_in_addr(struct bench *b, const struct rocemu_cm_msg *m,
			   const struct cm_addr *addr);
/** The message as it is. */
enum cm_drop bench_says(struct bench *b, const struct cm_conn *c, uint16_t attr_id);

/** What the manager has sent since, as "REP" or "REJ 8"; "-": nothing. b->sent is the last. */
const char *bench_sends(struct bench *b);
/** Events since, as "REQ RTU"; "-": none. b->event is the last. */
const char *bench_events(struct bench *b);
/** Time passes up to the next deadline, and what is due happens. */
void bench_expire(struct bench *b);

/** A connection in that state; nothing is to be sent, no event waits. Passive where both sides
 * have the state. */
struct cm_conn *bench_conn(struct bench *b, enum cm_state state);
/** The active side of ESTABLISHED, DREQ_SENT, DREQ_RCVD, TIMEWAIT. */
struct cm_conn *bench_active_conn(struct bench *b, enum cm_state state);
/** cm_connect() with usual parameters. */
struct cm_conn *bench_connect(struct bench *b, bool peer_to_peer);

#endif
