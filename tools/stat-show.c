/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers, names and rows, for the table and for the full screen. 100 columns. */
#include "stat-show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

bool stat_wants_lane(const struct stat_filter *f, const struct stat_lane *l)
{
	return !f->device || !strcmp(f->device, l->device);
}

bool stat_wants_qp(const struct stat_filter *f, const struct rocemu_qp_report *q)
{
	return !f->qpn || f->qpn == q->qpn;
}

const char *stat_qp_type(const struct rocemu_qp_report *q)
{
	switch (q->type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_XRC_SEND:
		return "XRCS";
	case IBV_QPT_XRC_RECV:
		return "XRCR";
	default:
		return "?";
	}
}

const char *stat_qp_state(const struct rocemu_qp_report *q)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return q->state < ARRAY_LEN(names) ? names[q->state] : "?";
}

const char *stat_short(char out[static 16], uint64_t n)
{
	static const char units[] = " KMGTPE";
	unsigned u = 0;
	double v = (double)n;

	if (n < 100000) {
		snprintf(out, 16, "%" PRIu64, n);
		return out;
	}
	while (v >= 999.5 && u + 2 < sizeof(units)) {
		v /= 1000;
		u++;
	}
	snprintf(out, 16, v < 9.95 ? "%.1f%c" : "%.0f%c", v, units[u]);
	return out;
}

const char *stat_short_ns(char out[static 16], uint64_t ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	unsigned u = 0;
	double v = (double)ns;

	while (v >= 999.5 && u + 1 < ARRAY_LEN(units)) {
		v /= 1000;
		u++;
	}
	snprintf(out, 16, u && v < 9.95 ? "%.1f%s" : "%.0f%s", v, units[u]);
	return out;
}

uint64_t stat_naks_sent(const struct rocemu_qp_stats *s)
{
	return s->seq_naks_sent + s->inv_naks_sent + s->access_naks_sent + s->op_naks_sent;
}

uint64_t stat_naks_rcvd(const struct rocemu_qp_stats *s)
{
	return s->seq_naks_rcvd + s->inv_naks_rcvd + s->access_naks_rcvd + s->op_naks_rcvd;
}

/* ---- order ---- */

static const struct sort_key {
	const char *name;
	uint64_t (*of)(const struct rocemu_qp_report *q);
} * sort_key;

#define KEY(name, value)                                             \
	static uint64_t key_##name(const struct rocemu_qp_report *q) \
	{                                                            \
		return value;                                        \
	}
KEY(tx, q->stats.tx_bytes)
KEY(rx, q->stats.rx_bytes)
KEY(packets, q->stats.tx_packets + q->stats.rx_packets)
KEY(retransmits, q->stats.retransmits)
KEY(naks, stat_naks_sent(&q->stats) + stat_naks_rcvd(&q->stats))
KEY(rnr, q->stats.rnr_naks_sent + q->stats.rnr_naks_rcvd)
KEY(rtt, q->srtt_ns)

static const struct sort_key sort_keys[] = {
	{"tx", key_tx},		  {"rx", key_rx},
	{"packets", key_packets}, {"retransmits", key_retransmits},
	{"naks", key_naks},	  {"rnr", key_rnr},
	{"rtt", key_rtt},
};

static const struct sort_key *find_key(const char *name)
{
	for (unsigned i = 0; name && i < ARRAY_LEN(sort_keys); i++)
		if (!strcmp(sort_keys[i].name, name))
			return &sort_keys[i];
	return NULL;
}

bool stat_is_sort_key(const char *key)
{
	return !strcmp(key, "qp") || find_key(key);
}

static const struct rocemu_qp_report *sorted;

/** The largest first; those that are equal, and without a key, by number. */
static int in_order(const void *a, const void *b)
{
	const struct rocemu_qp_report *p = &sorted[*(const unsigned *)a],
				      *q = &sorted[*(const unsigned *)b];

	if (sort_key && sort_key->of(p) != sort_key->of(q))
		return sort_key->of(p) < sort_key->of(q) ? 1 : -1;
	return (p->qpn > q->qpn) - (p->qpn < q->qpn);
}

unsigned stat_sort(const struct stat_lane *l, const struct stat_filter *f, const char *key,
		   unsigned *of)
{
	unsigned n = 0;

	for (unsigned i = 0; i < l->nqps; i++)
		if (stat_wants_qp(f, &stat_qps(l)[i]))
			of[n++] = i;
	sorted = stat_qps(l);
	sort_key = find_key(key);
	if (n)
		qsort(of, n, sizeof(*of), in_order);
	return n;
}

/* ---- rows ---- */

/* Columns: 100 characters with the spaces between. */
#define ROW "%8s %-4s %-5s %5s %5s %5s %5s %5s %4s %4s %7s %7s %5s %5s %5s %5s"

const char *stat_heading(void)
{
	static char out[STAT_ROW];

	snprintf(out, sizeof(out), ROW, "QP", "TYPE", "STATE", "TX", "BYTES", "RX", "BYTES",
		 "RETRY", "TMO", "PROB", "NAK<>", "RNR<>", "EARLY", "CNP<", "WIN", "RTT");
	return out;
}

static const char *two(char out[static 16], uint64_t rcvd, uint64_t sent)
{
	char a[16], b[16];

	snprintf(out, 16, "%.7s/%.7s", stat_short(a, rcvd), stat_short(b, sent));
	return out;
}

void stat_row(char out[static STAT_ROW], const struct rocemu_qp_report *q)
{
	const struct rocemu_qp_stats *s = &q->stats;
	char n[16][16];

	snprintf(n[0], 16, "%u", (unsigned)q->qpn);
	snprintf(out, STAT_ROW, ROW, n[0], stat_qp_type(q), stat_qp_state(q),
		 stat_short(n[1], s->tx_packets), stat_short(n[2], s->tx_bytes),
		 stat_short(n[3], s->rx_packets), stat_short(n[4], s->rx_bytes),
		 stat_short(n[5], s->retransmits), stat_short(n[6], s->timeouts),
		 stat_short(n[7], s->probes), two(n[8], stat_naks_rcvd(s), stat_naks_sent(s)),
		 two(n[9], s->rnr_naks_rcvd, s->rnr_naks_sent),
		 stat_short(n[10], s->kept + s->kept_full), stat_short(n[11], s->cnps_rcvd),
		 q->window ? stat_short(n[12], q->window) : "-",
		 q->srtt_ns ? stat_short_ns(n[13], q->srtt_ns) : "-");
}

void stat_device_line(char out[static STAT_ROW], const struct stat_lane *l)
{
	const uint64_t *drops = l->counts.ep.drops;
	uint64_t refused = 0;

	for (unsigned i = 1; i < ROCEMU_DROP_COUNT; i++)
		if (i != ROCEMU_DROP_GHOST && i != ROCEMU_DROP_CNP)
			refused += drops[i];
	if (l->busy && l->busy_tid)
		snprintf(out, STAT_ROW, "  %.32s: busy: its lock is held by thread %u (%.15s)",
			 l->device, l->busy_tid, l->holder);
	else if (l->busy)
		snprintf(out, STAT_ROW, "  %.32s: busy: its lock was not to be had", l->device);
	else
		snprintf(out, STAT_ROW,
			 "  %.32s: %u QPs, %u CQs, %u MRs; packets dropped: %" PRIu64
			 " refused, %" PRIu64 " late, %" PRIu64 " by the socket; %" PRIu64
			 " not sent",
			 l->device, l->objects[ROCEMU_OBJECT_QP], l->objects[ROCEMU_OBJECT_CQ],
			 l->objects[ROCEMU_OBJECT_MR], refused, drops[ROCEMU_DROP_GHOST],
			 l->counts.lane.rx_sock_drops, l->counts.lane.tx_errors);
	for (char *c = out; *c; c++)
		if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
}

static void print_lane(FILE *f, const struct stat_lane *l, const struct stat_filter *filter,
		       const char *sort)
{
	unsigned *of = calloc(l->nqps + 1, sizeof(*of));
	const unsigned n = of ? stat_sort(l, filter, sort, of) : 0;
	char row[STAT_ROW];

	stat_device_line(row, l);
	fprintf(f, "%s\n", row);
	if (n)
		fprintf(f, "%s\n", stat_heading());
	for (unsigned i = 0; i < n; i++) {
		stat_row(row, &stat_qps(l)[of[i]]);
		fprintf(f, "%s\n", row);
	}
	free(of);
}

void stat_print_table(FILE *f, const struct stat_list *l, const struct stat_filter *filter,
		      const char *sort)
{
	for (unsigned i = 0; i < l->n; i++) {
		const struct stat_process *p = &l->process[i];
		const struct stat_lane *lane = NULL;

		fprintf(f, "%d %s%s%s\n", (int)p->pid, p->comm, *p->problem ? ": " : "",
			p->problem);
		while (p->answer && (lane = stat_lane_next(p->answer, lane)))
			if (stat_wants_lane(filter, lane))
				print_lane(f, lane, filter, sort);
	}
}
