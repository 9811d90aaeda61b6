/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests forged messages: each message, in each state, with each field wrong that the state can
 * check. The effect of the right message must not happen.
 */
#include <string.h>

#include "base/util.h"
#include "bench.h"
#include "chain.h"
#include "cm/cm-internal.h"

/* clang-format off */
#define FIELDS(X)                                                              \
	X(SOURCE)       /* from another address */                             \
	X(DESTINATION)  /* to another local address */                       \
	X(TID)          /* another transaction ID */                           \
	X(TO_ID)        /* another local ID */                               \
	X(TO_ID_0)      /* none */                                             \
	X(FROM_ID)      /* another ID of the peer's */                         \
	X(FROM_ID_0)    /* none */                                             \
	X(BOTH_IDS_0)                                                          \
	X(QPN)          /* another local QPN */
/* clang-format on */

enum field {
#define X(name) FIELD_##name,
	FIELDS(X)
#undef X
		FIELD_COUNT
};

static const char *const field_names[] = {
#define X(name) #name,
	FIELDS(X)
#undef X
};

static const uint16_t attrs[] = {
	ROCEMU_CM_MRA,	ROCEMU_CM_REJ,	ROCEMU_CM_REP, ROCEMU_CM_RTU,
	ROCEMU_CM_DREQ, ROCEMU_CM_DREP, ROCEMU_CM_LAP, ROCEMU_CM_APR,
};

static const struct rocemu_gid other_own = {{[10] = 0xff, 0xff, 10, 0, 0, 9}};

/** The active side as long as it has no REP. */
static bool peers_id_unknown(enum cm_state state)
{
	return state == CM_REQ_SENT || state == CM_MRA_REQ_RCVD;
}

/** In this state the message contains the field, and the state can check it. */
static bool checked(enum cm_state state, uint16_t attr, enum field field)
{
	const bool begun_by_peer = attr == ROCEMU_CM_DREQ || attr == ROCEMU_CM_LAP;

	switch (field) {
	case FIELD_TID:
		return !begun_by_peer;
	case FIELD_FROM_ID:
		return !peers_id_unknown(state);
	case FIELD_FROM_ID_0: /* a REJ may come from a peer that has no ID for this */
		return attr != ROCEMU_CM_REJ || !peers_id_unknown(state);
	case FIELD_QPN:
		return begun_by_peer;
	default:
		return true;
	}
}

static void forge(enum field field, struct rocemu_cm_msg *m, struct cm_addr *addr)
{
	/* In all of them at this place. */
	uint32_t *from_id = &m->rtu.local_comm_id, *to_id = &m->rtu.remote_comm_id;

	switch (field) {
	case FIELD_SOURCE:
		addr->src = bench_other;
		break;
	case FIELD_DESTINATION:
		addr->dst = other_own;
		break;
	case FIELD_TID:
		m->tid ^= 1;
		break;
	case FIELD_TO_ID:
		*to_id ^= 1;
		break;
	case FIELD_BOTH_IDS_0:
		*from_id = 0;
		*to_id = 0;
		break;
	case FIELD_TO_ID_0:
		*to_id = 0;
		break;
	case FIELD_FROM_ID:
		*from_id ^= 1;
		break;
	case FIELD_FROM_ID_0:
		*from_id = 0;
		break;
	case FIELD_QPN:
		if (m->attr_id == ROCEMU_CM_DREQ)
			m->dreq.remote_qpn ^= 1;
		else
			m->lap.remote_qpn ^= 1;
		break;
	case FIELD_COUNT:
		break;
	}
}

/** A connection in a state, with a LAP under way if requested. */
static struct cm_conn *start(struct bench *b, enum cm_state state, bool active, bool lap)
{
	const struct rocemu_cm_path path = {.sl = 1};
	struct cm_conn *c;

	bench_start(b);
	c = active ? bench_active_conn(b, state) : bench_conn(b, state);
	if (lap)
		assert_int_equal(cm_lap(c, b->now, &path, 20, NULL, 0), 0);
	bench_sends(b);
	return c;
}

/** What the peer would send, as each state may expect it. */
static void right(const struct bench *b, const struct cm_conn *c, uint16_t attr, bool lap,
		  struct rocemu_cm_msg *m)
{
	bench_message(b, c, attr, m);
	if (attr != ROCEMU_CM_MRA)
		return;
	m->mra.answered = lap			    ? ROCEMU_CM_TO_OTHER
			  : c->state == CM_REP_SENT ? ROCEMU_CM_TO_REP
						    : ROCEMU_CM_TO_REQ;
	if (lap)
		m->tid = c->lap_tid;
}

/** It has changed something: an event, the state, or how long is waited. */
static bool has_effect(struct bench *b, const struct cm_conn *c, enum cm_state state,
		       rocemu_ns_t deadline)
{
	return strcmp(bench_events(b), "-") != 0 || c->state != state ||
	       cm_deadline(b->cm) != deadline;
}

static bool effect_of(enum cm_state state, bool active, bool lap, uint16_t attr, enum field field)
{
	struct cm_addr addr = {.src = bench_peer, .dst = bench_own};
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;
	rocemu_ns_t deadline;
	bool effect;

	c = start(&b, state, active, lap);
	deadline = cm_deadline(b.cm);
	right(&b, c, attr, lap, &m);
	forge(field, &m, &addr);
	bench_in_addr(&b, &m, &addr);
	effect = has_effect(&b, c, state, deadline);
	if (!effect && field != FIELD_COUNT)
		assert_int_not_equal(b.drop, CM_DROP_NONE);
	bench_end(&b);
	return effect;
}

static bool exists(enum cm_state state, bool active)
{
	return !active || state >= CM_ESTABLISHED;
}

TEST(forged, each_message_in_each_state_with_each_field__no_effect)
{
	unsigned tried = 0, effective[ARRAY_LEN(attrs)] = {0};

	for (unsigned n = 0; n < CM_STATE_COUNT * 4 * ARRAY_LEN(attrs); n++) {
		const unsigned i = n % ARRAY_LEN(attrs);
		const bool active = n / ARRAY_LEN(attrs) % 2, lap = n / ARRAY_LEN(attrs) / 2 % 2;
		const enum cm_state state = n / ARRAY_LEN(attrs) / 4;

		if (!exists(state, active) || (lap && state != CM_ESTABLISHED) ||
		    !effect_of(state, active, lap, attrs[i], FIELD_COUNT))
			continue;
		effective[i]++;
		for (enum field field = 0; field < FIELD_COUNT; field++) {
			if (!checked(state, attrs[i], field))
				continue;
			tried++;
			if (effect_of(state, active, lap, attrs[i], field))
				fail_msg("%s (%s%s): %s with a wrong %s has an effect",
					 cm_state_text(state), active ? "active" : "passive",
					 lap ? ", LAP sent" : "", rocemu_cm_name(attrs[i]),
					 field_names[field]);
		}
	}
	for (unsigned i = 0; i < ARRAY_LEN(attrs); i++)
		assert_true(effective[i] > 0);
	assert_true(tried > 150);
}

/* ---- REJ ---- */

/**
 * A peer without an ID for the connection, or without the local one, leaves it out; but only while
 * that is possible.
 */
TEST(forged, rej_without_an_id__taken_only_where_the_sender_may_lack_it)
{
	for (enum cm_state state = CM_REQ_SENT; state < CM_STATE_COUNT; state++) {
		const bool taken =
			state == CM_REQ_RCVD || state == CM_MRA_REQ_SENT || state == CM_REP_SENT;
		struct rocemu_cm_msg m;
		struct cm_conn *c;
		struct bench b;

		bench_start(&b);
		c = bench_conn(&b, state);
		bench_message(&b, c, ROCEMU_CM_REJ, &m);
		m.rej.reason = ROCEMU_CM_REJ_TIMEOUT;
		m.rej.remote_comm_id = 0;
		/* Without the GUID it matches no connection. */
		assert_int_equal(bench_in(&b, &m), CM_DROP_UNKNOWN_ID);
		m.rej.ari[7] = BENCH_PEER_GUID;
		m.rej.ari_len = 8;
		m.rej.ari[0] = 1;
		assert_int_equal(bench_in(&b, &m), CM_DROP_UNKNOWN_ID);
		m.rej.ari[0] = 0;
		assert_int_equal(bench_in(&b, &m) == CM_DROP_NONE, taken);
		assert_int_equal(cm_conn_state(c) != state, taken);
		bench_end(&b);
	}
}

TEST(forged, rej_of_a_message_that_was_not_sent__no_effect)
{
	static const struct {
		enum cm_state state;
		bool active;
		uint8_t answered;
	} rows[] = {
		{CM_REQ_RCVD, false, ROCEMU_CM_TO_REQ},	   {CM_REP_SENT, false, ROCEMU_CM_TO_REQ},
		{CM_ESTABLISHED, false, ROCEMU_CM_TO_REQ}, {CM_ESTABLISHED, true, ROCEMU_CM_TO_REQ},
		{CM_ESTABLISHED, true, ROCEMU_CM_TO_REP},  {CM_REQ_SENT, true, ROCEMU_CM_TO_REP},
		{CM_DREQ_SENT, true, ROCEMU_CM_TO_REQ},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct rocemu_cm_msg m;
		struct cm_conn *c;
		struct bench b;

		c = start(&b, rows[i].state, rows[i].active, false);
		bench_message(&b, c, ROCEMU_CM_REJ, &m);
		m.rej.answered = rows[i].answered;
		assert_int_equal(bench_in(&b, &m), CM_DROP_STATE);
		assert_int_equal(cm_conn_state(c), rows[i].state);
		bench_end(&b);
	}
}

/* ---- REQ: nothing in it is secret ---- */

/** Send a REQ which implies that the peer's end of c is gone, from a port. */
static enum cm_drop claim(struct bench *b, uint16_t sport, bool same_id)
{
	const struct cm_addr addr = {.src = bench_peer, .dst = bench_own, .sport = sport};
	struct rocemu_cm_msg m;

	bench_message(b, NULL, ROCEMU_CM_REQ, &m);
	if (same_id)
		m.req.local_qpn += 7;
	else
		m.req.local_comm_id += 7;
	m.tid += 7;
	return bench_in_addr(b, &m, &addr);
}

TEST(forged, req_of_the_peers_qp_or_id_from_another_port__connection_stays)
{
	for (unsigned n = 0; n < 4; n++) {
		const bool active = n & 1, same_id = n & 2;
		struct cm_conn *c;
		struct bench b;

		bench_start(&b);
		b.sport = 55410;
		c = active ? bench_active_conn(&b, CM_ESTABLISHED) : bench_conn(&b, CM_ESTABLISHED);
		assert_int_equal(claim(&b, 40000, same_id), CM_DROP_STALE);
		assert_string_equal(bench_sends(&b), same_id ? "REJ 30" : "REJ 10");
		assert_int_equal(cm_conn_state(c), CM_ESTABLISHED);
		assert_int_equal(cm_get_stats(b.cm)->spared, 1);
		/* From where the peer's own messages come it is the peer. */
		assert_int_equal(claim(&b, 55410, same_id), CM_DROP_STALE);
		assert_string_equal(bench_sends(&b), same_id ? "REJ 30 DREQ" : "REJ 10 DREQ");
		assert_int_equal(cm_conn_state(c), CM_DREQ_SENT);
		bench_end(&b);
	}
}

TEST(forged, req_of_the_peers_qp_from_another_address__a_connection_of_its_own)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.local_comm_id += 7;
	assert_int_equal(bench_in_from(&b, &m, &bench_other), CM_DROP_NONE);
	assert_string_equal(bench_events(&b), "REQ");
	assert_int_equal(cm_conn_state(c), CM_ESTABLISHED);
	bench_end(&b);
}

/* ---- what answers show ---- */

/** A host elsewhere that tries IDs gets the same answer whether there is such a connection or not.
 */
TEST(forged, rep_from_elsewhere__answered_as_if_there_were_no_connection)
{
	for (enum cm_state state = 0; state < CM_STATE_COUNT; state++) {
		struct bench b;
		struct cm_conn *c;
		struct rocemu_cm_msg m, known, unknown;

		bench_start(&b);
		c = bench_conn(&b, state);
		bench_message(&b, c, ROCEMU_CM_REP, &m);
		bench_in_from(&b, &m, &bench_other);
		assert_string_equal(bench_sends(&b), "REJ 6");
		known = b.sent;
		m.rep.remote_comm_id ^= 1;
		bench_in_from(&b, &m, &bench_other);
		assert_string_equal(bench_sends(&b), "REJ 6");
		unknown = b.sent;
		unknown.rej.local_comm_id ^= 1;
		assert_memory_equal(&known, &unknown, sizeof(known));
		bench_end(&b);
	}
}

/* ---- SIDR ---- */

TEST(forged, sidr_rep_with_each_field__no_effect)
{
	static const enum field fields[] = {FIELD_SOURCE, FIELD_DESTINATION, FIELD_TID};
	const struct cm_sidr_param ask = {.addr = {.src = bench_own, .dst = bench_peer}};

	for (unsigned i = 0; i < ARRAY_LEN(fields); i++) {
		struct cm_addr addr = {.src = bench_peer, .dst = bench_own};
		struct rocemu_cm_msg m;
		struct cm_sidr *s;
		struct bench b;

		bench_start(&b);
		assert_int_equal(cm_sidr_request(b.cm, b.now, &ask, &s), 0);
		bench_message(&b, NULL, ROCEMU_CM_SIDR_REP, &m);
		m.sidr_rep.request_id = cm_sidr_id(s);
		m.tid = s->tid;
		forge(fields[i], &m, &addr);
		assert_int_not_equal(bench_in_addr(&b, &m, &addr), CM_DROP_NONE);
		assert_string_equal(bench_events(&b), "-");
		assert_true(cm_sidr_waits(s));
		bench_end(&b);
	}
}

/** Numbers that would collide in a table without a secret key. qpn: of all, 0: one for each. */
static void flood(struct bench *b, uint32_t qpn)
{
	struct rocemu_cm_msg m;
	uint64_t number = 0;

	bench_start(b);
	cm_listener_set_backlog(b->listener, 4096);
	bench_message(b, NULL, ROCEMU_CM_REQ, &m);
	for (unsigned i = 0; i < 1000; i++) {
		number = chain_next(number);
		m.req.local_comm_id = (uint32_t)number;
		m.req.local_qpn = qpn ? qpn : 2 + ((uint32_t)number & 0x7fffff);
		m.tid = number;
		assert_int_equal(bench_in(b, &m), CM_DROP_NONE);
	}
	assert_in_range(chain_longest(&b->cm->by_id), 1, CHAIN_MOST);
	assert_in_range(chain_longest(&b->cm->by_remote), 1, CHAIN_MOST);
	assert_in_range(chain_longest(&b->cm->by_qpn), 0, CHAIN_MOST);
}

TEST(forged, reqs_with_numbers_that_collide__chains_stay_short)
{
	struct bench b;

	flood(&b, 0);
	assert_int_equal(b.cm->by_qpn.n, 1000);
	bench_end(&b);
}

TEST(forged, reqs_of_one_qp_that_connects_nothing__chains_stay_short)
{
	struct bench b;

	flood(&b, 1);
	bench_end(&b);
}
