/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * many-qps N [CQS [mw]]: two processes, of N connected QPs each, more than one lane has numbers
 * for. Each QP of the server's receives a message, every other one by an SRQ, and answers it by a
 * WRITE with immediate data. The server waits for events, the client polls. With CQS 2, one in 100
 * QPs has the second CQ and the others the first. With mw, there is a memory window. The client
 * forks in between. Both end without destroying anything. Prints the slots that were used, and how
 * many transitions to RTS a second of a processor's time made, of the first QPs and of the last.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CQS_MAX = 2, BATCH = 64, RATED = 1000, SLOTS = 1024, INDEX_BITS = 14 };

#define MUST(call) ((call) ? (void)0 : die(#call, __LINE__))

/** One process. */
struct side {
	const char *name;
	int peer; /* socket */
	unsigned n, ncqs;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* NULL: polls */
	struct ibv_cq *cq[CQS_MAX];
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_qp **qp;
	uint32_t *memory; /* a word for each QP */
	union ibv_gid here;
	uint32_t *peer_qpn;
	uint64_t peer_memory;
	uint32_t peer_rkey;
};

static struct side self;

static void die(const char *what, int line)
{
	fprintf(stderr, "many-qps: %s, line %d: %s: %s\n", self.name, line, what, strerror(errno));
	exit(1);
}

/** Seconds of this thread. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void give(const void *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		const ssize_t n = write(self.peer, (const char *)data + at, len - at);

		MUST(n > 0);
		at += (size_t)n;
	}
}

static void take(void *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		const ssize_t n = read(self.peer, (char *)data + at, len - at);

		MUST(n > 0);
		at += (size_t)n;
	}
}

/* ---- objects ---- */

static bool has_srq(unsigned i)
{
	return self.srq && i % 2;
}

static void make_objects(bool events, bool window)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 4 * BATCH, .max_sge = 1}};

	MUST(list && list[0] && (self.ctx = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	MUST(!ibv_query_gid(self.ctx, 1, 0, &self.here));
	MUST((self.pd = ibv_alloc_pd(self.ctx)));
	MUST(!window || ibv_alloc_mw(self.pd, IBV_MW_TYPE_2));
	if (events)
		MUST((self.channel = ibv_create_comp_channel(self.ctx)));
	for (unsigned i = 0; i < self.ncqs; i++) {
		self.cq[i] = ibv_create_cq(self.ctx, 4 * BATCH, NULL, self.channel, 0);
		MUST(self.cq[i] && !ibv_req_notify_cq(self.cq[i], 0));
	}
	if (events)
		MUST((self.srq = ibv_create_srq(self.pd, &a)));
	self.memory = calloc(self.n, sizeof(*self.memory));
	self.peer_qpn = calloc(self.n, sizeof(*self.peer_qpn));
	self.qp = calloc(self.n, sizeof(struct ibv_qp *));
	MUST(self.memory && self.peer_qpn && self.qp);
	self.mr = ibv_reg_mr(self.pd, self.memory, self.n * sizeof(*self.memory),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(self.mr);
}

static void make_qp(unsigned i)
{
	struct ibv_cq *cq = self.cq[self.ncqs > 1 && i % 100 == 0];
	struct ibv_qp_init_attr a = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = has_srq(i) ? self.srq : NULL,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	MUST((self.qp[i] = ibv_create_qp(self.pd, &a)));
	MUST(!ibv_modify_qp(self.qp[i], &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void to_rtr(unsigned i)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = self.peer_qpn[i],
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = self.here}}};

	a.ah_attr.grh.hop_limit = 64;
	MUST(!ibv_modify_qp(self.qp[i], &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
}

static void to_rts(unsigned i)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS,
				.timeout = 16,
				.retry_cnt = 7,
				.rnr_retry = 7,
				.max_rd_atomic = 1};

	MUST(!ibv_modify_qp(self.qp[i], &a,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

/** @return transitions to RTS in a second of the thread's time: the best of some at a time. */
static double connect_qps(unsigned from, unsigned to)
{
	double best = 0;

	for (unsigned i = from; i < to; i++)
		to_rtr(i);
	for (unsigned i = from; i < to;) {
		const unsigned n = to - i < BATCH ? to - i : BATCH;
		const double start = now();
		double rate;

		for (const unsigned end = i + n; i < end; i++)
			to_rts(i);
		rate = n / (now() - start);
		best = rate > best ? rate : best;
	}
	return best;
}

static void make_qps(double *first, double *last)
{
	const uint64_t memory = (uintptr_t)self.memory;
	uint32_t *qpn = calloc(self.n, sizeof(*qpn));

	MUST(qpn);
	for (unsigned i = 0; i < self.n; i++) {
		make_qp(i);
		qpn[i] = self.qp[i]->qp_num;
	}
	give(qpn, self.n * sizeof(*qpn));
	give(&memory, sizeof(memory));
	give(&self.mr->rkey, sizeof(self.mr->rkey));
	take(self.peer_qpn, self.n * sizeof(*qpn));
	take(&self.peer_memory, sizeof(self.peer_memory));
	take(&self.peer_rkey, sizeof(self.peer_rkey));
	*first = connect_qps(0, RATED);
	connect_qps(RATED, self.n - RATED);
	*last = connect_qps(self.n - RATED, self.n);
	free(qpn);
}

/* ---- traffic ---- */

static void receive_on(unsigned i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&self.memory[i], .length = 4, .lkey = self.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	MUST(!(has_srq(i) ? ibv_post_srq_recv(self.srq, &wr, &bad)
			  : ibv_post_recv(self.qp[i], &wr, &bad)));
}

/** answer: the client's word for the QP is written. */
static void send_on(unsigned i, uint32_t value, bool answer)
{
	struct ibv_sge sge = {.addr = (uintptr_t)&value, .length = sizeof(value)};
	struct ibv_send_wr wr = {.wr_id = i,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = answer ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				 .imm_data = i};
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = self.peer_memory + i * sizeof(*self.memory);
	wr.wr.rdma.rkey = self.peer_rkey;
	MUST(!ibv_post_send(self.qp[i], &wr, &bad));
}

static struct ibv_cq *wait_for_event(void)
{
	struct ibv_cq *cq;
	void *context;

	MUST(!ibv_get_cq_event(self.channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	MUST(!ibv_req_notify_cq(cq, 0));
	return cq;
}

/** Next completions, of any CQ. */
static unsigned complete(struct ibv_wc *wc)
{
	for (;;) {
		for (unsigned i = 0; i < self.ncqs; i++) {
			const int n = ibv_poll_cq(self.cq[i], BATCH, wc);

			MUST(n >= 0);
			if (n > 0)
				return (unsigned)n;
		}
		if (self.channel)
			wait_for_event();
	}
}

/** The QP of a message, whose value names it. Receives of an SRQ have no order. */
static unsigned sender_of(const struct ibv_wc *wc, uint32_t value)
{
	MUST(value < self.n && self.qp[value]->qp_num == wc->qp_num);
	return value;
}

static void handle(const struct ibv_wc *wc, uint32_t turn)
{
	const unsigned i = (unsigned)wc->wr_id;

	if (wc->status)
		fprintf(stderr, "many-qps: %s: QP %u: %s\n", self.name, i,
			ibv_wc_status_str(wc->status));
	MUST(wc->status == IBV_WC_SUCCESS);
	if (wc->opcode == IBV_WC_RECV) {
		const unsigned from = sender_of(wc, self.memory[i] ^ turn);

		MUST(has_srq(i) || from == i);
		send_on(from, ~(from ^ turn), true);
	}
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		MUST(sender_of(wc, ~self.memory[i] ^ turn) == i && wc->imm_data == i);
}

/** A message and its answer on each QP of a batch. */
static void exchange(unsigned from, unsigned to, uint32_t turn)
{
	unsigned left = 2 * (to - from);
	struct ibv_wc wc[BATCH];
	char byte = 0;

	for (unsigned i = from; i < to; i++)
		receive_on(i);
	give(&byte, 1);
	take(&byte, 1);
	for (unsigned i = from; i < to && !self.channel; i++)
		send_on(i, i ^ turn, false);
	while (left) {
		const unsigned n = complete(wc);

		for (unsigned k = 0; k < n; k++)
			handle(&wc[k], turn);
		left -= n;
	}
}

static void exchange_all(uint32_t turn)
{
	for (unsigned i = 0; i < self.n; i += BATCH)
		exchange(i, i + BATCH < self.n ? i + BATCH : self.n, turn);
}

static void fork_once(void)
{
	const pid_t pid = fork();
	int status;

	MUST(pid >= 0);
	if (!pid)
		_exit(ibv_create_cq(self.ctx, 1, NULL, NULL, 0) ? 1 : 0); /* it is the parent's */
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

static void print_slots(double first, double last)
{
	static bool used[SLOTS];

	for (unsigned i = 0; i < self.n; i++)
		used[self.qp[i]->qp_num >> INDEX_BITS] = true;
	printf("%s: rate %.0f %.0f slots", self.name, first, last);
	for (unsigned i = 0; i < SLOTS; i++)
		if (used[i])
			printf(" %u", i);
	printf("\n");
	fflush(stdout);
}

static void run(bool server, bool window)
{
	double first, last;

	make_objects(server, window);
	make_qps(&first, &last);
	exchange_all(0);
	if (!server)
		fork_once();
	exchange_all(0x5a5a5a5a);
	print_slots(first, last);
}

int main(int argc, char **argv)
{
	int pair[2], status;
	pid_t pid;

	self.n = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	self.ncqs = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	if (self.n < 2 * RATED || self.ncqs < 1 || self.ncqs > CQS_MAX) {
		fprintf(stderr, "usage: many-qps N [CQS [mw]]\n");
		return 2;
	}
	self.name = "parent";
	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	MUST((pid = fork()) >= 0);
	self.name = pid ? "client" : "server";
	self.peer = pair[pid ? 0 : 1];
	close(pair[pid ? 1 : 0]); /* the end of one process ends the other */
	run(!pid, argc > 3);
	if (!pid)
		return 0;
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}
