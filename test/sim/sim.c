/* SPDX-License-Identifier: BSD-2-Clause */
/* Virtual time: the heap of packets under way, the links with their faults, and the main loop. */
#include "sim.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"
#include "must.h"

/* ---- packets under way ---- */

static void packet_put(struct sim_packet *p)
{
	if (p && --p->refs == 0)
		free(p);
}

static bool earlier(const struct sim_packet *a, const struct sim_packet *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void heap_push(struct sim *s, struct sim_packet *p)
{
	size_t i = s->heap_len++;

	if (s->heap_len > s->heap_size) {
		s->heap_size = s->heap_size ? 2 * s->heap_size : 256;
		s->heap = must(realloc(s->heap, s->heap_size * sizeof(struct sim_packet *)));
	}
	for (; i > 0 && earlier(p, s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = p;
}

static struct sim_packet *heap_pop(struct sim *s)
{
	struct sim_packet *top = s->heap[0], *last = s->heap[--s->heap_len];
	size_t i = 0;

	for (;;) {
		size_t c = 2 * i + 1;

		if (c >= s->heap_len)
			break;
		if (c + 1 < s->heap_len && earlier(s->heap[c + 1], s->heap[c]))
			c++;
		if (!earlier(s->heap[c], last))
			break;
		s->heap[i] = s->heap[c];
		i = c;
	}
	if (s->heap_len > 0)
		s->heap[i] = last;
	return top;
}

static struct sim_packet *packet_new(uint32_t len)
{
	struct sim_packet *p = must(calloc(1, sizeof(*p) + len));

	p->refs = 1;
	p->len = len;
	return p;
}

static struct sim_packet *packet_copy(const struct sim_packet *p)
{
	struct sim_packet *c = packet_new(p->len);

	memcpy(c, p, sizeof(*p) + p->len);
	c->refs = 1;
	return c;
}

static void remember(struct sim *s, struct sim_packet *p)
{
	struct sim_packet **slot = &s->history[s->history_len++ % SIM_HISTORY];

	packet_put(*slot);
	p->refs++;
	*slot = p;
}

/** Takes the packet over. */
static void packet_launch(struct sim *s, struct sim_packet *p, rocemu_ns_t at)
{
	p->at = at;
	p->order = s->next_order++;
	heap_push(s, p);
}

/* ---- links ---- */

static bool stormy(const struct sim *s, const struct sim_link_config *c)
{
	return c->storm_ns == 0 || s->now % (c->storm_ns + c->calm_ns) < c->storm_ns;
}

/* At most three flipped bits: a CRC-32 finds every such error in a packet of up to 4 KiB, so
 * none may pass. */
static void corrupt(struct sim *s, struct sim_packet *p)
{
	unsigned n = 1 + rng_below(&s->rng, 3);

	while (n--) {
		uint32_t bit = rng_below(&s->rng, p->len * 8);

		p->data[bit / 8] = (uint8_t)(p->data[bit / 8] ^ 1u << bit % 8);
	}
}

/**
 * When a packet that enters the link now is through its bottleneck; ROCEMU_NEVER: its queue is
 * full.
 */
static rocemu_ns_t bottleneck(struct sim *s, struct sim_link *l, uint32_t len)
{
	rocemu_ns_t cost = (rocemu_ns_t)len * l->c.ns_per_kib / 1024;
	rocemu_ns_t start = MAX(s->now, l->busy_until);

	if (l->c.ns_per_kib == 0)
		return s->now;
	if (l->c.queue_bytes && (start - s->now) * 1024 / l->c.ns_per_kib > l->c.queue_bytes)
		return ROCEMU_NEVER;
	l->busy_until = start + cost;
	return l->busy_until;
}

static bool masked(uint64_t mask, uint64_t n)
{
	return n < 64 && (mask >> n & 1);
}

/** Takes the packet over: it is under way, or lost. */
static void link_send(struct sim *s, struct sim_packet *p)
{
	struct sim_link *l = &s->link[p->from][p->to];
	const struct sim_link_config *c = &l->c;
	struct rocemu_packet decoded;
	bool lost = masked(s->loss_mask, s->packets);
	bool storm = stormy(s, c);
	rocemu_ns_t at = bottleneck(s, l, p->len);

	lost |= masked(c->loss_mask, l->packets);
	s->packets++;
	l->packets++;
	if (rocemu_packet_decode(&decoded, p->data, p->len) != ROCEMU_DROP_NONE)
		sim_fail(s, "node %c sent a packet that does not decode", 'A' + (int)p->from);
	remember(s, p);
	lost |= at == ROCEMU_NEVER || (storm && rng_chance(&s->rng, c->loss));
	if (lost || s->node[p->to].gone || s->node[p->from].gone) {
		sim_note_packet(s, p, " lost");
		packet_put(p);
		return;
	}
	sim_note_packet(s, p, "");
	at += c->delay_ns;
	if (storm && rng_chance(&s->rng, c->dup))
		packet_launch(s, packet_copy(p),
			      at + rng_below(&s->rng, (uint32_t)c->delay_ns + 1));
	if (storm && rng_chance(&s->rng, c->corrupt)) {
		/* The history keeps the packet as it was sent. */
		struct sim_packet *damaged = packet_copy(p);

		packet_put(p);
		p = damaged;
		corrupt(s, p);
	}
	if (storm && rng_chance(&s->rng, c->reorder))
		at += rng_below(&s->rng, 4 * (uint32_t)c->delay_ns + 1);
	packet_launch(s, p, at);
}

/* ---- endpoints ---- */

static unsigned node_of(const struct sim *s, const struct rocemu_gid *gid)
{
	for (unsigned i = 0; i < s->nodes; i++)
		if (rocemu_gid_equal(&s->node[i].gid, gid))
			return i;
	return SIM_MAX_NODES;
}

static struct sim_packet *flatten(struct sim *s, unsigned from, struct rocemu_tx *t)
{
	struct sim_packet *p = packet_new(rocemu_tx_len(t));
	uint32_t payload = 0;

	for (unsigned i = 0; i < t->niov; i++)
		payload += (uint32_t)t->iov[i].iov_len;
	if (payload != t->payload_len)
		sim_fail(s, "iovecs hold %u bytes, payload_len says %u", payload, t->payload_len);
	memcpy(p->data, t->hdr, t->hdr_len);
	rocemu_tx_flatten(t, p->data + t->hdr_len);
	rocemu_tx_seal(t, 0);
	memcpy(p->data + t->hdr_len + payload, t->trailer, t->trailer_len);
	p->from = from;
	p->sent_at = s->now;
	p->src = t->path->sgid;
	p->dst = t->path->dgid;
	p->to = node_of(s, &p->dst);
	p->sport = t->path->sport;
	p->tclass = t->path->tclass;
	p->hop_limit = t->path->hop_limit;
	return p;
}

/** A copy to each node of the group, the sender's too if it is one; each link decides for itself.
 */
static void group_send(struct sim *s, struct sim_packet *p)
{
	for (unsigned i = 0; i < s->nodes; i++) {
		struct sim_packet *copy;

		if (!rocemu_ep_has_mcast(s->node[i].ep, &p->dst))
			continue;
		copy = packet_copy(p);
		copy->to = i;
		link_send(s, copy);
	}
	packet_put(p);
}

/** @return packets sent. */
static unsigned node_output_once(struct sim *s, struct sim_node *n)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
	/* Batches of different sizes: the packets must not depend on the size of output calls. */
	unsigned ask = 1 + rng_below(&s->rng, ROCEMU_OUTPUT_BATCH);
	const enum rocemu_output kind = rocemu_ep_output_kind(n->ep);
	unsigned got;

	if ((kind != ROCEMU_OUTPUT_NONE) != rocemu_ep_has_output(n->ep))
		sim_fail(s, "output_kind is %d, and has_output differs", kind);
	got = rocemu_ep_output(n->ep, s->now, tx, ask);
	if (got > ask)
		sim_fail(s, "output filled %u descriptors of %u", got, ask);
	for (unsigned i = 0; kind == ROCEMU_OUTPUT_ACKS && i < got; i++)
		if (!(rocemu_opcode_ops(tx[i].hdr[0]) & ROCEMU_OP_ACK))
			sim_fail(s, "output_kind said ACKs, output gives a %s",
				 rocemu_opcode_name(tx[i].hdr[0]));
	for (unsigned i = 0; i < got; i++) {
		struct sim_packet *p = flatten(s, n->index, &tx[i]);

		if (rocemu_gid_is_multicast(&p->dst)) {
			group_send(s, p);
		} else if (p->to == SIM_MAX_NODES) {
			remember(s, p);
			packet_put(p);
			s->packets++;
		} else {
			link_send(s, p);
		}
	}
	return got;
}

static void node_output(struct sim *s, struct sim_node *n)
{
	unsigned idle = 0;

	while (rocemu_ep_has_output(n->ep)) {
		idle = node_output_once(s, n) ? 0 : idle + 1;
		/* One such call completes what left (see rocemu_ep_output()); a loop of them
		 * would spin an engine. */
		if (idle > 3)
			sim_fail(s, "node %c: has_output for ever, and output gives none",
				 'A' + (int)n->index);
		if (s->packets > s->cfg.max_packets)
			sim_fail(s, "more than %llu packets",
				 (unsigned long long)s->cfg.max_packets);
	}
	if (node_output_once(s, n))
		sim_fail(s, "node %c: output although has_output said no", 'A' + (int)n->index);
}

static void node_input(struct sim *s, struct sim_packet *p)
{
	/* On the heap and of its exact size, so that ASan sees a read beyond the datagram. */
	uint8_t *exact = must(malloc(p->len ? p->len : 1));
	struct rocemu_dgram d = {
		.data = exact,
		.len = p->len,
		.src = p->src,
		.dst = p->dst,
		.sport = p->sport,
		.dport = ROCEMU_UDP_PORT,
		.tclass = p->tclass,
		.hop_limit = p->hop_limit,
		.ip_id_known = true,
	};

	memcpy(exact, p->data, p->len);
	if (!s->node[p->to].gone)
		rocemu_ep_input(s->node[p->to].ep, s->now, &d);
	free(exact);
}

static void node_events(struct sim *s, struct sim_node *n)
{
	struct rocemu_event ev;

	while (rocemu_ep_next_event(n->ep, &ev)) {
		if (n->nevents == ARRAY_LEN(n->events))
			sim_fail(s, "node %c: more than %u events", 'A' + (int)n->index,
				 n->nevents);
		n->events[n->nevents++] = ev;
	}
}

/** Outputs, events and completions of all nodes until none has more. */
static void settle(struct sim *s)
{
	for (unsigned i = 0; i < s->nodes; i++)
		node_output(s, &s->node[i]);
	for (unsigned i = 0; i < s->nodes; i++)
		node_events(s, &s->node[i]);
	for (struct sim_qp *q = s->qps; q; q = q->next)
		if (!q->no_poll)
			sim_poll(q);
	for (struct sim_srq *q = s->srqs; q; q = q->next)
		sim_xrc_poll(q);
}

static rocemu_ns_t next_time(const struct sim *s)
{
	rocemu_ns_t t = s->heap_len ? s->heap[0]->at : ROCEMU_NEVER;

	for (unsigned i = 0; i < s->nodes; i++) {
		rocemu_ns_t d = rocemu_ep_deadline(s->node[i].ep);

		t = MIN(t, d);
	}
	return t;
}

/** All that happens at s->now: arrivals, then timers. */
static void step(struct sim *s)
{
	while (s->heap_len && s->heap[0]->at <= s->now) {
		struct sim_packet *p = heap_pop(s);

		node_input(s, p);
		packet_put(p);
	}
	for (unsigned i = 0; i < s->nodes; i++) {
		struct rocemu_ep *ep = s->node[i].ep;

		if (rocemu_ep_deadline(ep) > s->now)
			continue;
		rocemu_ep_expire(ep, s->now);
		if (rocemu_ep_deadline(ep) <= s->now)
			sim_fail(s, "node %c: the deadline is still due after expire",
				 'A' + (int)i);
	}
	settle(s);
}

void sim_run_for(struct sim *s, rocemu_ns_t ns)
{
	rocemu_ns_t end = s->now + ns, t;

	settle(s);
	while ((t = next_time(s)) <= end) {
		s->now = MAX(s->now, t);
		step(s);
	}
	s->now = end;
}

void sim_run(struct sim *s)
{
	rocemu_ns_t t;

	settle(s);
	while ((t = next_time(s)) != ROCEMU_NEVER) {
		if (t > s->cfg.max_ns)
			sim_fail(s, "not at an end at %llu ns", (unsigned long long)s->cfg.max_ns);
		s->now = MAX(s->now, t);
		step(s);
	}
}

bool sim_quiescent(struct sim *s)
{
	settle(s);
	return next_time(s) == ROCEMU_NEVER;
}

/* ---- packets made by hand ---- */

static void reseal(struct sim_packet *p)
{
	struct rocemu_icrc_ctx c = {
		.src = p->src,
		.dst = p->dst,
		.sport = p->sport,
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = 0x4000,
	};
	uint32_t body = p->len - ROCEMU_ICRC_LEN;

	put_le32(p->data + body, rocemu_icrc(&c, p->data, body, NULL, 0, NULL, 0));
}

void sim_inject(struct sim *s, unsigned from, unsigned to, const struct rocemu_gid *src,
		const struct rocemu_hdrs *h, const void *payload, uint32_t len)
{
	struct rocemu_hdrs padded = *h;
	const struct rocemu_path *path;
	struct rocemu_qp *qp;
	uint8_t hdr[ROCEMU_MAX_HDR_LEN];
	uint32_t hdr_len, pad = -len & 3;
	struct sim_packet *p;

	padded.pad = (uint8_t)pad;
	hdr_len = (uint32_t)rocemu_hdrs_encode(&padded, hdr);
	p = packet_new(hdr_len + len + pad + ROCEMU_ICRC_LEN);
	memcpy(p->data, hdr, hdr_len);
	if (len)
		memcpy(p->data + hdr_len, payload, len);
	p->from = from;
	p->to = to;
	p->sent_at = s->now;
	p->src = src ? *src : s->node[from].gid;
	p->dst = s->node[to].gid;
	qp = rocemu_qp_find(s->node[to].ep, h->dqpn);
	path = qp ? rocemu_qp_path(qp) : NULL;
	p->sport = path ? path->sport : 0xc000; /* the connection's */
	p->hop_limit = 64;
	reseal(p);
	remember(s, p);
	packet_launch(s, p, s->now + s->link[from][to].c.delay_ns);
}

/* ---- beginning and end ---- */

static struct rocemu_gid node_gid(const struct sim_config *cfg, unsigned i)
{
	struct rocemu_gid g = {{0}};

	if (cfg->ipv6) {
		g.raw[0] = 0xfd;
	} else {
		g.raw[10] = g.raw[11] = 0xff;
		g.raw[12] = 10;
	}
	g.raw[15] = (uint8_t)(i + 1);
	return g;
}

static void node_init(struct sim *s, unsigned i)
{
	struct sim_node *n = &s->node[i];
	struct rocemu_ep_config cfg = s->cfg.ep;

	cfg.seed = s->cfg.seed * SIM_MAX_NODES + i;
	n->sim = s;
	n->index = i;
	n->gid = node_gid(&s->cfg, i);
	n->ep = must(rocemu_ep_new(&cfg));
	sim_assert(s, rocemu_ep_set_slot(n->ep, (uint16_t)(i + 1), 16) == 0);
	sim_assert(s, rocemu_ep_set_gid(n->ep, 0, &n->gid) == 0);
	n->pd = must(rocemu_pd_new(n->ep));
	n->xrcd = must(rocemu_xrcd_new(n->ep));
}

/**
 * Drops that faults of the links explain (those of a bad form: a flipped bit may hit any field).
 */
static uint64_t explained_drops(const struct sim_config *cfg)
{
	const struct sim_link_config *c = &cfg->link;
	uint64_t d = 0;

	if (c->loss_mask || cfg->loss_mask || c->loss > 0 || c->dup > 0 || c->reorder > 0 ||
	    c->corrupt > 0 || c->queue_bytes)
		d |= 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_GHOST |
		     1ull << ROCEMU_DROP_STALE_ATOMIC | 1ull << ROCEMU_DROP_STALE_READ |
		     1ull << ROCEMU_DROP_SEQUENCE;
	if (c->corrupt > 0)
		d |= 1ull << ROCEMU_DROP_ICRC | 1ull << ROCEMU_DROP_OPCODE |
		     1ull << ROCEMU_DROP_TVER | 1ull << ROCEMU_DROP_PAD |
		     1ull << ROCEMU_DROP_LENGTH | 1ull << ROCEMU_DROP_SHORT;
	return d;
}

/** Thousands of short runs: keep memory for the next one instead of handing it back to the kernel.
 */
static void keep_memory(void)
{
#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, 16 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
}

struct sim *sim_new(const struct sim_config *cfg)
{
	struct sim *s = must(calloc(1, sizeof(*s)));

	keep_memory();
	s->cfg = *cfg;
	if (s->cfg.nodes == 0)
		s->cfg.nodes = 2;
	if (s->cfg.max_ns == 0)
		s->cfg.max_ns = 1000 * SIM_S;
	if (s->cfg.max_packets == 0)
		s->cfg.max_packets = 4000000;
	s->nodes = s->cfg.nodes;
	s->loss_mask = cfg->loss_mask;
	s->allowed_drops = explained_drops(cfg);
	s->now = 1 * SIM_MS;
	s->next_wr_id = 1;
	rng_init(&s->rng, cfg->seed);
	for (unsigned i = 0; i < s->nodes; i++)
		for (unsigned j = 0; j < s->nodes; j++)
			s->link[i][j].c = cfg->link;
	for (unsigned i = 0; i < s->nodes; i++)
		node_init(s, i);
	return s;
}

void sim_check(struct sim *s)
{
	if (!sim_quiescent(s))
		sim_fail(s, "not quiescent");
	for (struct sim_qp *q = s->qps; q; q = q->next)
		sim_ledger_check(q);
	for (const struct sim_mem *m = s->mems; m; m = m->next)
		sim_mem_check(s, m);
	for (unsigned i = 0; i < s->nodes; i++) {
		const struct rocemu_ep_stats *st = rocemu_ep_get_stats(s->node[i].ep);

		for (unsigned d = 1; d < ROCEMU_DROP_COUNT; d++)
			if (st->drops[d] && !(s->allowed_drops >> d & 1))
				sim_fail(s, "node %c dropped %llu packets: %s", 'A' + (int)i,
					 (unsigned long long)st->drops[d],
					 rocemu_drop_text((enum rocemu_drop)d));
	}
}

void sim_free(struct sim *s)
{
	sim_objects_free(s);
	for (unsigned i = 0; i < s->nodes; i++) {
		if (rocemu_pd_free(s->node[i].pd) != 0)
			sim_fail(s, "the PD of node %c is still in use", 'A' + (int)i);
		if (rocemu_xrcd_free(s->node[i].xrcd) != 0)
			sim_fail(s, "the XRC domain of node %c is still in use", 'A' + (int)i);
		rocemu_ep_free(s->node[i].ep);
	}
	while (s->heap_len)
		packet_put(heap_pop(s));
	for (unsigned i = 0; i < SIM_HISTORY; i++)
		packet_put(s->history[i]);
	free(s->heap);
	free(s);
}

void sim_end(struct sim *s)
{
	sim_check(s);
	sim_free(s);
}
