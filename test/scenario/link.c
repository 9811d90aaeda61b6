/* SPDX-License-Identifier: BSD-2-Clause */
/* The link of a pair, and which of an end's packets are lost. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static bool chance(struct world *w, uint32_t percent)
{
	return percent && rng_below(&w->rng, 100) < percent;
}

int link_lose(void *world, unsigned end, const struct scenario_loss *l)
{
	struct world *w = world;
	struct lose *to = &w->lose[w->loses];
	unsigned kept = 0;

	if (l->times) {
		if (w->loses == LOSE_MAX)
			return -ENOMEM;
		*to = (struct lose){.end = end, .times = l->times, .mask = l->mask};
		snprintf(to->pattern, sizeof(to->pattern), "%s", l->pattern);
		w->loses++;
		return 0;
	}
	for (unsigned i = 0; i < w->loses; i++)
		if (w->lose[i].end != end)
			w->lose[kept++] = w->lose[i];
	w->loses = kept;
	return 0;
}

/** The next packet that matches. @return true: it is lost. */
static bool take(struct lose *l)
{
	const bool lost = l->mask & 1;

	l->times--;
	l->mask = l->mask >> 1 | l->mask << 63;
	return lost;
}

bool link_loses(struct world *w, unsigned end, const char *text)
{
	bool lost = chance(w, w->setup.loss);

	for (unsigned i = 0; i < w->loses && !lost; i++) {
		struct lose *l = &w->lose[i];

		if (l->end == end && l->times && fnmatch(l->pattern, text, FNM_NOESCAPE) == 0)
			lost = take(l);
	}
	return lost;
}

static void fly(struct world *w, const struct flying *like, const uint8_t *data, uint64_t delay)
{
	struct flying *f = malloc(sizeof(*f) + like->len), **at = &w->first;

	if (!f)
		return; /* lost */
	*f = *like;
	memcpy(f->data, data, f->len);
	f->at = w->now + w->setup.delay_ns + delay;
	while (*at && (*at)->at <= f->at)
		at = &(*at)->next;
	f->next = *at;
	*at = f;
}

void link_send(struct world *w, unsigned to, const struct rocemu_tx *t, const uint8_t *data,
	       uint32_t len)
{
	const uint32_t delay = (uint32_t)w->setup.delay_ns;
	const struct flying f = {
		.to = to,
		.src = t->path->sgid,
		.dst = t->path->dgid,
		.sport = t->path->sport,
		.tclass = t->path->tclass,
		.len = len,
	};

	if (chance(w, w->setup.dup))
		fly(w, &f, data, rng_below(&w->rng, delay + 1));
	fly(w, &f, data, chance(w, w->setup.reorder) ? rng_below(&w->rng, 4 * delay + 1) : 0);
}

/** The first packet on the link. */
static struct flying *take_first(struct world *w)
{
	struct flying *f = w->first;

	w->first = f->next;
	return f;
}

void link_arrive(struct world *w)
{
	struct flying *f = take_first(w);
	struct rocemu_dgram d = {
		.data = f->data,
		.len = f->len,
		.src = f->src,
		.dst = f->dst,
		.sport = f->sport,
		.dport = ROCEMU_UDP_PORT,
		.tclass = f->tclass,
		.hop_limit = 64,
		.ip_id_known = true,
	};
	struct end *e = w->end[f->to];

	say_drop(e, rocemu_ep_input(e->ep, w->now, &d));
	free(f);
}

void link_free(struct world *w)
{
	while (w->first)
		free(take_first(w));
}
