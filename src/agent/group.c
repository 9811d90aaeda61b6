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

static void group_free(struct groups *gs, struct group *g)
{
	while (g->count)
		close(g->fds[--g->count]);
	list_remove(&g->node);
	gs->count--;
	free(g);
}

void groups_fini(struct groups *gs)
{
	list_for_each_safe (it, next, &gs->all)
		group_free(gs, list_entry(it, struct group, node));
}

struct group *groups_find(struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id)
{
	list_for_each (it, &gs->all) {
		struct group *g = list_entry(it, struct group, node);

		if (g->scope_id == scope_id && !memcmp(g->addr.raw, addr->raw, 16))
			return g;
	}
	return NULL;
}

static struct group *group_new(struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id)
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

/* How many places to have when slot is needed: doubling keeps the stash's records few. */
static unsigned places_for(unsigned slot)
{
	unsigned n = FIRST_PLACES;

	while (n <= slot)
		n *= 2;
	return n;
}

/* Take back the places from count on, last first, so that no other socket moves. */
static void shrink(struct group *g, unsigned count)
{
	while (g->count > count)
		close(g->fds[--g->count]);
}

/* Bind the next n places and add them to the stash, all or nothing. */
static int grow_batch(struct group *g, unsigned n, struct stash *stash)
{
	unsigned before = g->count;
	int r = 0;

	for (unsigned i = 0; i < n && !r; i++) {
		int fd = data_socket_open(&g->addr, g->scope_id, true);

		if (fd >= 0)
			g->fds[g->count++] = fd;
		else
			r = fd;
	}
	if (!r)
		r = stash_append(stash, &g->addr, g->scope_id, before, g->fds + before, n);
	if (r)
		shrink(g, before);
	return r;
}

static int grow(struct group *g, unsigned places, struct stash *stash)
{
	int r = 0;

	while (g->count < places && !r)
		r = grow_batch(g, MIN(places - g->count, (unsigned)STASH_BATCH), stash);
	/* After each change, so that no packet is steered to a place that is not there. */
	if (g->count) {
		int err = data_socket_steer(g->fds[0], g->count);

		if (!r)
			r = err;
	}
	return r;
}

int groups_need(struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id, unsigned slot,
		struct stash *stash, struct group **out, char *errbuf, size_t errlen)
{
	struct group *g = groups_find(gs, addr, scope_id);
	int r = 0;

	if (!g) {
		/* Members of a group would let a foreign one in; a socket of its own finds out. */
		r = data_socket_probe(addr, scope_id);
		if (!r) {
			g = group_new(gs, addr, scope_id);
			r = g ? 0 : -ENOSPC;
		}
	}
	if (!r && g->count <= slot)
		r = grow(g, places_for(slot), stash);
	if (!r) {
		*out = g;
		return 0;
	}
	if (r == -ENOSPC)
		snprintf(errbuf, errlen, "the agent serves %d addresses and no more", GROUPS_MAX);
	else if (r == -ENOBUFS || r == -ETOOMANYREFS)
		snprintf(errbuf, errlen,
			 "no room for more sockets: raise net.core.wmem_max or the hard limit of "
			 "open files");
	else
		data_socket_explain(r, addr, scope_id, errbuf, errlen);
	if (g && g->count == 0)
		group_free(gs, g);
	return r;
}

int groups_adopt(void *user, const struct rocemu_gid *addr, uint32_t scope_id, unsigned first,
		 const int *fds, unsigned n)
{
	struct groups *gs = user;
	struct group *g = groups_find(gs, addr, scope_id);

	if (!g)
		g = group_new(gs, addr, scope_id);
	if (!g)
		return -ENOMEM;
	if (g->count != first || first + n > AGENT_SLOTS)
		return -EBADMSG;
	for (unsigned i = 0; i < n; i++)
		if (!data_socket_is(fds[i], addr, scope_id))
			return -EBADMSG;
	memcpy(g->fds + first, fds, n * sizeof(int));
	g->count += n;
	return 0;
}

int groups_steer(struct groups *gs)
{
	list_for_each (it, &gs->all) {
		struct group *g = list_entry(it, struct group, node);
		int r = data_socket_steer(g->fds[0], g->count);

		if (r)
			return r;
	}
	return 0;
}
