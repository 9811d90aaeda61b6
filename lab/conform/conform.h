/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a RoCEv2 device does with the packets of the standard: cases, each a scenario, are carried
 * out against a device of which no more is known than its address. docs/conform.md
 *
 * The tester is no endpoint of rocemu: it is a UDP socket (wire.h), and knows of a queue pair what
 * it needs to compute PSNs. catalogue.c has the cases, peers.h what they need at the device, run.c
 * carries them out.
 */
#ifndef CONFORM_CONFORM_H
#define CONFORM_CONFORM_H

#include "conform/wire.h"
#include "scenario/scenario.h"

/* clang-format off */
/* X(NAME, text) */
#define CONFORM_VERDICTS(X)                                                  \
	X(PASS,         "pass")         /* as expected */                    \
	X(FAIL,         "FAIL")         /* a MUST, and it differs */         \
	X(WARN,         "warn")         /* a SHOULD, and it differs */       \
	X(KNOWN,        "known")        /* it differs, as --known states */  \
	X(MEASURED,     "measured")     /* a MEASURE */                      \
	X(UNSUPPORTED,  "unsupported")  /* the device or the peer cannot */  \
	X(SKIP,         "skip")         /* what it needs does not run */     \
	X(INCONCLUSIVE, "inconclusive") /* a probe was lost, or it differs now and then */

/* Where each of SCENARIO_PEERS is. X(NAME, TCP port or CM service, command to start it there) */
#define CONFORM_PEERS(X)                                                     \
	X(NONE,         0,     "")                                           \
	X(RC_PINGPONG,  18515, "while :; do ibv_rc_pingpong -g 0; done")     \
	X(UC_PINGPONG,  18516, "while :; do ibv_uc_pingpong -g 0 -n 64 -p 18516; done") \
	X(UD_PINGPONG,  18517, "while :; do ibv_ud_pingpong -g 0 -n 64 -p 18517; done") \
	X(RPING,        7174,  "rping -s -P -S 32768")                      \
	X(WRITE_BW,     18521, "while :; do ib_write_bw -p 18521; done")     \
	X(READ_BW,      18522, "while :; do ib_read_bw -p 18522; done")      \
	X(ATOMIC_BW,    18523, "while :; do ib_atomic_bw -p 18523; done")    \
	X(CONFORM_PEER, 18520, "cc conform-peer.c -o conform-peer -libverbs && ./conform-peer")
/* clang-format on */

enum conform_verdict {
#define X(NAME, text) CONFORM_##NAME,
	CONFORM_VERDICTS(X)
#undef X
		CONFORM_VERDICT_COUNT
};

enum { CONFORM_LEVELS = SCENARIO_MEASURE + 1, CONFORM_PEER_COUNT = SCENARIO_PEER_CONFORM_PEER + 1 };

extern const char *const conform_level_text[CONFORM_LEVELS];
extern const char *const conform_peer_text[CONFORM_PEER_COUNT];
/** The command that starts a peer at the device. */
extern const char *const conform_peer_command[CONFORM_PEER_COUNT];
extern const char *const conform_verdict_text[CONFORM_VERDICT_COUNT];

/* ---- catalogue.c ---- */

enum { CONFORM_ID_LEN = 64 };

struct conform_case {
	const struct scenario *s; /* owned by the catalogue */
	unsigned number;	  /* in s */
	char id[CONFORM_ID_LEN];  /* "seq/gap" */
	const char *sentence;	  /* borrowed from s */
	struct scenario_conform about;
};

struct conform_catalogue {
	struct scenario **file; /* owned */
	unsigned files;
	struct conform_case *cases; /* owned */
	unsigned ncases;
};

/** Add the cases of the program. @return false with *e filled. */
bool conform_catalogue_built_in(struct conform_catalogue *c, struct scenario_error *e);
/** Add those of text[0..len), which has the name file. @return false with *e filled. */
bool conform_catalogue_add(struct conform_catalogue *c, const char *text, size_t len,
			   const char *file, struct scenario_error *e);
void conform_catalogue_free(struct conform_catalogue *c);

/* ---- results ---- */

/** A packet of a case. */
struct conform_packet {
	struct ip_udp ip;
	uint64_t ns;   /* since 1970 */
	bool sent;     /* by the tester */
	unsigned line; /* of the case's file, that sent it; or 0 */
	bool hello;    /* of a question to QP 1 that shows silence, or of its answer */
	/* Of the queue pair at hand, all 0 where there is none: what PSNs count from, and the
	 * destination that a packet of this direction has. */
	uint32_t sq_psn, rq_psn, dqpn;
	uint32_t len;
	uint8_t *data; /* owned: from the BTH to the ICRC */
};

struct conform_result {
	const struct conform_case *c; /* borrowed */
	enum conform_verdict verdict;
	char *text;	   /* owned; what differs, or why it was not carried out; or NULL */
	const char *known; /* borrowed: the reason of CONFORM_KNOWN */
	struct scenario_measure measure[SCENARIO_MEASURES];
	unsigned measures;
	unsigned line;		       /* of the case's file, that differs; 0: none */
	unsigned tries;		       /* how often it was carried out */
	uint64_t ns;		       /* that it took */
	struct conform_packet *packet; /* owned; of the last time, until its queue pairs end */
	unsigned packets;
};

void conform_result_free(struct conform_result *r);

/* ---- run.c ---- */

struct conform_options {
	struct rocemu_gid target;
	const char *from; /* the tester's address; NULL: the one that routing chooses */
	uint16_t port[CONFORM_PEER_COUNT];
	unsigned mtu;	      /* of pingpong's queue pairs, bytes */
	unsigned patience_ms; /* for an answer */
	bool strict;	      /* what differs from a SHOULD is FAIL */
	bool may_break;
	FILE *log; /* each line and what came of it; or NULL */
};

struct conform_session;

/**
 * The tester's socket, to be closed; the device has answered at QP 1. NULL: error[0..size) says why
 * not, in a sentence.
 */
struct conform_session *conform_open(const struct conform_options *o, char *error, size_t size);
void conform_close(struct conform_session *s);
/** The tester's address. */
struct rocemu_gid conform_gid(const struct conform_session *s);
/** How long QP 1 takes for an answer: what all times that are measured have in them. */
struct conform_noise {
	uint64_t min_ns, median_ns, max_ns;
};
/** Ask QP 1 a hundred times. @return false: it did not answer. */
bool conform_noise(struct conform_session *s, struct conform_noise *n);
/** Does QP 1 of the device answer? */
bool conform_alive(struct conform_session *s);
/** Carry a case out. r->packet is of the last time. r is to be freed. */
void conform_run(struct conform_session *s, const struct conform_case *c, struct conform_result *r);
/** repeat.c: so many times. Verdicts that are not the same each time are CONFORM_INCONCLUSIVE. */
void conform_repeat(struct conform_session *s, const struct conform_case *c, unsigned times,
		    struct conform_result *r);

#endif
