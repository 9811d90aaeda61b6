/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conform-peer at the device (peer/conform-peer.c has the protocol): a connection, the lines that
 * are sent, and what the answers have. An answer is hostile until it is read.
 */
#ifndef CONFORM_REMOTE_H
#define CONFORM_REMOTE_H

#include "scenario/scenario.h"

enum {
	REMOTE_LINE = 36 << 10, /* bytes of an answer */
	REMOTE_COPY = 16 << 10, /* bytes of memory in a line */
	REMOTE_PIECES = 256,
};

/** A queue pair at the device. */
struct remote {
	int fd;
	size_t got; /* bytes in answer[] */
	size_t len; /* of them, the last answer with its zero */
	char answer[REMOTE_LINE];
	struct rocemu_gid gid;
	bool atomics; /* the device has them */
	uint32_t qpn, mw_rkey;
	uint64_t va[SCENARIO_AREAS];
	uint32_t lkey[SCENARIO_AREAS], rkey[SCENARIO_AREAS];
	uint64_t sends, recvs; /* posted */
	enum ibv_qp_state state;
	bool has_probe;
	bool seen_error, told_error; /* that the state is ERR */
	bool datagrams;		     /* of UD, so completions have a GRH */
	/* What came, and was not looked at. */
	char packets[SCENARIO_EFFECTS_MAX], completions[SCENARIO_EFFECTS_MAX],
		events[SCENARIO_EFFECTS_MAX];
	uint8_t memory[SCENARIO_AREAS][SCENARIO_AREA]; /* as it was when it was read */
};

/* ---- remote.c: lines ---- */

/** @return 0 or a negative errno value. */
int remote_open(struct remote *r, const struct rocemu_gid *host, uint16_t port);
void remote_close(struct remote *r);
/**
 * Send a line, and wait for the answer.
 * @return 0, or a negative errno value: the connection's or that of an answer "error". The answer's
 * text is in r->answer.
 */
int remote_ask(struct remote *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- remote-lines.c: parts of lines ---- */

extern const char *const remote_area[SCENARIO_AREAS];

/** The attributes of mask, as parameters behind what line has. */
void remote_add_attributes(char *line, size_t size, const struct ibv_qp_attr *a, int mask);
/** " sge=PIECES"; false: a piece is in no area. */
bool remote_add_pieces(char line[REMOTE_PIECES], const struct scenario_request *q);
/** NULL: conform-peer has no such operation. */
const char *remote_op_name(enum ibv_wr_opcode op);

/* ---- remote-read.c: answers ---- */

/** Of "NAME=NUMBER" in text. @return false: there is none. */
bool remote_number(const char *text, const char *name, uint64_t *value);
/** Of "NAME=HEX": up to max bytes. @return how many; -1: there are none. */
int remote_bytes(const char *text, const char *name, uint8_t *to, unsigned max);
/** The answers of "hello", of "qp", of "look". @return false: it is none. */
bool remote_read_hello(struct remote *r, const char *text);
bool remote_read_qp(struct remote *r, const char *text, struct scenario_setup *setup);
bool remote_read_look(struct remote *r, const char *text);
/** Add to a list of effects. */
void remote_add(char list[SCENARIO_EFFECTS_MAX], const char *text);
unsigned remote_count(const char *list);

#endif
