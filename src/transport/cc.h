/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Computes the congestion window of a remote lane: how many bytes may be in flight, from
 * acknowledgements, losses and marks. Numbers only: the bytes in flight and the waiting QPs are in
 * peer.h.
 */
#ifndef TRANSPORT_CC_H
#define TRANSPORT_CC_H

#include <rocemu/endpoint.h>

enum {
	/* Most on a short path: fits the socket buffer of a receiver with default settings. */
	CC_SHORT_BYTES = 192 * 1024,
	/*
	 * Most on this host, if it is at most that part of a receive buffer: a receiver that gets
	 * no CPU for a while reads the packets later.
	 */
	CC_NEAR_BYTES = 1024 * 1024,
	CC_NEAR_PART = 8,
	/* Of shorter messages only where several QPs wait: peer_wants_longer(). Those of one QP
	 * share bursts because they wait for the window: where none has to wait, each leaves alone.
	 */
	CC_LONG_MESSAGE = 64 * 1024,
	CC_START_PACKETS = 4,
	CC_INTERVAL_NS = 50000, /* of CNPs: at most one is sent, or acted on, in this time */
};

struct cc {
	uint64_t cwnd;		      /* bytes allowed */
	uint64_t ssthresh;	      /* slow start below it */
	uint64_t limit;		      /* cwnd never exceeds it; 0: the path decides alone */
	uint64_t base;		      /* most on a short path */
	uint64_t base_short_messages; /* ... of messages shorter than CC_LONG_MESSAGE; UINT64_MAX:
					 as cwnd */
	uint32_t unit;		      /* what a full packet costs, and the least window */
	uint32_t slack_ns;     /* delay that is not queueing: batches, threads that wake up */
	uint32_t short_rtt_ns; /* up to this the path is short */
	rocemu_ns_t srtt;      /* smoothed round-trip time; 0: not measured */
	rocemu_ns_t min_rtt;
	uint64_t round;	  /* bytes acknowledged in this round trip (a window's worth) */
	uint64_t peak;	  /* most bytes under way in this round trip, or since slow start began */
	uint32_t calm;	  /* round trips since the last cut, at most CALM_MAX */
	uint64_t recover; /* a loss within this many acknowledged bytes is of a flight that was cut
			     for */
	rocemu_ns_t cut_at;
	rocemu_ns_t cnp_at;	  /* the last one acted on; 0: none yet */
	uint32_t alpha;		  /* part of the intervals that had a CNP, smoothed, of ALPHA_ONE */
	uint64_t seen;		  /* bytes acknowledged, fading */
	uint32_t lost;		  /* losses among them */
	uint64_t sampled;	  /* bytes acknowledged since the last cut */
	uint32_t explore_after;	  /* windows between two checks whether min_rtt is the path's own */
	rocemu_ns_t explored_rtt; /* min_rtt at the last one */
	rocemu_ns_t heard_at;	  /* the last acknowledgement; 0: none yet */
};

/** limit: the largest window, or 0. nearby: the lane is on this host. */
void cc_init(struct cc *cc, uint64_t limit, bool nearby);
/** The lane is on this host, and its receive buffer probably has that many bytes. */
void cc_set_buffer(struct cc *cc, uint64_t bytes);
/** cost was acknowledged; used was under way before. */
void cc_on_ack(struct cc *cc, rocemu_ns_t now, uint64_t cost, uint64_t used);
void cc_on_rtt(struct cc *cc, rocemu_ns_t rtt);
/**
 * A packet was lost. That is congestion when packets are late as well, or a fifth is lost; then the
 * window shrinks to 7/10, once for what was under way. Otherwise it is treated as a random loss.
 */
void cc_on_loss(struct cc *cc, rocemu_ns_t now);
/** A CNP: the window shrinks as in DCTCP, once an interval (CC_INTERVAL_NS or a round trip). */
void cc_on_cnp(struct cc *cc, rocemu_ns_t now);
/** A packet is about to be sent, and nothing is in flight. */
void cc_on_idle(struct cc *cc, rocemu_ns_t now);
/** The most that cwnd may grow to. */
uint64_t cc_max(const struct cc *cc);

#endif
