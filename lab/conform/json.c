/* SPDX-License-Identifier: BSD-2-Clause */
/* A run as JSON: a case to a line. results.c reads it. */
#include "conform/report.h"

#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/util.h"

static void put_part(struct json *j, const char *key, const struct conform_part *p)
{
	if (p->len)
		json_text_n(j, key, p->at, (size_t)p->len);
}

/** Names of times end in "_ns". */
static void put_series(struct json *j, const struct conform_series *s)
{
	char key[64];

	snprintf(key, sizeof(key), "%s%s", s->name, s->kind == SCENARIO_TIME ? "_ns" : "");
	json_open(j, key, '[');
	for (unsigned i = 0; i < s->n; i++) {
		if (s->kind == SCENARIO_TRAIT)
			json_text(j, NULL, s->of[i]->word);
		else
			json_u64(j, NULL, s->of[i]->number);
	}
	json_close(j, ']');
}

static void put_measures(struct json *j, const struct conform_result *r)
{
	struct conform_series s;

	json_open(j, "measured", '{');
	for (unsigned at = 0; conform_series_next(r, &at, &s);)
		put_series(j, &s);
	json_close(j, '}');
}

static void put_difference(struct json *j, const struct conform_result *r)
{
	struct conform_difference d;

	conform_difference(r, &d);
	put_part(j, "text", &d.what);
	put_part(j, "expected", &d.expected);
	put_part(j, "came", &d.came);
	if (r->known)
		json_text(j, "known", r->known);
	if (r->line) {
		json_text(j, "file", r->c->s->file);
		json_u64(j, "line", r->line);
	}
}

static void put_case(struct json *j, const struct conform_result *r)
{
	const struct conform_case *c = r->c;

	json_line(j);
	json_open(j, NULL, '{');
	json_text(j, "id", c->id);
	json_text(j, "level", conform_level_text[c->about.level]);
	json_text(j, "clause", c->about.clause);
	json_text(j, "peer", conform_peer_text[c->about.peer]);
	json_text(j, "sentence", c->sentence);
	json_text(j, "verdict", conform_verdict_text[r->verdict]);
	put_difference(j, r);
	put_measures(j, r);
	json_u64(j, "tries", r->tries);
	json_u64(j, "packets", r->packets);
	json_real(j, "ms", (double)r->ns / 1e6, 3);
	json_close(j, '}');
}

static void put_head(struct json *j, const struct conform_report *p)
{
	const time_t seconds = (time_t)(p->started_ns / NS_PER_S);
	char text[64];
	struct tm t;

	json_text(j, "tester", "rocemu conform");
	json_text(j, "version", p->version);
	json_u64(j, "format", 1);
	json_text(j, "name", p->name);
	json_text(j, "target", p->target);
	json_text(j, "from", p->from);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &t));
	json_text(j, "started", text);
	json_real(j, "ms", (double)p->ns / 1e6, 3);
	if (p->has_noise) {
		json_open(j, "noise_ns", '{');
		JSON_U64S(j, {"min", p->noise.min_ns}, {"median", p->noise.median_ns},
			  {"max", p->noise.max_ns});
		json_close(j, '}');
	}
	if (p->stopped)
		json_text(j, "stopped", p->stopped);
}

/** Of --known: what does not differ any more. */
static void put_stale(struct json *j, const struct conform_known *k)
{
	json_line(j);
	json_open(j, "stale_known", '[');
	for (unsigned i = 0; k && i < k->entries; i++)
		if (k->entry[i].met && !k->entry[i].differed)
			json_text(j, NULL, k->entry[i].id);
	json_close(j, ']');
}

void conform_json(FILE *f, const struct conform_report *p)
{
	struct json j = {.f = f};

	json_open(&j, NULL, '{');
	put_head(&j, p);
	json_line(&j);
	json_open(&j, "cases", '[');
	for (unsigned i = 0; i < p->results; i++)
		put_case(&j, &p->result[i]);
	json_close(&j, ']');
	put_stale(&j, p->known);
	json_line(&j);
	json_open(&j, "sums", '{');
	for (unsigned i = 0; i < CONFORM_VERDICT_COUNT; i++)
		json_u64(&j, conform_verdict_text[i], p->count[i]);
	json_close(&j, '}');
	json_close(&j, '}');
	fputc('\n', f);
}
