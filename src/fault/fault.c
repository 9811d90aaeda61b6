/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/fault.h"

#include <stdlib.h>
#include <string.h>

#include <rocemu/endpoint.h>

#include "base/hash.h"
#include "base/util.h"
#include "wire/bth.h"

enum {
	STARTS = 256, /* messages of a QP whose first PSN is remembered */
	RESTART_PSNS =
		65536,	  /* a PSN this far behind the last message belongs to another connection */
	RULE_DICE = 0x20, /* apart from the dice of impair.c */
};

/* The messages of one direction of a QP. */
struct messages {
	uint32_t count;
	uint32_t start[STARTS]; /* PSNs of the last ones, by number modulo STARTS */
};

enum { SENT, RECEIVED };

struct rule_state {
	struct rng rng;
	uint64_t matched, acted;
};

/* A QP that had packets, for rules that depend on its earlier ones. */
struct qp_state {
	struct hash_node node; /* in faults.qps, by QPN */
	uint64_t seen;	       /* a bit for each rule "first": it has matched */
	struct messages messages[2];
};

struct faults {
	unsigned n;
	bool wants[2];	      /* by direction */
	bool counts_messages; /* some rule needs them */
	struct hash qps;      /* owned */
	struct rule_state state[FAULT_RULES];
	struct fault_rule rule[FAULT_RULES];
};

/* ---- life ---- */

static void state_init(struct faults *f, unsigned i, uint64_t seed)
{
	const struct fault_rule *r = &f->rule[i];
	struct rule_state *s = &f->state[i];

	rng_init(&s->rng, seed ^ (uint64_t)(RULE_DICE + i) << 48);
	s->rng.state = rng_u64(&s->rng);
	f->wants[r->dir] = true;
	/* The message of a response is found by its request, which goes the other way. */
	if (r->message.min)
		f->counts_messages = f->wants[FAULT_TX] = f->wants[FAULT_RX] = true;
}

struct faults *faults_new(const struct fault_rule *rules, unsigned n, uint64_t seed)
{
	struct faults *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->n = n;
	memcpy(f->rule, rules, n * sizeof(*rules));
	for (unsigned i = 0; i < n; i++)
		state_init(f, i, seed);
	return f;
}

void faults_free(struct faults *f)
{
	if (!f)
		return;
	hash_for_all (q, struct qp_state, node, &f->qps) {
		hash_remove(&f->qps, &q->node);
		free(q);
	}
	hash_fini(&f->qps);
	free(f);
}

bool faults_wants(const struct faults *f, enum fault_dir dir)
{
	return f && f->wants[dir];
}

/* ---- messages ---- */

/* NULL: no memory. */
static struct qp_state *state_of(struct faults *f, uint32_t qp)
{
	struct hash_node *n = hash_find(&f->qps, qp);
	struct qp_state *q = n ? container_of(n, struct qp_state, node) : calloc(1, sizeof(*q));

	if (!n && q)
		hash_add(&f->qps, &q->node, qp);
	return q;
}

/* The PSN of a request's first packet: is it a new message's? */
static bool is_new(const struct messages *m, uint32_t psn)
{
	int32_t ahead;

	if (!m->count)
		return true;
	ahead = rocemu_psn_diff(psn, m->start[(m->count - 1) % STARTS]);
	return ahead > 0 || ahead < -RESTART_PSNS;
}

/*
 * Which message of its QP the packet belongs to, from 1: of a request and of its responses the
 * same, a repeated one's as the first time. 0: not known.
 */
static uint32_t message_of(struct faults *f, const struct fault_packet *p)
{
	const uint32_t ops = rocemu_opcode_ops(p->hdr[0]), psn = bth_psn(p->hdr);
	const bool request = ops & ROCEMU_OP_REQUEST;
	const enum rocemu_service service = rocemu_opcode_service(p->hdr[0]);
	struct qp_state *q;
	struct messages *m;

	if (!(ops & (ROCEMU_OP_REQUEST | ROCEMU_OP_RESPONSE)) || !(q = state_of(f, p->qp)))
		return 0;
	m = &q->messages[(p->dir == FAULT_TX) == request ? SENT : RECEIVED];
	/* These services do not retransmit, and PSNs of several senders may be mixed. */
	if (service == ROCEMU_SVC_UD || service == ROCEMU_SVC_UC)
		return m->count += (ops & ROCEMU_OP_FIRST) != 0;
	if (request && (ops & ROCEMU_OP_FIRST) && is_new(m, psn))
		m->start[m->count++ % STARTS] = psn;
	for (uint32_t n = m->count; n && n + STARTS > m->count; n--)
		if (rocemu_psn_diff(psn, m->start[(n - 1) % STARTS]) >= 0)
			return n;
	return 0;
}

/* ---- rules ---- */

static bool within(const struct fault_range *r, uint64_t v)
{
	return v >= r->min && v <= r->max;
}

/* Bytes of payload, without the pad. */
static uint32_t payload_len(const struct fault_packet *p)
{
	const uint32_t pad = p->hdr[BTH_FLAGS] >> BTH_PAD_SHIFT & BTH_PAD_MASK;
	const uint32_t rest = (uint32_t)rocemu_opcode_hdr_len(p->hdr[0]) + pad + ROCEMU_ICRC_LEN;

	return p->len > rest ? p->len - rest : 0;
}

/* Where the bit to be flipped may be. */
static bool corruptible(const struct fault_rule *r, const struct fault_packet *p, uint32_t *first,
			uint32_t *bits)
{
	if (r->field != FAULT_FIELD_BIT)
		return fault_field_place(r->field, p->hdr, p->len, first, bits);
	*first = r->bit;
	*bits = 1;
	return r->bit < p->len * 8;
}

static bool matches(const struct fault_rule *r, const struct fault_packet *p, uint32_t message)
{
	uint32_t first, bits;

	return r->dir == p->dir && r->opcodes[p->hdr[0] / 64] >> p->hdr[0] % 64 & 1 &&
	       within(&r->qp, p->qp) && within(&r->dqp, bth_dqpn(p->hdr)) &&
	       within(&r->psn, bth_psn(p->hdr)) &&
	       (!r->by_peer || !memcmp(&r->peer, p->peer, sizeof(r->peer))) &&
	       within(&r->payload, payload_len(p)) && within(&r->message, message) &&
	       (r->action != FAULT_CORRUPT || corruptible(r, p, &first, &bits));
}

/* "first" matched: the rule is done. */
static bool is_first(struct faults *f, unsigned rule, uint32_t qp)
{
	const uint64_t bit = UINT64_C(1) << rule;
	struct qp_state *q = state_of(f, qp);
	const bool first = q && !(q->seen & bit);

	if (q)
		q->seen |= bit;
	return first;
}

/* Does the rule act on a packet that matches? A random number is drawn for each. */
static bool chosen(const struct fault_rule *r, struct rule_state *s)
{
	const uint64_t number = ++s->matched;
	const bool luck = rng_chance(&s->rng, r->chance);

	if (!within(&r->nth, number) || number % r->every || !luck || s->acted >= r->times)
		return false;
	s->acted++;
	return true;
}

static void act(const struct fault_rule *r, struct rule_state *s, const struct fault_packet *p,
		struct fault_verdict *v)
{
	uint32_t first, bits;

	switch (r->action) {
	case FAULT_DROP:
		v->drop = true;
		break;
	case FAULT_DUP:
		v->dups++;
		break;
	case FAULT_DELAY:
		v->delay_ns += r->time.min;
		if (r->time.max > r->time.min)
			v->delay_ns += rng_u64(&s->rng) % (r->time.max - r->time.min + 1);
		break;
	case FAULT_CORRUPT:
		if (!corruptible(r, p, &first, &bits))
			break;
		first += rng_below(&s->rng, bits);
		if (r->icrc_right && v->nsealed < FAULT_BITS)
			v->sealed[v->nsealed++] = first;
		else if (!r->icrc_right && v->nraw < FAULT_BITS)
			v->raw[v->nraw++] = first;
		break;
	case FAULT_MARK:
		v->mark = true;
		break;
	default:
		break;
	}
}

void faults_decide(struct faults *f, const struct fault_packet *p, struct fault_verdict *v)
{
	const uint32_t message = f->counts_messages ? message_of(f, p) : 0;

	*v = (struct fault_verdict){0};
	for (unsigned i = 0; i < f->n; i++) {
		const struct fault_rule *r = &f->rule[i];
		struct rule_state *s = &f->state[i];

		if (!matches(r, p, message) || (r->first && !is_first(f, i, p->qp)))
			continue;
		v->matched |= UINT64_C(1) << i;
		if (!chosen(r, s))
			continue;
		v->acted |= UINT64_C(1) << i;
		act(r, s, p, v);
	}
}
