/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes sentences for steps. A is the sender of the session's first packet. */
#include <inttypes.h>
#include <string.h>

#include <rocemu/cm.h>

#include "lesson.h"
#include "names.h"
#include "capture/cut.h"

struct words {
	struct text *t;
	const struct lesson *l;
	const struct step *s;
	const struct logged *first, *last;
	const char *who, *peer;
};

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void psns(const struct words *w)
{
	text_add(w->t, "PSN %" PRId32, w->first->psn);
	if (w->last->psn != w->first->psn)
		text_add(w->t, "-%" PRId32, w->last->psn);
}

static void bytes(const struct words *w, const char *before, uint64_t n)
{
	text_add(w->t, "%s %" PRIu64 " byte%s", before, n, plural(n));
}

/* "in 3 packets, PSN 4-6" */
static void packets(const struct words *w)
{
	if (w->s->n > 1)
		text_add(w->t, " in %" PRIu32 " packets", w->s->n);
	text_add(w->t, ", ");
	psns(w);
	text_add(w->t, ".");
}

static void extras(const struct words *w)
{
	if (logged_has(w->last, ROCEMU_HDR_IMMDT))
		text_add(w->t, " With it go 4 bytes of immediate data, 0x%08" PRIx32 "%s",
			 w->last->h.imm,
			 rocemu_opcode_ops(w->s->opcode) & ROCEMU_OP_WRITE
				 ? ", which take a receive of the peer."
				 : ".");
	if (logged_has(w->last, ROCEMU_HDR_IETH))
		text_add(w->t, " %s's key 0x%" PRIx32 " becomes invalid with it.", w->peer,
			 w->last->h.ieth);
	if (w->last->h.ackreq)
		text_add(w->t, " It requests an acknowledgement.");
}

/* ---- requests ---- */

static void send_words(const struct words *w)
{
	const struct rocemu_hdrs *h = &w->first->h;

	if (rocemu_opcode_hdrs(h->opcode) & ROCEMU_HDR_DETH) {
		bytes(w, w->s->back ? "B sends a datagram of" : "A sends a datagram of",
		      w->s->bytes);
		text_add(w->t, " (SEND) to %s ",
			 h->dqpn == ROCEMU_MCAST_QPN ? "the multicast group" : "QP");
		if (h->dqpn == ROCEMU_MCAST_QPN)
			text_add_gid(w->t, &w->first->ip.dst);
		else
			text_add(w->t, "0x%" PRIx32, h->dqpn);
		if (logged_has(w->first, ROCEMU_HDR_DETH))
			text_add(w->t, ", Q_Key 0x%" PRIx32, h->deth.qkey);
		text_add(w->t, ".");
		if (w->s->first == 0)
			text_add(w->t, " No answer follows: UD is not acknowledged.");
		extras(w);
		return;
	}
	text_add(w->t, "%s sends ", w->who);
	bytes(w, rocemu_opcode_ops(h->opcode) & ROCEMU_OP_FIRST ? "a message of" : "more of it,",
	      w->s->bytes);
	text_add(w->t, " (SEND)");
	packets(w);
	extras(w);
}

static void target(const struct words *w, uint64_t va, uint32_t rkey)
{
	text_add(w->t, "%s's memory", w->peer);
	if (logged_has(w->first, ROCEMU_HDR_RETH | ROCEMU_HDR_ATOMICETH))
		text_add(w->t, " at 0x%" PRIx64 ", key 0x%" PRIx32, va, rkey);
}

static void write_words(const struct words *w)
{
	const struct rocemu_hdrs *h = &w->first->h;

	text_add(w->t, "%s", w->who);
	bytes(w, " writes", w->s->bytes);
	if (rocemu_opcode_hdrs(h->opcode) & ROCEMU_HDR_RETH) {
		text_add(w->t, " to ");
		target(w, h->reth.va, h->reth.rkey);
		text_add(w->t, " (RDMA WRITE)");
	} else {
		text_add(w->t, " more (RDMA WRITE)");
	}
	packets(w);
	extras(w);
}

static void read_words(const struct words *w)
{
	const struct rocemu_hdrs *h = &w->first->h;
	uint32_t mtu = w->l->session->mtu, n;

	text_add(w->t, "%s", w->who);
	if (logged_has(w->first, ROCEMU_HDR_RETH))
		bytes(w, " requests", h->reth.length);
	else
		text_add(w->t, " requests bytes");
	text_add(w->t, " of ");
	target(w, h->reth.va, h->reth.rkey);
	text_add(w->t, " (RDMA READ), PSN %" PRId32 ".", w->first->psn);
	if (mtu == 0 || !logged_has(w->first, ROCEMU_HDR_RETH))
		return;
	n = read_responses(h->reth.length, mtu);
	if (n > 1)
		text_add(w->t,
			 " It takes the PSNs %" PRId32 "-%" PRId64
			 ", one for each packet of the answer.",
			 w->first->psn, (int64_t)w->first->psn + n - 1);
}

static void atomic_words(const struct words *w)
{
	const struct rocemu_hdrs *h = &w->first->h;
	bool add = h->opcode == ROCEMU_RC_FETCH_ADD || h->opcode == ROCEMU_XRC_FETCH_ADD;

	if (!logged_has(w->first, ROCEMU_HDR_ATOMICETH))
		text_add(w->t, "%s requests to change 8 bytes of ", w->who);
	else if (add)
		text_add(w->t, "%s requests to add 0x%" PRIx64 " to the 8 bytes in ", w->who,
			 h->atomiceth.swap_add);
	else
		text_add(w->t,
			 "%s requests to replace 8 bytes by 0x%" PRIx64 " if they are 0x%" PRIx64
			 ", in ",
			 w->who, h->atomiceth.swap_add, h->atomiceth.compare);
	target(w, h->atomiceth.va, h->atomiceth.rkey);
	text_add(w->t, " (%s), PSN %" PRId32 ".", add ? "Fetch Add" : "Compare Swap",
		 w->first->psn);
}

static void other_request(const struct words *w)
{
	const struct rocemu_hdrs *h = &w->first->h;

	if ((rocemu_opcode_ops(h->opcode) & ROCEMU_OP_FLUSH) &&
	    !logged_has(w->first, ROCEMU_HDR_RETH))
		text_add(w->t, "%s requests to flush ", w->who);
	else if (rocemu_opcode_ops(h->opcode) & ROCEMU_OP_FLUSH)
		text_add(w->t, "%s requests to flush %" PRIu32 " bytes of ", w->who,
			 h->reth.length);
	else
		text_add(w->t, "%s writes %" PRIu64 " bytes in one step (Atomic Write) to ", w->who,
			 w->s->bytes);
	target(w, h->reth.va, h->reth.rkey);
	text_add(w->t, ", PSN %" PRId32 ".", w->first->psn);
}

/* ---- responses ---- */

static void nak_words(const struct words *w)
{
	uint8_t syndrome = w->first->h.aeth.syndrome;
	int32_t psn = w->first->psn;

	switch (syndrome & ROCEMU_AETH_CLASS_MASK) {
	case ROCEMU_AETH_RNR:
		text_add(w->t,
			 "%s has no receive for PSN %" PRId32
			 " (RNR NAK): %s waits %g ms or longer, and sends it again.",
			 w->who, psn, w->peer,
			 (double)rocemu_rnr_timer_ns(syndrome & ROCEMU_AETH_VALUE_MASK) / 1e6);
		return;
	case ROCEMU_AETH_NAK:
		if (syndrome == ROCEMU_NAK_PSN_SEQ) {
			text_add(w->t,
				 "%s received packets behind PSN %" PRId32
				 ", but not that one (NAK PSN Sequence Error): %s has to "
				 "send it again.",
				 w->who, psn, w->peer);
			return;
		}
		break;
	default:
		break;
	}
	text_add(w->t, "%s refuses PSN %" PRId32 " (", w->who, psn);
	name_syndrome(w->t, syndrome);
	text_add(w->t, "): %s's QP goes to the error state, and its requests fail.", w->peer);
}

static void response_words(const struct words *w, uint32_t ops)
{
	if (logged_is_nak(w->first)) {
		nak_words(w);
	} else if (ops & ROCEMU_OP_READ_RESP) {
		text_add(w->t, "%s", w->who);
		if (w->s->bytes == 0 && w->s->n == 1) /* of a FLUSH, or of a READ of nothing */
			text_add(w->t, " answers that it is done");
		else
			bytes(w, " answers with", w->s->bytes);
		packets(w);
	} else if (ops & ROCEMU_OP_ATOMIC_ACK) {
		text_add(w->t, "%s answers with the value from before", w->who);
		if (logged_has(w->first, ROCEMU_HDR_ATOMICACK))
			text_add(w->t, ": 0x%" PRIx64, w->first->h.atomicack);
		text_add(w->t, ", PSN %" PRId32 ".", w->first->psn);
	} else if (!logged_has(w->first, ROCEMU_HDR_AETH)) {
		text_add(w->t, "%s acknowledges PSN %" PRId32 ", or refuses it.", w->who,
			 w->first->psn);
	} else if (w->first->hint) {
		text_add(
			w->t,
			"%s misses PSN %" PRId32
			" too (a hint of rocemu's: an acknowledgement of a PSN %d before it, which "
			"other requesters drop as old).",
			w->who, w->first->psn, HINT_BEHIND);
	} else {
		text_add(w->t,
			 "%s acknowledges everything up to PSN %" PRId32 "; %" PRIu32
			 " message%s complete (MSN).",
			 w->who, w->first->psn, w->first->h.aeth.msn,
			 w->first->h.aeth.msn == 1 ? " is" : "s are");
	}
}

/* ---- connection management ---- */

static void service(const struct words *w, uint64_t id)
{
	enum rocemu_port_space ps;
	uint16_t port;

	if (rocemu_cm_service_port(id, &ps, &port))
		text_add(w->t, "port %u", port);
	else
		text_add(w->t, "service 0x%" PRIx64, id);
}

static void req_words(const struct words *w, const struct rocemu_cm_req *m)
{
	text_add(w->t, "%s requests a connection to ", w->who);
	service(w, m->service_id);
	text_add(w->t, " (CM: ConnectRequest): its QP is 0x%" PRIx32, m->local_qpn);
	if (m->path_mtu >= 1 && m->path_mtu <= 5)
		text_add(w->t, ", the path MTU %u bytes", 128u << m->path_mtu);
	text_add(w->t, ", and the PSN of the first request to it is to be %" PRIu32 ".",
		 m->starting_psn);
}

static void sidr_rep_words(const struct words *w, const struct rocemu_cm_sidr_rep *m)
{
	if (m->status == ROCEMU_CM_SIDR_VALID)
		text_add(w->t,
			 "%s answers (CM: ServiceIDResReqResp): it is QP 0x%" PRIx32
			 ", Q_Key 0x%" PRIx32 ".",
			 w->who, m->qpn, m->qkey);
	else
		text_add(w->t, "%s refuses (CM: ServiceIDResReqResp): %s.", w->who,
			 rocemu_cm_sidr_text(m->status));
}

static void cm_words(const struct words *w, const struct rocemu_cm_msg *m)
{
	switch ((enum rocemu_cm_attr)m->attr_id) {
	case ROCEMU_CM_REQ:
		req_words(w, &m->req);
		return;
	case ROCEMU_CM_REP:
		text_add(w->t,
			 "%s accepts (CM: ConnectReply): its QP is 0x%" PRIx32
			 ", and the PSN of the first request to it is to be %" PRIu32 ".",
			 w->who, m->rep.local_qpn, m->rep.starting_psn);
		return;
	case ROCEMU_CM_RTU:
		text_add(w->t, "%s confirms (CM: ReadyToUse): both sides may send now.", w->who);
		return;
	case ROCEMU_CM_MRA:
		text_add(w->t, "%s needs more time to answer (CM: MsgRcptAck).", w->who);
		return;
	case ROCEMU_CM_REJ:
		text_add(w->t, "%s rejects (CM: ConnectReject): reason %u, %s.", w->who,
			 m->rej.reason, rocemu_cm_rej_text(m->rej.reason));
		return;
	case ROCEMU_CM_DREQ:
		text_add(w->t, "%s ends the connection (CM: DisconnectRequest).", w->who);
		return;
	case ROCEMU_CM_DREP:
		text_add(w->t, "%s confirms the end (CM: DisconnectReply).", w->who);
		return;
	case ROCEMU_CM_SIDR_REQ:
		text_add(w->t, "%s requests the QP that serves ", w->who);
		service(w, m->sidr_req.service_id);
		text_add(w->t, " (CM: ServiceIDResReq).");
		return;
	case ROCEMU_CM_SIDR_REP:
		sidr_rep_words(w, &m->sidr_rep);
		return;
	case ROCEMU_CM_LAP:
		text_add(w->t, "%s proposes an alternate path (CM: LoadAlternatePath).", w->who);
		return;
	case ROCEMU_CM_APR:
		text_add(w->t, "%s answers the proposal (CM: AlternatePathResponse): %s.", w->who,
			 rocemu_cm_apr_text(m->apr.status));
		return;
	}
}

static void mad_words(const struct words *w)
{
	struct rocemu_cm_msg m;

	if (rocemu_cm_decode(&m, w->first->mad, w->first->mad_len) == ROCEMU_MAD_OK)
		cm_words(w, &m);
	else
		text_add(w->t, "%s sends a management datagram to QP 1.", w->who);
}

/* ---- all of it ---- */

static void around(const struct words *w)
{
	if (w->s->missing != 0)
		text_add(w->t, " %" PRIu32 " packet%s missing %s: lost, or not captured.",
			 w->s->missing, w->s->missing == 1 ? " is" : "s are",
			 w->first->missing == w->s->missing ? "before it" : "among them");
	if (w->s->late)
		text_add(w->t, " This packet was missing: it came late, or was sent again.");
	if (w->s->hides)
		text_add(w->t,
			 " The capture has a part of the frame, which may hold more packets.");
}

/* What the capture does not have of the headers. */
static void left_out(const struct words *w)
{
	uint32_t missing = rocemu_opcode_hdrs(w->first->h.opcode) & ~w->first->hdrs;
	char names[64];

	if (missing == 0)
		return;
	cut_names(names, sizeof(names), missing);
	text_add(w->t, " (The capture does not have the %s.)", names);
}

static void packet_words(const struct words *w)
{
	uint32_t ops = rocemu_opcode_ops(w->s->opcode);

	if (w->first->cut && !w->first->bth) {
		text_add(w->t, "%s sends a packet, of which the capture has too little.", w->who);
		return;
	}
	if (!w->first->decoded) {
		text_add(w->t, "%s sends a packet that no receiver takes (", w->who);
		name_packet(w->t, w->first);
		text_add(w->t, "): malformed, or its ICRC is wrong.");
		return;
	}
	if (w->s->again)
		text_add(w->t, "Once more: ");
	if (w->first->mad != NULL)
		mad_words(w);
	else if (ops & ROCEMU_OP_RESPONSE)
		response_words(w, ops);
	else if (ops & ROCEMU_OP_SEND)
		send_words(w);
	else if (ops & ROCEMU_OP_WRITE)
		write_words(w);
	else if (ops & ROCEMU_OP_READ_REQ)
		read_words(w);
	else if (ops & ROCEMU_OP_ATOMIC)
		atomic_words(w);
	else if (ops & ROCEMU_OP_CNP)
		text_add(w->t,
			 "%s received packets that a switch had marked (ECN) and reports it (CNP): "
			 "%s "
			 "is to send more slowly.",
			 w->who, w->peer);
	else
		other_request(w);
	left_out(w);
	around(w);
}

void lesson_text(const struct lesson *l, const struct step *s, struct text *t)
{
	struct words w = {
		.t = t,
		.l = l,
		.s = s,
		.first = lesson_packet(l, s->first),
		.last = lesson_packet(l, s->last),
		.who = s->back ? "B" : "A",
		.peer = s->back ? "A" : "B",
	};

	if (s->repeats == 0) {
		packet_words(&w);
		return;
	}
	if (s->period > 1)
		text_add(t, "The last %" PRIu32 " steps", s->period);
	else
		text_add(t, "The same");
	text_add(t, " %" PRIu32 " time%s more, %" PRIu32 " packets.", s->repeats,
		 plural(s->repeats), s->n);
}

static void side_title(const struct session *s, unsigned side, struct text *t)
{
	text_add(t, "%s is ", side == 0 ? "A" : "B");
	text_add_gid(t, &s->side[side].gid);
	if (s->side[side].qpn == ROCEMU_MCAST_QPN)
		text_add(t, " (a multicast group)");
	else if (s->side[side].qpn != 0)
		text_add(t, " QP 0x%" PRIx32, s->side[side].qpn);
}

void lesson_title(const struct session *s, struct text *t)
{
	side_title(s, 0, t);
	text_add(t, ", ");
	side_title(s, 1, t);
}
