/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-transport starts from: a correct peer's packets of each kind, with what the
 * application does meanwhile. */
#include "fuzz-transport.h"

#include "driver.h"

/* clang-format off */
#define REQUEST(qp, op, dma) FUZZ_REQUEST, qp, op, 0, 1, 100, 16, 0, dma, 7, 0
#define RESPONSE(qp, op) FUZZ_RESPONSE, qp, op, 0, 0, 100, 0, 0, 0, 0x1f, 0
#define SEND(qp, op, len) FUZZ_SEND, qp, op, len, 0
#define UD_SEND(op) FUZZ_SEND, 3, op, 0
#define RECV(qp) FUZZ_RECV, qp, 5
#define BIND(qp, what) FUZZ_SEND, qp, 7, 0, what, 0
#define WINDOW_WRITE(qp) FUZZ_REQUEST, qp, 10, 0, 1, 100, 39, FUZZ_WINDOW + 1, 0, 7, 0
#define OUT FUZZ_OUTPUT, 63
#define LATER FUZZ_TIME, 200

/* Opcodes count among those of their service and direction, from 0, in the order of the table. */
static const uint8_t rc_requests[] = {
	1, RECV(0), RECV(1), RECV(0), REQUEST(0, 4, 0), OUT, REQUEST(1, 5, 0), OUT,
	REQUEST(0, 0, 0), REQUEST(0, 1, 0), REQUEST(0, 2, 0), OUT, REQUEST(0, 6, 20),
	REQUEST(0, 8, 0), OUT, REQUEST(0, 10, 0), OUT, REQUEST(0, 12, 100), OUT,
	REQUEST(0, 13, 0), OUT, REQUEST(0, 14, 0), OUT,
};
static const uint8_t rc_responses[] = {
	0, SEND(0, 0, 30), OUT, RESPONSE(0, 4), SEND(0, 1, 100), OUT, RESPONSE(0, 4),
	SEND(0, 2, 10), OUT, RESPONSE(0, 3), SEND(0, 4, 0), OUT, RESPONSE(0, 5), SEND(1, 1, 50),
	OUT, LATER, OUT, LATER, OUT, LATER, OUT, FUZZ_REVIVE, SEND(1, 2, 120), OUT,
	RESPONSE(1, 0), LATER, OUT,
};
static const uint8_t uc_and_ud[] = {
	0, RECV(2), RECV(3), REQUEST(2, 0, 0), REQUEST(2, 1, 0), REQUEST(2, 2, 0),
	REQUEST(3, 0, 0), REQUEST(3, 1, 0), SEND(2, 0, 100), UD_SEND(0), OUT, REQUEST(2, 6, 50),
	REQUEST(2, 8, 0), RECV(2), REQUEST(2, 11, 0), OUT,
};
/* To the group that the UD QP is in: SEND, another service's, with nothing to receive into. */
#define GROUP(qp, op) FUZZ_REQUEST, qp, op, 0, 8, 100, 0, 0, 0, 7, 0
static const uint8_t mcast[] = {
	0, RECV(3), GROUP(3, 0), GROUP(3, 1), GROUP(2, 0), GROUP(0, 4), RECV(3), FUZZ_STATE, 3, 3,
	GROUP(3, 0), OUT,
};
static const uint8_t states[] = {
	1, SEND(0, 1, 200), FUZZ_STATE, 0, 1, OUT, RESPONSE(0, 4), FUZZ_STATE, 0, 2, OUT,
	FUZZ_STATE, 0, 3, SEND(1, 0, 9), FUZZ_STATE, 1, 0, OUT, FUZZ_STATE, 1, 4, RECV(2),
	FUZZ_STATE, 2, 0, FUZZ_STATE, 3, 3, OUT,
};
/* Type 2 bound, written through, invalidated by the peer, bound, invalidated here; type 1. */
static const uint8_t windows[] = {
	0, RECV(0), BIND(0, 39), OUT, WINDOW_WRITE(0), OUT, REQUEST(0, 16, 0), OUT, BIND(0, 39),
	SEND(0, 0, 30), SEND(0, 8, 0), OUT, RESPONSE(0, 4), BIND(1, 38), BIND(1, 0), OUT,
	BIND(2, 39), OUT, FUZZ_STATE, 2, 3, SEND(0, 9, 10), OUT, WINDOW_WRITE(0), OUT,
};
/* XRC: SENDs and WRITEs to the SRQ, READ, atomics, FLUSH; one of another domain; the SRQ made anew. */
#define XRC(op, dma, srqn) FUZZ_REQUEST, 4, op, 0, 1, 100, 16, 0, dma, 7, srqn, 0
static const uint8_t xrc[] = {
	0, RECV(4), RECV(4), XRC(4, 0, 0), OUT, XRC(0, 0, 0), XRC(1, 0, 0), XRC(2, 0, 0), OUT,
	XRC(10, 0, 0), OUT, XRC(12, 100, 0), OUT, XRC(13, 0, 0), OUT, XRC(17, 0, 0), OUT,
	SEND(5, 0, 30), SEND(5, 2, 10), OUT, RESPONSE(5, 4), FUZZ_STATE, 4, 5, XRC(0, 0, 0),
	FUZZ_STATE, 4, 5, XRC(2, 0, 0), OUT, FUZZ_REVIVE, XRC(4, 0, 255), OUT, FUZZ_REVIVE,
};
/* FLUSH and ATOMIC WRITE, both ways. */
static const uint8_t flush[] = {
	0, REQUEST(0, 17, 20), OUT, REQUEST(0, 18, 0), OUT, SEND(0, 10, 30), OUT, RESPONSE(0, 3),
	SEND(0, 11, 1), OUT, RESPONSE(0, 3), OUT,
};
/* clang-format on */

void fuzz_seed(struct fuzz_corpus *c)
{
	fuzz_corpus_add(c, rc_requests, sizeof(rc_requests));
	fuzz_corpus_add(c, rc_responses, sizeof(rc_responses));
	fuzz_corpus_add(c, uc_and_ud, sizeof(uc_and_ud));
	fuzz_corpus_add(c, mcast, sizeof(mcast));
	fuzz_corpus_add(c, states, sizeof(states));
	fuzz_corpus_add(c, windows, sizeof(windows));
	fuzz_corpus_add(c, xrc, sizeof(xrc));
	fuzz_corpus_add(c, flush, sizeof(flush));
}
