/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP 1 of one address: reads slot 0's socket of the address's group, and sends from it. Packets for
 * QP 1 go to its owner; all others have no receiver and are counted.
 */
#ifndef AGENT_QP1_H
#define AGENT_QP1_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/seat-set.h"
#include "netdev/route.h"
#include "wire/gsi.h"

struct gsi;
struct group;
struct qp1;

/** Receives the packets. */
struct qp1_ops {
	/** A MAD came to QP 1. */
	void (*input)(struct gsi *gsi, struct qp1 *q, const struct gsi_mad *d);
	/** The network returned a MAD that q sent; error: the errno. */
	void (*returned)(struct gsi *gsi, struct qp1 *q, const struct gsi_mad *d, int error);
};

/** How many addresses have packets, by rounds of the loop: they share its time. */
struct qp1_turns {
	unsigned round, now, before; /* before: in the last round that had any */
};

struct qp1 {
	struct gsi *gsi;	   /* borrowed */
	const struct qp1_ops *ops; /* static */
	struct group *group;	   /* borrowed: slot 0's socket is received from */
	struct ev_loop *loop;
	ev_io watcher;
	ev_timer again; /* to watch what could not be watched */
	struct qp1_tx {
		int fd;		  /* bound to sport; -1: none */
		unsigned ifindex; /* of the interface that it sends by; 0: the kernel's choice */
		ev_io returned;	  /* its error queue */
	} any, own;		  /* own: for destinations that the address's interface leads to */
	bool tx_tried;		  /* any was opened, or could not be */
	uint16_t sport;		 /* the sending sockets'; 4791: there are none, the group's sends */
	struct route_cache ways; /* to destinations */
	uint32_t psn;		 /* of the next MAD sent; 24 bits count */
	uint32_t overflow;	 /* as the socket counts what it dropped */
	struct seat_set members; /* clients that opened the address */
	struct seat_set ended;	 /* clients that ended with exit MADs of the address */
};

/** @return NULL: out of memory. */
struct qp1 *qp1_new(struct gsi *gsi, const struct qp1_ops *ops, struct group *group,
		    struct ev_loop *loop);
void qp1_free(struct qp1 *q);

/** Send a MAD whose source is the address: fills in sport, ip_id and hdr. Never blocks. @return 0
 * or -errno. */
int qp1_send(struct qp1 *q, struct gsi_mad *m);

#endif
