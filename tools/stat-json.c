/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu stat --json: the fields are documented in rocemu-stat(1), and stay. */
#include "stat-show.h"

#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "netdev/addr.h"

static const char *const wait_names[] = {
	[ROCEMU_WAIT_NOTHING] = "nothing", [ROCEMU_WAIT_STATE] = "state",
	[ROCEMU_WAIT_ANSWER] = "answer",   [ROCEMU_WAIT_RNR] = "rnr",
	[ROCEMU_WAIT_SILENT] = "silent",   [ROCEMU_WAIT_READ] = "read",
	[ROCEMU_WAIT_ROOM] = "room",	   [ROCEMU_WAIT_WINDOW] = "window",
	[ROCEMU_WAIT_BUDGET] = "budget",   [ROCEMU_WAIT_CREDIT] = "credit",
	[ROCEMU_WAIT_EARLIER] = "earlier",
};

/** Times that there may be none of. */
static void time_or_null(struct json *j, const char *name, uint64_t value)
{
	if (value == UINT64_MAX)
		json_null(j, name);
	else
		json_u64(j, name, value);
}

static void print_path(struct json *j, const struct rocemu_qp_report *q)
{
	char addr[ADDR_TEXT_LEN];
	struct rocemu_gid gid;

	if (!(q->flags & ROCEMU_REPORT_PATH))
		return;
	memcpy(gid.raw, q->sgid, sizeof(gid.raw));
	json_text(j, "local", addr_gid_text(&gid, addr));
	memcpy(gid.raw, q->dgid, sizeof(gid.raw));
	json_text(j, "remote", addr_gid_text(&gid, addr));
	json_u64(j, "source_port", q->sport);
}

static void print_qp(struct json *j, const struct rocemu_qp_report *q)
{
	json_open(j, NULL, '{');
	json_u64(j, "qpn", q->qpn);
	json_u64(j, "remote_qpn", q->dest_qpn);
	json_text(j, "type", stat_qp_type(q));
	json_text(j, "state", stat_qp_state(q));
	json_text(j, "waits_for", q->wait < ARRAY_LEN(wait_names) ? wait_names[q->wait] : "?");
	print_path(j, q);
	json_u64(j, "mtu", q->mtu);
#define FIELD(name) json_u64(j, #name, q->name);
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
	time_or_null(j, "timeout_ns", q->timeout_ns);
	time_or_null(j, "probe_ns", q->probe_ns);
	time_or_null(j, "rnr_ns", q->rnr_ns);
#define X(name, what) json_u64(j, #name, q->stats.name);
	ROCEMU_QP_STATS(X)
#undef X
	json_close(j, '}');
}

static void print_counters(struct json *j, const struct port_counts *c)
{
	json_open(j, "counters", '{');
	JSON_U64S(j, {"rx_sock_drops", c->lane.rx_sock_drops}, {"tx_errors", c->lane.tx_errors},
		  {"rx_octets", c->lane.rx_octets});
#define X(name, what) json_u64(j, #name, c->ep.name);
	ROCEMU_STATS(X)
#undef X
	json_close(j, '}');
}

static void print_lane(struct json *j, const struct stat_lane *l, const struct stat_filter *filter)
{
	json_open(j, NULL, '{');
	json_text(j, "device", l->device);
	json_u64(j, "slot", l->slot);
	json_bool(j, "busy", l->busy);
	if (l->busy)
		json_u64(j, "busy_thread", l->busy_tid);
	print_counters(j, &l->counts);
	json_open(j, "qps", '[');
	for (unsigned i = 0; i < l->nqps; i++)
		if (stat_wants_qp(filter, &stat_qps(l)[i]))
			print_qp(j, &stat_qps(l)[i]);
	json_close(j, ']');
	json_close(j, '}');
}

static void print_process(struct json *j, const struct stat_process *p,
			  const struct stat_filter *filter)
{
	const struct stat_lane *l = NULL;

	json_open(j, NULL, '{');
	json_u64(j, "pid", (uint64_t)p->pid);
	json_u64(j, "uid", p->uid);
	json_text(j, "command", p->comm);
	if (*p->problem)
		json_text(j, "problem", p->problem);
	else
		json_null(j, "problem");
	json_open(j, "devices", '[');
	while (p->answer && (l = stat_lane_next(p->answer, l)))
		if (stat_wants_lane(filter, l))
			print_lane(j, l, filter);
	json_close(j, ']');
	json_close(j, '}');
}

void stat_print_json(FILE *f, const struct stat_list *l, const struct stat_filter *filter)
{
	struct json j = {.f = f};

	json_open(&j, NULL, '{');
	json_u64(&j, "time_ns", l->now_ns);
	json_open(&j, "processes", '[');
	for (unsigned i = 0; i < l->n; i++) {
		json_line(&j);
		print_process(&j, &l->process[i], filter);
	}
	json_close(&j, ']');
	json_close(&j, '}');
	fputc('\n', f);
}
