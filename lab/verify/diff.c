/* SPDX-License-Identifier: BSD-2-Clause */
/* Two captures compared: which findings and figures are new, gone, or changed. */
#include <inttypes.h>

#include "base/util.h"
#include "report.h"
#include "verify.h"

/** Of all connections of a capture. */
struct totals {
	uint64_t value[8];
	double again_share, seconds, goodput_bps, rtt_p50_us, rtt_p99_us;
};

static const char *const value_names[8] = {"packets", "connections", "requests", "retransmitted",
					   "naks",    "rnr_naks",    "ce",	 "cnps"};

static struct totals totals_of(const struct verify *v)
{
	struct totals t = {.value = {v->packets, v->connections}};
	struct flow all = {0}; /* for its histogram */
	uint32_t rtt[RTT_BUCKETS] = {0};
	uint64_t bytes = 0;

	all.rtt = rtt;
	for (const struct flow *f = v->flows; f != NULL; f = f->all_next) {
		struct figures g = figures_of(f);

		t.value[2] += g.requests;
		t.value[3] += g.again;
		t.value[4] += f->naks;
		t.value[5] += f->rnrs;
		t.value[6] += f->ce;
		t.value[7] += f->cnps;
		bytes += g.goodput_bytes;
		for (unsigned b = 0; f->rtt != NULL && b < RTT_BUCKETS; b++)
			rtt[b] += f->rtt[b];
		all.rtt_n += f->rtt_n;
	}
	t.seconds = v->last_ns > v->first_ns ? (double)(v->last_ns - v->first_ns) / 1e9 : 0;
	t.again_share = t.value[2] != 0 ? (double)t.value[3] / (double)t.value[2] : 0;
	t.goodput_bps = t.seconds > 0 ? (double)bytes * 8 / t.seconds : 0;
	t.rtt_p50_us = (double)rtt_quantile(&all, 0.5) / 1e3;
	t.rtt_p99_us = (double)rtt_quantile(&all, 0.99) / 1e3;
	return t;
}

static const char *change_of(uint64_t a, uint64_t b)
{
	return a == b ? "same" : a == 0 ? "new" : b == 0 ? "gone" : b > a ? "more" : "fewer";
}

bool verify_worse(const struct verify *a, const struct verify *b, enum severity least)
{
	for (unsigned i = 0; i < RULE_COUNT; i++) {
		if (rules[i].severity >= least && b->by_rule[i] > a->by_rule[i])
			return true;
	}
	return false;
}

static void print_figure(FILE *f, const char *name, double a, double b)
{
	fprintf(f, "  %-14s %14.3f %14.3f", name, a, b);
	if (a > 0 && b != a)
		fprintf(f, "  %+.1f %%", (b / a - 1) * 100);
	fputc('\n', f);
}

static void diff_text(const struct verify *a, const struct verify *b, FILE *f)
{
	struct totals x = totals_of(a), y = totals_of(b);
	unsigned changed = 0;

	for (unsigned s = SEV_COUNT; s-- > 0;) {
		for (unsigned i = 0; i < RULE_COUNT; i++) {
			if (rules[i].severity != s || a->by_rule[i] == b->by_rule[i])
				continue;
			fprintf(f, "%-7s %s: %s, %" PRIu64 " before, %" PRIu64 " now: %s\n",
				severity_names[s], rules[i].id,
				change_of(a->by_rule[i], b->by_rule[i]), a->by_rule[i],
				b->by_rule[i], rules[i].line);
			changed++;
		}
	}
	if (changed == 0)
		fputs("the same findings\n", f);
	for (unsigned i = 0; i < ARRAY_LEN(value_names); i++)
		print_figure(f, value_names[i], (double)x.value[i], (double)y.value[i]);
	print_figure(f, "sent again, %", x.again_share * 100, y.again_share * 100);
	print_figure(f, "seconds", x.seconds, y.seconds);
	print_figure(f, "goodput, Mbit/s", x.goodput_bps / 1e6, y.goodput_bps / 1e6);
	print_figure(f, "ACK, us (p50)", x.rtt_p50_us, y.rtt_p50_us);
	print_figure(f, "ACK, us (p99)", x.rtt_p99_us, y.rtt_p99_us);
}

static void pair_json(struct json *j, const char *key, double a, double b)
{
	json_open(j, key, '[');
	json_real(j, NULL, a, 6);
	json_real(j, NULL, b, 6);
	json_close(j, ']');
}

static void counts_json(struct json *j, const char *key, uint64_t a, uint64_t b)
{
	json_open(j, key, '[');
	json_u64(j, NULL, a);
	json_u64(j, NULL, b);
	json_close(j, ']');
}

static void findings_json(const struct verify *a, const struct verify *b, struct json *j)
{
	json_open(j, "findings", '[');
	for (unsigned i = 0; i < RULE_COUNT; i++) {
		if (a->by_rule[i] == 0 && b->by_rule[i] == 0)
			continue;
		json_line(j);
		json_open(j, NULL, '{');
		json_text(j, "id", rules[i].id);
		json_text(j, "severity", severity_names[rules[i].severity]);
		json_text(j, "change", change_of(a->by_rule[i], b->by_rule[i]));
		counts_json(j, "count", a->by_rule[i], b->by_rule[i]);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void figures_json(const struct verify *a, const struct verify *b, struct json *j)
{
	struct totals x = totals_of(a), y = totals_of(b);

	json_line(j);
	json_open(j, "figures", '{');
	for (unsigned i = 0; i < ARRAY_LEN(value_names); i++)
		counts_json(j, value_names[i], x.value[i], y.value[i]);
	pair_json(j, "retransmission_share", x.again_share, y.again_share);
	pair_json(j, "seconds", x.seconds, y.seconds);
	pair_json(j, "goodput_bps", x.goodput_bps, y.goodput_bps);
	pair_json(j, "ack_rtt_p50_us", x.rtt_p50_us, y.rtt_p50_us);
	pair_json(j, "ack_rtt_p99_us", x.rtt_p99_us, y.rtt_p99_us);
	json_close(j, '}');
}

void verify_diff(const struct verify *a, const struct verify *b, const char *name_a,
		 const char *name_b, bool json, FILE *f)
{
	struct json j = {.f = f};

	if (!json) {
		fprintf(f, "%s: %s, then %s: %s\n", name_a, verdict_name(a), name_b,
			verdict_name(b));
		diff_text(a, b, f);
		return;
	}
	json_open(&j, NULL, '{');
	json_text(&j, "before", name_a);
	json_text(&j, "after", name_b);
	json_open(&j, "verdicts", '[');
	json_text(&j, NULL, verdict_name(a));
	json_text(&j, NULL, verdict_name(b));
	json_close(&j, ']');
	findings_json(a, b, &j);
	figures_json(a, b, &j);
	json_close(&j, '}');
	fputc('\n', f);
}
