/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu stat --json: the fields are documented in rocemu-stat(1), and stay. */
#include "stat-show.h"

#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "netdev/addr.h"
#include "tool.h"

static const char *const wait_names[] = {
	[ROCEMU_WAIT_NOTHING] = "nothing", [ROCEMU_WAIT_STATE] = "state",
	[ROCEMU_WAIT_ANSWER] = "answer",   [ROCEMU_WAIT_RNR] = "rnr",
	[ROCEMU_WAIT_SILENT] = "silent",   [ROCEMU_WAIT_READ] = "read",
	[ROCEMU_WAIT_ROOM] = "room",	   [ROCEMU_WAIT_WINDOW] = "window",
	[ROCEMU_WAIT_BUDGET] = "budget",   [ROCEMU_WAIT_CREDIT] = "credit",
	[ROCEMU_WAIT_EARLIER] = "earlier",
};

static void number(FILE *f, const char *name, uint64_t value)
{
	fprintf(f, ", \"%s\": %" PRIu64, name, value);
}

static void text(FILE *f, const char *name, const char *value)
{
	fprintf(f, ", \"%s\": ", name);
	out_json_string(f, value);
}

/** Times that there may be none of. */
static void time_or_null(FILE *f, const char *name, uint64_t value)
{
	if (value == UINT64_MAX)
		fprintf(f, ", \"%s\": null", name);
	else
		number(f, name, value);
}

static void print_path(FILE *f, const struct rocemu_qp_report *q)
{
	char addr[ADDR_TEXT_LEN];
	struct rocemu_gid gid;

	if (!(q->flags & ROCEMU_REPORT_PATH))
		return;
	memcpy(gid.raw, q->sgid, sizeof(gid.raw));
	text(f, "local", addr_gid_text(&gid, addr));
	memcpy(gid.raw, q->dgid, sizeof(gid.raw));
	text(f, "remote", addr_gid_text(&gid, addr));
	number(f, "source_port", q->sport);
}

static void print_qp(FILE *f, const struct rocemu_qp_report *q)
{
	fprintf(f, "{\"qpn\": %u, \"remote_qpn\": %u", q->qpn, q->dest_qpn);
	text(f, "type", stat_qp_type(q));
	text(f, "state", stat_qp_state(q));
	text(f, "waits_for", q->wait < ARRAY_LEN(wait_names) ? wait_names[q->wait] : "?");
	print_path(f, q);
	number(f, "mtu", q->mtu);
#define FIELD(name) number(f, #name, q->name);
	FIELD(sends)
	FIELD(sends_begun)
	FIELD(sends_max)
	FIELD(reads)
	FIELD(reads_max)
	FIELD(acked_psn)
	FIELD(send_psn)
	FIELD(next_psn)
	FIELD(retry_cnt)
	FIELD(retry_left)
	FIELD(rnr_retry)
	FIELD(rnr_left)
	FIELD(inflight)
	FIELD(window)
	FIELD(window_used)
	FIELD(srtt_ns)
	FIELD(min_rtt_ns)
	FIELD(recvs)
	FIELD(recvs_max)
	FIELD(rq_psn)
	FIELD(early)
#undef FIELD
	time_or_null(f, "timeout_ns", q->timeout_ns);
	time_or_null(f, "probe_ns", q->probe_ns);
	time_or_null(f, "rnr_ns", q->rnr_ns);
#define X(name, what) number(f, #name, q->stats.name);
	ROCEMU_QP_STATS(X)
#undef X
	fputc('}', f);
}

static void print_counters(FILE *f, const struct port_counts *c)
{
	fprintf(f, ", \"counters\": {\"rx_sock_drops\": %" PRIu64, c->lane.rx_sock_drops);
	number(f, "tx_errors", c->lane.tx_errors);
	number(f, "rx_octets", c->lane.rx_octets);
#define X(name, what) number(f, #name, c->ep.name);
	ROCEMU_STATS(X)
#undef X
	fputs("}", f);
}

static void print_lane(FILE *f, const struct stat_lane *l, const struct stat_filter *filter)
{
	const char *comma = "";

	fputs("{\"device\": ", f);
	out_json_string(f, l->device);
	number(f, "slot", l->slot);
	fprintf(f, ", \"busy\": %s", l->busy ? "true" : "false");
	if (l->busy)
		number(f, "busy_thread", l->busy_tid);
	print_counters(f, &l->counts);
	fputs(", \"qps\": [", f);
	for (unsigned i = 0; i < l->nqps; i++) {
		if (!stat_wants_qp(filter, &stat_qps(l)[i]))
			continue;
		fputs(comma, f);
		print_qp(f, &stat_qps(l)[i]);
		comma = ", ";
	}
	fputs("]}", f);
}

static void print_process(FILE *f, const struct stat_process *p, const struct stat_filter *filter)
{
	const struct stat_lane *l = NULL;
	const char *comma = "";

	fprintf(f, "{\"pid\": %d, \"uid\": %u", (int)p->pid, (unsigned)p->uid);
	text(f, "command", p->comm);
	if (*p->problem)
		text(f, "problem", p->problem);
	else
		fputs(", \"problem\": null", f);
	fputs(", \"devices\": [", f);
	while (p->answer && (l = stat_lane_next(p->answer, l))) {
		if (!stat_wants_lane(filter, l))
			continue;
		fputs(comma, f);
		print_lane(f, l, filter);
		comma = ", ";
	}
	fputs("]}", f);
}

void stat_print_json(FILE *f, const struct stat_list *l, const struct stat_filter *filter)
{
	fprintf(f, "{\"time_ns\": %" PRIu64 ", \"processes\": [", l->now_ns);
	for (unsigned i = 0; i < l->n; i++) {
		fputs(i ? ",\n" : "\n", f);
		print_process(f, &l->process[i], filter);
	}
	fputs("]}\n", f);
}
