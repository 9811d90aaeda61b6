/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/mad.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "engine/impair.h"
#include "verbs/private.h"
#include "wire/ip.h"

enum {
	ROOM_MS = 200, /* how long to wait for an agent that does not keep up */
	HELD_MAX = 1024,
	REORDER_NS = 2000000, /* what is to be overtaken waits so long */
};

static uint32_t next_psn;
static private_capture_fn *capture; /* NULL: no capture, or not our libibverbs */
static struct impair impair;
static struct impair_link port; /* goes down and up when the lanes' does */
static bool ready;

/* A packet that is late on purpose. */
struct held {
	struct list node; /* in held, by due time */
	rocemu_ns_t due;
	struct agent_cm_dgram d;
	uint8_t packet[AGENT_CM_DGRAM_LEN];
};
static struct list held = {&held, &held};
static unsigned nheld;

void mad_seal(struct agent_cm_dgram *d, uint8_t packet[AGENT_CM_DGRAM_LEN], const struct cm_mad *m,
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
	uint32_t icrc;

	next_psn += !to_keep;
	memcpy(packet + n, m->data, ROCEMU_MAD_LEN);
	n += ROCEMU_MAD_LEN;
	icrc = rocemu_icrc(&ctx, packet, n, NULL, 0, NULL, 0);
	for (unsigned i = 0; i < ROCEMU_ICRC_LEN; i++)
		packet[n + i] = (uint8_t)(icrc >> 8 * i);
	*d = (struct agent_cm_dgram){
		.src = m->addr.src,
		.dst = m->addr.dst,
		.scope_id = scope_id,
		.sport = sport,
		.tclass = m->addr.tclass,
		.hop_limit = m->addr.hop_limit,
		.len = AGENT_CM_DGRAM_LEN,
		.data = packet,
	};
}

/* What the environment asks for, the first time. */
static void prepare(rocemu_ns_t now)
{
	const char *pcap = getenv("ROCEMU_PCAP");
	char text[512];
	void *verbs;

	if (ready)
		return;
	ready = true;
	/* The library that we are linked to is there; the handle is kept for good. */
	verbs = pcap && *pcap ? dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (verbs) {
		union {
			void *object;
			private_capture_fn *function;
		} symbol = {dlvsym(verbs, PRIVATE_CAPTURE, PRIVATE_VERSION)};

		capture = symbol.function;
	}
	if (impair_parse(&impair, getenv("ROCEMU_IMPAIR"), text, sizeof(text)) < 0)
		log_error("%s", text);
	/* Other numbers than the lanes', or a MAD and a packet always suffer together. */
	impair.rng.state = ~impair.rng.state;
	impair_link_start(&port, &impair, now);
}

static void write_capture(const struct agent_cm_dgram *d)
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

static void send_one(struct cm_client *client, const struct agent_cm_dgram *d)
{
	struct pollfd p = {.fd = cm_client_fd(client), .events = POLLOUT};

	write_capture(d);
	/*
	 * The agent never waits for us, so it soon has room again. A MAD lost costs a timeout of
	 * seconds, and a program that connects a thousand times at once sends more than the socket
	 * holds.
	 */
	if (cm_client_send(client, d) == -EAGAIN && poll(&p, 1, ROOM_MS) == 1)
		cm_client_send(client, d);
}

/* Keep a packet back. When there is no room or no memory it goes now. */
static bool hold(const struct agent_cm_dgram *d, rocemu_ns_t due)
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

void mad_send(struct cm_client *client, rocemu_ns_t now, struct agent_cm_dgram *d, uint8_t *packet)
{
	struct impair_fate fate = {0};
	rocemu_ns_t wait;

	prepare(now);
	if (impair.on)
		fate = impair_roll(&impair);
	if (fate.lost || port_is_down(now))
		return;
	if (fate.corrupt_bits)
		impair_corrupt(&impair, packet, d->len, fate.corrupt_bits);
	wait = fate.delay_ns + (fate.overtakers ? REORDER_NS : 0);
	for (int i = 0; i < 1 + fate.dup; i++)
		if (!wait || !hold(d, now + wait))
			send_one(client, d);
}

rocemu_ns_t mad_deadline(void)
{
	struct list *n = list_first(&held);

	return n ? list_entry(n, struct held, node)->due : ROCEMU_NEVER;
}

void mad_expire(struct cm_client *client, rocemu_ns_t now)
{
	while (mad_deadline() <= now) {
		struct held *h = list_entry(held.next, struct held, node);

		list_remove(&h->node);
		nheld--;
		send_one(client, &h->d);
		free(h);
	}
}

bool mad_open(const struct agent_cm_dgram *d, rocemu_ns_t now, struct cm_addr *addr,
	      const uint8_t **mad, size_t *len)
{
	struct rocemu_packet p;

	prepare(now);
	if (port_is_down(now))
		return false;
	write_capture(d);
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
}
