/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an idle process with many connected queue pairs costs: connects N RC QPs of the first device
 *to each other in pairs, sends one message over each pair, then does nothing for a while and prints
 *the CPU time that took.
 *
 *	idle-qps [QPS [SECONDS]]
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_QPS = 16000 };

static void die(const char *what)
{
	fprintf(stderr, "idle-qps: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void connect_qp(struct ibv_qp *qp, uint32_t dest, const union ibv_gid *gid, enum ibv_mtu mtu)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu,
		.dest_qp_num = dest,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1};

	if (ibv_modify_qp(qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	    ibv_modify_qp(qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER) ||
	    ibv_modify_qp(qp, &rts,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("ibv_modify_qp");
}

/** An empty SEND from a to b, to its completion on both sides. */
static void ping(struct ibv_qp *a, struct ibv_qp *b, struct ibv_cq *cq)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad_send;
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
	struct ibv_wc wc;

	if (ibv_post_recv(b, &recv, &bad_recv) || ibv_post_send(a, &send, &bad_send))
		die("post");
	for (int done = 0; done < 2;) {
		int n = ibv_poll_cq(cq, 1, &wc);

		errno = EIO;
		if (n < 0 || (n == 1 && wc.status != IBV_WC_SUCCESS))
			die(n == 1 ? ibv_wc_status_str(wc.status) : "ibv_poll_cq");
		done += n;
	}
}

static double cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000, seconds = argc > 2 ? atoi(argv[2]) : 3;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct timespec pause = {.tv_sec = seconds};
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct ibv_port_attr port;
	struct ibv_qp **qps;
	union ibv_gid gid;
	struct ibv_pd *pd;
	double before;

	if (n < 2 || n > MAX_QPS || n % 2 || seconds < 1) {
		fprintf(stderr, "usage: idle-qps [QPS (even, 2-%d) [SECONDS]]\n", MAX_QPS);
		return 2;
	}
	list = ibv_get_device_list(NULL);
	if (!list || !list[0])
		die("no RDMA device");
	ctx = ibv_open_device(list[0]);
	if (!ctx || ibv_query_port(ctx, 1, &port) || ibv_query_gid(ctx, 1, 0, &gid))
		die("device");
	pd = ibv_alloc_pd(ctx);
	attr.send_cq = attr.recv_cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	qps = calloc((size_t)n, sizeof(*qps));
	if (!pd || !attr.send_cq || !qps)
		die("CQ");
	for (int i = 0; i < n; i++) {
		qps[i] = ibv_create_qp(pd, &attr);
		if (!qps[i])
			die("ibv_create_qp");
	}
	for (int i = 0; i < n; i++)
		connect_qp(qps[i], qps[i ^ 1]->qp_num, &gid, port.active_mtu);
	for (int i = 0; i < n; i += 2)
		ping(qps[i], qps[i + 1], attr.send_cq);

	before = cpu_ms();
	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		;
	printf("qps %d seconds %d cpu_ms %.3f\n", n, seconds, cpu_ms() - before);
	return 0;
}
