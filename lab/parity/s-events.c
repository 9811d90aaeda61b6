/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios: completion events and async events. */
#include "parity.h"

/* ---- arming a CQ ---- */

struct arm {
	const char *name;
	int solicited_only;
	unsigned flags; /* of the SEND */
	unsigned sends;
	bool expected;
	bool error; /* the receive is too short */
};
static const struct arm arms[] = {
	{"any-completion", 0, 0, 1, true, false},
	{"solicited-by-solicited", 1, IBV_SEND_SOLICITED, 1, true, false},
	{"solicited-by-unsolicited", 1, 0, 1, false, false},
	{"any-by-solicited", 0, IBV_SEND_SOLICITED, 1, true, false},
	{"three-completions-one-event", 0, 0, 3, true, false},
	{"solicited-by-error", 1, 0, 1, true, true},
};

static void run_arm(struct pair *p, const void *arg)
{
	const struct arm *a = arg;

	pair_setup(p, &(struct setup){.channel = true});
	say_result(&p->rsp, "ibv_req_notify_cq", ibv_req_notify_cq(p->rsp.rcq, a->solicited_only));
	for (unsigned i = 0; i < a->sends; i++) {
		recv_post(&p->rsp, i, i * 64, a->error ? 1 : 64);
		msg_post(&p->req, &p->rsp,
			 &(struct msg){.op = IBV_WR_SEND, .id = i, .len = 64, .flags = a->flags});
	}
	poll_send(&p->req, a->sends);
	comp_event_say(&p->rsp, a->expected);
	poll_recv(&p->rsp, a->sends);
	comp_event_say(&p->rsp, false);
}

static void one_send(struct pair *p)
{
	recv_post(&p->rsp, 1, 0, 64);
	msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = 1, .len = 64});
	poll_send(&p->req, 1);
}

/** Not armed: no event. */
static void run_not_armed(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){.channel = true});
	one_send(p);
	poll_recv(&p->rsp, 1);
	comp_event_say(&p->rsp, false);
}

/** Arming when a completion waits already: it is for the next one. */
static void run_armed_late(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){.channel = true});
	one_send(p);
	one_send(p);
	poll_recv(&p->rsp, 1);
	say_result(&p->rsp, "ibv_req_notify_cq", ibv_req_notify_cq(p->rsp.rcq, 0));
	poll_recv(&p->rsp, 1);
	one_send(p);
	comp_event_say(&p->rsp, true);
	poll_recv(&p->rsp, 1);
}

/** Once per arming, and again after arming again. */
static void run_armed_twice(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){.channel = true});
	for (unsigned i = 0; i < 2; i++) {
		ibv_req_notify_cq(p->rsp.rcq, 0);
		one_send(p);
		comp_event_say(&p->rsp, true);
		poll_recv(&p->rsp, 1);
	}
	one_send(p);
	poll_recv(&p->rsp, 1);
	comp_event_say(&p->rsp, false);
}

/** The requester's own completion. */
static void run_send_event(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){.channel = true});
	ibv_req_notify_cq(p->req.scq, 0);
	recv_post(&p->rsp, 1, 0, 64);
	msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = 1, .len = 64});
	comp_event_say(&p->req, true);
	poll_send(&p->req, 1);
	poll_recv(&p->rsp, 1);
}

/** Flushing counts as a completion. */
static void run_flush_event(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){.channel = true});
	recv_post(&p->rsp, 1, 0, 64);
	ibv_req_notify_cq(p->rsp.rcq, 1);
	modify_state(&p->rsp, IBV_QPS_ERR);
	comp_event_say(&p->rsp, true);
	poll_recv(&p->rsp, 1);
}

/* ---- async events ---- */

static void run_access_event(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){0});
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 1, .len = 10, .rkey = 0xdeadbe00});
	poll_send(&p->req, 1);
	async_say(&p->rsp);
	async_say(&p->req);
}

static void run_request_event(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){0});
	recv_post(&p->rsp, 1, 0, 10);
	msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = 1, .len = 11});
	poll_send(&p->req, 1);
	poll_recv(&p->rsp, 1);
	async_say(&p->rsp);
	async_say(&p->req);
}

/** The first message comes while the QP is in RTR. */
static void run_established(struct pair *p, const void *arg)
{
	(void)arg;
	setup_receiver_in_rtr(p);
	one_send(p);
	poll_recv(&p->rsp, 1);
	async_say(&p->rsp);
}

static void run_srq_limit(struct pair *p, const void *arg)
{
	struct ibv_srq_attr a = {.srq_limit = 2};

	(void)arg;
	pair_setup(p, &(struct setup){.srq = true});
	for (uint32_t i = 0; i < 3; i++)
		recv_post(&p->rsp, i, i * 64, 64);
	say_result(&p->rsp, "limit 2", ibv_modify_srq(p->rsp.srq, &a, IBV_SRQ_LIMIT));
	for (uint32_t i = 0; i < 2; i++)
		msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = i, .len = 10});
	poll_send(&p->req, 2);
	poll_recv(&p->rsp, 2);
	async_say(&p->rsp);
	if (ibv_query_srq(p->rsp.srq, &a) == 0)
		say(&p->rsp, "limit is now %u", a.srq_limit);
}

static void run_last_wqe(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){.srq = true});
	modify_state(&p->rsp, IBV_QPS_ERR);
	async_say(&p->rsp);
}

/** More completions than the CQ holds. */
static void run_overrun(struct pair *p, const void *arg)
{
	int n;

	(void)arg;
	pair_setup(p, &(struct setup){.depth = 2, .state = STAY_RESET});
	ibv_destroy_qp(p->req.qp);
	n = p->req.scq->cqe;
	p->req.qp = ibv_create_qp(p->req.pd,
				  &(struct ibv_qp_init_attr){.send_cq = p->req.scq,
							     .recv_cq = p->req.rcq,
							     .cap = {.max_send_wr = (uint32_t)n + 8,
								     .max_send_sge = 1,
								     .max_recv_wr = 1,
								     .max_recv_sge = 1},
							     .qp_type = IBV_QPT_RC,
							     .sq_sig_all = 1});
	if (!p->req.qp)
		failed(&p->req, "ibv_create_qp");
	pair_connect(p, &(struct setup){0});
	for (int i = 0; i < n + 4; i++)
		msg_post(&p->req, &p->rsp,
			 &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = (uint64_t)i, .len = 8});
	async_say(&p->req);
	state_say(&p->req, IBV_QPS_ERR);
}

void scenarios_events(void)
{
	for (unsigned i = 0; i < COUNT(arms); i++)
		registry_add(run_arm, &arms[i], 0, "arm/%s", arms[i].name);
	registry_add(run_not_armed, NULL, 0, "arm/not-armed");
	registry_add(run_armed_late, NULL, 0, "arm/with-one-waiting");
	registry_add(run_armed_twice, NULL, 0, "arm/again");
	registry_add(run_send_event, NULL, 0, "arm/send-side");
	registry_add(run_flush_event, NULL, 0, "arm/flush");
	registry_add(run_access_event, NULL, 0, "async/access-error");
	registry_add(run_request_event, NULL, 0, "async/request-error");
	registry_add(run_established, NULL, 0, "async/established");
	registry_add(run_srq_limit, NULL, 0, "async/srq-limit");
	registry_add(run_last_wqe, NULL, ALONE, "async/last-wqe");
	registry_add(run_overrun, NULL, ALONE, "async/cq-overrun");
}
