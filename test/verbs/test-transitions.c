/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transition table (IBTA 11.2.5.2, table 91) as programs meet it: for each service and each
 * pair of states, the attributes that must be given, those that may be, and that anything else is
 * EINVAL and changes nothing.
 */
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "dev.h"

enum { STATES = IBV_QPS_ERR + 1, SERVICES = 5 };

static const enum ibv_qp_type services[SERVICES] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						    IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV};
static const char *const service_names[SERVICES] = {"RC", "UC", "UD", "XRC_SEND", "XRC_RECV"};
static const char *const state_names[STATES] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

static const struct {
	const char *name;
	int bit;
} attributes[] = {
	{"access", IBV_QP_ACCESS_FLAGS},
	{"pkey", IBV_QP_PKEY_INDEX},
	{"port", IBV_QP_PORT},
	{"qkey", IBV_QP_QKEY},
	{"av", IBV_QP_AV},
	{"mtu", IBV_QP_PATH_MTU},
	{"timeout", IBV_QP_TIMEOUT},
	{"retry", IBV_QP_RETRY_CNT},
	{"rnr-retry", IBV_QP_RNR_RETRY},
	{"rq-psn", IBV_QP_RQ_PSN},
	{"rd", IBV_QP_MAX_QP_RD_ATOMIC},
	{"alt", IBV_QP_ALT_PATH},
	{"rnr-timer", IBV_QP_MIN_RNR_TIMER},
	{"sq-psn", IBV_QP_SQ_PSN},
	{"dest-rd", IBV_QP_MAX_DEST_RD_ATOMIC},
	{"mig", IBV_QP_PATH_MIG_STATE},
	{"dest-qpn", IBV_QP_DEST_QPN},
	{"cur", IBV_QP_CUR_STATE},
	{"notify", IBV_QP_EN_SQD_ASYNC_NOTIFY},
};
enum { ATTRIBUTES = sizeof(attributes) / sizeof(attributes[0]) };

/* Services (R: RC, C: UC, D: UD, I: XRC_SEND, T: XRC_RECV), states, what must be given, what may
 * be. */
static const struct rule {
	const char *services, *from, *to, *need, *may;
} rules[] = {
	{"RCIT", "RESET", "INIT", "pkey port access", ""},
	{"D", "RESET", "INIT", "pkey port qkey", ""},
	{"RCIT", "INIT", "INIT", "", "pkey port access"},
	{"D", "INIT", "INIT", "", "pkey port qkey"},
	{"RT", "INIT", "RTR", "av mtu dest-qpn rq-psn dest-rd rnr-timer", "alt access pkey"},
	{"CI", "INIT", "RTR", "av mtu dest-qpn rq-psn", "alt access pkey"},
	{"D", "INIT", "RTR", "", "pkey qkey"},
	{"RI", "RTR", "RTS", "timeout retry rnr-retry sq-psn rd", "cur alt mig access"},
	{"R", "RTR", "RTS", "", "rnr-timer"},
	{"T", "RTR", "RTS", "timeout sq-psn", "cur alt mig access rnr-timer"},
	{"C", "RTR", "RTS", "sq-psn", "cur alt mig access"},
	{"D", "RTR", "RTS", "sq-psn", "cur qkey"},
	{"RCIT", "RTS", "RTS", "", "cur alt mig access"},
	{"RT", "RTS", "RTS", "", "rnr-timer"},
	{"D", "RTS", "RTS", "", "cur qkey"},
	{"RCDIT", "RTS", "SQD", "", "notify"},
	{"RCIT", "SQD", "RTS", "", "cur alt mig access"},
	{"RT", "SQD", "RTS", "", "rnr-timer"},
	{"D", "SQD", "RTS", "", "cur qkey"},
	{"RCIT", "SQD", "SQD", "", "av alt mig access pkey"},
	{"RIT", "SQD", "SQD", "", "port timeout"},
	{"RI", "SQD", "SQD", "", "retry rnr-retry rd"},
	{"RT", "SQD", "SQD", "", "dest-rd rnr-timer"},
	{"D", "SQD", "SQD", "", "pkey qkey"},
	{"C", "SQE", "RTS", "", "cur access"},
	{"D", "SQE", "RTS", "", "cur qkey"},
	{"RCDIT", "RESET", "RESET", "", ""},
	{"RCDIT", "INIT RTR RTS SQD SQE ERR", "RESET ERR", "", ""},
};

static bool has_word(const char *list, const char *word)
{
	const size_t len = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += len)
		if ((at == list || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
			return true;
	return false;
}

static int bits_of(const char *list)
{
	int bits = 0;

	for (unsigned i = 0; i < ATTRIBUTES; i++)
		if (has_word(list, attributes[i].name))
			bits |= attributes[i].bit;
	return bits;
}

/** @return is there such a transition, and with which attributes. */
static bool look_up(unsigned service, unsigned from, unsigned to, int *need, int *may)
{
	bool found = false;

	*need = *may = 0;
	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		const struct rule *r = &rules[i];

		if (!strchr(r->services, "RCDIT"[service]) ||
		    !has_word(r->from, state_names[from]) || !has_word(r->to, state_names[to]))
			continue;
		found = true;
		*need |= bits_of(r->need);
		*may |= bits_of(r->may);
	}
	return found;
}

/* ---- a QP in any state ---- */

struct bench {
	struct dev d;
	struct ibv_xrcd *xrcd;
	struct ibv_ah *ah;
};

static void open_bench(struct bench *b)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = 0};

	dev_open(&b->d);
	b->xrcd = ibv_open_xrcd(b->d.ctx, &attr);
	assert_non_null(b->xrcd);
	b->ah = dev_self_ah(&b->d);
}

static void close_bench(struct bench *b)
{
	assert_int_equal(ibv_destroy_ah(b->ah), 0);
	assert_int_equal(ibv_close_xrcd(b->xrcd), 0);
	dev_close(&b->d);
}

static struct ibv_qp *new_qp(struct bench *b, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp;

	if (type == IBV_QPT_XRC_RECV) {
		attr.cap = (struct ibv_qp_cap){0};
		attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		attr.xrcd = b->xrcd;
	} else {
		attr.comp_mask = IBV_QP_INIT_ATTR_PD;
		attr.pd = b->d.pd;
		attr.send_cq = b->d.cq;
		if (type != IBV_QPT_XRC_SEND)
			attr.recv_cq = b->d.cq;
		else
			attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
	}
	qp = ibv_create_qp_ex(b->d.ctx, &attr);
	assert_non_null(qp);
	return qp;
}

static struct ibv_qp_attr values(struct bench *b, unsigned from, unsigned to)
{
	struct ibv_qp_attr a = {
		.qp_state = (enum ibv_qp_state)to,
		.cur_qp_state = (enum ibv_qp_state)from,
		.path_mtu = IBV_MTU_1024,
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = 0x1234,
		.dest_qp_num = 0x123,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
		.alt_ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.alt_port_num = 1,
		.alt_timeout = 14,
	};

	assert_int_equal(ibv_query_gid(b->d.ctx, 1, 0, &a.ah_attr.grh.dgid), 0);
	a.alt_ah_attr.grh.dgid = a.ah_attr.grh.dgid;
	return a;
}

static int modify(struct bench *b, struct ibv_qp *qp, unsigned from, unsigned to, int mask)
{
	struct ibv_qp_attr a = values(b, from, to);

	return ibv_modify_qp(qp, &a, mask | IBV_QP_STATE);
}

static unsigned state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static void step(struct bench *b, struct ibv_qp *qp, unsigned service, unsigned from, unsigned to)
{
	int need, may;

	assert_true(look_up(service, from, to, &need, &may));
	assert_int_equal(modify(b, qp, from, to, need), 0);
}

/** UC and UD come to SQE by a request of theirs that fails. */
static void fail_send(struct bench *b, struct ibv_qp *qp)
{
	struct ibv_sge sge = {.addr = 1, .length = 1, .lkey = 0xbad};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;

	if (qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = b->ah;
		wr.wr.ud.remote_qpn = 0x123;
	}
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(dev_poll(b->d.cq).status, IBV_WC_LOC_PROT_ERR);
}

static bool can_be_in(unsigned service, unsigned state)
{
	return state != IBV_QPS_SQE || services[service] == IBV_QPT_UC ||
	       services[service] == IBV_QPT_UD;
}

/** A new QP in that state. */
static struct ibv_qp *qp_in(struct bench *b, unsigned service, unsigned state)
{
	struct ibv_qp *qp = new_qp(b, services[service]);

	if (state >= IBV_QPS_INIT)
		step(b, qp, service, IBV_QPS_RESET, IBV_QPS_INIT);
	if (state == IBV_QPS_ERR)
		step(b, qp, service, IBV_QPS_INIT, IBV_QPS_ERR);
	if (state == IBV_QPS_INIT || state == IBV_QPS_RESET || state == IBV_QPS_ERR)
		return qp;
	step(b, qp, service, IBV_QPS_INIT, IBV_QPS_RTR);
	if (state == IBV_QPS_RTR)
		return qp;
	step(b, qp, service, IBV_QPS_RTR, IBV_QPS_RTS);
	if (state == IBV_QPS_SQD)
		step(b, qp, service, IBV_QPS_RTS, IBV_QPS_SQD);
	if (state == IBV_QPS_SQE)
		fail_send(b, qp);
	return qp;
}

/* ---- the tests ---- */

static unsigned failures;

/** One transition of a QP of its own, with these attributes. */
static void expect(struct bench *b, unsigned service, unsigned from, unsigned to, int mask, int err,
		   const char *with)
{
	struct ibv_qp *qp = qp_in(b, service, from);
	const unsigned before = state_of(qp);
	const int got = modify(b, qp, from, to, mask);
	const unsigned after = state_of(qp);

	if (before != from || got != err || after != (err ? from : to)) {
		print_error("%s %s -> %s %s: %s, now %s\n", service_names[service],
			    state_names[from], state_names[to], with, got ? strerror(got) : "done",
			    state_names[after]);
		failures++;
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/** The kernel passes over what only the other half of an XRC connection has, so that programs can
 * treat it as RC. */
static int passed_over(unsigned service)
{
	switch (services[service]) {
	case IBV_QPT_XRC_SEND:
		return bits_of("dest-rd rnr-timer");
	case IBV_QPT_XRC_RECV:
		return bits_of("retry rnr-retry rd");
	default:
		return 0;
	}
}

/** What comes of an attribute that need not be given. */
static int outcome(unsigned service, int bit, int may)
{
	if (bit & passed_over(service))
		return 0;
	if (!(bit & may))
		return EINVAL;
	return bit == IBV_QP_ALT_PATH ? EOPNOTSUPP : 0; /* IBV_DEVICE_AUTO_PATH_MIG is not set */
}

/** Each attribute in turn: left out where it must be given, added where it may or may not be. */
static void each_attribute(struct bench *b, unsigned service, unsigned from, unsigned to, int need,
			   int may)
{
	char with[64];

	for (unsigned i = 0; i < ATTRIBUTES; i++) {
		const int bit = attributes[i].bit;

		snprintf(with, sizeof(with), "%s %s", need & bit ? "without" : "with",
			 attributes[i].name);
		if (need & bit)
			expect(b, service, from, to, need & ~bit, EINVAL, with);
		else
			expect(b, service, from, to, need | bit, outcome(service, bit, may), with);
	}
}

static void whole_table(unsigned service)
{
	struct bench b;
	int need, may;

	failures = 0;
	open_bench(&b);
	for (unsigned from = 0; from < STATES; from++)
		for (unsigned to = 0; to < STATES; to++) {
			if (!can_be_in(service, from))
				continue;
			if (look_up(service, from, to, &need, &may)) {
				expect(&b, service, from, to, need, 0, "as it must be");
				each_attribute(&b, service, from, to, need, may);
			} else {
				expect(&b, service, from, to, 0, EINVAL, "which there is not");
			}
		}
	close_bench(&b);
	assert_int_equal(failures, 0);
}

TEST(transitions, rc__as_the_table_says)
{
	whole_table(0);
}

TEST(transitions, uc__as_the_table_says)
{
	whole_table(1);
}

TEST(transitions, ud__as_the_table_says)
{
	whole_table(2);
}

TEST(transitions, xrc_send__as_the_table_says)
{
	whole_table(3);
}

TEST(transitions, xrc_recv__as_the_table_says)
{
	whole_table(4);
}

TEST(transitions, cur_state_that_it_is_not__einval)
{
	struct ibv_qp *qp;
	struct bench b;

	open_bench(&b);
	qp = qp_in(&b, 0, IBV_QPS_RTS);
	assert_int_equal(modify(&b, qp, IBV_QPS_SQD, IBV_QPS_RTS, IBV_QP_CUR_STATE), EINVAL);
	assert_int_equal(modify(&b, qp, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_CUR_STATE), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	close_bench(&b);
}
