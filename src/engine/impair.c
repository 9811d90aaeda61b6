/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/impair.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"

#define KEYS "loss, dup, reorder, corrupt, delay, rnr, flap, seed"

#define NS_PER_S 1000000000u

enum { PART_LEN = 64 };

/* strtod() would take the locale's comma, "inf", "nan", hexadecimal and leading blanks: none of
 * them is meant. */
static bool parse_decimal(const char *s, const char **end, double *out)
{
	double value = 0, unit = 1;
	const char *p = s;

	for (; *p >= '0' && *p <= '9'; p++)
		value = value * 10 + (*p - '0');
	if (*p == '.' && p[1] >= '0' && p[1] <= '9') {
		for (p++; *p >= '0' && *p <= '9'; p++)
			value += (unit /= 10) * (*p - '0');
	}
	*end = p;
	*out = value;
	return p != s;
}

static bool parse_chance(const char *s, double *out)
{
	const char *end;
	double v;

	if (!parse_decimal(s, &end, &v))
		return false;
	if (!strcmp(end, "%"))
		v /= 100;
	else if (*end)
		return false;
	*out = v;
	return v <= 1;
}

static bool parse_time(const char *s, const char **end, uint64_t max_ns, uint64_t *out)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	double v;

	if (!parse_decimal(s, end, &v))
		return false;
	for (unsigned i = 0; i < ARRAY_LEN(units); i++) {
		size_t n = strlen(units[i].name);

		if (strncmp(*end, units[i].name, n))
			continue;
		*end += n;
		v *= units[i].ns;
		if (v > (double)max_ns)
			return false;
		*out = (uint64_t)(v + 0.5);
		return true;
	}
	return false;
}

static bool parse_span(const char *s, const char **end, uint64_t max_ns, struct impair_span *out)
{
	if (!parse_time(s, end, max_ns, &out->min_ns))
		return false;
	out->max_ns = out->min_ns;
	if (!strncmp(*end, "..", 2) && !parse_time(*end + 2, end, max_ns, &out->max_ns))
		return false;
	return out->max_ns >= out->min_ns;
}

static bool parse_delay(const char *s, struct impair *im)
{
	const char *end;

	return parse_span(s, &end, IMPAIR_MAX_DELAY_NS, &im->delay) && !*end;
}

static bool parse_flap(const char *s, struct impair *im)
{
	const char *end;

	return parse_span(s, &end, IMPAIR_MAX_FLAP_NS, &im->flap_up) && *end == '/' &&
	       parse_span(end + 1, &end, IMPAIR_MAX_FLAP_NS, &im->flap_down) && !*end &&
	       im->flap_up.min_ns >= IMPAIR_MIN_FLAP_NS &&
	       im->flap_down.min_ns >= IMPAIR_MIN_FLAP_NS;
}

static bool parse_seed(const char *s, uint64_t *out)
{
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	*out = strtoull(s, &end, 10);
	return !errno && !*end;
}

/* @return NULL, or what was expected. */
static const char *parse_part(struct impair *im, const char *key, const char *value)
{
	const struct {
		const char *key;
		double *chance;
	} chances[] = {
		{"loss", &im->loss},
		{"dup", &im->dup},
		{"reorder", &im->reorder},
		{"corrupt", &im->corrupt},
		{"rnr", &im->rnr},
	};

	for (unsigned i = 0; i < ARRAY_LEN(chances); i++)
		if (!strcmp(key, chances[i].key))
			return parse_chance(value, chances[i].chance)
				       ? NULL
				       : "a chance from 0% to 100%, such as 1.5% or 0.015";
	if (!strcmp(key, "delay"))
		return parse_delay(value, im) ? NULL
					      : "a time or a range up to 10s with ns, us, ms or s, "
						"such as 50us or 10us..2ms";
	if (!strcmp(key, "flap"))
		return parse_flap(value, im)
			       ? NULL
			       : "UP/DOWN, how long the port is up and then down: times or ranges from "
				 "10ms to 3600s, such as 5s/200ms or 1s..3s/10ms..1s";
	if (!strcmp(key, "seed"))
		return parse_seed(value, &im->seed) ? NULL
						    : "a number from 0 to 18446744073709551615";
	return "one of the keys " KEYS;
}

/* Split off the next part of *spec. @return false: longer than any sensible part. */
static bool next_part(const char **spec, char part[PART_LEN])
{
	size_t n = strcspn(*spec, ",");

	snprintf(part, PART_LEN, "%.*s", (int)MIN(n, (size_t)PART_LEN - 1), *spec);
	*spec += n;
	/* A comma with nothing behind it stays: the next part is empty, and refused as such. */
	if (**spec == ',' && (*spec)[1])
		(*spec)++;
	return n < PART_LEN;
}

/* One for the whole process, so that what it says of one lane repeats all. */
static uint64_t random_seed(void)
{
	static _Atomic uint64_t chosen;
	uint64_t seed = 0, none = 0;
	struct timespec ts;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed)) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		seed = (uint64_t)ts.tv_nsec << 20 ^ (uint64_t)ts.tv_sec;
	}
	/* Short enough to be typed again, and not the 0 that asks for a random one. */
	seed = (seed & 0xffffffff) | 1;
	return atomic_compare_exchange_strong(&chosen, &none, seed) ? seed : none;
}

int impair_parse(struct impair *im, const char *spec, char *errbuf, size_t errlen)
{
	struct impair parsed = {.on = spec && *spec};
	char part[PART_LEN], key[PART_LEN];

	for (const char *rest = spec; rest && *rest;) {
		bool fits = next_part(&rest, part);
		char *eq = strchr(part, '=');
		const char *expected =
			"key=value with a key of " KEYS;

		if (fits && eq) {
			snprintf(key, sizeof(key), "%.*s", (int)(eq - part), part);
			expected = parse_part(&parsed, key, eq + 1);
		}
		if (expected) {
			snprintf(errbuf, errlen, "impairment: bad part \"%s\": expected %s", part,
				 expected);
			return -EINVAL;
		}
	}
	if (parsed.on && !parsed.seed)
		parsed.seed = random_seed();
	rng_init(&parsed.rng, parsed.seed);
	*im = parsed;
	return 0;
}

static uint64_t draw(struct rng *rng, const struct impair_span *span)
{
	const uint64_t range = span->max_ns - span->min_ns;

	return span->min_ns + (range ? rng_u64(rng) % (range + 1) : 0);
}

struct impair_fate impair_roll(struct impair *im)
{
	struct impair_fate f = {0};
	/* Drawn whether they are set or not, so that one chance does not shift the sequence of
	 * another. */
	f.lost = rng_chance(&im->rng, im->loss);
	f.dup = rng_chance(&im->rng, im->dup);
	f.reorder = rng_chance(&im->rng, im->reorder);
	f.corrupt_bits = rng_chance(&im->rng, im->corrupt) ? 1 : 0;
	if (f.corrupt_bits)
		f.corrupt_bits = (uint8_t)(1 + rng_below(&im->rng, 3));
	f.delay_ns = draw(&im->rng, &im->delay);
	if (f.lost)
		f = (struct impair_fate){.lost = true};
	return f;
}

void impair_corrupt(struct impair *im, uint8_t *buf, size_t len, unsigned bits)
{
	uint32_t first = rng_below(&im->rng, (uint32_t)len * 8);

	buf[first / 8] ^= (uint8_t)(1u << first % 8);
	for (unsigned i = 1; i < bits; i++) {
		uint32_t bit = rng_below(&im->rng, (uint32_t)len * 8);

		/* Never undo the first flip. */
		if (bit != first)
			buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

/* ---- the port ---- */

/* Each kind of dice has its own seed, or a packet and a port always suffer together. */
enum { LINK_DICE = 0x11, RNR_DICE = 0x12 };

static uint64_t seed_of(const struct impair *im, uint64_t dice)
{
	struct rng r;

	rng_init(&r, im->seed ^ dice << 56);
	return rng_u64(&r);
}

/*
 * When the process was started, on the monotonic clock, to a hundredth of a second; now, if the system does not say.
 * Not a variable: librdmacm.so.1 has a copy of this code, and must find the same.
 */
static uint64_t process_start(uint64_t now)
{
	enum { FIELDS_BEFORE = 19 }; /* between the name, which may hold anything, and the start: proc(5) */
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
	*link = (struct impair_link){.next_ns = UINT64_MAX};
	if (!im->on || !im->flap_up.min_ns)
		return false;
	rng_init(&link->rng, seed_of(im, LINK_DICE));
	link->next_ns = process_start(now) + draw(&link->rng, &im->flap_up);
	return impair_link_step(link, im, now);
}

bool impair_link_step(struct impair_link *link, const struct impair *im, uint64_t now)
{
	const bool was = link->down;

	while (link->next_ns <= now) {
		link->down = !link->down;
		link->next_ns += draw(&link->rng, link->down ? &im->flap_down : &im->flap_up);
	}
	return link->down != was;
}

uint64_t impair_rnr_seed(const struct impair *im)
{
	return seed_of(im, RNR_DICE);
}
