/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides which rules match a packet and what they do to it. No I/O here: a rule is text (rule.c),
 * the packets of a lane are put to the rules one by one (fault.c), and the lane acts on the verdict
 * (lane-impair.c).
 *
 * A packet is put to all rules in the order in which they are written, and all that act on it do
 * so; of a dropped packet nothing else is done. Each rule has dice of its own, seeded by the
 * impairment's seed and its place in the text.
 */
#ifndef FAULT_FAULT_H
#define FAULT_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/wire.h>

#include "base/rng.h"
#include "fault/parse.h"

enum {
	FAULT_RULES = 64,	  /* of a text */
	FAULT_RULE_TEXT_LEN = 96, /* of a rule as it is shown, with the NUL */
	FAULT_BITS = 4,		  /* corrupted in one packet by rules, at most */
};

#define FAULT_MAX_DELAY_NS 10000000000u /* 10 s */

/* clang-format off */
#define FAULT_ACTIONS(X)         \
	X(DROP,    "drop")       \
	X(DUP,     "dup")        \
	X(DELAY,   "delay")      \
	X(CORRUPT, "corrupt")    \
	X(MARK,    "mark")
/* clang-format on */

enum fault_action {
#define X(name, text) FAULT_##name,
	FAULT_ACTIONS(X)
#undef X
		FAULT_ACTION_COUNT
};

enum fault_dir {
	FAULT_TX,
	FAULT_RX,
};

/** The places of a packet that a rule can corrupt; fault_field_find() and fault_field_place() have
 * the table. */
enum {
	FAULT_FIELD_ANY = -1, /* a bit anywhere before the ICRC */
	FAULT_FIELD_BIT = -2, /* the bit given by the rule's "bit" */
};

struct fault_rule {
	enum fault_action action;
	enum fault_dir dir;
	char text[FAULT_RULE_TEXT_LEN]; /* as written, truncated if too long */
	/* what is done */
	struct fault_range time; /* delay, ns */
	int field;		 /* corrupt */
	uint32_t bit;
	bool icrc_right; /* computed anew behind the corruption */
	/* which packets match */
	uint64_t opcodes[4]; /* a bit for each opcode */
	struct fault_range qp, dqp, psn;
	struct fault_range payload; /* bytes */
	struct fault_range message; /* min 0: any */
	bool by_peer;
	struct rocemu_gid peer;
	bool first; /* of each QP */
	/* which of these the rule acts on; counted from 1 */
	struct fault_range nth;
	uint64_t every, times;
	double chance;
};

/** Is this word the action of a rule by packet? */
bool fault_rule_is_action(const char *word);

/** "drop, dup, ...", for messages. */
#define FAULT_ACTION_NAMES "drop, dup, delay, corrupt, mark"

/**
 * A rule from the item that was read last, whose first word is an action.
 * @return 0, or -EINVAL with *e.
 */
int fault_rule_parse(struct fault_rule *rule, const struct fault_reader *r,
		     const struct fault_item *item, struct fault_error *e);

/** A packet as rules see it. Borrowed for the call. */
struct fault_packet {
	enum fault_dir dir;
	uint32_t qp; /* the QP on this side */
	const struct rocemu_gid *peer;
	const uint8_t *hdr; /* at least the BTH */
	uint32_t len;	    /* of all, BTH to ICRC */
};

/** What happens to a packet by rules. */
struct fault_verdict {
	uint64_t matched, acted; /* a bit for each rule */
	bool drop, mark;
	unsigned dups; /* further copies */
	uint64_t delay_ns;
	/* Bits to be flipped, counted from the first one of the BTH: before the ICRC is computed
	 * anew; after it. */
	unsigned nsealed, nraw;
	uint32_t sealed[FAULT_BITS], raw[FAULT_BITS];
};

/** A lane's rules and their counters. The owner does the locking. */
struct faults;

/** rules are copied. @return NULL: no memory. */
struct faults *faults_new(const struct fault_rule *rules, unsigned n, uint64_t seed);
void faults_free(struct faults *f);

/** Does any rule need to see packets of this direction? */
bool faults_wants(const struct faults *f, enum fault_dir dir);

/** Put the next packet to the rules. */
void faults_decide(struct faults *f, const struct fault_packet *p, struct fault_verdict *v);

/** The number of a field, or -1. */
int fault_field_find(const char *name);
/** "psn, payload, ...": all names. */
const char *fault_field_names(void);
/** Where a field is in a packet, in bits from the BTH's first. @return false: the packet has no
 * such field. */
bool fault_field_place(int field, const uint8_t *hdr, uint32_t len, uint32_t *first,
		       uint32_t *bits);

/** Flip a bit of a packet. */
static inline void fault_flip(uint8_t *packet, uint32_t bit)
{
	packet[bit / 8] ^= (uint8_t)(0x80u >> bit % 8);
}

#endif
