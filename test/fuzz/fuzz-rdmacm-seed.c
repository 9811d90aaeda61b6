/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-rdmacm starts from: connections and lookups of each listener, as either side; requests
 * whose header is not as it should be. */
#include "fuzz-rdmacm.h"

#include "driver.h"

/* clang-format off */
/* Messages count in the order of ROCEMU_CM_MESSAGES. */
enum { REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR };
enum { V4 = FUZZ_RCM_HEADER, V6 = FUZZ_RCM_HEADER | FUZZ_RCM_IPV6 };

#define MAD(msg, slot, which, a, how) FUZZ_RCM_MAD, msg, slot, which, a, how, 0
#define POKED(msg, slot, which, how, at, value) FUZZ_RCM_MAD, msg, slot, which, 0, how, 1, at, value
#define CALL(slot, what) FUZZ_RCM_CALL, slot, FUZZ_RCM_##what, 2, 4
#define EVENTS FUZZ_RCM_EVENTS, 9
#define TIME(e) FUZZ_RCM_TIME, e
#define CONNECT(what) FUZZ_RCM_CONNECT, what, 0

static const uint8_t passive[] = {
	MAD(REQ, 0, 0, 4, V4), EVENTS, CALL(0, ACCEPT), MAD(RTU, 0, 0, 0, V4), EVENTS,
	MAD(REQ, 1, 1, 4, V6), MAD(REQ, 2, 1, 4, V4), EVENTS, CALL(1, REJECT), CALL(2, ACCEPT), CALL(2, NOTIFY),
	MAD(REQ, 3, 2, 4, V6), EVENTS, CALL(3, ACCEPT), MAD(RTU, 3, 0, 0, V6), EVENTS,
	CALL(3, DISCONNECT), MAD(DREP, 3, 0, 0, V6), EVENTS, MAD(DREQ, 0, 0, 0, V4), EVENTS,
	CALL(0, DISCONNECT), TIME(34), EVENTS, CALL(0, DESTROY), 0,
};
static const uint8_t active[] = {
	CONNECT(128), MAD(REP, 0, 0, 3, V4), EVENTS, CALL(0, DISCONNECT), MAD(DREP, 0, 0, 0, V4), EVENTS,
	CONNECT(1), MAD(REP, 1, 0, 3, V4), EVENTS, CALL(1, ESTABLISH), MAD(DREQ, 1, 0, 0, V4), EVENTS,
	CONNECT(64 + 2), MAD(REJ, 2, 0, 28, V6), EVENTS, FUZZ_RCM_QP, 1, CONNECT(128), MAD(REP, 3, 0, 3, V4), EVENTS,
	CONNECT(0), TIME(39), EVENTS,
};
static const uint8_t lookups[] = {
	MAD(SIDR_REQ, 0, 3, 0, V4), EVENTS, CALL(0, ACCEPT), MAD(SIDR_REQ, 1, 4, 0, V6), EVENTS, CALL(1, REJECT),
	CONNECT(3), MAD(SIDR_REP, 2, 0, 0, V4), EVENTS, CONNECT(64 + 4), MAD(SIDR_REP, 3, 0, 1, V6), EVENTS,
	CONNECT(3), TIME(39), TIME(39), EVENTS, MAD(SIDR_REQ, 4, 3, 0, 0),
};
static const uint8_t headers[] = {
	/* None; IP version and header version wrong; port 0; the other family; names of others. */
	MAD(REQ, 0, 0, 0, 0), POKED(REQ, 1, 0, V4, 1, 0x50), POKED(REQ, 2, 0, V4, 0, 1), POKED(REQ, 3, 0, V4, 3, 0),
	EVENTS, MAD(REQ, 4, 1, 0, V4 | FUZZ_RCM_OTHER_FAMILY), MAD(REQ, 5, 1, 0, V6 | FUZZ_RCM_OTHER_FAMILY),
	MAD(REQ, 0, 1, 0, V6 | FUZZ_RCM_LIES_SRC), MAD(REQ, 1, 1, 0, V6 | FUZZ_RCM_LIES_DST), EVENTS,
	MAD(SIDR_REQ, 0, 3, 0, V4 | FUZZ_RCM_LIES_SRC), POKED(SIDR_REQ, 1, 3, V4, 1, 0), MAD(REQ, 2, 3, 0, V4),
	MAD(SIDR_REQ, 2, 0, 0, V4), MAD(REQ, 3, 5, 0, V4), EVENTS,
};
static const uint8_t again[] = {
	CONNECT(0), MAD(REP, 0, 0, 3, V4), EVENTS, CALL(0, ESTABLISH), CONNECT(0), MAD(REJ, 1, 0, 64, V4),
	TIME(25), MAD(REJ, 1, 0, 64, V4), CALL(1, DESTROY), CONNECT(128), MAD(REJ, 1, 0, 64, V4), TIME(39), EVENTS,
};
/* clang-format on */

void fuzz_seed(struct fuzz_corpus *c)
{
	fuzz_corpus_add(c, passive, sizeof(passive));
	fuzz_corpus_add(c, active, sizeof(active));
	fuzz_corpus_add(c, lookups, sizeof(lookups));
	fuzz_corpus_add(c, headers, sizeof(headers));
	fuzz_corpus_add(c, again, sizeof(again));
}
