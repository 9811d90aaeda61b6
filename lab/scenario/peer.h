/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer whose packets a scenario writes, for back ends: the bytes of a packet that it sends, and
 * what comes to it, as text. It has no state but what is given here.
 */
#ifndef SCENARIO_PEER_H
#define SCENARIO_PEER_H

#include "scenario/scenario.h"

/** Messages to QP 1 that belong together: those about a connection, or about a SIDR request. */
struct scenario_exchange {
	uint32_t comm_id; /* the peer's */
	uint32_t peer_id; /* that of the device, once it has sent one */
	uint32_t qpn;	  /* that the device's REP named */
	uint64_t tid;	  /* of the request that is not answered */
	bool over;	  /* a REJ or a DREP came */
};

struct scenario_peer {
	const struct scenario_setup *setup; /* borrowed */
	struct rocemu_gid gid, device_gid;
	uint32_t qpn;			    /* the peer's */
	uint32_t device_qpn;		    /* of the queue pair that is connected to it */
	uint32_t device_srqn;		    /* an XRC SRQ's, or 0 */
	uint32_t device_rkey;		    /* of SCENARIO_MEM */
	uint64_t device_va[SCENARIO_AREAS]; /* where each area begins, in packets */
	uint16_t sport;			    /* UDP source port, unless the scenario gives another */
	bool ip_id_known;		    /* the IP identification of what comes: it is 0 */
	struct scenario_exchange exchange;
};

/** The address that a place has in packets. */
uint64_t scenario_peer_va(const struct scenario_peer *peer, const struct scenario_place *at);

/** Fill in what p leaves open: it is right then. p->h.psn becomes the number in the packet. */
void scenario_peer_complete(const struct scenario_peer *peer, struct scenario_packet *p);

/**
 * A packet of a scenario is about to be completed and sent. A REQ or a SIDR_REQ begins an exchange,
 * with comm_id unless the line gives another one; for other packets nothing changes.
 */
void scenario_peer_begin_mad(struct scenario_peer *peer, const struct scenario_packet *p,
			     uint32_t comm_id);
/** A MAD came to QP 1: what is sent next answers it. Behind scenario_mad_fault(). */
void scenario_peer_take_mad(struct scenario_peer *peer, const uint8_t *mad, size_t len);
/** The bytes of a packet's message: scenario_peer_complete() does it. */
void scenario_peer_encode_mad(const struct scenario_peer *peer, struct scenario_packet *p);

/** The address that a packet comes from. */
struct rocemu_gid scenario_peer_source(const struct scenario_peer *peer,
				       const struct scenario_packet *p);

/**
 * A complete packet as bytes, from the BTH to the ICRC. *hdr_len: bytes before the payload.
 * @return how many.
 */
size_t scenario_peer_encode(const struct scenario_peer *peer, const struct scenario_packet *p,
			    uint8_t to[ROCEMU_MAX_PACKET], size_t *hdr_len);

/**
 * A packet that an end of the scenario sent, as text:
 *	SEND_FIRST PSN [A] [S]     a request packet; A: AckReq, S: solicited event
 *	READ_REQUEST PSN+LEN A
 *	ack PSN/MSN                positive acknowledgement
 *	nak SYNDROME PSN/MSN       (hexadecimal)
 *	rnr TIMER PSN/MSN
 *	first|middle|last|only PSN+LEN   READ responses
 *	atomic PSN/MSN =VALUE      atomic response
 *	cnp                        congestion notification
 *	REJ REASON to REQ|REP|OTHER, SIDR_REP STATUS, APR STATUS, REP, RTU, DREQ, DREP, MRA
 *	                           messages of communication management, to QP 1
 *	MAD class N method N attr_id N status N   another MAD
 * PSNs count from the first of their direction.
 */
void scenario_packet_text(const struct scenario_setup *s, unsigned end,
			  const struct rocemu_packet *p, char *to, size_t size);

/** Is it to QP 1? Its payload is a MAD. */
bool scenario_is_mad(const struct rocemu_hdrs *h);
void scenario_mad_text(const uint8_t *mad, size_t len, char *to, size_t size);
/** What is wrong with a MAD that came: "", or " WITH ...", " FROM ...". */
const char *scenario_mad_fault(const struct scenario_peer *peer, const struct rocemu_hdrs *h,
			       const uint8_t *mad, size_t len);

/**
 * What is wrong with a packet that the device sent from its UDP port sport, data[0..len) from the
 * BTH to the ICRC, with headers h: "", or " WITH ...".
 */
const char *scenario_packet_fault(const struct scenario_peer *peer, uint16_t sport,
				  const uint8_t *data, size_t len, const struct rocemu_hdrs *h);

#endif
