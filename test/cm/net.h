/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two connection managers and the network between them, in virtual time. Each MAD takes a while;
 * masks select which of the first 64 are lost or come twice; a seed determines their order and
 * delay. Each side's policy acts as its consumer; the events that it got are recorded as text:
 *
 *     net_start(&n, 0);
 *     net_connect(&n, A);
 *     net_run(&n);
 *     assert_string_equal(n.side[A].log, "REP");
 */
#ifndef TEST_CM_NET_H
#define TEST_CM_NET_H

#include <stdio.h>

#include "base/rng.h"
#include "cm/cm.h"
#include "test.h"

enum { A = 0, B = 1 };

enum {
	NET_SERVICE = 0x01061c06,
	NET_QPN_A = 0x112233,
	NET_QPN_B = 0x445566,
	NET_FLIGHTS = 256,
	NET_DELAY_NS = 1000000,
	NET_LATER_NS = 9 * 1000000000ull, /* delay of a slow consumer: longer than one try */
};

/** What a side's consumer does when an event comes. */
enum net_policy {
	NET_REJECT = 1 << 0,	 /* REQ, REP: reject instead of accepting */
	NET_MRA = 1 << 1,	 /* REQ, REP, LAP: MRA, the answer comes later */
	NET_SILENT = 1 << 2,	 /* REQ, REP, LAP, SIDR_REQ: no answer at all */
	NET_HASTY = 1 << 3,	 /* disconnects in the moment in which it is established */
	NET_DESTROY = 1 << 4,	 /* DREQ: destroys instead of sending a DREP */
	NET_REJECT_REP = 1 << 5, /* REP: reject */
	NET_SLOW = 1 << 6,	 /* REQ, REP: the answer comes later, without MRA */
};

struct net_side {
	struct cm *cm;
	struct rocemu_gid gid;
	uint32_t qpn;
	unsigned policy;
	struct cm_listener *listener;
	struct cm_conn *conn;  /* its own; of a REQ: the last */
	struct cm_conn *extra; /* a second one, which it made itself */
	struct cm_sidr *sidr;
	rocemu_ns_t later;	 /* when a slow consumer answers; ROCEMU_NEVER: it owes nothing */
	enum cm_event_type owed; /* to what */
	struct cm_conn *owed_conn;
	char log[2048];	  /* events, "REQ; RTU; DREQ" */
	unsigned refused; /* calls that the state did not allow */
	struct cm_event last;
};

struct net_flight {
	rocemu_ns_t at;
	unsigned to;
	struct cm_mad mad;
};

struct net {
	void (*tap)(struct net *n, unsigned from,
		    const struct cm_mad *mad); /* NULL: not recorded */
	void *tap_arg;
	rocemu_ns_t now;
	struct net_side side[2];
	struct net_flight flight[NET_FLIGHTS];
	unsigned flights;
	uint64_t lose, twice; /* bit i: the i-th MAD sent */
	bool cut;	      /* from now on everything is lost */
	bool jumble;	      /* random delays up to `spread` */
	rocemu_ns_t spread;
	struct rng rng;
	unsigned sent;
	char wire[4096]; /* MADs as they were sent, "A:REQ B:REP" */
};

/** Two managers, B listens on NET_SERVICE. GUIDs: A's is the smaller. */
void net_start(struct net *n, uint64_t seed);
void net_start_config(struct net *n, const struct cm_config *a, const struct cm_config *b);
void net_connect(struct net *n, unsigned side);
void net_sidr(struct net *n, unsigned side);
/** Parameters of net_connect(), to change. */
void net_connect_param(const struct net *n, unsigned side, struct cm_connect_param *p);
/** Until nothing is on its way and no timer runs. */
void net_run(struct net *n);
/** The same, but no further than this time. */
void net_run_until(struct net *n, rocemu_ns_t end);
/** Destroy what the sides have, run, and assert that nothing is left. */
void net_finish(struct net *n);

#endif
