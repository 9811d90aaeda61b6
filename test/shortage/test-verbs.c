/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory, descriptors and other means run out under libibverbs's calls. */
#include "test.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "drive.h"
#include "netns.h"

enum { LEN = 64, WAIT_S = 30 };

struct objects {
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq, *second;
	struct ibv_srq *srq;
	struct ibv_qp *a, *b, *ud;
	struct ibv_ah *ah;
	union ibv_gid gid;
	char mem[2 * LEN];
};

static void make_context(struct drive *d, struct objects *o)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;

	TRY_NEW(d, o->list, ibv_get_device_list(NULL));
	TRY_NEW(d, o->ctx, ibv_open_device(o->list[0]));
	TRY_ERR(d, ibv_query_device(o->ctx, &device));
	TRY_ERR(d, ibv_query_port(o->ctx, 1, &port));
	if (!drive_stopped(d) && port.state != IBV_PORT_ACTIVE)
		drive_problem(d, "ibv_query_port() says %d", port.state);
	TRY_RET(d, ibv_query_gid(o->ctx, 1, 0, &o->gid));
	TRY_NEW(d, o->pd, ibv_alloc_pd(o->ctx));
	TRY_NEW(d, o->mr, ibv_reg_mr(o->pd, o->mem, sizeof(o->mem), IBV_ACCESS_LOCAL_WRITE));
	TRY_NEW(d, o->channel, ibv_create_comp_channel(o->ctx));
	TRY_NEW(d, o->cq, ibv_create_cq(o->ctx, 16, o, o->channel, 0));
	TRY_NEW(d, o->second, ibv_create_cq(o->ctx, 4, o, NULL, 0));
	TRY_ERR(d, ibv_resize_cq(o->second, 2000));
}

static void make_qp(struct drive *d, struct objects *o, struct ibv_qp **qp, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = o->cq,
		.recv_cq = o->cq,
		.srq = type == IBV_QPT_RC ? o->srq : NULL,
		.qp_type = type,
		.cap = {.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = LEN},
	};

	TRY_NEW(d, *qp, ibv_create_qp(o->pd, &init));
}

static void make_queues(struct drive *d, struct objects *o)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 8, .max_sge = 2}};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};

	TRY_NEW(d, o->srq, ibv_create_srq(o->pd, &srq));
	srq.attr.max_wr = 100;
	TRY_ERR(d, ibv_modify_srq(o->srq, &srq.attr, IBV_SRQ_MAX_WR));
	make_qp(d, o, &o->a, IBV_QPT_RC);
	make_qp(d, o, &o->b, IBV_QPT_RC);
	make_qp(d, o, &o->ud, IBV_QPT_UD);
	ah.grh.dgid = o->gid;
	TRY_NEW(d, o->ah, ibv_create_ah(o->pd, &ah));
}

static void connect_qp(struct drive *d, struct objects *o, struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	TRY_ERR(d, ibv_modify_qp(qp, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					 IBV_QP_ACCESS_FLAGS));
	if (drive_stopped(d))
		return;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = o->gid, .hop_limit = 1}},
	};
	TRY_ERR(d, ibv_modify_qp(qp, &attr,
				 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					 IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 7, .rnr_retry = 7};
	TRY_ERR(d,
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void start_ud(struct drive *d, struct objects *o)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};
	const union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};

	TRY_ERR(d, ibv_modify_qp(o->ud, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	TRY_ERR(d, ibv_modify_qp(o->ud, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	TRY_ERR(d, ibv_modify_qp(o->ud, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	TRY_ERR(d, ibv_attach_mcast(o->ud, &group, 0));
	TRY_ERR(d, ibv_detach_mcast(o->ud, &group, 0));
}

/* A completion, by the channel as long as polling finds none. */
static void wait_completion(struct drive *d, struct objects *o)
{
	const time_t end = time(NULL) + WAIT_S;
	struct ibv_wc wc;
	int n = 0;

	while (!drive_stopped(d) && n == 0) {
		n = ibv_poll_cq(o->cq, 1, &wc);
		if (n == 0 && time(NULL) > end)
			drive_problem(d, "no completion comes");
		if (n == 0 && time(NULL) > end)
			drive_give_up(d, "no completion", 0);
	}
	if (n < 0)
		drive_problem(d, "ibv_poll_cq: %d", n);
	if (n > 0 && wc.status != IBV_WC_SUCCESS)
		drive_problem(d, "completion: %s", ibv_wc_status_str(wc.status));
}

static void wait_event(struct drive *d, struct objects *o)
{
	struct pollfd p = {.fd = o->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *user;

	if (drive_stopped(d))
		return;
	if (poll(&p, 1, WAIT_S * 1000) != 1) {
		drive_problem(d, "no event comes");
		drive_give_up(d, "no event", 0);
		return;
	}
	TRY_RET(d, ibv_get_cq_event(o->channel, &cq, &user));
	if (!drive_stopped(d))
		ibv_ack_cq_events(cq, 1);
}

/* One message a -> b by events, and one by the UD QP to itself. */
static void talk(struct drive *d, struct objects *o)
{
	struct ibv_sge out = {(uintptr_t)o->mem, LEN, 0}, in = {(uintptr_t)o->mem + LEN, LEN, 0};
	struct ibv_recv_wr recv = {.sg_list = &in, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	if (drive_stopped(d))
		return;
	out.lkey = in.lkey = o->mr->lkey;
	TRY_ERR(d, ibv_req_notify_cq(o->cq, 0));
	TRY_ERR(d, ibv_post_srq_recv(o->srq, &recv, &bad_recv));
	send.send_flags = IBV_SEND_SIGNALED;
	TRY_ERR(d, ibv_post_send(o->a, &send, &bad));
	wait_event(d, o);
	for (unsigned i = 0; i < 2; i++)
		wait_completion(d, o);
	if (drive_stopped(d))
		return;
	out.length = LEN / 4; /* with a GRH before it */
	send.wr.ud.ah = o->ah;
	send.wr.ud.remote_qpn = o->ud->qp_num;
	send.wr.ud.remote_qkey = 1;
	TRY_ERR(d, ibv_post_recv(o->ud, &recv, &bad_recv));
	TRY_ERR(d, ibv_post_send(o->ud, &send, &bad));
	wait_completion(d, o); /* its receive may be lost */
}

static void end(struct drive *d, struct objects *o)
{
	if (o->ah)
		FREE(d, ibv_destroy_ah(o->ah));
	if (o->a)
		FREE(d, ibv_destroy_qp(o->a));
	if (o->b)
		FREE(d, ibv_destroy_qp(o->b));
	if (o->ud)
		FREE(d, ibv_destroy_qp(o->ud));
	if (o->srq)
		FREE(d, ibv_destroy_srq(o->srq));
	if (o->second)
		FREE(d, ibv_destroy_cq(o->second));
	if (o->cq)
		FREE(d, ibv_destroy_cq(o->cq));
	if (o->channel)
		FREE(d, ibv_destroy_comp_channel(o->channel));
	if (o->mr)
		FREE(d, ibv_dereg_mr(o->mr));
	if (o->pd)
		FREE(d, ibv_dealloc_pd(o->pd));
	if (o->ctx)
		FREE(d, ibv_close_device(o->ctx));
	if (o->list)
		ibv_free_device_list(o->list);
}

static void objects_and_traffic(struct drive *d)
{
	struct objects o = {0};

	make_context(d, &o);
	make_queues(d, &o);
	if (!drive_stopped(d)) {
		connect_qp(d, &o, o.a, o.b);
		connect_qp(d, &o, o.b, o.a);
		start_ud(d, &o);
	}
	talk(d, &o);
	end(d, &o);
}

TEST(verbs, any_call_inside_fails__error_and_later_calls_work)
{
	netns_enter_once();
	drive_all("objects", objects_and_traffic);
}

TEST(verbs, descriptors_run_out__emfile_and_later_calls_work)
{
	netns_enter_once();
	drive_descriptors("objects", objects_and_traffic);
}
