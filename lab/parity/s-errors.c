/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios: requests that fail, and the effects at both ends. Of the errors table's rows
 * (error-rows.c) these are the inputs; what is compared is another device.
 */
#include <stdlib.h>

#include "error-rows.h"
#include "parity.h"

enum { RECV = 7, RECV_BEHIND = 8 };

/** All of an end's memory. */
static struct err_region memory_of(const struct end *e)
{
	return (struct err_region){(uintptr_t)e->mem, MEM_SIZE, e->mr->lkey, e->mr->rkey, e->mr};
}

/** Another region of all of an end's memory, if the row takes one. */
static void row_region(struct pair *p, const struct err_row *row, struct err_region at[ENDS])
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	enum err_end which;
	unsigned access;
	struct end *e;

	if (!err_row_region(row, &which, &access))
		return;
	e = which == REQ ? &p->req : &p->rsp;
	pd = row->fault == FAULT_REGION_PD ? ibv_alloc_pd(e->ctx) : e->pd;
	mr = pd ? (ibv_reg_mr)(pd, e->mem, MEM_SIZE, (int)access) : NULL;
	if (!mr)
		failed(e, "ibv_reg_mr");
	at[which].lkey = mr->lkey;
	at[which].rkey = mr->rkey;
	if (row->fault == FAULT_REGION_GONE)
		say_result(e, "ibv_dereg_mr", ibv_dereg_mr(mr));
}

static void row_receive(struct pair *p, const struct err_row *row)
{
	struct ibv_mr bad = {.lkey = ERR_NO_KEY}, *good = p->rsp.mr;

	if (!row->with_recv)
		return;
	if (row->recv_lkey_bad)
		p->rsp.mr = &bad;
	recv_post(&p->rsp, RECV, 0, row->recv_len);
	p->rsp.mr = good;
}

static int row_post(struct pair *p, const struct err_row *row)
{
	struct err_region at[ENDS] = {memory_of(&p->req), memory_of(&p->rsp)};
	struct ibv_send_wr *bad, wr;
	struct ibv_sge sge;
	int err;

	row_region(p, row, at);
	row_receive(p, row);
	wr = err_row_wr(row, &at[REQ], &at[RSP], p->rsp.qp->qp_num, &sge);
	if (row->type == IBV_QPT_UD)
		wr.wr.ud.ah = p->req.ah;
	err = ibv_post_send(p->req.qp, &wr, &bad);
	if (err)
		say_result(&p->req, "post", err);
	return err;
}

static void run_row(struct pair *p, const void *arg)
{
	const struct err_row *row = arg;
	bool refused;

	pair_setup(p, &(struct setup){.type = row->type,
				      .access = row->config.access,
				      .retry = row->config.retry_cnt,
				      .rnr_retry = row->config.rnr_retry});
	refused = row_post(p, row) != 0;
	if (!refused) {
		poll_send(&p->req, 1);
		/* UC and UD have no acknowledgements: let it arrive before there is a receive. */
		if (row->type != IBV_QPT_RC)
			arrive_say(&p->rsp);
		/* What is queued behind it. */
		recv_post(&p->rsp, RECV_BEHIND, 8192, 200);
		msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = 2, .len = 10});
		poll_send(&p->req, 1);
	}
	state_say(&p->req, refused ? IBV_QPS_RTS : row->state[REQ]);
	state_say(&p->rsp, refused ? IBV_QPS_RTS : row->state[RSP]);
	poll_nothing(&p->rsp);
	poll_nothing(&p->req);
}

/* ---- no answer ---- */

static void run_no_answer(struct pair *p, const void *arg)
{
	const enum ibv_qp_state *state = arg;

	pair_setup(p, &(struct setup){.timeout = 10, .retry = 1});
	if (*state != IBV_QPS_RTS)
		modify_state(&p->rsp, *state);
	else
		say_result(&p->rsp, "ibv_destroy_qp", ibv_destroy_qp(p->rsp.qp));
	msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 1, .len = 3000});
	poll_send(&p->req, 1);
	state_say(&p->req, IBV_QPS_ERR);
}
static const enum ibv_qp_state gone = IBV_QPS_RTS, in_error = IBV_QPS_ERR, in_reset = IBV_QPS_RESET;

/** A pair that failed works again after RESET. */
static void run_recover(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){0});
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 1, .len = 10, .rkey = ERR_NO_KEY});
	poll_send(&p->req, 1);
	modify_state(&p->req, IBV_QPS_RESET);
	modify_state(&p->rsp, IBV_QPS_RESET);
	pair_connect(p, &(struct setup){0});
	recv_post(&p->rsp, 7, 0, 100);
	msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = 2, .len = 10});
	poll_send(&p->req, 1);
	poll_recv(&p->rsp, 1);
	memory_say(p);
}

void scenarios_errors(void)
{
	/* rxe's provider crashes on an inline READ, and never executes what no-rd-atomic posts. */
	for (unsigned i = 0; i < err_nrows; i++)
		if (!(err_rows[i].flags & IBV_SEND_INLINE) && !err_rows[i].config.no_rd_atomic)
			registry_add(run_row, &err_rows[i], 0, "error/%s", err_rows[i].name);
	registry_add(run_no_answer, &gone, 0, "error/rc/peer-destroyed");
	registry_add(run_no_answer, &in_error, 0, "error/rc/peer-in-error");
	registry_add(run_no_answer, &in_reset, 0, "error/rc/peer-in-reset");
	registry_add(run_recover, NULL, 0, "error/rc/reset-and-again");
}
