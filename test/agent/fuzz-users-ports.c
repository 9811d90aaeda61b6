/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports and listeners of the three users: fuzz-users.c. */
#include <errno.h>
#include <stdlib.h>

#include "agent/quota.h"
#include "base/util.h"
#include "fuzz-users.h"
#include "gsi-peer.h"
#include "test.h"

enum { FLOOD_PORTS = 9000 };

static const struct rocemu_gid any4 = {.raw = {[10] = 0xff, [11] = 0xff}}, any6;

static struct agent_gsi_bind random_bind(const struct party *p, unsigned i)
{
	const struct rocemu_gid addrs[] = {any4, any6, act_addr_of(0), act_addr_of(1),
					   gid_v6_loopback()};
	struct agent_gsi_bind b = {.addr = addrs[below(ARRAY_LEN(addrs))], .flags = below(4)};

	if (i)
		b.service_id = UINT64_C(0x5000000000) | (uint64_t)p->place << 20 | i;
	else if (one_in(8))
		b.service_id = rocemu_cm_service_id(ROCEMU_PS_TCP, 0);
	else
		b.service_id = act_service(below(SERVICES));
	return b;
}

/* i: 0, or the number of one that no other client wants. @return whether to go on. */
static bool bind_one(struct party *p, uint32_t key, unsigned i)
{
	struct agent_msg m = {.type = AGENT_GSI_BIND}, a;
	const unsigned have = i ? 0 : model_ports(&fz.m, p->user);
	bool any = true, collides;
	int r;

	m.u.gsi_bind.key = key;
	m.u.gsi_bind.bind = random_bind(p, i);
	r = request(p->fd, &m, &a);
	if (r == ENOBUFS && model_ports(&fz.m, p->user) >= QUOTA_PORTS_MAX)
		return false;
	if (r == EEXIST && party_port(p, key))
		return true;
	if (!r)
		m.u.gsi_bind.bind.service_id = a.u.gsi_done.value;
	collides = !i && model_collides(&fz.m, p->user, &m.u.gsi_bind.bind, &any);
	if (r == EADDRINUSE && any)
		return true;
	if (r)
		wrong("port %u of user %u is refused: %d", have, p->user, r);
	if (collides)
		wrong("user %u shares a port with another user", p->user);
	if (have >= QUOTA_PORTS_MAX)
		wrong("user %u has %u ports", p->user, have + 1);
	if (p->nports % 64 == 0)
		p->ports = realloc(p->ports, (p->nports + 64) * sizeof(p->ports[0]));
	assert_non_null(p->ports);
	p->ports[p->nports++] = (struct model_port){key, false, m.u.gsi_bind.bind};
	return true;
}

static void act_bind(void)
{
	struct party *p = act_pick(GSI | HERE);
	unsigned n = one_in(100) ? FLOOD_PORTS : 0;

	if (!p || party_is_tokenless(p))
		return;
	note("user %u: number %u binds %u", p->user, p->place, n + 1);
	if (!n)
		bind_one(p, below(12), 0);
	for (unsigned i = 1; i <= n && bind_one(p, 1000 + i, i); i++)
		;
	/* Exactly so many. */
	if (model_ports(&fz.m, p->user) > QUOTA_PORTS_MAX)
		wrong("user %u has %u ports", p->user, model_ports(&fz.m, p->user));
}

static void act_listen(void)
{
	struct party *p = act_pick(GSI | HERE);
	struct agent_msg m = {.type = AGENT_GSI_LISTEN}, a;
	struct model_port *port;
	int r;

	if (!p || party_is_tokenless(p))
		return;
	m.u.gsi_bind.key = one_in(9) ? 1001 + below(9000) : below(12);
	port = party_port(p, m.u.gsi_bind.key);
	note("user %u: number %u listens on key %u", p->user, p->place, m.u.gsi_bind.key);
	r = request(p->fd, &m, &a);
	if (port ? r && r != EADDRINUSE : r != ENOENT)
		wrong("GSI_LISTEN: %d", r);
	if (!r) {
		port->listens = true;
		for (unsigned i = 0; i < SERVICES; i++)
			if (port->bind.service_id == act_service(i))
				p->listened |= 1u << i;
	}
}

static void act_unbind(void)
{
	struct party *p = act_pick(GSI | HERE);
	struct agent_msg m = {.type = AGENT_GSI_UNBIND}, a;
	struct model_port *port;
	int r;

	if (!p || party_is_tokenless(p))
		return;
	m.u.gsi_bind.key = below(12);
	port = party_port(p, m.u.gsi_bind.key);
	note("user %u: number %u unbinds key %u", p->user, p->place, m.u.gsi_bind.key);
	r = request(p->fd, &m, &a);
	if (r != (port ? 0 : ENOENT))
		wrong("GSI_UNBIND: %d", r);
	if (port)
		*port = p->ports[--p->nports];
}

const struct act acts_ports[] = {
	{14, act_bind},
	{10, act_listen},
	{5, act_unbind},
	{0, NULL},
};
