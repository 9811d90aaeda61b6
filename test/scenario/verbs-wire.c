/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair of a device whose peer, on UDP, is who writes the packets. */
#include "verbs-end.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "scenario/setup.h"
#include "wire.h"

#include "base/util.h"

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
static struct ibv_qp *probe;
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

/** A queue pair that answers, whatever the scenario does with its own. */
static int make_probe(struct verbs_end *e)
{
	static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	const struct scenario_setup s = {.type = IBV_QPT_RC,
					 .access = IBV_ACCESS_REMOTE_READ,
					 .mtu = 256,
					 .dest_rd_atomic = 1};
	struct ibv_qp_init_attr init = {.send_cq = e->cq[0],
					.recv_cq = e->cq[1],
					.qp_type = s.type,
					.cap = {1, 1, 1, 1, 0}};
	enum ibv_qp_state from = IBV_QPS_RESET;

	probe = ibv_create_qp(e->pd, &init);
	for (size_t i = 0; probe && i < ARRAY_LEN(way); from = way[i++]) {
		struct ibv_qp_attr a = scenario_attr(&s, 0, way[i]);
		int error;

		verbs_set_path(&a, &peer.gid, WIRE_PROBE_QPN);
		error = ibv_modify_qp(probe, &a, scenario_attr_mask(s.type, from, way[i]));
		if (error)
			return -error;
	}
	return probe ? 0 : -errno;
}

/** The port that the kernel's driver and adapters take for a connection of two queue pairs. */
static uint16_t sport_of(uint32_t qpn, uint32_t peer_qpn)
{
	uint64_t v = (uint64_t)qpn * peer_qpn;

	v ^= v >> 20;
	v ^= v >> 40;
	return ibv_flow_label_to_udp_sport((uint32_t)v & 0xfffff);
}

int verbs_wire_begin(struct verbs_end *e, struct verbs_self *self)
{
	int error;

	peer = (struct scenario_peer){
		.setup = &e->setup,
		.gid = wire_gid(wire),
		.qpn = WIRE_QPN,
		.device_qpn = e->target ? e->self.target_qpn : e->self.qpn,
		.device_srqn = e->self.srqn,
	};
	peer.sport = sport_of(peer.qpn, peer.device_qpn);
	memcpy(&peer.device_gid, &e->self.gid, sizeof(peer.device_gid));
	memcpy(peer.device_va, e->self.addr, sizeof(peer.device_va));
	*self = (struct verbs_self){.qpn = WIRE_QPN, .target_qpn = WIRE_QPN};
	memcpy(&self->gid, &peer.gid, sizeof(peer.gid));
	error = make_probe(e);
	if (!error)
		wire_begin(wire, probe->qp_num);
	return error;
}

void verbs_wire_end(void)
{
	if (probe)
		ibv_destroy_qp(probe);
	probe = NULL;
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
	peer.device_rkey = device->rkey[SCENARIO_MEM];
	scenario_peer_complete(&peer, &p);
	unprobed = true;
	return wire_send(wire, &peer, &p);
}

const struct rocemu_packet *verbs_wire_last(void)
{
	return wire_last(wire);
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
