/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends messages of connection management from a UD QP of its own to another host's QP 1, as a
 * program may try.
 *
 *	ud-mad DEVICE GID_INDEX DESTINATION QKEY < MADS
 *
 * MADS: 256 bytes each. QKEY is that of the QP and of each message. Prints the number that left,
 * and the QP's number.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

enum { MAD = 256, GSI_QPN = 1 };

struct sender {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	uint32_t qkey;
	char mad[MAD];
};

static void *need(void *object, const char *what)
{
	if (object)
		return object;
	fprintf(stderr, "ud-mad: %s: %s\n", what, strerror(errno));
	exit(2);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_context *context = NULL;

	for (unsigned i = 0; list[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return need(context, name);
}

static void modify(struct sender *s, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1, .qkey = s->qkey};
	int r = ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | mask);

	if (!r)
		return;
	fprintf(stderr, "ud-mad: ibv_modify_qp: %s\n", strerror(r));
	exit(2);
}

static void start(struct sender *s, const char *device, int gid_index, const char *destination)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = 1, .max_send_sge = 1}};
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1};

	s->context = open_device(device);
	s->pd = need(ibv_alloc_pd(s->context), "ibv_alloc_pd");
	s->cq = need(ibv_create_cq(s->context, 1, NULL, NULL, 0), "ibv_create_cq");
	s->mr = need(ibv_reg_mr(s->pd, s->mad, MAD, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	init.send_cq = init.recv_cq = s->cq;
	s->qp = need(ibv_create_qp(s->pd, &init), "ibv_create_qp");
	modify(s, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	modify(s, IBV_QPS_RTR, 0);
	modify(s, IBV_QPS_RTS, IBV_QP_SQ_PSN);
	to.grh.sgid_index = (uint8_t)gid_index;
	to.grh.hop_limit = 64;
	to.grh.dgid.raw[10] = to.grh.dgid.raw[11] = 0xff;
	need(inet_pton(AF_INET, destination, to.grh.dgid.raw + 12) == 1 ? s : NULL, destination);
	s->ah = need(ibv_create_ah(s->pd, &to), "ibv_create_ah");
}

/** @return whether it left. */
static int send_mad(struct sender *s)
{
	struct ibv_sge sge = {.addr = (uintptr_t)s->mad, .length = MAD, .lkey = s->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {.ah = s->ah, .remote_qpn = GSI_QPN, .remote_qkey = s->qkey}};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	if (ibv_post_send(s->qp, &wr, &bad))
		return 0;
	do
		n = ibv_poll_cq(s->cq, 1, &wc);
	while (!n);
	return n == 1 && wc.status == IBV_WC_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct sender s;
	unsigned sent = 0;

	if (argc != 5) {
		fprintf(stderr, "usage: ud-mad DEVICE GID_INDEX DESTINATION QKEY < MADS\n");
		return 2;
	}
	s.qkey = (uint32_t)strtoul(argv[4], NULL, 0);
	start(&s, argv[1], atoi(argv[2]), argv[3]);
	while (fread(s.mad, MAD, 1, stdin) == 1)
		sent += (unsigned)send_mad(&s);
	printf("%u sent from QPN 0x%x\n", sent, s.qp->qp_num);
	ibv_destroy_ah(s.ah);
	ibv_destroy_qp(s.qp);
	ibv_dereg_mr(s.mr);
	ibv_destroy_cq(s.cq);
	ibv_dealloc_pd(s.pd);
	ibv_close_device(s.context);
	return 0;
}
