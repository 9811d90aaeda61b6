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
	list_init(&gs->all);
	gs->count = 0;
}

void groups_free(struct groups *gs, struct group *g)
{
	while (g->count)
		close(g->fds[--g->count]);
	list_remove(&g->node);
	gs->count--;
	free(g);
}

void groups_fini(struct groups *gs)
{
	list_for_each_entry (g, struct group, node, &gs->all)
		groups_free(gs, g);
}

struct group *groups_find(struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id)
{
	list_for_each_entry (g, struct group, node, &gs->all) {
		if (g->scope_id == scope_id && rocemu_gid_equal(&g->addr, addr))
			return g;
	}
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
	gs->count++;
	return g;
}

void groups_unuse(struct groups *gs, unsigned slot)
{
	list_for_each_entry (g, struct group, node, &gs->all)
		seat_set_remove(&g->slots, slot);
}

int group_set(struct group *g, unsigned first, const int *fds, unsigned n)
{
	if (first > g->count || n > AGENT_SLOTS - first)
		return -EBADMSG;
	for (unsigned i = 0; i < n; i++) {
		if (first + i < g->count)
			close(g->fds[first + i]);
		g->fds[first + i] = fds[i];
	}
	g->count = MAX(g->count, first + n);
	return 0;
}

unsigned group_places_for(unsigned slot)
{
	unsigned n = FIRST_PLACES;

	while (n <= slot)
		n *= 2;
	return n;
}

/* One more member. */
static int bind_place(const struct rocemu_gid *addr, uint32_t scope_id, unsigned place,
		      unsigned bound, bool guarded)
{
	int fd = data_socket_open_unbound(addr, bound > 0), r = 0;

	if (fd < 0)
		return fd;
	/* The agent keeps slot 0's socket. */
	if (guarded && place)
		r = data_socket_guard(fd, place);
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
	unsigned bound = b->first;
	int r = 0;

	for (; bound < b->n && r >= 0; bound += r >= 0) {
		r = bind_place(&b->addr, b->scope_id, bound, bound, b->guarded);
		if (r >= 0)
			b->fds[bound] = r;
	}
	if (r >= 0)
		return 0;
	while (bound > b->first)
		close(b->fds[--bound]);
	return r;
}

int group_replace(const struct group *g, unsigned place, bool guarded)
{
	/* The last member is the one that the kernel moves into the hole. */
	int fd = bind_place(&g->addr, g->scope_id, place, g->count, guarded);
	int r = fd < 0 ? fd : data_socket_stop_input(g->fds[place]);

	if (!r)
		return fd;
	if (fd >= 0)
		close(fd);
	return r;
}
