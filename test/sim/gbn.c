/* SPDX-License-Identifier: BSD-2-Clause */
/* See gbn.h. */
#include "gbn.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum { ACK_EVERY = 8 };

static uint8_t zeros[ROCEMU_MAX_MTU];

void gbn_init(struct gbn *g, const struct gbn_config *c)
{
	*g = (struct gbn){.c = *c, .epsn = c->psn, .deadline = ROCEMU_NEVER};
}

static uint32_t psn_add(uint32_t psn, uint64_t n)
{
	return (uint32_t)(psn + n) & ROCEMU_PSN_MASK;
}

static void fill(const struct gbn *g, struct rocemu_tx *t, struct rocemu_hdrs *h, uint32_t payload)
{
	uint32_t pad = -payload & 3;

	h->pkey = ROCEMU_PKEY_DEFAULT;
	h->migreq = true;
	h->dqpn = g->c.dqpn;
	h->pad = (uint8_t)pad;
	*t = (struct rocemu_tx){
		.path = &g->c.path,
		.lqpn = GBN_QPN,
		.payload_len = payload,
		.trailer_len = (uint8_t)(pad + ROCEMU_ICRC_LEN),
		.niov = payload > 0,
		.iov = {{zeros, payload}},
	};
	t->hdr_len = (uint8_t)rocemu_hdrs_encode(h, t->hdr);
}

/* ---- responder ---- */

static void job_add(struct gbn *g, uint32_t psn, uint32_t len)
{
	struct gbn_job *j;

	if (g->job_count == ARRAY_LEN(g->jobs))
		return;
	j = &g->jobs[(g->job_first + g->job_count++) % ARRAY_LEN(g->jobs)];
	*j = (struct gbn_job){.psn = psn, .n = MAX((len + g->c.mtu - 1) / g->c.mtu, 1), .len = len};
}

static void take(struct gbn *g, const struct rocemu_packet *p, uint32_t ops)
{
	if (ops & ROCEMU_OP_READ_REQ) {
		job_add(g, p->h.psn, p->h.reth.length);
		g->epsn = psn_add(g->epsn, MAX((p->h.reth.length + g->c.mtu - 1) / g->c.mtu, 1));
	} else {
		g->epsn = psn_add(g->epsn, 1);
		g->taken_bytes += p->payload_len;
	}
	g->nak_sent = g->nak_due = false;
	if (ops & ROCEMU_OP_LAST)
		g->msn = psn_add(g->msn, 1);
	if (p->h.ackreq && !(ops & ROCEMU_OP_READ_REQ)) {
		g->ack_due = true;
		g->ack_psn = p->h.psn;
	}
}

static void responder_input(struct gbn *g, const struct rocemu_packet *p, uint32_t ops)
{
	int32_t ahead = rocemu_psn_diff(p->h.psn, g->epsn);

	if (ahead == 0) {
		take(g, p, ops);
	} else if (ahead > 0) {
		g->nak_due |= !g->nak_sent;
		g->nak_sent = true;
	} else if (ops & ROCEMU_OP_READ_REQ) {
		job_add(g, p->h.psn, p->h.reth.length);
	} else {
		g->ack_due = true;
		g->ack_psn = psn_add(g->epsn, ROCEMU_PSN_MASK);
	}
}

static void make_ack(struct gbn *g, struct rocemu_tx *t, uint32_t psn, uint8_t syndrome)
{
	struct rocemu_hdrs h = {
		.opcode = ROCEMU_RC_ACK, .psn = psn, .aeth = {.syndrome = syndrome, .msn = g->msn}};

	fill(g, t, &h, 0);
}

static void make_response(struct gbn *g, struct rocemu_tx *t)
{
	struct gbn_job *j = &g->jobs[g->job_first];
	bool first = j->done == 0, last = j->done + 1 == j->n;
	struct rocemu_hdrs h = {
		.opcode = first && last ? ROCEMU_RC_READ_RESP_ONLY
			  : first	? ROCEMU_RC_READ_RESP_FIRST
			  : last	? ROCEMU_RC_READ_RESP_LAST
					: ROCEMU_RC_READ_RESP_MIDDLE,
		.psn = psn_add(j->psn, j->done),
		.aeth = {.syndrome = ROCEMU_AETH_NO_CREDITS, .msn = g->msn},
	};

	fill(g, t, &h, last ? j->len - j->done * g->c.mtu : g->c.mtu);
	if (++j->done < j->n)
		return;
	g->job_first = (g->job_first + 1) % ARRAY_LEN(g->jobs);
	g->job_count--;
}

static unsigned responder_output(struct gbn *g, struct rocemu_tx *tx, unsigned n)
{
	unsigned made = 0;

	if (g->nak_due && made < n)
		make_ack(g, &tx[made++], g->epsn, ROCEMU_NAK_PSN_SEQ);
	else if (g->ack_due && made < n)
		make_ack(g, &tx[made++], g->ack_psn, ROCEMU_AETH_NO_CREDITS);
	g->nak_due = g->ack_due = false;
	while (made < n && g->job_count)
		make_response(g, &tx[made++]);
	return made;
}

/* ---- requester ---- */

static uint64_t message_pkts(const struct gbn *g)
{
	return g->c.bytes / g->c.mtu;
}

static void progress(struct gbn *g, rocemu_ns_t now, uint64_t una)
{
	if (una <= g->una)
		return;
	g->done_bytes += (una - g->una) * g->c.mtu;
	g->una = una;
	g->next = MAX(g->next, una);
	g->deadline = g->una < g->sent_max ? now + g->c.timeout_ns : ROCEMU_NEVER;
}

static void rewind_to(struct gbn *g, uint64_t to)
{
	g->next = to;
	g->rewinds++;
}

/** A PSN as packets since the beginning: the one that is nearest to una. */
static uint64_t position(const struct gbn *g, uint32_t psn)
{
	int64_t pos = (int64_t)g->una + rocemu_psn_diff(psn, psn_add(g->c.psn, g->una));

	return pos < 0 ? 0 : (uint64_t)pos;
}

static void writer_input(struct gbn *g, rocemu_ns_t now, const struct rocemu_packet *p)
{
	uint64_t at = position(g, p->h.psn);

	if (at > g->sent_max)
		return;
	if (p->h.aeth.syndrome == ROCEMU_NAK_PSN_SEQ) {
		if (at < g->una)
			return;
		progress(g, now, at);
		rewind_to(g, at);
	} else if ((p->h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_ACK) {
		progress(g, now, at + 1);
	}
}

/** Responses must come in order; after a gap the reader requests everything again from there on. */
static void reader_input(struct gbn *g, rocemu_ns_t now, const struct rocemu_packet *p)
{
	uint64_t at = position(g, p->h.psn);

	if (at == g->una && at < g->sent_max) {
		progress(g, now, at + 1);
		g->gap_seen = false;
	} else if (at > g->una && at < g->sent_max && !g->gap_seen) {
		g->gap_seen = true;
		rewind_to(g, g->una);
	}
}

/** The next packet of a WRITE. */
static bool make_write(struct gbn *g, struct rocemu_tx *t)
{
	uint64_t n = message_pkts(g), at = g->next % n;
	bool first = at == 0, last = at + 1 == n;
	struct rocemu_hdrs h = {
		.opcode = first && last ? ROCEMU_RC_WRITE_ONLY
			  : first	? ROCEMU_RC_WRITE_FIRST
			  : last	? ROCEMU_RC_WRITE_LAST
					: ROCEMU_RC_WRITE_MIDDLE,
		.psn = psn_add(g->c.psn, g->next),
		.ackreq = last || g->next % ACK_EVERY == 0,
		.reth = {g->c.va, g->c.rkey, g->c.bytes},
	};

	if (g->next / n >= g->una / n + g->c.outstanding)
		return false;
	fill(g, t, &h, g->c.mtu);
	g->next++;
	return true;
}

/** The next READ request: of a whole message, or of the rest of one. */
static bool make_read(struct gbn *g, struct rocemu_tx *t)
{
	uint64_t n = message_pkts(g), at = g->next % n;
	struct rocemu_hdrs h = {
		.opcode = ROCEMU_RC_READ_REQUEST,
		.psn = psn_add(g->c.psn, g->next),
		.ackreq = true,
		.reth = {g->c.va + at * g->c.mtu, g->c.rkey, (uint32_t)(n - at) * g->c.mtu},
	};

	if (g->next / n >= g->una / n + g->c.outstanding)
		return false;
	fill(g, t, &h, 0);
	g->next += n - at;
	return true;
}

static unsigned requester_output(struct gbn *g, rocemu_ns_t now, struct rocemu_tx *tx, unsigned n)
{
	unsigned made = 0;

	while (made < n &&
	       (g->c.role == GBN_WRITES ? make_write(g, &tx[made]) : make_read(g, &tx[made])))
		made++;
	g->sent_max = MAX(g->sent_max, g->next);
	if (made && g->deadline == ROCEMU_NEVER)
		g->deadline = now + g->c.timeout_ns;
	return made;
}

/* ---- as a host of the fabric ---- */

static void gbn_input(void *peer, rocemu_ns_t now, const struct rocemu_dgram *d)
{
	struct gbn *g = peer;
	struct rocemu_packet p;
	uint32_t ops;

	if (rocemu_packet_decode(&p, d->data, d->len) != ROCEMU_DROP_NONE || p.h.dqpn != GBN_QPN)
		return;
	ops = rocemu_opcode_ops(p.h.opcode);
	if (ops & ROCEMU_OP_REQUEST)
		responder_input(g, &p, ops);
	else if (g->c.role == GBN_WRITES && (ops & ROCEMU_OP_ACK))
		writer_input(g, now, &p);
	else if (g->c.role == GBN_READS_FROM && (ops & ROCEMU_OP_READ_RESP))
		reader_input(g, now, &p);
	else if (g->c.role == GBN_READS_FROM && (ops & ROCEMU_OP_ACK) &&
		 p.h.aeth.syndrome == ROCEMU_NAK_PSN_SEQ && position(g, p.h.psn) >= g->una &&
		 position(g, p.h.psn) < g->next)
		rewind_to(g, g->una);
}

static unsigned gbn_output(void *peer, rocemu_ns_t now, struct rocemu_tx *tx, unsigned n)
{
	struct gbn *g = peer;

	return g->c.role == GBN_RESPONDER ? responder_output(g, tx, n)
					  : requester_output(g, now, tx, n);
}

static rocemu_ns_t gbn_deadline(const void *peer)
{
	return ((const struct gbn *)peer)->deadline;
}

static void gbn_expire(void *peer, rocemu_ns_t now)
{
	struct gbn *g = peer;

	g->timeouts++;
	g->gap_seen = false;
	g->deadline = now + g->c.timeout_ns;
	rewind_to(g, g->una);
}

const struct fabric_peer_ops gbn_ops = {gbn_input, gbn_output, gbn_deadline, gbn_expire};
