/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/link.h"

void store_init(struct store *st, int listener)
{
	st->listener = listener;
	st->started_ms = link_now_ms();
	for (unsigned kind = 0; kind < AGENT_KIND_COUNT; kind++)
		seats_init(&st->seats[kind]);
	groups_init(&st->groups);
}

void store_fini(struct store *st)
{
	groups_fini(&st->groups);
	for (unsigned kind = 0; kind < AGENT_KIND_COUNT; kind++)
		seats_fini(&st->seats[kind]);
	close(st->listener);
	st->listener = -1;
}

static int apply_seat(struct store *st, const struct store_change *c, const int *fds, unsigned n)
{
	struct seat *seat;

	if (c->kind >= AGENT_KIND_COUNT || c->place == 0 || c->place >= AGENT_SEATS || n > 1)
		return -EBADMSG;
	seat = &st->seats[c->kind].seat[c->place];
	if (seat->token >= 0)
		close(seat->token);
	*seat = (struct seat){.token = n ? fds[0] : -1, .uid = c->uid, .next_index = c->next_index};
	if (c->kind == AGENT_LANE)
		groups_unuse(&st->groups, c->place);
	return 0;
}

static int apply_places(struct store *st, struct group *g, const struct store_change *c,
			const int *fds, unsigned n)
{
	int r;

	if (!g)
		g = groups_add(&st->groups, &c->addr, c->scope_id);
	r = g ? group_set(g, c->first, c->place, fds, n) : -ENOMEM;
	/* There is no group without sockets. */
	if (g && !g->count)
		groups_free(&st->groups, g);
	return r;
}

int store_apply(struct store *st, const struct store_change *c, const int *fds, unsigned n)
{
	struct group *g = groups_find(&st->groups, &c->addr, c->scope_id);

	switch (c->type) {
	case STORE_SEAT:
		return apply_seat(st, c, fds, n);
	case STORE_PLACES:
		return apply_places(st, g, c, fds, n);
	case STORE_USE:
		if (!g || n || c->place >= AGENT_SEATS)
			return -EBADMSG;
		seat_set_add(&g->slots, c->place);
		seat_set_add(&g->given, c->place);
		return 0;
	case STORE_DROP:
		if (!g || n)
			return -EBADMSG;
		groups_free(&st->groups, g);
		return 0;
	default:
		return -EBADMSG;
	}
}

static int compare_fds(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void close_between(int from, int to)
{
	if (from < to)
		close_range((unsigned)from, (unsigned)to - 1, 0);
}

void store_close_others(const struct store *st, int keep)
{
	size_t n = 2, room = 2 + AGENT_KIND_COUNT * (size_t)AGENT_SEATS;
	int *fds, from = STDERR_FILENO + 1;

	list_for_each_entry (g, const struct group, node, &st->groups.all)
		room += g->count;
	fds = malloc(room * sizeof(*fds));
	if (!fds)
		_exit(1); /* better no holder than one that keeps clients' connections open */
	fds[0] = keep;
	fds[1] = st->listener;
	for (unsigned kind = 0; kind < AGENT_KIND_COUNT; kind++)
		for (unsigned i = 0; i < AGENT_SEATS; i++)
			if (st->seats[kind].seat[i].token >= 0)
				fds[n++] = st->seats[kind].seat[i].token;
	list_for_each_entry (g, const struct group, node, &st->groups.all) {
		for (unsigned i = 0; i < g->count; i++)
			fds[n++] = g->places[i].fd;
	}
	qsort(fds, n, sizeof(*fds), compare_fds);
	for (size_t i = 0; i < n; i++) {
		close_between(from, fds[i]);
		if (fds[i] >= from)
			from = fds[i] + 1;
	}
	close_range((unsigned)from, ~0u, 0);
	free(fds);
}
