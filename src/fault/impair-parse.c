/* SPDX-License-Identifier: BSD-2-Clause */
/* Rates from words, and a whole text of rates and rules. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "fault/impair.h"

enum { PATIENCE_MS = 4000 }; /* for all of a file */

#define KEYS "loss, dup, reorder, corrupt, delay, rate, queue, rnr, flap, seed"

/* ---- rates: one function for each kind of value; false: not such a value ---- */

static bool parse_loss(const char *s, struct impair *im)
{
	return fault_value_chance(s, &im->loss);
}

static bool parse_dup(const char *s, struct impair *im)
{
	return fault_value_chance(s, &im->dup);
}

static bool parse_reorder(const char *s, struct impair *im)
{
	return fault_value_chance(s, &im->reorder);
}

static bool parse_corrupt(const char *s, struct impair *im)
{
	return fault_value_chance(s, &im->corrupt);
}

static bool parse_rnr(const char *s, struct impair *im)
{
	return fault_value_chance(s, &im->rnr);
}

static bool parse_delay(const char *s, struct impair *im)
{
	return fault_value_span(s, IMPAIR_MAX_DELAY_NS, &im->delay);
}

static bool parse_rate(const char *s, struct impair *im)
{
	return fault_value_rate(s, IMPAIR_MAX_RATE, &im->rate_bps);
}

/* "64k" or "64k/mark=16k". */
static bool parse_queue(const char *s, struct impair *im)
{
	static const char mark[] = "mark=";
	const char *slash = strchr(s, '/');
	char limit[FAULT_VALUE_LEN];
	uint64_t queue, marked = 0;

	snprintf(limit, sizeof(limit), "%.*s", (int)(slash ? slash - s : (long)strlen(s)), s);
	if (!fault_value_bytes(limit, IMPAIR_MAX_QUEUE, &queue) || queue < IMPAIR_MIN_QUEUE)
		return false;
	if (slash && (strncmp(slash + 1, mark, sizeof(mark) - 1) != 0 ||
		      !fault_value_bytes(slash + sizeof(mark), queue, &marked) || !marked))
		return false;
	im->queue_bytes = (uint32_t)queue;
	im->mark_bytes = (uint32_t)marked;
	return true;
}

static bool parse_flap(const char *s, struct impair *im)
{
	return fault_value_span_part(&s, IMPAIR_MAX_FLAP_NS, &im->flap_up) && *s++ == '/' &&
	       fault_value_span(s, IMPAIR_MAX_FLAP_NS, &im->flap_down) &&
	       im->flap_up.min >= IMPAIR_MIN_FLAP_NS && im->flap_down.min >= IMPAIR_MIN_FLAP_NS;
}

static bool parse_seed(const char *s, struct impair *im)
{
	return s[strspn(s, "0123456789")] == '\0' && fault_value_number(s, UINT64_MAX, &im->seed);
}

#define CHANCE "a chance from 0% to 100%, such as 1.5% or 0.015"

/* clang-format off */
static const struct {
	const char *key;
	bool (*parse)(const char *s, struct impair *im);
	const char *expected;
} rates[] = {
	{"loss",    parse_loss,    CHANCE},
	{"dup",     parse_dup,     CHANCE},
	{"reorder", parse_reorder, CHANCE},
	{"corrupt", parse_corrupt, CHANCE},
	{"rnr",     parse_rnr,     CHANCE},
	{"delay",   parse_delay,   "a time or a range up to 10s with ns, us, ms or s, such as 50us or 10us..2ms"},
	{"rate",    parse_rate,    "a rate up to 1000Gbit with kbit, Mbit or Gbit, such as 2.5Gbit"},
	{"queue",   parse_queue,   "BYTES or BYTES/mark=BYTES, 8k to 64M, the second no more than the first, such as 64k or 64k/mark=16k"},
	{"flap",    parse_flap,    "UP/DOWN, how long the port is up and then down: times or ranges from 10ms to 3600s, such as 5s/200ms or 1s..3s/10ms..1s"},
	{"seed",    parse_seed,    "a number from 0 to 18446744073709551615"},
};
/* clang-format on */

static int parse_rate_word(struct impair *im, const struct fault_reader *r,
			   const struct fault_item *item, const struct fault_word *w,
			   struct fault_error *e)
{
	if (w != item->word && !w->comma)
		return fault_refuse(r, item, w, e, "a comma before it, or \";\" and a rule");
	if (!w->has_value)
		return fault_refuse(r, item, w, e, "key=value with a key of " KEYS);
	for (unsigned i = 0; i < ARRAY_LEN(rates); i++) {
		if (strcmp(w->key, rates[i].key) != 0)
			continue;
		return rates[i].parse(w->value, im)
			       ? 0
			       : fault_refuse(r, item, w, e, "%s", rates[i].expected);
	}
	return fault_refuse(r, item, w, e, "one of the keys " KEYS);
}

/* ---- texts ---- */

static int parse_item(struct impair *im, const struct fault_reader *r,
		      const struct fault_item *item, struct fault_error *e)
{
	const struct fault_word *head = &item->word[0];
	int err = 0;

	if (head->has_value) {
		for (unsigned i = 0; i < item->nwords && !err; i++)
			err = parse_rate_word(im, r, item, &item->word[i], e);
		return err;
	}
	if (fault_verb_is_rule(item))
		return fault_verb_parse(&im->verbs, r, item, e);
	if (!fault_rule_is_action(head->key))
		return fault_refuse(r, item, head, e,
				    "key=value with a key of " KEYS
				    ", or a rule that begins with one of " FAULT_ACTION_NAMES
				    ", " FAULT_VERB_ACTION_NAMES);
	if (im->nrules == FAULT_RULES)
		return fault_refuse(r, item, head, e, "at most %u rules", FAULT_RULES);
	return fault_rule_parse(&im->rule[im->nrules++], r, item, e);
}

void impair_init(struct impair *im)
{
	memset(im, 0, sizeof(*im));
}

int impair_add(struct impair *im, const char *text, const char *source, struct fault_error *e)
{
	struct fault_item *item = malloc(sizeof(*item)); /* too large for small stacks */
	struct fault_reader r;
	int ret;

	if (!item) {
		*e = (struct fault_error){.text = "impairment: out of memory"};
		return -ENOMEM;
	}
	fault_reader_init(&r, text, source);
	while ((ret = fault_reader_next(&r, item, e)) == 1) {
		im->on = true;
		ret = parse_item(im, &r, item, e);
		if (ret)
			break;
	}
	free(item);
	return ret;
}

/* One seed for the whole process, so that it reproduces all lanes. */
static uint64_t random_seed(void)
{
	static _Atomic uint64_t chosen;
	uint64_t seed = 0, none = 0;
	struct timespec ts;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed)) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		seed = (uint64_t)ts.tv_nsec << 20 ^ (uint64_t)ts.tv_sec;
	}
	/* Short enough to be typed, and not 0, which requests a random one. */
	seed = (seed & 0xffffffff) | 1;
	return atomic_compare_exchange_strong(&chosen, &none, seed) ? seed : none;
}

int impair_finish(struct impair *im, struct fault_error *e)
{
	if (im->queue_bytes && !im->rate_bps) {
		*e = (struct fault_error){.line = 0};
		snprintf(e->text, sizeof(e->text),
			 "impairment: queue without rate: expected rate=, such as rate=1Gbit");
		return -EINVAL;
	}
	if (im->rate_bps && !im->queue_bytes)
		im->queue_bytes = IMPAIR_DEFAULT_QUEUE;
	if (im->on && !im->seed)
		im->seed = random_seed();
	rng_init(&im->rng, im->seed);
	rng_init(&im->bits_rng, ~im->seed);
	return 0;
}

/**
 * Up to len bytes of a file, which may be a pipe whose writer is late, or has never come.
 * @return how many, or -errno.
 */
static ssize_t read_within_time(int fd, char *buf, size_t len)
{
	const uint64_t end = monotonic_ms() + PATIENCE_MS;
	size_t n = 0;

	while (n < len) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		const uint64_t now = monotonic_ms();
		ssize_t got;

		if (now >= end || poll(&p, 1, (int)(end - now)) == 0)
			return -ETIMEDOUT;
		got = read(fd, buf + n, len - n);
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (!got)
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)n;
}

/** @return as read_within_time(). */
static ssize_t read_path(const char *path, char *buf, size_t len)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const ssize_t n = fd < 0 ? -errno : read_within_time(fd, buf, len);

	if (fd >= 0)
		close(fd);
	return n;
}

char *impair_read_file(const char *path, struct fault_error *e)
{
	char *text = malloc(FAULT_TEXT_MAX + 1);
	const ssize_t n = text ? read_path(path, text, FAULT_TEXT_MAX + 1) : -ENOMEM;

	*e = (struct fault_error){.line = 0};
	if (n < 0)
		snprintf(e->text, sizeof(e->text), "impairment: cannot read \"%.256s\": %s", path,
			 strerror((int)-n));
	else if (n > FAULT_TEXT_MAX)
		snprintf(e->text, sizeof(e->text), "%.256s: expected at most %u bytes", path,
			 FAULT_TEXT_MAX);
	else if (memchr(text, '\0', (size_t)n))
		snprintf(e->text, sizeof(e->text), "%.256s: expected text, without NUL bytes",
			 path);
	if (e->text[0]) {
		free(text);
		return NULL;
	}
	text[n] = '\0';
	return text;
}

static int parse_all(struct impair *im, const char *spec, struct fault_error *e)
{
	const bool file = spec && *spec == '@';
	char *text = file ? impair_read_file(spec + 1, e) : NULL;
	int err;

	if (file && !text)
		return -EINVAL;
	impair_init(im);
	err = impair_add(im, file ? text : spec ? spec : "", file ? spec + 1 : NULL, e);
	free(text);
	return err ? err : impair_finish(im, e);
}

int impair_parse(struct impair *im, const char *spec, char *errbuf, size_t errlen)
{
	struct fault_error e;
	struct impair *parsed = malloc(sizeof(*parsed)); /* too large for small stacks */
	int err;

	if (!parsed) {
		snprintf(errbuf, errlen, "impairment: out of memory");
		return -ENOMEM;
	}
	err = parse_all(parsed, spec, &e);
	if (err)
		snprintf(errbuf, errlen, "%s", e.text);
	else
		*im = *parsed;
	free(parsed);
	return err;
}
