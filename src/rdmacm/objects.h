/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects behind the drop-in librdmacm: each begins with what <rdma/rdma_cma.h> shows of it,
 * then comes ours. The protocol is the connection manager's (src/cm), MADs go through the agent
 * (agent/client-gsi.h), and of verbs only public calls are used, so that an ID works on whatever
 * device has its address.
 *
 * Whose thread does what: calls act on the caller's thread under the one lock and wait for nothing
 * but the agent's answers. A thread of the process (core.c) receives MADs and keeps time; what
 * comes of that are events, put on channels under the lock. QPs are moved in rdma_get_cm_event()
 * and rdma_accept(), on the program's thread and without the lock: so no call of verbs is made
 * under it.
 *
 * Errors: internal functions return -errno, the exported ones -1 with errno (rcm_ret()).
 */
#ifndef RDMACM_OBJECTS_H
#define RDMACM_OBJECTS_H

/* What these declare is exported: the version script chooses, but it cannot make hidden symbols
 * visible. */
#pragma GCC visibility push(default)
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* Of newer versions of rdma_cma.h; exported where the system's library has them. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);
#pragma GCC visibility pop

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/evq.h"
#include "base/list.h"
#include "base/util.h"
#include "cm/cm.h"
#include "fault/verb.h"
#include "rdmacm/lock.h"
#include "rdmacm/timer.h"

enum {
	RCM_PRIVATE_MAX = 224,	/* longest private data of any message */
	RCM_BACKLOG = 4096,	/* requests that wait at a listener, see listen_locked() */
	RCM_HALF_OPEN = 16384,	/* the same of all listeners of the process */
	RCM_HOP_LIMIT = 64,
	RCM_PKEY = 0xffff,
	RCM_MRA_TIMEOUT = 24,	      /* 4.096 us * 2^24: 69 s */
	RCM_DEFAULT_PACKET_LIFE = 18, /* 4.096 us * 2^18: a second; the ACK timeout is one more */
	RCM_MULTICAST_QPN = 0xffffff,
	/* Events that an ID has memory for, whatever else there is none for: address and route, how a
	 * connection comes about, that it is refused after all, how it ends, time wait, removal. */
	RCM_OWN_EVENTS = 7,
};

/** Events of newer versions of rdma_cma.h. */
enum {
	RCM_EVENT_ADDRINFO_RESOLVED = 16,
	RCM_EVENT_ADDRINFO_ERROR = 17,
	RCM_EVENT_USER = 18,
};

/* ---- devices (device.c) ---- */

/** An opened device; lives as long as the process. */
struct rcm_device {
	struct list node;	   /* guarded by device.c's lock */
	struct ibv_context *verbs; /* owned */
	struct ibv_pd *pd;	   /* owned: the default PD */
	struct ibv_xrcd
		*xrcd; /* owned, or NULL as long as nobody asked; guarded by device.c's lock */
	uint64_t guid; /* node GUID as a number */
	unsigned ifindex; /* of its interface; 0: not known */
	uint8_t max_responder_resources, max_initiator_depth;
	/* Of device-watch.c: */
	struct ibv_context *events; /* owned: a second one, for its events; or NULL */
	struct list ids;	   /* rcm_id.on_device; guarded by the lock */
	atomic_uint changes;	   /* how often something of it has changed */
	atomic_bool look_again;	   /* an ID came while something changed */
	atomic_bool gone;
};

struct rcm_id;

/** Where an address is: device, port, index in its GID table. */
struct rcm_local {
	struct rcm_device *dev;
	uint8_t port_num;
	uint8_t sgid_index;
	struct rocemu_gid gid;
	uint32_t scope_id; /* interface index for link-local IPv6, else 0 */
	unsigned changes;  /* the device's, when this was found out */
};

/** An AV from the address towards gid. */
void rcm_local_ah(const struct rcm_local *local, const struct rocemu_gid *gid, uint8_t tclass,
		  struct ibv_ah_attr *ah);
/**
 * Find the device that has an address (port and wildcards do not count).
 * @return 0, -ENODEV: no device has it; -EADDRNOTAVAIL: it is not this host's; or what opening a
 * device said.
 */
int rcm_device_find(const struct sockaddr *sa, struct rcm_local *out);
/** Is the IP address this host's? */
bool rcm_device_is_ours(const struct sockaddr *sa);
/** The first loopback address that a device has, of that family. As rcm_device_find(). */
int rcm_device_find_loopback(int family, struct rcm_local *out);
/** All addresses of all devices. @return how many, *out for the caller to free(); or -errno. */
int rcm_device_addresses(struct rcm_local **out);
/** The node GUID of the first device, by which the process's connection manager calls itself; 0:
 * none. */
uint64_t rcm_device_guid(void);
/**
 * Is its interface still there? The device tells of it a moment later, and by then another
 * interface may have its name and addresses.
 */
bool rcm_device_is_there(const struct rcm_device *dev);
/** The addresses of one device now. As rcm_device_addresses(). */
int rcm_device_table(struct rcm_device *dev, struct rcm_local **out);
/** The devices that were opened, one after another; NULL: the first, at the end. */
struct rcm_device *rcm_device_next(struct rcm_device *after);
/** The device's default XRC domain. NULL with errno. */
struct ibv_xrcd *rcm_device_xrcd(struct rcm_device *dev);
/** Readable when a device has changed. -1: there is none. */
int rcm_device_events_fd(void);
/** In a forked child: devices were the parent's. */
void rcm_device_forget(void);

/* ---- what becomes of them (device-watch.c) ---- */

/** Devices or the network have changed: report it to the IDs that it concerns. */
void rcm_device_watch_run(void) EXCLUDES(rcm_lock);
/** From now on QP 1 of addresses that come is opened too, since a wildcard listens. */
void rcm_device_watch_network(void) REQUIRES(rcm_lock);
/** In a forked child. */
void rcm_watch_forget(void);

/* ---- channels and events (channel.c) ---- */

struct rcm_channel {
	struct rdma_event_channel base; /* first; fd is q's */
	struct evq q;
};

struct rcm_event {
	struct rdma_cm_event base; /* first */
	struct evq_source src;
	struct list node; /* in owner->events, from post to ack */
	struct rcm_id
		*owner; /* whose it counts as: the listener for CONNECT_REQUEST, else base.id */
	/* Called when the program takes the event, before it sees it, without the lock; or NULL. The owner
	 * cannot go meanwhile: the event is not acknowledged. */
	void (*on_take)(struct rcm_event *ev);
	struct rcm_group *group; /* of a multicast event */
	bool own;		 /* in its owner's memory, not the heap's */
	bool used;		 /* own: from the making to the acknowledgement */
	uint8_t private_data[RCM_PRIVATE_MAX];
};

/* ---- IDs ---- */

enum rcm_state {
	RCM_IDLE,
	RCM_BOUND,
	RCM_ADDR_QUERY, /* waits for a neighbour (neigh.c) */
	RCM_ADDR_RESOLVED,
	RCM_ROUTE_RESOLVED,
	RCM_CONNECT, /* from rdma_connect() or a request on */
	RCM_DISCONNECTED,
	RCM_LISTEN,
};

/** A multicast group joined by an ID. */
struct rcm_group {
	struct list node; /* in rcm_id.groups */
	union ibv_gid mgid;
	void *context;
	bool send_only;
	bool attached;
};

struct rcm_id {
	struct rdma_cm_id base; /* first: what programs see */
	bool sync;		/* base.channel is our own, and calls wait */
	enum rcm_state state;
	struct list events;	/* rcm_event.node: posted or with the program, of this owner */
	struct rcm_event own_events[RCM_OWN_EVENTS]; /* guarded by the lock */
	struct rcm_local local; /* local.dev NULL: not bound to a device */
	struct list on_device;	/* in local.dev->ids */
	bool address_lost;	/* local.gid is not the device's any more; ADDR_CHANGE said so */
	bool removed;		/* the device is gone; what the ID had of CM and agent as well */
	unsigned generation;	/* the core's (core.c) that has what follows; 0: none */
	bool bound;		/* bind_key is a port taken from the agent */
	uint32_t bind_key;

	/* connection manager; at most one of them */
	struct cm_listener *cml;
	struct cm_conn *conn;
	struct cm_sidr *sidr;

	bool unaccepted; /* of a request that the program has not accepted: there are no events of it */
	uint8_t responder_resources, initiator_depth; /* of the local QP */
	uint8_t retry_count, rnr_retry_count;	      /* of the local QP */
	/* What a request carried, and when a refused one is made again (rej-retry.c). */
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
	void (*before_event)(struct rcm_id *id); /* called before the next event is posted; or NULL */
	bool leaving;	    /* rdma_disconnect() was called */
	uint32_t local_qpn; /* as the peer was told it; 0: not yet */
	uint32_t psn; /* starting PSN of what we receive */
	uint32_t qkey;
	bool disconnect_reported;

	/* options */
	uint8_t tos;
	bool reuseaddr;
	signed char afonly; /* -1: not said */
	uint8_t ack_timeout;
	bool ack_timeout_set;
	struct ibv_ece local_ece, remote_ece; /* guarded by the lock, unlike the rest here */

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
	return container_of(id, struct rcm_id, base);
}

static inline bool rcm_id_is_ud(const struct rcm_id *id)
{
	return id->base.qp_type == IBV_QPT_UD;
}

static inline struct rcm_channel *rcm_channel_of(struct rdma_event_channel *ch)
{
	return container_of(ch, struct rcm_channel, base);
}

/** -errno to the API's convention; 0 stays. */
static inline int rcm_ret(int err)
{
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

/** What a call of verbs that returns an errno, or -1 with errno, or 0 said, as 0 or -errno. */
static inline int rcm_verbs_err(int ret)
{
	return ret == 0 ? 0 : ret < 0 ? -errno : -ret;
}

/* channel.c */
struct rcm_channel *rcm_channel_new(void);
/** Make an event for id, for whoever can do without. NULL: out of memory. */
struct rcm_event *rcm_event_new(struct rcm_id *id, enum rdma_cm_event_type type, int status);
/**
 * Make one that the program waits for: in the ID's own memory, and in other only when more than
 * RCM_OWN_EVENTS are not acknowledged. NULL (said in the log): of that there is none.
 */
struct rcm_event *rcm_event_own(struct rcm_id *id, enum rdma_cm_event_type type, int status)
	REQUIRES(rcm_lock);
/** Free one that is in no list. */
void rcm_event_free(struct rcm_event *ev);
/** Copy private data and point the event's to it; ud: into param.ud. */
void rcm_event_private(struct rcm_event *ev, bool ud, const void *data, size_t len);
/** Put it on its owner's channel. */
void rcm_event_post(struct rcm_event *ev) REQUIRES(rcm_lock);
/** rcm_event_own() and post, without further data. */
void rcm_event_report(struct rcm_id *id, enum rdma_cm_event_type type, int status) REQUIRES(rcm_lock);
/** Move the ID's events that the program has not taken to a list. */
void rcm_events_withdraw(struct rcm_id *id, struct list *taken) REQUIRES(rcm_lock);
/** Wait until those that it has taken are acknowledged. */
void rcm_events_wait(struct rcm_id *id) REQUIRES(rcm_lock);
/** Drop the events of a multicast group that wait; those that the program has are waited for. */
void rcm_events_drop_group(struct rcm_id *id, const struct rcm_group *group) REQUIRES(rcm_lock);
/** Move what waits to another channel; before, wait until what the program has is acknowledged. */
void rcm_events_move(struct rcm_id *id, struct rcm_channel *to) REQUIRES(rcm_lock);
/** A synchronous ID waits for the outcome of a call: base.event. Lock not held. -1 with errno. */
int rcm_sync_wait(struct rcm_id *id) EXCLUDES(rcm_lock);
/** Acknowledge base.event of a synchronous ID, if there is one. */
void rcm_sync_ack(struct rcm_id *id) EXCLUDES(rcm_lock);

/* id.c */
/** A new ID without a channel. NULL: out of memory. */
struct rcm_id *rcm_id_new(enum rdma_port_space ps, enum ibv_qp_type type, void *context);
/** Is its device gone? */
bool rcm_id_removed(struct rcm_id *id) EXCLUDES(rcm_lock);
/** Give back all that the ID has of CM and agent: nothing comes for it any more. */
void rcm_id_stop(struct rcm_id *id) REQUIRES(rcm_lock);
void rcm_id_free(struct rcm_id *id);
/** Fill in what programs see of an ID that has its device. */
void rcm_id_set_local(struct rcm_id *id, const struct rcm_local *local) REQUIRES(rcm_lock);

/* addr.c */
socklen_t rcm_addr_len(const struct sockaddr *sa); /* 0: none of AF_INET, AF_INET6, AF_IB */
bool rcm_addr_any(const struct sockaddr *sa);
bool rcm_addr_loopback(const struct sockaddr *sa);
bool rcm_addr_multicast(const struct sockaddr *sa);
bool rcm_addr_link_local(const struct sockaddr *sa); /* of IPv6 */
uint16_t rcm_addr_port(const struct sockaddr *sa);   /* host order */
/** Of AF_INET or AF_INET6. */
void rcm_addr_set_port(struct sockaddr *sa, uint16_t port);
/** The service ID of a destination: its port in the ID's port space, or (AF_IB) what it says. */
uint64_t rcm_addr_service(enum rdma_port_space ps, const struct sockaddr *sa);
/**
 * The service ID that an ID of a port space has when it is bound to an address; its port may be 0.
 * AF_IB names it by value and mask: what the mask leaves open follows the ID's port space, and an
 * ID of RDMA_PS_IB may have one of another port space. -EPROTONOSUPPORT: not one that it may have.
 */
int rcm_addr_own_service(enum rdma_port_space ps, const struct sockaddr *sa, uint64_t *service_id);
uint32_t rcm_addr_scope(const struct sockaddr *sa);
void rcm_addr_to_gid(const struct sockaddr *sa, struct rocemu_gid *gid);
void rcm_addr_from_gid(struct sockaddr *sa, const struct rocemu_gid *gid, uint16_t port,
		       uint32_t scope);
/** The IP address and port that an address stands for: itself, but for AF_IB. */
void rcm_addr_ip(const struct sockaddr *sa, struct sockaddr_storage *ip);
/** The address of a GID: an AF_IB one if family says so, else that of IP, with the ID's port. */
void rcm_addr_make(struct sockaddr *sa, sa_family_t family, const struct rocemu_gid *gid,
		   uint64_t service_id, uint32_t scope);
/** Copy to a sockaddr_storage that is zero beyond it. */
void rcm_addr_copy(struct sockaddr_storage *to, const struct sockaddr *sa);
/** The source address by which the kernel would route to dst; from: one that it must take, or NULL.
 * All of IP. -errno. */
int rcm_addr_route(const struct sockaddr *dst, const struct sockaddr *from,
		   struct sockaddr_storage *src);

/* resolve.c */
int rcm_bind(struct rcm_id *id, const struct sockaddr *sa) EXCLUDES(rcm_lock);
/** Like rdma_resolve_route(), without waiting. -errno. */
int rcm_resolve_route(struct rcm_id *id) EXCLUDES(rcm_lock);

/* qp.c */
/** Move the ID's QP (if it has one) to RTR and RTS for its connection. Lock not held. */
int rcm_qp_connect(struct rcm_id *id) EXCLUDES(rcm_lock);
void rcm_qp_error(struct rcm_id *id) EXCLUDES(rcm_lock);
/** The same for on_take of the ID's events. */
void rcm_qp_error_on_take(struct rcm_event *ev) EXCLUDES(rcm_lock);

/* mcast.c */
/** The ID's QP goes: detach it from its groups. */
void rcm_groups_detach(struct rcm_id *id) EXCLUDES(rcm_lock);
/** Leave all groups. */
void rcm_groups_leave(struct rcm_id *id) EXCLUDES(rcm_lock);

/* request.c */
/** Send the REQ or SIDR_REQ of rdma_connect(). -errno. */
int rcm_request_send(struct rcm_id *id, const struct rdma_conn_param *param) REQUIRES(rcm_lock);
/** Once more, in the place of the one that was refused. -errno. */
int rcm_request_send_again(struct rcm_id *id) REQUIRES(rcm_lock);

/* neigh.c */
/** Does somebody have an IP address, or need not be asked for? If not, asks for him. */
bool rcm_neigh_known(const struct sockaddr *to, const struct rcm_local *from);

/* rej-retry.c */
/** The ID's peer has served us now. */
void rcm_rej_retry_served(const struct rcm_id *id) REQUIRES(rcm_lock);
/** The peer says that there is no such service. @return true: it is asked again later, false: it is
 * to be believed. */
bool rcm_rej_retry(struct rcm_id *id) REQUIRES(rcm_lock);

/* drain.c */
/** The peer ends the connection: post DISCONNECTED when its completions were polled. @return false: post it now. */
bool rcm_drain_begin(struct rcm_id *id) REQUIRES(rcm_lock);
/** Post DISCONNECTED now, if it waits. */
void rcm_drain_end(struct rcm_id *id) REQUIRES(rcm_lock);

/* cm-events.c */
/** Act on an event of the connection manager. */
void rcm_cm_event(struct cm_event *ev) REQUIRES(rcm_lock);
/** The ID loses its way to the peer: say of what was under way that it ended. */
void rcm_cm_abort(struct rcm_id *id, int status) REQUIRES(rcm_lock);

/* ---- core.c ---- */

/** What the core calls; its files are above it. */
struct rcm_core_ops {
	/** Act on an event of the connection manager. Under the lock. */
	void (*cm_event)(struct cm_event *ev);
	/** Devices have changed, or rcm_core_wake() was called. On the thread, without the lock. */
	void (*look)(void);
};

/** Start CM, agent connection and thread if need be, for an ID. guid: see rcm_device_guid().
 * @return 0 or -errno, with a line on stderr. */
int rcm_core_start(struct rcm_id *id, uint64_t guid, const struct rcm_core_ops *ops)
	REQUIRES(rcm_lock);
/** start.c: the same, with the ops. */
int rcm_start(struct rcm_id *id, uint64_t guid) REQUIRES(rcm_lock);
/** Does what the ID has of CM and agent still exist? Not in a process forked since. */
bool rcm_core_has(const struct rcm_id *id) REQUIRES(rcm_lock);
/** The ID is about to have something of the running core. */
void rcm_core_join(struct rcm_id *id) REQUIRES(rcm_lock);
/** The connection manager; only after rcm_core_start(). */
struct cm *rcm_core_cm(void) REQUIRES(rcm_lock);
/** Send what the CM has to send, hand its events out, set the timer. To be called after every call
 * of the CM. */
void rcm_drive(void) REQUIRES(rcm_lock);
/** Take part in QP 1 of addresses. @return 0: of one at least, or -errno. */
int rcm_core_open_all(const struct rcm_local *locals, int n) REQUIRES(rcm_lock);
/** The same for those that are not opened yet, as far as they can be had; the rest is said in the
 * log. */
void rcm_core_open_new(const struct rcm_local *locals, int n) REQUIRES(rcm_lock);
/** The device of an address that was opened. */
bool rcm_core_local(const struct rocemu_gid *gid, struct rcm_local *local) REQUIRES(rcm_lock);
/** A device is gone: its addresses are not opened any more. */
void rcm_core_close(const struct rcm_device *dev) REQUIRES(rcm_lock);
/** Have the thread look around. */
void rcm_core_wake(void) REQUIRES(rcm_lock);
/** Take a service ID, or any of its port space when its port is 0, at an IP address or wildcard;
 * listen on it; give it back. -errno. */
int rcm_core_bind(struct rcm_id *id, const struct sockaddr *sa, uint64_t *service_id)
	REQUIRES(rcm_lock);
int rcm_core_listen(struct rcm_id *id) REQUIRES(rcm_lock);
void rcm_core_unbind(struct rcm_id *id) REQUIRES(rcm_lock);
/** A random number, for PSNs and ports. */
uint32_t rcm_random(void) REQUIRES(rcm_lock);

#endif
