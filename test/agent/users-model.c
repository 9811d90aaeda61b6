/* SPDX-License-Identifier: BSD-2-Clause */
#include "users-model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/give.h"
#include "agent/quota.h"
#include "test.h"

enum { SOCKETS_MAX = 1 << 18 };

void model_init(struct model *m)
{
	*m = (struct model){.all = calloc(8192, sizeof(m->all[0])),
			    .sockets = calloc(SOCKETS_MAX, sizeof(m->sockets[0]))};
	assert_true(m->all && m->sockets);
}

void model_fini(struct model *m)
{
	for (unsigned i = 0; i < m->n; i++) {
		free(m->all[i]->ports);
		free(m->all[i]);
	}
	free(m->all);
	free(m->sockets);
}

struct party *model_add(struct model *m, unsigned user)
{
	struct party *p = calloc(1, sizeof(*p));

	assert_true(p && m->n < 8192);
	*p = (struct party){
		.user = user, .conn = true, .fd = -1, .token = -1, .frames = -1, .data = -1};
	m->all[m->n++] = p;
	return p;
}

void model_settle(struct model *m, struct party *p)
{
	unsigned i = 0;

	if (p->conn || p->held)
		return;
	while (m->all[i] != p)
		i++;
	m->all[i] = m->all[--m->n];
	free(p->ports);
	free(p);
}

void model_hang_up(struct model *m, struct party *p)
{
	if (p->conn && p->kind == AGENT_GSI) {
		m->lingering_most[p->user] += p->nexits;
		memset(p->addrs, 0, sizeof(p->addrs));
		p->nports = p->nexits = 0;
	}
	p->conn = false;
}

struct party *model_holder(const struct model *m, enum agent_kind kind, unsigned place)
{
	for (unsigned i = 0; i < m->n; i++)
		if (m->all[i]->held && m->all[i]->kind == kind && m->all[i]->place == place)
			return m->all[i];
	return NULL;
}

/* ---- counts ---- */

#define COUNT(m, p, what)                                     \
	({                                                    \
		unsigned n_ = 0;                              \
		for (unsigned i_ = 0; i_ < (m)->n; i_++) {    \
			const struct party *p = (m)->all[i_]; \
			n_ += (what);                         \
		}                                             \
		n_;                                           \
	})

unsigned model_places(const struct model *m, enum agent_kind kind, unsigned user)
{
	return COUNT(m, p, p->held && p->kind == kind && p->user == user);
}

unsigned model_used(const struct model *m, enum agent_kind kind)
{
	return COUNT(m, p, p->held && p->kind == kind);
}

unsigned model_conns(const struct model *m, unsigned user, bool all)
{
	return COUNT(m, p, p->conn && p->user == user && (all || !party_is_tokenless(p)));
}

unsigned model_ports(const struct model *m, unsigned user)
{
	return COUNT(m, p, p->user == user ? p->nports : 0);
}

unsigned model_exits(const struct model *m, unsigned user)
{
	return COUNT(m, p, p->user == user ? p->nexits : 0);
}

unsigned model_owned(const struct model *m, enum agent_kind kind, unsigned user)
{
	unsigned n = 0;

	for (unsigned i = 1; i < AGENT_SEATS; i++)
		n += m->owner[kind][i] == user + 1;
	return n;
}

static bool uses_addresses(const struct party *p)
{
	return p->kind == AGENT_LANE ? p->held : p->conn;
}

unsigned model_alone(const struct model *m, unsigned user, unsigned addr, bool *uses, bool *others)
{
	uint64_t used[2][MODEL_WORDS] = {0};
	unsigned n = 0;

	for (unsigned i = 0; i < m->n; i++)
		for (unsigned w = 0; uses_addresses(m->all[i]) && w < MODEL_WORDS; w++)
			used[m->all[i]->user != user][w] |= m->all[i]->addrs[w];
	for (unsigned w = 0; w < MODEL_WORDS; w++)
		n += (unsigned)__builtin_popcountll(used[0][w] & ~used[1][w]);
	*uses = used[0][addr / 64] >> addr % 64 & 1;
	*others = used[1][addr / 64] >> addr % 64 & 1;
	return n;
}

unsigned model_addrs(const struct model *m)
{
	uint64_t used[MODEL_WORDS] = {0};
	unsigned n = 0;

	for (unsigned i = 0; i < m->n; i++)
		for (unsigned w = 0; uses_addresses(m->all[i]) && w < MODEL_WORDS; w++)
			used[w] |= m->all[i]->addrs[w];
	for (unsigned w = 0; w < MODEL_WORDS; w++)
		n += (unsigned)__builtin_popcountll(used[w]);
	return n;
}

bool model_give_socket(struct model *m, uint64_t cookie, unsigned user)
{
	unsigned i = (unsigned)(cookie % SOCKETS_MAX);

	for (; m->sockets[i].cookie; i = (i + 1) % SOCKETS_MAX)
		if (m->sockets[i].cookie == cookie)
			return m->sockets[i].user == user;
	if (m->nsockets == SOCKETS_MAX / 2)
		return true;
	m->nsockets++;
	m->sockets[i].cookie = cookie;
	m->sockets[i].user = user;
	return true;
}

/* ---- ports ---- */

struct model_port *party_port(const struct party *p, uint32_t key)
{
	for (unsigned i = 0; i < p->nports; i++)
		if (p->ports[i].key == key)
			return &p->ports[i];
	return NULL;
}

static bool is_wildcard(const struct rocemu_gid *g)
{
	static const struct rocemu_gid v4 = {.raw = {[10] = 0xff, [11] = 0xff}}, v6;

	return rocemu_gid_equal(g, &v4) || rocemu_gid_equal(g, &v6);
}

static bool overlap(const struct agent_gsi_bind *a, const struct agent_gsi_bind *b)
{
	if (a->flags & b->flags & AGENT_GSI_AFONLY &&
	    rocemu_gid_is_ipv4(&a->addr) != rocemu_gid_is_ipv4(&b->addr))
		return false;
	return is_wildcard(&a->addr) || is_wildcard(&b->addr) ||
	       (a->scope_id == b->scope_id && rocemu_gid_equal(&a->addr, &b->addr));
}

bool model_collides(const struct model *m, unsigned user, const struct agent_gsi_bind *b, bool *any)
{
	bool other = false;

	*any = false;
	for (unsigned i = 0; i < m->n; i++)
		for (unsigned k = 0; k < m->all[i]->nports; k++) {
			const struct agent_gsi_bind *o = &m->all[i]->ports[k].bind;

			if (o->service_id != b->service_id)
				continue;
			*any = true;
			other |= m->all[i]->user != user && overlap(o, b);
		}
	return other;
}

/* ---- comparing ---- */

static char differs[200];

#define DIFFERS(...) (snprintf(differs, sizeof(differs), __VA_ARGS__), differs)

/* What there is at least, and with what may have ended, at most. */
struct range {
	unsigned least, most;
};

static void add(struct range *r, const struct party *p, unsigned n)
{
	r->least += party_is_tokenless(p) ? 0 : n;
	r->most += n;
}

static bool in(const struct range *r, unsigned n)
{
	return n >= r->least && n <= r->most;
}

static unsigned listeners_of(const struct party *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->nports; i++)
		n += p->ports[i].listens;
	return n;
}

/* By whom a place is used now. */
struct places {
	const struct party *of[AGENT_KIND_COUNT][AGENT_SEATS];
	struct range own[AGENT_KIND_COUNT], other[AGENT_KIND_COUNT], listeners, other_listeners;
};

static void look(const struct model *m, unsigned user, struct places *at)
{
	memset(at, 0, sizeof(*at));
	for (unsigned i = 0; i < m->n; i++) {
		const struct party *p = m->all[i];
		const bool shown = user == MODEL_ROOT || p->user == user;

		if (!p->conn || !p->place)
			continue;
		if (!at->of[p->kind][p->place] || p->held)
			at->of[p->kind][p->place] = p;
		add(shown ? &at->own[p->kind] : &at->other[p->kind], p, 1);
		add(shown ? &at->listeners : &at->other_listeners, p, listeners_of(p));
	}
}

static const char *place_differs(const struct party *p, const char *what, unsigned place,
				 const unsigned uids[MODEL_ALL], uint32_t uid)
{
	if (!p)
		return DIFFERS("%s %u has a client of user %u, and should have none", what, place,
			       uid);
	if (uids[p->user] != uid)
		return DIFFERS("%s %u is user %u's, and should be user %u's", what, place, uid,
			       uids[p->user]);
	return NULL;
}

static unsigned count_addrs(const struct party *p)
{
	unsigned n = 0;

	for (unsigned w = 0; w < MODEL_WORDS; w++)
		n += (unsigned)__builtin_popcountll(p->addrs[w]);
	return n;
}

static const char *gsi_differs(const struct party *p, const struct agent_gsi_client_info *c)
{
	if (c->addrs != count_addrs(p))
		return DIFFERS("number %u has %u addresses, and should have %u", c->number,
			       c->addrs, count_addrs(p));
	if (c->binds != p->nports)
		return DIFFERS("number %u has %u ports, and should have %u", c->number, c->binds,
			       p->nports);
	if (p->vague ? c->exit_mads > p->nexits : c->exit_mads != p->nexits)
		return DIFFERS("number %u has %u exit MADs, and should have %u", c->number,
			       c->exit_mads, p->nexits);
	return NULL;
}

static const char *counts_differ(const struct model *m, const struct places *at,
				 const struct agent_status_head *h)
{
	if (!in(&at->own[AGENT_LANE], h->nclients) || !in(&at->other[AGENT_LANE], h->other_clients))
		return DIFFERS("%u and %u lanes, should be %u and %u", h->nclients,
			       h->other_clients, at->own[AGENT_LANE].most,
			       at->other[AGENT_LANE].most);
	if (!in(&at->own[AGENT_GSI], h->ngsi_clients) ||
	    !in(&at->other[AGENT_GSI], h->other_gsi_clients))
		return DIFFERS("%u and %u numbers, should be %u and %u", h->ngsi_clients,
			       h->other_gsi_clients, at->own[AGENT_GSI].most,
			       at->other[AGENT_GSI].most);
	if (!in(&at->listeners, h->nlisteners) || !in(&at->other_listeners, h->other_listeners))
		return DIFFERS("%u and %u listeners, should be %u and %u", h->nlisteners,
			       h->other_listeners, at->listeners.most, at->other_listeners.most);
	if (h->naddrs < model_addrs(m))
		return DIFFERS("%u addresses, of at least %u", h->naddrs, model_addrs(m));
	return NULL;
}

/* By user, as far as the status shows it. */
static const char *over_quota(const struct model *m, const struct agent_status *st,
			      const unsigned uids[MODEL_ALL])
{
	const unsigned lingering = st->agent.lingering;

	for (unsigned user = 0; user < MODEL_USERS; user++) {
		unsigned lanes = 0, numbers = 0, ports = 0, exits = 0, others = 0;

		for (unsigned i = 0; i < st->agent.nclients; i++)
			lanes += st->clients[i].uid == uids[user];
		for (unsigned i = 0; i < st->agent.ngsi_clients; i++) {
			const struct agent_gsi_client_info *c = &st->gsi_clients[i];

			numbers += c->uid == uids[user];
			ports += c->uid == uids[user] ? c->binds : 0;
			exits += c->uid == uids[user] ? c->exit_mads : 0;
		}
		for (unsigned o = 0; o < MODEL_ALL; o++)
			others += o == user ? 0 : m->lingering_most[o];
		exits += lingering > others ? lingering - others : 0;
		if (lanes > QUOTA_PLACES || numbers > QUOTA_PLACES || ports > QUOTA_PORTS_MAX ||
		    exits > QUOTA_EXIT_MADS_MAX)
			return DIFFERS("user %u has %u lanes, %u numbers, %u ports, %u exit MADs",
				       uids[user], lanes, numbers, ports, exits);
	}
	return NULL;
}

const char *model_differs(const struct model *m, unsigned user, const unsigned uids[MODEL_ALL],
			  const struct agent_status *st)
{
	struct places at;
	const char *how;

	look(m, user, &at);
	how = counts_differ(m, &at, &st->agent);
	if (!how && user == MODEL_ROOT)
		how = over_quota(m, st, uids);
	for (unsigned i = 0; !how && i < st->agent.nclients; i++) {
		const struct agent_client_info *c = &st->clients[i];

		how = place_differs(at.of[AGENT_LANE][c->slot % AGENT_SEATS], "slot", c->slot, uids,
				    c->uid);
	}
	for (unsigned i = 0; !how && i < st->agent.ngsi_clients; i++) {
		const struct agent_gsi_client_info *c = &st->gsi_clients[i];
		const struct party *p = at.of[AGENT_GSI][c->number % AGENT_SEATS];

		how = place_differs(p, "number", c->number, uids, c->uid);
		if (!how)
			how = gsi_differs(p, c);
	}
	for (unsigned i = 0; !how && i < st->agent.nlisteners; i++)
		if (!at.of[AGENT_GSI][st->listeners[i].number % AGENT_SEATS])
			how = DIFFERS("number %u listens, and is none", st->listeners[i].number);
	return how;
}
