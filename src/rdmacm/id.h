/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declares IDs: the public part of <rdma/rdma_cma.h>, then private members. Programs use an ID from
 * one thread at a time, and this library's thread uses it only as its state allows; members used by
 * both are guarded by the lock.
 */
#ifndef RDMACM_ID_H
#define RDMACM_ID_H

#include "cm/cm.h"
#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/timer.h"

enum rcm_state {
	RCM_IDLE,
	RCM_BOUND,
	RCM_ADDR_QUERY, /* waits for a neighbour */
	RCM_ADDR_RESOLVED,
	RCM_ROUTE_RESOLVED,
	RCM_CONNECT, /* from rdma_connect() or a request on */
	RCM_DISCONNECTED,
	RCM_LISTEN,
};

struct rcm_id {
	struct rdma_cm_id base; /* first: what programs see */
	bool sync;		/* base.channel is the library's own, and calls wait */
	enum rcm_state state;
	struct list events; /* rcm_event.node: posted or with the program, of this owner */
	struct rcm_event own_events[RCM_OWN_EVENTS]; /* guarded by the lock */
	struct rcm_local local;			     /* local.dev NULL: not bound to a device */
	struct list on_device;			     /* in local.dev->ids */
	bool address_lost;   /* local.gid is no longer the device's; ADDR_CHANGE reported it */
	bool removed;	     /* the device is gone, and the ID's CM objects as well */
	unsigned generation; /* the core's (core.c) that has what follows; 0: none */
	bool bound;	     /* bind_key is a port taken from the agent */
	uint32_t bind_key;

	/* connection manager; at most one of them */
	struct cm_listener *cml;
	struct cm_conn *conn;
	struct cm_sidr *sidr;

	bool unaccepted; /* of a request, until the program accepts it: it gets no events */
	uint8_t responder_resources, initiator_depth; /* of the local QP */
	uint8_t retry_count, rnr_retry_count;	      /* of the local QP */
	/* The contents of a request, and when a refused one is repeated (rej-retry.c). */
	uint8_t request_data[ROCEMU_CM_SIDR_REQ_PRIVATE_LEN];
	size_t request_len;
	struct rcm_timer retry;
	unsigned retries;
	/* rdma_resolve_addr() waits for a neighbour (resolve.c). */
	struct {
		struct rcm_timer timer;
		struct sockaddr_storage to;
		struct rcm_local from;
		rocemu_ns_t pause, until;
	} resolving;
	/* DISCONNECTED waits for completions to be polled (drain.c). */
	struct {
		struct rcm_timer timer;
		unsigned looks;
	} drain;
	/* Called before the next event is posted; or NULL. */
	void (*before_event)(struct rcm_id *id);
	bool leaving;	    /* rdma_disconnect() was called */
	uint32_t local_qpn; /* as sent to the peer; 0: not yet */
	uint32_t psn;	    /* starting PSN of the receive direction */
	bool disconnect_reported;

	/* options */
	uint8_t tos;
	bool reuseaddr;
	signed char afonly; /* -1: not set */
	uint8_t ack_timeout;
	bool ack_timeout_set;
	struct ibv_ece local_ece,
		remote_ece; /* guarded by the lock, unlike the other members here */

	struct list groups; /* rcm_group */
	struct ibv_sa_path_rec path_rec;

	/* rdma_resolve_addrinfo(); guarded by the lock */
	bool resolving_info;	    /* until the program has taken the result */
	struct rdma_addrinfo *info; /* owned: the result, or NULL */

	/* rdma_create_ep() */
	struct ibv_qp_init_attr *qp_init_attr; /* owned, of a listener */
	uint8_t *connect; /* owned: goes before the private data of rdma_connect() */
	size_t connect_len;
};

static inline struct rcm_id *rcm_id_of(struct rdma_cm_id *id)
{
	return (struct rcm_id *)(void *)id; /* base is first; NULL stays */
}

static inline bool rcm_id_is_ud(const struct rcm_id *id)
{
	return id->base.qp_type == IBV_QPT_UD;
}

/** A new ID without a channel. NULL: out of memory. */
struct rcm_id *rcm_id_new(enum rdma_port_space ps, enum ibv_qp_type type, void *context);
/** Is its device gone? */
bool rcm_id_removed(struct rcm_id *id) EXCLUDES(rcm_lock);
/** Release all CM objects of the ID: no more events come for it. Its port stays. */
void rcm_id_stop(struct rcm_id *id) REQUIRES(rcm_lock);
void rcm_id_free(struct rcm_id *id);
/** Fill in the public part of an ID that has its device. */
void rcm_id_set_local(struct rcm_id *id, const struct rcm_local *local) REQUIRES(rcm_lock);

#endif
