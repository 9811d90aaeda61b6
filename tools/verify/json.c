/* SPDX-License-Identifier: BSD-2-Clause */
/* The findings for programs: JSON. */
#include <inttypes.h>

#include "report.h"
#include "verify.h"
#include "wire/print.h"

void json_string(FILE *f, const char *text)
{
	fputc('"', f);
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p == '"' || *p == '\\')
			fprintf(f, "\\%c", *p);
		else if (*p < 0x20 || *p == '<' || *p >= 0x7f) /* '<': it also stands in a page */
			fprintf(f, "\\u%04x", *p);
		else
			fputc(*p, f);
	}
	fputc('"', f);
}

static void direction(FILE *out, const struct flow *f)
{
	struct figures g = figures_of(f);
	char src[64], dst[64];

	print_gid(src, sizeof(src), &f->hosts->src);
	print_gid(dst, sizeof(dst), &f->hosts->dst);
	fprintf(out,
		"{\"src\": \"%s\", \"dst\": \"%s\", \"dqpn\": %u, \"packets\": %" PRIu64
		", \"wire_bytes\": %" PRIu64 ", \"goodput_bytes\": %" PRIu64
		", \"goodput_bps\": %.0f, \"requests\": %" PRIu64 ", \"retransmitted\": %" PRIu64
		", \"retransmission_share\": %.6f, \"acks\": %" PRIu64 ", \"naks\": %" PRIu64
		", \"rnr_naks\": %" PRIu64 ", \"unjudged_responses\": %" PRIu64 ", \"ce\": %" PRIu64
		", \"cnps\": %" PRIu64 ", \"ack_rtt_ns\": ",
		src, dst, f->dqpn, g.packets, g.wire_bytes, g.goodput_bytes, g.goodput_bps,
		g.requests, g.again, g.again_share, f->acks, f->naks, f->rnrs, f->unpaired, f->ce,
		f->cnps);
	if (g.rtt_n != 0)
		fprintf(out,
			"{\"samples\": %" PRIu64 ", \"p50\": %" PRIu64 ", \"p99\": %" PRIu64 "}",
			g.rtt_n, g.rtt_p50_ns, g.rtt_p99_ns);
	else
		fputs("null", out);
	fprintf(out,
		", \"goodput_over_time\": {\"start_ns\": %" PRIu64 ", \"slot_ns\": %" PRIu64
		", \"bytes\": [",
		f->rate.start_ns, f->rate.width_ns);
	for (unsigned i = 0; i < RATE_SLOTS && f->rate.width_ns != 0; i++)
		fprintf(out, "%s%" PRIu64, i ? ", " : "", f->rate.bytes[i]);
	fputs("]}}", out);
}

static void connections(const struct verify *v, FILE *out)
{
	unsigned done = 0;

	for (const struct flow *f = v->flows; f != NULL; f = f->all_next) {
		if (f->index <= done) /* nothing in it, or printed with its other direction */
			continue;
		done = f->index;
		fprintf(out, "%s\n {\"connection\": %u, \"service\": \"%s\", \"mtu\": ",
			done > 1 ? "," : "", f->index, service_name(f->svc));
		if (f->mtu != 0)
			fprintf(out, "%u", f->mtu);
		else
			fputs("null", out);
		fputs(", \"directions\": [", out);
		direction(out, f);
		if (f->peer != NULL) {
			fputs(", ", out);
			direction(out, f->peer);
		}
		fputs("]}", out);
	}
}

struct list {
	FILE *out;
	bool any;
};

void json_finding(const struct verify *v, FILE *out, const struct flow *f, const struct finding *n,
		  bool tentative)
{
	const struct rule *r = &rules[n->rule];
	char src[64], dst[64];

	fprintf(out, "{\"id\": \"%s\", \"severity\": \"%s\", \"packet\": ", r->id,
		severity_names[r->severity]);
	if (n->number != 0)
		fprintf(out, "%" PRIu64, n->number >> SEGMENT_BITS);
	else
		fputs("null", out);
	if ((n->number & SEGMENT_MASK) != 0)
		fprintf(out, ", \"segment\": %u", (unsigned)(n->number & SEGMENT_MASK));
	fputs(", \"connection\": ", out);
	if (f != NULL && f->index != 0)
		fprintf(out, "%u", f->index);
	else
		fputs("null", out);
	if (v->follow != NULL && f != NULL) {
		print_gid(src, sizeof(src), &f->hosts->src);
		print_gid(dst, sizeof(dst), &f->hosts->dst);
		fprintf(out, ", \"src\": \"%s\", \"dst\": \"%s\", \"dqpn\": %u", src, dst, f->dqpn);
	}
	if (tentative)
		fputs(", \"tentative\": true", out);
	fprintf(out, ", \"time_ns\": %" PRIu64 ", \"clause\": ", n->ts_ns);
	json_string(out, r->clause);
	fputs(", \"title\": ", out);
	json_string(out, r->line);
	fputs(", \"text\": ", out);
	json_string(out, n->text);
	fputc('}', out);
}

static void finding(const struct verify *v, const struct flow *f, const struct finding *n,
		    void *user)
{
	struct list *l = user;

	fputs(l->any ? ",\n " : "\n ", l->out);
	json_finding(v, l->out, f, n, false);
	l->any = true;
}

/* What the findings that are there mean. */
static void explanations(const struct verify *v, FILE *f)
{
	static const char *const names[] = {"title",  "explanation", "causes",
					    "remedy", "clause",	     "counter"};

	fputs("],\n\"rules\": {", f);
	for (unsigned i = 0, n = 0; i < RULE_COUNT; i++) {
		const char *const texts[] = {rules[i].line,	rules[i].text,
					     advices[i].causes, advices[i].remedy,
					     rules[i].clause,	advices[i].counter};

		if (v->by_rule[i] == 0)
			continue;
		fprintf(f, "%s\n \"%s\": {\"severity\": \"%s\"", n++ ? "," : "", rules[i].id,
			severity_names[rules[i].severity]);
		for (unsigned k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
			fprintf(f, ", \"%s\": ", names[k]);
			json_string(f, texts[k]);
		}
		fputc('}', f);
	}
	fputc('}', f);
}

static void worst(const struct verify *v, FILE *f)
{
	struct worst w = worst_finding(v);

	fprintf(f, ",\n\"verdict\": \"%s\", \"worst\": ", verdict_name(v));
	if (w.n != NULL)
		json_finding(v, f, w.f, w.n, false);
	else
		fputs("null", f);
}

static void counts(FILE *f, const uint64_t by_rule[RULE_COUNT])
{
	for (unsigned i = 0, n = 0; i < RULE_COUNT; i++) {
		if (by_rule[i] != 0)
			fprintf(f, "%s\"%s\": %" PRIu64, n++ ? ", " : "", rules[i].id, by_rule[i]);
	}
}

void json_body(const struct verify *v, FILE *f, const char *name)
{
	struct list l = {f, false};

	fputs("\"file\": ", f);
	json_string(f, name);
	worst(v, f);
	fprintf(f,
		", \"frames\": %" PRIu64 ", \"packets\": %" PRIu64 ", \"first_ns\": %" PRIu64
		", \"last_ns\": %" PRIu64 ",\n\"icrc\": {\"checked\": %" PRIu64
		", \"wrong\": %" PRIu64 ", \"unchecked\": %" PRIu64
		"},\n\"cut\": {\"headers\": %" PRIu64 ", \"bth\": %" PRIu64
		"}, \"passed_over\": {\"cut\": %" PRIu64 ", \"infiniband\": %" PRIu64
		", \"link_layer\": %" PRIu64 "}, \"roce_v1\": %" PRIu64 ",\n\"errors\": %" PRIu64
		", \"warnings\": %" PRIu64 ", \"notes\": %" PRIu64 ",\n\"bursts\": %" PRIu64
		", \"seen_elsewhere\": %" PRIu64 ", \"dropped\": %" PRIu64
		", \"forgotten\": %" PRIu64 ", \"tunnels\": {",
		v->frames, v->packets, v->first_ns, v->last_ns, v->icrc_checked, v->icrc_wrong,
		v->icrc_unchecked, v->headers_cut, v->bth_cut, v->passed.cut, v->passed.infiniband,
		v->passed.link, v->roce_v1, v->by_severity[SEV_ERROR], v->by_severity[SEV_WARN],
		v->by_severity[SEV_NOTE], v->bursts, v->seen_elsewhere, v->dropped, v->forgotten);
	for (unsigned i = ENCAP_NONE + 1, n = 0; i < ENCAP_COUNT; i++) {
		if (v->by_encap[i] != 0)
			fprintf(f, "%s\"%s\": %" PRIu64, n++ ? ", " : "", encap_name(i),
				v->by_encap[i]);
	}
	fputs("},\n\"counts\": {", f);
	counts(f, v->by_rule);
	fputs("},\n\"ignored\": {", f);
	counts(f, v->by_ignored);
	fputs("},\n\"connections\": [", f);
	connections(v, f);
	fputs("],\n\"findings\": [", f);
	for_each_finding(v, finding, &l);
	explanations(v, f);
}

void verify_json(const struct verify *v, FILE *f, const char *name)
{
	fputc('{', f);
	json_body(v, f, name);
	fputs("}\n", f);
}
