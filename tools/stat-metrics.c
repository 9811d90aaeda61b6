/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu stat --prometheus: the text exposition format. */
#include "stat-show.h"

#include <inttypes.h>

#include "tool.h"

/* ---- the text ---- */

/* Which value of a QP or a lane a metric has. */
struct metric {
	const char *name, *type, *help;
	size_t offset; /* of a uint64_t, in struct rocemu_qp_report or struct stat_lane */
	double unit;
};

static const struct metric qp_metrics[] = {
#define X(name_, text)                                  \
	{"rocemu_qp_" #name_ "_total", "counter", text, \
	 offsetof(struct rocemu_qp_report, stats.name_), 1},
	ROCEMU_QP_STATS(X)
#undef X
		{"rocemu_qp_window_bytes", "gauge", "congestion window of the peer",
		 offsetof(struct rocemu_qp_report, window), 1},
	{"rocemu_qp_inflight_bytes", "gauge", "bytes in flight",
	 offsetof(struct rocemu_qp_report, inflight), 1},
	{"rocemu_qp_rtt_seconds", "gauge", "smoothed round-trip time",
	 offsetof(struct rocemu_qp_report, srtt_ns), 1e-9},
};

static const struct metric lane_metrics[] = {
#define X(name_, text)                                      \
	{"rocemu_device_" #name_ "_total", "counter", text, \
	 offsetof(struct stat_lane, counts.ep.name_), 1},
	ROCEMU_STATS(X)
#undef X
		{"rocemu_device_socket_drops_total", "counter",
		 "datagrams that the kernel dropped for lack of socket buffer",
		 offsetof(struct stat_lane, counts.lane.rx_sock_drops), 1},
	{"rocemu_device_tx_errors_total", "counter",
	 "datagrams that the kernel refused, or that found a ring full",
	 offsetof(struct stat_lane, counts.lane.tx_errors), 1},
};

static void print_label(FILE *f, const char *name, const char *value)
{
	fprintf(f, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', f);
		fputc(*value >= ' ' && *value <= '~' ? *value : '?', f);
	}
	fputc('"', f);
}

static void print_sample(FILE *f, const struct metric *m, const struct stat_process *p,
			 const struct stat_lane *l, const struct rocemu_qp_report *q)
{
	uint64_t value;

	memcpy(&value, (q ? (const char *)q : (const char *)l) + m->offset, sizeof(value));
	fprintf(f, "%s{pid=\"%d\",", m->name, (int)p->pid);
	print_label(f, "comm", p->comm);
	fputc(',', f);
	print_label(f, "device", l->device);
	fprintf(f, ",slot=\"%u\"", l->slot);
	if (q)
		fprintf(f, ",qpn=\"%u\"", q->qpn);
	if (m->unit < 1)
		fprintf(f, "} %.9f\n", (double)value * m->unit);
	else
		fprintf(f, "} %" PRIu64 "\n", value);
}

static void print_metric(FILE *f, const struct stat_list *l, const struct metric *m, bool of_qps)
{
	fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, m->type);
	for (unsigned i = 0; i < l->n; i++) {
		const struct stat_process *p = &l->process[i];
		const struct stat_lane *lane = NULL;

		while (p->answer && (lane = stat_lane_next(p->answer, lane))) {
			if (!of_qps && !lane->busy)
				print_sample(f, m, p, lane, NULL);
			for (unsigned k = 0; of_qps && k < lane->nqps; k++)
				print_sample(f, m, p, lane, &stat_qps(lane)[k]);
		}
	}
}

void stat_print_metrics(FILE *f, const struct stat_list *l)
{
	fputs("# HELP rocemu_process_answers 1: the query of the process succeeded\n"
	      "# TYPE rocemu_process_answers gauge\n",
	      f);
	for (unsigned i = 0; i < l->n; i++) {
		fprintf(f, "rocemu_process_answers{pid=\"%d\",", (int)l->process[i].pid);
		print_label(f, "comm", l->process[i].comm);
		fprintf(f, "} %d\n", !*l->process[i].problem);
	}
	for (unsigned i = 0; i < sizeof(lane_metrics) / sizeof(*lane_metrics); i++)
		print_metric(f, l, &lane_metrics[i], false);
	for (unsigned i = 0; i < sizeof(qp_metrics) / sizeof(*qp_metrics); i++)
		print_metric(f, l, &qp_metrics[i], true);
}
