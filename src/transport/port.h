/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks the UDP source port of a connection's peer, and detects forged packets. RoCE's only secret
 * is the PSN, 24 bits that any sender of datagrams can try one after the other. So:
 *
 *   - A connection (RC, XRC) has the port that its peer sends from: at first the one that follows
 *     from the QPNs, as rocemu, rxe and mlx5 choose it.
 *   - A packet from another port is taken when it is just the one that is due; then that is the
 *     peer's port. Others from there are dropped, as if the network had lost them.
 *   - A packet whose PSN is far from all that is in flight is one of a sweep. For PORT_GUARD_NS
 *     after it packets from other ports than the peer's are ignored, and no received packet, from
 *     any port, ends the connection.
 *
 *   - A CNP has no PSN. It is taken from the peer's ports. From others only if the peer may be an
 *     adapter, which may choose a port of its own for CNPs: it is on another host, and its IPv4
 *     identifications are not those of a UDP socket.
 *
 * So a sweep gets one try per PORT_GUARD_NS instead of millions. A peer whose port changes (a path
 * change, a NIC that spreads packets over ports) loses a few packets at most, which it sends again.
 */
#ifndef TRANSPORT_PORT_H
#define TRANSPORT_PORT_H

#include "transport/ep.h"
#include "wire/opcode.h"

#define PORT_GUARD_NS ((rocemu_ns_t)1000 * 1000 * 1000)

enum {
	/* PSNs before and behind the one that is due. */
	PORT_NEAR = 4096,
	/* Likewise for packets from the peer's own port: more than a window of a long path holds.
	 */
	PORT_FAR = 65536,
	/* Packets from other ports that were near, but not due: more of them are a sweep, too. */
	PORT_STRIKES = 256,
	/* A peer that moved this often spreads its packets over ports: all near ones are accepted.
	 */
	PORT_MOVES_SPREAD = 8,
	/* The first packet of a connection may have been lost: this many behind it are accepted. */
	PORT_FIRST = 64,
};

/*
 * Responses may acknowledge several packets, so that none need be just the one that is due: then a
 * port is the peer's if packets come from it again after this time, and none came from the old one
 * meanwhile.
 */
#define PORT_TRIAL_NS ((rocemu_ns_t)5 * 1000 * 1000)

struct peer_port {
	uint16_t match;	      /* packets from here are accepted without a check: port, or 0 */
	uint16_t port;	      /* the peer's */
	uint16_t other;	      /* the port on trial, while match is 0 */
	uint16_t strikes;     /* packets from other ports that were near */
	uint8_t moves;	      /* changes since the last sweep, up to PORT_MOVES_SPREAD */
	rocemu_ns_t trial_at; /* when the trial began */
};

/** A peer's responses may come from another port than its requests. */
struct peer_ports {
	struct peer_port requests, responses;
	rocemu_ns_t guard_until; /* a sweep was seen */
	bool no_socket;		 /* the peer does not send from a UDP socket, see port_note_id() */
};

static inline struct peer_port *port_of(struct peer_ports *p, uint32_t ops)
{
	return ops & ROCEMU_OP_REQUEST ? &p->requests : &p->responses;
}

struct rocemu_qp;

/**
 * A packet from sport had an IPv4 identification that no UDP socket gives: the peer is an adapter
 * or Soft-RoCE, if sport is one of its ports.
 */
void port_note_id(struct peer_ports *p, uint16_t sport);

/** The connection begins: its peer probably sends from port. */
void port_start(struct peer_ports *p, uint16_t port);

/** A packet from another port than match came, well-formed, of the right service and addresses: is
 * it taken? */
bool port_takes(struct rocemu_qp *qp, rocemu_ns_t now, uint16_t sport,
		const struct rocemu_packet *pkt, uint32_t ops);

/** A request came whose PSN is diff away from the one that is due: does that show a sweep? */
void port_note_request(struct rocemu_qp *qp, rocemu_ns_t now, int32_t diff);
/** Likewise of a response to nothing outstanding. */
void port_note_response(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn);

#endif
