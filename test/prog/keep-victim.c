/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * keep-victim DEVICE PEER QPS [send]: QPs connected to that address, from which packets are to be
 * forged, each to its own QPN, and one pair of QPs in the same lane that are connected to each
 * other. Prints the lowest and the highest QPN of those. send: a SEND is posted to each. Then, for
 * each line on stdin with a number of milliseconds: WRITEs from one of the pair to the other for
 * that time, and prints how many MB that were, the resident memory in KiB, and the counts of
 * packets that came before their turn, of packets from other ports, and of RNR NAKs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

enum { BYTES = 64 * 1024, DEPTH = 16 };

#define MUST(call) ((call) ? (void)0 : die(#call, __LINE__))

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq, *quiet;
static struct ibv_mr *mr;
static union ibv_gid here;
static char memory[2 * BYTES];

static void die(const char *what, int line)
{
	fprintf(stderr, "keep-victim: line %d: %s: %s\n", line, what, strerror(errno));
	exit(1);
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list);
	for (unsigned i = 0; list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	MUST(ctx);
	MUST(!ibv_query_gid(ctx, 1, 0, &here));
	MUST((pd = ibv_alloc_pd(ctx)));
	MUST((cq = ibv_create_cq(ctx, 2 * DEPTH, NULL, NULL, 0)));
	MUST((quiet = ibv_create_cq(ctx, 1, NULL, NULL, 0)));
	mr = ibv_reg_mr(pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(mr);
}

static struct ibv_qp *new_qp(struct ibv_cq *to, unsigned depth)
{
	struct ibv_qp_init_attr init = {.send_cq = to,
					.recv_cq = to,
					.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = depth, .max_send_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	MUST(qp);
	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return qp;
}

static void connect_qp(struct ibv_qp *qp, const union ibv_gid *peer, uint32_t qpn)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *peer}}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 16,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1};

	rtr.ah_attr.grh.hop_limit = 64;
	MUST(!ibv_modify_qp(qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
	MUST(!ibv_modify_qp(qp, &rts,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void send_one(struct ibv_qp *qp)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND};

	MUST(!ibv_post_send(qp, &wr, &bad));
}

static void open_to(const char *peer, unsigned n, bool sends)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
	uint32_t low = UINT32_MAX, high = 0;

	MUST(inet_pton(AF_INET, peer, gid.raw + 12) == 1);
	for (unsigned i = 0; i < n; i++) {
		struct ibv_qp *qp = new_qp(quiet, 1);

		connect_qp(qp, &gid, qp->qp_num);
		if (sends)
			send_one(qp);
		low = qp->qp_num < low ? qp->qp_num : low;
		high = qp->qp_num > high ? qp->qp_num : high;
	}
	printf("%u %u\n", low, high);
	fflush(stdout);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void write_once(struct ibv_qp *qp)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = BYTES, .lkey = mr->lkey};
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
		      .num_sge = 1,
		      .opcode = IBV_WR_RDMA_WRITE,
		      .send_flags = IBV_SEND_SIGNALED,
		      .wr.rdma = {.remote_addr = (uintptr_t)memory + BYTES, .rkey = mr->rkey}};

	MUST(!ibv_post_send(qp, &wr, &bad));
}

/** @return MB, until all that was posted is done. */
static double stream(struct ibv_qp *qp, double seconds)
{
	const double end = now() + seconds;
	unsigned posted = 0, done = 0;
	struct ibv_wc wc;

	for (; posted < DEPTH; posted++)
		write_once(qp);
	while (done < posted) {
		const int n = ibv_poll_cq(cq, 1, &wc);

		MUST(n >= 0);
		if (!n)
			continue;
		MUST(wc.status == IBV_WC_SUCCESS);
		done++;
		if (now() < end) {
			write_once(qp);
			posted++;
		}
	}
	return (double)done * BYTES / 1e6;
}

static long resident_kb(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long pages = 0;

	MUST(f && fscanf(f, "%*d %ld", &pages) == 1);
	fclose(f);
	return pages * 4;
}

static long counter(const char *name)
{
	char path[256];
	FILE *f;
	long value = 0;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s",
		 ibv_get_device_name(ctx->device), name);
	f = fopen(path, "re");
	MUST(f && fscanf(f, "%ld", &value) == 1);
	fclose(f);
	return value;
}

int main(int argc, char **argv)
{
	struct ibv_qp *one, *other;
	char line[32];

	if (argc < 4) {
		fprintf(stderr, "usage: keep-victim DEVICE PEER QPS [send]\n");
		return 2;
	}
	open_device(argv[1]);
	one = new_qp(cq, DEPTH);
	other = new_qp(quiet, 1);
	connect_qp(one, &here, other->qp_num);
	connect_qp(other, &here, one->qp_num);
	open_to(argv[2], (unsigned)atoi(argv[3]), argc > 4);
	while (fgets(line, sizeof(line), stdin)) {
		const double mb = stream(one, atoi(line) / 1e3);

		printf("%.1f %ld %ld %ld %ld\n", mb, resident_kb(), counter("out_of_sequence"),
		       counter("rx_port_dropped"), counter("rnr_nak_retry_err"));
		fflush(stdout);
	}
	return 0;
}
