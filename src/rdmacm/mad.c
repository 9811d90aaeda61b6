/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/mad.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "fault/impair.h"
#include "fault/report.h"
#include "fault/setting.h"
#include "rdmacm/private.h"

enum {
	HELD_MAX = 1024,
	REORDER_NS = 2000000, /* what is to be overtaken waits so long */
	ECN_CE = 3,
};

static private_capture_fn *capture; /* NULL: no capture, or not our libibverbs */
static struct impair impair;
static struct impair_link port; /* goes down and up when the lanes' does */
static struct faults *faults;	       /* owned; NULL: no rules by packet */
static struct fault_total *total[FAULT_RULES];
static rocemu_ns_t last_due; /* when the last packet leaves that is not to be overtaken */
static bool ready;

/* A MAD that is late on purpose. */
struct held {
	struct list node; /* in held, by due time */
	rocemu_ns_t due;
	struct gsi_mad mad;
};
static struct list held = {&held, &held};
static unsigned nheld;

struct gsi_mad mad_make(const struct cm_mad *m, uint32_t scope_id)
{
	struct gsi_mad mad = {
		.src = m->addr.src,
		.dst = m->addr.dst,
		.scope_id = scope_id,
		.tclass = m->addr.tclass,
		.hop_limit = m->addr.hop_limit,
	};

	memcpy(mad.mad, m->data, sizeof(mad.mad));
	return mad;
}

static void prepare_rules(void)
{
	char text[512];

	if (!impair.on)
		return;
	fault_report_name("connection management: ");
	if (fault_report_start(text, sizeof(text)) < 0)
		log_error("%s", text);
	if (impair.nrules)
		faults = faults_new(impair.rule, impair.nrules, impair.seed);
	for (unsigned i = 0; faults && i < impair.nrules; i++)
		total[i] = fault_total_get(impair.rule[i].text, "packets");
}

/* What rules do to a packet of QP 1. What is to be sent has no PSN yet: 0. */
static struct fault_verdict ask_rules(enum fault_dir dir, const struct gsi_mad *m,
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

	if (!faults_wants(faults, dir))
		return v;
	faults_decide(faults, &p, &v);
	for (unsigned i = 0; i < impair.nrules; i++) {
		if (v.matched >> i & 1)
			fault_total_add(total[i], v.acted >> i & 1);
		if (v.acted >> i & 1)
			fault_log_packet("rdma_cm", &p, impair.rule[i].text,
					 names[impair.rule[i].action], v.delay_ns);
	}
	/* These are few, and there is no timer that would do it. */
	if (v.acted && fault_log_on())
		fault_log_flush();
	return v;
}

/* What the environment asks for, the first time. */
static void prepare(rocemu_ns_t now)
{
	const char *pcap = getenv("ROCEMU_PCAP");
	char text[512];

	if (ready)
		return;
	ready = true;
	if (pcap && *pcap)
		capture = rcm_private()->capture;
	if (setting_get(&impair, NULL, text, sizeof(text)) < 0)
		log_error("%s", text);
	/* Other numbers than the lanes', or a MAD and a packet always suffer together. */
	impair.rng.state = ~impair.rng.state;
	prepare_rules();
	impair_link_start(&port, &impair, now);
}

/* packet: of m. */
static void write_capture(const struct gsi_mad *m, const uint8_t packet[static GSI_PACKET_LEN])
{
	const struct tap_addr a = {
		.src = m->src,
		.dst = m->dst,
		.sport = m->sport,
		.ip_id = m->ip_id,
		.tclass = m->tclass,
		.hop_limit = m->hop_limit,
	};

	capture(&a, packet, GSI_PACKET_LEN);
}

void mad_sent(const struct gsi_mad *m)
{
	uint8_t packet[GSI_PACKET_LEN];

	if (!capture)
		return;
	gsi_packet_encode(m, packet);
	write_capture(m, packet);
}

static bool port_is_down(rocemu_ns_t now)
{
	impair_link_step(&port, &impair, now);
	return port.down;
}

static void send_one(struct agent_gsi *client, const struct gsi_mad *m)
{
	(void)agent_gsi_send(client, m, capture != NULL);
}

/* Keep a packet back. When there is no room or no memory it goes now. */
static bool hold(const struct gsi_mad *m, rocemu_ns_t due)
{
	struct held *h = nheld < HELD_MAX ? malloc(sizeof(*h)) : NULL;
	struct list *before = held.next;

	if (!h)
		return false;
	h->due = due;
	h->mad = *m;
	while (before != &held && list_entry(before, struct held, node)->due <= due)
		before = before->next;
	list_append(before, &h->node);
	nheld++;
	return true;
}

static void add_flip(struct gsi_mad *m, uint32_t bit, uint16_t sealed)
{
	if (m->nflips < GSI_FLIPS_MAX)
		m->flips[m->nflips++] = (uint16_t)(bit | sealed);
}

/* The agent makes the packet, so it is given the bits to invert. */
static void corrupt(const struct fault_verdict *v, const struct impair_fate *fate,
		    struct gsi_mad *m)
{
	uint8_t bits[GSI_PACKET_LEN] = {0};

	for (unsigned i = 0; i < v->nsealed; i++)
		add_flip(m, v->sealed[i], GSI_FLIP_SEALED);
	for (unsigned i = 0; i < v->nraw; i++)
		add_flip(m, v->raw[i], 0);
	if (!fate->corrupt_bits)
		return;
	impair_corrupt(&impair, bits, sizeof(bits), fate->corrupt_bits);
	for (uint32_t bit = 0; bit < 8 * sizeof(bits); bit++)
		if (bits[bit / 8] & 0x80u >> bit % 8)
			add_flip(m, bit, 0);
}

/* As a lane does: in order, but for what is reordered or delayed by a rule. */
static rocemu_ns_t due_of(rocemu_ns_t now, const struct impair_fate *fate,
			  const struct fault_verdict *v)
{
	rocemu_ns_t due = now + fate->delay_ns;

	if (due < last_due)
		due = last_due;
	last_due = due;
	return due + (fate->overtakers ? REORDER_NS : 0) + v->delay_ns;
}

static void report_fate(const uint8_t *packet, const struct impair_fate *fate)
{
	const struct fault_packet p = {
		.qp = ROCEMU_GSI_QPN, .hdr = packet, .len = GSI_PACKET_LEN};
	const struct {
		bool done;
		enum fault_count what;
		const char *name;
		uint64_t ns;
	} rows[] = {
		{fate->lost, FAULT_COUNT_LOST, "loss", 0},
		{fate->dup, FAULT_COUNT_DUP, "dup", 0},
		{fate->overtakers > 0, FAULT_COUNT_REORDER, "reorder", 0},
		{fate->corrupt_bits > 0, FAULT_COUNT_CORRUPT, "corrupt", 0},
		{fate->delay_ns > 0, FAULT_COUNT_DELAY, "delay", fate->delay_ns},
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
	struct impair_fate fate = {0};
	struct fault_verdict v = {0};
	rocemu_ns_t due;

	prepare(now);
	if (!impair.on) {
		send_one(client, m);
		return;
	}
	gsi_hdr_encode(m, 0);
	gsi_packet_encode(m, packet);
	v = ask_rules(FAULT_TX, m, packet);
	fate = impair_roll(&impair);
	fault_report_add(FAULT_COUNT_SENT, 1);
	if (v.drop)
		return;
	report_fate(packet, &fate);
	if (fate.lost || port_is_down(now))
		return;
	corrupt(&v, &fate, m);
	if (v.mark)
		m->tclass |= ECN_CE;
	due = due_of(now, &fate, &v);
	for (unsigned i = 0; i < 1 + fate.dup + v.dups; i++)
		if (due <= now || !hold(m, due))
			send_one(client, m);
}

rocemu_ns_t mad_deadline(void)
{
	struct list *n = list_first(&held);

	return n ? list_entry(n, struct held, node)->due : ROCEMU_NEVER;
}

void mad_expire(struct agent_gsi *client, rocemu_ns_t now)
{
	while (mad_deadline() <= now) {
		struct held *h = list_entry(held.next, struct held, node);

		list_remove(&h->node);
		nheld--;
		send_one(client, &h->mad);
		free(h);
	}
}

bool mad_received(const struct gsi_mad *m, rocemu_ns_t now, struct cm_addr *addr)
{
	uint8_t packet[GSI_PACKET_LEN];

	prepare(now);
	if (port_is_down(now))
		return false;
	if (capture || faults_wants(faults, FAULT_RX)) {
		gsi_packet_encode(m, packet);
		if (capture)
			write_capture(m, packet);
		/* Of what comes in, only drops. */
		if (ask_rules(FAULT_RX, m, packet).drop)
			return false;
	}
	*addr = (struct cm_addr){
		.src = m->src,
		.dst = m->dst,
		.tclass = m->tclass,
		.hop_limit = m->hop_limit,
	};
	return true;
}

void mad_forget(void)
{
	ready = false;
	list_init(&held);
	nheld = 0;
	/* Leaked, as the packets are: freeing is not safe after fork() in a process with threads. */
	faults = NULL;
	last_due = 0;
}
