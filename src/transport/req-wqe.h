/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Maps a begun send queue entry to packets: pkt is a packet's number in its message, below npkts. A
 * READ's packets are its responses; several READ requests fetch them, each 2^read_shift of them at
 * most.
 */
#ifndef TRANSPORT_REQ_WQE_H
#define TRANSPORT_REQ_WQE_H

#include "base/util.h"
#include "transport/peer.h"
#include "transport/qp.h"

static inline bool swqe_is_atomic(const struct swqe *w)
{
	return w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/** READ or atomic: its response is placed in memory. */
static inline bool swqe_is_read(const struct swqe *w)
{
	return w->opcode == IBV_WR_RDMA_READ || swqe_is_atomic(w);
}

/** Those, FLUSH and ATOMIC WRITE: it has a response of its own, which no ACK replaces. */
static inline bool swqe_expects_response(const struct swqe *w)
{
	return swqe_is_read(w) || (int)w->opcode == ROCEMU_WR_FLUSH ||
	       (int)w->opcode == ROCEMU_WR_ATOMIC_WRITE;
}

static inline bool swqe_is_send(const struct swqe *w)
{
	return w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM ||
	       w->opcode == IBV_WR_SEND_WITH_INV;
}

/** Executed by the requester alone: it makes no packet. */
static inline bool swqe_is_local(const struct swqe *w)
{
	return w->opcode == IBV_WR_BIND_MW || w->opcode == IBV_WR_LOCAL_INV;
}

/**
 * The first entry from i on that is not a local request that was executed. Those wait only to
 * complete in their turn; acked_psn and send_psn never lie in one.
 */
static inline uint32_t swqe_skip_local(const struct sq *sq, uint32_t i)
{
	while (i != sq->next && swqe_is_local(sq_wqe(sq, i)))
		i++;
	return i;
}

/** Packets that the entry takes; also before it is begun. Zero length takes one. */
static inline uint32_t swqe_count(const struct qp_req *req, const struct swqe *w)
{
	if (swqe_is_local(w))
		return 0;
	return w->length ? ((w->length - 1) >> req->mtu_shift) + 1 : 1;
}

static inline uint32_t swqe_pkt(const struct swqe *w, uint32_t psn)
{
	return (psn - w->first_psn) & ROCEMU_PSN_MASK;
}

/** Payload bytes of packets [from, to) of npkts. */
static inline uint32_t swqe_bytes(const struct qp_req *req, const struct swqe *w, uint32_t npkts,
				  uint32_t from, uint32_t to)
{
	/* to == npkts is at most 2^31 bytes of message and a packet, so it fits. */
	return (to == npkts ? w->length : to << req->mtu_shift) - (from << req->mtu_shift);
}

/** What packets [from, to) of npkts, from < to, are charged to the peer's window. */
static inline uint64_t swqe_cost(const struct qp_req *req, const struct swqe *w, uint32_t npkts,
				 uint32_t from, uint32_t to)
{
	if (to < npkts)
		return (uint64_t)(to - from) * req->full_cost;
	return (uint64_t)(to - from - 1) * req->full_cost +
	       peer_cost(swqe_bytes(req, w, npkts, npkts - 1, npkts));
}

/** What a message of several packets is charged, about: before it is cut into packets. */
static inline uint64_t swqe_whole_cost(const struct qp_req *req, const struct swqe *w)
{
	return (uint64_t)(w->length >> req->mtu_shift) * req->full_cost;
}

/**
 * READ: where the request that covers pkt ends. Fixed for an entry, because a responder takes a
 * repeated READ only for a part of the one it saw first (IBTA 9.7.1.2).
 */
static inline uint32_t swqe_read_end(const struct qp_req *req, uint32_t npkts, uint32_t pkt)
{
	return MIN((pkt | ((1u << req->read_shift) - 1)) + 1, npkts);
}

/** Fetches: the number of requests whose last response lies in [from, to). */
static inline uint32_t swqe_fetches_ended(const struct qp_req *req, const struct swqe *w,
					  uint32_t from, uint32_t to)
{
	uint32_t n = (to >> req->read_shift) - (from >> req->read_shift);

	return n + (to == w->npkts && w->npkts & ((1u << req->read_shift) - 1));
}

#endif
