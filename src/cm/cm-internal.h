/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared declarations of the connection manager's files. A struct cm owns everything below it. What
 * each file does:
 *
 *     input.c     a MAD came in: which object, which message; answers to what has none
 *     request.c   a REQ came in             setup.c     the calls and messages from REQ to RTU
 *     teardown.c  rejecting, disconnecting, destroying, timeouts, time wait
 *     path.c      LAP and APR               sidr.c      service ID resolution
 *     conn.c      the connection object, its tables       listen.c    listeners
 *     xchg.c      sending and repeating       id.c        identifiers, addresses
 *     event.c, exit-mad.c
 *
 * A connection's state changes in conn_set_state() alone.
 */
#ifndef CM_CM_INTERNAL_H
#define CM_CM_INTERNAL_H

#include "base/hash.h"
#include "base/list.h"
#include "base/prf.h"
#include "base/share.h"
#include "cm/cm.h"
#include "cm/xchg.h"
#include "transport/timer.h"

enum {
	CM_ID_COUNT = 1 << CM_ID_PREFIX_SHIFT,
	CM_ANSWERS = 64, /* answers without a connection that may wait to be sent */
	CM_UNASKED = 16, /* see xchg_may_repeat() */
	CM_UNASKED_PERIOD_NS = 1000000000,
	CM_EARNED = 4, /* more for each connection that the peer has completed */
	CM_EARNED_MAX = 65535,
	CM_DEFAULT_HALF_OPEN = 4096,
	CM_DEFAULT_LINGERING = 8192,
	CM_EVENT_RETRY_NS =
		1000000, /* delay of another try when there is no memory for a timeout's event */
};

/**
 * Only functions with these names allocate and free (test/layering/symbols.py), so they must not be
 * inlined into their callers.
 */
#define CM_HEAP __attribute__((noinline))

struct cm {
	struct cm_config cfg;
	struct prf prf;		  /* of IDs, and of the hash: peers choose what is hashed */
	uint32_t next_id;	  /* counts communication and request IDs */
	struct timer_heap timers; /* of xchg.timer */
	struct list tx;		  /* of xchg.tx_link: exchanges with something to send, in order */
	struct list events;	  /* of event.link, oldest first; owned */
	struct list exit_mads;	  /* of cm_conn.exit_link: those that changed */
	struct list lingering[SHARE_CELLS]; /* of xchg.linger_link: detached, by the peer's cell,
					       oldest first */
	struct share lingerers;
	uint64_t unasked_second; /* the period that `unasked` counts */
	uint8_t unasked[SHARE_CELLS];
	uint16_t earned[SHARE_CELLS]; /* see xchg_answered() */
	struct share half_open;	      /* requests that wait for their consumer */
	struct list listeners;	      /* of cm_listener.link; owned */
	struct hash by_id;	  /* of cm_conn.id_link, all; by local communication ID; owned */
	struct hash by_remote;	  /* of cm_conn.remote_link, by remote communication ID, GUID and
				     address */
	struct hash by_qpn;	  /* of cm_conn.qpn_link, by remote QPN, GUID and address */
	struct hash sidrs_active; /* of cm_sidr.link, active ones; by request ID; owned */
	struct hash
		sidrs; /* of cm_sidr.link, passive ones; by request ID, address and TID; owned */
	struct list peers; /* of cm_conn.peer_link: peer to peer, in REQ_SENT or MRA_REQ_RCVD */
	struct cm_mad answers[CM_ANSWERS]; /* ring */
	uint32_t answer_first, answer_count;
	struct cm_stats stats;
};

struct cm_listener {
	struct cm *cm; /* borrowed */
	struct list link;
	struct list conns; /* of cm_conn.listener_link */
	struct list sidrs; /* of cm_sidr.listener_link */
	struct cm_listen_param p;
	struct share waiting; /* requests that its consumer has not decided on */
};

/** Alternate paths, beside the state (IBTA 12.8): one proposal at a time each way. */
enum lap_state { LAP_NONE, LAP_SENT, LAP_RCVD };

enum exit_kind { EXIT_NONE, EXIT_REJ_TIMEOUT, EXIT_REJ, EXIT_DREQ, EXIT_DREP };

struct cm_conn {
	struct xchg x;
	struct hash_node id_link, remote_link, qpn_link;
	struct list peer_link, listener_link, exit_link;
	struct cm_listener *listener; /* borrowed until it is freed, which sets this to NULL */
	enum cm_state state;
	enum lap_state lap;
	enum exit_kind exit; /* as required by the state */
	bool exit_reported;  /* cm_next_exit_mad() last reported it as present */
	bool active;	     /* we sent the REQ that counts */
	bool peer_to_peer;
	bool agreed;	  /* the peer has closed the connection: its late messages need no answer */
	bool lap_delayed; /* LAP_SENT: the peer sent an MRA */
	bool half_open;	  /* counts in cm->half_open and listener->waiting */
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn;
	uint64_t remote_guid;
	uint64_t tid;		/* of the exchange under way that the peer began */
	uint64_t req_tid;	/* of the REQ; its MRA, REP and RTU repeat it, and a REJ */
	uint64_t own_tid;	/* random: base of the transaction IDs of requests sent here, see
				   conn_dreq_tid() */
	uint32_t lap_count;	/* LAPs sent: gives each a transaction ID of its own */
	uint64_t lap_tid;	/* of the one sent last */
	uint64_t lap_sum;	/* of the LAP answered last, see path.c */
	rocemu_ns_t timeout_ns; /* between two tries */
	rocemu_ns_t life_ns;	/* twice a packet's life time, from the ACK timeout */
	uint8_t max_retries;
	uint16_t peer_sport; /* UDP source port of the peer's REQ or REP; 0: not known */
	struct rocemu_cm_req req;
	struct rocemu_cm_rep rep;
};

struct cm_sidr {
	struct xchg x;
	struct hash_node link;
	struct list listener_link;
	struct cm_listener *listener; /* as of a connection; passive side */
	bool active;
	bool answered;
	bool half_open;
	uint32_t id; /* request ID: the local one or the peer's */
	uint64_t service_id;
	uint64_t tid;
};

/* id.c */
/** A local ID, as a table's key. */
uint64_t cm_key(const struct cm *cm, uint32_t id);
/**
 * The same of values that a peer chose: a number, another one that distinguishes its objects, and
 * its address.
 */
uint64_t cm_key_peer(const struct cm *cm, uint32_t number, uint64_t other,
		     const struct rocemu_gid *peer);
/** Cell of a peer, from which MADs come, in struct share. */
unsigned cm_cell(const struct cm *cm, const struct rocemu_gid *peer, uint16_t sport);
/** A new communication or request ID. */
uint32_t cm_id_next(struct cm *cm);
/** The n-th communication or request ID, less its prefix: each once in CM_ID_COUNT. */
uint32_t cm_id_nth(const struct cm *cm, uint32_t n);
/** An unpredictable transaction ID. */
uint64_t cm_tid_next(struct cm *cm);
/** Turned around: the addressing of an answer. */
struct cm_addr cm_addr_back(const struct cm_addr *from);
/** Copy what a message has room for. @return 0, or -EMSGSIZE: nothing was written. */
int cm_fill(uint8_t *to, size_t room, const void *data, size_t len);
/** A MAD came from the peer of x, to the address that x has here. */
bool cm_from_peer(const struct xchg *x, const struct cm_addr *from);

/* xchg.c */
/**
 * Queue an answer that belongs to no object, to the sender of a message. It is dropped when too
 * many wait: the peer sends its message again.
 */
void cm_answer_stray(struct cm *cm, const struct cm_addr *from, const struct rocemu_cm_msg *m);

/* event.c */
struct event;
/** @return memory for an event, or NULL. To be given to event_post(). */
CM_HEAP struct event *event_new(void);
/** Of a CM_EV_TIMEOUT: why. Before event_post(). */
void event_set_error(struct event *e, int error);
CM_HEAP void event_free(struct event *e);
/** An event of a connection or SIDR; m and from may be NULL. */
void event_post(struct event *e, enum cm_event_type type, struct xchg *x,
		const struct rocemu_cm_msg *m, const struct cm_addr *from);
/** Remove the events of x that were not taken. */
void event_forget(struct cm *cm, struct xchg *x);
/** An event of that type was not taken. */
bool event_waits(const struct cm *cm, const struct xchg *x, enum cm_event_type type);
void event_list_fini(struct cm *cm);

/* conn.c */
CM_HEAP struct cm_conn *conn_new(struct cm *cm, const struct cm_addr *addr, bool active);
CM_HEAP void conn_free(struct cm_conn *c);
struct cm_conn *conn_find(const struct cm *cm, uint32_t local_id);
/** By the peer's communication ID. */
struct cm_conn *conn_find_remote(const struct cm *cm, uint32_t remote_id, uint64_t guid,
				 const struct rocemu_gid *peer);
/** The connection in which the peer's QP is. */
struct cm_conn *conn_find_qpn(const struct cm *cm, uint32_t qpn, uint64_t guid,
			      const struct rocemu_gid *peer);
/** The peer's communication ID and QP are known from now on. */
void conn_set_remote(struct cm_conn *c, uint32_t remote_id, uint64_t guid, uint32_t qpn);
/** Do not find it by the peer's communication ID any more. */
void conn_forget_remote(struct cm_conn *c);
void conn_set_state(struct cm_conn *c, enum cm_state state);
/** The REQ of the connection is known: take this side's intervals and retries from it. */
void conn_set_times(struct cm_conn *c);
/** A REQ waits for its consumer from now on. */
void conn_undecided(struct cm_conn *c);
/** The consumer has decided on it. */
void conn_decided(struct cm_conn *c);
void conn_settle(struct cm_conn *c);

/* teardown.c */
/** Over, without time wait. */
void conn_close(struct cm_conn *c);
/** The REJ to send when the consumer is gone or has not answered. */
void conn_rej_default(const struct cm_conn *c, uint16_t reason, struct rocemu_cm_rej *rej);
void conn_send_dreq(struct cm_conn *c, rocemu_ns_t now, const struct rocemu_cm_dreq *dreq);
void conn_expire(struct cm_conn *c, rocemu_ns_t now);
/** See cm_unreachable(). */
bool conn_unreachable(struct cm *cm, uint32_t local_id, int error);
enum cm_drop conn_input_rej(struct cm *cm, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from);
enum cm_drop conn_input_dreq(struct cm *cm, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			     const struct cm_addr *from);
enum cm_drop conn_input_drep(struct cm_conn *c, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			     const struct cm_addr *from);

/** Transaction ID of our DREQ. Those of LAPs follow. */
static inline uint64_t conn_dreq_tid(const struct cm_conn *c)
{
	return c->own_tid + 1;
}

/* request.c, setup.c, path.c: a message came in */
enum cm_drop conn_input_req(struct cm *cm, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from);
enum cm_drop conn_input_rep(struct cm *cm, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from);
enum cm_drop conn_input_rtu(struct cm_conn *c, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from);
enum cm_drop conn_input_mra(struct cm *cm, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from);
enum cm_drop conn_input_lap(struct cm *cm, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from);
enum cm_drop conn_input_apr(struct cm_conn *c, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from);
/** A REJ to a message that has no connection here, or none any more. */
void cm_rej_stray(struct cm *cm, const struct cm_addr *from, const struct rocemu_cm_msg *m,
		  uint16_t reason);

/* listen.c */
/** The most specific listener for a request to dst, or NULL. */
struct cm_listener *listener_find(const struct cm *cm, uint64_t service_id,
				  const struct rocemu_gid *dst, const uint8_t *private_data,
				  size_t len);
/** May one more request from this address wait for the consumer's decision? */
bool listener_has_room(const struct cm_listener *l, const struct cm_addr *from);
/**
 * The listener has no room. Should the peer be rejected? A peer with no request waiting is not,
 * since other sources took its share: it tries again.
 */
bool listener_refuses(const struct cm_listener *l, const struct cm_addr *from);
/** Count a request that waits; l may be NULL when it does not any more. */
void listener_count(struct cm *cm, struct cm_listener *l, unsigned cell, bool waits);
CM_HEAP void listener_free(struct cm_listener *l);

/* sidr.c */
enum cm_drop sidr_input_req(struct cm *cm, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from);
enum cm_drop sidr_input_rep(struct cm *cm, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from);
/** Answer a SIDR_REQ that gets no object. */
void sidr_rep_stray(struct cm *cm, const struct cm_addr *from, const struct rocemu_cm_msg *m,
		    uint8_t status);
/** See cm_unreachable(). */
bool sidr_unreachable(struct cm *cm, uint32_t id, int error);
void sidr_expire(struct cm_sidr *s, rocemu_ns_t now);
void sidr_settle(struct cm_sidr *s);
CM_HEAP void sidr_free(struct cm_sidr *s);

#endif
