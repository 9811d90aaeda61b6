/* SPDX-License-Identifier: BSD-2-Clause */
/* The findings for people: text. */
#include "report.h"

#include <inttypes.h>
#include <string.h>

#include "verify.h"
#include "wire/print.h"

static const char *const colours[SEV_COUNT] = {"\033[36m", "\033[33m", "\033[31m"};

struct figures figures_of(const struct flow *f)
{
	struct figures g = {
		.packets = f->packets,
		.wire_bytes = f->wire_bytes,
		.goodput_bytes = f->rq.bytes + f->response_bytes,
		.requests = f->rq.packets,
		.again = f->rq.again,
		.rtt_p50_ns = rtt_quantile(f, 0.5),
		.rtt_p99_ns = rtt_quantile(f, 0.99),
		.rtt_n = f->rtt_n,
	};

	g.seconds = f->last_ns > f->first_ns ? (double)(f->last_ns - f->first_ns) / 1e9 : 0;
	g.goodput_bps = g.seconds > 0 ? (double)g.goodput_bytes * 8 / g.seconds : 0;
	g.again_share = g.requests != 0 ? (double)g.again / (double)g.requests : 0;
	return g;
}

const char *service_name(enum rocemu_service svc)
{
	switch (svc) {
	case ROCEMU_SVC_RC:
		return "RC";
	case ROCEMU_SVC_UC:
		return "UC";
	case ROCEMU_SVC_UD:
		return "UD";
	case ROCEMU_SVC_XRC:
		return "XRC";
	case ROCEMU_SVC_CNP:
		return "CNP";
	default:
		return "other";
	}
}

struct text {
	FILE *f;
	bool colour;
};

static void direction(const struct text *t, const struct flow *f)
{
	struct figures g = figures_of(f);
	char src[64], dst[64];

	print_gid(src, sizeof(src), &f->hosts->src);
	print_gid(dst, sizeof(dst), &f->hosts->dst);
	fprintf(t->f, "  %s > %s QP 0x%x: %" PRIu64 " packets, %" PRIu64 " bytes", src, dst,
		f->dqpn, g.packets, g.wire_bytes);
	if (g.goodput_bytes != 0)
		fprintf(t->f, ", data %" PRIu64 " bytes (%.3f Mbit/s)", g.goodput_bytes,
			g.goodput_bps / 1e6);
	if (g.again != 0)
		fprintf(t->f, ", %.2f %% sent again", g.again_share * 100);
	if (g.rtt_n != 0)
		fprintf(t->f, ", ACK after %.1f us (p50), %.1f us (p99)",
			(double)g.rtt_p50_ns / 1e3, (double)g.rtt_p99_ns / 1e3);
	fputc('\n', t->f);
}

static void print_place(FILE *f, const struct flow *c, const struct finding *n)
{
	if (n->number != 0)
		fprintf(f, "packet %s", packet_name(n->number));
	else
		fputs("end", f);
	if (c != NULL && c->index != 0)
		fprintf(f, ", connection %u", c->index);
}

static void print_severity(const struct text *t, enum severity s)
{
	fprintf(t->f, "%s%-7s%s ", t->colour ? colours[s] : "", severity_names[s],
		t->colour ? "\033[0m" : "");
}

static void print_finding(const struct verify *v, const struct flow *f, const struct finding *n,
			  void *user)
{
	const struct text *t = user;
	const struct rule *r = &rules[n->rule];

	(void)v;
	print_severity(t, r->severity);
	fprintf(t->f, "%s: ", r->id);
	print_place(t->f, f, n);
	fprintf(t->f, ": %s (%s)\n", r->line, n->text);
}

static void count_shown(const struct verify *v, const struct flow *f, const struct finding *n,
			void *user)
{
	uint64_t *shown = user;

	(void)v;
	(void)f;
	shown[n->rule]++;
}

static void print_more(const struct verify *v, const struct text *t)
{
	uint64_t shown[RULE_COUNT] = {0};

	for_each_finding(v, count_shown, shown);
	for (unsigned i = 0; i < RULE_COUNT; i++) {
		if (v->by_rule[i] <= shown[i])
			continue;
		print_severity(t, rules[i].severity);
		fprintf(t->f, "%s: %" PRIu64 " more\n", rules[i].id, v->by_rule[i] - shown[i]);
	}
}

void follow_print(const struct verify *v, const struct flow *f, const struct finding *n,
		  bool tentative)
{
	const struct rule *r = &rules[n->rule];
	char src[64], dst[64];

	if (v->follow_json) {
		finding_json(v, &(struct json){.f = v->follow}, NULL, f, n, tentative);
		fputc('\n', v->follow);
		fflush(v->follow);
		return;
	}
	fprintf(v->follow, "%-7s %s: ", tentative ? "maybe" : severity_names[r->severity], r->id);
	print_place(v->follow, NULL, n);
	if (f != NULL) {
		print_gid(src, sizeof(src), &f->hosts->src);
		print_gid(dst, sizeof(dst), &f->hosts->dst);
		fprintf(v->follow, ", %s > %s QP 0x%x", src, dst, f->dqpn);
	}
	fprintf(v->follow, ": %s (%s)\n", r->line, n->text);
	fflush(v->follow);
}

/* ---- the summary ---- */

static void print_counts(const struct verify *v, FILE *f)
{
	const char *before = "  found: ";

	for (unsigned s = SEV_COUNT; s-- > 0;) {
		for (unsigned i = 0; i < RULE_COUNT; i++) {
			if (rules[i].severity != s || v->by_rule[i] == 0)
				continue;
			fprintf(f, "%s%" PRIu64 " %s", before, v->by_rule[i], rules[i].id);
			before = ", ";
		}
	}
	if (*before == ',')
		fputc('\n', f);
}

static void print_verdict(const struct verify *v, const struct text *t, const char *name)
{
	static const char *const texts[SEV_COUNT] = {"PASS", "PASS, with warnings", "FAIL"};
	enum severity s = v->by_severity[SEV_ERROR] != 0  ? SEV_ERROR
			  : v->by_severity[SEV_WARN] != 0 ? SEV_WARN
							  : SEV_NOTE;
	struct worst w = worst_finding(v);

	fprintf(t->f, "%s: %s%s%s: %" PRIu64 " errors, %" PRIu64 " warnings, %" PRIu64 " notes\n",
		name, t->colour ? colours[s] : "", texts[s], t->colour ? "\033[0m" : "",
		v->by_severity[SEV_ERROR], v->by_severity[SEV_WARN], v->by_severity[SEV_NOTE]);
	if (w.n == NULL)
		return;
	fprintf(t->f, "  worst: %s, ", rules[w.n->rule].id);
	print_place(t->f, w.f, w.n);
	fprintf(t->f, ": %s\n", rules[w.n->rule].line);
}

static void print_ignored(const struct verify *v, FILE *f)
{
	const char *before = "  ignored: ";

	for (unsigned i = 0; i < RULE_COUNT; i++) {
		if (v->by_ignored[i] == 0)
			continue;
		fprintf(f, "%s%" PRIu64 " %s", before, v->by_ignored[i], rules[i].id);
		before = ", ";
	}
	if (*before == ',')
		fputc('\n', f);
}

static void print_summary(const struct verify *v, const struct text *t, const char *name)
{
	FILE *f = t->f;
	char text[400];

	print_verdict(v, t, name);
	print_counts(v, f);
	capture_count_text(text, sizeof(text), v->packets, v->roce_v1);
	fprintf(f, "  %s in %" PRIu64 " frames over %.3f s, %u connections", text, v->frames,
		v->last_ns > v->first_ns ? (double)(v->last_ns - v->first_ns) / 1e9 : 0.0,
		v->connections);
	if (v->bursts != 0)
		fprintf(f, ", %" PRIu64 " bursts taken apart", v->bursts);
	if (v->seen_elsewhere != 0)
		fprintf(f, ", %" PRIu64 " seen at another point as well", v->seen_elsewhere);
	if (v->dropped != 0)
		fprintf(f, ", %" PRIu64 " frames not captured for lack of room", v->dropped);
	if (v->forgotten != 0)
		fprintf(f, ", %" PRIu64 " idle directions dropped", v->forgotten);
	fputc('\n', f);
	if (v->headers_cut + v->bth_cut != 0)
		fprintf(f,
			"  cut: %" PRIu64 " packets without all of their headers, %" PRIu64
			" without the BTH; 128 bytes of each frame have all (tcpdump -s 128)\n",
			v->headers_cut, v->bth_cut);
	print_ignored(v, f);
	if (capture_passed_text(text, sizeof(text), &v->passed) != 0)
		fprintf(f, "  not read: %s\n", text + strlen("; "));
}

static void print_connections(const struct verify *v, const struct text *t)
{
	for (const struct flow *c = v->flows; c != NULL; c = c->all_next) {
		/* A connection is printed where its first direction stands. */
		if (c->index == 0 ||
		    (c->peer != NULL && c->peer->index == c->index && c->peer->first_number != 0 &&
		     (c->first_number == 0 || c->peer->first_number < c->first_number)))
			continue;
		fprintf(t->f, "connection %u, %s", c->index, service_name(c->svc));
		if (c->mtu != 0)
			fprintf(t->f, ", path MTU %u", c->mtu);
		fputc('\n', t->f);
		direction(t, c);
		if (c->peer != NULL && c->peer->packets != 0)
			direction(t, c->peer);
	}
}

void verify_text(const struct verify *v, FILE *f, const char *name, bool colour)
{
	struct text t = {f, colour};

	print_summary(v, &t, name);
	print_connections(v, &t);
	for_each_finding(v, print_finding, &t);
	if (v->follow == NULL)
		print_more(v, &t);
	if (v->by_severity[SEV_ERROR] + v->by_severity[SEV_WARN] != 0)
		fputs("rocemu verify --explain ID: what a finding means, what causes it, what to "
		      "do\n",
		      f);
	fprintf(f,
		"ICRC: %" PRIu64 " checked, %" PRIu64 " wrong, %" PRIu64
		" could not be (cut, in fragments)\n%" PRIu64 " errors, %" PRIu64
		" warnings, %" PRIu64 " notes\n",
		v->icrc_checked, v->icrc_wrong, v->icrc_unchecked, v->by_severity[SEV_ERROR],
		v->by_severity[SEV_WARN], v->by_severity[SEV_NOTE]);
}
