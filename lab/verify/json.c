/* SPDX-License-Identifier: BSD-2-Clause */
/* The findings for programs: JSON. */
#include "report.h"
#include "verify.h"
#include "wire/print.h"

/* 0: there is none. */
static void number_or_null(struct json *j, const char *key, uint64_t value)
{
	if (value != 0)
		json_u64(j, key, value);
	else
		json_null(j, key);
}

static void gids_json(struct json *j, const struct flow *f)
{
	char src[64], dst[64];

	print_gid(src, sizeof(src), &f->hosts->src);
	print_gid(dst, sizeof(dst), &f->hosts->dst);
	json_text(j, "src", src);
	json_text(j, "dst", dst);
	json_u64(j, "dqpn", f->dqpn);
}

static void rtt_json(struct json *j, const struct figures *g)
{
	if (g->rtt_n == 0) {
		json_null(j, "ack_rtt_ns");
		return;
	}
	json_open(j, "ack_rtt_ns", '{');
	JSON_U64S(j, {"samples", g->rtt_n}, {"p50", g->rtt_p50_ns}, {"p99", g->rtt_p99_ns});
	json_close(j, '}');
}

static void direction_json(struct json *j, const struct flow *f)
{
	struct figures g = figures_of(f);

	json_open(j, NULL, '{');
	gids_json(j, f);
	JSON_U64S(j, {"packets", g.packets}, {"wire_bytes", g.wire_bytes},
		  {"goodput_bytes", g.goodput_bytes});
	json_real(j, "goodput_bps", g.goodput_bps, 0);
	json_u64(j, "requests", g.requests);
	json_u64(j, "retransmitted", g.again);
	json_real(j, "retransmission_share", g.again_share, 6);
	JSON_U64S(j, {"acks", f->acks}, {"naks", f->naks}, {"rnr_naks", f->rnrs},
		  {"unjudged_responses", f->unpaired}, {"ce", f->ce}, {"cnps", f->cnps});
	rtt_json(j, &g);
	json_open(j, "goodput_over_time", '{');
	json_u64(j, "start_ns", f->rate.start_ns);
	json_u64(j, "slot_ns", f->rate.width_ns);
	json_open(j, "bytes", '[');
	for (unsigned i = 0; i < RATE_SLOTS && f->rate.width_ns != 0; i++)
		json_u64(j, NULL, f->rate.bytes[i]);
	json_close(j, ']');
	json_close(j, '}');
	json_close(j, '}');
}

static void connections_json(const struct verify *v, struct json *j)
{
	unsigned done = 0;

	json_line(j);
	json_open(j, "connections", '[');
	for (const struct flow *f = v->flows; f != NULL; f = f->all_next) {
		if (f->index <= done) /* nothing in it, or printed with its other direction */
			continue;
		done = f->index;
		json_line(j);
		json_open(j, NULL, '{');
		json_u64(j, "connection", f->index);
		json_text(j, "service", service_name(f->svc));
		number_or_null(j, "mtu", f->mtu);
		json_open(j, "directions", '[');
		direction_json(j, f);
		if (f->peer != NULL)
			direction_json(j, f->peer);
		json_close(j, ']');
		json_close(j, '}');
	}
	json_close(j, ']');
}

void finding_json(const struct verify *v, struct json *j, const char *key, const struct flow *f,
		  const struct finding *n, bool tentative)
{
	const struct rule *r = &rules[n->rule];

	json_open(j, key, '{');
	json_text(j, "id", r->id);
	json_text(j, "severity", severity_names[r->severity]);
	number_or_null(j, "packet", n->number >> SEGMENT_BITS);
	if ((n->number & SEGMENT_MASK) != 0)
		json_u64(j, "segment", n->number & SEGMENT_MASK);
	number_or_null(j, "connection", f != NULL ? f->index : 0);
	if (v->follow != NULL && f != NULL)
		gids_json(j, f);
	if (tentative)
		json_bool(j, "tentative", true);
	json_u64(j, "time_ns", n->ts_ns);
	json_text(j, "clause", r->clause);
	json_text(j, "title", r->line);
	json_text(j, "text", n->text);
	json_close(j, '}');
}

static void finding(const struct verify *v, const struct flow *f, const struct finding *n,
		    void *user)
{
	struct json *j = user;

	json_line(j);
	finding_json(v, j, NULL, f, n, false);
}

/* What the findings that are there mean. */
static void explanations_json(const struct verify *v, struct json *j)
{
	json_line(j);
	json_open(j, "rules", '{');
	for (unsigned i = 0; i < RULE_COUNT; i++) {
		if (v->by_rule[i] == 0)
			continue;
		json_line(j);
		json_open(j, rules[i].id, '{');
		json_text(j, "severity", severity_names[rules[i].severity]);
		json_text(j, "title", rules[i].line);
		json_text(j, "explanation", rules[i].text);
		json_text(j, "causes", advices[i].causes);
		json_text(j, "remedy", advices[i].remedy);
		json_text(j, "clause", rules[i].clause);
		json_text(j, "counter", advices[i].counter);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void worst_json(const struct verify *v, struct json *j)
{
	struct worst w = worst_finding(v);

	json_line(j);
	json_text(j, "verdict", verdict_name(v));
	if (w.n != NULL)
		finding_json(v, j, "worst", w.f, w.n, false);
	else
		json_null(j, "worst");
}

static void counts_json(struct json *j, const char *key, const uint64_t by_rule[RULE_COUNT])
{
	json_line(j);
	json_open(j, key, '{');
	for (unsigned i = 0; i < RULE_COUNT; i++)
		if (by_rule[i] != 0)
			json_u64(j, rules[i].id, by_rule[i]);
	json_close(j, '}');
}

static void packets_json(const struct verify *v, struct json *j)
{
	JSON_U64S(j, {"frames", v->frames}, {"packets", v->packets}, {"first_ns", v->first_ns},
		  {"last_ns", v->last_ns});
	json_line(j);
	json_open(j, "icrc", '{');
	JSON_U64S(j, {"checked", v->icrc_checked}, {"wrong", v->icrc_wrong},
		  {"unchecked", v->icrc_unchecked});
	json_close(j, '}');
	json_line(j);
	json_open(j, "cut", '{');
	json_u64(j, "headers", v->headers_cut);
	json_u64(j, "bth", v->bth_cut);
	json_close(j, '}');
	json_open(j, "passed_over", '{');
	JSON_U64S(j, {"cut", v->passed.cut}, {"infiniband", v->passed.infiniband},
		  {"link_layer", v->passed.link});
	json_close(j, '}');
	json_u64(j, "roce_v1", v->roce_v1);
	json_line(j);
	JSON_U64S(j, {"errors", v->by_severity[SEV_ERROR]}, {"warnings", v->by_severity[SEV_WARN]},
		  {"notes", v->by_severity[SEV_NOTE]});
	json_line(j);
	JSON_U64S(j, {"bursts", v->bursts}, {"seen_elsewhere", v->seen_elsewhere},
		  {"dropped", v->dropped}, {"forgotten", v->forgotten});
	json_open(j, "tunnels", '{');
	for (unsigned i = ENCAP_NONE + 1; i < ENCAP_COUNT; i++)
		if (v->by_encap[i] != 0)
			json_u64(j, encap_name(i), v->by_encap[i]);
	json_close(j, '}');
}

void report_json(const struct verify *v, struct json *j, const char *name)
{
	json_text(j, "file", name);
	worst_json(v, j);
	packets_json(v, j);
	counts_json(j, "counts", v->by_rule);
	counts_json(j, "ignored", v->by_ignored);
	connections_json(v, j);
	json_line(j);
	json_open(j, "findings", '[');
	for_each_finding(v, finding, j);
	json_close(j, ']');
	explanations_json(v, j);
}

void verify_json(const struct verify *v, FILE *f, const char *name)
{
	struct json j = {.f = f};

	json_open(&j, NULL, '{');
	report_json(v, &j, name);
	json_close(&j, '}');
	fputc('\n', f);
}
