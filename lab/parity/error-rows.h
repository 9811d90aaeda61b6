/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that fail: inputs of parity, which compares two devices, and which states to wait for.
 * test/scenario/errors.scenario has all effects of the same requests. Uses nothing but the verbs'
 * header.
 */
#ifndef ERROR_ROWS_H
#define ERROR_ROWS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum err_end { REQ, RSP, ENDS };

enum {
	ERR_QKEY = 0x11111111,
	ERR_NO_KEY = 0x00badbad, /* no region has it */
};

/* Work request IDs: the request that fails, and the receive that it takes. */
enum err_wr { WR_FIRST = 1, WR_RECV = 11 };

struct err_config {
	unsigned access; /* IBV_ACCESS_* of the responder's QP; 0: all */
	uint8_t rnr_retry, retry_cnt;
	bool no_rd_atomic; /* the requester may have no READ or atomic outstanding */
};

/** What is wrong with the request. */
enum err_fault {
	FAULT_NONE,
	FAULT_LKEY,	    /* the local key is unknown */
	FAULT_LOCAL_BOUNDS, /* local memory ends before the message */
	FAULT_LOCAL_RIGHT,  /* the local region may not be written to */
	FAULT_RKEY,	    /* also of a key to invalidate */
	FAULT_REMOTE_BOUNDS,
	FAULT_REMOTE_BEFORE, /* it begins before the region */
	FAULT_REMOTE_WRAPS,
	FAULT_UNALIGNED,
	FAULT_REGION_RIGHT, /* the remote region allows all but this */
	FAULT_REGION_PD,    /* the remote region is in another PD */
	FAULT_REGION_GONE,  /* deregistered */
	FAULT_QKEY,
	FAULT_QPN, /* no such QP */
};

struct err_row {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode opcode;
	uint32_t len;
	unsigned flags;
	enum err_fault fault;
	struct err_config config; /* retries: 0 is the default */
	bool with_recv;		  /* WR_RECV is posted */
	uint32_t recv_len;
	bool recv_lkey_bad;
	enum ibv_qp_state state[ENDS]; /* unless the request is refused when it is posted */
};

extern const struct err_row err_rows[];
extern const unsigned err_nrows;

struct err_region {
	uint64_t addr, len;
	uint32_t lkey, rkey;
	void *handle; /* the runner's */
};

/** Does the row take a region of its own, of which end, and with which rights? FAULT_REGION_PD: in
 *  another PD; FAULT_REGION_GONE: deregistered before the request is posted. */
bool err_row_region(const struct err_row *row, enum err_end *end, unsigned *access);

/**
 * The row's request, signaled, with its fault. On UD the caller adds the address handle.
 * @param local, remote  each end's region: the row's own, or a good one
 * @param qpn            the responder's (UD)
 * @param sge            written; the request refers to it
 */
struct ibv_send_wr err_row_wr(const struct err_row *row, const struct err_region *local,
			      const struct err_region *remote, uint32_t qpn, struct ibv_sge *sge);

#endif
