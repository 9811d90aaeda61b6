/* SPDX-License-Identifier: BSD-2-Clause */
/* How the three users come, and come back: fuzz-users.c. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/give.h"
#include "agent/quota.h"
#include "base/util.h"
#include "fuzz-users.h"
#include "gsi-peer.h"
#include "test.h"
#include "users.h"

enum { CROWD = 60 /* places that root leaves */ };

uint64_t act_service(unsigned i)
{
	return rocemu_cm_service_id(ROCEMU_PS_TCP, (uint16_t)(7000 + i));
}

/* ---- clients ---- */

static bool is_wanted(const struct party *p, unsigned want)
{
	if (p->user == MODEL_ROOT || (want & HERE && (!p->conn || p->fd < 0)))
		return false;
	if (want & TOKEN && (p->token < 0 || !p->held))
		return false;
	if (!p->place)
		return want & PLACELESS;
	return want & (p->kind == AGENT_LANE ? LANE : GSI);
}

struct party *act_pick(unsigned want)
{
	const unsigned first = fz.m.n ? below(fz.m.n) : 0;

	for (unsigned i = 0; i < fz.m.n; i++)
		if (is_wanted(fz.m.all[(first + i) % fz.m.n], want))
			return fz.m.all[(first + i) % fz.m.n];
	return NULL;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void acts_close(struct party *p)
{
	close_one(&p->data);
	close_one(&p->token);
	close_one(&p->frames);
	close_one(&p->fd);
	if (p->keeper) {
		kill(p->keeper, SIGKILL);
		waitpid(p->keeper, NULL, 0);
	}
	p->keeper = 0;
}

/* Both ends forget it. */
void act_gone(struct party *p)
{
	acts_close(p);
	model_hang_up(&fz.m, p);
	p->held = false;
	model_settle(&fz.m, p);
}

void acts_close_all(void)
{
	while (fz.m.n)
		act_gone(fz.m.all[fz.m.n - 1]);
}

/* The agent has closed the connection. The token keeps the place. */
void act_hung_up(struct party *p)
{
	close_one(&p->fd);
	close_one(&p->frames);
	model_hang_up(&fz.m, p);
	model_settle(&fz.m, p);
}

/* A connection. @return NULL: refused, with reason. */
static struct party *arrive(unsigned user)
{
	const unsigned have = model_conns(&fz.m, user, true);
	const struct agent_msg m = {.type = AGENT_STATUS};
	struct agent_msg answer;
	struct party *p;
	int fd = connect_as(fz.uids[user], true), r = request(fd, &m, &answer);

	agent_msg_close_fds(&answer);
	/* With a request that it has not read, the kernel reports that before the reason. */
	if (r && ((r != ENOSPC && r != -ECONNRESET) || have < QUOTA_CLIENTS))
		wrong("connection %u of user %u is refused: %d", have, user, r);
	if (r) {
		close(fd);
		return NULL;
	}
	p = model_add(&fz.m, user);
	p->fd = fd;
	if (user != MODEL_ROOT && model_conns(&fz.m, user, false) > QUOTA_CLIENTS)
		wrong("connection %u of user %u", have + 1, user);
	return p;
}

/* Did it get a slot of another user's, though some are unused? */
static bool is_robbed(unsigned user, unsigned place)
{
	if (!fz.m.owner[AGENT_LANE][place] || fz.m.owner[AGENT_LANE][place] == user + 1)
		return false;
	for (unsigned i = 1; i < AGENT_SEATS; i++)
		if (!fz.m.owner[AGENT_LANE][i])
			return true;
	return false;
}

/* Clients without a token lose their place, when they have not yet. */
static void replace_tokenless(const struct party *p)
{
	for (unsigned i = fz.m.n; i-- > 0;) {
		struct party *o = fz.m.all[i];

		if (o != p && party_is_tokenless(o) && o->kind == p->kind && o->place == p->place)
			act_hung_up(o);
	}
}

static void take_place(struct party *p, struct agent_msg *a)
{
	const enum agent_kind kind = (enum agent_kind)a->u.welcome.kind;
	const unsigned place = a->u.welcome.place;
	const struct party *holder = model_holder(&fz.m, kind, place);

	if (holder)
		wrong("place %u of kind %u is user %u's, and given to user %u", place, kind,
		      holder->user, p->user);
	if (kind == AGENT_LANE && is_robbed(p->user, place))
		wrong("slot %u of user %u is given to user %u", place,
		      fz.m.owner[AGENT_LANE][place] - 1, p->user);
	if (a->nfds != (kind == AGENT_GSI ? 2 : 1))
		wrong("a new place with %u descriptors", a->nfds);
	p->kind = kind;
	p->place = (uint16_t)place;
	p->held = true;
	p->token = a->fds[a->nfds - 1];
	p->frames = kind == AGENT_GSI ? a->fds[0] : -1;
	fz.m.owner[kind][place] = (uint8_t)(p->user + 1);
	replace_tokenless(p);
}

/* Numbers may be those of exit MADs. */
static bool may_be_full(enum agent_kind kind)
{
	unsigned n = model_used(&fz.m, kind);

	if (kind == AGENT_GSI)
		for (unsigned i = 0; i < MODEL_ALL; i++)
			n += fz.m.lingering_most[i];
	return n >= AGENT_SEATS - 1;
}

static void hello_by(struct party *p, enum agent_kind kind)
{
	const struct agent_msg m = {.type = AGENT_HELLO, .u.hello = {kind}};
	const unsigned have = model_places(&fz.m, kind, p->user);
	const bool full = p->user != MODEL_ROOT && have >= QUOTA_PLACES;
	struct agent_msg answer;
	int r = request(p->fd, &m, &answer);

	if (r && !(r == ENOSPC && (full || may_be_full(kind))))
		wrong("place %u of kind %u is refused to user %u: %d", have, kind, p->user, r);
	if (!r && full)
		wrong("user %u has %u places of kind %u", p->user, have + 1, kind);
	if (!r)
		take_place(p, &answer);
}

struct party *act_placeless(void)
{
	struct party *p = one_in(2) ? act_pick(PLACELESS | HERE) : NULL;

	return p ? p : arrive(below(MODEL_USERS));
}

static void act_hello(void)
{
	const enum agent_kind kind = below(2) ? AGENT_GSI : AGENT_LANE;
	unsigned n = one_in(60) ? 300 : 1, user = below(MODEL_USERS);

	note("user %u: %u x HELLO %u", user, n, kind);
	while (n--) {
		struct party *p = arrive(user);

		if (!p)
			return;
		hello_by(p, kind);
	}
}

static void act_arrive(void)
{
	unsigned n = one_in(40) ? QUOTA_CLIENTS + 3 : 1, user = below(MODEL_USERS);

	note("user %u: %u connections", user, n);
	while (n-- && arrive(user))
		;
}

void acts_crowd(void)
{
	for (unsigned kind = 0; kind < AGENT_KIND_COUNT; kind++)
		for (unsigned i = CROWD; i < AGENT_SEATS - 1; i++) {
			struct party *p = arrive(MODEL_ROOT);

			hello_by(p, (enum agent_kind)kind);
			act_hung_up(p);
		}
}

/* ---- coming back ---- */

/* With the token: a new connection has what the old one had, and that ends. */
static void act_rejoin(void)
{
	struct party *old = act_pick(LANE | GSI | TOKEN), *p = old ? arrive(old->user) : NULL;
	struct agent_msg m = {.type = AGENT_REJOIN}, answer;
	int r;

	if (!p)
		return;
	note("user %u: REJOIN kind %u place %u", old->user, old->kind, old->place);
	m.u.rejoin.kind = old->kind;
	m.u.rejoin.place = old->place;
	m.u.rejoin.nonce = rng_u64(&fz.rng) | 1;
	assert_int_equal(send(old->token, &m.u.rejoin.nonce, 8, MSG_NOSIGNAL), 8);
	r = request(p->fd, &m, &answer);
	if (r || answer.u.welcome.place != old->place || answer.nfds != (old->kind == AGENT_GSI))
		wrong("a place is not given back: %d", r);
	/* The agent drops what a client that is back has set. */
	old->nexits = 0;
	close_one(&old->fd);
	close_one(&old->frames);
	if (old->conn)
		model_hang_up(&fz.m, old);
	old->fd = p->fd;
	old->conn = true;
	old->vague = false;
	if (old->kind == AGENT_GSI)
		old->listened = 0;
	old->frames = answer.nfds ? answer.fds[0] : -1;
	p->fd = -1;
	p->conn = false;
	model_settle(&fz.m, p);
}

/* Without: of any place. */
static void forge(struct party *p)
{
	const struct party *victim = one_in(2) ? act_pick(LANE | GSI) : NULL;
	struct agent_msg m = {.type = AGENT_REJOIN}, answer;
	const enum agent_kind kind = victim ? victim->kind : one_in(2) ? AGENT_LANE : AGENT_GSI;
	const unsigned place = victim ? victim->place : 1 + below(AGENT_SEATS - 1);
	const unsigned owner = fz.m.owner[kind][place];
	int r;

	m.u.rejoin.kind = kind;
	m.u.rejoin.place = place;
	m.u.rejoin.nonce = one_in(3) ? 0 : rng_u64(&fz.rng);
	note("user %u: forged REJOIN kind %u place %u", p->user, kind, place);
	r = request(p->fd, &m, &answer);
	if (r)
		return;
	if (model_places(&fz.m, kind, p->user) >= QUOTA_PLACES)
		wrong("user %u has more places by REJOIN", p->user);
	if (kind == AGENT_LANE && owner && owner != p->user + 1)
		wrong("slot %u of user %u is given to user %u", place, owner - 1, p->user);
	take_place(p, &answer);
	if (kind == AGENT_LANE && model_owned(&fz.m, kind, p->user) > QUOTA_PLACES)
		wrong("user %u owns more slots by REJOIN", p->user);
}

static void act_forge(void)
{
	unsigned n = one_in(60) ? 300 : 1;
	struct party *p;

	while (n-- && (p = act_placeless()))
		forge(p);
}

static const struct act acts[] = {
	{4, act_arrive}, {12, act_hello}, {6, act_rejoin}, {4, act_forge}, {0, NULL},
};

static unsigned weight_of(const struct act *a)
{
	unsigned n = 0;

	for (; a->run; a++)
		n += a->weight;
	return n;
}

void acts_step(void)
{
	const struct act *all[] = {acts, acts_sockets, acts_ports, acts_mess}, *a;
	unsigned sum = 0, at, i = 0;

	for (unsigned k = 0; k < ARRAY_LEN(all); k++)
		sum += weight_of(all[k]);
	for (at = below(sum); at >= weight_of(all[i]); i++)
		at -= weight_of(all[i]);
	for (a = all[i]; at >= a->weight; a++)
		at -= a->weight;
	a->run();
}
