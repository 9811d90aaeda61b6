/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each message in each state, each call in each state: what is sent, which event comes, where it
 * leads. "-" where nothing changes: the message is dropped, the call is refused with EINVAL.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "bench.h"

static struct cm_conn *conn_in(struct bench *b, enum cm_state state, bool active)
{
	return active ? bench_active_conn(b, state) : bench_conn(b, state);
}

/** What has happened to c, which was in a state before: "sent: X; event: Y; STATE". */
static const char *effects(struct bench *b, const struct cm_conn *c, enum cm_state before)
{
	static char text[256];
	char sends[100], events[100];
	enum cm_state after = c ? cm_conn_state(c) : before;

	snprintf(sends, sizeof(sends), "%s", bench_sends(b));
	snprintf(events, sizeof(events), "%s", bench_events(b));
	text[0] = 0;
	if (strcmp(sends, "-") != 0)
		snprintf(text, sizeof(text), ">%s", sends);
	if (strcmp(events, "-") != 0)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s!%s",
			 text[0] ? " " : "", events);
	if (after != before)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s=%s",
			 text[0] ? " " : "", cm_state_text(after));
	return text[0] ? text : "-";
}

/* ---- messages ---- */

/** The messages, MRA by what it answers. */
enum msg { REQ, MRA_REQ, MRA_REP, REJ, REP, RTU, DREQ, DREP, LAP, APR, MSGS };

static void make(const struct bench *b, const struct cm_conn *c, enum msg msg,
		 struct rocemu_cm_msg *m)
{
	static const uint16_t attrs[] = {
		[REQ] = ROCEMU_CM_REQ,	 [MRA_REQ] = ROCEMU_CM_MRA, [MRA_REP] = ROCEMU_CM_MRA,
		[REJ] = ROCEMU_CM_REJ,	 [REP] = ROCEMU_CM_REP,	    [RTU] = ROCEMU_CM_RTU,
		[DREQ] = ROCEMU_CM_DREQ, [DREP] = ROCEMU_CM_DREP,   [LAP] = ROCEMU_CM_LAP,
		[APR] = ROCEMU_CM_APR,
	};

	bench_message(b, c, attrs[msg], m);
	if (msg == MRA_REP)
		m->mra.answered = ROCEMU_CM_TO_REP;
}

enum side { PASSIVE, ACTIVE };

/* What is not here has no effect. */
/* clang-format off */
static const struct {
	enum cm_state state;
	enum side side;
	enum msg msg;
	const char *effects;
} message_table[] = {
	{ CM_IDLE, PASSIVE, REP, ">REJ 6" },
	{ CM_IDLE, PASSIVE, DREQ, ">DREP" },
	{ CM_IDLE, ACTIVE, REQ, "!REQ" }, /* a new one: nothing is kept of the peer */
	{ CM_IDLE, ACTIVE, REP, ">REJ 6" },
	{ CM_IDLE, ACTIVE, DREQ, ">DREP" },
	{ CM_REQ_SENT, ACTIVE, REQ, "!REQ" }, /* crossed: a connection of its own */
	{ CM_REQ_SENT, ACTIVE, MRA_REQ, "!MRA =MRA_REQ_RCVD" },
	{ CM_REQ_SENT, ACTIVE, REJ, "!REJ =IDLE" },
	{ CM_REQ_SENT, ACTIVE, REP, "!REP =REP_RCVD" },
	{ CM_REQ_SENT, ACTIVE, DREQ, ">DREP" },
	{ CM_REQ_SENT, ACTIVE, LAP, ">APR" },
	{ CM_MRA_REQ_RCVD, ACTIVE, REQ, "!REQ" },
	{ CM_MRA_REQ_RCVD, ACTIVE, REJ, "!REJ =IDLE" },
	{ CM_MRA_REQ_RCVD, ACTIVE, REP, "!REP =REP_RCVD" },
	{ CM_MRA_REQ_RCVD, ACTIVE, DREQ, ">DREP" },
	{ CM_MRA_REQ_RCVD, ACTIVE, LAP, ">APR" },
	{ CM_REQ_RCVD, PASSIVE, REJ, "!REJ =IDLE" },
	{ CM_MRA_REQ_SENT, PASSIVE, REQ, ">MRA" },
	{ CM_MRA_REQ_SENT, PASSIVE, REJ, "!REJ =IDLE" },
	{ CM_REP_SENT, PASSIVE, REQ, ">REP" },
	{ CM_REP_SENT, PASSIVE, MRA_REP, "!MRA =MRA_REP_RCVD" },
	{ CM_REP_SENT, PASSIVE, REJ, "!REJ =TIMEWAIT" },
	{ CM_REP_SENT, PASSIVE, RTU, "!RTU =ESTABLISHED" },
	{ CM_REP_SENT, PASSIVE, DREQ, "!DREQ =DREQ_RCVD" },
	{ CM_MRA_REP_RCVD, PASSIVE, REJ, "!REJ =TIMEWAIT" },
	{ CM_MRA_REP_RCVD, PASSIVE, RTU, "!RTU =ESTABLISHED" },
	{ CM_MRA_REP_RCVD, PASSIVE, DREQ, "!DREQ =DREQ_RCVD" },
	{ CM_REP_RCVD, ACTIVE, REQ, ">REJ 30" },
	{ CM_REP_RCVD, ACTIVE, REJ, "!REJ =TIMEWAIT" },
	{ CM_MRA_REP_SENT, ACTIVE, REQ, ">REJ 30" },
	{ CM_MRA_REP_SENT, ACTIVE, REJ, "!REJ =TIMEWAIT" },
	{ CM_MRA_REP_SENT, ACTIVE, REP, ">MRA" },
	{ CM_ESTABLISHED, PASSIVE, REJ, "!REJ =TIMEWAIT" },
	{ CM_ESTABLISHED, PASSIVE, DREQ, "!DREQ =DREQ_RCVD" },
	{ CM_ESTABLISHED, PASSIVE, LAP, "!LAP" },
	{ CM_ESTABLISHED, ACTIVE, REQ, ">REJ 30 DREQ =DREQ_SENT" },
	{ CM_ESTABLISHED, ACTIVE, REJ, "!REJ =TIMEWAIT" },
	{ CM_ESTABLISHED, ACTIVE, REP, ">RTU" },
	{ CM_ESTABLISHED, ACTIVE, DREQ, "!DREQ =DREQ_RCVD" },
	{ CM_ESTABLISHED, ACTIVE, LAP, "!LAP" },
	{ CM_DREQ_SENT, PASSIVE, REJ, "!REJ =TIMEWAIT" },
	{ CM_DREQ_SENT, PASSIVE, DREQ, ">DREP !DREP =TIMEWAIT" },
	{ CM_DREQ_SENT, PASSIVE, DREP, "!DREP =TIMEWAIT" },
	{ CM_DREQ_SENT, ACTIVE, REQ, ">REJ 30" },
	{ CM_DREQ_SENT, ACTIVE, REJ, "!REJ =TIMEWAIT" },
	{ CM_DREQ_SENT, ACTIVE, DREQ, ">DREP !DREP =TIMEWAIT" },
	{ CM_DREQ_SENT, ACTIVE, DREP, "!DREP =TIMEWAIT" },
	{ CM_DREQ_RCVD, ACTIVE, REQ, ">REJ 30" },
	{ CM_TIMEWAIT, PASSIVE, DREQ, ">DREP" },
	{ CM_TIMEWAIT, ACTIVE, REQ, ">REJ 30" },
	{ CM_TIMEWAIT, ACTIVE, DREQ, ">DREP" },
};
/* clang-format on */

static const char *message_effects(enum cm_state state, enum side side, enum msg msg)
{
	for (unsigned i = 0; i < ARRAY_LEN(message_table); i++)
		if (message_table[i].state == state && message_table[i].side == side &&
		    message_table[i].msg == msg)
			return message_table[i].effects;
	return "-";
}

static void check_message(enum cm_state state, enum side side, enum msg msg)
{
	const char *want = message_effects(state, side, msg), *got;
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = conn_in(&b, state, side == ACTIVE);
	make(&b, c, msg, &m);
	bench_in(&b, &m);
	got = effects(&b, c, state);
	if (strcmp(got, want) != 0)
		fail_msg("%s (%s): message %d: %s, not %s", cm_state_text(state),
			 side == ACTIVE ? "active" : "passive", msg, got, want);
	if (!strcmp(want, "-"))
		assert_int_not_equal(b.drop, CM_DROP_NONE);
	bench_end(&b);
}

/** States that both sides have come twice. */
static bool exists(enum cm_state state, enum side side)
{
	bool active = state == CM_REQ_SENT || state == CM_MRA_REQ_RCVD || state == CM_REP_RCVD ||
		      state == CM_MRA_REP_SENT;

	return state >= CM_ESTABLISHED || state == CM_IDLE || active == (side == ACTIVE);
}

TEST(states, each_message_in_each__as_the_table_says)
{
	for (unsigned state = 0; state < CM_STATE_COUNT; state++)
		for (unsigned side = 0; side < 2; side++)
			for (unsigned msg = 0; exists(state, side) && msg < MSGS; msg++)
				check_message(state, side, msg);
}

/** From another address than the peer's nothing has an effect but what has no connection. */
TEST(states, each_message_from_elsewhere__does_not_change_it)
{
	for (unsigned state = 0; state < CM_STATE_COUNT; state++)
		for (unsigned msg = MRA_REQ; msg < MSGS; msg++) {
			struct rocemu_cm_msg m;
			struct cm_conn *c;
			struct bench b;

			bench_start(&b);
			c = bench_conn(&b, state);
			make(&b, c, msg, &m);
			bench_in_from(&b, &m, &bench_other);
			assert_int_equal(cm_conn_state(c), state);
			assert_string_equal(bench_events(&b), "-");
			bench_end(&b);
		}
}

/** Nor with another communication ID of the peer; but in REQ_SENT it is not known yet. */
TEST(states, each_message_with_another_id__does_not_change_it)
{
	for (unsigned state = CM_REQ_RCVD; state < CM_STATE_COUNT; state++)
		for (unsigned msg = MRA_REQ; msg < MSGS; msg++) {
			struct rocemu_cm_msg m;
			struct cm_conn *c;
			struct bench b;

			bench_start(&b);
			c = bench_conn(&b, state);
			make(&b, c, msg, &m);
			m.rtu.local_comm_id ^= 1; /* in all of them at this place */
			bench_in(&b, &m);
			assert_int_equal(cm_conn_state(c), state);
			assert_string_equal(bench_events(&b), "-");
			bench_end(&b);
		}
}

/* ---- calls ---- */

enum call { ACCEPT_, RTU_, REJECT_, MRA_, ESTABLISH_, DISCONNECT_, DREP_, LAP_, APR_, CALLS };

static int call(struct bench *b, struct cm_conn *c, enum call what, size_t len)
{
	static const uint8_t data[256];
	const struct rocemu_cm_rep rep = {.local_qpn = BENCH_OWN_QPN};
	const struct rocemu_cm_path path = {.sl = 1};

	switch (what) {
	case ACCEPT_:
		return cm_accept(c, b->now, &rep, data, len);
	case RTU_:
		return cm_rtu(c, b->now, data, len);
	case REJECT_:
		return cm_reject(c, b->now, ROCEMU_CM_REJ_CONSUMER, NULL, 0, data, len);
	case MRA_:
		return cm_mra(c, b->now, 20, data, len);
	case ESTABLISH_:
		return cm_establish(c, b->now);
	case DISCONNECT_:
		return cm_disconnect(c, b->now, data, len);
	case DREP_:
		return cm_drep(c, b->now, data, len);
	case LAP_:
		return cm_lap(c, b->now, &path, 20, data, len);
	case APR_:
		return cm_apr(c, b->now, ROCEMU_CM_APR_LOADED, NULL, 0, data, len);
	case CALLS:
		break;
	}
	return -ENOSYS;
}

/* What is not here is EINVAL. */
/* clang-format off */
static const struct {
	enum cm_state state;
	enum call call;
	const char *effects;
} call_table[] = {
	{ CM_REQ_SENT, REJECT_, ">REJ 28 =IDLE" },
	{ CM_MRA_REQ_RCVD, REJECT_, ">REJ 28 =IDLE" },
	{ CM_REQ_RCVD, ACCEPT_, ">REP =REP_SENT" },
	{ CM_REQ_RCVD, REJECT_, ">REJ 28 =IDLE" },
	{ CM_REQ_RCVD, MRA_, ">MRA =MRA_REQ_SENT" },
	{ CM_MRA_REQ_SENT, ACCEPT_, ">REP =REP_SENT" },
	{ CM_MRA_REQ_SENT, REJECT_, ">REJ 28 =IDLE" },
	{ CM_REP_SENT, REJECT_, ">REJ 28 =TIMEWAIT" },
	{ CM_REP_SENT, ESTABLISH_, "=ESTABLISHED" },
	{ CM_MRA_REP_RCVD, REJECT_, ">REJ 28 =TIMEWAIT" },
	{ CM_MRA_REP_RCVD, ESTABLISH_, "=ESTABLISHED" },
	{ CM_REP_RCVD, RTU_, ">RTU =ESTABLISHED" },
	{ CM_REP_RCVD, REJECT_, ">REJ 28 =TIMEWAIT" },
	{ CM_REP_RCVD, MRA_, ">MRA =MRA_REP_SENT" },
	{ CM_MRA_REP_SENT, RTU_, ">RTU =ESTABLISHED" },
	{ CM_MRA_REP_SENT, REJECT_, ">REJ 28 =TIMEWAIT" },
	{ CM_ESTABLISHED, ESTABLISH_, "-" },
	{ CM_ESTABLISHED, DISCONNECT_, ">DREQ =DREQ_SENT" },
	{ CM_ESTABLISHED, LAP_, ">LAP" },
	{ CM_DREQ_RCVD, DREP_, ">DREP =TIMEWAIT" },
};
/* clang-format on */

static const char *call_effects(enum cm_state state, enum call what)
{
	for (unsigned i = 0; i < ARRAY_LEN(call_table); i++)
		if (call_table[i].state == state && call_table[i].call == what)
			return call_table[i].effects;
	return "EINVAL";
}

static void check_call(enum cm_state state, enum call what)
{
	const char *want = call_effects(state, what), *got;
	struct cm_conn *c;
	struct bench b;
	int r;

	bench_start(&b);
	c = bench_conn(&b, state);
	r = call(&b, c, what, 0);
	got = effects(&b, c, state);
	if (r == -EINVAL) {
		assert_string_equal(got, "-");
		got = "EINVAL";
	} else {
		assert_int_equal(r, state == CM_ESTABLISHED && what == ESTABLISH_);
	}
	if (strcmp(got, want) != 0)
		fail_msg("%s: call %d: %s, not %s", cm_state_text(state), what, got, want);
	bench_end(&b);
}

TEST(states, each_call_in_each__as_the_table_says)
{
	for (unsigned state = 0; state < CM_STATE_COUNT; state++)
		for (unsigned what = 0; what < CALLS; what++)
			check_call(state, what);
}

TEST(states, private_data_too_long__emsgsize_and_no_effect)
{
	static const struct {
		enum cm_state state;
		enum call call;
		size_t room;
	} cases[] = {
		{CM_REQ_RCVD, ACCEPT_, ROCEMU_CM_REP_PRIVATE_LEN},
		{CM_REQ_RCVD, REJECT_, ROCEMU_CM_REJ_PRIVATE_LEN},
		{CM_REQ_RCVD, MRA_, ROCEMU_CM_MRA_PRIVATE_LEN},
		{CM_REP_RCVD, RTU_, ROCEMU_CM_RTU_PRIVATE_LEN},
		{CM_ESTABLISHED, DISCONNECT_, ROCEMU_CM_DREQ_PRIVATE_LEN},
		{CM_ESTABLISHED, LAP_, ROCEMU_CM_LAP_PRIVATE_LEN},
		{CM_DREQ_RCVD, DREP_, ROCEMU_CM_DREP_PRIVATE_LEN},
	};

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		struct cm_conn *c;
		struct bench b;

		bench_start(&b);
		c = bench_conn(&b, cases[i].state);
		assert_int_equal(call(&b, c, cases[i].call, cases[i].room + 1), -EMSGSIZE);
		assert_string_equal(effects(&b, c, cases[i].state), "-");
		assert_int_equal(call(&b, c, cases[i].call, cases[i].room), 0);
		bench_end(&b);
	}
}

TEST(states, reject_information_too_long__emsgsize_and_no_effect)
{
	static const uint8_t ari[ROCEMU_CM_INFO_LEN + 1];
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_REQ_RCVD);
	assert_int_equal(cm_reject(c, b.now, 1, ari, sizeof(ari), NULL, 0), -EMSGSIZE);
	assert_string_equal(effects(&b, c, CM_REQ_RCVD), "-");
	assert_int_equal(cm_reject(c, b.now, 1, ari, sizeof(ari) - 1, NULL, 0), 0);
	bench_end(&b);
}

/* ---- destruction ---- */

/** The message to the peer when the consumer destroys a connection, or its process dies. */
TEST(states, destroyed_in_each__the_peer_gets_the_exit_mad)
{
	static const char *const told[CM_STATE_COUNT] = {
		[CM_IDLE] = "-",
		[CM_REQ_SENT] = "REJ 4",
		[CM_MRA_REQ_RCVD] = "REJ 4",
		[CM_REQ_RCVD] = "REJ 28",
		[CM_MRA_REQ_SENT] = "REJ 28",
		[CM_REP_SENT] = "REJ 28",
		[CM_MRA_REP_RCVD] = "REJ 28",
		[CM_REP_RCVD] = "REJ 28",
		[CM_MRA_REP_SENT] = "REJ 28",
		[CM_ESTABLISHED] = "DREQ",
		[CM_DREQ_SENT] = "-", /* the DREQ goes on */
		[CM_DREQ_RCVD] = "DREP",
		[CM_TIMEWAIT] = "-",
	};

	for (unsigned state = 0; state < CM_STATE_COUNT; state++) {
		struct rocemu_cm_msg m;
		struct cm_conn *c;
		struct cm_mad mad;
		struct bench b;
		bool will;

		bench_start(&b);
		c = bench_conn(&b, state);
		will = cm_conn_exit_mad(c, &mad);
		assert_int_equal(will, state == CM_DREQ_SENT || strcmp(told[state], "-") != 0);
		cm_conn_destroy(c, b.now);
		assert_string_equal(bench_sends(&b), told[state]);
		assert_string_equal(bench_events(&b), "-");
		if (will && state != CM_DREQ_SENT) {
			assert_int_equal(rocemu_cm_decode(&m, mad.data, sizeof(mad.data)),
					 ROCEMU_MAD_OK);
			assert_memory_equal(&m, &b.sent, sizeof(m));
			assert_memory_equal(&mad.addr.dst, &bench_peer, sizeof(bench_peer));
		}
		bench_end(&b);
	}
}
