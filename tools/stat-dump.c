/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu stat --dump: each QP's queues, and in sentences what it waits for. */
#include "stat-show.h"

#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "netdev/addr.h"

static const char *opcode_name(unsigned opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
		return "WRITE";
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return "WRITE with immediate";
	case IBV_WR_SEND:
		return "SEND";
	case IBV_WR_SEND_WITH_IMM:
		return "SEND with immediate";
	case IBV_WR_SEND_WITH_INV:
		return "SEND with invalidate";
	case IBV_WR_RDMA_READ:
		return "READ";
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return "compare and swap";
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return "fetch and add";
	case IBV_WR_LOCAL_INV:
		return "local invalidate";
	case IBV_WR_BIND_MW:
		return "bind memory window";
	case ROCEMU_WR_FLUSH:
		return "FLUSH";
	case ROCEMU_WR_ATOMIC_WRITE:
		return "ATOMIC WRITE";
	default:
		return "request";
	}
}

static bool is_datagram(const struct rocemu_qp_report *q)
{
	return q->type == IBV_QPT_UC || q->type == IBV_QPT_UD;
}

/* ---- the send queue ---- */

static void print_retries(FILE *f, const struct rocemu_qp_report *q)
{
	char t[16];

	if (q->silent_ns)
		fprintf(f, "; the last one came %s ago", stat_short_ns(t, q->silent_ns));
	if (q->probe_ns != UINT64_MAX)
		fprintf(f, "; a probe in %s", stat_short_ns(t, q->probe_ns));
	if (q->timeout_ns != UINT64_MAX)
		fprintf(f, "; the ACK timeout in %s, with %u of %u retries left",
			stat_short_ns(t, q->timeout_ns), q->retry_left, q->retry_cnt);
	else if (q->flags & ROCEMU_REPORT_TIMER)
		fprintf(f, "; no ACK timeout: it waits for ever");
	fputc('\n', f);
}

static void print_rnr(FILE *f, const struct rocemu_qp_report *q)
{
	char t[16];

	fprintf(f, "waits for a receive of the peer (RNR NAK for PSN %u): sends again in %s; ",
		q->acked_psn, stat_short_ns(t, q->rnr_ns == UINT64_MAX ? 0 : q->rnr_ns));
	if (q->rnr_retry == 7)
		fprintf(f, "tries for ever\n");
	else
		fprintf(f, "%u of %u RNR retries left\n", q->rnr_left, q->rnr_retry);
}

/** Without "waits for": what holds back what is not sent. */
static const char *hold_text(unsigned wait)
{
	switch (wait) {
	case ROCEMU_WAIT_READ:
		return "the end of READs or atomics before it (a fence, or as many as "
		       "max_rd_atomic are in flight)";
	case ROCEMU_WAIT_ROOM:
		return "room in the receiver's socket buffer";
	case ROCEMU_WAIT_WINDOW:
		return "room in the congestion window that the QPs to this peer share";
	case ROCEMU_WAIT_BUDGET:
		return "READ responses that other QPs of the process have requested";
	case ROCEMU_WAIT_CREDIT:
		return "a receive of the peer, whose ACKs report that it has none";
	case ROCEMU_WAIT_EARLIER:
		return "the requests before one that failed";
	default:
		return "";
	}
}

static void print_wait(FILE *f, const struct rocemu_qp_report *q)
{
	fputs("            ", f);
	switch (q->wait) {
	case ROCEMU_WAIT_NOTHING:
		fprintf(f, q->sends ? "is about to send or to complete\n"
				    : "waits for nothing: no request is posted\n");
		return;
	case ROCEMU_WAIT_STATE:
		fprintf(f, "waits for the program: in state %s nothing is sent\n",
			stat_qp_state(q));
		return;
	case ROCEMU_WAIT_RNR:
		print_rnr(f, q);
		return;
	case ROCEMU_WAIT_ANSWER:
	case ROCEMU_WAIT_SILENT:
		fprintf(f, "waits for the peer's answer to PSN %u%s", q->acked_psn,
			q->wait == ROCEMU_WAIT_SILENT ? ", which has been silent" : "");
		break;
	default:
		fprintf(f, "waits for %s", hold_text(q->wait));
		if (is_datagram(q) || q->acked_psn == q->send_psn) {
			fputc('\n', f);
			return;
		}
		fprintf(f, ", and for the answer to PSN %u", q->acked_psn);
		break;
	}
	if (q->unanswered)
		fprintf(f, "; %u probes were not answered", q->unanswered);
	print_retries(f, q);
}

static void print_sends(FILE *f, const struct rocemu_qp_report *q)
{
	char a[16], b[16];

	fprintf(f, "  sends     %u posted of %u, %u begun", q->sends, q->sends_max, q->sends_begun);
	if (!is_datagram(q))
		fprintf(f, "; PSN %u is the oldest not acknowledged, %u the next", q->acked_psn,
			q->send_psn);
	if (q->reads_max)
		fprintf(f, "; %u of %u READs and atomics in flight", q->reads, q->reads_max);
	fputc('\n', f);
	print_wait(f, q);
	if (q->window && q->wait == ROCEMU_WAIT_WINDOW)
		fprintf(f, "            %s of %s bytes of the window are under way\n",
			stat_short(a, q->window_used), stat_short(b, q->window));
	for (unsigned i = 0; i < q->nwqes; i++) {
		const struct rocemu_wqe_report *w = &q->wqe[i];

		fprintf(f, "            %s of %u bytes, wr_id 0x%" PRIx64, opcode_name(w->opcode),
			w->length, w->wr_id);
		if (!w->begun)
			fprintf(f, ", not begun\n");
		else if (w->npkts && !is_datagram(q))
			fprintf(f, ", PSN %u to %u\n", w->first_psn,
				(w->first_psn + w->npkts - 1) & 0xffffff);
		else
			fputc('\n', f);
	}
	if (q->sends > q->nwqes)
		fprintf(f, "            and %u more\n", q->sends - q->nwqes);
}

/* ---- the receive queue ---- */

static bool may_receive(const struct rocemu_qp_report *q)
{
	return (q->state == IBV_QPS_RTR || q->state == IBV_QPS_RTS || q->state == IBV_QPS_SQD ||
		q->state == IBV_QPS_SQE) &&
	       q->type != IBV_QPT_XRC_SEND;
}

static void print_recvs(FILE *f, const struct rocemu_qp_report *q)
{
	const char *srq = q->flags & ROCEMU_REPORT_SRQ ? " in its SRQ" : "";

	fprintf(f, "  receives  %u posted of %u%s", q->recvs, q->recvs_max, srq);
	if (q->type != IBV_QPT_UD)
		fprintf(f, "; PSN %u is expected", q->rq_psn);
	if (q->responses)
		fprintf(f, "; %u responses are to be sent", q->responses);
	fputs("\n            ", f);
	if (!may_receive(q))
		fprintf(f, "waits for the program: in state %s nothing is received\n",
			stat_qp_state(q));
	else if (q->flags & ROCEMU_REPORT_RNR && !q->recvs)
		fprintf(f,
			"waits for the program to post a receive: an RNR NAK for PSN %u was sent "
			"to the peer\n",
			q->rq_psn);
	else if (q->flags & ROCEMU_REPORT_GAP || q->early)
		fprintf(f, "waits for PSN %u, which is missing; %u packets behind it are kept\n",
			q->rq_psn, q->early);
	else if (q->flags & ROCEMU_REPORT_MESSAGE)
		fprintf(f, "waits for the rest of a message, from PSN %u on\n", q->rq_psn);
	else if (!q->recvs)
		fprintf(f, "waits for requests of the peer; no receive is posted, so a SEND would "
			   "not be taken\n");
	else
		fprintf(f, "waits for messages of the peer\n");
}

static void print_cqs(FILE *f, const struct rocemu_qp_report *q)
{
	const bool send = q->send_cqes != UINT32_MAX, recv = q->recv_cqes != UINT32_MAX;

	if (!send && !recv)
		return;
	fputs("  CQs       ", f);
	if (send)
		fprintf(f, "send: %u completions not polled, of %u", q->send_cqes, q->send_cqe_max);
	if (recv)
		fprintf(f, "%sreceive: %u completions not polled, of %u", send ? "; " : "",
			q->recv_cqes, q->recv_cqe_max);
	fputc('\n', f);
}

static void print_counts(FILE *f, const struct rocemu_qp_report *q)
{
	unsigned n = 0;

#define X(name, text)      \
	if (q->stats.name) \
		fprintf(f, "%s%" PRIu64 " %s", n++ ? "; " : "  counted   ", q->stats.name, text);
	ROCEMU_QP_STATS(X)
#undef X
	if (n)
		fputc('\n', f);
}

static void print_qp(FILE *f, const char *device, const struct rocemu_qp_report *q)
{
	char addr[ADDR_TEXT_LEN];
	struct rocemu_gid gid;

	fprintf(f, " QP %u on %.63s: %s, state %s", q->qpn, device, stat_qp_type(q),
		stat_qp_state(q));
	if (q->flags & ROCEMU_REPORT_PATH) {
		memcpy(gid.raw, q->dgid, sizeof(gid.raw));
		fprintf(f, ", to QP %u of %s", q->dest_qpn, addr_gid_text(&gid, addr));
	}
	fputc('\n', f);
	if (q->type != IBV_QPT_XRC_RECV)
		print_sends(f, q);
	if (q->type != IBV_QPT_XRC_SEND)
		print_recvs(f, q);
	print_cqs(f, q);
	print_counts(f, q);
}

void stat_print_dump(FILE *f, const struct stat_list *l, const struct stat_filter *filter)
{
	for (unsigned i = 0; i < l->n; i++) {
		const struct stat_process *p = &l->process[i];
		const struct stat_lane *lane = NULL;

		fprintf(f, "process %d %s%s%s\n", (int)p->pid, p->comm, *p->problem ? ": " : "",
			p->problem);
		while (p->answer && (lane = stat_lane_next(p->answer, lane))) {
			char line[STAT_ROW];

			if (!stat_wants_lane(filter, lane))
				continue;
			stat_device_line(line, lane);
			fprintf(f, "%s\n", line + 1);
			for (unsigned k = 0; k < lane->nqps; k++)
				if (stat_wants_qp(filter, &stat_qps(lane)[k]))
					print_qp(f, lane->device, &stat_qps(lane)[k]);
		}
	}
}
