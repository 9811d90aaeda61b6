/* SPDX-License-Identifier: BSD-2-Clause */
/* The findings for people: text. */
#include "report.h"

#include <inttypes.h>

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

static void each_of(const struct verify *v, const struct flow *f, const struct findings *fs,
		    finding_fn fn, void *user)
{
	for (uint32_t i = 0; i < fs->n; i++)
		fn(v, f, &fs->kept[i], user);
}

void for_each_finding(const struct verify *v, finding_fn fn, void *user)
{
	each_of(v, NULL, &v->findings, fn, user);
	for (const struct flow *f = v->flows; f != NULL; f = f->all_next)
		each_of(v, f, &f->findings, fn, user);
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

static void print_finding(const struct verify *v, const struct flow *f, const struct finding *n,
			  void *user)
{
	const struct text *t = user;
	const struct rule *r = &rules[n->rule];

	(void)v;
	fprintf(t->f, "%s%-7s%s %s: ", t->colour ? colours[r->severity] : "",
		severity_names[r->severity], t->colour ? "\033[0m" : "", r->id);
	if (n->number != 0)
		fprintf(t->f, "packet %" PRIu64, n->number);
	else
		fputs("end", t->f);
	if (f != NULL && f->index != 0)
		fprintf(t->f, ", connection %u", f->index);
	fprintf(t->f, ": %s (%s)\n", r->line, n->text);
}

static void print_more(const struct verify *v, const struct text *t)
{
	for (unsigned i = 0; i < RULE_COUNT; i++) {
		uint64_t kept = 0;

		for (uint32_t k = 0; k < v->findings.n; k++)
			kept += v->findings.kept[k].rule == i;
		for (const struct flow *f = v->flows; f != NULL; f = f->all_next) {
			for (uint32_t k = 0; k < f->findings.n; k++)
				kept += f->findings.kept[k].rule == i;
		}
		if (v->by_rule[i] > kept)
			fprintf(t->f, "%-7s %s: %" PRIu64 " more\n",
				severity_names[rules[i].severity], rules[i].id,
				v->by_rule[i] - kept);
	}
}

void verify_text(const struct verify *v, FILE *f, const char *name, bool colour)
{
	struct text t = {f, colour};

	fprintf(f, "%s: %" PRIu64 " RoCEv2 packets in %" PRIu64 " frames, %u connections\n", name,
		v->packets, v->frames, v->connections);
	for (const struct flow *c = v->flows; c != NULL; c = c->all_next) {
		/* A connection is printed where its first direction stands. */
		if (c->index == 0 ||
		    (c->peer != NULL && c->peer->index == c->index && c->peer->first_number != 0 &&
		     (c->first_number == 0 || c->peer->first_number < c->first_number)))
			continue;
		fprintf(f, "connection %u, %s", c->index, service_name(c->svc));
		if (c->mtu != 0)
			fprintf(f, ", path MTU %u", c->mtu);
		fputc('\n', f);
		direction(&t, c);
		if (c->peer != NULL && c->peer->packets != 0)
			direction(&t, c->peer);
	}
	for_each_finding(v, print_finding, &t);
	print_more(v, &t);
	fprintf(f,
		"ICRC: %" PRIu64 " checked, %" PRIu64 " wrong, %" PRIu64
		" could not be (cut)\n%" PRIu64 " errors, %" PRIu64 " warnings, %" PRIu64
		" notes\n",
		v->icrc_checked, v->icrc_wrong, v->icrc_unchecked, v->by_severity[SEV_ERROR],
		v->by_severity[SEV_WARN], v->by_severity[SEV_NOTE]);
}
