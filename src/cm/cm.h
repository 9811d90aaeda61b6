/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The InfiniBand connection manager, pure: listeners, connections and service ID resolutions
 * (SIDR), driven by MADs that came in, calls of the consumer and the time. What comes out is MADs
 * to send, events and deadlines. No socket, clock, thread or environment, and no callbacks; of QPs
 * only their numbers: the driver modifies the QPs.
 *
 * Not responsible for: delivery of MADs to the process they are meant for (the agent), IP addresses
 * and port spaces (rdma_cm's, above this; helpers are in <rocemu/cm.h>).
 *
 * Locking: none inside. The holder of the driver's lock of a struct cm may call any function on it
 * and its objects.
 *
 * How to drive it:
 *
 *     after every call, input or expire:  cm_output() until it fills less than n
 *                                         cm_next_event() until false
 *                                         cm_next_exit_mad() until false, if config.exit_mads
 *     the timer:                          cm_deadline(), then cm_expire() when it has come
 *
 * Return values, unless stated otherwise: 0 done, -EINVAL the object's state does not allow the
 * call or an argument is out of range, -EMSGSIZE private data (or additional information) longer
 * than the message has room for, -ENOMEM. A call that fails has changed nothing.
 *
 * Communication IDs. The local communication ID of a connection and the request ID of a SIDR begin
 * with config.id_prefix (10 bits); so the host's agent can find the process that a MAD is for. The
 * other 22 bits, and transaction IDs, are unpredictable without the seed. By the prefix:
 *
 *     REQ, SIDR_REQ      by service ID and destination address, as listeners are registered there
 *     SIDR_REP           by the prefix of request_id
 *     all others         by the prefix of remote_comm_id. A REJ with reason TIMEOUT, or one that
 *                        answers a REP never seen, may have remote_comm_id 0: then to the process
 *                        that got the REQ from the sender's address and local_comm_id, or to all:
 *                        a process without such a connection ignores it.
 *
 * Sources: IBTA vol. 1, chapter 12 (12.6 and 12.8 messages, 12.9 and 12.10 state transitions, 12.11
 * SIDR), annex A11.
 */
#ifndef CM_CM_H
#define CM_CM_H

#include <rocemu/cm.h>
#include <rocemu/endpoint.h> /* rocemu_ns_t, ROCEMU_NEVER */

struct cm;
struct cm_listener;
struct cm_conn;
struct cm_sidr;

enum {
	CM_ID_PREFIX_BITS = 10,
	CM_ID_PREFIX_SHIFT = 32 - CM_ID_PREFIX_BITS,
	CM_DEFAULT_TIMEOUT = 20, /* response timeouts, 4.096 us * 2^20 = 4.3 s, as the kernel's
				    rdma_cm has them */
	CM_DEFAULT_RETRIES = 15,
	CM_DEFAULT_ACK_TIMEOUT = 19,
	CM_DEFAULT_BACKLOG = 128,
	CM_COMPARE_MAX = 64, /* bytes of private data that a listener may compare */
	CM_MRA_LATER = 0x80, /* see cm_mra() */
	CM_SPORT = 55410,    /* UDP source port of the QP 1 of rocemu's agent and of Soft-RoCE */
};

/** 4.096 us * 2^exponent: response and service timeouts. 31 at most (cut). */
static inline rocemu_ns_t cm_timeout_ns(uint8_t exponent)
{
	return (rocemu_ns_t)4096 << (exponent < 31 ? exponent : 31);
}

/* ---- the manager ---- */

struct cm_config {
	/*
	 * 128 secret bits, from which all random choices are derived: they reveal all IDs. Equal
	 * seeds give equal choices.
	 */
	uint64_t seed, seed_high;
	uint64_t ca_guid;   /* node GUID of the device, in every REQ and REP */
	uint16_t id_prefix; /* 0-1023: high bits of communication IDs, unique per process */
	bool lap_events;    /* false: a LAP is answered "not supported" here, without an event */
	bool exit_mads;	    /* keep track of exit MADs, see cm_next_exit_mad() */
	/* REQs and SIDR_REQs of one address that wait for their consumer, of all listeners; of all
	 * addresses twice as many. 0: 4096 */
	uint32_t max_half_open;
	uint32_t max_lingering; /* connections and SIDRs kept only to answer late duplicates; 0:
				   8192 */
	double time_scale;	/* all waits are divided by it; 0: 1 */
};

/** @return a new manager, owned by the caller; NULL: out of memory, or id_prefix > 1023. */
struct cm *cm_new(const struct cm_config *config);

/** Free it with whatever objects are left in it, silently: nothing is sent. NULL is allowed. */
void cm_free(struct cm *cm);

/** Where a MAD goes, or where it came from: src is the sender in both cases. */
struct cm_addr {
	struct rocemu_gid src, dst;
	uint32_t flow_label; /* 20 bits, IPv6 */
	uint8_t tclass;
	uint8_t hop_limit;  /* 0: the driver's default */
	uint8_t sgid_index; /* of the local side's GID; passed through for the driver */
	uint32_t scope_id;  /* of link-local addresses: the interface; likewise */
	uint16_t sport;	    /* of the peer's MADs: UDP source port; 0: not known */
};

/** Why a MAD was not acted on; 0: it was. */
/* clang-format off */
#define CM_DROPS(X)                                                            \
	X(NONE,          "taken")                                              \
	X(MALFORMED,     "not a message of communication management")          \
	X(VERSION,       "unsupported class version")                          \
	X(UNKNOWN_ID,    "communication ID of no connection")                  \
	X(ADDRESS,       "from or to another address than the connection's")   \
	X(TID,           "transaction ID of another exchange")                 \
	X(STATE,         "not expected in the connection's state")             \
	X(DUPLICATE,     "seen before")                                        \
	X(NO_SERVICE,    "service ID without a listener")                  \
	X(NO_RESOURCES,  "backlog full or too many half-open connections")     \
	X(STALE,         "of a stale connection")                              \
	X(UNSUPPORTED,   "a request that cannot be met")                       \
	X(NO_MEMORY,     "out of memory")
/* clang-format on */

enum cm_drop {
#define X(name, text) CM_DROP_##name,
	CM_DROPS(X)
#undef X
		CM_DROP_COUNT
};

/** The text of a drop reason, static; "unknown" for numbers outside the enumeration. */
const char *cm_drop_text(enum cm_drop drop);

/**
 * A MAD came in on QP 1: mad[0..len), borrowed for the call, from addr->src to addr->dst. May make
 * events and MADs to send, also when it is not taken (a REJ, an answer repeated).
 *
 * @return CM_DROP_NONE, or why it was not acted on; counted in struct cm_stats.
 */
enum cm_drop cm_input(struct cm *cm, rocemu_ns_t now, const uint8_t *mad, size_t len,
		      const struct cm_addr *addr);

/**
 * The network reported (ICMP) that a REQ or SIDR_REQ sent here (id: local communication ID or
 * request ID) cannot reach its destination; error: the errno. When no message has come from there,
 * it is given up at once: CM_EV_TIMEOUT. Peer to peer it is still repeated: the other side may come
 * up.
 *
 * @return false: no answer to it is waited for.
 */
bool cm_unreachable(struct cm *cm, uint32_t id, int error);

/** A MAD to send from QP 1 of addr.src to QP 1 of addr.dst. */
struct cm_mad {
	uint8_t data[ROCEMU_MAD_LEN];
	struct cm_addr addr;
};

/** Fill out[0..n) with MADs to send now. @return how many; less than n: there is nothing more. */
unsigned cm_output(struct cm *cm, rocemu_ns_t now, struct cm_mad *out, unsigned n);

/** When cm_expire() is to be called next, or ROCEMU_NEVER. */
rocemu_ns_t cm_deadline(const struct cm *cm);

/** Act on every deadline up to now. */
void cm_expire(struct cm *cm, rocemu_ns_t now);

/** Counters: name, text. Of each message also how many were received and sent, see struct cm_stats.
 */
/* clang-format off */
#define CM_STATS(X)                                                            \
	X(retries,     "messages sent again after a timeout")                  \
	X(timeouts,    "exchanges given up after all retries")                 \
	X(withheld,    "MADs not sent: too many to an address without an answer from it") \
	X(answers,     "answers sent again to a duplicate")                    \
	X(established, "connections established")                              \
	X(rejects,     "REJs sent without a consumer's doing")                 \
	X(unsent,      "MADs not sent: too many answers waited")               \
	X(evicted,     "lingering connections dropped early")                \
	X(spared,      "connections kept despite a REQ implying that they are stale") \
	X(conns,       "connections that exist, lingering ones too")           \
	X(half_open,   "requests that wait for their consumer")
/* clang-format on */

enum { CM_STATS_ATTRS = ROCEMU_CM_APR - ROCEMU_CM_REQ + 1 };

struct cm_stats {
#define X(name, text) uint64_t name;
	CM_STATS(X)
#undef X
	uint64_t rcvd[CM_STATS_ATTRS]; /* by attribute ID less ROCEMU_CM_REQ: well-formed ones */
	uint64_t sent[CM_STATS_ATTRS];
	uint64_t drops[CM_DROP_COUNT];
};

/** The counters, borrowed as long as the manager lives. */
const struct cm_stats *cm_get_stats(const struct cm *cm);

/* ---- listening ---- */

struct cm_listen_param {
	uint64_t service_id;
	uint64_t service_mask;	/* bits that count; 0: all */
	bool any_addr;		/* true: addr is not looked at */
	struct rocemu_gid addr; /* local address (destination of the REQ) */
	uint8_t ip_version;	/* with any_addr: 4 or 6: only addresses of that kind; 0: both */
	/* Requests of one address that may wait, see cm_conn_seen(); of all addresses twice as
	 * many. 0: CM_DEFAULT_BACKLOG */
	uint32_t backlog;
	/* Only requests with these bytes at this place of their private data; compare_len 0: all.
	 */
	uint8_t compare_offset, compare_len;
	uint8_t compare_value[CM_COMPARE_MAX], compare_mask[CM_COMPARE_MAX];
	void *user; /* returned with events */
};

/**
 * Take REQs and SIDR_REQs to a service. A request goes to the most specific listener: one with its
 * address before one with its kind of address before one with any; then one that compares private
 * data before one that does not.
 *
 * Errors: -EADDRINUSE the same service, address and comparison is taken.
 */
int cm_listen(struct cm *cm, const struct cm_listen_param *param, struct cm_listener **listener);

/**
 * Stop listening. Requests whose event was not yet taken are rejected; connections that it made
 * stay.
 */
void cm_unlisten(struct cm_listener *l, rocemu_ns_t now);

/** Change the backlog (listen() called again). */
void cm_listener_set_backlog(struct cm_listener *l, uint32_t backlog);

/* ---- connections ---- */

/**
 * States of a connection (IBTA 12.9). A connection is made by cm_connect() or by the event of a
 * REQ, then belongs to the consumer in every state, IDLE too, until cm_conn_destroy(). The IDs of
 * LAP's are beside it.
 */
/* clang-format off */
#define CM_STATES(X)                                                           \
	X(IDLE)          /* over, and time wait too */                         \
	X(REQ_SENT)      /* active side; waits for REP */                      \
	X(MRA_REQ_RCVD)  /* the same, after an MRA of the peer */               \
	X(REQ_RCVD)      /* passive side; the consumer must decide */         \
	X(MRA_REQ_SENT)  /* the same, after an MRA sent here */                     \
	X(REP_SENT)      /* passive side; waits for RTU */                     \
	X(MRA_REP_RCVD)  /* the same, after an MRA of the peer */               \
	X(REP_RCVD)      /* active side; the consumer must call cm_rtu() */    \
	X(MRA_REP_SENT)  /* the same, after an MRA sent here */                     \
	X(ESTABLISHED)                                                         \
	X(DREQ_SENT)     /* waits for DREP */                                  \
	X(DREQ_RCVD)     /* the consumer must call cm_drep() */                \
	X(TIMEWAIT)      /* until no packet of it can be in flight */
/* clang-format on */

enum cm_state {
#define X(name) CM_##name,
	CM_STATES(X)
#undef X
		CM_STATE_COUNT
};

/** "REQ_SENT" and so on, static; "unknown" for numbers outside the enumeration. */
const char *cm_state_text(enum cm_state state);

/**
 * Fill in the defaults of a REQ to a RoCEv2 peer: permissive LIDs, default timeouts and retries,
 * P_Key 0xffff, hop limit 64, path MTU 1024, RC, all else 0. The caller fills in service_id,
 * local_qpn, starting_psn, primary GIDs, ....
 *
 * starting_psn is what the receiver of the message puts into its first request, so what our QP
 * expects (rq_psn); the sq_psn of our QP is the starting_psn of the peer's message. It is so in REQ
 * and REP.
 */
void cm_req_init(struct rocemu_cm_req *req);

struct cm_connect_param {
	struct rocemu_cm_req req; /* local_comm_id, local_ca_guid and private_data are filled in */
	struct cm_addr addr;	  /* own address is src */
	const void *private_data; /* borrowed for the call; may be NULL */
	size_t private_data_len;
	bool peer_to_peer; /* the peer may send a REQ for the same service instead of answering this
			    * one
			    */
	void *user;
};

/**
 * Send a REQ: REQ_SENT. Retried req.max_cm_retries times; a timeout is req.remote_cm_timeout plus
 * twice the packet lifetime (derived from the ACK timeout of the primary path).
 *
 * Peer to peer: when a REQ for the same service comes from the same address, the side with the
 * larger CA GUID, then QPN, stays the active side; the other becomes passive: it gets CM_EV_REQ for
 * this connection, whose answer is cm_accept() or cm_reject(). A REJ with reason "no such service"
 * means "not yet". The driver must ensure that REQs for the service reach this process.
 */
int cm_connect(struct cm *cm, rocemu_ns_t now, const struct cm_connect_param *param,
	       struct cm_conn **conn);

/**
 * Answer a REQ (REQ_RCVD, MRA_REQ_SENT): REP_SENT. Of *rep, communication IDs, CA GUID and private
 * data are filled in here. Repeated until RTU, MRA or REJ comes, at most the REQ's max_cm_retries
 * times.
 */
int cm_accept(struct cm_conn *c, rocemu_ns_t now, const struct rocemu_cm_rep *rep,
	      const void *private_data, size_t len);

/** Confirm a REP (REP_RCVD, MRA_REP_SENT): ESTABLISHED. */
int cm_rtu(struct cm_conn *c, rocemu_ns_t now, const void *private_data, size_t len);

/**
 * Refuse (REQ_RCVD, MRA_REQ_SENT, REP_RCVD, MRA_REP_SENT) or give up (REQ_SENT, MRA_REQ_RCVD,
 * REP_SENT, MRA_REP_RCVD): TIMEWAIT from REP on, else IDLE. ari may be NULL.
 */
int cm_reject(struct cm_conn *c, rocemu_ns_t now, uint16_t reason, const void *ari, size_t ari_len,
	      const void *private_data, size_t len);

/**
 * Send an MRA: the peer waits 4.096 us * 2^service_timeout longer. Allowed in REQ_RCVD, REP_RCVD,
 * and for a LAP that waits for cm_apr(). With CM_MRA_LATER in service_timeout the MRA is sent only
 * when the peer's message comes again: no cost while the answer is in time. The state changes at
 * once in both cases.
 */
int cm_mra(struct cm_conn *c, rocemu_ns_t now, uint8_t service_timeout, const void *private_data,
	   size_t len);

/**
 * Data has come before the RTU (IBV_EVENT_COMM_EST): REP_SENT, MRA_REP_RCVD become ESTABLISHED
 * without an event.
 * @return 0 it is now; 1 it was already.
 */
int cm_establish(struct cm_conn *c, rocemu_ns_t now);

/** Send a DREQ (ESTABLISHED): DREQ_SENT. It ends with CM_EV_DREP or CM_EV_TIMEOUT: TIMEWAIT. */
int cm_disconnect(struct cm_conn *c, rocemu_ns_t now, const void *private_data, size_t len);

/** Answer a DREQ (DREQ_RCVD): TIMEWAIT. */
int cm_drep(struct cm_conn *c, rocemu_ns_t now, const void *private_data, size_t len);

/**
 * Propose an alternate path (ESTABLISHED, no other proposal under way), with timeout
 * remote_cm_timeout (exponent). CM_EV_APR or CM_EV_TIMEOUT ends it; after the latter the connection
 * is still established.
 */
int cm_lap(struct cm_conn *c, rocemu_ns_t now, const struct rocemu_cm_path *alternate,
	   uint8_t remote_cm_timeout, const void *private_data, size_t len);

/** Answer a LAP (ESTABLISHED, after CM_EV_LAP). */
int cm_apr(struct cm_conn *c, rocemu_ns_t now, uint8_t status, const void *info, size_t info_len,
	   const void *private_data, size_t len);

/**
 * The consumer has finished with c, which becomes invalid; its events that were not taken are
 * dropped. The messages that the peer needs are still sent and repeated: REJ TIMEOUT in REQ_SENT
 * and MRA_REQ_RCVD; REJ CONSUMER from REQ_RCVD to MRA_REP_SENT; DREQ when ESTABLISHED; DREP in
 * DREQ_RCVD. The manager keeps the connection for late duplicates as long as the standard requires
 * (TIMEWAIT).
 */
void cm_conn_destroy(struct cm_conn *c, rocemu_ns_t now);

/**
 * The consumer has no memory for a request (REQ_RCVD) now: c is gone as if the REQ had been lost.
 * The peer sends it again, and that is a new request.
 */
void cm_conn_forget(struct cm_conn *c);

/**
 * The program has seen the request: it no longer counts in its listener's backlog and in
 * max_half_open. Without this call it counts until it is accepted, rejected or destroyed. For a
 * consumer that queues events for its program.
 */
void cm_conn_seen(struct cm_conn *c);

enum cm_state cm_conn_state(const struct cm_conn *c);
uint32_t cm_conn_local_id(const struct cm_conn *c);
uint32_t cm_conn_remote_id(const struct cm_conn *c); /* 0: not known yet */
/** The user pointer of events; those of a REQ's connection are NULL until it is set. */
void cm_conn_set_user(struct cm_conn *c, void *user);
void *cm_conn_user(const struct cm_conn *c);
/** True on the side that sent the REQ that counts. */
bool cm_conn_active(const struct cm_conn *c);
/** REQ and REP of the connection as they were sent or received, borrowed as long as it lives; the
 * REP's local_comm_id is 0 as long as there is none. */
const struct rocemu_cm_req *cm_conn_req(const struct cm_conn *c);
const struct rocemu_cm_rep *cm_conn_rep(const struct cm_conn *c);
/** Addressing of MADs to the peer: src is the own address. Borrowed as long as it lives. */
const struct cm_addr *cm_conn_addr(const struct cm_conn *c);
/** The listener that got its REQ; NULL: none, or it is gone. */
struct cm_listener *cm_conn_listener(const struct cm_conn *c);

/* ---- service ID resolution ---- */

struct cm_sidr_param {
	uint64_t service_id;
	uint16_t pkey;
	uint8_t timeout; /* of one try, 4.096 us * 2^timeout; CM_DEFAULT_TIMEOUT is the kernel's */
	uint8_t retries; /* CM_DEFAULT_RETRIES is the kernel's */
	struct cm_addr addr;	  /* own address is src */
	const void *private_data; /* borrowed for the call; may be NULL */
	size_t private_data_len;
	void *user;
};

/** Resolve a service to its QP. Ends with CM_EV_SIDR_REP or CM_EV_TIMEOUT. Free with
 * cm_sidr_destroy(). */
int cm_sidr_request(struct cm *cm, rocemu_ns_t now, const struct cm_sidr_param *param,
		    struct cm_sidr **sidr);

/** Answer CM_EV_SIDR_REQ, once. status: enum rocemu_cm_sidr_status. */
int cm_sidr_reply(struct cm_sidr *s, rocemu_ns_t now, uint8_t status, uint32_t qpn, uint32_t qkey,
		  const void *info, size_t info_len, const void *private_data, size_t len);

/**
 * The consumer has finished with it (one that was not answered is rejected). The manager still
 * answers duplicates of the request for a while.
 */
void cm_sidr_destroy(struct cm_sidr *s, rocemu_ns_t now);

/** As cm_conn_seen(). */
void cm_sidr_seen(struct cm_sidr *s);

void cm_sidr_set_user(struct cm_sidr *s, void *user);
void *cm_sidr_user(const struct cm_sidr *s);
/** Is it an active one without an answer or a timeout so far? */
bool cm_sidr_waits(const struct cm_sidr *s);
uint32_t cm_sidr_id(const struct cm_sidr *s);		     /* its request ID */
const struct cm_addr *cm_sidr_addr(const struct cm_sidr *s); /* src is the own address */

/* ---- events ---- */

/* clang-format off */
#define CM_EVENTS(X)                                                           \
	X(REQ)       /* conn is new and the consumer's: accept or reject it (peer to peer: conn is known) */ \
	X(MRA)       /* an MRA of the peer came */                             \
	X(REP)       /* answer with cm_rtu() or cm_reject() */                 \
	X(RTU)       /* passive side: established */                           \
	X(REJ)       /* the peer refused: IDLE or TIMEWAIT; the reason is in msg.rej */ \
	X(DREQ)      /* the peer disconnects: answer with cm_drep() */         \
	X(DREP)      /* our DREQ was answered (also when both sent one): TIMEWAIT */ \
	X(LAP)       /* answer with cm_apr() */                                \
	X(APR)                                                                 \
	X(TIMEOUT)   /* all retries of a message are spent, which msg.attr_id identifies. \
			REQ: IDLE; REP, DREQ: TIMEWAIT; LAP: still established; SIDR_REQ */ \
	X(TIMEWAIT_EXIT) /* IDLE: QPN and communication IDs may be used again */ \
	X(SIDR_REQ)  /* sidr is new and the consumer's: cm_sidr_reply() it */  \
	X(SIDR_REP)
/* clang-format on */

enum cm_event_type {
#define X(name) CM_EV_##name,
	CM_EVENTS(X)
#undef X
		CM_EV_COUNT
};

/** "REQ" and so on, static; "unknown" for numbers outside the enumeration. */
const char *cm_event_text(enum cm_event_type type);

struct cm_event {
	enum cm_event_type type;
	enum cm_state state;	      /* of the connection, when the event was made */
	struct cm_listener *listener; /* REQ, SIDR_REQ: whose; else NULL */
	struct cm_conn *conn;	      /* NULL for SIDR events */
	struct cm_sidr *sidr;	      /* NULL for all others */
	void *user; /* of conn or sidr, as it is now; of the listener for REQ and SIDR_REQ (peer to
		     * peer: of conn) */
	struct cm_addr addr;	  /* of the MAD: src is the peer. TIMEOUT, TIMEWAIT_EXIT: unset */
	struct rocemu_cm_msg msg; /* the message, private data included. TIMEOUT: only attr_id */
	int error; /* TIMEOUT: the error passed to cm_unreachable(); 0: no answer to any try */
};

/** Take the oldest event. All in *ev is a copy but the objects. @return false: there is none. */
bool cm_next_event(struct cm *cm, struct cm_event *ev);

/* ---- exit MADs ---- */

/**
 * The MAD to send for a connection if its process dies: REJ TIMEOUT, REJ CONSUMER, DREQ or DREP as
 * for cm_conn_destroy(). @return true: *mad is filled; false: nothing is to be sent in this state.
 */
bool cm_conn_exit_mad(const struct cm_conn *c, struct cm_mad *mad);

struct cm_exit_mad {
	uint32_t comm_id; /* local communication ID */
	bool present;	  /* false: comm_id has none any more */
	struct cm_mad mad;
};

/**
 * Take the next exit MAD that has changed since it was last taken. Only with config.exit_mads.
 * @return false: none has.
 */
bool cm_next_exit_mad(struct cm *cm, struct cm_exit_mad *exit_mad);

#endif
