/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A RoCEv2 endpoint without I/O: queue pairs, completion queues, memory keys and the RC, XRC, UC
 * and UD protocols, driven by four calls: input, output, deadline, expire. No socket, no clock, no
 * thread, no environment: datagrams, the time (monotonic nanoseconds) and the seed of all
 * randomness come from the caller. Completions and events are in rings that the caller drains.
 * There are two callbacks, if the caller sets them: rocemu_ep_config::page_in and ::why.
 *
 * Locking: none inside. The holder of the caller's lock of an endpoint may call any function on it
 * and on its objects; rocemu_cq_poll() and the calls documented so may run beside that without it,
 * one consumer a CQ.
 *
 * Vocabulary (work requests, attributes, states, statuses) is <infiniband/verbs.h>'s. Return
 * values, unless stated otherwise: 0 done, negative -errno.
 *
 * Nothing here allocates but the *_new, *_create and *_reg calls.
 */
#ifndef ROCEMU_ENDPOINT_H
#define ROCEMU_ENDPOINT_H

#include <infiniband/verbs.h>

#include <rocemu/objects.h>
#include <rocemu/why.h>
#include <rocemu/wire.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where a packet goes and comes from. */
struct rocemu_path {
	struct rocemu_gid sgid, dgid;
	uint32_t flow_label; /* 20 bits, IPv6 */
	uint16_t sport;	     /* UDP source port to use, 0xc000-0xffff */
	uint8_t sgid_index;
	uint8_t tclass; /* with the two ECN bits */
	uint8_t hop_limit;
	bool own_interface; /* the caller's, who sends: see rocemu_qp_set_own_interface() */
};

/** A received datagram. Borrowed for the call, which may change ip_id. */
struct rocemu_dgram {
	const uint8_t *data; /* from the BTH to the ICRC inclusive */
	uint32_t len;
	struct rocemu_gid src, dst;
	uint16_t sport, dport; /* UDP, host order */
	uint8_t tclass;	       /* TOS or traffic class as received, with ECN */
	uint8_t hop_limit;
	uint32_t flow_label; /* 20 bits, IPv6 */
	bool congested;	  /* the buffer it came through is filling up, or lost packets before it */
	bool ip_id_known; /* see rocemu_icrc_check() */
	uint16_t ip_id;	  /* IPv4: the identification, or a guess; then the one that was found */
	/*
	 * NULL: the ICRC is checked. Else the packet came by memory, and is not. These are its len
	 * bytes, which may change while they are read (memory shared with another process); the
	 * first ROCEMU_MAX_HDR_LEN of them are in data as well, which has len bytes too, does not
	 * change, and decides what the packet means.
	 */
	const uint8_t *body;
};

/**
 * A packet to send. header || iov || trailer is the UDP payload once rocemu_tx_seal() has put the
 * ICRC into the trailer. All pointers are borrowed until the next call on the endpoint.
 */
struct rocemu_tx {
	const struct rocemu_path *path;
	uint32_t lqpn; /* sender's QPN: a hint for grouping */
	uint32_t payload_len;
	uint8_t hdr_len;
	uint8_t trailer_len; /* pad bytes + ROCEMU_ICRC_LEN */
	uint8_t niov;	     /* pieces of payload, 0..ROCEMU_MAX_SGE */
	bool again;	     /* was sent before: send it from a copy, see rocemu_tx_flatten() */
	bool own;	     /* the payload is in the endpoint's memory: inline data */
	uint8_t hdr[ROCEMU_MAX_HDR_LEN];
	uint8_t trailer[8];
	struct iovec iov[ROCEMU_MAX_SGE];
};

/** Bytes of UDP payload of a descriptor. */
static inline uint32_t rocemu_tx_len(const struct rocemu_tx *t)
{
	return t->hdr_len + t->payload_len + t->trailer_len;
}

/**
 * Compute the ICRC and put it behind the pad in t->trailer. Separate from output because it covers
 * the IPv4 identification, which only the sender of the datagram has (a GSO burst counts 0, 1, 2,
 * ...). May be repeated with another identification.
 */
ROCEMU_PUBLIC void rocemu_tx_seal(struct rocemu_tx *t, uint16_t ip_id);

/**
 * As rocemu_tx_seal(), of a packet that was copied: its header, payload and pad are at packet.
 * Takes less time for small packets that are like earlier ones (path, length, identification).
 */
ROCEMU_PUBLIC void rocemu_ep_seal_copy(struct rocemu_ep *ep, struct rocemu_tx *t,
				       const uint8_t *packet, uint16_t ip_id);

/**
 * Copy the payload to copy[0..payload_len) and let iov point there. The payload is the program's
 * memory, which it may change while a request is under way; a change between the seal and the send
 * makes a packet with a wrong ICRC. The peer drops it, and it is sent again: then from a copy,
 * otherwise a busy program could invalidate each try. A NIC sends mixed data with a right ICRC.
 * Aligned words are read as a whole.
 */
ROCEMU_PUBLIC void rocemu_tx_flatten(struct rocemu_tx *t, uint8_t *copy);

/* ---- memory that is not there ---- */

/**
 * For a handler of SIGSEGV and SIGBUS: the fault was at this address. If this thread was in an
 * access of the library's to registered memory, which the program has unmapped or protected
 * meanwhile, the access ends there and the call does not return: the request that needed it fails
 * (with a remote access error, for example), and the region's pages are requested by page_in from
 * then on. Otherwise it returns, and the fault is the caller's. The handler runs on the thread with
 * the mask that the jump leaves behind. Without such a handler a fault has its usual effect.
 */
ROCEMU_PUBLIC void rocemu_memory_fault(const void *address);

/**
 * rocemu_tx_flatten() and rocemu_tx_seal() of what the endpoint has put out, as such accesses.
 * @return false: the memory is not there. The copy is zeros then, or the ICRC not written. The
 * packet is a lost one; when it is to be sent again the endpoint will find out.
 */
ROCEMU_PUBLIC bool rocemu_ep_flatten(struct rocemu_ep *ep, struct rocemu_tx *t, uint8_t *copy);
ROCEMU_PUBLIC bool rocemu_ep_seal(struct rocemu_ep *ep, struct rocemu_tx *t, uint16_t ip_id);

/* ---- endpoint ---- */

/** Where an endpoint behaves as another device does. All 0: nowhere. */
struct rocemu_traits {
	/* Go-back-N. The responder drops packets before their turn, and the first of them has the
	 * NAK. The requester sends everything again from what a NAK names, or from the missing
	 * response. */
	bool drops_early, goes_back;
	bool no_probes;		       /* nothing is sent again before the ACK timeout */
	bool no_migreq;		       /* MigReq is 0 */
	bool sends_credits;	       /* ACKs have the number of receives (IBTA 9.7.7.2.1) */
	bool cnp_on_nak;	       /* a sequence NAK comes with a CNP */
	bool no_cnps;		       /* packets that met congestion are followed by no CNP */
	uint8_t extra_repetitions;     /* after ACK timeouts, until retries are counted */
	rocemu_ns_t ack_timeout_floor; /* the shortest ACK timeout that is not 0 */
	rocemu_ns_t rnr_wait_floor;    /* the shortest wait after an RNR NAK */
	rocemu_ns_t nak_delay;	       /* from the packet that shows a gap to the sequence NAK */
	rocemu_ns_t cnp_interval;      /* least between two CNPs of a QP; 0: rocemu's */
};

struct rocemu_ep_config {
	uint64_t seed;		/* of every random choice (keys, first QP index) */
	uint32_t window_bytes;	/* most unacknowledged bytes towards one peer lane; 0: what the path
				   takes */
	uint32_t window_nearby; /* the same towards a lane of this host; 0: as window_bytes */
	/*
	 * Bytes of READ responses that may be on their way to the endpoint, each packet counted
	 * with what it costs a socket buffer on top; the last request may exceed it, and what long
	 * paths hold comes on top. 0: default, half of Linux's default receive buffer.
	 */
	uint32_t read_budget;
	uint8_t max_rd_atomic;	 /* READs and atomics in flight per QP; 0: ROCEMU_MAX_RD_ATOMIC */
	enum ibv_mtu active_mtu; /* largest path MTU that a QP may have; 0: IBV_MTU_4096 */
	/*
	 * For regions registered with IBV_ACCESS_ON_DEMAND, whose pages may be absent: make
	 * addr[0..len) present, for writing if write. @return false: there is no such memory.
	 * Called before each access; must not call the endpoint. NULL: such regions are refused.
	 */
	bool (*page_in)(void *addr, size_t len, bool write);
	/*
	 * Fault injection: the chance (0..1) that a message which takes a receive finds none,
	 * whether there is one or not, and is answered with an RNR NAK (IBTA 9.7.5.2.8; RC and
	 * XRC). The same for all of the endpoint's QPs; by dice of its own, seeded with rnr_seed.
	 */
	double rnr_chance;
	uint64_t rnr_seed;
	/*
	 * Called with the reason of each error, on the thread that called the endpoint, before the
	 * completion or event of the error is visible: a consumer that takes completions without
	 * the endpoint's lock may end at the first one in error. w is borrowed for the call. Must
	 * not call the endpoint. NULL: no reasons are given.
	 */
	void (*why)(void *user, const struct rocemu_why *w);
	void *why_user;
	double time_scale; /* ACK timeouts and RNR waits are divided by it; 0: 1 */
	/*
	 * NULL; else the endpoint's protection domains and memory are that endpoint's (which
	 * outlives it), so that its QPs use the same keys. Each of the endpoints may have a lock of
	 * its own: what the calls under "protection domains and memory" and "memory windows" change
	 * needs all of them, and so does a bind or an invalidation that is posted or comes in.
	 * Everything else needs the lock of the endpoint that is called.
	 */
	struct rocemu_ep *domains_of;
	struct rocemu_traits traits;
};

/** @return a new endpoint, owned by the caller, or NULL (out of memory). */
ROCEMU_PUBLIC struct rocemu_ep *rocemu_ep_new(const struct rocemu_ep_config *config);

/** Destroy its QPs and SRQs. Of endpoints that use each other's objects, each needs it before one
 * of them is freed. */
ROCEMU_PUBLIC void rocemu_ep_clear(struct rocemu_ep *ep);

/** Free an endpoint with whatever objects are left in it. NULL is allowed. */
ROCEMU_PUBLIC void rocemu_ep_free(struct rocemu_ep *ep);

/**
 * Give the endpoint its slot: its QPNs are slot << 14 | index. While it has no QPs; first_index
 * (0..16383) is where allocation of indices starts, so that a slot that is used again does not
 * reuse the QPNs of its last user. Index 0, 1 and the last are never used (QP 0, QP 1, the
 * multicast QPN). Errors: -EINVAL slot > 1023, -EBUSY it has QPs, -ENOMEM.
 */
ROCEMU_PUBLIC int rocemu_ep_set_slot(struct rocemu_ep *ep, uint16_t slot, uint16_t first_index);

/** Set or change an entry of the GID table. NULL empties it. -EINVAL: index >= ROCEMU_MAX_GID. */
ROCEMU_PUBLIC int rocemu_ep_set_gid(struct rocemu_ep *ep, unsigned index,
				    const struct rocemu_gid *gid);

/**
 * The device is gone: all QPs but those in RESET go to the error state, so that all pending
 * requests complete (IBV_WC_WR_FLUSH_ERR). QPs made later are not affected.
 */
ROCEMU_PUBLIC void rocemu_ep_fail(struct rocemu_ep *ep, rocemu_ns_t now);

/** Change the largest path MTU (the interface's MTU changed). */
ROCEMU_PUBLIC void rocemu_ep_set_active_mtu(struct rocemu_ep *ep, enum ibv_mtu mtu);

/**
 * A datagram came in. Checks it (form, ICRC, QP, address, P_Key, ...) and acts on it.
 * @return ROCEMU_DROP_NONE, or why it was not taken; also counted in rocemu_ep_stats.
 */
ROCEMU_PUBLIC enum rocemu_drop rocemu_ep_input(struct rocemu_ep *ep, rocemu_ns_t now,
					       struct rocemu_dgram *d);

/**
 * Fill tx[0..n) with packets to send now, n <= ROCEMU_OUTPUT_BATCH. Consecutive descriptors of one
 * QP and path are adjacent. @return descriptors filled; 0: nothing more to send until the next
 * input, post or expire.
 *
 * The call also means that the packets of the previous call were sent: UC and UD requests complete
 * then, not earlier, because their buffers are in use until then. So send the packets and call
 * again, as long as rocemu_ep_has_output() returns true (the last such call fills nothing).
 */
ROCEMU_PUBLIC unsigned rocemu_ep_output(struct rocemu_ep *ep, rocemu_ns_t now, struct rocemu_tx *tx,
					unsigned n);

/**
 * True when rocemu_ep_output() has to be called: it would fill a descriptor or complete a request.
 * This and rocemu_ep_output_kind() take constant time, whatever the number of QPs.
 */
ROCEMU_PUBLIC bool rocemu_ep_has_output(struct rocemu_ep *ep);

/** What there is to send. */
enum rocemu_output {
	ROCEMU_OUTPUT_NONE, /* rocemu_ep_has_output() is false */
	ROCEMU_OUTPUT_ACKS, /* acknowledgements alone: they may be delayed a little */
	ROCEMU_OUTPUT_NOW,  /* something that must not be delayed, or a request to complete */
};

ROCEMU_PUBLIC enum rocemu_output rocemu_ep_output_kind(struct rocemu_ep *ep);

/**
 * Set how much UC and UD may send from now on, in bytes: each packet is charged its payload and its
 * overhead in the receiver's socket buffer. These services do not report to a sender that it
 * overruns its receiver, so a caller that can read the fill level of the receiver's buffer sets the
 * limit before each output call. UINT64_MAX (the default): no limit.
 */
ROCEMU_PUBLIC void rocemu_ep_set_send_credits(struct rocemu_ep *ep, uint64_t bytes);

/** True while UC or UD requests wait for room. */
ROCEMU_PUBLIC bool rocemu_ep_wants_send_credits(const struct rocemu_ep *ep);

/** Change rocemu_ep_config::read_budget. */
ROCEMU_PUBLIC void rocemu_ep_set_read_budget(struct rocemu_ep *ep, uint32_t bytes);

/** When to call rocemu_ep_expire() next; ROCEMU_NEVER when no timer runs. */
ROCEMU_PUBLIC rocemu_ns_t rocemu_ep_deadline(const struct rocemu_ep *ep);

/** Act on all timers that are due at now (retry, RNR). Early or spurious calls do nothing. */
ROCEMU_PUBLIC void rocemu_ep_expire(struct rocemu_ep *ep, rocemu_ns_t now);

/** What happened that is not a completion. */
enum rocemu_event_type {
	ROCEMU_EVENT_CQ,     /* an armed CQ got a completion (u.cq); it is disarmed now */
	ROCEMU_EVENT_CQ_ERR, /* IBV_EVENT_CQ_ERR: overrun (u.cq) */
	ROCEMU_EVENT_QP,     /* async: IBV_EVENT_QP_FATAL, _QP_REQ_ERR, _QP_ACCESS_ERR, _COMM_EST,
				_SQ_DRAINED,     _QP_LAST_WQE_REACHED (u.qp) */
	ROCEMU_EVENT_SRQ,    /* IBV_EVENT_SRQ_LIMIT_REACHED, _SRQ_ERR (u.srq) */
};

struct rocemu_event {
	enum rocemu_event_type type;
	enum ibv_event_type async; /* for all but ROCEMU_EVENT_CQ */
	bool late, solicited_only; /* ROCEMU_EVENT_CQ: by the timer of rocemu_cq_arm(); how it was
				      armed */
	union {
		struct rocemu_cq *cq;
		struct rocemu_qp *qp;
		struct rocemu_srq *srq;
	} u; /* borrowed; destroying the object takes its events out of the ring */
};

/** Is there an event to be taken? */
ROCEMU_PUBLIC bool rocemu_ep_has_event(const struct rocemu_ep *ep);
/** Take the next event. @return false: none. */
ROCEMU_PUBLIC bool rocemu_ep_next_event(struct rocemu_ep *ep, struct rocemu_event *ev);

/* clang-format off */
#define ROCEMU_STATS(X)                                                        \
	X(rx_packets,      "packets taken") \
	X(rx_bytes,        "payload bytes taken") \
	X(tx_packets,      "packets made") \
	X(tx_bytes,        "payload bytes made") \
	X(acks_sent,       "positive acknowledgements sent") \
	X(naks_sent,       "sequence NAKs sent") \
	X(rnr_naks_sent,   "RNR NAKs sent") \
	X(err_naks_sent,   "NAKs sent for invalid requests, access and operational errors") \
	X(naks_rcvd,       "sequence NAKs received") \
	X(rnr_on_purpose,  "receives not found on purpose") \
	X(rnr_naks_rcvd,   "RNR NAKs received") \
	X(err_naks_rcvd,   "NAKs received for errors") \
	X(timeouts,        "ACK timeouts") \
	X(retransmits,     "request packets sent again") \
	X(probes,          "probe timers run out, each sends a packet again") \
	X(duplicates,      "duplicate requests received") \
	X(kept,            "request packets that came early and were kept") \
	X(kept_full,       "request packets that came early and were not kept") \
	X(cnps_rcvd,       "congestion notification packets received") \
	X(cnps_sent,       "congestion notification packets sent") \
	X(ecn_marked,      "packets received that the network marked (ECN CE)") \
	X(tx_octets,       "bytes made, from the BTH to the ICRC") \
	X(mcast_sent,      "packets made that are for a multicast group") \
	X(mcast_rcvd,      "packets received that were for a multicast group") \
	X(writes_rcvd,     "WRITE requests received") \
	X(reads_rcvd,      "READ requests received") \
	X(atomics_rcvd,    "atomic requests received") \
	X(response_gaps,   "responses received that came before one that is missing") \
	X(req_errors,      "send requests completed with an error") \
	X(req_flushed,     "of these: flushed") \
	X(req_rem_access,  "of these: remote access error") \
	X(req_rem_invalid, "of these: remote invalid request error") \
	X(req_retry_exc,   "of these: transport retries exceeded") \
	X(req_rnr_exc,     "of these: RNR retries exceeded") \
	X(resp_errors,     "receives completed with an error") \
	X(resp_flushed,    "of these: flushed") \
	X(resp_too_long,   "of these: local length error") \
	X(access_errors,   "requests refused for remote key, bounds or rights") \
	X(cq_events,       "completion events raised") \
	X(port_moves,      "times a connection's peer went on from another source port") \
	X(psn_sweeps,      "times PSNs far from what was under way were seen on a connection")
/* clang-format on */

struct rocemu_ep_stats {
#define X(name, text) uint64_t name;
	ROCEMU_STATS(X)
#undef X
	uint64_t drops[ROCEMU_DROP_COUNT];
};

/** The endpoint's counters, borrowed until rocemu_ep_count_in() or the endpoint's end. */
ROCEMU_PUBLIC const struct rocemu_ep_stats *rocemu_ep_get_stats(const struct rocemu_ep *ep);

/**
 * Count in *to from now on, memory that other processes may read at any time; the counts so far go
 * there first. to: borrowed until the next such call; NULL: the endpoint's own, as it is at first.
 */
ROCEMU_PUBLIC void rocemu_ep_count_in(struct rocemu_ep *ep, struct rocemu_ep_stats *to);

/** Objects that an endpoint has. */
enum rocemu_object {
	ROCEMU_OBJECT_PD,
	ROCEMU_OBJECT_CQ,
	ROCEMU_OBJECT_QP,
	ROCEMU_OBJECT_SRQ,
	ROCEMU_OBJECT_MR,
	ROCEMU_OBJECT_COUNT
};

/** A QP at its last change of state: rocemu_qp_query() returns the present PSNs. */
struct rocemu_qp_info {
	uint32_t qpn; /* 0: there is none */
	uint32_t dest_qpn;
	uint32_t rq_psn, sq_psn;
	uint8_t type, state, mig_state; /* enum ibv_qp_type, ibv_qp_state, ibv_mig_state */
	uint8_t reserved[13];
};

enum { ROCEMU_SHOWN_PART = 128 /* QPs, by the QPN's index: 4096 bytes */ };

/** What an endpoint shows of itself. */
struct rocemu_ep_shown {
	uint32_t objects[16];				      /* by enum rocemu_object */
	struct rocemu_qp_info qp[1 << ROCEMU_QPN_INDEX_BITS]; /* by the QPN's index */
};

/**
 * Keep *to up to date from now on, memory that other processes may read at any time. to: all zeros,
 * borrowed until the next such call; NULL: nothing is shown, as at first. No QP is shown before its
 * part is: most parts have none, and there may be no memory behind them.
 */
ROCEMU_PUBLIC void rocemu_ep_show(struct rocemu_ep *ep, struct rocemu_ep_shown *to);

/** Show the QPs of the part with this QPN, as long as the endpoint is shown. */
ROCEMU_PUBLIC void rocemu_ep_show_part(struct rocemu_ep *ep, uint32_t qpn);
/** Is it shown? */
ROCEMU_PUBLIC bool rocemu_ep_shows_part(const struct rocemu_ep *ep, uint32_t qpn);

/* ---- queue pairs ---- */

struct rocemu_qp_init {
	struct rocemu_pd *pd;
	struct rocemu_cq *send_cq, *recv_cq;
	struct rocemu_srq *srq;	  /* a basic one, or NULL */
	struct rocemu_xrcd *xrcd; /* _XRC_RECV: which has nothing else of all this */
	enum ibv_qp_type type; /* IBV_QPT_RC, _UC, _UD, _XRC_SEND (no recv_cq, no srq), _XRC_RECV */
	struct ibv_qp_cap cap; /* in: requested; out: granted, at least as much */
	bool sq_sig_all;
	bool block_own_mcast; /* UD: what it sends to a group that it is attached to does not come
				 back */
	void *user;	      /* rocemu_qp_user() */
};

/** Errors: -EINVAL (caps beyond the limits, an object too few or too many for the type), -ENOMEM
 * (also: all QPNs taken), -ENXIO no slot yet, -EOPNOTSUPP another type. */
ROCEMU_PUBLIC int rocemu_qp_create(struct rocemu_ep *ep, struct rocemu_qp_init *init,
				   struct rocemu_qp **out);
/** Destroys in any state; its completions that were not polled are removed. Needs the CQs' consumer
 * locks too. -EBUSY while it is attached to a multicast group. */
ROCEMU_PUBLIC int rocemu_qp_destroy(struct rocemu_qp *qp);
ROCEMU_PUBLIC uint32_t rocemu_qp_num(const struct rocemu_qp *qp);
ROCEMU_PUBLIC void *rocemu_qp_user(const struct rocemu_qp *qp);
ROCEMU_PUBLIC void rocemu_qp_set_user(struct rocemu_qp *qp, void *user);
ROCEMU_PUBLIC struct rocemu_xrcd *
rocemu_qp_xrcd(const struct rocemu_qp *qp); /* NULL: not an XRC_RECV QP */
ROCEMU_PUBLIC struct rocemu_qp *rocemu_qp_find(struct rocemu_ep *ep, uint32_t qpn); /* or NULL */
/**
 * ibv_modify_qp(): the transition and its attributes by the table of IBTA 11.2.5.2. -EINVAL:
 * transition or mask not allowed, value out of range; then nothing has changed. A move to RESET
 * needs the CQs' consumer locks.
 */
ROCEMU_PUBLIC int rocemu_qp_modify(struct rocemu_qp *qp, rocemu_ns_t now,
				   const struct ibv_qp_attr *attr, int mask);
/** All attributes, whatever was requested; caps and state too. */
ROCEMU_PUBLIC void rocemu_qp_query(const struct rocemu_qp *qp, struct ibv_qp_attr *attr);
ROCEMU_PUBLIC enum ibv_qp_state rocemu_qp_state(const struct rocemu_qp *qp);

/** Where a connected QP (RC, UC) sends to, borrowed until its address vector changes; NULL: it has
 * none. */
ROCEMU_PUBLIC const struct rocemu_path *rocemu_qp_path(const struct rocemu_qp *qp);
/** The path that rocemu_qp_modify() with these attributes would give it. -EINVAL: none. */
ROCEMU_PUBLIC int rocemu_qp_path_after(const struct rocemu_qp *qp, const struct ibv_qp_attr *attr,
				       int mask, struct rocemu_path *path);

/**
 * Set own_interface of a connected QP's path, until its address vector changes. The endpoint copies
 * it to the packets: those with it are to leave by the interface that has sgid.
 */
ROCEMU_PUBLIC void rocemu_qp_set_own_interface(struct rocemu_qp *qp, bool own);

/**
 * Attach a UD QP, in any state, to a multicast group: what comes in for the group's address and QPN
 * ROCEMU_MCAST_QPN with the QP's Q_Key goes to each attached QP, the sender's own too if it is one
 * of them (but see block_own_mcast). Attaching again does nothing more. That such datagrams come in
 * at all is for the caller to see to.
 *
 * Errors: -EINVAL not a UD QP, not a multicast address or one of scope 0 (ff00::/16, ff10::/16,
 * ...: reserved, no host takes such packets), -ENOSPC one of the limits above, -ENOMEM.
 */
ROCEMU_PUBLIC int rocemu_qp_attach_mcast(struct rocemu_qp *qp, const struct rocemu_gid *group);
/** Detach it, however often it was attached. -EINVAL: it is not attached. */
ROCEMU_PUBLIC int rocemu_qp_detach_mcast(struct rocemu_qp *qp, const struct rocemu_gid *group);
/** Is any QP attached to a group whose packets have this destination (rocemu_gid_on_wire())? */
ROCEMU_PUBLIC bool rocemu_ep_has_mcast(const struct rocemu_ep *ep, const struct rocemu_gid *dst);

/** The path of an address handle for UD sends (struct rocemu_post::ud_path). -EINVAL: no GRH, no
 * such GID. */
ROCEMU_PUBLIC int rocemu_path_resolve(const struct rocemu_ep *ep, const struct ibv_ah_attr *attr,
				      struct rocemu_path *path);

/**
 * Post one send work request. For UD, ud_path is the destination (copied) and wr->wr.ud.ah is
 * ignored. imm_data, invalidate_rkey and qp_type.xrc as in struct ibv_send_wr. Inline data
 * (IBV_SEND_INLINE) is copied here.
 *
 * IBV_WR_BIND_MW and IBV_WR_LOCAL_INV make no packet: they are executed when all requests posted
 * before them were sent, or with IBV_SEND_FENCE (RC) when these are complete, and complete in
 * order. Of bind_mw.mw only rkey is used, of bind_info.mr only lkey. Posting a bind sets the low 8
 * bits of mw->rkey to those of bind_mw.rkey, whose other bits are ignored: the result is the
 * window's key when the bind has succeeded.
 *
 * ROCEMU_WR_ATOMIC_WRITE writes 8 bytes to an aligned address at once (wr.rdma). ROCEMU_WR_FLUSH
 * (wr.rdma) completes when all earlier writes of this QP are placed as requested; type | level << 4
 * is in invalidate_rkey, the length of the range in sg_list[0].length (nothing else of it is read).
 * Both count as READs against max_rd_atomic.
 *
 * Errors: -EINVAL wrong state, no such opcode, wrong flag or number of SGEs; -ENOMEM queue full.
 * Keys and bounds of the SGEs are checked when the request is executed (IBV_WC_LOC_PROT_ERR), as
 * are the keys of a bind or local invalidate (IBV_WC_MW_BIND_ERR). An operation that the QP's
 * service does not have completes with IBV_WC_LOC_QP_OP_ERR, a message that is longer than the port
 * allows (UD: than its MTU) with IBV_WC_LOC_LEN_ERR.
 */
ROCEMU_PUBLIC int rocemu_qp_post_send(struct rocemu_qp *qp, rocemu_ns_t now,
				      const struct ibv_send_wr *wr,
				      const struct rocemu_path *ud_path);

/** Reliable services: requests were sent that are not acknowledged yet. Others: false. */
ROCEMU_PUBLIC bool rocemu_qp_in_flight(const struct rocemu_qp *qp);

/**
 * The result that rocemu_qp_post_send() would have for wr if ahead others had been posted before
 * it; posts nothing. When it returns 0 for each of a chain, posting the chain under the same lock
 * cannot fail half way.
 */
ROCEMU_PUBLIC int rocemu_qp_check_send(const struct rocemu_qp *qp, unsigned ahead,
				       const struct ibv_send_wr *wr,
				       const struct rocemu_path *ud_path);

/**
 * Fault injection: the request that was posted last, right before this call, ends with status in
 * its turn instead of being sent, and the QP goes the way of a request that failed. Nothing of it
 * is seen by the peer. No effect where it is done already (the QP is in the error state).
 */
ROCEMU_PUBLIC void rocemu_qp_fail_last(struct rocemu_qp *qp, enum ibv_wc_status status);

/**
 * Post receives, a chain as for ibv_post_recv(). On error *bad is the first not posted. now is used
 * only in the error state, in which they complete at once.
 */
ROCEMU_PUBLIC int rocemu_qp_post_recv(struct rocemu_qp *qp, rocemu_ns_t now,
				      const struct ibv_recv_wr *wr, const struct ibv_recv_wr **bad);

#ifdef __cplusplus
}
#endif

#endif
