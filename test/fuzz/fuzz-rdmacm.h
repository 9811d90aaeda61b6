/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz-rdmacm: the language of its inputs, and what stands in for the core of rdmacm (agent,
 * thread, devices, QPs: fuzz-rdmacm-core.c).
 *
 * An input is commands, a byte each (modulo FUZZ_RCM_COMMANDS), each followed by its bytes. What
 * the input does not have is 0. A slot is one of the IDs that the program has, listeners aside.
 */
#ifndef TEST_FUZZ_RDMACM_H
#define TEST_FUZZ_RDMACM_H

#include "rdmacm/id.h"

enum fuzz_rcm_command {
	/* 0..5: a MAD: message (of ROCEMU_CM_MESSAGES, modulo), slot whose IDs it carries, service,
	 * a, family and header, how many bytes of private data are changed: places, bytes */
	FUZZ_RCM_MAD = 0,
	FUZZ_RCM_EVENTS = 6, /* at most so many are taken */
	FUZZ_RCM_CALL,	     /* slot, call, a, length of private data */
	FUZZ_RCM_CONNECT,    /* what */
	FUZZ_RCM_TIME,	     /* how far, as an exponent */
	FUZZ_RCM_QP,	     /* moving QPs fails, or not */
	FUZZ_RCM_COMMANDS,
};

/** A MAD's byte "family and header", bits. */
enum {
	FUZZ_RCM_IPV6 = 1 << 0,		/* comes over IPv6 */
	FUZZ_RCM_HEADER = 1 << 1,	/* begins with the header of annex A11 */
	FUZZ_RCM_OTHER_FAMILY = 1 << 2, /* which is of the other IP version */
	FUZZ_RCM_LIES_SRC = 1 << 3,	/* or names another sender */
	FUZZ_RCM_LIES_DST = 1 << 4,
	FUZZ_RCM_BAD_IDS = 1 << 5,
};

/** Calls of FUZZ_RCM_CALL. */
enum fuzz_rcm_call {
	FUZZ_RCM_ACCEPT,
	FUZZ_RCM_REJECT,
	FUZZ_RCM_DISCONNECT,
	FUZZ_RCM_ESTABLISH,
	FUZZ_RCM_NOTIFY,
	FUZZ_RCM_DESTROY,
	FUZZ_RCM_CALLS,
};

extern const struct rocemu_gid fuzz_own4, fuzz_own6, fuzz_peer4, fuzz_peer6, fuzz_other;

/** The connection manager and time, anew. */
void fuzz_core_start(void);
/** Nothing of it may be left but what time takes away. */
void fuzz_core_end(void);
void fuzz_core_pass(rocemu_ns_t ns);
void fuzz_core_input(const uint8_t mad[ROCEMU_MAD_LEN], const struct cm_addr *addr);
void fuzz_core_fail_qps(bool fail);
/** The device and index of a local address. */
bool fuzz_core_local(const struct rocemu_gid *gid, struct rcm_local *local);
/** What IDs have for a QP. */
struct ibv_qp *fuzz_core_qp(void);

#endif
