/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts, and logs if there is a log, the effects of fault injection on a lane's packets. */
#include "engine/lane-held.h"
#include "wire/bth.h"

#define LOG_FLUSH_NS 500000000u /* the log's lines are written after this */

static void note(struct lane *l, rocemu_ns_t now, const struct fault_packet *p, const char *by,
		 const char *what, uint64_t ns) REQUIRES(l);
static void note(struct lane *l, rocemu_ns_t now, const struct fault_packet *p, const char *by,
		 const char *what, uint64_t ns)
{
	if (!fault_log_on())
		return;
	fault_log_packet(l->device, p, by, what, ns);
	if (l->held->log_due == ROCEMU_NEVER)
		l->held->log_due = now + LOG_FLUSH_NS;
}

void note_count(struct lane *l, rocemu_ns_t now, const struct fault_packet *p,
		enum fault_count what, const char *name, uint64_t ns)
{
	fault_report_add(what, 1);
	note(l, now, p, NULL, name, ns);
}

void note_rules(struct lane *l, rocemu_ns_t now, const struct fault_packet *p,
		const struct fault_verdict *v)
{
	static const char *const names[] = {
#define X(name, text) [FAULT_##name] = text,
		FAULT_ACTIONS(X)
#undef X
	};

	for (uint64_t left = v->matched; left; left &= left - 1) {
		const unsigned i = (unsigned)__builtin_ctzll(left);
		const struct fault_rule *r = &l->impair.rule[i];
		const bool acted = v->acted >> i & 1;

		fault_total_add(l->held->total[i], acted);
		if (acted)
			note(l, now, p, r->text, names[r->action],
			     r->action == FAULT_DELAY ? v->delay_ns : 0);
	}
	l->stats->impair_lost += v->drop;
	l->stats->impair_dup += v->dups;
	l->stats->impair_corrupt += v->nsealed + v->nraw > 0;
	l->stats->impair_delay += v->delay_ns > 0;
	l->stats->impair_marked += v->mark;
}

void note_action(struct lane *l, rocemu_ns_t now, const struct fault_packet *p,
		 const struct impair_action *f)
{
	l->stats->impair_lost += f->lost;
	l->stats->impair_dup += f->dup;
	l->stats->impair_reorder += f->overtakers > 0;
	l->stats->impair_corrupt += f->corrupt_bits > 0;
	l->stats->impair_delay += f->delay_ns > 0;
	if (f->lost)
		note_count(l, now, p, FAULT_COUNT_LOST, "loss", 0);
	if (f->dup)
		note_count(l, now, p, FAULT_COUNT_DUP, "dup", 0);
	if (f->overtakers)
		note_count(l, now, p, FAULT_COUNT_REORDER, "reorder", 0);
	if (f->corrupt_bits)
		note_count(l, now, p, FAULT_COUNT_CORRUPT, "corrupt", 0);
	if (f->delay_ns)
		note_count(l, now, p, FAULT_COUNT_DELAY, "delay", f->delay_ns);
}

struct fault_packet note_packet(const struct rocemu_dgram *d)
{
	return (struct fault_packet){
		.dir = FAULT_RX,
		.qp = d->len >= ROCEMU_BTH_LEN ? bth_dqpn(d->data) : 0,
		.peer = &d->src,
		.hdr = d->data,
		.len = d->len,
	};
}

void lane_impair_deliver(struct lane *l, rocemu_ns_t now, struct rocemu_dgram *d)
{
	const struct rocemu_ep_stats *stats = rocemu_ep_get_stats(l->ep);
	const uint64_t before = stats->rnr_on_purpose;
	struct fault_packet p;

	rocemu_ep_input(l->ep, now, d);
	if (likely(stats->rnr_on_purpose == before))
		return;
	p = note_packet(d);
	note_count(l, now, &p, FAULT_COUNT_RNR, "rnr", 0);
}
