/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drives an endpoint: input of a datagram, output of packets, timers. Makes the checks that all
 * transport services share, in the order of IBTA 9.6.1 (packet header validation); the responder
 * and the completer handle valid packets.
 */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "transport/cq.h"
#include "transport/ep.h"
#include "transport/mcast.h"
#include "transport/peer.h"
#include "transport/qp.h"
#include "transport/read-budget.h"
#include "transport/req-wqe.h"
#include "transport/traits.h"
#include "transport/why.h"
#include "wire/ip.h"
#include "wire/opcode.h"

enum {
	/*
	 * Packets of an output call where they are all of one length: whole UDP bursts of up to 64
	 * KiB, which are 15 packets of 4 KiB, 30 of 2 KiB or 60 of 1 KiB: eight, four or two. What
	 * is left over is a burst of its own, and a burst of few packets costs the kernel nearly as
	 * much as a full one.
	 */
	OUTPUT_EQUAL = 120,
	/* Bursts of a UDP sender like rocemu, and of one at this address: see id_plausible(). */
	ID_FITS_NEEDED = 32,
	ID_FITS_NEEDED_HERE = 200,
	GSO_MAX_SEGMENTS = 128,
	/* Packets of a message that an ACK may wait for: see qp_output(). */
	ACK_BEHIND_MAX = 256,
	ECN_MASK = 3,
	ECN_CE = 3,
};

/** State of a sender of datagrams; another sender with the same hash replaces it. */
static struct id_sender *id_sender_of(struct rocemu_ep *ep, const struct rocemu_dgram *d)
{
	uint32_t hash = d->sport;
	struct id_sender *s;

	for (unsigned i = 0; i < sizeof(d->src.raw); i++)
		hash = hash * 31 + d->src.raw[i];
	s = &ep->id_senders[hash % EP_ID_SENDERS];
	if (s->sport != d->sport || !rocemu_gid_equal(&s->gid, &d->src))
		*s = (struct id_sender){.gid = d->src, .sport = d->sport};
	return s;
}

/**
 * A UDP socket does not show the IPv4 identification, so the ICRC check can only compute which one
 * would fit. A peer that sends from a UDP socket, as rocemu does, has 0, or the packet's place in a
 * GSO burst. Once a connection's peer, or a sender of datagrams, has shown that pattern, the next
 * packet with any other solution is rejected as corrupted. That turns a 16-bit check into a 25-bit
 * one, and does not affect kernel and hardware peers, whose identifications count up. Nor those of
 * rocemu's connected sockets: these send to their own address only, and have sent fewer bursts
 * before than are required here (engine/txsock.h).
 */
static bool id_plausible(struct rocemu_ep *ep, struct rocemu_qp *qp, const struct rocemu_dgram *d,
			 uint32_t id)
{
	unsigned needed;
	bool fitted;
	uint8_t *fits;

	if (d->ip_id_known) {
		if (qp && id >= GSO_MAX_SEGMENTS)
			port_note_id(&qp->ports, d->sport);
		return true;
	}
	fits = likely(qp && qp->type != IBV_QPT_UD) ? &qp->id_fits : &id_sender_of(ep, d)->fits;
	if (id < GSO_MAX_SEGMENTS) {
		if (!id && *fits < ID_FITS_NEEDED_HERE)
			++*fits;
		return true;
	}
	needed = rocemu_gid_equal(&d->src, &d->dst) ? ID_FITS_NEEDED_HERE : ID_FITS_NEEDED;
	fitted = *fits >= needed;
	*fits = 0;
	if (qp && !fitted)
		port_note_id(&qp->ports, d->sport);
	return !fitted;
}

/**
 * IBTA 9.6.1.2.3, C9-37..: the low 15 bits equal, not both limited members. The only local P_Key is
 * the default one.
 */
static bool pkey_matches(uint16_t theirs)
{
	return (theirs & 0x7fff) == 0x7fff;
}

/** XRC is one-way: requests are for the target, responses for the initiator. */
static bool service_matches(const struct rocemu_qp *qp, uint8_t opcode, uint32_t ops)
{
	switch (rocemu_opcode_service(opcode)) {
	case ROCEMU_SVC_RC:
		return qp->type == IBV_QPT_RC;
	case ROCEMU_SVC_UC:
		return qp->type == IBV_QPT_UC;
	case ROCEMU_SVC_UD:
		return qp->type == IBV_QPT_UD;
	case ROCEMU_SVC_CNP:
		return true;
	case ROCEMU_SVC_XRC:
		return qp->type == (ops & ROCEMU_OP_REQUEST ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND);
	case ROCEMU_SVC_RD:
	default:
		return false;
	}
}

static bool state_takes(const struct rocemu_qp *qp, uint32_t ops)
{
	if (ops & ROCEMU_OP_REQUEST)
		return qp_can_receive(qp);
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD;
}

/** IBTA 9.6.1.2, 10.5: only UD packets are multicast, and the multicast QPN goes with a multicast
 * address only. */
static enum rocemu_drop deliver_mcast(struct rocemu_ep *ep, rocemu_ns_t now,
				      const struct rocemu_dgram *d, const struct rocemu_packet *pkt,
				      int32_t id)
{
	if (rocemu_opcode_service(pkt->h.opcode) != ROCEMU_SVC_UD)
		return ROCEMU_DROP_SERVICE;
	if (!pkey_matches(pkt->h.pkey))
		return ROCEMU_DROP_PKEY;
	if (!id_plausible(ep, NULL, d, (uint32_t)id))
		return ROCEMU_DROP_ICRC;
	return mcast_input(ep, now, pkt, d);
}

static enum rocemu_drop cnp_input(struct rocemu_qp *qp, rocemu_ns_t now,
				  const struct rocemu_packet *pkt)
{
	if (!pkt->h.becn || pkt->payload_len != ROCEMU_CNP_LEN)
		return ROCEMU_DROP_LENGTH;
	QP_COUNT(qp, cnps_rcvd);
	if (qp->req.peer)
		peer_on_cnp(qp->req.peer, now);
	return ROCEMU_DROP_CNP;
}

/**
 * Annex A17.9.2: a packet that was marked on its way, or that found this host's buffer full, makes
 * its sender slow down. READ responses answer local requests, so the local window shrinks; a
 * hardware responder gets a CNP as well. No CNP for ACKs, which no window holds back, and for UD,
 * whose packets are of many senders.
 */
static void note_congestion(struct rocemu_qp *qp, rocemu_ns_t now, const struct rocemu_dgram *d,
			    uint32_t ops)
{
	bool marked = (d->tclass & ECN_MASK) == ECN_CE;

	if (likely(!marked && !d->congested))
		return;
	qp->ep->stats->ecn_marked += marked;
	if (qp->type == IBV_QPT_UD || (ops & ROCEMU_OP_ACK))
		return;
	if (!(ops & ROCEMU_OP_REQUEST)) {
		qp->ep->read_path.congested = true;
		if (qp->req.peer)
			peer_on_cnp(qp->req.peer, now);
	}
	if ((marked || (ops & ROCEMU_OP_REQUEST)) && !qp->ep->cfg.traits.no_cnps)
		resp_owe_cnp(qp, now);
}

static enum rocemu_drop deliver(struct rocemu_ep *ep, rocemu_ns_t now, const struct rocemu_dgram *d,
				const struct rocemu_packet *pkt, int32_t id)
{
	struct rocemu_qp *qp = qp_find(ep, pkt->h.dqpn);
	uint32_t ops = opcode_ops(pkt->h.opcode);

	if (pkt->h.dqpn == ROCEMU_MCAST_QPN)
		return deliver_mcast(ep, now, d, pkt, id);
	if (!qp)
		return ROCEMU_DROP_QPN;
	if (!service_matches(qp, pkt->h.opcode, ops))
		return ROCEMU_DROP_SERVICE;
	if (!state_takes(qp, ops))
		return ROCEMU_DROP_STATE;
	if (!pkey_matches(pkt->h.pkey))
		return ROCEMU_DROP_PKEY;
	if (qp->type == IBV_QPT_UD ? rocemu_gid_is_multicast(&d->dst)
				   : !rocemu_gid_equal(&d->src, &qp->path.dgid) ||
					     !rocemu_gid_equal(&d->dst, &qp->path.sgid))
		return ROCEMU_DROP_SOURCE;
	if (!id_plausible(ep, qp, d, (uint32_t)id))
		return ROCEMU_DROP_ICRC;
	if (unlikely(d->sport != port_of(&qp->ports, ops)->match) && qp_is_reliable(qp) &&
	    !port_takes(qp, now, d->sport, pkt, ops))
		return ROCEMU_DROP_PORT;
	qp->stats.rx_packets++;
	qp->stats.rx_bytes += pkt->payload_len;
	if (ops & ROCEMU_OP_CNP)
		return cnp_input(qp, now, pkt);
	note_congestion(qp, now, d, ops);
	if (ops & ROCEMU_OP_REQUEST)
		return resp_input(qp, now, pkt, d);
	return comp_input(qp, now, pkt);
}

/** @return as rocemu_icrc_check(). */
static int32_t check_icrc(struct rocemu_ep *ep, const struct rocemu_dgram *d)
{
	const struct rocemu_icrc_ctx ctx = {
		.src = d->src,
		.dst = d->dst,
		.sport = d->sport,
		.dport = d->dport,
		.ip_id = d->ip_id,
		.ip_frag = IP_FLAG_DF,
	};

	return icrc_memo_check(&ep->icrc_received, &ctx, d->ip_id_known, d->data, d->len);
}

HOT enum rocemu_drop rocemu_ep_input(struct rocemu_ep *ep, rocemu_ns_t now, struct rocemu_dgram *d)
{
	struct rocemu_packet pkt;
	enum rocemu_drop why;
	int32_t id;

	why = rocemu_packet_decode(&pkt, d->data, d->len);
	if (!why) {
		if (unlikely(d->body != NULL)) {
			pkt.payload = d->body + pkt.hdr_len;
			id = d->ip_id;
		} else {
			id = check_icrc(ep, d);
			if (likely(id >= 0))
				d->ip_id = (uint16_t)id;
		}
		why = id < 0 ? ROCEMU_DROP_ICRC : deliver(ep, now, d, &pkt, id);
		if (unlikely(why != ROCEMU_DROP_NONE) && ep->cfg.why)
			why_drop(ep, d, &pkt, why);
	}
	if (why) {
		ep->stats->drops[why]++;
	} else {
		ep->stats->rx_packets++;
		ep->stats->rx_bytes += pkt.payload_len;
	}
	return why;
}

/**
 * Requests that only lack room are recorded as such by the next output call, and a QP in line that
 * now waits for something else passes its turn to the next.
 */
static inline bool req_is_due(const struct rocemu_qp *qp)
{
	enum req_hold hold = req_is_empty(qp) ? REQ_HOLD_IDLE : req_hold(qp);

	if (hold == REQ_GO || hold == REQ_HOLD_ROOM || unlikely(req_may_fill(qp, hold)))
		return true;
	return qp->req.peer && list_linked(&qp->req.peer_link) &&
	       hold != (qp->req.kept ? REQ_HOLD_BUDGET : REQ_HOLD_WINDOW);
}

/** What it has to send, or just what is enough. */
static inline enum rocemu_output qp_output_kind(const struct rocemu_qp *qp,
						enum rocemu_output enough)
{
	if (req_is_due(qp))
		return ROCEMU_OUTPUT_NOW;
	if (!resp_owes(&qp->resp))
		return ROCEMU_OUTPUT_NONE;
	return enough == ROCEMU_OUTPUT_ACKS || resp_output_is_acks(qp) ? ROCEMU_OUTPUT_ACKS
								       : ROCEMU_OUTPUT_NOW;
}

/**
 * A QP of tx_ready that has no request to send now. What it waits for is noted, so that it is woken
 * when that changes. @return the next one of tx_ready.
 */
static struct list *set_aside(struct rocemu_qp *qp, enum rocemu_output kind)
{
	struct list *next;
	bool more;

	req_output(qp, qp->ep->now, NULL, 0, &more);
	next = qp->tx_link.next; /* another one may have been woken */
	list_remove(&qp->tx_link);
	if (kind == ROCEMU_OUTPUT_ACKS) {
		qp->only_acks = true;
		list_append(&qp->ep->tx_acks, &qp->tx_link);
	}
	return next;
}

/** n is not 0. */
static inline void count_made(struct rocemu_qp *qp, struct rocemu_tx *tx, unsigned n)
{
	struct rocemu_ep_stats *stats = qp->ep->stats;
	uint64_t bytes = 0, others = 0;
	const struct rocemu_tx *end = tx + n;

	if (unlikely(qp->ep->traits_in_headers))
		traits_put(qp, tx, n);

	do {
		bytes += tx->payload_len;
		others += (unsigned)tx->hdr_len + tx->trailer_len;
	} while (++tx != end);
	stats->tx_bytes += bytes;
	stats->tx_octets += bytes + others;
	qp->stats.tx_packets += n;
	qp->stats.tx_bytes += bytes;
}

/** One of the packets completes a receive. */
static bool ends_receive(const struct rocemu_tx *tx, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (opcode_ends_receive(tx[i].hdr[0]))
			return true;
	return false;
}

/**
 * @return packets of a QP; room: for requests, n: in all; first: the index of tx[0] in the output
 * call.
 *
 * An ACK waits for the rest of the message that is going out, because a peer that polls until this
 * ACK comes receives the message meanwhile. After the ACK it may look at its memory alone, and the
 * rest would have to wake another thread. Bounded, because the window may open again and again.
 * Nor does the ACK wait beyond the end of a message that completes a receive (txgroup.h): a call
 * that ends there has room for it, or if it is for one packet, the ACK goes first.
 */
static unsigned qp_output(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx,
			  unsigned room, unsigned n, unsigned first, bool *more)
{
	struct qp_resp *r = &qp->resp;
	const bool owes = resp_owes(r);
	const bool later =
		owes && n + first > 1 && r->ack_behind < ACK_BEHIND_MAX && resp_output_is_acks(qp);
	const unsigned most = later ? MIN(room, n - 1) : room;
	unsigned made = owes && !later ? resp_output(qp, now, tx, room, first) : 0;
	unsigned requests = req_output(qp, now, tx + made, most - made, more);

	made += requests;
	if (later) {
		r->ack_behind += requests;
		if (!*more || qp->req.cur == qp->sq.next || ends_receive(tx, requests))
			made += resp_output(qp, now, tx + made, n - made, first + made);
	}
	return made;
}

/**
 * Packets of a call in which this QP's are the last. A SEND has packets of one length, but of a
 * WRITE or a READ's response the first is longer and begins a burst: it is cut best between
 * messages, which are often a power of two.
 */
static unsigned output_room(const struct rocemu_qp *qp, unsigned n)
{
	const struct qp_req *req = &qp->req;

	return !qp->resp.njobs && req->cur != qp->sq.head && swqe_is_send(sq_wqe(&qp->sq, req->cur))
		       ? MIN(n, (unsigned)OUTPUT_EQUAL)
		       : n;
}

/**
 * The output of the only QP that is ready, if it is a small message and perhaps an ACK. The ACK is
 * behind the message, as in qp_output(). @return 0: nothing was done.
 */
static inline unsigned output_one(struct rocemu_ep *ep, rocemu_ns_t now, struct rocemu_tx *tx,
				  unsigned n)
{
	struct list *node = ep->tx_ready.next;
	struct rocemu_qp *qp = list_entry(node, struct rocemu_qp, tx_link);
	unsigned made;

	if (n < 2 || list_empty(&ep->tx_ready) || list_several(&ep->tx_ready) ||
	    !resp_owes_ack_at_most(&qp->resp) || qp->resp.ack_behind >= ACK_BEHIND_MAX)
		return 0;
	made = req_output_one(qp, now, tx);
	if (!made)
		return 0;
	made += resp_output_ack(qp, tx + made);
	count_made(qp, tx, made);
	list_remove(node);
	ep->stats->tx_packets += made;
	return made;
}

unsigned rocemu_ep_output(struct rocemu_ep *ep, rocemu_ns_t now, struct rocemu_tx *tx, unsigned n)
{
	unsigned done;
	struct list *node;

	ep->now = now;
	if (!list_empty(&ep->tx_pending))
		req_tx_done(ep, now);
	if (unlikely(read_budget_left(ep)))
		read_budget_wake(ep);
	if (unlikely(!list_empty(&ep->tx_acks)))
		list_splice(&ep->tx_ready, &ep->tx_acks);
	done = output_one(ep, now, tx, n);
	if (done)
		return done;
	if (n > ROCEMU_OUTPUT_BATCH)
		n = ROCEMU_OUTPUT_BATCH;
	while (done < n && (node = list_first(&ep->tx_ready))) {
		struct rocemu_qp *qp = list_entry(node, struct rocemu_qp, tx_link);
		const unsigned room = output_room(qp, n);
		unsigned made;
		bool more;

		if (done >= room)
			break;
		made = qp_output(qp, now, tx + done, room - done, n - done, done, &more);
		if (likely(made))
			count_made(qp, tx + done, made);
		list_remove(node);
		if (more || resp_owes(&qp->resp)) {
			qp_wake(qp);
			if (!made)
				break; /* reports output, but gives none: must not spin */
		}
		done += made;
	}
	/* No packet has to be sent first: complete requests that make no packet now. */
	if (!done && !list_empty(&ep->tx_pending))
		req_tx_done(ep, now);
	ep->stats->tx_packets += done;
	return done;
}

enum { LOOKS_AGAIN = 2 };

/**
 * What the QPs have to send: n and those behind it in tx_ready. They leave it, unless what they
 * have is enough: so each is looked at once, however many there are.
 */
static APART enum rocemu_output look_behind(struct rocemu_ep *ep, struct list *n,
					    enum rocemu_output found, enum rocemu_output enough)
{
	while (n != &ep->tx_ready) {
		struct rocemu_qp *qp = list_entry(n, struct rocemu_qp, tx_link);
		const enum rocemu_output kind = qp_output_kind(qp, enough);

		if (kind >= enough)
			return kind;
		found = MAX(found, kind);
		n = set_aside(qp, kind);
		/* A request that is to be failed was found. */
		if (!list_empty(&ep->tx_pending))
			return ROCEMU_OUTPUT_NOW;
	}
	return found;
}

/**
 * What the QPs have to send, or just what is enough. The first few stay in tx_ready: a program that
 * uses few QPs takes longer to move them than to look at them again.
 */
static inline enum rocemu_output look_for_output(struct rocemu_ep *ep, enum rocemu_output enough)
{
	enum rocemu_output found =
		list_empty(&ep->tx_acks) ? ROCEMU_OUTPUT_NONE : ROCEMU_OUTPUT_ACKS;
	unsigned looks = 0;

	list_for_each (n, &ep->tx_ready) {
		enum rocemu_output kind;

		if (unlikely(looks++ == LOOKS_AGAIN))
			return look_behind(ep, n, found, enough);
		kind = qp_output_kind(list_entry(n, struct rocemu_qp, tx_link), enough);
		if (kind >= enough)
			return kind;
		found = MAX(found, kind);
	}
	return found;
}

/** What need not be looked for: a request to be completed, READs that may go on. */
static inline bool has_output(const struct rocemu_ep *ep)
{
	return !list_empty(&ep->tx_pending) || read_budget_left(ep);
}

static HOT __attribute__((noinline)) bool look_for_any(struct rocemu_ep *ep)
{
	return look_for_output(ep, ROCEMU_OUTPUT_ACKS) != ROCEMU_OUTPUT_NONE;
}

HOT bool rocemu_ep_has_output(struct rocemu_ep *ep)
{
	if (has_output(ep))
		return true;
	return list_empty(&ep->tx_ready) ? !list_empty(&ep->tx_acks) : look_for_any(ep);
}

HOT enum rocemu_output rocemu_ep_output_kind(struct rocemu_ep *ep)
{
	return has_output(ep) ? ROCEMU_OUTPUT_NOW : look_for_output(ep, ROCEMU_OUTPUT_NOW);
}

rocemu_ns_t rocemu_ep_deadline(const struct rocemu_ep *ep)
{
	return timer_next(&ep->timers);
}

void rocemu_ep_expire(struct rocemu_ep *ep, rocemu_ns_t now)
{
	struct timer *t;

	while ((t = timer_pop_due(&ep->timers, now)))
		switch (t->owner) {
		case TIMER_QP:
			req_expire(container_of(t, struct rocemu_qp, timer), now);
			break;
		case TIMER_QP_NAK:
			resp_nak_expire(container_of(t, struct rocemu_qp, nak_timer));
			break;
		case TIMER_CQ:
			cq_notify(container_of(t, struct rocemu_cq, timer));
			break;
		case TIMER_CQ_LATE:
			cq_late_expire(container_of(t, struct rocemu_cq, late), now);
			break;
		}
}
