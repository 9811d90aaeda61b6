/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/give.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/holder.h"
#include "agent/server.h"
#include "agent/socket.h"
#include "base/log.h"
#include "base/util.h"

bool give_is_limited(const struct server *s, uint32_t uid)
{
	return s->instance.system && uid != 0;
}

bool give_may_see(const struct server *s, uint32_t uid, uint32_t other)
{
	return uid == other || !give_is_limited(s, uid);
}

/* ---- places ---- */

static int next_number(struct server *s, const struct seats_used *used)
{
	struct gsi *gsi = &s->gsi;

	for (unsigned i = 1; i < AGENT_SEATS; i++) {
		gsi->last_number = (uint16_t)(gsi->last_number % (AGENT_SEATS - 1) + 1);
		if (!used->is[gsi->last_number] && gsi_number_is_free(gsi, gsi->last_number))
			return gsi->last_number;
	}
	return -ENOSPC;
}

/*
 * Sockets that the slot's last user may have copies of are replaced; data in the others is
 * discarded.
 */
static int prepare_slot(struct server *s, unsigned slot, uint32_t uid)
{
	const struct seat *seat = &s->store->seats[AGENT_LANE].seat[slot];

	list_for_each_entry (g, struct group, node, &s->store->groups.all) {
		struct store_change c = {.type = STORE_PLACES,
					 .addr = g->addr,
					 .scope_id = g->scope_id,
					 .place = (uint16_t)slot};
		int fd, place = group_place(g, slot);

		if (place < 0)
			continue;
		if (!seat_set_has(&g->given, slot) || seat->uid == uid) {
			data_socket_drain(g->places[place].fd);
			continue;
		}
		fd = group_replace(g, (unsigned)place, s->instance.system);
		if (fd < 0)
			return fd;
		c.first = (uint16_t)place;
		(void)server_change(s, &c, &fd, 1);
	}
	return 0;
}

/*
 * Numbers are given round robin, so the token of a client that has ended would be kept for long.
 * One that has closed its token only has given its number back.
 */
static void close_dead(struct server *s, const struct seats_used *used)
{
	for (unsigned i = 1; i < AGENT_SEATS; i++) {
		const struct seat *seat = &s->store->seats[AGENT_GSI].seat[i];
		const struct store_change c = {.type = STORE_SEAT,
					       .kind = AGENT_GSI,
					       .uid = seat->uid,
					       .place = (uint16_t)i,
					       .next_index = seat->next_index};

		if (seat->token < 0 || used->is[i])
			continue;
		if (s->gsi.members[i])
			client_close(s->gsi.members[i]->conn);
		(void)server_change(s, &c, NULL, 0);
	}
}

static int quota_error(uint32_t uid, const char *what, char *errbuf, size_t errlen)
{
	snprintf(errbuf, errlen,
		 "user %u has %d %s, the limit for one user of this host's 1023: end some RDMA "
		 "processes",
		 uid, QUOTA_PLACES, what);
	return -ENOSPC;
}

/*
 * A client of an agent that has died may have its place again without a proof. So may any other
 * client. It gets only a slot that was last its user's, or one that was never used, up to the
 * user's quota.
 */
static int pick_wanted(const struct server *s, enum agent_kind kind, uint32_t uid, unsigned wanted,
		       const struct seats_used *used)
{
	const struct seats *seats = &s->store->seats[kind];
	const struct seat *seat = &seats->seat[wanted];

	if (used->is[wanted])
		return -EBADMSG;
	if (kind == AGENT_GSI)
		return gsi_number_is_free(&s->gsi, wanted) ? (int)wanted : -EBADMSG;
	if (!give_is_limited(s, uid))
		return (int)wanted;
	if (seat->token >= 0)
		return seat->uid == uid ? (int)wanted : -EBADMSG;
	return seats_owned(seats, uid) < QUOTA_PLACES ? (int)wanted : -EDQUOT;
}

static int pick(struct server *s, enum agent_kind kind, uint32_t uid, unsigned wanted,
		const struct seats_used *used, char *errbuf, size_t errlen)
{
	const char *what = kind == AGENT_LANE ? "slots" : "numbers of connection management";
	const struct seats *seats = &s->store->seats[kind];
	int place;

	if (give_is_limited(s, uid) && seats_count(seats, used, uid) >= QUOTA_PLACES)
		return quota_error(uid, what, errbuf, errlen);
	if (wanted)
		place = pick_wanted(s, kind, uid, wanted, used);
	else
		place = kind == AGENT_LANE ? seats_pick_lowest(seats, used, uid)
					   : next_number(s, used);
	if (place == -EDQUOT)
		return quota_error(uid, what, errbuf, errlen);
	if (place == -ENOSPC)
		snprintf(errbuf, errlen,
			 "all 1023 %s of this host are in use: end some RDMA processes", what);
	else if (place < 0)
		snprintf(errbuf, errlen, "place %u is another process's", wanted);
	return place;
}

/* @return as give_place(). */
static int pick_slot(struct server *s, uint32_t uid, unsigned wanted, char *errbuf, size_t errlen)
{
	struct seats_used used;

	seats_look(&s->store->seats[AGENT_LANE], &used);
	for (;;) {
		const int place = pick(s, AGENT_LANE, uid, wanted, &used, errbuf, errlen);
		const int r = place < 0 ? 0 : prepare_slot(s, (unsigned)place, uid);

		if (!r)
			return place;
		/* Its last user has bound a socket to an interface: the next slot may do. */
		if (r != -EPERM || wanted) {
			snprintf(errbuf, errlen, "no slot to be had: %s", strerror(-r));
			return r;
		}
		used.is[place] = true;
	}
}

static int pick_number(struct server *s, uint32_t uid, unsigned wanted, char *errbuf, size_t errlen)
{
	struct seats_used used;

	seats_look(&s->store->seats[AGENT_GSI], &used);
	close_dead(s, &used);
	return pick(s, AGENT_GSI, uid, wanted, &used, errbuf, errlen);
}

int give_place(struct server *s, enum agent_kind kind, uint32_t uid, unsigned wanted, int *token,
	       uint16_t *first_index, char *errbuf, size_t errlen)
{
	const struct seats *seats = &s->store->seats[kind];
	struct store_change c = {.type = STORE_SEAT, .kind = (uint16_t)kind, .uid = uid};
	int place = kind == AGENT_LANE ? pick_slot(s, uid, wanted, errbuf, errlen)
				       : pick_number(s, uid, wanted, errbuf, errlen);
	int ours, r;

	if (place < 0)
		return place;
	r = seats_new_token(&ours, token);
	if (r) {
		snprintf(errbuf, errlen, "no %s to be had: %s",
			 kind == AGENT_LANE ? "slot" : "number", strerror(-r));
		return r;
	}
	*first_index = seats->seat[place].next_index;
	c.place = (uint16_t)place;
	c.next_index = seats_following_index(seats, (unsigned)place);
	(void)server_change(s, &c, &ours, 1);
	return place;
}

/* ---- sockets ---- */

/* Which clients use a group. */
struct users {
	bool uid, others; /* that user; other users */
};

static void add_user(struct users *u, uint32_t is, uint32_t uid)
{
	if (is == uid)
		u->uid = true;
	else
		u->others = true;
}

/* The next place of a set from a place on; AGENT_SEATS: there is none. */
static unsigned next_of(const struct seat_set *set, unsigned from)
{
	while (from < AGENT_SEATS && !seat_set_has(set, from))
		from = set->bits[from / 32] >> from % 32 ? from + 1 : (from / 32 + 1) * 32;
	return from;
}

static struct users users_of(const struct server *s, const struct group *g,
			     const struct seats_used *used, uint32_t uid)
{
	const struct qp1 *q = g->user;
	struct users u = {0};

	for (unsigned i = next_of(&g->slots, 1); i < AGENT_SEATS; i = next_of(&g->slots, i + 1))
		if (used->is[i])
			add_user(&u, s->store->seats[AGENT_LANE].seat[i].uid, uid);
	for (unsigned i = q ? next_of(&q->members, 1) : AGENT_SEATS; i < AGENT_SEATS;
	     i = next_of(&q->members, i + 1))
		if (s->gsi.members[i])
			add_user(&u, s->gsi.members[i]->conn->uid, uid);
	/* MADs of ended clients are sent from the addresses that these used. */
	for (unsigned i = q ? next_of(&q->ended, 1) : AGENT_SEATS; i < AGENT_SEATS;
	     i = next_of(&q->ended, i + 1))
		if (gsi_exits_linger(&s->gsi.exit_mads, (uint16_t)i))
			add_user(&u, gsi_exits_user(&s->gsi.exit_mads, (uint16_t)i), uid);
	return u;
}

/* What no other user uses. */
struct alone {
	unsigned addrs, sockets;
};

static struct alone alone_of(const struct server *s, const struct seats_used *used, uint32_t uid)
{
	struct alone a = {0};

	list_for_each_entry (g, const struct group, node, &s->store->groups.all) {
		const struct users u = users_of(s, g, used, uid);

		if (!u.uid || u.others)
			continue;
		a.addrs++;
		a.sockets += g->count;
	}
	return a;
}

/* May the user have a socket of the slot? g: its address's group, or NULL. */
static int check_quota(const struct server *s, const struct group *g, uint32_t uid, unsigned slot,
		       char *errbuf, size_t errlen)
{
	struct seats_used used;
	struct users u = {0};
	struct alone a;

	seats_look(&s->store->seats[AGENT_LANE], &used);
	if (g)
		u = users_of(s, g, &used, uid);
	if (u.others)
		return 0;
	a = alone_of(s, &used, uid);
	if (!u.uid && a.addrs >= QUOTA_ADDRS) {
		snprintf(errbuf, errlen,
			 "user %u uses %u addresses alone, the limit for one user is %d: end some "
			 "RDMA processes, or use fewer addresses (ROCEMU_DEVICES)",
			 uid, a.addrs, QUOTA_ADDRS);
		return -ENOSPC;
	}
	if ((!g || group_place(g, slot) < 0) && a.sockets >= QUOTA_SOCKETS) {
		snprintf(errbuf, errlen,
			 "user %u has %u sockets at addresses that it uses alone, the limit for "
			 "one user is %d: end some RDMA processes",
			 uid, a.sockets, QUOTA_SOCKETS);
		return -ENOSPC;
	}
	return 0;
}

/* Last first: the kernel moves no other socket then. */
static void close_from(struct group_bind *b, unsigned kept)
{
	while (b->n > kept)
		close(b->fds[--b->n]);
}

/* The store takes over the sockets that were bound. */
static int keep(struct server *s, struct group_bind *b)
{
	unsigned done = 0;
	int r = 0;

	while (done < b->n && !r) {
		const unsigned n = MIN(b->n - done, (unsigned)AGENT_FDS_MAX);
		struct store_change c = {.type = STORE_PLACES,
					 .addr = b->addr,
					 .scope_id = b->scope_id,
					 .place = (uint16_t)(b->slot + done),
					 .first = (uint16_t)(b->first + done)};

		r = server_change(s, &c, b->fds + done, n);
		if (!r)
			done += n;
	}
	if (r)
		close_from(b, done);
	return r;
}

/* Make the sockets of b. */
static int make(struct server *s, struct group *g, struct group_bind *b)
{
	int r = group_bind(b);

	/* The holder may still have the sockets of an earlier group of the address. */
	if (r == -EADDRINUSE && !g && holder_catches_up(s->holder))
		r = group_bind(b);
	if (r)
		return r;
	/* After each change, so that no packet is steered to a missing place. */
	r = group_steer(g, b);
	if (r)
		close_from(b, 0);
	else
		r = keep(s, b);
	/* To those that are left. */
	g = groups_find(&s->store->groups, &b->addr, b->scope_id);
	if (r && g)
		(void)group_steer(g, NULL);
	return r;
}

/* Have a socket of the slot at the address. */
static int grow(struct server *s, struct group *g, const struct rocemu_gid *addr, uint32_t scope_id,
		unsigned slot)
{
	struct group_bind b = {.addr = *addr, .scope_id = scope_id, .guarded = s->instance.system};
	int r = 0;

	while (!r && group_next(g, slot, &b)) {
		r = make(s, g, &b);
		g = groups_find(&s->store->groups, addr, scope_id);
	}
	return r;
}

static void mark_used(struct server *s, const struct group *g, unsigned slot)
{
	struct store_change c = {.type = STORE_USE,
				 .addr = g->addr,
				 .scope_id = g->scope_id,
				 .place = (uint16_t)slot};

	if (slot && !seat_set_has(&g->slots, slot))
		(void)server_change(s, &c, NULL, 0);
}

void give_watch(struct server *s, struct group *g)
{
	gsi_watch(&s->gsi, g);
	if (!ev_is_active(&s->sweep_timer))
		ev_timer_again(s->loop, &s->sweep_timer);
}

int give_group(struct server *s, const struct rocemu_gid *addr, uint32_t scope_id, unsigned slot,
	       uint32_t uid, struct group **out, char *errbuf, size_t errlen)
{
	struct group *g = groups_find(&s->store->groups, addr, scope_id);
	int r = g ? 0 : data_socket_check_addr(addr, scope_id);

	if (!r && give_is_limited(s, uid) && check_quota(s, g, uid, slot, errbuf, errlen))
		return -ENOSPC;
	if (!r && !g && s->store->groups.count == GROUPS_MAX)
		give_sweep(s);
	if (!r && !g && s->store->groups.count == GROUPS_MAX) {
		snprintf(errbuf, errlen, "the agent serves %d addresses and no more", GROUPS_MAX);
		return -ENOSPC;
	}
	if (!r && (!g || group_place(g, slot) < 0)) {
		r = grow(s, g, addr, scope_id, slot);
		g = groups_find(&s->store->groups, addr, scope_id);
	}
	if (r) {
		data_socket_explain(r, addr, scope_id, errbuf, errlen);
		return r;
	}
	give_watch(s, g);
	mark_used(s, g, slot);
	*out = g;
	return 0;
}

static void drop(struct server *s, struct group *g)
{
	struct store_change c = {.type = STORE_DROP, .addr = g->addr, .scope_id = g->scope_id};

	/* Last first, so that no other socket moves while it is still in use. */
	for (unsigned i = g->count; i > 0; i--)
		(void)data_socket_stop_input(g->places[i - 1].fd);
	if (g->user)
		qp1_free(g->user);
	(void)server_change(s, &c, NULL, 0);
}

void give_sweep(struct server *s)
{
	struct seats_used used;

	seats_look(&s->store->seats[AGENT_LANE], &used);
	list_for_each_entry (g, struct group, node, &s->store->groups.all) {
		struct users u = users_of(s, g, &used, 0);
		char name[AGENT_ADDR_STRLEN];

		if (u.uid || u.others)
			continue;
		log_debug("%s is not used any more", data_addr_str(&g->addr, g->scope_id, name));
		drop(s, g);
	}
}
