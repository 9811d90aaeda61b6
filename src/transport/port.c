/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/port.h"

#include <stdlib.h>

#include "base/util.h"
#include "transport/qp.h"

enum place {
	PLACE_DUE,    /* just the one that is due */
	PLACE_BEHIND, /* answered or taken before */
	PLACE_NEAR,   /* before its turn */
	PLACE_FAR,
};

void port_start(struct peer_port *p, uint16_t port)
{
	*p = (struct peer_port){.match = port, .port = port};
}

static void guard(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct peer_port *p = &qp->port;

	if (now >= p->guard_until)
		qp->ep->stats->psn_sweeps++;
	p->guard_until = now + PORT_GUARD_NS;
	p->match = p->port;
	p->strikes = 0;
	p->moves = 0;
}

static enum place place_of(int32_t diff, bool due)
{
	if (abs(diff) > PORT_NEAR)
		return PLACE_FAR;
	if (diff < 0)
		return PLACE_BEHIND;
	return diff == 0 && due ? PLACE_DUE : PLACE_NEAR;
}

static enum place response_place(const struct rocemu_qp *qp, uint32_t psn)
{
	uint32_t una = qp->comp.una_psn, sent = qp->req.send_psn;
	int32_t hint = rocemu_psn_diff((psn + RECOVER_HINT_BEHIND) & ROCEMU_PSN_MASK, una);

	if (hint >= 0 && hint < rocemu_psn_diff(sent, una))
		return PLACE_BEHIND;
	return place_of(rocemu_psn_diff(psn, una), una != sent);
}

void port_note_request(struct rocemu_qp *qp, rocemu_ns_t now, int32_t diff)
{
	if (place_of(diff, true) == PLACE_FAR)
		guard(qp, now);
}

void port_note_response(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn)
{
	if (response_place(qp, psn) == PLACE_FAR)
		guard(qp, now);
}

static bool move(struct rocemu_qp *qp, uint16_t sport)
{
	struct peer_port *p = &qp->port;

	p->match = p->port = sport;
	p->strikes = 0;
	if (p->moves < PORT_MOVES_SPREAD)
		p->moves++;
	qp->ep->stats->port_moves++;
	return true;
}

/** A response that is not the next one due came from another port. */
static bool try_port(struct rocemu_qp *qp, rocemu_ns_t now, uint16_t sport)
{
	struct peer_port *p = &qp->port;

	if (!p->match && p->other == sport)
		return now >= p->trial_at + PORT_TRIAL_NS && move(qp, sport);
	p->match = 0;
	p->other = sport;
	p->trial_at = now;
	return false;
}

bool port_takes(struct rocemu_qp *qp, rocemu_ns_t now, uint16_t sport,
		const struct rocemu_packet *pkt, uint32_t ops)
{
	struct peer_port *p = &qp->port;
	bool request = ops & ROCEMU_OP_REQUEST;
	enum place place;

	if (sport == p->port) {
		p->match = p->port; /* it is in use: the trial has ended */
		return true;
	}
	if (ops & ROCEMU_OP_CNP) /* has no PSN */
		return now >= p->guard_until;
	place = request ? place_of(rocemu_psn_diff(pkt->h.psn, qp->resp.epsn), true)
			: response_place(qp, pkt->h.psn);
	if (place == PLACE_FAR || (place != PLACE_DUE && ++p->strikes > PORT_STRIKES)) {
		guard(qp, now);
		return false;
	}
	if (now < p->guard_until)
		return false;
	if (place == PLACE_DUE)
		return move(qp, sport);
	/* A peer that moved repeats what was taken, and needs the answer. */
	if (place == PLACE_BEHIND || p->moves >= PORT_MOVES_SPREAD)
		return true;
	return !request && try_port(qp, now, sport);
}
