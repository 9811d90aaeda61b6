/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/socket.h"
#include "base/log.h"
#include "base/util.h"

enum { FIRST_PLACES = 4 };

void groups_init(struct groups *gs)
{
	*gs = (struct groups){0};
	list_init(&gs->all);
}

void groups_free(struct groups *gs, struct group *g)
{
	while (g->count)
		close(g->places[--g->count].fd);
	list_remove(&g->node);
	hash_remove(&gs->by_address, &g->by_address);
	gs->count--;
	free(g->places);
	free(g);
}

void groups_fini(struct groups *gs)
{
	list_for_each_entry (g, struct group, node, &gs->all)
		groups_free(gs, g);
}

static uint64_t key(const struct rocemu_gid *addr, uint32_t scope_id)
{
	return hash_bytes(addr, sizeof(*addr)) ^ scope_id;
}

struct group *groups_find(const struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id)
{
	hash_for_each (g, struct group, by_address, &gs->by_address, key(addr, scope_id))
		if (g->scope_id == scope_id && rocemu_gid_equal(&g->addr, addr))
			return g;
	return NULL;
}

struct group *groups_add(struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id)
{
	struct group *g;

	if (gs->count == GROUPS_MAX)
		return NULL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->addr = *addr;
	g->scope_id = scope_id;
	list_init(&g->node);
	list_append(&gs->all, &g->node);
	hash_add(&gs->by_address, &g->by_address, key(addr, scope_id));
	gs->count++;
	return g;
}

void groups_unuse(struct groups *gs, unsigned slot)
{
	list_for_each_entry (g, struct group, node, &gs->all)
		seat_set_remove(&g->slots, slot);
}

/* ---- places ---- */

int group_place(const struct group *g, unsigned slot)
{
	/* Nearly always. */
	if (slot < g->count && g->places[slot].slot == slot)
		return (int)slot;
	for (unsigned i = 0; i < g->count; i++)
		if (g->places[i].slot == slot)
			return (int)i;
	return -1;
}

static bool make_room(struct group *g, unsigned n)
{
	unsigned room = MAX(g->room, 1u);
	struct group_place *p;

	while (room < n)
		room *= 2;
	if (room == g->room)
		return true;
	p = realloc(g->places, room * sizeof(*p));
	if (!p)
		return false;
	g->places = p;
	g->room = room;
	return true;
}

int group_set(struct group *g, unsigned first, unsigned slot, const int *fds, unsigned n)
{
	if (first > g->count || n > AGENT_SLOTS - first || n > AGENT_SLOTS - slot)
		return -EBADMSG;
	if (!make_room(g, first + n))
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		if (first + i < g->count)
			close(g->places[first + i].fd);
		seat_set_remove(&g->given, slot + i);
		g->places[first + i] =
			(struct group_place){.fd = fds[i], .slot = (uint16_t)(slot + i)};
	}
	g->count = MAX(g->count, first + n);
	return 0;
}

static unsigned places_for(unsigned slot)
{
	unsigned n = FIRST_PLACES;

	while (n <= slot)
		n *= 2;
	return n;
}

bool group_next(const struct group *g, unsigned slot, struct group_bind *b)
{
	const unsigned all = places_for(slot);

	b->first = g ? g->count : 0;
	b->slot = 0;
	b->n = 1;
	if (g && group_place(g, slot) >= 0)
		return false;
	/* Slot 0's is the first. */
	if (!g)
		return true;
	b->slot = slot;
	if (all > FIRST_PLACES * (seat_set_count(&g->slots) + 1))
		return true;
	/* The first slots that have none. */
	for (b->slot = 1; group_place(g, b->slot) >= 0; b->slot++)
		;
	while (b->slot + b->n < all && group_place(g, b->slot + b->n) < 0)
		b->n++;
	return true;
}

/* One more member. */
static int bind_place(const struct rocemu_gid *addr, uint32_t scope_id, unsigned slot,
		      unsigned bound, bool guarded)
{
	int fd = data_socket_open_unbound(addr, bound > 0), r = 0;

	if (fd < 0)
		return fd;
	/* The agent keeps slot 0's socket. */
	if (guarded && slot)
		r = data_socket_guard(fd, slot);
	if (!r)
		r = data_socket_bind(fd, addr, scope_id, AGENT_PORT);
	/*
	 * The first one is bound exclusively, which fails when the port is in use, and shared
	 * afterwards: so two agents of one user cannot get into one group.
	 */
	if (!r && bound == 0)
		r = data_socket_share(fd);
	if (!r)
		return fd;
	close(fd);
	return r;
}

int group_bind(struct group_bind *b)
{
	unsigned i = 0;
	int r = 0;

	for (; i < b->n && r >= 0; i += r >= 0) {
		r = bind_place(&b->addr, b->scope_id, b->slot + i, b->first + i, b->guarded);
		if (r >= 0)
			b->fds[i] = r;
	}
	if (r >= 0)
		return 0;
	while (i > 0)
		close(b->fds[--i]);
	return r;
}

/** Add a place and its slot: to the last run, if both numbers are the next ones of that run; else
 * as a new run. */
static void add_run(struct data_run *run, unsigned *n, unsigned place, unsigned slot)
{
	struct data_run *last = *n ? &run[*n - 1] : NULL;

	if (last && last->place + last->n == place && last->slot + last->n == slot)
		last->n++;
	else
		run[(*n)++] = (struct data_run){.place = place, .slot = slot, .n = 1};
}

int group_steer(const struct group *g, const struct group_bind *b)
{
	const unsigned count = (g ? g->count : 0) + (b ? b->n : 0);
	struct data_run run[AGENT_SLOTS];
	int second = -1, r;
	unsigned n = 0;

	for (unsigned i = 0; g && i < g->count; i++)
		add_run(run, &n, i, g->places[i].slot);
	for (unsigned i = 0; b && i < b->n; i++)
		add_run(run, &n, b->first + i, b->slot + i);
	/*
	 * The kernel makes the group of the first socket when a second one comes, and keeps it. The
	 * program must be there when the next one is bound, or that one would get packets of QP 1.
	 */
	if (count == 1) {
		second = bind_place(g ? &g->addr : &b->addr, g ? g->scope_id : b->scope_id, 1, 1,
				    false);
		if (second < 0)
			return second;
	}
	r = data_socket_steer(g ? g->places[0].fd : b->fds[0], run, n);
	if (second >= 0)
		close(second);
	return r;
}

int group_replace(const struct group *g, unsigned place, bool guarded)
{
	/* The last member is the one that the kernel moves into the hole. */
	int fd = bind_place(&g->addr, g->scope_id, g->places[place].slot, g->count, guarded);
	int r = fd < 0 ? fd : data_socket_stop_input(g->places[place].fd);

	if (!r)
		return fd;
	if (fd >= 0)
		close(fd);
	return r;
}
