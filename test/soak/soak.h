/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soak: two processes that keep several RC queue pairs busy in both directions with SEND, WRITE
 * that is read back, READ, and atomics, and compare every byte. A program of plain libibverbs.
 */
#ifndef TEST_SOAK_H
#define TEST_SOAK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SOAK_MAX_QPS = 64,
	SOAK_SLOTS = 8,	    /* operations in flight per QP */
	SOAK_RECVS = 16,    /* receives posted per QP */
	SOAK_LEN = 1 << 16, /* bytes of an operation, at most */
	SOAK_GUARD = 4096,  /* guard bytes on either side of the memory */
	SOAK_GUARD_BYTE = 0xa5,
};

struct soak_opts {
	const char *host; /* NULL: the server */
	const char *device;
	unsigned port, qps, seconds, rounds, timeout;
	uint64_t seed;
	bool survive; /* a peer that fails is no error: its requests have to complete */
};

/** What one side sends the other before QPs are connected. */
struct soak_hello {
	uint32_t qps, timeout;
	uint32_t rkey;
	uint32_t qpn[SOAK_MAX_QPS];
	uint64_t addr; /* of struct soak_qp_mem [qps] */
	union ibv_gid gid;
	uint8_t mtu;
};

/** When a side has stopped and all that it sent is acknowledged. */
struct soak_bye {
	uint64_t sends[SOAK_MAX_QPS], adds[SOAK_MAX_QPS], word[SOAK_MAX_QPS];
};

/** The registered memory of a QP. */
struct soak_qp_mem {
	uint64_t counter, word; /* the peer's FETCH_ADDs and CMP_SWPs act on them */
	uint64_t result[SOAK_SLOTS];
	uint8_t target[SOAK_SLOTS][SOAK_LEN]; /* the peer WRITEs here */
	uint8_t source[SOAK_SLOTS][SOAK_LEN];
	uint8_t back[SOAK_SLOTS][SOAK_LEN]; /* READ from the peer's target */
	uint8_t recv[SOAK_RECVS][SOAK_LEN];
};

/** Prints "soak: ..." to stderr and exits with 1. */
_Noreturn void soak_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** A listening TCP socket on any address. */
int soak_listen(unsigned port);
/** Connect to the server. */
int soak_dial(const char *host, unsigned port);
/** The same number of bytes each way. @return false: the peer has closed. */
bool soak_swap(int sock, const void *mine, void *theirs, size_t len);
/** QP to RTS. */
void soak_connect_qp(struct ibv_qp *qp, const struct soak_hello *peer, uint32_t dest,
		     enum ibv_mtu mtu);
struct ibv_context *soak_open(const char *name);

/** len bytes that follow from seed. */
void soak_fill(uint8_t *p, size_t len, uint64_t seed);
/** @return the first byte that is not what soak_fill() wrote, or -1. */
long soak_compare(const uint8_t *p, size_t len, uint64_t seed);

#endif
