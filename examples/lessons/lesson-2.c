/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lesson 2: protection domains, memory regions and keys. A writes into B's memory. The device reads
 * A's memory by A's local key and writes B's memory by B's remote key.
 *
 *     cc lesson-2.c -o lesson-2 -libverbs -lrdmacm
 *     rocemu run --device dev0=lo -- ./lesson-2
 *
 * Exercises: --wrong-rkey, --wrong-lkey
 */
#include "lesson.h"

static char source[64] = "written by A"; /* A's memory */
static char target[64] = "empty";	 /* B's memory */

static void state_print(const char *name, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	check0(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	printf("%s's queue pair: %s\n", name,
	       attr.qp_state == IBV_QPS_ERR ? "in the error state" : "still works");
}

int main(int argc, char **argv)
{
	enum { WRONG_RKEY = 1, WRONG_LKEY };
	const char *name;
	int exercise = args_read(argc, argv, "--wrong-rkey", "--wrong-lkey", &name);
	struct ibv_context *ctx = device_open(name);

	/* Queue pairs and memory work together only within one protection domain (PD). */
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	check(pd);

	/*
	 * The device gets at memory that is registered. The flags are the rights: reading by the
	 * program's own requests needs none; remote write needs local write as well.
	 */
	struct ibv_mr *from = ibv_reg_mr(pd, source, sizeof(source), 0);
	check(from);
	struct ibv_mr *to = ibv_reg_mr(pd, target, sizeof(target),
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(to);
	/* The local key (lkey) stays on its own host; the remote key (rkey) is sent to the peer. */
	printf("A registers %zu bytes, lkey 0x%x: its own requests may read them\n", from->length,
	       from->lkey);
	printf("B registers %zu bytes, rkey 0x%x: peers may write to them\n", to->length, to->rkey);

	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	check(cq);
	struct ibv_qp *a = qp_new(pd, IBV_QPT_RC, cq, cq, NULL);
	struct ibv_qp *b = qp_new(pd, IBV_QPT_RC, cq, cq, NULL);
	qp_connect(a, b);
	qp_connect(b, a);

	/* Between two hosts, B would have sent its address and rkey in a message (lesson 5). */
	struct ibv_sge sge = {
		.addr = (uintptr_t)source,
		.length = sizeof(source),
		.lkey = exercise == WRONG_LKEY ? from->lkey + 1 : from->lkey,
	};
	struct ibv_send_wr write = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma.remote_addr = (uintptr_t)target,
		.wr.rdma.rkey = exercise == WRONG_RKEY ? to->rkey + 1 : to->rkey,
	};
	struct ibv_send_wr *bad_wr;

	printf("A writes %u bytes, with %s\n", sge.length,
	       exercise == WRONG_RKEY	? "an rkey that is wrong by 1"
	       : exercise == WRONG_LKEY ? "an lkey that is wrong by 1"
					: "both keys");
	/* Posting checks no keys: what is wrong shows in the completion. */
	check0(ibv_post_send(a, &write, &bad_wr));
	completion_print("A's completion", cq);
	printf("B's memory: \"%s\"\n", target);

	/* B posted nothing, so it has no completion. */
	if (exercise == WRONG_RKEY)
		async_event_print("B", ctx);
	if (exercise) {
		state_print("A", a);
		state_print("B", b);
	}

	/* What is made of an object goes before that object. */
	check0(ibv_destroy_qp(a));
	check0(ibv_destroy_qp(b));
	check0(ibv_destroy_cq(cq));
	check0(ibv_dereg_mr(from));
	check0(ibv_dereg_mr(to));
	check0(ibv_dealloc_pd(pd));
	check0(ibv_close_device(ctx));
	return 0;
}
