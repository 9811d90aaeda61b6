/* SPDX-License-Identifier: BSD-2-Clause */
/* See fabric.h. */
#include "fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "must.h"

enum {
	COST_ROUND = 256,
	COST_OVERHEAD =
		512, /* what Linux charges a socket for a packet beyond its payload, about */
	CONGESTED_PERCENT = 40,
	TX_BATCH = 16,
	/* Scripted peers are hardware: they make a packet when the link can take it. */
	PEER_BATCH = 2,
	PEER_BACKLOG = 2 * ROCEMU_MAX_PACKET,
	ECN_CE = 3,
};

enum event_kind {
	EV_SWITCH, /* a packet is at the switch */
	EV_ARRIVE, /* ... at the receiver's socket */
	EV_TAKEN,  /* ... out of the socket buffer */
	EV_NIC,	   /* the card of a host has sent enough */
	EV_TIMER,  /* a host's deadline */
};

struct fabric_event {
	rocemu_ns_t at;
	uint64_t order;
	enum event_kind kind;
	struct fabric_host *host;
	struct fabric_packet *packet; /* owned by the event */
};

/* ---- events ---- */

static bool earlier(const struct fabric_event *a, const struct fabric_event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void schedule(struct fabric *f, rocemu_ns_t at, enum event_kind kind, struct fabric_host *h,
		     struct fabric_packet *p)
{
	struct fabric_event e = {at, f->next_order++, kind, h, p};
	size_t i = f->heap_len++;

	if (f->heap_len > f->heap_size) {
		f->heap_size = f->heap_size ? 2 * f->heap_size : 1024;
		f->heap = must(realloc(f->heap, f->heap_size * sizeof(*f->heap)));
	}
	for (; i > 0 && earlier(&e, &f->heap[(i - 1) / 2]); i = (i - 1) / 2)
		f->heap[i] = f->heap[(i - 1) / 2];
	f->heap[i] = e;
}

static struct fabric_event next_event(struct fabric *f)
{
	struct fabric_event top = f->heap[0], last = f->heap[--f->heap_len];
	size_t i = 0;

	for (;;) {
		size_t c = 2 * i + 1;

		if (c >= f->heap_len)
			break;
		if (c + 1 < f->heap_len && earlier(&f->heap[c + 1], &f->heap[c]))
			c++;
		if (!earlier(&f->heap[c], &last))
			break;
		f->heap[i] = f->heap[c];
		i = c;
	}
	f->heap[i] = last;
	return top;
}

/* ---- packets ---- */

static struct fabric_packet *packet_get(struct fabric *f)
{
	struct fabric_packet *p = f->spare;

	if (!p)
		return must(malloc(sizeof(*p)));
	f->spare = p->next;
	return p;
}

static void packet_put(struct fabric *f, struct fabric_packet *p)
{
	p->next = f->spare;
	f->spare = p;
}

static struct fabric_packet *packet_copy(struct fabric *f, const struct fabric_packet *p)
{
	struct fabric_packet *c = packet_get(f);

	memcpy(c, p, offsetof(struct fabric_packet, data) + p->len);
	return c;
}

/** Time on a link or a CPU of that rate. */
static rocemu_ns_t time_of(uint32_t bytes, uint32_t mbit)
{
	return mbit ? (rocemu_ns_t)bytes * 8000 / mbit : 0;
}

static unsigned host_of(const struct fabric *f, const struct rocemu_gid *gid)
{
	unsigned i = (unsigned)gid->raw[15] - 1;

	if (i >= f->cfg.hosts || (!rocemu_gid_equal(&f->host[i].gid, gid) &&
				  !rocemu_gid_equal(&f->host[i].other_gid, gid)))
		abort(); /* no test sends to an unknown address */
	return i;
}

static struct fabric_packet *flatten(struct fabric *f, struct fabric_host *h, struct rocemu_tx *t)
{
	struct fabric_packet *p = packet_get(f);
	uint32_t pos = t->hdr_len;

	rocemu_tx_seal(t, 0);
	memcpy(p->data, t->hdr, t->hdr_len);
	for (unsigned i = 0; i < t->niov; i++) {
		memcpy(p->data + pos, t->iov[i].iov_base, t->iov[i].iov_len);
		pos += (uint32_t)t->iov[i].iov_len;
	}
	memcpy(p->data + pos, t->trailer, t->trailer_len);
	p->len = rocemu_tx_len(t);
	p->cost = ((t->payload_len + COST_ROUND - 1) & ~(uint32_t)(COST_ROUND - 1)) + COST_OVERHEAD;
	p->from = h->index;
	p->src = t->path->sgid;
	p->dst = t->path->dgid;
	p->to = host_of(f, &p->dst);
	p->sport = t->path->sport;
	p->tclass = t->path->tclass;
	p->hop_limit = t->path->hop_limit;
	return p;
}

/* ---- a host sends ---- */

static unsigned host_output(struct fabric_host *h, struct rocemu_tx *tx, unsigned n)
{
	if (h->ops)
		return h->ops->output(h->peer, h->fabric->now, tx, MIN(n, PEER_BATCH));
	if (!rocemu_ep_has_output(h->ep))
		return 0;
	return rocemu_ep_output(h->ep, h->fabric->now, tx, n);
}

/** Has the card as much to send as the send buffer holds? If so the host goes on at half of it. */
static bool nic_is_full(struct fabric_host *h)
{
	struct fabric *f = h->fabric;
	rocemu_ns_t backlog = time_of(h->ops ? PEER_BACKLOG : f->cfg.sndbuf, f->cfg.link_mbit);

	if (!backlog || h->nic_busy <= f->now + backlog)
		return false;
	if (!h->nic_waits)
		schedule(f, MAX(h->nic_busy - backlog / 2, f->now + 1), EV_NIC, h, NULL);
	h->nic_waits = true;
	return true;
}

static void nic_send(struct fabric_host *h, struct rocemu_tx *t)
{
	struct fabric *f = h->fabric;
	struct fabric_packet *p = flatten(f, h, t);

	h->nic_busy =
		MAX(h->nic_busy, f->now) + time_of(p->len + FABRIC_OVERHEAD, f->cfg.link_mbit);
	f->packets++;
	schedule(f, h->nic_busy + f->cfg.rtt_ns / 4, EV_SWITCH, h, p);
}

static rocemu_ns_t host_deadline(const struct fabric_host *h)
{
	return h->ops ? h->ops->deadline(h->peer) : rocemu_ep_deadline(h->ep);
}

/** All that a host does on its own after something happened to it. */
static void host_run(struct fabric_host *h)
{
	struct fabric *f = h->fabric;
	struct rocemu_tx tx[TX_BATCH];
	rocemu_ns_t deadline;

	if (h->paused)
		return;
	if (h->poll)
		h->poll(h, h->poll_arg);
	for (unsigned idle = 0; !nic_is_full(h) && idle < 2;) {
		unsigned n = host_output(h, tx, TX_BATCH);

		for (unsigned i = 0; i < n; i++)
			nic_send(h, &tx[i]);
		if (n == 0)
			idle++;
		if (h->poll && n == 0)
			h->poll(h, h->poll_arg);
	}
	deadline = host_deadline(h);
	if (deadline < h->timer_at || h->timer_at <= f->now) {
		h->timer_at = deadline;
		if (deadline != ROCEMU_NEVER)
			schedule(f, MAX(deadline, f->now), EV_TIMER, h, NULL);
	}
}

static void host_expire(struct fabric_host *h)
{
	struct fabric *f = h->fabric;

	if (h->paused)
		return;
	h->timer_at = ROCEMU_NEVER;
	if (host_deadline(h) <= f->now) {
		if (h->ops)
			h->ops->expire(h->peer, f->now);
		else
			rocemu_ep_expire(h->ep, f->now);
	}
	host_run(h);
}

/* ---- the way of a packet ---- */

static void lose(struct fabric *f, struct fabric_packet *p)
{
	f->lost++;
	packet_put(f, p);
}

/** How long a packet is late beyond propagation. */
static rocemu_ns_t lateness(struct fabric *f)
{
	const struct fabric_config *c = &f->cfg;
	rocemu_ns_t late = 0;

	if (c->jitter_ns)
		late += rng_below(&f->rng, (uint32_t)c->jitter_ns + 1);
	if (c->reorder > 0 && rng_chance(&f->rng, c->reorder))
		late += rng_below(&f->rng, (uint32_t)c->reorder_ns + 1);
	return late;
}

/** At most three flipped bits: a CRC-32 finds every such error in a packet of this size. */
static void corrupt(struct fabric *f, struct fabric_packet *p)
{
	for (unsigned n = 1 + rng_below(&f->rng, 3); n; n--) {
		uint32_t bit = rng_below(&f->rng, p->len * 8);

		p->data[bit / 8] = (uint8_t)(p->data[bit / 8] ^ 1u << bit % 8);
	}
}

static void at_switch(struct fabric *f, struct fabric_packet *p)
{
	const struct fabric_config *c = &f->cfg;
	struct fabric_host *h = &f->host[p->to];
	rocemu_ns_t start = MAX(h->port_busy, f->now), arrival;
	uint64_t queued = (start - f->now) * c->link_mbit / 8000;

	if ((f->filter && f->filter(f, p, f->filter_arg)) || f->host[p->from].link_down ||
	    h->link_down || (c->loss > 0 && rng_chance(&f->rng, c->loss))) {
		lose(f, p);
		return;
	}
	if (c->port_bytes && queued + p->len > c->port_bytes) {
		h->tail_drops++;
		lose(f, p);
		return;
	}
	if (c->mark_bytes && queued > c->mark_bytes) {
		p->tclass |= ECN_CE;
		h->marks++;
	}
	h->port_busy = start + time_of(p->len + FABRIC_OVERHEAD, c->link_mbit);
	arrival = h->port_busy + c->rtt_ns / 2 - c->rtt_ns / 4 + lateness(f);
	if (c->jitter_keeps_order)
		arrival = MAX(arrival, h->last_arrival);
	h->last_arrival = arrival;
	if (c->corrupt > 0 && rng_chance(&f->rng, c->corrupt))
		corrupt(f, p);
	if (c->dup > 0 && rng_chance(&f->rng, c->dup))
		schedule(f, arrival, EV_ARRIVE, h, packet_copy(f, p));
	schedule(f, arrival, EV_ARRIVE, h, p);
}

static void at_socket(struct fabric *f, struct fabric_packet *p)
{
	struct fabric_host *h = &f->host[p->to];

	if (f->cfg.rcvbuf && h->rcv_used + p->cost > f->cfg.rcvbuf) {
		h->overran = true;
		h->overruns++;
		lose(f, p);
		return;
	}
	h->rcv_used += p->cost;
	h->cpu_busy = MAX(h->cpu_busy, f->now) + time_of(p->len + FABRIC_OVERHEAD, f->cfg.cpu_mbit);
	schedule(f, h->cpu_busy, EV_TAKEN, h, p);
}

static void host_input(struct fabric_host *h, const struct fabric_packet *p)
{
	struct fabric *f = h->fabric;
	struct rocemu_dgram d = {
		.data = p->data,
		.len = p->len,
		.src = p->src,
		.dst = p->dst,
		.sport = p->sport,
		.dport = ROCEMU_UDP_PORT,
		.tclass = p->tclass,
		.hop_limit = p->hop_limit,
		.ip_id_known = true,
	};

#ifdef HAVE_DGRAM_CONGESTED
	d.congested = h->overran ||
		      (f->cfg.rcvbuf &&
		       (uint64_t)h->rcv_used * 100 > (uint64_t)f->cfg.rcvbuf * CONGESTED_PERCENT);
#endif
	h->overran = false;
	h->rcv_used -= p->cost;
	if (h->ops)
		h->ops->input(h->peer, f->now, &d);
	else
		rocemu_ep_input(h->ep, f->now, &d);
}

/** A stopped process leaves packets in the buffer. */
static void taken(struct fabric *f, struct fabric_packet *p)
{
	struct fabric_host *h = &f->host[p->to];

	if (h->paused) {
		p->next = NULL;
		*h->held_end = p;
		h->held_end = &p->next;
		return;
	}
	host_input(h, p);
	packet_put(f, p);
	host_run(h);
}

static void happen(struct fabric *f, const struct fabric_event *e)
{
	switch (e->kind) {
	case EV_SWITCH:
		at_switch(f, e->packet);
		break;
	case EV_ARRIVE:
		at_socket(f, e->packet);
		break;
	case EV_TAKEN:
		taken(f, e->packet);
		break;
	case EV_NIC:
		e->host->nic_waits = false;
		host_run(e->host);
		break;
	case EV_TIMER:
		if (e->at >= e->host->timer_at)
			host_expire(e->host);
		break;
	}
}

void fabric_run_until(struct fabric *f, rocemu_ns_t end)
{
	while (f->heap_len && f->heap[0].at <= end) {
		struct fabric_event e = next_event(f);

		f->now = MAX(f->now, e.at);
		happen(f, &e);
	}
	f->now = end;
}

void fabric_kick(struct fabric *f, unsigned host)
{
	host_run(&f->host[host]);
}

void fabric_pause(struct fabric *f, unsigned host, bool paused)
{
	struct fabric_host *h = &f->host[host];
	struct fabric_packet *next;

	h->paused = paused;
	if (paused)
		return;
	for (struct fabric_packet *p = h->held; p; p = next) {
		next = p->next;
		schedule(f, f->now, EV_TAKEN, h, p);
	}
	h->held = NULL;
	h->held_end = &h->held;
	host_expire(h);
}

/* ---- beginning and end ---- */

struct fabric_config fabric_defaults(void)
{
	return (struct fabric_config){
		.seed = 1,
		.hosts = 2,
		.link_mbit = 10000,
		.cpu_mbit = 20000,
		.rtt_ns = 50 * FABRIC_US,
		.rcvbuf = FABRIC_STOCK_BUFFER,
		.sndbuf = FABRIC_STOCK_BUFFER,
	};
}

static void host_init(struct fabric *f, unsigned i)
{
	struct fabric_host *h = &f->host[i];
	struct rocemu_ep_config cfg = f->cfg.ep;

	cfg.seed = f->cfg.seed * FABRIC_MAX_HOSTS + i;
	h->fabric = f;
	h->index = i;
	h->gid = (struct rocemu_gid){.raw = {[10] = 0xff,
					     [11] = 0xff,
					     [12] = f->cfg.one_host ? 127 : 10,
					     [15] = (uint8_t)(i + 1)}};
	h->other_gid = h->gid;
	h->other_gid.raw[13] = 1;
	h->timer_at = ROCEMU_NEVER;
	h->held_end = &h->held;
	h->ep = must(rocemu_ep_new(&cfg));
	h->pd = must(rocemu_pd_new(h->ep));
	h->xrcd = must(rocemu_xrcd_new(h->ep));
	if (rocemu_ep_set_slot(h->ep, (uint16_t)(i + 1), 16) != 0 ||
	    rocemu_ep_set_gid(h->ep, 0, &h->gid) != 0 ||
	    rocemu_ep_set_gid(h->ep, 1, &h->other_gid) != 0)
		abort();
}

struct fabric *fabric_new(const struct fabric_config *cfg)
{
	struct fabric *f = must(calloc(1, sizeof(*f)));

	f->cfg = *cfg;
	f->now = FABRIC_MS;
	rng_init(&f->rng, cfg->seed);
	if (cfg->hosts > FABRIC_MAX_HOSTS)
		abort();
	for (unsigned i = 0; i < cfg->hosts; i++)
		host_init(f, i);
	return f;
}

void fabric_set_peer(struct fabric *f, unsigned host, const struct fabric_peer_ops *ops, void *peer)
{
	f->host[host].ops = ops;
	f->host[host].peer = peer;
}

struct rocemu_path fabric_path(const struct fabric *f, unsigned from, unsigned to)
{
	return (struct rocemu_path){
		.sgid = f->host[from].gid,
		.dgid = f->host[to].gid,
		.sport = 0xc000,
		.hop_limit = 64,
	};
}

void fabric_free(struct fabric *f)
{
	struct fabric_packet *next;

	for (unsigned i = 0; i < f->cfg.hosts; i++) {
		for (struct fabric_packet *p = f->host[i].held; p; p = next) {
			next = p->next;
			packet_put(f, p);
		}
		rocemu_ep_free(f->host[i].ep);
	}
	for (size_t i = 0; i < f->heap_len; i++)
		if (f->heap[i].packet)
			packet_put(f, f->heap[i].packet);
	for (struct fabric_packet *p = f->spare; p; p = next) {
		next = p->next;
		free(p);
	}
	free(f->heap);
	free(f);
}
