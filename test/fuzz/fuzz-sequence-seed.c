/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-sequence starts from: correct peers on a good and on a bad network, and hostile ones.
 */
#include "fuzz-sequence.h"

#include "driver.h"

/* clang-format off */
#define OUT SEQ_OUTPUT, 63, 3
#define SEND(q, len) SEQ_COMPOSE, q, SEQ_SEND, len
#define WRITE(q, len) SEQ_COMPOSE, q, SEQ_WRITE + 10, len
#define IMM(q, len) SEQ_COMPOSE, q, SEQ_WRITE_IMM, len
#define READ(q, len) SEQ_COMPOSE, q, SEQ_READ, len
#define ADD(q) SEQ_COMPOSE, q, SEQ_ADD, 8
#define RECV(q) SEQ_RECV, q, 8
#define POST(q, kind, len) SEQ_POST, q, kind, len
#define LATER SEQ_TIME, 200

static const uint8_t in_order[] = {
	RECV(0), SEND(0, 200), WRITE(0, 255), READ(0, 250), ADD(0), IMM(0, 90), ADD(0), SEND(0, 0),
	SEQ_RUN, 0, 0, 63, 0, OUT, SEQ_RUN, 0, 0, 63, 0, OUT,
};
/* The first is lost, what follows comes; then the gap is filled. Older ones come again. */
static const uint8_t gaps[] = {
	RECV(0), WRITE(0, 255), WRITE(0, 255), ADD(0), SEND(0, 200), WRITE(0, 200), SEQ_RUN, 0, 1, 20, 0, OUT,
	SEQ_DELIVER, 0, 0, OUT, SEQ_RUN, 0, 0, 40, 0x24, OUT, SEQ_DELIVER, 0, 201, SEQ_DELIVER, 0, 203, OUT,
	SEQ_RUN, 0, 0, 40, 0x11, OUT, READ(0, 255), READ(0, 100), SEQ_DELIVER, 0, 1, SEQ_DELIVER, 0, 0, OUT,
};
static const uint8_t no_receive[] = {
	SEND(0, 200), SEND(0, 20), SEQ_RUN, 0, 0, 9, 0, OUT, RECV(0), SEQ_RUN, 0, 0, 9, 0, OUT,
};
static const uint8_t unreliable[] = {
	RECV(1), SEND(1, 200), SEND(1, 255), WRITE(1, 255), IMM(1, 30), SEQ_RUN, 1, 0, 9, 4, SEQ_DELIVER, 1, 0,
	SEQ_DELIVER, 1, 9, OUT,
};
static const uint8_t xrc[] = {
	RECV(2), SEND(2, 200), WRITE(2, 255), READ(2, 250), ADD(2), SEQ_RUN, 2, 1, 20, 0, OUT, SEQ_RUN, 2, 0, 20, 0, OUT,
	POST(3, SEQ_SEND, 255), POST(3, SEQ_READ, 255), OUT, SEQ_ANSWER_ALL, 3, OUT,
};
static const uint8_t requests[] = {
	POST(0, SEQ_SEND, 255), POST(0, SEQ_WRITE, 200), POST(0, SEQ_READ, 255), POST(0, SEQ_ADD, 8), POST(0, SEQ_SEND, 3), OUT,
	SEQ_ANSWER, 0, SEQ_ACCEPT, 2, SEQ_ANSWER, 0, SEQ_NAK, 0, OUT, SEQ_ANSWER, 0, SEQ_ACCEPT, 1, SEQ_ANSWER, 0, SEQ_ACK, 0,
	OUT, SEQ_ANSWER, 0, SEQ_ACCEPT, 15, SEQ_ANSWER, 0, SEQ_READ_RESPONSE, 1, SEQ_ANSWER, 0, SEQ_READ_RESPONSE, 0,
	LATER, OUT, SEQ_ANSWER, 0, SEQ_ATOMIC_RESPONSE, 0, LATER, OUT, SEQ_ANSWER_ALL, 0,
};
static const uint8_t losses[] = {
	POST(0, SEQ_WRITE, 255), POST(0, SEQ_WRITE, 255), POST(0, SEQ_WRITE, 255), OUT, SEQ_ANSWER, 0, SEQ_ACCEPT, 1,
	SEQ_ANSWER, 0, SEQ_NAK, 0, SEQ_ANSWER, 0, SEQ_NAK, 0, OUT, SEQ_ANSWER, 0, SEQ_ACCEPT, 3, SEQ_ANSWER, 0, SEQ_NAK, 0,
	OUT, SEQ_ANSWER, 0, SEQ_ACK, 0, LATER, OUT, LATER, OUT, SEQ_ANSWER, 0, SEQ_ACCEPT, 15, SEQ_ANSWER, 0, SEQ_ACK, 2,
};
static const uint8_t not_ready[] = {
	POST(0, SEQ_SEND, 255), POST(0, SEQ_READ, 255), OUT, SEQ_ANSWER, 0, SEQ_RNR, 0, OUT, LATER, OUT, SEQ_ANSWER_ALL, 0,
};
static const uint8_t congestion[] = {
	POST(0, SEQ_WRITE, 255), SEQ_CNP, 0, 0, SEQ_CNP, 0, 0, OUT, SEQ_CNP, 0, 20, SEQ_CNP, 1, 0, SEQ_CNP, 0, 7,
	SEQ_ANSWER_ALL, 0, POST(0, SEQ_WRITE, 255), SEQ_CNP, 3, 32, OUT, LATER, OUT, WRITE(0, 255), RECV(0), SEND(0, 9),
	SEQ_RUN, 0, 0, 9, 0, OUT, POST(0, SEQ_READ, 255), OUT, SEQ_ANSWER_ALL, 0, OUT,
};
static const uint8_t hostile[] = {
	POST(0, SEQ_WRITE, 255), OUT, SEQ_BAD_RESPONSE, 0, 0, 20, 0x1f, 0, OUT, SEQ_BAD_RESPONSE, 0, 0, 2, 0x60, 0, OUT, LATER,
	SEQ_BAD_RESPONSE, 0, 2, 255, 0, 128, OUT, SEQ_BAD_REQUEST, 2, 6, 0, 3, 0, 0, OUT, SEQ_REVIVE, 2, SEQ_BAD_REQUEST, 0, 0, 3,
	1, 30, 0, 64, OUT, SEQ_BAD_REQUEST, 0, 12, 0, 1, 0, 7, 64, OUT, SEQ_REVIVE, 0, SEND(0, 9), RECV(0), SEQ_DELIVER, 0, 0, OUT,
};
/* clang-format on */

void fuzz_seed(struct fuzz_corpus *c)
{
	fuzz_corpus_add(c, in_order, sizeof(in_order));
	fuzz_corpus_add(c, gaps, sizeof(gaps));
	fuzz_corpus_add(c, no_receive, sizeof(no_receive));
	fuzz_corpus_add(c, unreliable, sizeof(unreliable));
	fuzz_corpus_add(c, xrc, sizeof(xrc));
	fuzz_corpus_add(c, requests, sizeof(requests));
	fuzz_corpus_add(c, losses, sizeof(losses));
	fuzz_corpus_add(c, not_ready, sizeof(not_ready));
	fuzz_corpus_add(c, congestion, sizeof(congestion));
	fuzz_corpus_add(c, hostile, sizeof(hostile));
}
