/* SPDX-License-Identifier: BSD-2-Clause */
/* What happened, as text: packets and completions for tests to compare, and the report of a
 * failing run. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "sim-capture.h"
#include "test.h"

static void append(char *buf, size_t *len, const char *item)
{
	size_t n = strlen(item);

	if (*len + n + 3 > SIM_TEXT_MAX)
		return; /* a long run's first packets are what a test compares */
	if (*len) {
		memcpy(buf + *len, "; ", 2);
		*len += 2;
	}
	memcpy(buf + *len, item, n + 1);
	*len += n;
}

/** "RC_SEND_ONLY" without its service. */
static const char *short_name(uint8_t opcode)
{
	const char *name = rocemu_opcode_name(opcode), *cut = strchr(name, '_');

	return cut && rocemu_opcode_service(opcode) != ROCEMU_SVC_CNP ? cut + 1 : name;
}

void sim_note_packet(struct sim *s, const struct sim_packet *p, const char *fate)
{
	struct rocemu_packet d;
	char item[80], what[40];

	if (s->effects_len > SIM_TEXT_MAX - sizeof(item))
		return;
	if (rocemu_packet_decode(&d, p->data, p->len) != ROCEMU_DROP_NONE)
		return;
	snprintf(what, sizeof(what), "%s", short_name(d.h.opcode));
	if ((rocemu_opcode_hdrs(d.h.opcode) & ROCEMU_HDR_AETH) &&
	    (d.h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK)) {
		unsigned class = d.h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK;

		if (class == ROCEMU_AETH_RNR)
			snprintf(what, sizeof(what), "RNR %02x",
				 d.h.aeth.syndrome & ROCEMU_AETH_VALUE_MASK);
		else
			snprintf(what, sizeof(what), "NAK %02x", d.h.aeth.syndrome);
	}
	snprintf(item, sizeof(item), "%c %s %u%s", 'A' + (int)p->from, what, d.h.psn, fate);
	append(s->effects, &s->effects_len, item);
}

const char *sim_effects(struct sim *s)
{
	s->effects[s->effects_len] = 0;
	s->effects_len = 0;
	return s->effects;
}

/* clang-format off */
#define STATUSES(X)                                  \
	X(SUCCESS, "OK")                             \
	X(LOC_LEN_ERR, "LOC_LEN")                    \
	X(LOC_QP_OP_ERR, "LOC_QP_OP")                \
	X(LOC_PROT_ERR, "LOC_PROT")                  \
	X(WR_FLUSH_ERR, "FLUSH")                     \
	X(LOC_ACCESS_ERR, "LOC_ACCESS")              \
	X(REM_INV_REQ_ERR, "REM_INV_REQ")            \
	X(REM_ACCESS_ERR, "REM_ACCESS")              \
	X(REM_OP_ERR, "REM_OP")                      \
	X(RETRY_EXC_ERR, "RETRY_EXC")                \
	X(RNR_RETRY_EXC_ERR, "RNR_RETRY_EXC")        \
	X(BAD_RESP_ERR, "BAD_RESP")                  \
	X(REM_ABORT_ERR, "REM_ABORT")                \
	X(LOC_EEC_OP_ERR, "LOC_EEC_OP")              \
	X(MW_BIND_ERR, "MW_BIND")                    \
	X(FATAL_ERR, "FATAL")                        \
	X(GENERAL_ERR, "GENERAL")
/* clang-format on */

static const char *status_text(enum ibv_wc_status st)
{
	switch (st) {
#define X(name, text)       \
	case IBV_WC_##name: \
		return text;
		STATUSES(X)
#undef X
	default:
		return "?";
	}
}

static const char *ledger_text(char *buf, size_t *len, const struct sim_ledger *l, const char *kind)
{
	for (size_t i = 0; i < l->n; i++) {
		char item[64];

		if (!l->e[i].done)
			continue;
		snprintf(item, sizeof(item), "%s %s", kind, status_text(l->e[i].cqe.status));
		append(buf, len, item);
	}
	return buf;
}

const char *sim_done(struct sim_qp *q)
{
	size_t len = 0;

	q->sim->done[0] = 0;
	ledger_text(q->sim->done, &len, &q->sq, "send");
	return ledger_text(q->sim->done, &len, &q->rq, "recv");
}

bool sim_all_good(const struct sim_qp *q)
{
	return q->sq.bad == 0 && q->rq.bad == 0;
}

/* ---- failure ---- */

static void print_parameters(const struct sim *s)
{
	const struct sim_link_config *c = &s->cfg.link;

	fprintf(stderr, "  run \"%s\", seed %llu, at %llu ns, %llu packets\n",
		s->cfg.name ? s->cfg.name : "", (unsigned long long)s->cfg.seed,
		(unsigned long long)s->now, (unsigned long long)s->packets);
	fprintf(stderr,
		"  links: delay %llu ns, %u ns/KiB, queue %u, loss %g, dup %g, reorder %g, corrupt "
		"%g, "
		"masks %#llx %#llx (A>B) %#llx (B>A)\n",
		(unsigned long long)c->delay_ns, c->ns_per_kib, c->queue_bytes, c->loss, c->dup,
		c->reorder, c->corrupt, (unsigned long long)s->loss_mask,
		(unsigned long long)s->link[0][1].c.loss_mask,
		(unsigned long long)s->link[1][0].c.loss_mask);
	for (const struct sim_qp *q = s->qps; q; q = q->next) {
		struct ibv_qp_attr attr;

		rocemu_qp_query(q->qp, &attr);
		fprintf(stderr,
			"  QP %06x of %c: type %d state %d mtu %d sq_psn %u rq_psn %u; sends "
			"%zu/%zu recvs %zu/%zu\n",
			rocemu_qp_num(q->qp), 'A' + (int)q->node->index, q->type, attr.qp_state,
			attr.path_mtu, attr.sq_psn, attr.rq_psn, q->sq.good + q->sq.bad, q->sq.n,
			q->rq.good + q->rq.bad, q->rq.n);
	}
	for (unsigned i = 0; i < s->nodes; i++) {
		const struct rocemu_ep_stats *st = rocemu_ep_get_stats(s->node[i].ep);

		fprintf(stderr, "  node %c:", 'A' + (int)i);
#define X(field, text) \
	if (st->field) \
		fprintf(stderr, " " #field " %llu", (unsigned long long)st->field);
		ROCEMU_STATS(X)
#undef X
#define X(name, text)                                   \
	if (st->drops[ROCEMU_DROP_##name])              \
		fprintf(stderr, " drop_" #name " %llu", \
			(unsigned long long)st->drops[ROCEMU_DROP_##name]);
		ROCEMU_DROPS(X)
#undef X
		fputc('\n', stderr);
	}
}

void sim_fail(struct sim *s, const char *fmt, ...)
{
	char path[512];
	va_list ap;

	fprintf(stderr, "simulated run failed: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	print_parameters(s);
	fprintf(stderr, "  first packets: %s\n", sim_effects(s));
	if (sim_capture(s, path, sizeof(path)) == 0)
		fprintf(stderr, "  capture: %s\n", path);
	fail();
	abort(); /* fail() does not return, but is not declared noreturn */
}
