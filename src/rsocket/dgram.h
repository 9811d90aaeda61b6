/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram socket: a UDP socket, and a UD QP for each local address in use. Messages to a peer
 * with an unknown QP go over UDP, with the local QP's number in a header; the peer answers with its
 * QP number, and from then on UD carries the data. The caller's thread makes progress: there is no
 * other thread.
 */
#ifndef RSOCKET_DGRAM_H
#define RSOCKET_DGRAM_H

#include <netinet/in.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/prf.h"
#include "rsocket/rs.h"

enum {
	DGRAM_PEERS = 4096, /* limit of known peers; the one silent for longest is replaced */
	DGRAM_UDP_MAX = 65535,
};

union dgram_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct dgram;
struct dgram_qp;

/** A received datagram: in a receive slot of a QP, or, from UDP, in allocated memory. */
struct dgram_msg {
	struct list node;    /* dgram.inbox */
	struct dgram_qp *qp; /* whose slot it is; NULL: over UDP, freed when read */
	const uint8_t *data;
	size_t len;
	union dgram_addr from;
};

/** The QP of a local address. */
struct dgram_qp {
	struct list node;	/* dgram.qps */
	union dgram_addr local; /* the port is the UDP socket's */
	struct rdma_cm_id *id;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	unsigned unacked; /* CQ events */
	uint8_t sgid_index;
	uint32_t mtu; /* bytes of a UD message, with rsocket's header */
	uint32_t inline_max;

	/* Slots: one memory region, receive slots first. */
	uint8_t *mem;
	struct ibv_mr *mr;
	uint32_t recv_count, send_count;
	size_t recv_size, send_size; /* bytes of a slot */
	struct dgram_msg *msgs;	     /* [recv_count] */
	uint32_t *free_send;	     /* stack of send slots */
	uint32_t free_count;
};

/** A peer that datagrams went to or came from over UDP. */
struct dgram_peer {
	struct hash_node by_addr;
	struct list age; /* dgram.peers: the one used last is at the end */
	union dgram_addr addr;
	struct dgram_qp *qp; /* the local QP for this peer */
	struct ibv_ah *ah;   /* owned, of qp's PD; NULL: its QP is not known */
	uint32_t qpn;
	uint64_t requested_at; /* when its QP was last requested, or a message of it came */
};

struct dgram {
	struct rs rs; /* fd: the UDP socket */
	int epoll;    /* the UDP socket and the QPs' completion channels */
	bool connected, no_recv, no_send;
	union dgram_addr peer; /* if connected */
	struct list qps;
	struct prf prf; /* of by_addr: anyone may choose addresses and ports */
	struct hash by_addr;
	struct list peers; /* the same */
	struct list inbox;
	size_t inbox_udp; /* bytes of what is in it from UDP */
	unsigned idle;	  /* calls since the UDP socket was looked at */
	uint8_t *udp_buf; /* DGRAM_UDP_MAX bytes */
};

static inline struct dgram *dgram_of(struct rs *rs)
{
	return container_of(rs, struct dgram, rs);
}

static inline socklen_t dgram_addr_len(const union dgram_addr *a)
{
	return a->sa.sa_family == AF_INET6 ? sizeof(a->in6) : sizeof(a->in);
}

static inline in_port_t dgram_port(const union dgram_addr *a)
{
	return a->sa.sa_family == AF_INET6 ? a->in6.sin6_port : a->in.sin_port;
}

bool dgram_addr_equal(const union dgram_addr *a, const union dgram_addr *b);
/** As it comes from sockets and headers, in the form that is compared. */
void dgram_addr_set(union dgram_addr *a, const struct sockaddr *from);

/* ---- dgram-qp.c ---- */

/** The QP of a local address (the port is ignored), made if there is none. -errno; -ENODEV: no
 * RDMA device there. */
int dgram_qp_get(struct dgram *d, const union dgram_addr *local, struct dgram_qp **out);
void dgram_qp_free(struct dgram_qp *qp);
/** -errno. */
int dgram_qp_ah(struct dgram_qp *qp, const union dgram_addr *to, struct ibv_ah **out);
/** Bytes of user data that a message can have. */
size_t dgram_qp_room(const struct dgram_qp *qp);
/** There is a free slot. Bytes or -errno. */
ssize_t dgram_qp_send(struct dgram_qp *qp, const struct dgram_peer *peer, const struct iovec *iov,
		      int n, size_t len);
/** Take completions. */
void dgram_qp_progress(struct dgram *d, struct dgram_qp *qp);
/** A receive slot has been read. */
void dgram_qp_repost(struct dgram_qp *qp, const struct dgram_msg *msg);

/* ---- dgram-udp.c ---- */

/** The known peer of an address; NULL. */
struct dgram_peer *dgram_peer_find(struct dgram *d, const union dgram_addr *addr);
/** Find or make a peer, with a local QP. -errno. */
int dgram_peer_get(struct dgram *d, const union dgram_addr *addr, struct dgram_peer **out);
void dgram_peers_free(struct dgram *d);
/** Send user data over UDP; the peer will answer with its QP. Bytes or -errno. */
ssize_t dgram_udp_send(struct dgram *d, struct dgram_peer *peer, const struct iovec *iov, int n,
		       size_t len, int flags);
/** Receive pending datagrams. */
void dgram_udp_progress(struct dgram *d);
/** Connect the UDP socket to one peer, from the address of the peer's QP. -errno. */
int dgram_udp_connect(struct dgram *d, const union dgram_addr *to);
/** Ensure that the UDP socket has a port. -errno. */
int dgram_udp_autobind(struct dgram *d);

#endif
