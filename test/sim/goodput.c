/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Goodput on bad networks, in virtual time: one row for each case, with its share of what the same
 * load gets without the fault (or alone), and the bar that it has to reach. `goodput --help`.
 *
 * No bar depends on the machine that runs it.
 */
#include "flow.h"
#include "gbn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum pattern {
	PAIR,	    /* qps QPs from one host to another */
	INCAST,	    /* senders hosts to (WRITE) or read by (READ) one */
	GBN_TARGET, /* rocemu's requester, a go-back-N responder */
	GBN_SOURCE, /* a go-back-N requester, rocemu's responder */
	BESIDE,	    /* 64-byte WRITEs beside a bulk flow */
};

/** What is run. A case's baseline is a load with less in it. */
struct load {
	enum pattern pattern;
	enum flow_op op;
	unsigned qps, senders;
	uint32_t mtu, bytes, outstanding;
	unsigned timeout;
	double loss, reorder;
	rocemu_ns_t rtt_ns, jitter_ns;
	bool jitter_keeps_order;
	uint32_t link_mbit, cpu_mbit, port_bytes, mark_bytes;
	rocemu_ns_t warm_ns, run_ns;
};

/** Bars: 0 is none. */
struct row {
	const char *name;
	struct load load;
	double bar_percent; /* of the baseline */
	double bar_mbit;
	double bar_jain;
	bool none_may_fail;
};

struct result {
	double mbit, jain;
	unsigned failed;
	uint64_t overruns, marks;
	struct rocemu_ep_stats stats; /* of all hosts */
	double p50_us, p99_us;
};

/* clang-format off */
#define LOSSY .run_ns = 1000 * FABRIC_MS
#define SLOW .warm_ns = 100 * FABRIC_MS, .run_ns = 1000 * FABRIC_MS, .rtt_ns = 1 * FABRIC_MS
#define FAR .warm_ns = 2500 * FABRIC_MS, .run_ns = 1000 * FABRIC_MS, .rtt_ns = 50 * FABRIC_MS, .outstanding = 64
/* Where the receiving lane is what is overrun: links faster than its CPU. */
#define CROWD .bytes = 65536, .link_mbit = 40000, .cpu_mbit = 10000, .run_ns = 1000 * FABRIC_MS, .warm_ns = 100 * FABRIC_MS
#define PORT .bytes = 65536, .run_ns = 1000 * FABRIC_MS, .warm_ns = 100 * FABRIC_MS

static const struct row rows[] = {
	{"write-0",            {PAIR, FLOW_WRITE, LOSSY}, .bar_mbit = 9500},
	{"send-0",             {PAIR, FLOW_SEND, LOSSY}, .bar_mbit = 9500},
	{"read-0",             {PAIR, FLOW_READ, LOSSY}, .bar_mbit = 9500},
	{"write-1",            {PAIR, FLOW_WRITE, .loss = 0.01, LOSSY}, .bar_percent = 85},
	{"write-5",            {PAIR, FLOW_WRITE, .loss = 0.05, LOSSY}, .bar_percent = 45},
	{"send-1",             {PAIR, FLOW_SEND, .loss = 0.01, LOSSY}, .bar_percent = 85},
	{"send-5",             {PAIR, FLOW_SEND, .loss = 0.05, LOSSY}, .bar_percent = 45},
	{"read-1",             {PAIR, FLOW_READ, .loss = 0.01, LOSSY}, .bar_percent = 80},
	{"read-5",             {PAIR, FLOW_READ, .loss = 0.05, LOSSY}, .bar_percent = 45},
	{"write-1-mtu1024",    {PAIR, FLOW_WRITE, .loss = 0.01, .mtu = 1024, LOSSY}, .bar_percent = 60},
	{"write-5-mtu1024",    {PAIR, FLOW_WRITE, .loss = 0.05, .mtu = 1024, LOSSY}, .bar_percent = 30},
	{"write-reorder-1",    {PAIR, FLOW_WRITE, .reorder = 0.01, LOSSY}, .bar_percent = 97},
	{"send-reorder-1",     {PAIR, FLOW_SEND, .reorder = 0.01, LOSSY}, .bar_percent = 97},
	{"read-reorder-1",     {PAIR, FLOW_READ, .reorder = 0.01, LOSSY}, .bar_percent = 97},
	{"write-jitter",       {PAIR, FLOW_WRITE, .jitter_ns = 50 * FABRIC_US, LOSSY}, .bar_percent = 80},
	{"read-jitter",        {PAIR, FLOW_READ, .jitter_ns = 50 * FABRIC_US, LOSSY}, .bar_percent = 80},
	{"write-jitter-order", {PAIR, FLOW_WRITE, .jitter_ns = 50 * FABRIC_US, .jitter_keeps_order = true, LOSSY}, .bar_percent = 80},
	{"write-1-gbn",        {GBN_TARGET, FLOW_WRITE, .loss = 0.01, LOSSY}, .bar_percent = 55},
	{"read-1-gbn",         {GBN_TARGET, FLOW_READ, .loss = 0.01, LOSSY}, .bar_percent = 55},
	{"gbn-write-1",        {GBN_SOURCE, FLOW_WRITE, .loss = 0.01, LOSSY}, .bar_percent = 55},
	{"gbn-read-1",         {GBN_SOURCE, FLOW_READ, .loss = 0.01, .bytes = 65536, .outstanding = 4, LOSSY}, .bar_percent = 55},
	{"write-1-timeout19",  {PAIR, FLOW_WRITE, .loss = 0.01, .timeout = 19, .run_ns = 3000 * FABRIC_MS}, .bar_percent = 85},
	{"write-0-1ms",        {PAIR, FLOW_WRITE, SLOW}},
	{"write-1-1ms",        {PAIR, FLOW_WRITE, .loss = 0.01, SLOW}, .bar_percent = 70},
	{"read-1-1ms",         {PAIR, FLOW_READ, .loss = 0.01, SLOW}, .bar_percent = 70},
	{"write-0-50ms",       {PAIR, FLOW_WRITE, FAR}, .bar_mbit = 5000},
	{"incast64-write",     {INCAST, FLOW_WRITE, .senders = 64, CROWD}, .bar_percent = 95, .bar_jain = 0.95, .none_may_fail = true},
	{"incast64-read",      {INCAST, FLOW_READ, .senders = 64, CROWD}, .bar_percent = 95, .bar_jain = 0.95, .none_may_fail = true},
	{"incast64-write-drop",{INCAST, FLOW_WRITE, .senders = 64, .port_bytes = 512 << 10, PORT}, .none_may_fail = true},
	{"incast64-write-mark",{INCAST, FLOW_WRITE, .senders = 64, .port_bytes = 2 << 20, .mark_bytes = 64 << 10, PORT}, .none_may_fail = true},
	{"qps256-write",       {PAIR, FLOW_WRITE, .qps = 256, CROWD}, .bar_percent = 95, .none_may_fail = true},
	{"qps256-read",        {PAIR, FLOW_READ, .qps = 256, CROWD}, .bar_percent = 95, .none_may_fail = true},
	{"small-alone",        {BESIDE, FLOW_WRITE, .qps = 0, .run_ns = 50 * FABRIC_MS}},
	{"small-beside-bulk",  {BESIDE, FLOW_WRITE, .qps = 1, .run_ns = 200 * FABRIC_MS}},
};
/* clang-format on */

static uint64_t seed = 1;

/* ---- running ---- */

static struct load with_defaults(struct load l)
{
	struct flow_config fc = flow_defaults();

	l.mtu = l.mtu ? l.mtu : 4096;
	l.bytes = l.bytes ? l.bytes : fc.bytes;
	l.outstanding = l.outstanding ? l.outstanding : fc.outstanding;
	l.timeout = l.timeout ? l.timeout : fc.timeout;
	l.rtt_ns = l.rtt_ns ? l.rtt_ns : 50 * FABRIC_US;
	l.link_mbit = l.link_mbit ? l.link_mbit : 10000;
	l.cpu_mbit = l.cpu_mbit ? l.cpu_mbit : 20000;
	l.warm_ns = l.warm_ns ? l.warm_ns : 10 * FABRIC_MS;
	if (l.pattern == PAIR && !l.qps)
		l.qps = 1;
	return l;
}

/** The same without its fault, or with one connection. */
static struct load baseline_of(struct load l)
{
	l.jitter_ns = 0;
	l.jitter_keeps_order = false;
	l.port_bytes = l.mark_bytes = 0;
	if (l.loss > 0 || l.timeout != 14)
		l.run_ns = MIN(l.run_ns, 400 * FABRIC_MS);
	l.loss = l.reorder = 0;
	l.timeout = 14;
	if (l.pattern == PAIR)
		l.qps = 1;
	if (l.pattern == INCAST)
		l.senders = 1;
	return l;
}

static struct fabric *fabric_of(const struct load *l)
{
	struct fabric_config c = fabric_defaults();

	c.seed = seed;
	c.hosts = l->pattern == INCAST ? l->senders + 1 : 2;
	c.link_mbit = l->link_mbit;
	c.cpu_mbit = l->cpu_mbit;
	c.rtt_ns = l->rtt_ns;
	c.loss = l->loss;
	c.reorder = l->reorder;
	c.reorder_ns = l->rtt_ns;
	c.jitter_ns = l->jitter_ns;
	c.jitter_keeps_order = l->jitter_keeps_order;
	c.port_bytes = l->port_bytes;
	c.mark_bytes = l->mark_bytes;
	return fabric_new(&c);
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	enum ibv_mtu m = IBV_MTU_256;

	while (128u << m < bytes)
		m++;
	return m;
}

static struct flow_config flow_of(const struct load *l)
{
	struct flow_config c = flow_defaults();

	c.op = l->op;
	c.bytes = l->bytes;
	c.outstanding = l->outstanding;
	c.mtu = mtu_code(l->mtu);
	c.timeout = (uint8_t)l->timeout;
	return c;
}

/** The go-back-N peer is host 1. */
static void add_gbn(struct flow_set *s, const struct load *l, struct gbn *g)
{
	struct flow_config fc = flow_of(l);
	struct flow *fl;
	struct gbn_config c = {
		.role = l->pattern == GBN_TARGET ? GBN_RESPONDER
			: l->op == FLOW_READ	 ? GBN_READS_FROM
						 : GBN_WRITES,
		.path = fabric_path(s->fabric, 1, 0),
		.mtu = l->mtu,
		.psn = 0xffff00,
		.va = (uintptr_t)s->memory,
		.rkey = flow_rkey(s, 0),
		.bytes = l->bytes,
		.outstanding = l->outstanding,
		.timeout_ns = FABRIC_MS,
	};

	fl = flow_add_half(s, &fc, GBN_QPN);
	c.dqpn = rocemu_qp_num(fl->qp);
	if (l->pattern == GBN_SOURCE)
		fl->c.outstanding = 0;
	gbn_init(g, &c);
	fabric_set_peer(s->fabric, 1, &gbn_ops, g);
	s->fabric->host[1].poll = NULL;
}

static struct flow *add_flows(struct flow_set *s, const struct load *l)
{
	struct flow_config c = flow_of(l);
	struct flow *last = NULL;

	switch (l->pattern) {
	case INCAST:
		for (unsigned i = 1; i <= l->senders; i++) {
			c.from = l->op == FLOW_READ ? 0 : i;
			c.to = l->op == FLOW_READ ? i : 0;
			last = flow_add(s, &c);
		}
		break;
	case BESIDE:
		if (l->qps)
			flow_add(s, &c);
		c.bytes = 64;
		c.outstanding = 1;
		last = flow_add(s, &c);
		last->keep_latency = true;
		break;
	default:
		for (unsigned i = 0; i < l->qps; i++)
			last = flow_add(s, &c);
		break;
	}
	return last;
}

static void add_stats(const struct fabric *f, struct result *r)
{
	for (unsigned i = 0; i < f->cfg.hosts; i++) {
		const struct rocemu_ep_stats *st = rocemu_ep_get_stats(f->host[i].ep);

#define X(name, text) r->stats.name += st->name;
		ROCEMU_STATS(X)
#undef X
		r->overruns += f->host[i].overruns + f->host[i].tail_drops;
		r->marks += f->host[i].marks;
	}
}

static struct result run(const struct load *l)
{
	struct fabric *f = fabric_of(l);
	struct flow_set *s = flow_set_new(f, MAX(l->qps, l->senders) + 1, l->bytes);
	bool gbn = l->pattern == GBN_SOURCE || l->pattern == GBN_TARGET;
	struct result r = {0};
	struct flow *last = NULL;
	struct gbn g = {0};
	uint64_t before;

	if (gbn)
		add_gbn(s, l, &g);
	else
		last = add_flows(s, l);
	flow_set_start(s);
	fabric_run_until(f, f->now + l->warm_ns);
	flow_set_mark(s);
	before = g.done_bytes;
	fabric_run_until(f, f->now + l->run_ns);
	r.mbit = (double)(flow_set_bytes(s) + g.done_bytes - before) * 8e3 / (double)l->run_ns;
	r.jain = gbn ? 1 : flow_set_jain(s);
	r.failed = flow_set_failed(s);
	if (last && last->keep_latency) {
		r.p50_us = flow_latency(last, 0.5) / 1e3;
		r.p99_us = flow_latency(last, 0.99) / 1e3;
	}
	add_stats(f, &r);
	flow_set_free(s);
	fabric_free(f);
	return r;
}

/** Many cases have the same baseline; each load is run once. */
static const struct result *result_of(const struct load *l)
{
	static struct {
		struct load load;
		struct result result;
	} known[2 * ARRAY_LEN(rows)];
	static unsigned n;

	for (unsigned i = 0; i < n; i++)
		if (memcmp(&known[i].load, l, sizeof(*l)) == 0)
			return &known[i].result;
	known[n].load = *l;
	known[n].result = run(l);
	return &known[n++].result;
}

/* ---- printing ---- */

static bool json, with_stats;
static unsigned printed;

static void print_head(void)
{
	if (json)
		printf("[");
	else
		printf("%-20s %9s %8s  %-24s %6s %6s %9s %8s %9s  %s\n", "case", "Mbit/s", "share",
		       "bar", "Jain", "failed", "resent", "timeouts", "overruns", "");
}

static void bar_text(const struct row *row, char *text, size_t len)
{
	size_t n = 0;

	text[0] = 0;
	if (row->bar_percent > 0)
		n += (size_t)snprintf(text + n, len - n, "%.0f %% ", row->bar_percent);
	if (row->bar_mbit > 0)
		n += (size_t)snprintf(text + n, len - n, "%.0f Mbit/s ", row->bar_mbit);
	if (row->bar_jain > 0)
		n += (size_t)snprintf(text + n, len - n, "Jain %.2f ", row->bar_jain);
	if (row->none_may_fail)
		snprintf(text + n, len - n, "0 failed");
}

static void print_row(const struct row *row, const struct result *r, double percent, bool good)
{
	char bar[64];

	bar_text(row, bar, sizeof(bar));
	if (json) {
		printf("%s\n{\"case\": \"%s\", \"mbit\": %.1f, \"percent\": %.1f, \"bar\": \"%s\", "
		       "\"ok\": %s, "
		       "\"jain\": %.3f, \"failed\": %u, \"retransmits\": %llu, \"timeouts\": %llu, "
		       "\"overruns\": %llu, \"marks\": %llu, \"p50_us\": %.1f, \"p99_us\": %.1f}",
		       printed ? "," : "", row->name, r->mbit, percent, bar,
		       good ? "true" : "false", r->jain, r->failed,
		       (unsigned long long)r->stats.retransmits,
		       (unsigned long long)r->stats.timeouts, (unsigned long long)r->overruns,
		       (unsigned long long)r->marks, r->p50_us, r->p99_us);
	} else {
		printf("%-20s %9.1f %6.1f %%  %-24s %6.3f %6u %9llu %8llu %9llu  %s", row->name,
		       r->mbit, percent, bar, r->jain, r->failed,
		       (unsigned long long)r->stats.retransmits,
		       (unsigned long long)r->stats.timeouts, (unsigned long long)r->overruns,
		       good ? "ok" : "MISSED");
		if (r->p50_us > 0)
			printf("; 64 bytes: p50 %.1f us, p99 %.1f us", r->p50_us, r->p99_us);
		printf("\n");
	}
	printed++;
	fflush(stdout);
}

static void print_stats(const struct rocemu_ep_stats *st)
{
#define X(name, text) \
	if (st->name) \
		fprintf(stderr, "%12llu %s\n", (unsigned long long)st->name, text);
	ROCEMU_STATS(X)
#undef X
}

/** @return whether all bars are reached. */
static bool measure(const struct row *row)
{
	struct load l = with_defaults(row->load), base = baseline_of(l);
	struct result r = *result_of(&l);
	double reference = result_of(&base)->mbit;
	double percent = reference > 0 ? 100 * r.mbit / reference : 0;
	bool good = percent >= row->bar_percent && r.mbit >= row->bar_mbit &&
		    r.jain >= row->bar_jain && !(row->none_may_fail && r.failed);

	print_row(row, &r, percent, good);
	if (with_stats)
		print_stats(&r.stats);
	return good;
}

static int usage(FILE *out, const char *program, int rc)
{
	fprintf(out,
		"usage: %s [--only CASE]... [--seed N] [--stats] [--json] [--list]\n"
		"Goodput on bad networks in virtual time, against bars. Exit code 1: one is "
		"missed.\n"
		"  --only CASE  cases whose name contains CASE\n"
		"  --seed N     of the random faults (1)\n"
		"  --stats      the endpoints' counters as well\n"
		"  --json       an array of objects\n"
		"  --list       the cases' names\n",
		program);
	return rc;
}

static bool wanted(const char *name, char *const *only, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (strstr(name, only[i]))
			return true;
	return n == 0;
}

int main(int argc, char **argv)
{
	char *only[64];
	unsigned nonly = 0;
	bool good = true;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			json = true;
		} else if (strcmp(argv[i], "--stats") == 0) {
			with_stats = true;
		} else if (strcmp(argv[i], "--help") == 0) {
			return usage(stdout, argv[0], 0);
		} else if (strcmp(argv[i], "--list") == 0) {
			for (unsigned k = 0; k < ARRAY_LEN(rows); k++)
				puts(rows[k].name);
			return 0;
		} else if (i + 1 < argc && strcmp(argv[i], "--only") == 0 &&
			   nonly < ARRAY_LEN(only)) {
			only[nonly++] = argv[++i];
		} else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
			seed = strtoull(argv[++i], NULL, 0);
		} else {
			return usage(stderr, argv[0], 2);
		}
	}
	print_head();
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
		if (wanted(rows[i].name, only, nonly))
			good &= measure(&rows[i]);
	if (json)
		printf("\n]\n");
	if (!printed)
		fprintf(stderr, "no such case\n");
	return good && printed ? 0 : 1;
}
