/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queue: a ring of work requests. Posting (qp.c) fills entries and moves head; the requester
 * (req.c) moves next over the entries whose packets were made for the first time; the completer
 * moves tail over those that are done. All three are free running: tail <= next <= head.
 */
#ifndef TRANSPORT_SQ_H
#define TRANSPORT_SQ_H

#include "transport/ep.h"
#include "transport/mw.h"

struct swqe {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned flags;	 /* IBV_SEND_* */
	uint32_t length; /* bytes of message, READ: to fetch */
	uint32_t nsge;
	uint32_t imm; /* as rocemu_hdrs.imm; or the R_Key to invalidate */
	uint32_t rkey;
	uint32_t srqn;		  /* XRC: the remote SRQ's number */
	enum ibv_wc_status fault; /* ends like this instead of being begun; else IBV_WC_SUCCESS */
	uint64_t remote_addr;
	union {
		struct {
			uint64_t compare_add, swap;
		};
		uint32_t flush_len; /* FLUSH: bytes of the range; imm: contents of its header */
	};
	union {
		struct { /* UD */
			uint32_t dqpn;
			uint32_t qkey;
			struct rocemu_path path;
		};
		struct mw_bind bind; /* IBV_WR_BIND_MW */
	};
	/* The requester's, from when the request is begun: its packets have PSNs first_psn ..
	 * first_psn + npkts - 1; for a READ these are the PSNs of the responses. npkts 0: a local
	 * request, which was executed. */
	uint32_t first_psn;
	uint32_t npkts;
};

struct sq {
	struct swqe *wqes;    /* owned, mask + 1 */
	struct ibv_sge *sges; /* owned, (mask + 1) * max_sge */
	uint8_t *inl;	      /* owned, (mask + 1) * max_inline, or NULL */
	uint32_t mask;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t head, next, tail;
};

static inline struct swqe *sq_wqe(const struct sq *sq, uint32_t i)
{
	return &sq->wqes[i & sq->mask];
}

static inline struct ibv_sge *sq_sges(const struct sq *sq, uint32_t i)
{
	return &sq->sges[(size_t)(i & sq->mask) * sq->max_sge];
}

static inline uint8_t *sq_inline(const struct sq *sq, uint32_t i)
{
	return &sq->inl[(size_t)(i & sq->mask) * sq->max_inline];
}

int sq_init(struct sq *sq, uint32_t max_wr, uint32_t max_sge, uint32_t max_inline);
void sq_fini(struct sq *sq);

/**
 * The payload bytes [off, off+len) of entry i as iovecs, from its inline copy or its SGEs.
 * @return number of iovecs, or -EFAULT: a local key, bound or right does not hold
 * (IBV_WC_LOC_PROT_ERR).
 */
int sq_payload(const struct rocemu_qp *qp, uint32_t i, uint32_t off, uint32_t len,
	       struct iovec *iov);

#endif
