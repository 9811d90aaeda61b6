/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/port.h"

#include <stdlib.h>

#include "base/util.h"
#include "transport/peer.h"
#include "transport/qp.h"

enum place {
	PLACE_DUE,    /* just the one that is due */
	PLACE_BEHIND, /* answered or taken before */
	PLACE_NEAR,   /* before its turn */
	PLACE_FAR,
};

void port_start(struct peer_ports *p, uint16_t port)
{
	*p = (struct peer_ports){
		.requests = {.match = port, .port = port},
		.responses = {.match = port, .port = port},
	};
}

static void hold(struct peer_port *p)
{
	p->match = p->port;
	p->strikes = 0;
	p->moves = 0;
}

static void guard(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct peer_ports *p = &qp->ports;

	if (now >= p->guard_until)
		qp->ep->stats->psn_sweeps++;
	p->guard_until = now + PORT_GUARD_NS;
	hold(&p->requests);
	hold(&p->responses);
}

static int32_t request_diff(const struct rocemu_qp *qp, uint32_t psn)
{
	return rocemu_psn_diff(psn, qp->resp.epsn);
}

static enum place request_place(const struct rocemu_qp *qp, uint32_t psn)
{
	int32_t diff = request_diff(qp, psn);

	if (abs(diff) > PORT_NEAR)
		return PLACE_FAR;
	if (diff < 0)
		return PLACE_BEHIND;
	return diff == 0 ? PLACE_DUE : PLACE_NEAR;
}

static enum place response_place(const struct rocemu_qp *qp, uint32_t psn)
{
	uint32_t una = qp->comp.una_psn;
	int32_t flight = rocemu_psn_diff(qp->req.send_psn, una), diff = rocemu_psn_diff(psn, una);
	int32_t hint = rocemu_psn_diff((psn + RECOVER_HINT_BEHIND) & ROCEMU_PSN_MASK, una);

	/*
	 * What a hint names may have come meanwhile, or have been given up by going back: it is as
	 * late as an ACK may be.
	 */
	if (hint > -PORT_FAR && hint < rocemu_psn_diff(qp->req.next_psn, una))
		return PLACE_BEHIND;
	if (diff == 0 && flight)
		return PLACE_DUE;
	if (diff > 0 && diff < MIN(flight, (int32_t)PORT_FAR))
		return PLACE_NEAR;
	if (abs(diff) > PORT_NEAR)
		return PLACE_FAR;
	return diff < 0 ? PLACE_BEHIND : PLACE_NEAR;
}

void port_note_request(struct rocemu_qp *qp, rocemu_ns_t now, int32_t diff)
{
	if (unlikely(abs(diff) > PORT_FAR))
		guard(qp, now);
}

void port_note_response(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn)
{
	if (abs(rocemu_psn_diff(psn, qp->comp.una_psn)) > PORT_FAR &&
	    response_place(qp, psn) == PLACE_FAR)
		guard(qp, now);
}

static bool move(struct rocemu_qp *qp, struct peer_port *p, uint16_t sport)
{
	p->match = p->port = sport;
	p->strikes = 0;
	if (p->moves < PORT_MOVES_SPREAD)
		p->moves++;
	qp->ep->stats->port_moves++;
	return true;
}

/** A request came early: the first one that the peer sent may have been lost. */
static bool try_request(const struct rocemu_qp *qp, uint32_t psn)
{
	return qp->resp.epsn == qp->attr.rq_psn && request_diff(qp, psn) <= PORT_FIRST;
}

/** Nor need the response be just the one that is due: it may acknowledge several. */
static bool try_response(struct rocemu_qp *qp, rocemu_ns_t now, uint16_t sport, uint32_t psn)
{
	struct peer_port *p = &qp->ports.responses;

	if (qp->comp.una_psn == qp->attr.sq_psn && rocemu_psn_diff(psn, qp->req.send_psn) < 0)
		return move(qp, p, sport); /* the first ever */
	if (!p->match && p->other == sport)
		return now >= p->trial_at + PORT_TRIAL_NS && move(qp, p, sport);
	p->match = 0;
	p->other = sport;
	p->trial_at = now;
	return false;
}

void port_note_id(struct peer_ports *p, uint16_t sport)
{
	if (sport == p->requests.port || sport == p->responses.port)
		p->no_socket = true;
}

/** A CNP, which has no PSN, from another port than the peer's responses. */
static bool takes_cnp(const struct rocemu_qp *qp, rocemu_ns_t now, uint16_t sport)
{
	const struct peer_ports *p = &qp->ports;

	if (sport == p->requests.port)
		return true;
	return p->no_socket && qp->req.peer && !qp->req.peer->nearby && now >= p->guard_until;
}

bool port_takes(struct rocemu_qp *qp, rocemu_ns_t now, uint16_t sport,
		const struct rocemu_packet *pkt, uint32_t ops)
{
	bool request = ops & ROCEMU_OP_REQUEST;
	struct peer_port *p = port_of(&qp->ports, ops);
	uint32_t psn = pkt->h.psn;
	enum place place;

	if (sport == p->port) {
		p->match = p->port; /* it is in use: the trial has ended */
		return true;
	}
	if (ops & ROCEMU_OP_CNP)
		return takes_cnp(qp, now, sport);
	place = request ? request_place(qp, psn) : response_place(qp, psn);
	if (place == PLACE_FAR || (place != PLACE_DUE && ++p->strikes > PORT_STRIKES)) {
		guard(qp, now);
		return false;
	}
	if (now < qp->ports.guard_until)
		return false;
	if (place == PLACE_DUE)
		return move(qp, p, sport);
	/* A peer that moved repeats requests that were received, and needs the answer. */
	if (place == PLACE_BEHIND || p->moves >= PORT_MOVES_SPREAD)
		return true;
	return request ? try_request(qp, psn) : try_response(qp, now, sport, psn);
}
