/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Injects faults into sent and received packets, and the port's flaps: by rules (fault/fault.h) and
 * by chance (fault/impair.h). Chance applies to sent packets, so that each process decides about
 * its own. Packets that leave at once and unchanged go through lane_tx_send(), in bursts; the
 * others are copied, ICRC included, and sent singly.
 *
 * A packet that is held back leaves when it is due, and never before an earlier one of its QP, with
 * two exceptions: a reordered one waits until a few of its QP have left, and one that a rule delays
 * waits alone.
 *
 * A port that is down does not send or receive packets. Packets already held back arrive.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/util.h"
#include "engine/lane-held.h"
#include "engine/txgroup.h"
#include "wire/ip.h"

enum { ECN_CE = 3 };

int lane_impair_init(struct lane *l, char *errbuf, size_t errlen)
{
	struct lane_impair *im = calloc(1, sizeof(*im));
	const struct impair *spec = &l->impair;

	l->held = im;
	if (!im) {
		snprintf(errbuf, errlen, "impairment: out of memory");
		return -ENOMEM;
	}
	list_init(&im->queue[FAULT_TX]);
	list_init(&im->queue[FAULT_RX]);
	list_init(&im->reordered);
	im->log_due = ROCEMU_NEVER;
	if (spec->nrules)
		im->faults = faults_new(spec->rule, spec->nrules, spec->seed);
	if (spec->nrules && !im->faults) {
		snprintf(errbuf, errlen, "impairment: out of memory");
		return -ENOMEM;
	}
	for (unsigned i = 0; i < spec->nrules; i++)
		im->total[i] = fault_total_get(spec->rule[i].text, "packets");
	l->faulty_rx = faults_wants(im->faults, FAULT_RX) || spec->rnr > 0;
	log_info("%s: impairment: seed %llu", l->device, (unsigned long long)spec->seed);
	return fault_report_start(errbuf, errlen);
}

void lane_set_link(struct lane *l, bool up)
{
	lane_lock(l);
	if (l->down == up) {
		l->stats->impair_flaps += !up;
		fault_report_add(FAULT_COUNT_FLAP, !up);
		fault_log_line("%s port %s", l->device, up ? "up" : "down");
		fault_log_flush();
	}
	l->down = !up;
	lane_unlock(l);
}

void lane_impair_fini(struct lane *l)
{
	if (!l->held)
		return;
	for (unsigned dir = FAULT_TX; dir <= FAULT_RX; dir++)
		list_for_each_safe (it, tmp, &l->held->queue[dir])
			free(list_entry(it, struct held, node));
	faults_free(l->held->faults);
	fault_log_flush();
	free(l->held);
	l->held = NULL;
}

/* ---- sent packets ---- */

/* The effects of rules and chance on a packet that is not dropped. */
struct plan {
	struct fault_verdict v;
	struct impair_action f;
	bool mark;
	rocemu_ns_t due;      /* when its QP's order lets it leave, and its delay */
	rocemu_ns_t alone_ns; /* additional delay by a rule, which does not delay later packets */
};

static void put_icrc(const struct rocemu_icrc_ctx *ctx, uint8_t *packet, size_t len)
{
	put_le32(packet + len - ROCEMU_ICRC_LEN,
		 rocemu_icrc(ctx, packet, len - ROCEMU_ICRC_LEN, NULL, 0, NULL, 0));
}

/*
 * Flip the bits that rules select; ctx: the headers below the BTH that the ICRC covers, NULL: do
 * not compute it.
 */
static void corrupt(const struct fault_verdict *v, const struct rocemu_icrc_ctx *ctx,
		    uint8_t *packet, size_t len)
{
	for (unsigned i = 0; i < v->nsealed; i++)
		fault_flip(packet, v->sealed[i]);
	if (v->nsealed && ctx)
		put_icrc(ctx, packet, len);
	for (unsigned i = 0; i < v->nraw; i++)
		fault_flip(packet, v->raw[i]);
}

static void corrupt_held(struct lane *l, struct held *h, const struct plan *plan) REQUIRES(l);
static void corrupt_held(struct lane *l, struct held *h, const struct plan *plan)
{
	const struct rocemu_icrc_ctx ctx = {
		.src = h->path.sgid,
		.dst = h->path.dgid,
		.sport = h->path.sport,
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = IP_FLAG_DF,
	};

	corrupt(&plan->v, &ctx, h->data, h->len);
	if (plan->f.corrupt_bits)
		impair_corrupt(&l->impair, h->data, h->len, plan->f.corrupt_bits);
}

/* Copy and corrupt one packet, then hold it back or send it. */
static void send_copy(struct lane *l, rocemu_ns_t now, const struct rocemu_tx *t,
		      const struct plan *plan) REQUIRES(l);
static void send_copy(struct lane *l, rocemu_ns_t now, const struct rocemu_tx *t,
		      const struct plan *plan)
{
	/* Its payload will be the copy, which may be corrupted, and is overwritten by the next one.
	 */
	struct rocemu_tx own = *t;
	struct txsock *s = lane_tx_sock(l, t->path);
	struct held *h = s ? held_new(l, FAULT_TX, rocemu_tx_len(t)) : NULL;

	if (!h)
		return;
	h->flow = t->lqpn;
	h->path = *t->path;
	h->path.sport = s->port;
	if (!h->path.hop_limit)
		h->path.hop_limit = s->hop_limit ? s->hop_limit : 64;
	if (plan->mark)
		h->path.tclass |= ECN_CE;
	own.path = &h->path;
	lane_tx_copy(l, &own, h->data);
	corrupt_held(l, h, plan);
	h->due = plan->due + plan->alone_ns;
	h->alone = plan->alone_ns > 0;
	if (plan->f.overtakers)
		held_add_reordered(l, h, plan->f.overtakers);
	else
		held_add(l, now, h);
}

/* Bytes of the IP packet. */
static uint32_t link_bytes(const struct rocemu_tx *t)
{
	return rocemu_tx_len(t) + UDP_LEN +
	       (rocemu_gid_is_ipv4(&t->path->dgid) ? IPV4_LEN : IPV6_LEN);
}

/* Compute when it leaves. @return false: never, the queue is full. */
static bool schedule(struct lane *l, rocemu_ns_t now, const struct fault_packet *p,
		     const struct rocemu_tx *t, struct plan *plan) REQUIRES(l);
static bool schedule(struct lane *l, rocemu_ns_t now, const struct fault_packet *p,
		     const struct rocemu_tx *t, struct plan *plan)
{
	const struct fault_link link = {
		.rate_bps = l->impair.rate_bps,
		.queue_bytes = l->impair.queue_bytes,
		.mark_bytes = l->impair.mark_bytes,
	};
	struct fault_sched *s = &l->held->sched;
	uint64_t leaves = now;
	bool mark = false;

	if (link.rate_bps && !fault_sched_enqueue(s, &link, now, link_bytes(t), &leaves, &mark)) {
		l->stats->impair_lost++;
		note_count(l, now, p, FAULT_COUNT_QUEUE, "queue", 0);
		return false;
	}
	if (mark) {
		l->stats->impair_marked++;
		note_count(l, now, p, FAULT_COUNT_MARK, "mark", 0);
	}
	plan->mark = mark || plan->v.mark;
	plan->due = fault_sched_order(s, t->lqpn, leaves + plan->f.delay_ns);
	plan->alone_ns = plan->v.delay_ns;
	return true;
}

/* Rules and chance. @return false: the packet is dropped. */
static bool decide(struct lane *l, rocemu_ns_t now, const struct fault_packet *p, struct plan *plan)
	REQUIRES(l);
static bool decide(struct lane *l, rocemu_ns_t now, const struct fault_packet *p, struct plan *plan)
{
	if (faults_wants(l->held->faults, FAULT_TX)) {
		faults_decide(l->held->faults, p, &plan->v);
		note_rules(l, now, p, &plan->v);
	}
	/* The dice are drawn for each packet; otherwise rules would shift their sequence. */
	plan->f = impair_roll(&l->impair);
	if (plan->v.drop)
		return false;
	note_action(l, now, p, &plan->f);
	return !plan->f.lost;
}

/* Does it leave at once and as it is? */
static bool is_plain(const struct plan *plan, rocemu_ns_t now)
{
	return !plan->f.overtakers && !plan->f.corrupt_bits && !plan->v.nsealed && !plan->v.nraw &&
	       !plan->mark && plan->due + plan->alone_ns <= now;
}

/* Packets on their way to lane_tx_send(). */
struct plain {
	struct rocemu_tx *pkt[ROCEMU_OUTPUT_BATCH];
	unsigned n;
};

static void send_plain(struct lane *l, struct plain *plain) REQUIRES(l);
static void send_plain(struct lane *l, struct plain *plain)
{
	if (plain->n)
		lane_tx_send(l, plain->pkt, plain->n);
	plain->n = 0;
}

static void send_one(struct lane *l, rocemu_ns_t now, struct rocemu_tx *t, struct plain *plain)
	REQUIRES(l);
static void send_one(struct lane *l, rocemu_ns_t now, struct rocemu_tx *t, struct plain *plain)
{
	const struct fault_packet p = {
		.dir = FAULT_TX,
		.qp = t->lqpn,
		.peer = &t->path->dgid,
		.hdr = t->hdr,
		.len = rocemu_tx_len(t),
	};
	struct plan plan = {.mark = false};
	unsigned copies;

	if (!decide(l, now, &p, &plan))
		return;
	copies = 1 + plan.f.dup + plan.v.dups;
	for (unsigned i = 0; i < copies; i++) {
		if (!schedule(l, now, &p, t, &plan))
			continue;
		/* Sending changes the descriptor: it is not used afterwards. */
		if (copies == 1 && is_plain(&plan, now)) {
			plain->pkt[plain->n++] = t;
			/* Packets that wait to be overtaken must see it leave. */
			if (list_empty(&l->held->reordered))
				continue;
			send_plain(l, plain);
			held_overtaken(l, now, t->lqpn);
			continue;
		}
		send_plain(l, plain);
		send_copy(l, now, t, &plan);
		/* Only one of two copies is delayed. */
		plan.f.overtakers = 0;
	}
}

APART void lane_impair_send(struct lane *l, rocemu_ns_t now, struct rocemu_tx **pkt, unsigned n)
{
	struct plain plain = {.n = 0};

	if (l->down) {
		l->stats->impair_down += n;
		fault_report_add(FAULT_COUNT_DOWN, n);
		return;
	}
	fault_report_add(FAULT_COUNT_SENT, n);
	/* Due packets leave first, otherwise they would be overtaken. */
	held_expire(l, now, FAULT_TX);
	/* Those that are held leave one by one. */
	txgroup_order(pkt, n, 1);
	for (unsigned i = 0; i < n; i++)
		send_one(l, now, pkt[i], &plain);
	send_plain(l, &plain);
}

/* ---- received packets ---- */

/*
 * The packet is in a buffer of the lane's, so it can be corrupted in place. Its identification is
 * known from then on: the endpoint could find another one for which the corrupted packet is right.
 */
static void corrupt_received(const struct fault_verdict *v, struct rocemu_dgram *d)
{
	struct rocemu_icrc_ctx ctx = {
		.src = d->src,
		.dst = d->dst,
		.sport = d->sport,
		.dport = d->dport,
		.ip_id = d->ip_id,
		.ip_frag = IP_FLAG_DF,
	};
	const int32_t id = rocemu_icrc_check(&ctx, d->ip_id_known, d->data, d->len);

	/* One whose ICRC is wrong already stays so. */
	if (id >= 0) {
		ctx.ip_id = d->ip_id = (uint16_t)id;
		d->ip_id_known = true;
	}
	corrupt(v, id >= 0 ? &ctx : NULL, (uint8_t *)(uintptr_t)d->data, d->len);
}

static void hold_received(struct lane *l, rocemu_ns_t now, const struct rocemu_dgram *d,
			  const struct fault_verdict *v) REQUIRES(l);
static void hold_received(struct lane *l, rocemu_ns_t now, const struct rocemu_dgram *d,
			  const struct fault_verdict *v)
{
	struct held *h = held_new(l, FAULT_RX, d->len);

	if (!h)
		return;
	memcpy(h->data, d->data, d->len);
	h->d = *d;
	h->d.data = h->data;
	h->due = now + v->delay_ns;
	held_add(l, now, h);
}

APART void lane_impair_input(struct lane *l, rocemu_ns_t now, struct rocemu_dgram *d)
{
	const struct fault_packet p = note_packet(d);
	const uint8_t tclass = d->tclass;
	const bool id_known = d->ip_id_known;
	struct fault_verdict v = {0};

	fault_report_add(FAULT_COUNT_RECEIVED, 1);
	if (l->held->faults && d->len >= ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN) {
		faults_decide(l->held->faults, &p, &v);
		note_rules(l, now, &p, &v);
	}
	if (v.drop)
		return;
	if (v.nsealed || v.nraw)
		corrupt_received(&v, d);
	if (v.mark)
		d->tclass |= ECN_CE;
	for (unsigned i = 0; i < 1 + v.dups; i++) {
		if (v.delay_ns)
			hold_received(l, now, d, &v);
		else
			lane_impair_deliver(l, now, d);
	}
	d->tclass = tclass;
	d->ip_id_known = id_known;
}
