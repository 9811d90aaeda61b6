/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * why-check DEVICE: calls that are refused, some of them often, whose reasons `rocemu run --log
 * why` is to print. Exit code 0: all of them were refused.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

enum { TIMES = 41 };

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static struct ibv_qp *qp_in_init(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {.send_cq = cq,
					.recv_cq = cq,
					.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	return qp && !ibv_modify_qp(qp, &attr,
				    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					    IBV_QP_ACCESS_FLAGS)
		       ? qp
		       : NULL;
}

/** All that RTR needs but the path. */
static int to_rtr_without_path(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int main(int argc, char **argv)
{
	struct ibv_context *ctx = argc == 2 ? open_device(argv[1]) : NULL;
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_cq *cq = ctx ? ibv_create_cq(ctx, 4, NULL, NULL, 0) : NULL;
	struct ibv_qp *qp = pd && cq ? qp_in_init(pd, cq) : NULL;
	int refused = 0;

	if (!qp) {
		fprintf(stderr, "usage: why-check DEVICE\n");
		return 2;
	}
	for (int i = 0; i < TIMES; i++)
		refused += to_rtr_without_path(qp) == EINVAL;
	refused += !ibv_create_cq(ctx, 0, NULL, NULL, 0) && errno == EINVAL;
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	return refused == TIMES + 1 ? 0 : 1;
}
