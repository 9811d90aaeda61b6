/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds flows, pairs them, and computes their figures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { MAX_CANDIDATES = 1024 };

static struct hosts *hosts_find(struct verify *v, const struct rocemu_gid *src,
				const struct rocemu_gid *dst, enum rocemu_service svc)
{
	hash_for_each (h, struct hosts, node, &v->hosts_table, hosts_digest(v, src, dst, svc)) {
		if (h->svc == svc && rocemu_gid_equal(&h->src, src) &&
		    rocemu_gid_equal(&h->dst, dst))
			return h;
	}
	return NULL;
}

static struct hosts *hosts_get(struct verify *v, const struct rocemu_gid *src,
			       const struct rocemu_gid *dst, enum rocemu_service svc)
{
	struct hosts *h = hosts_find(v, src, dst, svc);

	if (h != NULL)
		return h;
	h = calloc(1, sizeof(*h));
	if (h == NULL)
		return NULL;
	h->src = *src;
	h->dst = *dst;
	h->svc = svc;
	h->pair = veil_pair(v, src, dst);
	hash_add(&v->hosts_table, &h->node, hosts_digest(v, src, dst, svc));
	h->reverse = hosts_find(v, dst, src, svc);
	if (h->reverse != NULL)
		h->reverse->reverse = h;
	return h;
}

static bool flow_is(const struct flow *f, const struct ip_udp *ip, enum rocemu_service svc,
		    uint32_t dqpn)
{
	return f->dqpn == dqpn && f->svc == svc && rocemu_gid_equal(&f->hosts->src, &ip->src) &&
	       rocemu_gid_equal(&f->hosts->dst, &ip->dst);
}

static void to_idle_tail(struct verify *v, struct flow *f)
{
	if (v->idle_tail == &f->idle_next)
		return;
	if (f->idle_link != NULL) {
		*f->idle_link = f->idle_next;
		f->idle_next->idle_link = f->idle_link;
	}
	f->idle_next = NULL;
	f->idle_link = v->idle_tail;
	*v->idle_tail = f;
	v->idle_tail = &f->idle_next;
}

void flow_active(struct verify *v, struct flow *f)
{
	if (v->follow == NULL)
		return;
	if (f->peer != NULL)
		to_idle_tail(v, f->peer);
	to_idle_tail(v, f);
}

static uint64_t flow_key(const struct verify *v, const struct ip_udp *ip, enum rocemu_service svc,
			 uint32_t dqpn)
{
	return hosts_digest(v, &ip->src, &ip->dst, (uint64_t)svc << 32 | dqpn);
}

/* Two hosts of which no flow is left. */
static void hosts_forget(struct verify *v, struct hosts *h)
{
	hash_remove(&v->hosts_table, &h->node);
	if (h->reverse != NULL)
		h->reverse->reverse = NULL;
	free(h);
}

static void flow_unlink(struct verify *v, struct flow *f)
{
	struct flow **at = &f->hosts->flows;

	hash_remove(&v->flow_table, &f->node);
	while (*at != f)
		at = &(*at)->hosts_next;
	*at = f->hosts_next;
	if (f->hosts->flows == NULL)
		hosts_forget(v, f->hosts);
	*f->all_link = f->all_next;
	if (f->all_next != NULL)
		f->all_next->all_link = f->all_link;
	else
		v->flows_tail = f->all_link;
	*f->idle_link = f->idle_next;
	if (f->idle_next != NULL)
		f->idle_next->idle_link = f->idle_link;
	else
		v->idle_tail = f->idle_link;
	if (f->peer != NULL)
		f->peer->peer = NULL;
}

/* Make room: the flow that is idle longest goes, and the other direction of its connection. */
static void flow_forget(struct verify *v)
{
	struct flow *f = v->idle, *peer = f != NULL ? f->peer : NULL;

	for (; f != NULL; f = peer, peer = NULL) {
		request_finish(v, f);
		flow_unlink(v, f);
		if (f->rq.sent != NULL)
			v->sent_bytes -= (f->rq.sent_mask + 1) * sizeof(*f->rq.sent);
		v->sent_bytes -= f->rq.pending_room * sizeof(*f->rq.pending);
		flow_free(f);
		v->forgotten++;
	}
}

static struct flow *flow_new(struct verify *v, const struct ip_udp *ip, enum rocemu_service svc,
			     uint32_t dqpn)
{
	struct flow *f;

	if (v->flow_table.n >= v->flow_most && v->follow != NULL)
		flow_forget(v);
	f = v->flow_table.n < v->flow_most ? calloc(1, sizeof(*f)) : NULL;

	if (f == NULL)
		return NULL;
	f->hosts = hosts_get(v, &ip->src, &ip->dst, svc);
	if (f->hosts == NULL) {
		free(f);
		return NULL;
	}
	f->dqpn = dqpn;
	f->svc = svc;
	hash_add(&v->flow_table, &f->node, flow_key(v, ip, svc, dqpn));
	f->hosts_next = f->hosts->flows;
	f->hosts->flows = f;
	f->all_link = v->flows_tail;
	*v->flows_tail = f;
	v->flows_tail = &f->all_next;
	flow_active(v, f);
	return f;
}

struct flow *flow_find(const struct verify *v, const struct ip_udp *ip, enum rocemu_service svc,
		       uint32_t dqpn)
{
	hash_for_each (f, struct flow, node, &v->flow_table, flow_key(v, ip, svc, dqpn)) {
		if (flow_is(f, ip, svc, dqpn))
			return f;
	}
	return NULL;
}

struct flow *flow_get(struct verify *v, const struct ip_udp *ip, enum rocemu_service svc,
		      uint32_t dqpn)
{
	struct flow *f = flow_find(v, ip, svc, dqpn);

	if (f == NULL)
		return flow_new(v, ip, svc, dqpn);
	flow_active(v, f); /* before another one needs room */
	return f;
}

void flow_pair(struct verify *v, struct flow *a, struct flow *b)
{
	if (a->peer == b)
		return;
	if (a->peer != NULL)
		a->peer->peer = NULL;
	if (b->peer != NULL)
		b->peer->peer = NULL;
	a->peer = b;
	b->peer = a;
	a->peer_told = b->peer_told = false;
	flow_active(v, a);
	if (a->mtu == 0)
		a->mtu = b->mtu;
	else if (b->mtu == 0)
		b->mtu = a->mtu;
	request_mtu_known(v, a);
	request_mtu_known(v, b);
	if (a->disordered || b->disordered)
		disorder(v, a);
}

/* Of responses that a READ has PSNs for, the least that they can be. */
static uint32_t least_responses(const struct pending *a)
{
	return a->total != 0 ? a->total : a->whole ? read_responses(a->len, 256) : 1;
}

static bool answers(const struct flow *q, const struct pkt *p)
{
	uint32_t psn = p->p.h.psn;
	uint32_t kind = ROCEMU_OP_READ_RESP | ROCEMU_OP_ATOMIC_ACK;

	if (!q->rq.started)
		return false;
	for (uint32_t i = q->rq.pending_n; (p->ops & kind) != 0 && i-- > 0;) {
		const struct pending *a = &q->rq.pending[i];

		if (rocemu_psn_diff(psn, a->psn) >= 0 &&
		    rocemu_psn_diff(psn, psn_add(a->psn, least_responses(a))) < 0)
			return true;
	}
	if (q->rq.veiled && rocemu_psn_diff(psn, q->rq.first) >= 0 &&
	    rocemu_psn_diff(psn, q->rq.hidden) < 0)
		return true;
	return (p->ops & kind) == 0 && sent_find(&q->rq, psn) != NULL;
}

/*
 * A connection's two directions name only the QP they go to, so what answers what must be guessed
 * from PSNs; where several fit, from the UDP source ports, which many senders choose alike for both
 * directions; else later packets decide.
 */
struct flow *flow_pair_by_response(struct verify *v, struct flow *r, const struct pkt *p)
{
	struct flow *fit = NULL, *port_fit = NULL;
	unsigned fits = 0, port_fits = 0, seen = 0;

	if (r->hosts->reverse == NULL)
		return NULL;
	for (struct flow *q = r->hosts->reverse->flows; q != NULL; q = q->hosts_next) {
		if (q->peer != NULL || q == r)
			continue;
		if (++seen > MAX_CANDIDATES)
			return NULL;
		if (!answers(q, p))
			continue;
		fits++;
		fit = q;
		if (q->sport == p->rec->ip.sport) {
			port_fits++;
			port_fit = q;
		}
	}
	if (fits != 1)
		fit = port_fits == 1 ? port_fit : NULL;
	if (fit != NULL)
		flow_pair(v, r, fit);
	return fit;
}

void flow_restart(struct flow *f)
{
	struct requests *rq = &f->rq;
	struct requests fresh = {
		.sent = rq->sent,
		.sent_mask = rq->sent_mask,
		.pending = rq->pending,
		.pending_room = rq->pending_room,
		.veiled = rq->veiled,
		.mads_cut = rq->mads_cut,
		.packets = rq->packets,
		.again = rq->again,
		.bytes = rq->bytes,
	};

	if (rq->sent != NULL)
		memset(rq->sent, 0, (rq->sent_mask + 1) * sizeof(*rq->sent));
	*rq = fresh;
}

void flow_free(struct flow *f)
{
	free(f->rq.sent);
	free(f->rq.pending);
	free(f->tentative);
	free(f->rtt);
	free(f->findings.kept);
	free(f);
}

void rate_add(struct rate *r, uint64_t ts_ns, uint64_t bytes)
{
	if (r->width_ns == 0) {
		r->start_ns = ts_ns;
		r->width_ns = 1000;
	}
	if (ts_ns < r->start_ns) /* time went back: the first slot */
		ts_ns = r->start_ns;
	while ((ts_ns - r->start_ns) / r->width_ns >= RATE_SLOTS) {
		for (unsigned i = 0; i < RATE_SLOTS / 2; i++)
			r->bytes[i] = r->bytes[2 * i] + r->bytes[2 * i + 1];
		memset(r->bytes + RATE_SLOTS / 2, 0, sizeof(r->bytes) / 2);
		r->width_ns *= 2;
	}
	r->bytes[(ts_ns - r->start_ns) / r->width_ns] += bytes;
}

void rtt_add(struct flow *f, uint64_t ns)
{
	unsigned b;

	if (f->rtt == NULL)
		f->rtt = calloc(RTT_BUCKETS, sizeof(*f->rtt));
	if (f->rtt == NULL)
		return;
	b = ns == 0 ? 0 : (unsigned)(log2((double)ns) * RTT_STEPS);
	f->rtt[b < RTT_BUCKETS ? b : RTT_BUCKETS - 1]++;
	f->rtt_n++;
}

uint64_t rtt_quantile(const struct flow *f, double q)
{
	double want = q * (double)f->rtt_n, sum = 0;

	for (unsigned b = 0; f->rtt_n != 0 && b < RTT_BUCKETS; b++) {
		sum += f->rtt[b];
		if (sum >= want && sum > 0)
			return (uint64_t)exp2((b + 0.5) / RTT_STEPS);
	}
	return 0;
}
