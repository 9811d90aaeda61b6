/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/mad.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fault/report.h"
#include "fault/setting.h"
#include "rdmacm/globals.h"

enum {
	HELD_MAX = 1024,
	REORDER_NS = 2000000, /* delay of a MAD to be overtaken */
	ECN_CE = 3,
};

/* A MAD delayed by fault injection. */
struct held {
	struct rcm_timer timer;
	struct agent_gsi *client; /* borrowed */
	struct gsi_mad mad;
};

static struct mad_state *const state = &rcm_globals.mads;

struct gsi_mad mad_make(const struct cm_mad *m)
{
	struct gsi_mad mad = {
		.src = m->addr.src,
		.dst = m->addr.dst,
		.scope_id = m->addr.scope_id,
		.tclass = m->addr.tclass,
		.hop_limit = m->addr.hop_limit,
	};

	memcpy(mad.mad, m->data, sizeof(mad.mad));
	return mad;
}

static void prepare_rules(void)
{
	char text[512];

	if (!state->impair.on)
		return;
	fault_report_name("connection management: ");
	if (fault_report_start(text, sizeof(text)) < 0)
		log_error("%s", text);
	if (state->impair.nrules)
		state->faults =
			faults_new(state->impair.rule, state->impair.nrules, state->impair.seed);
	for (unsigned i = 0; state->faults && i < state->impair.nrules; i++)
		state->total[i] = fault_total_get(state->impair.rule[i].text, "packets");
}

/* What rules do to a packet of QP 1. What is to be sent has no PSN yet: 0. */
static struct fault_verdict apply_rules(enum fault_dir dir, const struct gsi_mad *m,
					const uint8_t packet[static GSI_PACKET_LEN])
{
	static const char *const names[] = {
#define X(name, text) [FAULT_##name] = text,
		FAULT_ACTIONS(X)
#undef X
	};
	const struct fault_packet p = {
		.dir = dir,
		.qp = ROCEMU_GSI_QPN,
		.peer = dir == FAULT_TX ? &m->dst : &m->src,
		.hdr = packet,
		.len = GSI_PACKET_LEN,
	};
	struct fault_verdict v = {0};

	if (!faults_wants(state->faults, dir))
		return v;
	faults_decide(state->faults, &p, &v);
	for (unsigned i = 0; i < state->impair.nrules; i++) {
		if (v.matched >> i & 1)
			fault_total_add(state->total[i], v.acted >> i & 1);
		if (v.acted >> i & 1)
			fault_log_packet("rdma_cm", &p, state->impair.rule[i].text,
					 names[state->impair.rule[i].action], v.delay_ns);
	}
	/* MADs are few, and there is no timer for this. */
	if (v.acted && fault_log_on())
		fault_log_flush();
	return v;
}

/* Read the environment, once. */
static void prepare(rocemu_ns_t now)
{
	const char *pcap = secure_getenv("ROCEMU_PCAP"), *timeline = secure_getenv("ROCEMU_TRACE");
	char text[512];

	if (state->ready)
		return;
	state->ready = true;
	if ((pcap && *pcap) || (timeline && *timeline))
		state->capture = rcm_private()->capture;
	if (setting_get(&state->impair, NULL, text, sizeof(text)) < 0)
		log_error("%s", text);
	/* Another seed than the lanes', otherwise faults of MADs and packets would coincide. */
	state->impair.rng.state = ~state->impair.rng.state;
	prepare_rules();
	impair_link_start(&state->port, &state->impair, now);
}

/* packet: of m. */
static void write_capture(const struct gsi_mad *m, const uint8_t packet[static GSI_PACKET_LEN],
			  bool sent)
{
	const struct tap_addr a = {
		.sent = sent,
		.src = m->src,
		.dst = m->dst,
		.sport = m->sport,
		.ip_id = m->ip_id,
		.tclass = m->tclass,
		.hop_limit = m->hop_limit,
	};

	state->capture(&a, packet, GSI_PACKET_LEN);
}

void mad_sent(const struct gsi_mad *m)
{
	uint8_t packet[GSI_PACKET_LEN];

	if (!state->capture)
		return;
	state->unseen -= state->unseen > 0;
	gsi_packet_encode(m, packet);
	write_capture(m, packet, true);
}

static bool port_is_down(rocemu_ns_t now)
{
	impair_link_step(&state->port, &state->impair, now);
	return state->port.down;
}

static void send_one(struct agent_gsi *client, const struct gsi_mad *m)
{
	if (!agent_gsi_send(client, m, state->capture != NULL))
		state->unseen += state->capture != NULL;
}

static void send_held(struct rcm_timer *t) REQUIRES(rcm_lock)
{
	struct held *h = container_of(t, struct held, timer);

	state->nheld--;
	send_one(h->client, &h->mad);
	free(h);
}

/* Keep a MAD back. When there is no room or no memory it goes now. */
static bool hold(struct agent_gsi *client, const struct gsi_mad *m, rocemu_ns_t due)
	REQUIRES(rcm_lock)
{
	struct held *h = state->nheld < HELD_MAX ? malloc(sizeof(*h)) : NULL;

	if (!h)
		return false;
	h->client = client;
	h->mad = *m;
	rcm_timer_init(&h->timer);
	rcm_timer_set(&h->timer, due, send_held);
	state->nheld++;
	return true;
}

static void add_flip(struct gsi_mad *m, uint32_t bit, uint16_t sealed)
{
	if (m->nflips < GSI_FLIPS_MAX)
		m->flips[m->nflips++] = (uint16_t)(bit | sealed);
}

/* The agent makes the packet, so it is given the bits to invert. */
static void corrupt(const struct fault_verdict *v, const struct impair_action *action,
		    struct gsi_mad *m)
{
	uint8_t bits[GSI_PACKET_LEN] = {0};

	for (unsigned i = 0; i < v->nsealed; i++)
		add_flip(m, v->sealed[i], GSI_FLIP_SEALED);
	for (unsigned i = 0; i < v->nraw; i++)
		add_flip(m, v->raw[i], 0);
	if (!action->corrupt_bits)
		return;
	impair_corrupt(&state->impair, bits, sizeof(bits), action->corrupt_bits);
	for (uint32_t bit = 0; bit < 8 * sizeof(bits); bit++)
		if (bits[bit / 8] & 0x80u >> bit % 8)
			add_flip(m, bit, 0);
}

/* As a lane does: in order, except MADs that a rule reorders or delays. */
static rocemu_ns_t due_of(rocemu_ns_t now, const struct impair_action *action,
			  const struct fault_verdict *v)
{
	rocemu_ns_t due = now + action->delay_ns;

	if (due < state->last_due)
		due = state->last_due;
	state->last_due = due;
	return due + (action->overtakers ? REORDER_NS : 0) + v->delay_ns;
}

static void report_action(const uint8_t *packet, const struct impair_action *action)
{
	const struct fault_packet p = {.qp = ROCEMU_GSI_QPN, .hdr = packet, .len = GSI_PACKET_LEN};
	const struct {
		bool done;
		enum fault_count what;
		const char *name;
		uint64_t ns;
	} rows[] = {
		{action->lost, FAULT_COUNT_LOST, "loss", 0},
		{action->dup, FAULT_COUNT_DUP, "dup", 0},
		{action->overtakers > 0, FAULT_COUNT_REORDER, "reorder", 0},
		{action->corrupt_bits > 0, FAULT_COUNT_CORRUPT, "corrupt", 0},
		{action->delay_ns > 0, FAULT_COUNT_DELAY, "delay", action->delay_ns},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!rows[i].done)
			continue;
		fault_report_add(rows[i].what, 1);
		fault_log_packet("rdma_cm", &p, NULL, rows[i].name, rows[i].ns);
		fault_log_flush();
	}
}

void mad_send(struct agent_gsi *client, rocemu_ns_t now, struct gsi_mad *m)
{
	uint8_t packet[GSI_PACKET_LEN];
	struct impair_action action = {0};
	struct fault_verdict v = {0};
	rocemu_ns_t due;

	prepare(now);
	if (!state->impair.on) {
		send_one(client, m);
		return;
	}
	gsi_hdr_encode(m, 0);
	gsi_packet_encode(m, packet);
	v = apply_rules(FAULT_TX, m, packet);
	action = impair_roll(&state->impair);
	fault_report_add(FAULT_COUNT_SENT, 1);
	if (v.drop)
		return;
	report_action(packet, &action);
	if (action.lost || port_is_down(now))
		return;
	corrupt(&v, &action, m);
	if (v.mark)
		m->tclass |= ECN_CE;
	due = due_of(now, &action, &v);
	for (unsigned i = 0; i < 1 + action.dup + v.dups; i++)
		if (due <= now || !hold(client, m, due))
			send_one(client, m);
}

bool mad_received(const struct gsi_mad *m, rocemu_ns_t now, struct cm_addr *addr)
{
	uint8_t packet[GSI_PACKET_LEN];

	prepare(now);
	if (port_is_down(now))
		return false;
	if (state->capture || faults_wants(state->faults, FAULT_RX)) {
		gsi_packet_encode(m, packet);
		if (state->capture)
			write_capture(m, packet, false);
		/* Received MADs can only be dropped. */
		if (apply_rules(FAULT_RX, m, packet).drop)
			return false;
	}
	*addr = (struct cm_addr){
		.src = m->src,
		.dst = m->dst,
		.tclass = m->tclass,
		.hop_limit = m->hop_limit,
		.scope_id = m->scope_id,
		.sport = m->sport,
	};
	return true;
}
