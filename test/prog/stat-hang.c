/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that hangs, by a mistake of its own: of two connected QPs one sends, and the other has
 * no receive posted.
 *
 *	stat-hang DEVICE
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define must(x) ((x) ? (void)0 : (perror(#x), exit(1)))

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = NULL;

	for (unsigned i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			c = ibv_open_device(list[i]);
	must(c);
	ibv_free_device_list(list);
	return c;
}

static struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	must(qp);
	return qp;
}

static void connect_qp(struct ibv_qp *qp, struct ibv_qp *to)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qp_num,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	must(ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid) == 0);
	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	     0);
	attr.qp_state = IBV_QPS_RTR;
	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER) == 0);
	attr.qp_state = IBV_QPS_RTS;
	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

int main(int argc, char **argv)
{
	static char message[64];
	struct ibv_context *c = open_device(argc > 1 ? argv[1] : "dev0");
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_cq *cq = ibv_create_cq(c, 16, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, message, sizeof(message), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp *a = new_qp(pd, cq), *b = new_qp(pd, cq);
	struct ibv_sge sge = {
		.addr = (uintptr_t)message, .length = sizeof(message), .lkey = mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 0x11,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND},
			   *bad;

	connect_qp(a, b);
	connect_qp(b, a);
	must(ibv_post_send(a, &wr, &bad) == 0);
	printf("%u %u\n", a->qp_num, b->qp_num);
	fflush(stdout);
	for (;;)
		pause();
}
