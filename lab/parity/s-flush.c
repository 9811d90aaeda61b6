/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios: requests of a QP that ends, and objects that others refer to. */
#include "parity.h"

enum { N = 5 };

static void post_receives(struct end *e)
{
	for (uint32_t i = 0; i < N; i++)
		recv_post(e, 100 + i, i * 64, 64);
}

/** Receives are flushed in order. */
static void run_receives(struct pair *p, const void *arg)
{
	const enum ibv_qp_type *type = arg;

	pair_setup(p, &(struct setup){.type = *type});
	post_receives(&p->rsp);
	modify_state(&p->rsp, IBV_QPS_ERR);
	poll_recv(&p->rsp, N);
	poll_nothing(&p->rsp);
}

/** What was posted behind a failed request is flushed in order, unsignaled ones too. */
static void run_behind_error(struct pair *p, const void *arg)
{
	const bool *unsignaled = arg;

	pair_setup(p, &(struct setup){.unsignaled = *unsignaled});
	post_receives(&p->req);
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_RDMA_READ, .id = 0, .len = 10, .rkey = 0xdeadbe00});
	for (uint32_t i = 1; i < N; i++)
		msg_post(&p->req, &p->rsp,
			 &(struct msg){.op = IBV_WR_RDMA_READ, .id = i, .len = 10});
	poll_send(&p->req, N);
	poll_recv(&p->req, N);
	poll_nothing(&p->req);
}
static const bool yes = true, no = false;

/** Sends that wait for a receiver, then ERR. */
static void run_waiting_sends(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){.rnr_timer = 20});
	for (uint32_t i = 0; i < N; i++)
		msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = i, .len = 10});
	modify_state(&p->req, IBV_QPS_ERR);
	poll_send(&p->req, N);
	poll_nothing(&p->req);
}

/** RESET takes requests away without completions. */
static void run_reset(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){0});
	post_receives(&p->rsp);
	modify_state(&p->rsp, IBV_QPS_RESET);
	poll_nothing(&p->rsp);
	state_say(&p->rsp, IBV_QPS_RESET);
}

/** So does RESET after ERR with the flushed completions not yet polled. */
static void run_reset_after_error(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){0});
	post_receives(&p->rsp);
	modify_state(&p->rsp, IBV_QPS_ERR);
	modify_state(&p->rsp, IBV_QPS_RESET);
	poll_nothing(&p->rsp);
}

/** Destroying takes the completions that are in the CQ with it. */
static void run_destroy(struct pair *p, const void *arg)
{
	struct ibv_wc wc;

	(void)arg;
	pair_setup(p, &(struct setup){0});
	post_receives(&p->rsp);
	modify_state(&p->rsp, IBV_QPS_ERR);
	say_result(&p->rsp, "ibv_destroy_qp", ibv_destroy_qp(p->rsp.qp));
	say(&p->rsp, "then ibv_poll_cq returns %d", ibv_poll_cq(p->rsp.rcq, 1, &wc));
}

/** An SRQ's requests stay with it when its QP fails. */
static void run_srq_stays(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){.srq = true});
	post_receives(&p->rsp);
	modify_state(&p->rsp, IBV_QPS_ERR);
	poll_nothing(&p->rsp);
	async_say(&p->rsp);
}

/* ---- objects in use ---- */

static void run_busy(struct pair *p, const void *arg)
{
	struct end *e = &p->rsp;

	(void)arg;
	pair_setup(p, &(struct setup){.srq = true, .channel = true, .state = STAY_RESET});
	say_result(e, "ibv_dealloc_pd with MR, SRQ and QP", ibv_dealloc_pd(e->pd));
	say_result(e, "ibv_destroy_cq with QP", ibv_destroy_cq(e->rcq));
	say_result(e, "ibv_destroy_srq with QP", ibv_destroy_srq(e->srq));
	say_result(e, "ibv_destroy_comp_channel with CQ", ibv_destroy_comp_channel(e->channel));
	say_result(e, "ibv_destroy_qp", ibv_destroy_qp(e->qp));
	say_result(e, "ibv_destroy_cq", ibv_destroy_cq(e->rcq));
	say_result(e, "ibv_destroy_cq", ibv_destroy_cq(e->scq));
	say_result(e, "ibv_destroy_srq", ibv_destroy_srq(e->srq));
	say_result(e, "ibv_destroy_comp_channel", ibv_destroy_comp_channel(e->channel));
	say_result(e, "ibv_dereg_mr", ibv_dereg_mr(e->mr));
	say_result(e, "ibv_dealloc_pd", ibv_dealloc_pd(e->pd));
	say_result(e, "ibv_close_device", ibv_close_device(e->ctx));
	e->ctx = NULL;
}

static const enum ibv_qp_type rc = IBV_QPT_RC, uc = IBV_QPT_UC, ud = IBV_QPT_UD;

void scenarios_flush(void)
{
	registry_add(run_receives, &rc, ALONE, "flush/rc/receives");
	registry_add(run_receives, &uc, ALONE, "flush/uc/receives");
	registry_add(run_receives, &ud, ALONE, "flush/ud/receives");
	registry_add(run_behind_error, &no, 0, "flush/rc/behind-an-error");
	registry_add(run_behind_error, &yes, 0, "flush/rc/behind-an-error-unsignaled");
	registry_add(run_waiting_sends, NULL, RACY, "flush/rc/sends-that-wait");
	registry_add(run_reset, NULL, ALONE, "flush/rc/reset");
	registry_add(run_reset_after_error, NULL, ALONE, "flush/rc/reset-after-error");
	registry_add(run_destroy, NULL, ALONE, "flush/rc/destroy");
	registry_add(run_srq_stays, NULL, ALONE, "flush/rc/srq-keeps-its-own");
	registry_add(run_busy, NULL, ALONE, "objects/in-use");
}
