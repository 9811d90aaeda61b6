/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lesson 7: shared receive queues, memory windows, invalidation. Several queue pairs take receives
 * from one queue (SRQ). A window gives a peer a part of a region for a time; the peer's last
 * message takes it back.
 *
 *     cc lesson-7.c -o lesson-7 -libverbs -lrdmacm
 *     rocemu run --device dev0=lo -- ./lesson-7
 *
 * Exercises: --after-invalidate, --no-bind-right
 */
#include "lesson.h"

static char memory[128] = "through the window"; /* A's, and from byte 64 on B's */
static struct ibv_mr *mr;

static void request_run(const char *what, struct ibv_qp *qp, struct ibv_cq *cq,
			struct ibv_send_wr *wr)
{
	send_post(qp, wr);
	completion_print(what, cq);
}

/** Two connections, one queue of receives, and an event when few are left. */
static void shared_receives(struct ibv_srq *srq, struct pair *first, struct pair *second)
{
	struct ibv_srq_attr limit = {.srq_limit = 3};
	struct ibv_recv_wr recv = {0}, *bad_wr;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND};

	for (recv.wr_id = 1; recv.wr_id <= 4; recv.wr_id++)
		check0(ibv_post_srq_recv(srq, &recv, &bad_wr));
	check0(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	printf("B posts 4 receives to its SRQ, and asks for an event when fewer than 3 are left\n");

	request_run("first connection: SEND", first->a, first->a_cq, &send);
	struct ibv_wc wc = completion_wait(first->b_cq);
	printf("  B: receive %d\n", (int)wc.wr_id);
	request_run("second connection: SEND", second->a, second->a_cq, &send);
	wc = completion_wait(second->b_cq);
	printf("  B: receive %d\n", (int)wc.wr_id);

	async_event_print("  B", srq->context);
}

/** B opens a window on 64 bytes of its region. Returns whether that succeeded. */
static bool window_bind(struct ibv_mw *mw, struct pair *p)
{
	struct ibv_send_wr bind = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw.mw = mw,
		.bind_mw.rkey = ibv_inc_rkey(mw->rkey), /* a new one each time */
		.bind_mw.bind_info.mr = mr,
		.bind_mw.bind_info.addr = (uintptr_t)memory + 64,
		.bind_mw.bind_info.length = 64,
		.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	send_post(p->b, &bind);
	struct ibv_wc wc = completion_print("B binds a window to bytes 64 to 127", p->b_cq);
	mw->rkey = bind.bind_mw.rkey;
	return wc.status == IBV_WC_SUCCESS;
}

int main(int argc, char **argv)
{
	enum { AFTER_INVALIDATE = 1, NO_BIND_RIGHT };
	const char *name;
	int exercise = args_read(argc, argv, "--after-invalidate", "--no-bind-right", &name);
	struct ibv_pd *pd = pd_open(name);
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	check(srq);
	struct pair first, second;

	pair_init(&first, pd, srq);
	pair_init(&second, pd, srq);
	pair_connect(&first);
	pair_connect(&second);
	shared_receives(srq, &first, &second);

	/* No right for peers: they get in by windows alone, for which the region has MW_BIND. */
	mr = ibv_reg_mr(pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE |
				(exercise == NO_BIND_RIGHT ? 0 : IBV_ACCESS_MW_BIND));
	check(mr);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	check(mw);

	if (window_bind(mw, &first)) {
		struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 19, .lkey = mr->lkey};
		struct ibv_send_wr write = {
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = {.remote_addr = (uintptr_t)memory + 64, .rkey = mw->rkey},
		};
		struct ibv_send_wr done = {.opcode = IBV_WR_SEND_WITH_INV,
					   .invalidate_rkey = mw->rkey};

		request_run("A: WRITE", first.a, first.a_cq, &write);
		printf("  B's memory: \"%s\"\n", memory + 64);
		request_run("A: SEND with invalidate", first.a, first.a_cq, &done);
		struct ibv_wc wc = completion_wait(first.b_cq);
		printf("  B: receive %d; the window's key is %s\n", (int)wc.wr_id,
		       wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == mw->rkey ? "invalid"
											: "valid");
		if (exercise == AFTER_INVALIDATE)
			request_run("A: WRITE", first.a, first.a_cq, &write);
	}

	pair_fini(&first);
	pair_fini(&second);
	check0(ibv_dealloc_mw(mw));
	check0(ibv_dereg_mr(mr));
	check0(ibv_destroy_srq(srq));
	pd_close(pd);
	return 0;
}
