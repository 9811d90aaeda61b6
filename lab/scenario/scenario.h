/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios: text files that state what is posted to a queue pair, which packets come, and what
 * has to come of it. docs/scenarios.md describes the language.
 *
 * read.c splits a file into cases, lines and words. value.c, words.c and packet.c have the meaning
 * of words: numbers and places in memory; the fields of packets, requests and queue pairs. run.c,
 * object.c, memory.c and look.c carry a case out by means of a back end (struct scenario_backend),
 * which has the queue pairs: the language is the same wherever they are.
 *
 * A file is hostile until it is read: any bytes are safe, and what a case may do is bounded.
 */
#ifndef SCENARIO_SCENARIO_H
#define SCENARIO_SCENARIO_H

#include <stdio.h>

#include <infiniband/verbs.h>

#include <rocemu/wire.h>

enum {
	SCENARIO_TEXT_MAX = 1 << 20, /* bytes of a file */
	SCENARIO_LINE_MAX = 400,     /* bytes of a line */
	SCENARIO_WORDS = 48,	     /* of a line */
	SCENARIO_WORD_LEN = 64,	     /* with the zero */
	SCENARIO_VARIABLES = 12,     /* of all "with" lines of a case */
	SCENARIO_LOOPS = 8,	     /* "for" within each other, and "let" */
	SCENARIO_ROUNDS_MAX = 100000,
	SCENARIO_STEPS_MAX = 1000000, /* of a round: each line, and each turn of a "for" */
	SCENARIO_AREA = 131072,	      /* bytes of each area of memory, unless "area" is given */
	SCENARIO_ENDS = 2,
	SCENARIO_QP_SGES = 4,			    /* pieces that a queue pair takes */
	SCENARIO_SGES,				    /* of a request: one more, to be refused */
	SCENARIO_EFFECTS_MAX = 8192,		    /* bytes of what an end did until a look */
	SCENARIO_MEASURES = 128,		    /* that a round records */
	SCENARIO_MAD_MAX = 300,			    /* bytes of a MAD that a line writes */
	SCENARIO_DATA = 320,			    /* bytes of payload that a line gives */
	SCENARIO_BYTES = SCENARIO_WORD_LEN / 2 - 1, /* that a word has, as hexadecimal digits */
};

/* ---- attributes ---- */

/* clang-format off */
/* X(name, member of struct scenario_setup, largest value, default) */
#define SCENARIO_SETUP_FIELDS(X) \
	X(path_mtu, mtu, 4096, 256)                \
	X(timeout, timeout, 31, 14)                \
	X(retry_cnt, retry_cnt, 7, 7)              \
	X(rnr_retry, rnr_retry, 7, 7)              \
	X(min_rnr_timer, min_rnr_timer, 31, 12)    \
	X(max_rd_atomic, rd_atomic, 16, 2)         \
	X(max_dest_rd_atomic, dest_rd_atomic, 16, 2) \
	X(sq_psn, sq_psn, ROCEMU_PSN_MASK, 0xfffffe) \
	X(rq_psn, rq_psn, ROCEMU_PSN_MASK, 0xfffffe) \
	X(qkey, qkey, UINT32_MAX, 0x11)            \
	X(max_send_wr, send_wr, 4096, 64)          \
	X(max_recv_wr, recv_wr, 4096, 64)          \
	X(sq_sig_all, sig_all, 1, 1)               \
	X(srq, srq, 1, 0)                          \
	X(srq_other_pd, srq_other_pd, 1, 0)        \
	X(ip, ip, 6, 4)                            \
	X(same_address, same_address, 1, 0)        \
	X(other_address, other_address, 1, 0)      \
	X(window, window, UINT32_MAX, 0)           \
	X(why, why, 1, 1)                          \
	X(cqe, cqe, 65536, 8192)                   \
	X(rnr_chance, rnr_chance, 100, 0)          \
	X(loss, loss, 100, 0)                      \
	X(dup, dup, 100, 0)                        \
	X(reorder, reorder, 100, 0)                \
	X(seed, seed, UINT32_MAX, 1)               \
	X(sqd_notify, sqd_notify, 1, 0)            \
	X(dest_qp_num, dest_qp_num, ROCEMU_QPN_MASK, 0) \
	X(area, area, 0x80010000, SCENARIO_AREA)   \
	SCENARIO_TRAITS(X)
/* What another device does (struct rocemu_traits); times in us. */
#define SCENARIO_TRAITS(X) \
	X(drops_early, drops_early, 1, 0)          \
	X(goes_back, goes_back, 1, 0)              \
	X(no_probes, no_probes, 1, 0)              \
	X(no_migreq, no_migreq, 1, 0)              \
	X(sends_credits, sends_credits, 1, 0)      \
	X(cnp_on_nak, cnp_on_nak, 1, 0)            \
	X(no_cnps, no_cnps, 1, 0)                  \
	X(extra_repetitions, extra_repetitions, 255, 0) \
	X(ack_timeout_floor, ack_timeout_floor, UINT32_MAX, 0) \
	X(rnr_wait_floor, rnr_wait_floor, UINT32_MAX, 0) \
	X(nak_delay, nak_delay, UINT32_MAX, 0)     \
	X(cnp_interval, cnp_interval, UINT32_MAX, 0)
/* clang-format on */

/** A queue pair, or two that are connected, before the first line. */
struct scenario_setup {
#define X(name, member, max, value) uint32_t member;
	SCENARIO_SETUP_FIELDS(X)
#undef X
	enum ibv_qp_type type;
	enum ibv_qp_state state; /* to which it is brought */
	unsigned access;	 /* IBV_ACCESS_* of the QP */
	unsigned ends;		 /* 1: the peer is who writes the packets; 2: a pair */
	uint64_t delay_ns;	 /* a pair: of the link */
};

/* ---- a file ---- */

struct scenario_error {
	const char *file;      /* borrowed from the scenario */
	unsigned line, column; /* from 1; column 0: all of the line */
	char text[2 * SCENARIO_EFFECTS_MAX +
		  256]; /* what is wrong; several lines for what was not expected */
};

struct scenario_line {
	const char *text; /* borrowed from the scenario; without the comment and the line's end */
	unsigned number;  /* from 1 */
};

/**
 * "with A B: 1 2 | 3 4": rounds, in each of which the names stand for other words. A table, "table
 * NAME A B", has each round in a line of its own, "| 1 2".
 */
struct scenario_with {
	struct scenario_line line;
	const struct scenario_line *rows; /* of a table; or NULL */
	unsigned names, rounds;
	bool range; /* "with A: 3..9": the value is first + round */
	unsigned first;
};

struct scenario_case {
	struct scenario_line head; /* text: the name */
	unsigned first, lines;	   /* of scenario::line */
	struct scenario_with with[SCENARIO_VARIABLES];
	unsigned withs;
	unsigned rounds; /* at least 1 */
};

struct scenario_result;

struct scenario {
	char *file;		    /* owned: its name, for errors */
	char *text;		    /* owned */
	struct scenario_line *line; /* owned */
	unsigned lines;
	struct scenario_case *cases; /* owned */
	unsigned ncases;
	struct scenario_with *table; /* owned */
	unsigned tables;
	unsigned steps_max; /* of a round; SCENARIO_STEPS_MAX unless the caller changes it */
	struct scenario_setup defaults; /* see scenario_default() */
	/** What differs from a line; then the round goes on. NULL: it ends there. */
	void (*differs)(const struct scenario_result *r);
};

/**
 * Read a file's text[0..len). file is its name, for errors.
 * @return a scenario to be freed, or NULL with *e filled (e->file is file then).
 */
struct scenario *scenario_read(const char *text, size_t len, const char *file,
			       struct scenario_error *e);
void scenario_free(struct scenario *s);
/** From now on an attribute that a line does not give has this value. false: there is none. */
bool scenario_default(struct scenario *s, const char *name, uint64_t value);
/** Does a name of the "with" lines stand for this word in a round? And if there is no such name. */
bool scenario_round_has(const struct scenario *s, unsigned number, unsigned round, const char *name,
			const char *word, bool unless);

/* ---- a case about conformance ---- */

/* clang-format off */
/* X(NAME, word): how binding the rule is */
#define SCENARIO_LEVELS(X) \
	X(MUST, MUST)                       \
	X(SHOULD, SHOULD)                   \
	X(MEASURE, MEASURE) /* no rule */

/* X(NAME, word): what has to run on the device's host */
#define SCENARIO_PEERS(X) \
	X(NONE, none)                       \
	X(RC_PINGPONG, rc_pingpong)         \
	X(UC_PINGPONG, uc_pingpong)         \
	X(UD_PINGPONG, ud_pingpong)         \
	X(RPING, rping)                     \
	X(WRITE_BW, write_bw)               \
	X(READ_BW, read_bw)                 \
	X(ATOMIC_BW, atomic_bw)             \
	X(CONFORM_PEER, conform_peer)
/* clang-format on */

enum scenario_level {
#define X(NAME, word) SCENARIO_##NAME,
	SCENARIO_LEVELS(X)
#undef X
};

enum scenario_peer_program {
#define X(NAME, word) SCENARIO_PEER_##NAME,
	SCENARIO_PEERS(X)
#undef X
};

/** The line "conform LEVEL CLAUSE PEER [or PEER] [may_break]" of a case. */
struct scenario_conform {
	enum scenario_level level;
	char clause[64]; /* several with commas between them */
	enum scenario_peer_program peer;
	enum scenario_peer_program
		or_peer; /* as good, if peer does not run; or SCENARIO_PEER_NONE */
	bool may_break;	 /* the device may not work afterwards */
};

/**
 * Read that line without carrying the case out.
 * @return 1; 0: the case has none; negative: it is wrong, and e is filled.
 */
int scenario_conform(const struct scenario *s, unsigned number, struct scenario_conform *c,
		     struct scenario_error *e);

/* ---- what lines state, as a back end gets it ---- */

/** Memory of an end. Its first contents: byte i is 13 i + 5; 7 i + i / 256; 0xee. */
enum scenario_area {
	SCENARIO_MEM,			/* registered with all rights */
	SCENARIO_SEND,			/* what is sent from; local rights */
	SCENARIO_RECV,			/* what receives are posted of; local rights */
	SCENARIO_AREAS,			/* that are registered */
	SCENARIO_LAST = SCENARIO_AREAS, /* payload of the last packet sent */
	SCENARIO_NOWHERE,		/* offset is an address, and there is no memory */
};

struct scenario_place {
	uint8_t end; /* 0 is "a", 1 is "b" */
	uint8_t area;
	uint64_t offset;
};

/* clang-format off */
/* X(NAME, name, member of struct scenario_packet, largest value) */
#define SCENARIO_PACKET_FIELDS(X) \
	X(LEN, len, len, ROCEMU_MAX_MTU)           \
	X(PAD, pad, h.pad, 3)                      \
	X(CUT, cut, cut, ROCEMU_MAX_MTU)           \
	X(FILL, fill, fill, 255)                   \
	X(SE, se, h.se, 1)                         \
	X(MIGREQ, migreq, h.migreq, 1)             \
	X(FECN, fecn, h.fecn, 1)                   \
	X(BECN, becn, h.becn, 1)                   \
	X(ACKREQ, ackreq, h.ackreq, 1)             \
	X(TVER, tver, h.tver, 15)                  \
	X(PKEY, pkey, h.pkey, 0xffff)              \
	X(DQPN, dqpn, h.dqpn, ROCEMU_QPN_MASK)     \
	X(RKEY, rkey, h.reth.rkey, UINT32_MAX)     \
	X(DMALEN, dmalen, h.reth.length, UINT32_MAX) \
	X(SWAP, swap, h.atomiceth.swap_add, UINT64_MAX) \
	X(ADD, add, h.atomiceth.swap_add, UINT64_MAX) \
	X(COMPARE, compare, h.atomiceth.compare, UINT64_MAX) \
	X(SYNDROME, syndrome, h.aeth.syndrome, 255) \
	X(MSN, msn, h.aeth.msn, ROCEMU_PSN_MASK)   \
	X(ORIGINAL, original, h.atomicack, UINT64_MAX) \
	X(QKEY, qkey, h.deth.qkey, UINT32_MAX)     \
	X(SQPN, sqpn, h.deth.sqpn, ROCEMU_QPN_MASK) \
	X(SRQN, srqn, h.xrceth.srqn, ROCEMU_QPN_MASK) \
	X(IMM, imm, h.imm, UINT32_MAX)             \
	X(IETH, ieth, h.ieth, UINT32_MAX)          \
	X(FETH, feth, h.feth.raw, UINT32_MAX)      \
	X(PORT, sport, sport, 0xffff)              \
	X(IP_ID, ip_id, ip_id, 0xffff)             \
	X(ECN, ecn, ecn, 3)                        \
	X(DSCP, dscp, dscp, 63)                    \
	X(DF, df, df, 1)                           \
	X(OPTIONS, ip_options, ip_options, 1)      \
	X(FRAGMENTS, fragments, fragments, 2)      \
	X(UDP_LEN, udp_len, udp_len, 0xffff)       \
	X(UDP_CHECKSUM, udp_checksum, udp_checksum, 1) \
	X(BAD_CHECKSUM, bad_udp_checksum, bad_udp_checksum, 1) \
	X(RESERVED, reserved, reserved, 1)         \
	X(ICRC, bad_icrc, bad_icrc, 1)             \
	X(STRANGER, other_source, other_source, 1) \
	X(FULL, congested, congested, 1)           \
	X(SHARED, by_memory, by_memory, 1)
/* clang-format on */

enum scenario_packet_field {
#define X(NAME, name, member, max) SCENARIO_PACKET_##NAME,
	SCENARIO_PACKET_FIELDS(X)
#undef X
		SCENARIO_PACKET_FIELD_COUNT
};

struct field;

/** A value that a line gives for a member of a message, or of the MAD's header. */
struct scenario_mad_value {
	const struct field *field; /* of mad.c, static */
	uint64_t number;
	uint8_t bytes[SCENARIO_BYTES]; /* instead of number, if the member is bytes */
	uint8_t len;
	bool header;
};

/** A message of communication management, to QP 1. */
struct scenario_mad {
	uint16_t attr_id; /* enum rocemu_cm_attr; 0: the packet has no message */
	uint16_t len;	  /* bytes of the MAD that are sent */
	unsigned values;
	struct scenario_mad_value value[SCENARIO_WORDS / 2];
};

/** A packet of the peer's. The back end fills in what was not given. */
struct scenario_packet {
	struct rocemu_hdrs h; /* psn: from the first of its direction on */
	uint64_t given;	      /* bits 1 << enum scenario_packet_field */
	struct scenario_place at;
	bool has_place;
	uint32_t len; /* bytes of payload */
	uint32_t cut; /* bytes in front of the ICRC that are left out, as many as there are */
	uint8_t fill; /* each of them; not given: byte i is 7 i + 1 */
	struct scenario_mad mad;
	uint8_t data[SCENARIO_DATA]; /* the payload's first bytes, instead of these */
	uint16_t data_len;	     /* how many */
	uint8_t ecn, dscp;	     /* of the IP header */
	uint16_t sport;		     /* UDP source port */
	uint16_t ip_id;		     /* IPv4 identification */
	bool df;		     /* "don't fragment" of IPv4 */
	bool ip_options;	     /* the IPv4 header has four bytes of options */
	uint8_t fragments;	     /* 2: it leaves in two */
	uint16_t udp_len;	     /* that the UDP header has; not given: the right one */
	bool udp_checksum;	     /* false: the UDP checksum is 0 */
	bool bad_udp_checksum;	     /* it is wrong */
	bool reserved;		     /* the reserved bits of BTH and DETH are set */
	bool bad_icrc;
	bool again;	   /* the packet before once more: a message has the same IDs */
	bool other_source; /* it comes from another address than the peer's */
	bool congested;	   /* the socket buffer that it came through is filling up */
	bool by_memory;	   /* it came by shared memory */
};

static inline bool scenario_given(const struct scenario_packet *p, enum scenario_packet_field f)
{
	return p->given >> f & 1;
}

/* clang-format off */
/* X(name, member of struct scenario_request, largest value) */
#define SCENARIO_REQUEST_FIELDS(X) \
	X(id, id, UINT64_MAX)              \
	X(len, len, UINT32_MAX)            \
	X(rkey, rkey, UINT32_MAX)          \
	X(lkey, lkey, UINT32_MAX)          \
	X(imm, imm, UINT32_MAX)            \
	X(inv, imm, UINT32_MAX)            \
	X(qkey, qkey, UINT32_MAX)          \
	X(srqn, srqn, ROCEMU_QPN_MASK)     \
	X(srq, srq, UINT32_MAX)            \
	X(remote_qpn, remote_qpn, ROCEMU_QPN_MASK) \
	X(add, swap_add, UINT64_MAX)       \
	X(swap, swap_add, UINT64_MAX)      \
	X(compare, compare, UINT64_MAX)
/* clang-format on */

/** A piece of a request's memory. */
struct scenario_sge {
	struct scenario_place at;
	uint32_t len;
};

/** A work request: of ibv_post_send(), or of ibv_post_recv() (from: where the message goes). */
struct scenario_request {
	enum ibv_wr_opcode opcode;
	unsigned flags; /* IBV_SEND_* */
	uint64_t id;	/* 0: the next number, from 1 on */
	uint32_t len;
	uint32_t rkey, lkey; /* 0: the right one */
	uint32_t qkey, srqn; /* of a datagram, an XRC request; the same */
	uint32_t remote_qpn; /* of a datagram; the same */
	uint32_t srq;	     /* of a receive: the SRQ, from 1 on; 0: the newest */
	uint32_t imm;	     /* or the key to invalidate */
	unsigned access;     /* of a bind: IBV_ACCESS_* */
	bool no_mr;	     /* of a bind: it names no region */
	bool no_sge;	     /* it has no memory */
	bool more;	     /* the next request is posted by the same call */
	uint64_t swap_add, compare;
	struct scenario_place from, to;
	struct scenario_sge sge[SCENARIO_SGES];
	unsigned sges; /* 0: len bytes at from are all */
};

/** What is done to the SRQ of an end that was made last. */
struct scenario_srq {
	enum {
		SCENARIO_SRQ_NEW, /* one more */
		SCENARIO_SRQ_DESTROY,
		SCENARIO_SRQ_LIMIT, /* n */
		SCENARIO_SRQ_SIZE,  /* n */
	} what;
	uint32_t n;
	bool other_pd, other_domain; /* of _NEW: not the QP's */
};

/** Of the headers in front of the BTH. */
struct scenario_ip {
	uint16_t sport;
	uint8_t tclass, ttl;
};

/** Of the next packets of an end whose text matches pattern, times of them: which are lost. */
struct scenario_loss {
	const char *pattern;
	unsigned times; /* 0: no packet of the end is lost any more */
	uint64_t mask;	/* bit i % 64: the i-th of them is lost */
};

/**
 * Where the queue pairs are. Calls return 0 or negative errno values, as the verbs do. What a back
 * end cannot do has no call; start() and input() return -EOPNOTSUPP for values that it cannot do.
 */
struct scenario_backend {
	/** @return a world to be ended, or NULL with *error negative. */
	void *(*start)(const struct scenario_setup *s, int *error);
	void (*end)(void *world);
	/** Attributes of an end that are larger than s has them: a queue may be longer. */
	void (*actual)(void *world, unsigned end, struct scenario_setup *s);
	int (*post_send)(void *world, unsigned end, const struct scenario_request *r);
	int (*post_recv)(void *world, unsigned end, const struct scenario_request *r);
	/** To a state, with the attributes of s that it needs, and those of mask (IBV_QP_*). */
	int (*modify)(void *world, unsigned end, enum ibv_qp_state to,
		      const struct scenario_setup *s, int mask);
	/** This line is carried out now. NULL: that is of no interest. */
	void (*line)(void *world, const struct scenario_line *l);
	/** A packet comes to the first end, which is alone. */
	int (*input)(void *world, const struct scenario_packet *p);
	/** Why the last input() returned -EOPNOTSUPP: a sentence, or NULL. */
	const char *(*why_not)(void *world);
	/** The first end sends n packets at most. */
	void (*output)(void *world, unsigned n);
	/** Time goes on, and what is due happens. UINT64_MAX: a pair, until nothing is left to. */
	void (*wait)(void *world, uint64_t ns);
	/** A pair: time goes on until what an end did since the last look matches. @return false:
	 * it never does. */
	bool (*until)(void *world, unsigned end, const char *pattern);
	/** @return when the next timer of the first end runs out, from now; or false: none runs. */
	bool (*deadline)(void *world, uint64_t *ns);
	/**
	 * What an end did since the last call, as soon as that is n effects, or no more will come.
	 * Valid until the next.
	 */
	const char *(*effects)(void *world, unsigned end, unsigned n);
	/**
	 * Real time: wait until what came to an end has been looked at there, and what comes of it
	 * at once has left. effects() have no packets that were not taken then, and no "sol".
	 * NULL: it is so at once.
	 */
	int (*settle)(void *world);
	/**
	 * The completions of an end since the last look, when there are n, or no more will come.
	 * What packets there were is forgotten. Valid until the next call.
	 */
	const char *(*completions)(void *world, unsigned end, unsigned n);
	/**
	 * The asynchronous events of an end since the last look, when there are n, or no more will
	 * come: "QP_REQ_ERR; CQ_ERR". Valid until the next call.
	 */
	const char *(*events)(void *world, unsigned end, unsigned n);
	int (*lose)(void *world, unsigned end, const struct scenario_loss *l);
	enum ibv_qp_state (*state)(void *world, unsigned end);
	/** A counter by its name. @return false: there is none. */
	bool (*counter)(void *world, unsigned end, const char *name, uint64_t *value);
	/** A value of a QP's report by its name, as text. @return false: there is none. */
	bool (*report)(void *world, unsigned end, const char *name, char *text, size_t size);
	/** Take the next reason that an end gave (rocemu/why.h). @return false: there is none. */
	bool (*next_why)(void *world, unsigned end);
	/** A value of the reason that was taken last, as report(). */
	bool (*why)(void *world, unsigned end, const char *name, char *text, size_t size);
	/**
	 * vendor_err of an end's first completion that failed and was not flushed; 0: there was
	 * none. @return false: the device is not of rocemu, and the value means nothing.
	 */
	bool (*vendor_err)(void *world, unsigned end, uint32_t *value);
	/** The address that a place has in packets. */
	uint64_t (*address)(void *world, const struct scenario_place *p);
	/** The last packet that an end sent, without its payload; NULL: there was none. */
	const struct rocemu_packet *(*last)(void *world, unsigned end);
	/** Of its IP and UDP headers; NULL: nothing is known of them. */
	void (*last_ip)(void *world, struct scenario_ip *ip);
	/** SCENARIO_AREA bytes; of SCENARIO_LAST: ROCEMU_MAX_MTU. */
	uint8_t *(*memory)(void *world, unsigned end, enum scenario_area area);
	/**
	 * What memory() returns is a copy. Bring len bytes of it up to date, or, if they were
	 * changed, the memory itself.
	 */
	void (*copy)(void *world, unsigned end, enum scenario_area area, uint64_t offset,
		     uint64_t len, bool changed);
	int (*dereg)(void *world, unsigned end, enum scenario_area area);
	/**
	 * Register an area once more, and use the keys of that from now on. access: IBV_ACCESS_*,
	 * or negative: as at first. other_pd: in a protection domain that is not the QP's.
	 */
	int (*reg)(void *world, unsigned end, enum scenario_area area, int access, bool other_pd);
	/** The R_Key of an area, or its L_Key. */
	uint32_t (*key)(void *world, unsigned end, enum scenario_area area, bool remote);
	/** A new memory window, which the end has from now on, of type 1 or 2; 0: free the one it
	 * has. */
	int (*mw)(void *world, unsigned end, unsigned type, bool other_pd);
	/** The R_Key of the window. @return false: there is none. */
	bool (*mw_key)(void *world, unsigned end, uint32_t *rkey);
	/** The next completion of an end, or the next solicited one, raises an event. */
	int (*arm)(void *world, unsigned end, bool solicited);
	/** The number of an end's QP. */
	uint32_t (*qpn)(void *world, unsigned end);
	int (*srq)(void *world, unsigned end, const struct scenario_srq *c);
	/** The XRC SRQ number of one, from 1 on. @return false: it was never made. */
	bool (*srq_number)(void *world, unsigned end, unsigned which, uint32_t *srqn);
	int (*destroy_qp)(void *world, unsigned end);
	/** Is there an event of the completion queue of the receives; or, wait: does one come? It
	 * is taken. */
	bool (*cq_event)(void *world, unsigned end, bool wait);
	/**
	 * From now on the peer acknowledges the requests that come to it, and they are not among
	 * the effects. repeats: only those that come once more.
	 */
	int (*answer)(void *world, bool repeats);
	/** From now on requests that the device repeats are not among the effects; or they are. */
	void (*ignore_repeats)(void *world, bool ignore);
	/**
	 * From the last packet that input() sent to the first that came behind it. What was sent
	 * for settle() and answer() does not count, nor what came for that. @return false: none
	 * came.
	 */
	bool (*latency)(void *world, uint64_t *ns);
	/** The peer's ID of the exchange that a REQ or a SIDR_REQ began last. */
	uint32_t (*comm_id)(void *world);
	/** Between the last two packets that came. @return false: there were fewer. */
	bool (*interval)(void *world, uint64_t *ns);
	/** The process that has the end ends by SIGKILL. */
	int (*kill)(void *world, unsigned end);
};

/* ---- carrying out ---- */

enum scenario_verdict {
	SCENARIO_PASS,
	SCENARIO_FAIL,	 /* something else came of it than the scenario states */
	SCENARIO_ERROR,	 /* the scenario is wrong */
	SCENARIO_CANNOT, /* the back end cannot */
};

enum scenario_measure_kind {
	SCENARIO_TRAIT,	 /* word */
	SCENARIO_TIME,	 /* number, in ns */
	SCENARIO_NUMBER, /* number */
};

/** What a round records. A name may be there several times, in the order of the lines. */
struct scenario_measure {
	enum scenario_measure_kind kind;
	char name[32];
	char word[32];
	uint64_t number;
};

struct scenario_result {
	enum scenario_verdict verdict;
	struct scenario_error error; /* but for SCENARIO_PASS */
	char values[256];	     /* of the "with" lines: "LEN=4 OP=SEND_ONLY"; or "" */
	struct scenario_measure measure[SCENARIO_MEASURES];
	unsigned measures;
};

/** Round 0..rounds-1 of a case. log: NULL, or where each line and what came of it are written. */
void scenario_run(const struct scenario *s, unsigned number, unsigned round,
		  const struct scenario_backend *b, FILE *log, struct scenario_result *r);

/** All words of the language, a list a line: "commands: qp pair ...". */
void scenario_print_words(FILE *f);

#endif
