/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/mad.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/log.h"
#include "engine/fault-report.h"
#include "engine/impair.h"
#include "rdmacm/private.h"
#include "wire/ip.h"

enum {
	ROOM_MS = 200, /* how long to wait for an agent that does not keep up */
	HELD_MAX = 1024,
	REORDER_NS = 2000000, /* what is to be overtaken waits so long */
	ECN_CE = 3,
};

static uint32_t next_psn;
static private_capture_fn *capture; /* NULL: no capture, or not our libibverbs */
static struct impair impair;
static struct impair_link port; /* goes down and up when the lanes' does */
static struct faults *faults;	       /* owned; NULL: no rules by packet */
static struct fault_total *total[FAULT_RULES];
static rocemu_ns_t last_due; /* when the last packet leaves that is not to be overtaken */
static bool ready;

/* A packet that is late on purpose. */
struct held {
	struct list node; /* in held, by due time */
	rocemu_ns_t due;
	struct agent_gsi_dgram d;
	uint8_t packet[AGENT_GSI_DGRAM_LEN];
};
static struct list held = {&held, &held};
static unsigned nheld;

static void put_icrc(const struct rocemu_icrc_ctx *ctx, uint8_t *packet, size_t len)
{
	const size_t n = len - ROCEMU_ICRC_LEN;

	put_le32(packet + n, rocemu_icrc(ctx, packet, n, NULL, 0, NULL, 0));
}

void mad_seal(struct agent_gsi_dgram *d, uint8_t packet[AGENT_GSI_DGRAM_LEN], const struct cm_mad *m,
	      uint16_t sport, uint32_t scope_id, bool to_keep)
{
	const struct rocemu_hdrs h = {
		.opcode = ROCEMU_UD_SEND_ONLY,
		.migreq = true,
		.ackreq = true, /* as the kernel's QP 1 has it */
		.pkey = 0xffff,
		.dqpn = ROCEMU_GSI_QPN,
		.psn = next_psn & ROCEMU_PSN_MASK,
		.deth = {.qkey = ROCEMU_GSI_QKEY, .sqpn = ROCEMU_GSI_QPN},
	};
	const struct rocemu_icrc_ctx ctx = {
		.src = m->addr.src,
		.dst = m->addr.dst,
		.sport = sport,
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = IP_FLAG_DF,
	};
	size_t n = rocemu_hdrs_encode(&h, packet);

	next_psn += !to_keep;
	memcpy(packet + n, m->data, ROCEMU_MAD_LEN);
	put_icrc(&ctx, packet, n + ROCEMU_MAD_LEN + ROCEMU_ICRC_LEN);
	*d = (struct agent_gsi_dgram){
		.src = m->addr.src,
		.dst = m->addr.dst,
		.scope_id = scope_id,
		.sport = sport,
		.tclass = m->addr.tclass,
		.hop_limit = m->addr.hop_limit,
		.len = AGENT_GSI_DGRAM_LEN,
		.data = packet,
	};
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

/* What rules do to a packet of QP 1. */
static struct fault_verdict ask_rules(enum fault_dir dir, const struct agent_gsi_dgram *d)
{
	static const char *const names[] = {
#define X(name, text) [FAULT_##name] = text,
		FAULT_ACTIONS(X)
#undef X
	};
	const struct fault_packet p = {
		.dir = dir,
		.qp = ROCEMU_GSI_QPN,
		.peer = dir == FAULT_TX ? &d->dst : &d->src,
		.hdr = d->data,
		.len = d->len,
	};
	struct fault_verdict v = {0};

	if (!faults_wants(faults, dir) || d->len < ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN)
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
		capture = (private_capture_fn *)rcm_private_function(PRIVATE_CAPTURE);
	if (impair_parse(&impair, getenv("ROCEMU_IMPAIR"), text, sizeof(text)) < 0)
		log_error("%s", text);
	/* Other numbers than the lanes', or a MAD and a packet always suffer together. */
	impair.rng.state = ~impair.rng.state;
	prepare_rules();
	impair_link_start(&port, &impair, now);
}

static void write_capture(const struct agent_gsi_dgram *d)
{
	const struct tap_addr a = {
		.src = d->src,
		.dst = d->dst,
		.sport = d->sport,
		.ip_id = d->ip_id,
		.tclass = d->tclass,
		.hop_limit = d->hop_limit,
	};

	if (capture)
		capture(&a, d->data, d->len);
}

static bool port_is_down(rocemu_ns_t now)
{
	impair_link_step(&port, &impair, now);
	return port.down;
}

static void send_one(struct agent_gsi *client, const struct agent_gsi_dgram *d)
{
	struct pollfd p = {.fd = agent_gsi_fd(client), .events = POLLOUT};

	write_capture(d);
	/*
	 * The agent never waits for us, so it soon has room again. A MAD lost costs a timeout of
	 * seconds, and a program that connects a thousand times at once sends more than the socket
	 * holds.
	 */
	if (agent_gsi_send(client, d) == -EAGAIN && poll(&p, 1, ROOM_MS) == 1)
		agent_gsi_send(client, d);
}

/* Keep a packet back. When there is no room or no memory it goes now. */
static bool hold(const struct agent_gsi_dgram *d, rocemu_ns_t due)
{
	struct held *h = nheld < HELD_MAX ? malloc(sizeof(*h)) : NULL;
	struct list *before = held.next;

	if (!h)
		return false;
	h->due = due;
	h->d = *d;
	h->d.data = h->packet;
	memcpy(h->packet, d->data, sizeof(h->packet));
	while (before != &held && list_entry(before, struct held, node)->due <= due)
		before = before->next;
	list_append(before, &h->node);
	nheld++;
	return true;
}

static void corrupt(const struct fault_verdict *v, const struct impair_fate *fate,
		    const struct agent_gsi_dgram *d, uint8_t *packet)
{
	const struct rocemu_icrc_ctx ctx = {
		.src = d->src,
		.dst = d->dst,
		.sport = d->sport,
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = IP_FLAG_DF,
	};

	for (unsigned i = 0; i < v->nsealed; i++)
		fault_flip(packet, v->sealed[i]);
	if (v->nsealed)
		put_icrc(&ctx, packet, d->len);
	for (unsigned i = 0; i < v->nraw; i++)
		fault_flip(packet, v->raw[i]);
	if (fate->corrupt_bits)
		impair_corrupt(&impair, packet, d->len, fate->corrupt_bits);
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

static void report_fate(const struct agent_gsi_dgram *d, const struct impair_fate *fate)
{
	const struct fault_packet p = {.qp = ROCEMU_GSI_QPN, .hdr = d->data, .len = d->len};
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

void mad_send(struct agent_gsi *client, rocemu_ns_t now, struct agent_gsi_dgram *d, uint8_t *packet)
{
	struct impair_fate fate = {0};
	struct fault_verdict v = {0};
	rocemu_ns_t due;

	prepare(now);
	if (!impair.on) {
		send_one(client, d);
		return;
	}
	v = ask_rules(FAULT_TX, d);
	fate = impair_roll(&impair);
	fault_report_add(FAULT_COUNT_SENT, 1);
	if (v.drop)
		return;
	report_fate(d, &fate);
	if (fate.lost || port_is_down(now))
		return;
	corrupt(&v, &fate, d, packet);
	if (v.mark)
		d->tclass |= ECN_CE;
	due = due_of(now, &fate, &v);
	for (unsigned i = 0; i < 1 + fate.dup + v.dups; i++)
		if (due <= now || !hold(d, due))
			send_one(client, d);
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
		send_one(client, &h->d);
		free(h);
	}
}

bool mad_open(const struct agent_gsi_dgram *d, rocemu_ns_t now, struct cm_addr *addr,
	      const uint8_t **mad, size_t *len)
{
	struct rocemu_packet p;

	prepare(now);
	if (port_is_down(now))
		return false;
	write_capture(d);
	/* Of what comes in, only drops. */
	if (ask_rules(FAULT_RX, d).drop)
		return false;
	if (rocemu_packet_decode(&p, d->data, d->len) != ROCEMU_DROP_NONE ||
	    p.h.opcode != ROCEMU_UD_SEND_ONLY)
		return false;
	*addr = (struct cm_addr){
		.src = d->src,
		.dst = d->dst,
		.tclass = d->tclass,
		.hop_limit = d->hop_limit,
	};
	*mad = p.payload;
	*len = p.payload_len;
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
