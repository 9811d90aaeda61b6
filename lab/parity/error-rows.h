/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The errors table: a row for each request that fails, with its effects at both ends. Two programs
 * run the rows: test/errors (the simulator, and any two devices: all effects), and parity (two
 * devices beside each other: the rows are inputs, and which states to wait for). Uses nothing but
 * the verbs' header.
 */
#ifndef ERROR_ROWS_H
#define ERROR_ROWS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum err_end { REQ, RSP, ENDS };

enum {
	ERR_NONE = -1, /* as a status: there is no such completion */
	ERR_QKEY = 0x11111111,
	ERR_NO_KEY = 0x00badbad, /* no region has it */
};

/* Work request IDs: the request that fails, the one behind it, and receives. */
enum err_wr { WR_FIRST = 1, WR_BEHIND = 2, WR_RECV = 11, WR_RECV_BEHIND = 12, WR_RECV_REQ = 21 };

/** AETH syndromes (IBTA 9.7.5.2). */
enum {
	ERR_NAK_RNR = 0x20, /* and the timer's code */
	ERR_NAK_INV_REQ = 0x61,
	ERR_NAK_REM_ACCESS = 0x62,
	ERR_NAK_REM_OP = 0x63,
};

struct err_config {
	enum ibv_qp_type type;
	unsigned access; /* IBV_ACCESS_* of the responder's QP; 0: all */
	uint8_t rnr_retry, retry_cnt;
	unsigned cqe;	    /* of the responder's CQ; 0: plenty */
	bool srq;	    /* the responder receives from one */
	bool stay_rtr;	    /* the responder is left in RTR */
	bool no_rd_atomic;  /* the requester may have no READ or atomic outstanding */
	uint32_t loss_mask; /* simulator only: which of the first packets are lost */
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

struct err_ends {
	int first, behind;     /* completions of the requester: ibv_wc_status or ERR_NONE */
	int recv_req;	       /* its receive */
	int recv, recv_behind; /* the responder's receives */
	uint8_t nak;	       /* AETH syndrome in vendor_err; 0: none */
	enum ibv_qp_state state[ENDS];
	uint32_t events[ENDS];
};

struct err_bench;

struct err_row {
	const char *name;
	const char *how; /* for the docs */
	enum ibv_qp_type type;
	enum ibv_wr_opcode opcode;
	uint32_t len;
	unsigned flags;
	enum err_fault fault;
	struct err_config config; /* type, retries: 0 is the default */
	bool with_recv;		  /* WR_RECV is posted */
	uint32_t recv_len;
	bool recv_lkey_bad;
	bool no_recv_behind; /* WR_RECV_BEHIND is not */
	bool behind_passes;  /* the request behind may have reached the peer by then */
	int err;	     /* refused when posted; then the rest does not apply */
	struct err_ends want;
	/**
	 * Used instead of one request (test/errors only): executes its own steps, then the state of
	 * the ends is compared with want. Returns an error text, or NULL.
	 */
	const char *(*body)(struct err_bench *b, const struct err_row *row);
	bool sim_only; /* takes a peer that does wrong */
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
