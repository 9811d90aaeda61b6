/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network of hosts in virtual time, for measurements: it is lean (no ledger, no history) and
 * models what decides goodput, where sim.h models what may break correctness.
 *
 *	host A --link--> switch --port of B--> socket buffer of B --CPU of B--> endpoint of B
 *
 * Each host has one lane: one endpoint (or a scripted peer) and one socket. Its network card sends
 * at the link's rate and takes packets while the socket's send buffer has room. The switch has one
 * queue per host, with tail drop or CE marking. The receive buffer is charged as Linux charges it
 *(payload and overhead of a packet), and the CPU empties it at its own rate. A packet that finds
 * the buffer full is lost. When more than 40 % of it is used, or after such a loss, the datagram
 * carries the congestion flag, where struct rocemu_dgram has one.
 *
 * The same configuration and seed give the same run.
 */
#ifndef TEST_SIM_FABRIC_H
#define TEST_SIM_FABRIC_H

#include <rocemu/endpoint.h>

#include "base/rng.h"

enum {
	FABRIC_MAX_HOSTS = 80,
	/* Bytes on the wire besides the UDP payload: UDP 8, IPv4 20, Ethernet 14, FCS 4, preamble
	   8, gap 12. */
	FABRIC_OVERHEAD = 66,
	FABRIC_STOCK_BUFFER = 212992, /* net.core.rmem_default and wmem_default */
};

#define FABRIC_US 1000ull
#define FABRIC_MS 1000000ull

struct fabric_config {
	uint64_t seed;
	unsigned hosts;
	uint32_t link_mbit; /* of the cards and the switch's ports */
	uint32_t cpu_mbit;  /* what a host's CPU takes out of its receive buffer; 0: at once */
	rocemu_ns_t rtt_ns; /* of propagation alone */
	double loss;	    /* of every packet, both directions */
	double dup, corrupt;
	double reorder; /* chance that a packet is late by up to reorder_ns */
	rocemu_ns_t reorder_ns;
	rocemu_ns_t jitter_ns; /* every packet is late by 0..jitter_ns */
	bool jitter_keeps_order;
	uint32_t port_bytes;	    /* the switch's queue for a host, tail drop; 0: no limit */
	uint32_t mark_bytes;	    /* CE marks above that much of it; 0: none */
	uint32_t rcvbuf, sndbuf;    /* bytes; 0: no limit */
	bool one_host;		    /* addresses of 127.0.0.0/8: the "hosts" are processes of one */
	struct rocemu_ep_config ep; /* seed is replaced */
};

/** The default: two hosts, 10 Gbit/s, a CPU of 20 Gbit/s, 50 us, stock buffers, no fault. */
struct fabric_config fabric_defaults(void);

struct fabric;
struct fabric_host;

/** A host that is not an endpoint: a peer scripted by a test. All calls as those of the endpoint.
 */
struct fabric_peer_ops {
	void (*input)(void *peer, rocemu_ns_t now, const struct rocemu_dgram *d);
	unsigned (*output)(void *peer, rocemu_ns_t now, struct rocemu_tx *tx, unsigned n);
	rocemu_ns_t (*deadline)(const void *peer);
	void (*expire)(void *peer, rocemu_ns_t now);
};

struct fabric_host {
	struct fabric *fabric;
	unsigned index;
	struct rocemu_gid gid;		   /* entry 0 of the GID table */
	struct rocemu_gid other_gid;	   /* entry 1: another address of the same socket */
	struct rocemu_ep *ep;		   /* owned */
	struct rocemu_pd *pd;		   /* owned */
	struct rocemu_xrcd *xrcd;	   /* owned */
	const struct fabric_peer_ops *ops; /* NULL: the endpoint */
	void *peer;			   /* of ops, borrowed */
	/** Called after anything happened on the host: polls CQs, posts. May be NULL. */
	void (*poll)(struct fabric_host *h, void *arg);
	void *poll_arg;
	bool paused; /* its process is stopped: takes and sends nothing */
	struct fabric_packet *held, **held_end; /* owned: taken out of the buffer when it goes on */
	bool link_down;				/* what it sends and what is for it is lost */
	/* the card, the port towards the host, its socket and CPU */
	rocemu_ns_t nic_busy, port_busy, cpu_busy;
	rocemu_ns_t last_arrival; /* for jitter that keeps the order */
	rocemu_ns_t timer_at;	  /* of the timer event that counts */
	bool nic_waits;		  /* an event will report that the send buffer has room */
	uint32_t rcv_used;
	bool overran; /* since the last packet taken */
	uint64_t overruns, tail_drops, marks;
};

/** A packet on its way. */
struct fabric_packet {
	struct fabric_packet *next; /* in the list of free ones */
	unsigned from, to;
	uint32_t len;
	uint32_t cost; /* to a socket buffer */
	struct rocemu_gid src, dst;
	uint16_t sport;
	uint8_t tclass, hop_limit;
	uint8_t data[ROCEMU_MAX_PACKET];
};

struct fabric_event;

struct fabric {
	struct fabric_config cfg;
	struct rng rng;
	rocemu_ns_t now;
	struct fabric_host host[FABRIC_MAX_HOSTS];
	/** Sees each packet where it enters the switch; true: it is lost. May be NULL. */
	bool (*filter)(struct fabric *f, struct fabric_packet *p, void *arg);
	void *filter_arg;
	struct fabric_event *heap; /* owned */
	size_t heap_len, heap_size;
	uint64_t next_order;
	struct fabric_packet *spare; /* owned */
	uint64_t packets, lost;
};

struct fabric *fabric_new(const struct fabric_config *cfg);
void fabric_free(struct fabric *f);
/** Replace a host's endpoint by a scripted peer. Before anything is connected to it. */
void fabric_set_peer(struct fabric *f, unsigned host, const struct fabric_peer_ops *ops,
		     void *peer);
/** Let a host send and poll, after a post from outside. */
void fabric_kick(struct fabric *f, unsigned host);
void fabric_run_until(struct fabric *f, rocemu_ns_t end);
/** Let a paused host go on, or pause it. */
void fabric_pause(struct fabric *f, unsigned host, bool paused);
/** The path between two hosts, as a scripted peer needs it. */
struct rocemu_path fabric_path(const struct fabric *f, unsigned from, unsigned to);

#endif
