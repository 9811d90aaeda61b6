/* SPDX-License-Identifier: BSD-2-Clause */
/* What a QP reports, and the reasons that its endpoint gives: values by their names, as text. */
#include <stdio.h>
#include <string.h>

#include <rocemu/report.h>

#include "world.h"

#include "base/util.h"
#include "transport/qp.h"
#include "transport/why.h"

/* clang-format off */
/* Members of struct rocemu_qp_report that are numbers; the largest one stands for "none". */
#define NUMBERS(X) \
	X(mtu) X(retry_cnt) X(retry_left) X(rnr_retry) X(rnr_left) X(sends) X(sends_begun)        \
	X(sends_max) X(reads) X(reads_max) X(unanswered) X(responses) X(silent_ns) X(timeout_ns)  \
	X(probe_ns) X(rnr_ns) X(inflight) X(window) X(window_used) X(srtt_ns) X(min_rtt_ns)       \
	X(recvs) X(recvs_max) X(early) X(send_cqes) X(send_cqe_max) X(recv_cqes) X(recv_cqe_max)  \
	X(nwqes)
/* PSNs, with the attribute from which they count. */
#define PSNS(X) \
	X(acked_psn, sq_psn) X(send_psn, sq_psn) X(next_psn, sq_psn) X(rq_psn, rq_psn)
/* Members of struct rocemu_why that are numbers. */
#define WHY_NUMBERS(X) X(addr) X(len) X(key) X(lo) X(hi) X(n) X(limit)
/* clang-format on */

/** A value as text. */
struct text {
	char *to;
	size_t size;
};

static bool word(struct text t, const char *w)
{
	snprintf(t.to, t.size, "%s", w);
	return true;
}

static bool number(struct text t, uint64_t v)
{
	snprintf(t.to, t.size, "%llu", (unsigned long long)v);
	return true;
}

static bool psn_text(struct text t, uint32_t psn, uint32_t first)
{
	return number(t, (psn - first) & ROCEMU_PSN_MASK);
}

static bool gid_text(struct text t, const struct world *w, unsigned end, const void *raw)
{
	static const struct rocemu_gid none;
	const struct rocemu_gid peer = peer_gid(w, end);

	if (memcmp(raw, peer.raw, sizeof(peer.raw)) == 0)
		return word(t, "peer");
	if (memcmp(raw, w->end[end]->gid.raw, sizeof(peer.raw)) == 0)
		return word(t, "own");
	return word(t, memcmp(raw, none.raw, sizeof(none.raw)) == 0 ? "none" : "other");
}

static bool qpn_text(struct text t, const struct world *w, unsigned end, uint32_t qpn)
{
	if (qpn == peer_qpn(w, end))
		return word(t, "peer");
	return qpn == w->end[end]->qpn ? word(t, "own") : number(t, qpn);
}

static const char *code_name(uint32_t code)
{
	switch (code) {
#define X(value, name, text, rule, remedy) \
	case value:                        \
		return #name;
		ROCEMU_WHYS(X)
#undef X
	default:
		return NULL;
	}
}

/** Words of texts are joined. */
static bool what_text(struct text t, const char *what)
{
	word(t, what ? what : "none");
	for (char *p = t.to; (p = strchr(p, ' '));)
		*p = '_';
	return true;
}

/* ---- reports ---- */

static bool flags_text(struct text t, unsigned flags)
{
	static const char *const names[] = {"PATH", "SRQ", "MESSAGE", "GAP", "RNR", "TIMER"};
	size_t n = 0;

	word(t, flags ? "" : "none");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (flags >> i & 1)
			n += (size_t)snprintf(t.to + n, t.size - n, "%s%s", n ? "," : "", names[i]);
	return true;
}

static const char *wait_name(unsigned wait)
{
	static const char *const names[ROCEMU_WAIT_COUNT] = {
#define N(name) [ROCEMU_WAIT_##name] = #name
		N(NOTHING), N(STATE),  N(ANSWER), N(RNR),    N(SILENT),	 N(READ),
		N(ROOM),    N(WINDOW), N(BUDGET), N(CREDIT), N(EARLIER),
#undef N
	};

	return wait < ROCEMU_WAIT_COUNT ? names[wait] : "?";
}

static const char *state_name(unsigned state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return state < ARRAY_LEN(names) ? names[state] : "?";
}

static const char *type_name(unsigned type)
{
	static const char *const names[] = {
		[IBV_QPT_RC] = "RC",
		[IBV_QPT_UC] = "UC",
		[IBV_QPT_UD] = "UD",
		[IBV_QPT_XRC_SEND] = "XRC_SEND",
		[IBV_QPT_XRC_RECV] = "XRC_RECV",
	};

	return type < ARRAY_LEN(names) && names[type] ? names[type] : "?";
}

/** "wqe0.len" and its like. */
static bool wqe_value(struct text t, const struct world *w, const struct rocemu_qp_report *r,
		      const char *name)
{
	const unsigned i = name[3] ? (unsigned)name[3] - '0' : ROCEMU_REPORT_WQES;
	const struct rocemu_wqe_report *q = &r->wqe[i % ROCEMU_REPORT_WQES];

	if (i >= ROCEMU_REPORT_WQES || name[4] != '.')
		return false;
	name += 5;
	if (strcmp(name, "id") == 0)
		return number(t, q->wr_id);
	if (strcmp(name, "len") == 0)
		return number(t, q->length);
	if (strcmp(name, "first_psn") == 0)
		return psn_text(t, q->first_psn, q->npkts ? w->setup.sq_psn : 0);
	if (strcmp(name, "npkts") == 0)
		return number(t, q->npkts);
	if (strcmp(name, "begun") == 0)
		return number(t, q->begun);
	return strcmp(name, "what") == 0 &&
	       what_text(t, why_wr_name((enum ibv_wr_opcode)q->opcode));
}

static bool of_report(struct text t, const struct world *w, unsigned end,
		      const struct rocemu_qp_report *r, const char *name)
{
#define X(member)                                                                       \
	if (strcmp(name, #member) == 0)                                                 \
		return r->member == (__typeof__(r->member))UINT64_MAX ? word(t, "none") \
								      : number(t, r->member);
	NUMBERS(X)
#undef X
#define X(member, first)                \
	if (strcmp(name, #member) == 0) \
		return psn_text(t, r->member, w->setup.first);
	PSNS(X)
#undef X
#define X(member, text)                 \
	if (strcmp(name, #member) == 0) \
		return number(t, r->stats.member);
	ROCEMU_QP_STATS(X)
#undef X
	if (strcmp(name, "wait") == 0)
		return word(t, wait_name(r->wait));
	if (strcmp(name, "state") == 0)
		return word(t, state_name(r->state));
	if (strcmp(name, "type") == 0)
		return word(t, type_name(r->type));
	if (strcmp(name, "flags") == 0)
		return flags_text(t, r->flags);
	if (strcmp(name, "qpn") == 0)
		return qpn_text(t, w, end, r->qpn);
	if (strcmp(name, "dest_qpn") == 0)
		return qpn_text(t, w, end, r->dest_qpn);
	if (strcmp(name, "sgid") == 0)
		return gid_text(t, w, end, r->sgid);
	if (strcmp(name, "dgid") == 0)
		return gid_text(t, w, end, r->dgid);
	return strncmp(name, "wqe", 3) == 0 && wqe_value(t, w, r, name);
}

bool report_value(const struct world *w, unsigned end, const char *name, char *to, size_t size)
{
	const struct text t = {to, size};
	const struct end *e = w->end[end];
	struct rocemu_qp_report r;

	if (strcmp(name, "vendor_err") == 0) {
		const char *code = code_name(e->vendor_err);

		return code ? word(t, code) : number(t, e->vendor_err);
	}
	if (!e->qp)
		return false;
	rocemu_qp_report(e->qp, w->now, &r);
	return of_report(t, w, end, &r, name);
}

/* ---- reasons ---- */

void take_reason(void *end, const struct rocemu_why *why)
{
	struct end *e = end;

	if (e->given < REASONS)
		e->reason[e->given++] = (struct reason){*why, rocemu_cq_count(e->cq)};
}

/** Reasons of the requester count PSNs as the send queue does. */
static bool of_requester(enum rocemu_why_code code)
{
	return code < ROCEMU_WHY_PLACE;
}

bool reason_value(const struct world *w, unsigned end, const char *name, char *to, size_t size)
{
	const struct text t = {to, size};
	const struct end *e = w->end[end];
	const struct reason *r = &e->reason[e->taken - 1];
	const struct rocemu_why *y = &r->why;

	if (strcmp(name, "code") == 0)
		return word(t, code_name(y->code));
	if (strcmp(name, "completions") == 0)
		return number(t, r->completions);
	if (strcmp(name, "qpn") == 0)
		return qpn_text(t, w, end, y->qpn);
	if (strcmp(name, "peer_qpn") == 0)
		return qpn_text(t, w, end, y->peer_qpn);
	if (strcmp(name, "peer") == 0)
		return gid_text(t, w, end, y->peer.raw);
	if (strcmp(name, "psn") == 0)
		return psn_text(t, y->psn,
				of_requester(y->code) ? w->setup.sq_psn : w->setup.rq_psn);
	if (strcmp(name, "what") == 0)
		return what_text(t, y->what);
	if (strcmp(name, "id") == 0)
		return number(t, y->id & ~SCENARIO_RECV_ID);
#define X(member)                       \
	if (strcmp(name, #member) == 0) \
		return number(t, y->member);
	WHY_NUMBERS(X)
#undef X
	return false;
}
