/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios: the QP's states; which steps are taken, and with which attributes. */
#include <string.h>

#include "parity.h"

static const struct {
	const char *name;
	enum ibv_qp_type type;
} services[] = {{"rc", IBV_QPT_RC}, {"uc", IBV_QPT_UC}, {"ud", IBV_QPT_UD}};

/* ---- from each state to each other one ---- */

struct transition {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
};

/** The attributes that this step takes in the usual way up; for others the state alone. */
static int attributes_for(struct pair *p, const struct setup *s, enum ibv_qp_state from,
			  enum ibv_qp_state to, struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	if (to == IBV_QPS_INIT)
		return step_attr(&p->req, &p->rsp, s, TO_INIT, attr);
	if (to == IBV_QPS_RTR)
		return step_attr(&p->req, &p->rsp, s, TO_RTR, attr);
	if (to == IBV_QPS_RTS && from < IBV_QPS_RTS)
		return step_attr(&p->req, &p->rsp, s, TO_RTS, attr);
	attr->qp_state = to;
	return IBV_QP_STATE;
}

static void run_transition(struct pair *p, const void *arg)
{
	const struct transition *t = arg;
	enum ibv_qp_state up = t->from == IBV_QPS_RESET ? STAY_RESET
			       : t->from <= IBV_QPS_RTS ? t->from
							: IBV_QPS_RTS;
	struct setup s = {.type = t->type, .state = up};
	struct ibv_qp_attr attr;
	int mask, err;

	pair_setup(p, &s);
	if (t->from > IBV_QPS_RTS) {
		modify_state(&p->req, t->from);
		state_say(&p->req, t->from);
	}
	mask = attributes_for(p, &s, t->from, t->to, &attr);
	err = modify_say(&p->req, "modify", &attr, mask);
	state_say(&p->req, err ? t->from : t->to);
}

static void add_transitions(void)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_RTS,	  IBV_QPS_SQD,	IBV_QPS_ERR};
	static struct transition table[COUNT(services) * COUNT(states) * COUNT(states)];
	unsigned used = 0;

	for (unsigned i = 0; i < COUNT(services); i++)
		for (unsigned from = 0; from < COUNT(states); from++)
			for (unsigned to = 0; to < COUNT(states); to++) {
				struct transition *t = &table[used++];

				*t = (struct transition){services[i].type, states[from],
							 states[to]};
				registry_add(run_transition, t, ALONE, "state/%s/%s-to-%s",
					     services[i].name, text_state(t->from),
					     text_state(t->to));
			}
}

/* ---- a required attribute is missing, or one too many is there ---- */

struct mask {
	enum ibv_qp_type type;
	enum step step;
	int without, with;
	const char *name;
};

/** Try a step, and print the QP's state. */
static void step_say(struct end *e, enum step step, struct ibv_qp_attr *attr, int mask)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_RTS};
	int err = modify_say(e, "modify", attr, mask);

	state_say(e, states[err ? step : step + 1]);
}

static void run_mask(struct pair *p, const void *arg)
{
	const struct mask *m = arg;
	struct setup s = {.type = m->type};
	struct ibv_qp_attr attr;
	int mask;

	s.state = m->step == TO_INIT ? STAY_RESET : m->step == TO_RTR ? IBV_QPS_INIT : IBV_QPS_RTR;
	pair_setup(p, &s);
	mask = step_attr(&p->req, &p->rsp, &s, m->step, &attr);
	step_say(&p->req, m->step, &attr, (mask & ~m->without) | m->with);
}

/* clang-format off */
#define WITHOUT(type, step, attr) {IBV_QPT_##type, step, .without = IBV_QP_##attr, .name = #type "/" #step "-without-" #attr}
#define WITH(type, step, attr)	  {IBV_QPT_##type, step, .with = IBV_QP_##attr, .name = #type "/" #step "-with-" #attr}
static const struct mask masks[] = {
	WITHOUT(RC, TO_INIT, PKEY_INDEX), WITHOUT(RC, TO_INIT, PORT), WITHOUT(RC, TO_INIT, ACCESS_FLAGS),
	WITHOUT(RC, TO_RTR, AV), WITHOUT(RC, TO_RTR, PATH_MTU), WITHOUT(RC, TO_RTR, DEST_QPN), WITHOUT(RC, TO_RTR, RQ_PSN),
	WITHOUT(RC, TO_RTR, MAX_DEST_RD_ATOMIC), WITHOUT(RC, TO_RTR, MIN_RNR_TIMER),
	WITHOUT(RC, TO_RTS, SQ_PSN), WITHOUT(RC, TO_RTS, TIMEOUT), WITHOUT(RC, TO_RTS, RETRY_CNT),
	WITHOUT(RC, TO_RTS, RNR_RETRY), WITHOUT(RC, TO_RTS, MAX_QP_RD_ATOMIC),
	WITHOUT(UC, TO_INIT, ACCESS_FLAGS), WITHOUT(UC, TO_RTR, AV), WITHOUT(UC, TO_RTR, RQ_PSN), WITHOUT(UC, TO_RTS, SQ_PSN),
	WITHOUT(UD, TO_INIT, QKEY), WITHOUT(UD, TO_INIT, PORT), WITHOUT(UD, TO_RTS, SQ_PSN),
	WITH(RC, TO_INIT, QKEY), WITH(RC, TO_INIT, PATH_MTU), WITH(RC, TO_INIT, SQ_PSN),
	WITH(RC, TO_RTR, SQ_PSN), WITH(RC, TO_RTR, QKEY), WITH(RC, TO_RTR, TIMEOUT), WITH(RC, TO_RTR, ACCESS_FLAGS),
	WITH(RC, TO_RTR, PKEY_INDEX), WITH(RC, TO_RTS, PATH_MTU), WITH(RC, TO_RTS, DEST_QPN), WITH(RC, TO_RTS, ACCESS_FLAGS),
	WITH(RC, TO_RTS, MIN_RNR_TIMER), WITH(RC, TO_RTS, CUR_STATE),
	WITH(UC, TO_RTR, MIN_RNR_TIMER), WITH(UC, TO_RTS, TIMEOUT), WITH(UD, TO_INIT, ACCESS_FLAGS), WITH(UD, TO_RTR, AV),
	WITH(UD, TO_RTR, QKEY), WITH(UD, TO_RTS, TIMEOUT),
};
/* clang-format on */

/* ---- values out of range ---- */

struct value {
	const char *name;
	enum step step;
	void (*spoil)(struct ibv_qp_attr *a);
};

static void bad_port(struct ibv_qp_attr *a)
{
	a->port_num = 200;
}
static void port_0(struct ibv_qp_attr *a)
{
	a->port_num = 0;
}
static void bad_pkey(struct ibv_qp_attr *a)
{
	a->pkey_index = 40000;
}
static void bad_access(struct ibv_qp_attr *a)
{
	a->qp_access_flags = 1u << 30;
}
static void bad_gid(struct ibv_qp_attr *a)
{
	a->ah_attr.grh.sgid_index = 255;
}
static void zero_gid(struct ibv_qp_attr *a)
{
	memset(&a->ah_attr.grh.dgid, 0, 16);
}
static void no_grh(struct ibv_qp_attr *a)
{
	a->ah_attr.is_global = 0;
}
static void ah_port(struct ibv_qp_attr *a)
{
	a->ah_attr.port_num = 200;
}
static void mtu_0(struct ibv_qp_attr *a)
{
	a->path_mtu = (enum ibv_mtu)0;
}
static void mtu_6(struct ibv_qp_attr *a)
{
	a->path_mtu = (enum ibv_mtu)6;
}
static void dest_rd(struct ibv_qp_attr *a)
{
	a->max_dest_rd_atomic = 255;
}
static void dest_rd_0(struct ibv_qp_attr *a)
{
	a->max_dest_rd_atomic = 0;
}
static void rnr_32(struct ibv_qp_attr *a)
{
	a->min_rnr_timer = 32;
}
static void psn_25(struct ibv_qp_attr *a)
{
	a->rq_psn = 1u << 24;
}
static void qpn_25(struct ibv_qp_attr *a)
{
	a->dest_qp_num = 1u << 24;
}
static void sq_psn_25(struct ibv_qp_attr *a)
{
	a->sq_psn = 1u << 24;
}
static void timeout_32(struct ibv_qp_attr *a)
{
	a->timeout = 32;
}
static void retry_8(struct ibv_qp_attr *a)
{
	a->retry_cnt = 8;
}
static void rnr_8(struct ibv_qp_attr *a)
{
	a->rnr_retry = 8;
}
static void rd_255(struct ibv_qp_attr *a)
{
	a->max_rd_atomic = 255;
}

static const struct value values[] = {
	{"init/port-200", TO_INIT, bad_port},
	{"init/port-0", TO_INIT, port_0},
	{"init/pkey-index-40000", TO_INIT, bad_pkey},
	{"init/access-bit-30", TO_INIT, bad_access},
	{"rtr/sgid-index-255", TO_RTR, bad_gid},
	{"rtr/dgid-0", TO_RTR, zero_gid},
	{"rtr/no-grh", TO_RTR, no_grh},
	{"rtr/ah-port-200", TO_RTR, ah_port},
	{"rtr/mtu-0", TO_RTR, mtu_0},
	{"rtr/mtu-6", TO_RTR, mtu_6},
	{"rtr/dest-rd-atomic-255", TO_RTR, dest_rd},
	{"rtr/dest-rd-atomic-0", TO_RTR, dest_rd_0},
	{"rtr/min-rnr-timer-32", TO_RTR, rnr_32},
	{"rtr/psn-of-25-bits", TO_RTR, psn_25},
	{"rtr/qpn-of-25-bits", TO_RTR, qpn_25},
	{"rts/psn-of-25-bits", TO_RTS, sq_psn_25},
	{"rts/timeout-32", TO_RTS, timeout_32},
	{"rts/retry-8", TO_RTS, retry_8},
	{"rts/rnr-retry-8", TO_RTS, rnr_8},
	{"rts/rd-atomic-255", TO_RTS, rd_255},
};

static void run_value(struct pair *p, const void *arg)
{
	const struct value *v = arg;
	struct setup s = {0};
	struct ibv_qp_attr attr;
	int mask;

	s.state = v->step == TO_INIT ? STAY_RESET : v->step == TO_RTR ? IBV_QPS_INIT : IBV_QPS_RTR;
	pair_setup(p, &s);
	mask = step_attr(&p->req, &p->rsp, &s, v->step, &attr);
	v->spoil(&attr);
	step_say(&p->req, v->step, &attr, mask);
}

/* ---- what posting does in each state ---- */

static void run_post(struct pair *p, const void *arg)
{
	const struct transition *t = arg;
	struct setup s = {.type = t->type,
			  .state = t->from == IBV_QPS_RESET ? STAY_RESET
				   : t->from == IBV_QPS_ERR ? IBV_QPS_RTS
							    : t->from};
	int err;

	pair_setup(p, &s);
	if (t->type == IBV_QPT_UD && !p->req.ah)
		p->req.ah = ah_to(&p->req, &p->rsp);
	if (t->from == IBV_QPS_ERR)
		modify_state(&p->req, IBV_QPS_ERR);
	err = recv_post(&p->req, 1, 0, 200);
	say(&p->req, "receive is %s", err ? "refused" : "taken");
	err = msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = 2, .len = 10});
	say(&p->req, "send is %s", err ? "refused" : "taken");
	if (t->from != IBV_QPS_ERR)
		return;
	poll_recv(&p->req, 1);
	poll_send(&p->req, 1);
}

static void add_posts(void)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_ERR};
	static struct transition table[COUNT(services) * COUNT(states)];
	unsigned used = 0;

	for (unsigned i = 0; i < COUNT(services); i++)
		for (unsigned j = 0; j < COUNT(states); j++) {
			table[used] = (struct transition){services[i].type, states[j], 0};
			registry_add(run_post, &table[used++], ALONE, "state/%s/post-in-%s",
				     services[i].name, text_state(states[j]));
		}
}

/* ---- the send queue drained ---- */

/** What was posted before SQD completes, what is posted in it waits for RTS. */
static void run_sqd(struct pair *p, const void *arg)
{
	const int *notify = arg;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	pair_setup(p, &(struct setup){0});
	msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 1, .len = 5000});
	if (modify_say(&p->req, "modify to SQD", &attr, IBV_QP_STATE | *notify))
		return;
	poll_send(&p->req, 1);
	if (*notify)
		async_say(&p->req);
	state_say(&p->req, IBV_QPS_SQD);
	msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 2, .len = 10});
	poll_nothing(&p->req);
	modify_state(&p->req, IBV_QPS_RTS);
	poll_send(&p->req, 1);
}
static const int sqd_quiet = 0, sqd_notify = IBV_QP_EN_SQD_ASYNC_NOTIFY;

/** In RTR a QP receives already. */
static void run_receive_in_rtr(struct pair *p, const void *arg)
{
	(void)arg;
	setup_receiver_in_rtr(p);
	recv_post(&p->rsp, 7, 0, 100);
	msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = 1, .len = 100});
	poll_send(&p->req, 1);
	poll_recv(&p->rsp, 1);
	state_say(&p->rsp, IBV_QPS_RTR);
}

void scenarios_states(void)
{
	add_transitions();
	for (unsigned i = 0; i < COUNT(masks); i++)
		registry_add(run_mask, &masks[i], ALONE, "mask/%s", masks[i].name);
	for (unsigned i = 0; i < COUNT(values); i++)
		registry_add(run_value, &values[i], ALONE, "value/%s", values[i].name);
	add_posts();
	registry_add(run_sqd, &sqd_quiet, 0, "state/rc/drain");
	registry_add(run_sqd, &sqd_notify, 0, "state/rc/drain-notify");
	registry_add(run_receive_in_rtr, NULL, 0, "state/rc/receive-in-RTR");
}
