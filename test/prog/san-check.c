/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A correct program, built with a sanitizer or run by valgrind, which then must report nothing. One
 * process with two contexts: threads post, poll and spin on memory that the other side writes. Who
 * spins yields, for valgrind runs one thread at a time.
 *
 * usage: san-check [ROUNDS [leak]]	leak: leave a list of devices, in leak_on_purpose()
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 8192, DEPTH = 16 };

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	union ibv_gid gid;
	uint8_t *mem; /* of 2 * BYTES: what is sent, what is received */
};

static struct side here, there;
static unsigned rounds = 100;

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static void side_open(struct side *s, struct ibv_device *device)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.sq_sig_all = 1,
	};

	s->ctx = ibv_open_device(device);
	check(s->ctx != NULL, "ibv_open_device");
	s->pd = ibv_alloc_pd(s->ctx);
	s->cq = ibv_create_cq(s->ctx, 4 * DEPTH, NULL, NULL, 0);
	s->mem = calloc(2, BYTES);
	check(s->pd && s->cq && s->mem, "ibv_alloc_pd, ibv_create_cq");
	s->mr = ibv_reg_mr(s->pd, s->mem, 2 * BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	check(s->mr != NULL, "ibv_reg_mr");
	attr.send_cq = attr.recv_cq = s->cq;
	s->qp = ibv_create_qp(s->pd, &attr);
	check(s->qp != NULL, "ibv_create_qp");
	check(ibv_query_gid(s->ctx, 1, 0, &s->gid) == 0, "ibv_query_gid");
}

static void side_connect(struct side *s, const struct side *to)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 19,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .grh = {.dgid = to->gid, .hop_limit = 1},
			    .port_num = 1},
	};

	check(!ibv_modify_qp(s->qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      "INIT");
	a.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(s->qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER),
	      "RTR");
	a.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(s->qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	      "RTS");
}

static void side_close(struct side *s)
{
	check(!ibv_destroy_qp(s->qp) && !ibv_destroy_cq(s->cq) && !ibv_dereg_mr(s->mr) &&
		      !ibv_dealloc_pd(s->pd) && !ibv_close_device(s->ctx),
	      "destruction");
	free(s->mem);
}

static void post_recv(struct side *s)
{
	struct ibv_sge sge = {(uintptr_t)s->mem + BYTES, BYTES, s->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	check(!ibv_post_recv(s->qp, &wr, &bad), "ibv_post_recv");
}

static void post_send(struct side *s, enum ibv_wr_opcode opcode, uint32_t len,
		      const struct side *to)
{
	struct ibv_sge sge = {(uintptr_t)s->mem, len, s->mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode};

	wr.wr.rdma.remote_addr = (uintptr_t)to->mem + BYTES;
	wr.wr.rdma.rkey = to->mr->rkey;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->mem;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = to->mr->rkey;
	}
	check(!ibv_post_send(s->qp, &wr, &bad), "ibv_post_send");
}

static void poll(struct side *s)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0)
		sched_yield();
	check(n == 1 && wc.status == IBV_WC_SUCCESS, "ibv_poll_cq");
}

/*
 * Messages of a packet and of several: the data is read as soon as the completion is polled, and
 * sent back.
 */
static void *echo(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < rounds; i++) {
		poll(&there); /* the receive */
		memcpy(there.mem, there.mem + BYTES, BYTES);
		post_recv(&there);
		post_send(&there, IBV_WR_SEND, i % 2 ? BYTES : 64, &here);
		poll(&there);
	}
	return NULL;
}

static void messages(void)
{
	pthread_t thread;

	post_recv(&there);
	check(!pthread_create(&thread, NULL, echo, NULL), "pthread_create");
	for (unsigned i = 0; i < rounds; i++) {
		memset(here.mem, (int)i, BYTES);
		post_recv(&here);
		post_send(&here, IBV_WR_SEND, i % 2 ? BYTES : 64, &there);
		poll(&here);
		poll(&here);
		check(here.mem[BYTES + 63] == (uint8_t)i, "contents");
	}
	pthread_join(thread, NULL);
}

/* A thread that calls no verb and waits for the last byte of a WRITE. */
static void *spin(void *arg)
{
	const uint8_t *got = there.mem + BYTES;

	(void)arg;
	for (unsigned i = 1; i <= rounds; i++) {
		const uint8_t mark = (uint8_t)(i % 255 + 1);

		while (__atomic_load_n(&got[BYTES - 1], __ATOMIC_ACQUIRE) != mark)
			sched_yield();
		check(got[0] == mark && got[BYTES / 2] == mark,
		      "what is before the end of a WRITE");
		/* Where the other side spins. */
		__atomic_store_n(&there.mem[0], mark, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void writes(void)
{
	pthread_t thread;

	there.mem[0] = 0; /* no mark: messages may have left one there */
	check(!pthread_create(&thread, NULL, spin, NULL), "pthread_create");
	for (unsigned i = 1; i <= rounds; i++) {
		const uint8_t mark = (uint8_t)(i % 255 + 1);

		memset(here.mem, mark, BYTES);
		post_send(&here, IBV_WR_RDMA_WRITE, BYTES, &there);
		poll(&here);
		while (__atomic_load_n(&there.mem[0], __ATOMIC_ACQUIRE) != mark)
			sched_yield();
	}
	pthread_join(thread, NULL);
}

/* The memory that is read and counted in is the program's own between the requests. */
static void reads(void)
{
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t count;

		memset(there.mem + BYTES, (int)i, BYTES);
		post_send(&here, IBV_WR_RDMA_READ, BYTES, &there);
		poll(&here);
		check(here.mem[0] == (uint8_t)i && here.mem[BYTES - 1] == (uint8_t)i,
		      "what was read");
		count = i;
		memcpy(there.mem, &count, sizeof(count));
		post_send(&here, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, &there);
		poll(&here);
		memcpy(&count, there.mem, sizeof(count));
		check(count == i + 1, "what was counted");
	}
}

/* One thread posts, another takes the completions and uses the memory again. */
static void *take(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < rounds; i++) {
		poll(&there);
		check(there.mem[BYTES] == (uint8_t)i, "what was sent by another thread");
		there.mem[BYTES] = 0;
		post_recv(&there);
		post_send(&there, IBV_WR_SEND, 0, &here);
		poll(&there);
	}
	return NULL;
}

static void two_threads(void)
{
	pthread_t thread;

	check(!pthread_create(&thread, NULL, take, NULL), "pthread_create");
	for (unsigned i = 0; i < rounds; i++) {
		here.mem[0] = (uint8_t)i;
		post_recv(&here);
		post_send(&here, IBV_WR_SEND, 64, &there);
		poll(&here);
		poll(&here);
	}
	pthread_join(thread, NULL);
}

__attribute__((noinline)) static void leak_on_purpose(void)
{
	check(ibv_get_device_list(NULL) != NULL, "ibv_get_device_list");
}

int main(int argc, char **argv)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	if (argc > 1)
		rounds = (unsigned)atoi(argv[1]);
	check(devices && devices[0], "ibv_get_device_list");
	side_open(&here, devices[0]);
	side_open(&there, devices[0]);
	side_connect(&here, &there);
	side_connect(&there, &here);
	messages();
	two_threads();
	writes();
	reads();
	side_close(&here);
	side_close(&there);
	if (argc > 2)
		leak_on_purpose();
	ibv_free_device_list(devices);
	puts("san-check: done");
	return 0;
}
