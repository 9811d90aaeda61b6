/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lesson 4: the states of a queue pair. A new one is in RESET. The program brings it through INIT
 * and RTR (ready to receive) to RTS (ready to send); errors bring it to ERR.
 *
 *     cc lesson-4.c -o lesson-4 -libverbs -lrdmacm
 *     rocemu run --device dev0=lo -- ./lesson-4
 *
 * Exercises: --no-address, --peer-not-ready
 */
#include "lesson.h"

static void state_print(const char *name, struct ibv_qp *qp)
{
	/* In the order of enum ibv_qp_state. */
	static const char *const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	check0(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	printf("%s is in %s\n", name, states[attr.qp_state]);
}

/** INIT: which port, which partition of the network, what a peer may do. Receives may be posted. */
static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.pkey_index = 0,
		.qp_access_flags = 0, /* SENDs need no right; WRITE, READ and atomics would */
	};

	/* The mask selects the valid fields. A transition requires some, and allows a few more. */
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
}

/** RTR: who the peer is, and how its packets are received and answered. */
static int to_rtr(struct ibv_qp *qp, const struct ibv_qp *peer, bool with_address)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.rq_psn = 0x1000, /* the peer's first packet has this number */
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		/*
		 * The peer's address. Here it is the own address: both are queue pairs of one
		 * device.
		 */
		.ah_attr = {.is_global = 1, .port_num = PORT, .grh = {.hop_limit = 64}},
	};
	int mask = IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	attr.ah_attr.grh.sgid_index = gid_find(qp->context, &attr.ah_attr.grh.dgid);
	return ibv_modify_qp(qp, &attr, with_address ? mask | IBV_QP_AV : mask);
}

/** RTS: how requests are numbered, and what is done when no answer comes. */
static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0x1000, /* equal to the peer's rq_psn */
		.timeout = 14,	  /* 4.096 us * 2^14: 67 ms without an answer, then again */
		.retry_cnt = 7,	  /* so often */
		.rnr_retry = 7,	  /* where the peer has no receive: 7 is without limit */
		.max_rd_atomic = 1,
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

/** A sends, B receives; then B goes to ERR, where no request is lost: each completes, "flushed". */
static void talk(struct pair *p)
{
	/* Each state can go to ERR and to RESET, and nothing is required for that. */
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR}, reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND};

	send_post(p->a, &send);
	struct ibv_wc wc = completion_print("A's send", p->a_cq);
	state_print("A", p->a);
	if (wc.status != IBV_WC_SUCCESS)
		return;
	completion_print("B's first receive", p->b_cq);

	check0(ibv_modify_qp(p->b, &err, IBV_QP_STATE));
	state_print("B", p->b);
	completion_print("B's second receive", p->b_cq);
	check0(ibv_modify_qp(p->b, &reset, IBV_QP_STATE));
	state_print("B", p->b);
}

int main(int argc, char **argv)
{
	enum { NO_ADDRESS = 1, PEER_NOT_READY };
	const char *name;
	int exercise = args_read(argc, argv, "--no-address", "--peer-not-ready", &name);
	struct ibv_pd *pd = pd_open(name);
	struct ibv_recv_wr recv = {.wr_id = 0}; /* for an empty message */
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_wr;
	struct pair p;

	pair_init(&p, pd, NULL);
	state_print("A", p.a);
	check0(to_init(p.a));
	check0(to_init(p.b));
	state_print("A", p.a);
	recv_post(p.b, &recv);
	recv_post(p.b, &recv);
	printf("A sends too early: %s\n", strerror(ibv_post_send(p.a, &send, &bad_wr)));

	int error = to_rtr(p.a, p.b, exercise != NO_ADDRESS);
	state_print("A", p.a);
	if (error) {
		printf("A to RTR: %s\n", strerror(error));
	} else {
		check0(to_rts(p.a));
		state_print("A", p.a);
		/* B may stay in RTR: it receives and acknowledges, but sends nothing by itself. */
		if (exercise != PEER_NOT_READY)
			check0(to_rtr(p.b, p.a, true));
		state_print("B", p.b);
		talk(&p);
	}
	pair_fini(&p);
	pd_close(pd);
	return 0;
}
