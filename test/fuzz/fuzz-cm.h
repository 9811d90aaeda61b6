/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The language of fuzz-cm's inputs: one byte of options (bit 0: exit MADs, bit 1: LAP events), then
 * commands, a byte each (modulo FUZZ_CM_COMMANDS), each followed by its bytes. What the input does
 * not have is 0. A slot is one of the connections (or SIDRs) that the consumer has.
 */
#ifndef TEST_FUZZ_CM_H
#define TEST_FUZZ_CM_H

enum fuzz_cm_command {
	/* 0..7: a MAD: message (of ROCEMU_CM_MESSAGES, modulo), slot whose IDs it carries, odd,
	 * a, b, c: fields of the message */
	FUZZ_CM_MAD = 0,
	FUZZ_CM_AGAIN =
		8,	 /* the MAD before, once more; with this byte at that place: place, byte */
	FUZZ_CM_RAW,	 /* length, bytes */
	FUZZ_CM_ECHO,	 /* what was sent last comes back, as if the peer had sent it */
	FUZZ_CM_LISTEN,	 /* slot of listeners (taken: unlisten), what */
	FUZZ_CM_CONNECT, /* service, peer to peer */
	FUZZ_CM_CALL,	 /* slot, call, a, length of private data */
	FUZZ_CM_SIDR,	 /* slot, call */
	FUZZ_CM_OUTPUT,	 /* at most so many */
	FUZZ_CM_EVENTS,	 /* at most so many */
	FUZZ_CM_TIME,	 /* how far, as an exponent */
	FUZZ_CM_COMMANDS,
};

/** A MAD's byte "odd", bits: what is not as a correct peer would have it. */
enum {
	FUZZ_CM_BAD_LOCAL_ID = 1 << 0,
	FUZZ_CM_BAD_REMOTE_ID = 1 << 1,
	FUZZ_CM_BAD_ADDRESS = 1 << 2,
	FUZZ_CM_BAD_QPN = 1 << 3,
	FUZZ_CM_NO_REMOTE_ID = 1 << 4,
	FUZZ_CM_BAD_VERSION = 1 << 5,
	FUZZ_CM_BAD_TID = 1 << 6,
};

/** Calls of FUZZ_CM_CALL. */
enum fuzz_cm_call {
	FUZZ_CM_ACCEPT,
	FUZZ_CM_RTU,
	FUZZ_CM_REJECT,
	FUZZ_CM_MRA,
	FUZZ_CM_DISCONNECT,
	FUZZ_CM_DREP,
	FUZZ_CM_LAP,
	FUZZ_CM_APR,
	FUZZ_CM_ESTABLISH,
	FUZZ_CM_DESTROY,
	FUZZ_CM_CALLS,
};

#endif
