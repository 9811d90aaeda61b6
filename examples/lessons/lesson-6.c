/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lesson 6: datagrams. A queue pair of the UD service sends to any other. Each request names an
 * address handle (AH), the queue pair number and its Q_Key; nothing is acknowledged. One address
 * may be a multicast group.
 *
 *     cc lesson-6.c -o lesson-6 -libverbs -lrdmacm
 *     rocemu run --device dev0=lo -- ./lesson-6
 *
 * Exercises: --wrong-qkey, --no-grh-room
 */
#include <arpa/inet.h>

#include "lesson.h"

enum { TEXT = 64, QKEY = 0x1111, GROUP_QPN = 0xffffff };

struct node {
	const char *name;
	struct ibv_qp *qp;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_mr *mr;
	char out[TEXT];
	struct {
		struct ibv_grh grh; /* a receive begins with 40 bytes for the sender's address */
		char text[TEXT];
	} in;
};

static struct node a = {.name = "A"}, b = {.name = "B"};

static void node_init(struct node *n, struct ibv_pd *pd)
{
	n->send_cq = ibv_create_cq(pd->context, 16, NULL, NULL, 0);
	n->recv_cq = ibv_create_cq(pd->context, 16, NULL, NULL, 0);
	check(n->send_cq && n->recv_cq);
	n->mr = ibv_reg_mr(pd, n, sizeof(*n), IBV_ACCESS_LOCAL_WRITE);
	check(n->mr);
	n->qp = qp_new(pd, IBV_QPT_UD, n->send_cq, n->recv_cq, NULL);

	/* The same states as RC's. There is no peer to name, so RTR and RTS need little. */
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY};
	check0(ibv_modify_qp(n->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	check0(ibv_modify_qp(n->qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	check0(ibv_modify_qp(n->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void node_fini(struct node *n)
{
	check0(ibv_destroy_qp(n->qp));
	check0(ibv_destroy_cq(n->send_cq));
	check0(ibv_destroy_cq(n->recv_cq));
	check0(ibv_dereg_mr(n->mr));
}

static void receive_post(struct node *n, uint32_t room)
{
	struct ibv_sge sge = {.addr = (uintptr_t)&n->in, .length = room, .lkey = n->mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1};

	recv_post(n->qp, &recv);
}

static struct ibv_wc receive_print(struct node *n)
{
	struct ibv_wc wc = completion_wait(n->recv_cq);

	printf("  %s receives \"%s\", byte_len %u\n", n->name, n->in.text, wc.byte_len);
	return wc;
}

static void datagram_send(struct node *n, const char *text, struct ibv_ah *ah, uint32_t qpn,
			  uint32_t qkey)
{
	uint32_t length = (uint32_t)strlen(text) + 1;
	struct ibv_sge sge = {.addr = (uintptr_t)n->out, .length = length, .lkey = n->mr->lkey};
	struct ibv_send_wr send = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = qkey},
	};

	strcpy(n->out, text);
	send_post(n->qp, &send);
	/* It means "sent": no answer comes from the receiver. */
	struct ibv_wc wc = completion_wait(n->send_cq);
	printf("%s sends \"%s\": %s\n", n->name, text, ibv_wc_status_str(wc.status));
}

/** A multicast group: each queue pair that is attached to it gets each message, the sender's too.
 */
static void group_use(struct ibv_pd *pd, struct ibv_ah_attr attr)
{
	union ibv_gid *gid = &attr.grh.dgid;

	check(inet_pton(AF_INET6, "::ffff:239.7.7.7", gid->raw) == 1);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	check(ah);
	check0(ibv_attach_mcast(a.qp, gid, 0));
	check0(ibv_attach_mcast(b.qp, gid, 0));
	receive_post(&a, sizeof(a.in));
	receive_post(&b, sizeof(b.in));
	datagram_send(&a, "to all", ah, GROUP_QPN, QKEY);
	receive_print(&a);
	receive_print(&b);
	check0(ibv_detach_mcast(a.qp, gid, 0));
	check0(ibv_detach_mcast(b.qp, gid, 0));
	check0(ibv_destroy_ah(ah));
}

int main(int argc, char **argv)
{
	enum { WRONG_QKEY = 1, NO_GRH_ROOM };
	const char *name;
	int exercise = args_read(argc, argv, "--wrong-qkey", "--no-grh-room", &name);
	struct ibv_pd *pd = pd_open(name);
	node_init(&a, pd);
	node_init(&b, pd);

	/* An address handle is the path to a GID; here to the own GID. */
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = PORT, .grh = {.hop_limit = 64}};
	attr.grh.sgid_index = gid_find(pd->context, &attr.grh.dgid);
	struct ibv_ah *b_ah = ibv_create_ah(pd, &attr);
	check(b_ah);

	receive_post(&b, exercise == NO_GRH_ROOM ? TEXT : sizeof(b.in));
	if (exercise)
		datagram_send(&a, "more than 24 bytes of text", b_ah, b.qp->qp_num,
			      exercise == WRONG_QKEY ? QKEY + 1 : QKEY);
	datagram_send(&a, "ping", b_ah, b.qp->qp_num, QKEY);
	struct ibv_wc wc = receive_print(&b);

	/* B can answer: the completion and the first 40 bytes identify the sender. */
	struct ibv_ah *a_ah = ibv_create_ah_from_wc(pd, &wc, &b.in.grh, PORT);
	check(a_ah);
	receive_post(&a, sizeof(a.in));
	datagram_send(&b, "pong", a_ah, wc.src_qp, QKEY);
	receive_print(&a);

	if (!exercise)
		group_use(pd, attr);
	check0(ibv_destroy_ah(a_ah));
	check0(ibv_destroy_ah(b_ah));
	node_fini(&a);
	node_fini(&b);
	pd_close(pd);
	return 0;
}
