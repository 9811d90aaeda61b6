/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/impair.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

enum {
	BITS_MAX = 3,	    /* flipped in a corrupted packet */
	OVERTAKERS_MAX = 3, /* of a reordered packet */
};

/* Always one number of the dice, whatever the range. */
static uint64_t draw(struct rng *rng, const struct fault_range *span)
{
	const uint64_t number = rng_u64(rng), range = span->max - span->min;

	return span->min + (range ? number % (range + 1) : 0);
}

struct impair_action impair_roll(struct impair *im)
{
	struct impair_action f = {0};
	/*
	 * All are drawn, set or not, so that setting one does not shift the sequence of the others.
	 */
	const bool reorder = rng_chance(&im->rng, im->reorder);
	const uint8_t overtakers = (uint8_t)(1 + rng_below(&im->rng, OVERTAKERS_MAX));
	const bool corrupt = rng_chance(&im->rng, im->corrupt);
	const uint8_t bits = (uint8_t)(1 + rng_below(&im->rng, BITS_MAX));

	f.lost = rng_chance(&im->rng, im->loss);
	f.dup = rng_chance(&im->rng, im->dup);
	f.overtakers = reorder ? overtakers : 0;
	f.corrupt_bits = corrupt ? bits : 0;
	f.delay_ns = draw(&im->rng, &im->delay);
	if (f.lost)
		f = (struct impair_action){.lost = true};
	return f;
}

void impair_corrupt(struct impair *im, uint8_t *buf, size_t len, unsigned bits)
{
	uint32_t first = rng_below(&im->bits_rng, (uint32_t)len * 8);

	buf[first / 8] ^= (uint8_t)(1u << first % 8);
	for (unsigned i = 1; i < bits; i++) {
		uint32_t bit = rng_below(&im->bits_rng, (uint32_t)len * 8);

		/* Never undo the first flip. */
		if (bit != first)
			buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

/* ---- the port ---- */

/*
 * Each kind of dice has its own seed; otherwise faults of packets and of the port would coincide.
 */
enum { LINK_DICE = 0x11, RNR_DICE = 0x12 };

static uint64_t seed_of(const struct impair *im, uint64_t dice)
{
	struct rng r;

	rng_init(&r, im->seed ^ dice << 56);
	return rng_u64(&r);
}

/*
 * When the process was started, on the monotonic clock, to a hundredth of a second; the current
 * time where /proc is not readable. Not a variable: librdmacm.so.1 has a copy of this code and must
 * get the same value.
 */
static uint64_t process_start(uint64_t now)
{
	enum {
		FIELDS_BEFORE = 19
	}; /* between the name, which may hold anything, and the start: proc(5) */
	char text[1024] = "";
	FILE *f = fopen("/proc/self/stat", "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	const char *p = strrchr(text, ')');
	unsigned long long ticks;

	if (f)
		fclose(f);
	for (unsigned i = 0; n && p && i <= FIELDS_BEFORE; i++)
		p = strchr(p + 1, ' ');
	if (!n || !p || sscanf(p, "%llu", &ticks) != 1)
		return now;
	return MIN(now, ticks * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK)));
}

bool impair_link_start(struct impair_link *link, const struct impair *im, uint64_t now)
{
	*link = (struct impair_link){.next_ns = UINT64_MAX, .flap_ns = UINT64_MAX};
	if (!im->on || (!im->flap_up.min && !fault_verb_has_timed(&im->verbs)))
		return false;
	link->start_ns = link->next_ns = process_start(now);
	if (im->flap_up.min) {
		rng_init(&link->rng, seed_of(im, LINK_DICE));
		link->flap_ns = link->start_ns + draw(&link->rng, &im->flap_up);
	}
	return impair_link_step(link, im, now);
}

bool impair_link_step(struct impair_link *link, const struct impair *im, uint64_t now)
{
	const struct impair_link was = *link;
	struct fault_now rules;

	if (now < link->next_ns)
		return false;
	while (link->flap_ns <= now) {
		link->flap_down = !link->flap_down;
		link->flap_ns += draw(&link->rng, link->flap_down ? &im->flap_down : &im->flap_up);
	}
	rules = fault_now_at(&im->verbs, now - link->start_ns);
	link->down = link->flap_down || rules.down;
	link->fatal = rules.fatal;
	link->gids = rules.gids;
	link->rules = rules.rules;
	link->next_ns = link->flap_ns;
	if (rules.next_ns != UINT64_MAX)
		link->next_ns = MIN(link->next_ns, link->start_ns + rules.next_ns);
	return link->down != was.down || link->fatal != was.fatal || link->rules != was.rules;
}

uint64_t impair_rnr_seed(const struct impair *im)
{
	return seed_of(im, RNR_DICE);
}
