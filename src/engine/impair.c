/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/impair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/util.h"

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

static bool parse_time(const char *s, const char **end, uint64_t *out)
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
		if (v > IMPAIR_MAX_DELAY_NS)
			return false;
		*out = (uint64_t)(v + 0.5);
		return true;
	}
	return false;
}

static bool parse_delay(const char *s, struct impair *im)
{
	const char *end;

	if (!parse_time(s, &end, &im->delay_min_ns))
		return false;
	im->delay_max_ns = im->delay_min_ns;
	if (!strncmp(end, "..", 2) && !parse_time(end + 2, &end, &im->delay_max_ns))
		return false;
	return !*end && im->delay_max_ns >= im->delay_min_ns;
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
	if (!strcmp(key, "seed"))
		return parse_seed(value, &im->seed) ? NULL
						    : "a number from 0 to 18446744073709551615";
	return "one of the keys loss, dup, reorder, corrupt, delay, seed";
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

static uint64_t random_seed(void)
{
	uint64_t seed = 0;
	struct timespec ts;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed)) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		seed = (uint64_t)ts.tv_nsec << 20 ^ (uint64_t)ts.tv_sec;
	}
	/* Short enough to be typed again, and not the 0 that asks for a random one. */
	return (seed & 0xffffffff) | 1;
}

int impair_parse(struct impair *im, const char *spec, char *errbuf, size_t errlen)
{
	struct impair parsed = {.on = spec && *spec};
	char part[PART_LEN], key[PART_LEN];

	for (const char *rest = spec; rest && *rest;) {
		bool fits = next_part(&rest, part);
		char *eq = strchr(part, '=');
		const char *expected =
			"key=value with a key of loss, dup, reorder, corrupt, delay, seed";

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

struct impair_fate impair_roll(struct impair *im)
{
	struct impair_fate f = {0};
	uint64_t range = im->delay_max_ns - im->delay_min_ns;

	/* Drawn whether they are set or not, so that one chance does not shift the sequence of
	 * another. */
	f.lost = rng_chance(&im->rng, im->loss);
	f.dup = rng_chance(&im->rng, im->dup);
	f.reorder = rng_chance(&im->rng, im->reorder);
	f.corrupt_bits = rng_chance(&im->rng, im->corrupt) ? 1 : 0;
	if (f.corrupt_bits)
		f.corrupt_bits = (uint8_t)(1 + rng_below(&im->rng, 3));
	f.delay_ns = im->delay_min_ns + (range ? rng_u64(&im->rng) % (range + 1) : 0);
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
