/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair of a device whose peer, on UDP, is who writes the packets. */
#include "verbs-end.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "conform/wire.h"

enum {
	PATIENCE_S = 5,
	TIMEOUT_LEAST = 14, /* 67 ms: no timer runs out while packets come and go */
};

/** Effects as text. */
struct list {
	unsigned n;
	size_t len;
	char text[VERBS_TEXT];
};

static struct wire *wire; /* NULL: there is no such peer */
static struct scenario_peer peer;
static bool unprobed; /* packets were sent since the probe answered */

int scenario_verbs_from(const char *address)
{
	int error;

	wire = wire_open(address, &error);
	return error;
}

bool verbs_wire_possible(const struct scenario_setup *s)
{
	struct rocemu_gid gid;
	unsigned ip;

	if (!wire || s->same_address || s->other_address || s->window || s->srq_other_pd)
		return false;
	gid = wire_gid(wire);
	ip = rocemu_gid_is_ipv4(&gid) ? 4 : 6;
	/* What differs between IP versions is the GRH of datagrams. */
	if (s->ip != ip && (s->ip == 6 || s->type == IBV_QPT_UD))
		return false;
	return !s->timeout || s->timeout >= TIMEOUT_LEAST;
}

/* ---- begin and end ---- */

/** The port that the kernel's driver and adapters take for a connection of two queue pairs. */
static uint16_t sport_of(uint32_t qpn, uint32_t peer_qpn)
{
	uint64_t v = (uint64_t)qpn * peer_qpn;

	v ^= v >> 20;
	v ^= v >> 40;
	return ibv_flow_label_to_udp_sport((uint32_t)v & 0xfffff);
}

struct verbs_self verbs_wire_self(void)
{
	const struct rocemu_gid gid = wire_gid(wire);
	struct verbs_self self = {
		.qpn = WIRE_QPN, .target_qpn = WIRE_QPN, .probe_qpn = WIRE_PROBE_QPN};

	memcpy(&self.gid, &gid, sizeof(self.gid));
	return self;
}

void verbs_wire_begin(const struct scenario_setup *s, const struct verbs_self *device)
{
	peer = (struct scenario_peer){
		.setup = s,
		.gid = wire_gid(wire),
		.qpn = WIRE_QPN,
		.device_qpn = device->target_qpn ? device->target_qpn : device->qpn,
		.device_srqn = device->srqn,
	};
	peer.sport = sport_of(peer.qpn, peer.device_qpn);
	memcpy(&peer.device_gid, &device->gid, sizeof(peer.device_gid));
	memcpy(peer.device_va, device->addr, sizeof(peer.device_va));
	wire_begin(wire, device->probe_qpn);
	unprobed = false;
}

/* ---- packets ---- */

int verbs_wire_settle(void)
{
	int error = unprobed ? wire_probe(wire, &peer) : 0;

	unprobed = false;
	return error;
}

int verbs_wire_input(const struct verbs_self *device, const struct scenario_packet *given)
{
	struct scenario_packet p = *given;

	if (rocemu_opcode_ops(p.h.opcode) & ROCEMU_OP_FLUSH)
		return -EOPNOTSUPP; /* verbs.h may not have it */
	if (p.mad.attr_id)
		return -EOPNOTSUPP; /* what comes to QP 1 is not looked at */
	peer.device_rkey = device->rkey[SCENARIO_MEM];
	scenario_peer_complete(&peer, &p);
	unprobed = true;
	return wire_send(wire, &peer, &p);
}

const char *verbs_wire_why_not(void)
{
	return wire ? wire_why_not(wire) : NULL;
}

const struct rocemu_packet *verbs_wire_last(void)
{
	return wire ? wire_last(wire) : NULL;
}

uint8_t *verbs_wire_payload(void)
{
	static uint8_t none[ROCEMU_MAX_MTU];

	return wire ? wire_last_payload(wire) : none;
}

uint64_t verbs_wire_address(const struct scenario_place *p)
{
	return scenario_peer_va(&peer, p);
}

/* ---- looks ---- */

static void add(struct list *l, const char *text, size_t len)
{
	l->len += (size_t)snprintf(l->text + l->len, sizeof(l->text) - l->len, "%s%.*s",
				   l->n ? "; " : "", (int)len, text);
	l->len = MIN(l->len, sizeof(l->text) - 1);
	l->n++;
}

/** Completions first, then events, then the error state, in whatever looks they were seen. */
static void sort(const char *seen, struct list kinds[3])
{
	while (*seen) {
		const size_t len = strcspn(seen, ";");
		const bool event = strncmp(seen, "event ", 6) == 0;

		add(&kinds[event ? 1 : strncmp(seen, "ERR", len) == 0 ? 2 : 0], seen, len);
		seen += len + strspn(seen + len, "; ");
	}
}

static time_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

void verbs_wire_effects(unsigned n, const char *(*look)(void *world), void *world,
			char text[VERBS_TEXT])
{
	static struct list packets, kinds[3];
	const time_t until = seconds() + PATIENCE_S;
	const char *came;

	packets = (struct list){0};
	memset(kinds, 0, sizeof(kinds));
	do {
		while ((came = wire_next(wire, &peer)))
			add(&packets, came, strlen(came));
		sort(look(world), kinds);
	} while (packets.n + kinds[0].n + kinds[1].n + kinds[2].n < n && seconds() < until);
	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++)
		if (kinds[i].n)
			add(&packets, kinds[i].text, kinds[i].len);
	memcpy(text, packets.text, packets.len + 1);
}
