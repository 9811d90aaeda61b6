/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects of an endpoint that a QP refers to: protection domains, memory regions and windows,
 * completion queues, shared receive queues and XRC domains. Included by <rocemu/endpoint.h>, whose
 * rules on locks, memory and return values hold here too.
 */
#ifndef ROCEMU_OBJECTS_H
#define ROCEMU_OBJECTS_H

#include <infiniband/verbs.h>

#include <rocemu/wire.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Nanoseconds of a monotonic clock of the caller's. ROCEMU_NEVER: no deadline. */
typedef uint64_t rocemu_ns_t;
#define ROCEMU_NEVER UINT64_MAX

enum {
	ROCEMU_MAX_SGE = 16,
	ROCEMU_MAX_INLINE = 512,
	ROCEMU_MAX_WR = 16384,
	ROCEMU_MAX_CQE = 1 << 20,
	ROCEMU_MAX_RD_ATOMIC = 16,
	ROCEMU_MAX_MR = 1 << 20, /* regions and memory windows together */
	ROCEMU_MAX_GID = 64,
	ROCEMU_MAX_MCAST_GROUPS = 128, /* that QPs of one endpoint are attached to */
	ROCEMU_MAX_MCAST_QPS = 1024,   /* attached to one group */
	ROCEMU_QPN_INDEX_BITS = 14,    /* a QPN is slot (10 bits) : index (14 bits) */
	ROCEMU_MAX_QP =
		(1 << ROCEMU_QPN_INDEX_BITS) - 3, /* of an endpoint: see rocemu_ep_set_slot() */
	ROCEMU_OUTPUT_BATCH = 128, /* most descriptors one rocemu_ep_output() call fills */
};
/*
 * FLUSH and ATOMIC WRITE (IBTA annex A19) with the numbers that <infiniband/verbs.h> gives them;
 * versions of it that do not have the names yet lack nothing else for it.
 */
enum {
	ROCEMU_WR_FLUSH = 14,			 /* IBV_WR_FLUSH */
	ROCEMU_WR_ATOMIC_WRITE = 15,		 /* IBV_WR_ATOMIC_WRITE */
	ROCEMU_WC_FLUSH = 8,			 /* IBV_WC_FLUSH */
	ROCEMU_WC_ATOMIC_WRITE = 9,		 /* IBV_WC_ATOMIC_WRITE */
	ROCEMU_ACCESS_FLUSH_GLOBAL = 1 << 8,	 /* IBV_ACCESS_FLUSH_GLOBAL */
	ROCEMU_ACCESS_FLUSH_PERSISTENT = 1 << 9, /* IBV_ACCESS_FLUSH_PERSISTENT */
	/* Placement types, to be or-ed: what was written is visible to all; it outlives the power.
	 */
	ROCEMU_FLUSH_GLOBAL = 1 << 0,
	ROCEMU_FLUSH_PERSISTENT = 1 << 1,
	/* Selectivity levels: a range; all of the region, whatever the range. */
	ROCEMU_FLUSH_RANGE = 0,
	ROCEMU_FLUSH_MR = 1,
	ROCEMU_FETH_LEVEL_SHIFT = 4, /* the header: type | level << 4 */
	ROCEMU_FETH_LEVEL_MASK = 3,
	ROCEMU_FETH_TYPE_MASK = 15,
};
#define ROCEMU_MAX_MSG 0x7fffffffu /* bytes, 2 GiB - 1 */

struct rocemu_ep;
struct rocemu_pd;
struct rocemu_mr;
struct rocemu_mw;
struct rocemu_cq;
struct rocemu_srq;
struct rocemu_xrcd;
struct rocemu_qp;

/* ---- protection domains and memory ---- */

ROCEMU_PUBLIC struct rocemu_pd *rocemu_pd_new(struct rocemu_ep *ep); /* NULL: out of memory */
/** -EBUSY while an MR, memory window, QP or SRQ belongs to it. */
ROCEMU_PUBLIC int rocemu_pd_free(struct rocemu_pd *pd);

/**
 * Register addr[0..length) under the address iova. access: IBV_ACCESS_* bits; remote write and
 * remote atomic need local write (-EINVAL). ROCEMU_ACCESS_FLUSH_PERSISTENT is the caller's word
 * that what is stored there lasts (persistent memory): the endpoint only stores. The memory is
 * borrowed until rocemu_mr_dereg(). With IBV_ACCESS_ON_DEMAND there need be no memory until it is
 * accessed; what is accessed and is not there ends like an access out of bounds. Errors: -EINVAL,
 * -ENOMEM, -EOPNOTSUPP on demand without rocemu_ep_config::page_in.
 */
ROCEMU_PUBLIC int rocemu_mr_reg(struct rocemu_pd *pd, void *addr, size_t length, uint64_t iova,
				int access, struct rocemu_mr **out);
ROCEMU_PUBLIC int
rocemu_mr_dereg(struct rocemu_mr *mr); /* -EBUSY: a memory window is bound to it */
/**
 * Let a region stand for other memory, with other rights or in another PD; all as in
 * rocemu_mr_reg(). The keys stay. Errors, with the region as it was: those of rocemu_mr_reg(),
 * -EBUSY a memory window is bound to it.
 */
ROCEMU_PUBLIC int rocemu_mr_change(struct rocemu_mr *mr, struct rocemu_pd *pd, void *addr,
				   size_t length, uint64_t iova, int access);
/**
 * A region for local use only, at all addresses, that reads as zeros and discards writes. -ENOMEM.
 */
ROCEMU_PUBLIC int rocemu_mr_null_reg(struct rocemu_pd *pd, struct rocemu_mr **out);
ROCEMU_PUBLIC uint32_t rocemu_mr_lkey(const struct rocemu_mr *mr);
ROCEMU_PUBLIC uint32_t rocemu_mr_rkey(const struct rocemu_mr *mr);

/**
 * A memory window, not bound: a key with which a peer may reach a part of a region, from a bind
 * request (IBV_WR_BIND_MW) until it is bound anew, unbound (type 1: bound with length 0),
 * invalidated (type 2: IBV_WR_LOCAL_INV, or the peer's SEND with invalidate), freed, or the QP that
 * bound it (type 2) is destroyed. Type 2 is of kind 2B. Errors: -EINVAL not a type, -ENOMEM.
 */
ROCEMU_PUBLIC int rocemu_mw_new(struct rocemu_pd *pd, enum ibv_mw_type type,
				struct rocemu_mw **out);
/** Free a window, bound or not. */
ROCEMU_PUBLIC void rocemu_mw_free(struct rocemu_mw *mw);
/** The key of the last bind; before the first, the one that the next differs from in its low 8 bits
 * only. */
ROCEMU_PUBLIC uint32_t rocemu_mw_rkey(const struct rocemu_mw *mw);

/* ---- completion queues ---- */

/** A completion: the members of struct ibv_wc and those of the extended CQ. */
struct rocemu_cqe {
	uint64_t wr_id;
	rocemu_ns_t timestamp; /* the now of the call that made it */
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t vendor_err; /* the syndrome of a NAK that was received, else a ROCEMU_WHY_* code;
				flushed: 0 */
	uint32_t byte_len;
	uint32_t imm; /* as in struct rocemu_hdrs; or the invalidated R_Key */
	uint32_t qpn;
	uint32_t src_qp;
	uint32_t wc_flags; /* IBV_WC_GRH, _WITH_IMM, _WITH_INV */
	uint8_t sl;
	bool solicited;
};

/** Errors: -EINVAL depth 0 or > ROCEMU_MAX_CQE, -ENOMEM. depth is rounded up; see
 * rocemu_cq_depth(). */
ROCEMU_PUBLIC int rocemu_cq_create(struct rocemu_ep *ep, unsigned depth, void *user,
				   struct rocemu_cq **out);
/** Make an empty CQ that nothing uses yet another endpoint's; needs both endpoints' locks. -EBUSY,
 * -ENOMEM. */
ROCEMU_PUBLIC int rocemu_cq_move(struct rocemu_cq *cq, struct rocemu_ep *ep);
ROCEMU_PUBLIC int
rocemu_cq_destroy(struct rocemu_cq *cq); /* -EBUSY while a QP or XRC SRQ uses it */
/** -EINVAL: depth bad or less than the completions in it. Needs the consumer's lock as well. */
ROCEMU_PUBLIC int rocemu_cq_resize(struct rocemu_cq *cq, unsigned depth);
ROCEMU_PUBLIC unsigned rocemu_cq_depth(const struct rocemu_cq *cq);
ROCEMU_PUBLIC void *rocemu_cq_user(const struct rocemu_cq *cq);
/** Take up to n completions, oldest first. @return how many. One consumer at a time; needs no
 * endpoint lock. */
ROCEMU_PUBLIC unsigned rocemu_cq_poll(struct rocemu_cq *cq, struct rocemu_cqe *out, unsigned n);
/** Completions waiting. Needs no lock. */
ROCEMU_PUBLIC unsigned rocemu_cq_count(const struct rocemu_cq *cq);
/** Does it hold successful completions of a QP? */
ROCEMU_PUBLIC bool rocemu_cq_holds_success(const struct rocemu_cq *cq, uint32_t qpn);
/** True once the CQ overran (its completions are lost and stay so: poll goes on with those that
 * fitted). */
ROCEMU_PUBLIC bool rocemu_cq_overrun(const struct rocemu_cq *cq);
/**
 * Fault injection: the nth completion from now on (1: the next one) finds the CQ full, however much
 * room it has, and so does each every-th after it (0: none), times times in all. nth 0: none does.
 */
ROCEMU_PUBLIC void rocemu_cq_overrun_at(struct rocemu_cq *cq, uint64_t nth, uint64_t every,
					uint64_t times);
/**
 * Request one ROCEMU_EVENT_CQ at the next completion (the next solicited or failed one).
 * Completions that the CQ holds count as well: if they are not polled soon (200 us; 1 ms if they
 * had an event already), a timer raises the event. Another request before that, without a poll,
 * does not make it later. @return it is such a one.
 */
ROCEMU_PUBLIC bool rocemu_cq_arm(struct rocemu_cq *cq, rocemu_ns_t now, bool solicited_only);
/** Is an event still to come? A hint; needs no lock. */
ROCEMU_PUBLIC bool rocemu_cq_is_armed(const struct rocemu_cq *cq);
/**
 * Completions that come between polling true and false are probably polled at once: the event for
 * those that are not comes 200 us late. Needs no lock; nests.
 */
ROCEMU_PUBLIC void rocemu_cq_polling(struct rocemu_cq *cq, bool polling);

/**
 * Moderation: an armed CQ raises its event at the count-th completion since it was armed, or period
 * ns after the first of them, whichever comes first. One in error, or a solicited one where only
 * such were requested, raises it at once. count 0 or 1: no moderation; period 0: no time limit.
 */
ROCEMU_PUBLIC void rocemu_cq_moderate(struct rocemu_cq *cq, unsigned count, rocemu_ns_t period);

/* ---- shared receive queues ---- */

/** attr: max_wr and max_sge in, what was given out; srq_limit ignored. Errors: -EINVAL, -ENOMEM. */
ROCEMU_PUBLIC int rocemu_srq_create(struct rocemu_pd *pd, struct ibv_srq_attr *attr, void *user,
				    struct rocemu_srq **out);
/** Make an SRQ that no QP uses yet another endpoint's, with what is posted to it; as
 * rocemu_cq_move(). Not of XRC. */
ROCEMU_PUBLIC int rocemu_srq_move(struct rocemu_srq *srq, struct rocemu_ep *ep);
ROCEMU_PUBLIC int rocemu_srq_destroy(struct rocemu_srq *srq); /* -EBUSY while a QP uses it */
/** IBV_SRQ_LIMIT and IBV_SRQ_MAX_WR. Errors: -EINVAL, -ENOMEM. */
ROCEMU_PUBLIC int rocemu_srq_modify(struct rocemu_srq *srq, const struct ibv_srq_attr *attr,
				    int mask);
ROCEMU_PUBLIC void rocemu_srq_query(const struct rocemu_srq *srq, struct ibv_srq_attr *attr);
ROCEMU_PUBLIC int rocemu_srq_post(struct rocemu_srq *srq, const struct ibv_recv_wr *wr,
				  const struct ibv_recv_wr **bad);
ROCEMU_PUBLIC void *rocemu_srq_user(const struct rocemu_srq *srq);

/* ---- extended reliable connected service (XRC, IBTA annex A14) ---- */

/*
 * One-way connections from a QP of type IBV_QPT_XRC_SEND, which has only a send queue, to one of
 * type IBV_QPT_XRC_RECV, which has no queue at all: each request names the SRQ at the other end
 * that takes its receives, by a number (ibv_send_wr::qp_type.xrc.remote_srqn). SRQ and target QP
 * must be of one domain. What a request may touch is what the SRQ's PD may. A receive completes in
 * the SRQ's CQ: qpn is the target QP's, src_qp the initiator's. An unknown number or one of another
 * domain is answered by "invalid request" and ends the connection.
 */

ROCEMU_PUBLIC struct rocemu_xrcd *rocemu_xrcd_new(struct rocemu_ep *ep); /* NULL: out of memory */
/**
 * The part of a domain in one more endpoint: for its target QPs and SRQs, which reach, and are
 * reached by, those of the other parts. From now on a call on one of the domain's endpoints may
 * also raise events and set deadlines at the others: their callers share one lock, and look after
 * all of them. NULL: out of memory.
 */
ROCEMU_PUBLIC struct rocemu_xrcd *rocemu_xrcd_part_new(struct rocemu_ep *ep,
						       struct rocemu_xrcd *of);
/** One part, if there are several. -EBUSY while an SRQ or a QP belongs to it. */
ROCEMU_PUBLIC int rocemu_xrcd_free(struct rocemu_xrcd *xrcd);

/**
 * An SRQ of a domain. As rocemu_srq_create(), and -EINVAL without domain or CQ. It may be destroyed
 * at any time: a message under way to it is lost, and its connection fails at the next packet; its
 * completions stay in the CQ.
 */
ROCEMU_PUBLIC int rocemu_xrc_srq_create(struct rocemu_pd *pd, struct rocemu_xrcd *xrcd,
					struct rocemu_cq *cq, struct ibv_srq_attr *attr, void *user,
					struct rocemu_srq **out);
/** The number, 24 bits, never 0; of a basic SRQ: 0. */
ROCEMU_PUBLIC uint32_t rocemu_srq_num(const struct rocemu_srq *srq);

#ifdef __cplusplus
}
#endif

#endif
