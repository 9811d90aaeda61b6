/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-cm starts from: exchanges with a correct peer, as either side. */
#include "fuzz-cm.h"

#include "driver.h"

/* clang-format off */
/* Messages count in the order of ROCEMU_CM_MESSAGES. */
enum { REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR };

#define MAD(msg, slot, a, b, c) FUZZ_CM_MAD, msg, slot, 0, a, b, c
#define CALL(slot, what) FUZZ_CM_CALL, slot, FUZZ_CM_##what, 1, 4
#define OUT FUZZ_CM_OUTPUT, 9
#define EVENTS FUZZ_CM_EVENTS, 9
#define TIME(e) FUZZ_CM_TIME, e
#define LISTEN FUZZ_CM_LISTEN, 0, 8, FUZZ_CM_LISTEN, 1, 9
#define AGAIN FUZZ_CM_AGAIN, 0, 0

static const uint8_t passive[] = {
	3, LISTEN, MAD(REQ, 0, 0, 0, 20), EVENTS, CALL(0, MRA), OUT, AGAIN, CALL(0, ACCEPT), OUT,
	AGAIN, OUT, MAD(RTU, 0, 0, 0, 0), EVENTS, MAD(LAP, 0, 1, 0, 0), EVENTS, CALL(0, MRA),
	CALL(0, APR), OUT, AGAIN, OUT, MAD(DREQ, 0, 0, 0, 0), EVENTS, CALL(0, DREP), OUT, AGAIN,
	OUT, TIME(33), EVENTS, CALL(0, DESTROY), OUT,
};
static const uint8_t active[] = {
	3, FUZZ_CM_CONNECT, 0, 0xf0, OUT, TIME(33), OUT, MAD(MRA, 0, 0, 12, 0), EVENTS,
	MAD(REP, 0, 0, 0, 0), EVENTS, CALL(0, RTU), OUT, AGAIN, OUT, CALL(0, LAP), OUT,
	MAD(APR, 0, 0, 0, 0), EVENTS, CALL(0, DISCONNECT), OUT, MAD(DREP, 0, 0, 0, 0), EVENTS,
	TIME(33), EVENTS, CALL(0, DESTROY),
};
static const uint8_t rejected[] = {
	1, LISTEN, MAD(REQ, 0, 0, 0, 0), EVENTS, CALL(0, REJECT), OUT, AGAIN, OUT, CALL(0, DESTROY),
	FUZZ_CM_CONNECT, 0, 0, OUT, MAD(REJ, 0, 8, 0, 0), EVENTS, CALL(0, DESTROY),
	FUZZ_CM_CONNECT, 0, 0, OUT, CALL(0, DESTROY), OUT, MAD(REQ, 0, 3, 0, 0), OUT,
	FUZZ_CM_MAD, REQ, 0, FUZZ_CM_BAD_VERSION, 0, 0, 0, OUT, MAD(REQ, 0, 4, 0x80, 0), OUT,
};
static const uint8_t flood[] = {
	0, LISTEN, MAD(REQ, 0, 0, 0, 0), MAD(REQ, 0, 4, 0, 1), MAD(REQ, 0, 8, 0, 2),
	MAD(REQ, 0, 12, 0, 3), MAD(REQ, 0, 16, 0, 4), MAD(REQ, 0, 20, 1, 0), OUT, EVENTS,
	FUZZ_CM_LISTEN, 0, 0, OUT, TIME(39), OUT,
};
static const uint8_t resolution[] = {
	0, LISTEN, MAD(SIDR_REQ, 0, 0, 0, 0), EVENTS, FUZZ_CM_SIDR, 0, 1, OUT, AGAIN, OUT,
	FUZZ_CM_SIDR, 0, 0, FUZZ_CM_SIDR, 0, 0x35, OUT, TIME(36), OUT, MAD(SIDR_REP, 0, 0, 0, 0),
	EVENTS, FUZZ_CM_SIDR, 0, 0, FUZZ_CM_SIDR, 0, 0x21, TIME(34), TIME(34), TIME(34), EVENTS,
};
static const uint8_t peers[] = {
	1, FUZZ_CM_CONNECT, 0, 0xf1, OUT, MAD(REQ, 0, 0, 2, 0), EVENTS, CALL(0, ACCEPT), OUT,
	MAD(RTU, 0, 0, 0, 0), EVENTS, FUZZ_CM_CONNECT, 1, 0xf1, MAD(REQ, 0, 1, 0, 1), OUT, FUZZ_CM_CONNECT, 1, 0xf3,
	OUT, FUZZ_CM_ECHO, OUT,
};
static const uint8_t given_up[] = {
	1, LISTEN, FUZZ_CM_CONNECT, 0, 0x10, OUT, TIME(34), OUT, TIME(34), OUT, EVENTS,
	MAD(REQ, 0, 0, 0, 0x30), EVENTS, CALL(1, ACCEPT), TIME(39), TIME(39), TIME(39), TIME(39),
	EVENTS, OUT, FUZZ_CM_ECHO, FUZZ_CM_RAW, 3, 1, 7, 2,
};
/* clang-format on */

void fuzz_seed(struct fuzz_corpus *c)
{
	fuzz_corpus_add(c, passive, sizeof(passive));
	fuzz_corpus_add(c, active, sizeof(active));
	fuzz_corpus_add(c, rejected, sizeof(rejected));
	fuzz_corpus_add(c, flood, sizeof(flood));
	fuzz_corpus_add(c, resolution, sizeof(resolution));
	fuzz_corpus_add(c, peers, sizeof(peers));
	fuzz_corpus_add(c, given_up, sizeof(given_up));
}
