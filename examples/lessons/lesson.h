/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the lessons share, so that each shows its own subject alone: checks of calls, the command
 * line, an open device, a completion, two queue pairs. Lessons 1, 3 and 4 are about the last
 * three, and lesson 2 gives all objects back in full.
 */
#ifndef LESSON_H
#define LESSON_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

enum { PORT = 1 }; /* ports count from 1; most devices have one */

/** End the program unless a call succeeded. Verbs that return a pointer set errno. */
#define check(success) ((success) ? (void)0 : fail(__FILE__, __LINE__, #success))
/** The same for verbs that return 0 or an errno value. */
#define check0(call) ((errno = (call)) == 0 ? (void)0 : fail(__FILE__, __LINE__, #call))

static inline void fail(const char *file, int line, const char *call)
{
	fflush(stdout);
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, strerror(errno));
	exit(1);
}

/**
 * Read "[--EXERCISE] [WHERE]". Returns the exercise: 1 for `first`, 2 for `second`, 0 for none.
 * `*where` is the name of a device (in lesson 8: an address), NULL where it is not given.
 */
static inline int args_read(int argc, char **argv, const char *first, const char *second,
			    const char **where)
{
	const char *option = argc > 1 ? argv[1] : "";
	int exercise = strcmp(option, first) == 0 ? 1 : strcmp(option, second) == 0 ? 2 : 0;
	int next = exercise ? 2 : 1;

	*where = next < argc ? argv[next] : NULL;
	if (next + 1 < argc || (*where && *where[0] == '-')) {
		fprintf(stderr, "usage: %s [%s | %s] [WHERE]\n", argv[0], first, second);
		exit(2);
	}
	return exercise;
}

/** Open the device of that name, or the first one. */
static inline struct ibv_context *device_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	check(list);
	errno = ENODEV;
	for (int i = 0; list[i] && !ctx; i++)
		if (!name || strcmp(name, ibv_get_device_name(list[i])) == 0)
			ctx = ibv_open_device(list[i]);
	check(ctx);
	ibv_free_device_list(list);
	return ctx;
}

/** A protection domain of the device of that name, or of the first one; and its end. */
static inline struct ibv_pd *pd_open(const char *name)
{
	struct ibv_pd *pd = ibv_alloc_pd(device_open(name));

	check(pd);
	return pd;
}

static inline void pd_close(struct ibv_pd *pd)
{
	struct ibv_context *ctx = pd->context;

	check0(ibv_dealloc_pd(pd));
	check0(ibv_close_device(ctx));
}

/** Find an address of RoCE v2 in the port's GID table. Returns its index. */
static inline uint8_t gid_find(struct ibv_context *ctx, union ibv_gid *gid)
{
	struct ibv_gid_entry entry;

	for (uint8_t i = 0; i < UINT8_MAX; i++) {
		if (ibv_query_gid_ex(ctx, PORT, i, &entry, 0) == 0 &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2) {
			*gid = entry.gid;
			return i;
		}
	}
	errno = ENODATA;
	fail(__FILE__, __LINE__, "no GID of RoCE v2");
	return 0;
}

/** Post one request, as lesson 2 does by hand. bad_wr is for lists: the first that was refused. */
static inline void send_post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad_wr;

	check0(ibv_post_send(qp, wr, &bad_wr));
}

static inline void recv_post(struct ibv_qp *qp, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad_wr;

	check0(ibv_post_recv(qp, wr, &bad_wr));
}

/** Wait for an asynchronous event, which concerns an object and no request, and print it. */
static inline void async_event_print(const char *who, struct ibv_context *ctx)
{
	struct ibv_async_event event;

	check(ibv_get_async_event(ctx, &event) == 0);
	printf("%s: asynchronous event: %s\n", who, ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
}

/** Poll until there is a completion. */
static inline struct ibv_wc completion_wait(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int count;

	do
		count = ibv_poll_cq(cq, 1, &wc);
	while (count == 0);
	check(count == 1);
	return wc;
}

/** The same, and print how the request ended. */
static inline struct ibv_wc completion_print(const char *what, struct ibv_cq *cq)
{
	struct ibv_wc wc = completion_wait(cq);

	printf("%s: status %d, %s\n", what, wc.status, ibv_wc_status_str(wc.status));
	return wc;
}

/** Create a queue pair, RC or UD. `srq` is NULL where it has receives of its own. */
static inline struct ibv_qp *qp_new(struct ibv_pd *pd, enum ibv_qp_type type,
				    struct ibv_cq *send_cq, struct ibv_cq *recv_cq,
				    struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type,
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.srq = srq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1, /* each request gets a completion */
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	check(qp);
	return qp;
}

/** Bring `qp` to RTS with `peer`, of the same device, at the other end. */
static inline void qp_connect(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.ah_attr = {.is_global = 1, .port_num = PORT, .grh = {.hop_limit = 64}},
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, /* 0.64 ms */
		.timeout = 14,	     /* 67 ms */
		.retry_cnt = 7,
		.rnr_retry = 2,
	};

	check0(ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	attr.ah_attr.grh.sgid_index = gid_find(qp->context, &attr.ah_attr.grh.dgid);
	check0(ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	check0(ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

/** Two queue pairs of one device, A and B; the completions of each have a queue of their own. */
struct pair {
	struct ibv_cq *a_cq, *b_cq;
	struct ibv_qp *a, *b;
};

/** Make both, in state RESET. B's receives are in `srq`, or in B where that is NULL. */
static inline void pair_init(struct pair *p, struct ibv_pd *pd, struct ibv_srq *srq)
{
	p->a_cq = ibv_create_cq(pd->context, 16, NULL, NULL, 0);
	p->b_cq = ibv_create_cq(pd->context, 16, NULL, NULL, 0);
	check(p->a_cq && p->b_cq);
	p->a = qp_new(pd, IBV_QPT_RC, p->a_cq, p->a_cq, NULL);
	p->b = qp_new(pd, IBV_QPT_RC, p->b_cq, p->b_cq, srq);
}

static inline void pair_connect(struct pair *p)
{
	qp_connect(p->a, p->b);
	qp_connect(p->b, p->a);
}

static inline void pair_fini(struct pair *p)
{
	check0(ibv_destroy_qp(p->a));
	check0(ibv_destroy_qp(p->b));
	check0(ibv_destroy_cq(p->a_cq));
	check0(ibv_destroy_cq(p->b_cq));
}

#endif
