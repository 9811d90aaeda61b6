/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios: requests that fail, and the effects at both ends. These rows are inputs alone, because
 * parity compares two devices; test/errors has rows with the expected results.
 */
#include <stdlib.h>

#include "parity.h"

enum { NO_KEY = 0xdeadbe00 };

/** A request that fails at the requester or at the responder, and what follows. */
struct error {
	const char *name;
	struct msg m;
	struct setup s;
	bool receive;
	uint32_t receive_len;
	uint32_t receive_lkey_is_bad;
	bool only_req; /* the responder's QP is not touched: what to wait for */
	int mr_access; /* with flag use_mr: the responder's region has only that */
	bool use_mr;
};

static const struct error errors[] = {
	/* clang-format off */
	/* the responder refuses */
	{"rc/write/bad-rkey", {IBV_WR_RDMA_WRITE, .id = 1, .len = 100, .rkey = NO_KEY}},
	{"rc/write-imm/bad-rkey", {IBV_WR_RDMA_WRITE_WITH_IMM, .id = 1, .len = 100, .rkey = NO_KEY}, .receive = true, .receive_len = 100},
	{"rc/read/bad-rkey", {IBV_WR_RDMA_READ, .id = 1, .len = 100, .rkey = NO_KEY}},
	{"rc/fetch-add/bad-rkey", {IBV_WR_ATOMIC_FETCH_AND_ADD, .id = 1, .len = 8, .rkey = NO_KEY}},
	{"rc/cmp-swap/bad-rkey", {IBV_WR_ATOMIC_CMP_AND_SWP, .id = 1, .len = 8, .rkey = NO_KEY}},
	{"rc/write/0-bytes-bad-rkey", {IBV_WR_RDMA_WRITE, .id = 1, .len = 0, .rkey = NO_KEY}},
	{"rc/read/0-bytes-bad-rkey", {IBV_WR_RDMA_READ, .id = 1, .len = 0, .rkey = NO_KEY}},
	{"rc/write/past-the-region", {IBV_WR_RDMA_WRITE, .id = 1, .len = 100, .remote = MEM_SIZE - DST - 99}},
	{"rc/read/past-the-region", {IBV_WR_RDMA_READ, .id = 1, .len = 100, .remote = MEM_SIZE - SRC - 99}},
	{"rc/write/before-the-region", {IBV_WR_RDMA_WRITE, .id = 1, .len = 100, .remote = -DST - 1}},
	{"rc/fetch-add/past-the-region", {IBV_WR_ATOMIC_FETCH_AND_ADD, .id = 1, .len = 8, .remote = MEM_SIZE - DST}},
	{"rc/fetch-add/unaligned", {IBV_WR_ATOMIC_FETCH_AND_ADD, .id = 1, .len = 8, .remote = 4}},
	{"rc/cmp-swap/unaligned", {IBV_WR_ATOMIC_CMP_AND_SWP, .id = 1, .len = 8, .remote = 1}},
	{"rc/write/qp-without-right", {IBV_WR_RDMA_WRITE, .id = 1, .len = 100}, {.access = IBV_ACCESS_REMOTE_READ}},
	{"rc/read/qp-without-right", {IBV_WR_RDMA_READ, .id = 1, .len = 100}, {.access = IBV_ACCESS_REMOTE_WRITE}},
	{"rc/fetch-add/qp-without-right", {IBV_WR_ATOMIC_FETCH_AND_ADD, .id = 1, .len = 8}, {.access = IBV_ACCESS_REMOTE_WRITE}},
	{"rc/write/qp-without-any-right", {IBV_WR_RDMA_WRITE, .id = 1, .len = 100}, {.access = NO_ACCESS}},
	{"rc/write/region-without-right", {IBV_WR_RDMA_WRITE, .id = 1, .len = 100}, .use_mr = true, .mr_access = IBV_ACCESS_REMOTE_READ},
	{"rc/read/region-without-right", {IBV_WR_RDMA_READ, .id = 1, .len = 100}, .use_mr = true, .mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
	{"rc/fetch-add/region-without-right", {IBV_WR_ATOMIC_FETCH_AND_ADD, .id = 1, .len = 8}, .use_mr = true, .mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
	{"rc/send/longer-than-receive", {IBV_WR_SEND, .id = 1, .len = 100}, .receive = true, .receive_len = 99},
	{"rc/send/longer-than-receive-2-packets", {IBV_WR_SEND, .id = 1, .len = 2 * MTU}, .receive = true, .receive_len = 2 * MTU - 1},
	{"rc/send/longer-than-empty-receive", {IBV_WR_SEND, .id = 1, .len = 1}, .receive = true},
	{"rc/send/receive-with-bad-lkey", {IBV_WR_SEND, .id = 1, .len = 100}, .receive = true, .receive_len = 100, .receive_lkey_is_bad = 1},
	{"rc/send/no-receive", {IBV_WR_SEND, .id = 1, .len = 100}, {.rnr_retry = 1}, .only_req = true},
	{"rc/write-imm/no-receive", {IBV_WR_RDMA_WRITE_WITH_IMM, .id = 1, .len = 100}, {.rnr_retry = 1}, .only_req = true},
	{"rc/send-inv/bad-rkey", {IBV_WR_SEND_WITH_INV, .id = 1, .len = 100, .rkey = NO_KEY}, .receive = true, .receive_len = 100},
	/* the requester finds it itself */
	{"rc/send/bad-lkey", {IBV_WR_SEND, .id = 1, .len = 100, .lkey = NO_KEY}, .receive = true, .receive_len = 100, .only_req = true},
	{"rc/write/bad-lkey", {IBV_WR_RDMA_WRITE, .id = 1, .len = 100, .lkey = NO_KEY}, .only_req = true},
	{"rc/read/bad-lkey", {IBV_WR_RDMA_READ, .id = 1, .len = 100, .lkey = NO_KEY}, .only_req = true},
	{"rc/send/local-past-the-region", {IBV_WR_SEND, .id = 1, .len = 100, .local = MEM_SIZE - SRC - 99}, .receive = true, .receive_len = 100, .only_req = true},
	{"rc/read/local-past-the-region", {IBV_WR_RDMA_READ, .id = 1, .len = 100, .local = MEM_SIZE - DST - 99}, .only_req = true},
	{"rc/fetch-add/wrong-length", {IBV_WR_ATOMIC_FETCH_AND_ADD, .id = 1, .len = 4}},
	/* services without acknowledgement */
	{"uc/send/bad-lkey", {IBV_WR_SEND, .id = 1, .len = 100, .lkey = NO_KEY}, {.type = IBV_QPT_UC}, .receive = true, .receive_len = 100},
	{"uc/write/bad-rkey", {IBV_WR_RDMA_WRITE, .id = 1, .len = 100, .rkey = NO_KEY}, {.type = IBV_QPT_UC}},
	{"uc/send/no-receive", {IBV_WR_SEND, .id = 1, .len = 100}, {.type = IBV_QPT_UC}},
	{"uc/send/longer-than-receive", {IBV_WR_SEND, .id = 1, .len = 100}, {.type = IBV_QPT_UC}, .receive = true, .receive_len = 99},
	{"uc/read", {IBV_WR_RDMA_READ, .id = 1, .len = 100}, {.type = IBV_QPT_UC}},
	{"uc/fetch-add", {IBV_WR_ATOMIC_FETCH_AND_ADD, .id = 1, .len = 8}, {.type = IBV_QPT_UC}},
	{"ud/send/bad-lkey", {IBV_WR_SEND, .id = 1, .len = 100, .lkey = NO_KEY}, {.type = IBV_QPT_UD}, .receive = true, .receive_len = 140},
	{"ud/send/wrong-q-key", {IBV_WR_SEND, .id = 1, .len = 100, .remote_qkey = 0x22222222}, {.type = IBV_QPT_UD}, .receive = true, .receive_len = 140},
	{"ud/send/no-such-qp", {IBV_WR_SEND, .id = 1, .len = 100, .remote_qpn = 0xfffffd}, {.type = IBV_QPT_UD}, .receive = true, .receive_len = 140},
	{"ud/send/no-receive", {IBV_WR_SEND, .id = 1, .len = 100}, {.type = IBV_QPT_UD}},
	{"ud/send/longer-than-receive", {IBV_WR_SEND, .id = 1, .len = 100}, {.type = IBV_QPT_UD}, .receive = true, .receive_len = 139},
	{"ud/send/room-for-grh-only", {IBV_WR_SEND, .id = 1, .len = 1}, {.type = IBV_QPT_UD}, .receive = true, .receive_len = 40},
	{"ud/send/longer-than-mtu", {IBV_WR_SEND, .id = 1, .len = 4097}, {.type = IBV_QPT_UD}, .receive = true, .receive_len = 5000},
	{"ud/write", {IBV_WR_RDMA_WRITE, .id = 1, .len = 100}, {.type = IBV_QPT_UD}},
	/* clang-format on */
};

static void receive(struct pair *p, const struct error *e)
{
	struct ibv_mr bad = {.lkey = NO_KEY}, *good = p->rsp.mr;

	if (!e->receive)
		return;
	if (e->receive_lkey_is_bad)
		p->rsp.mr = &bad;
	recv_post(&p->rsp, 7, 0, e->receive_len);
	p->rsp.mr = good;
}

static void run_error(struct pair *p, const void *arg)
{
	const struct error *e = arg;
	enum ibv_qp_type type = e->s.type ? e->s.type : IBV_QPT_RC;
	struct setup s = e->s;
	struct msg m = e->m;
	bool refused;

	pair_setup(p, &s);
	if (e->use_mr) {
		struct ibv_mr *mr = (ibv_reg_mr)(p->rsp.pd, p->rsp.mem, MEM_SIZE, e->mr_access);

		if (!mr)
			failed(&p->rsp, "ibv_reg_mr");
		m.rkey = mr->rkey;
	}
	receive(p, e);
	refused = msg_post(&p->req, &p->rsp, &m) != 0;
	if (!refused) {
		poll_send(&p->req, 1);
		/* UC and UD have no acknowledgements: let it arrive before there is a receive. */
		if (type != IBV_QPT_RC)
			arrive_say(&p->rsp);
		/* What is queued behind it. */
		recv_post(&p->rsp, 8, 8192, 200);
		m = (struct msg){.op = IBV_WR_SEND, .id = 2, .len = 10};
		msg_post(&p->req, &p->rsp, &m);
		poll_send(&p->req, 1);
	}
	state_say(&p->req, type == IBV_QPT_RC && !refused ? IBV_QPS_ERR : IBV_QPS_RTS);
	state_say(&p->rsp,
		  type == IBV_QPT_RC && !refused && !e->only_req ? IBV_QPS_ERR : IBV_QPS_RTS);
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

/** The region is deregistered before the request comes. */
static void run_deregistered(struct pair *p, const void *arg)
{
	const struct msg *m = arg;
	struct msg with_key = *m;
	struct ibv_mr *mr;

	pair_setup(p, &(struct setup){0});
	mr = ibv_reg_mr(p->rsp.pd, p->rsp.mem, MEM_SIZE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!mr)
		failed(&p->rsp, "ibv_reg_mr");
	with_key.rkey = mr->rkey;
	msg_post(&p->req, &p->rsp, &with_key);
	poll_send(&p->req, 1);
	say_result(&p->rsp, "ibv_dereg_mr", ibv_dereg_mr(mr));
	msg_post(&p->req, &p->rsp, &with_key);
	poll_send(&p->req, 1);
	state_say(&p->req, IBV_QPS_ERR);
}
static const struct msg dereg_write = {IBV_WR_RDMA_WRITE, .len = 64, .id = 1},
			dereg_read = {IBV_WR_RDMA_READ, .len = 64, .id = 1};

/** The region's PD is not the QP's. */
static void run_other_pd(struct pair *p, const void *arg)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	(void)arg;
	pair_setup(p, &(struct setup){0});
	pd = ibv_alloc_pd(p->rsp.ctx);
	mr = pd ? ibv_reg_mr(pd, p->rsp.mem, MEM_SIZE,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
		: NULL;
	if (!mr)
		failed(&p->rsp, "ibv_reg_mr");
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 1, .len = 10, .rkey = mr->rkey});
	poll_send(&p->req, 1);
	state_say(&p->req, IBV_QPS_ERR);
	state_say(&p->rsp, IBV_QPS_ERR);
}

/** A pair that failed works again after RESET. */
static void run_recover(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){0});
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 1, .len = 10, .rkey = NO_KEY});
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
	for (unsigned i = 0; i < COUNT(errors); i++)
		registry_add(run_error, &errors[i], 0, "error/%s", errors[i].name);
	registry_add(run_no_answer, &gone, 0, "error/rc/peer-destroyed");
	registry_add(run_no_answer, &in_error, 0, "error/rc/peer-in-error");
	registry_add(run_no_answer, &in_reset, 0, "error/rc/peer-in-reset");
	registry_add(run_deregistered, &dereg_write, 0, "error/rc/write/deregistered");
	registry_add(run_deregistered, &dereg_read, 0, "error/rc/read/deregistered");
	registry_add(run_other_pd, NULL, 0, "error/rc/write/region-of-another-pd");
	registry_add(run_recover, NULL, 0, "error/rc/reset-and-again");
}
