/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lesson 5: the operations of a reliable connection. SEND needs a receive at the peer; WRITE, READ
 * and atomics need an address and a key instead, and the peer's program has no part in them.
 *
 *     cc lesson-5.c -o lesson-5 -libverbs -lrdmacm
 *     rocemu run --device dev0=lo -- ./lesson-5
 *
 * Exercises: --no-receive, --short-receive
 */
#include <arpa/inet.h>
#include <inttypes.h>

#include "lesson.h"

/* What each side registers. All requests here are of the first bytes of `text`, or of `word`. */
struct memory {
	char text[32];
	uint64_t word;
};

static struct memory a_mem = {"hello", 0}, b_mem = {"", 40};
static struct ibv_mr *a_mr, *b_mr;
static struct pair pair;

/** Post a request of A, wait for its completion and print it. */
static void request_run(const char *what, struct ibv_send_wr *wr, void *local, uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)local, .length = length, .lkey = a_mr->lkey};

	wr->sg_list = &sge;
	wr->num_sge = 1;
	send_post(pair.a, wr);
	completion_print(what, pair.a_cq);
}

/** B offers `length` bytes of its text to the next message. */
static void receive_post(uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)b_mem.text, .length = length, .lkey = b_mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1};

	recv_post(pair.b, &recv);
}

static void receive_print(void)
{
	struct ibv_wc wc = completion_print("  B's receive", pair.b_cq);

	if (wc.status != IBV_WC_SUCCESS)
		return;
	printf("  B: %u bytes, \"%s\"", wc.byte_len, b_mem.text);
	if (wc.wc_flags & IBV_WC_WITH_IMM)
		printf(", immediate value %u", ntohl(wc.imm_data));
	printf("\n");
}

/** A message: A decides when, B decides where. */
static void message(bool with_receive, uint32_t room)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND};

	if (with_receive)
		receive_post(room);
	request_run("SEND", &send, a_mem.text, 6);
	if (with_receive)
		receive_print();
}

/** An atomic of A on B's word. The word's old value comes back, here into A's. */
static void atomic_run(const char *what, struct ibv_send_wr *wr)
{
	request_run(what, wr, &a_mem.word, sizeof(a_mem.word));
	printf("  A gets %" PRIu64 ", B's word is %" PRIu64 "\n", a_mem.word, b_mem.word);
}

/** One-sided operations: A decides when and where, B's program does nothing. */
static void one_sided(void)
{
	struct ibv_send_wr rdma = {
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {.remote_addr = (uintptr_t)b_mem.text, .rkey = b_mr->rkey},
	};
	struct ibv_send_wr atomic = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic.remote_addr = (uintptr_t)&b_mem.word, /* a multiple of 8 */
		.wr.atomic.rkey = b_mr->rkey,
		.wr.atomic.compare_add = 2,
	};

	strcpy(a_mem.text, "written");
	request_run("WRITE", &rdma, a_mem.text, 8);
	printf("  B's memory: \"%s\"; B has no completion\n", b_mem.text);

	/* With an immediate value, a WRITE takes a receive, so that B gets a completion. */
	strcpy(a_mem.text, "and told");
	rdma.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	rdma.imm_data = htonl(7);
	receive_post(sizeof(b_mem.text));
	request_run("WRITE with immediate", &rdma, a_mem.text, 9);
	receive_print();

	strcpy(b_mem.text, "B's own text");
	rdma.opcode = IBV_WR_RDMA_READ;
	request_run("READ", &rdma, a_mem.text, 13);
	printf("  A's memory: \"%s\"\n", a_mem.text);

	atomic_run("fetch and add 2", &atomic);
	atomic.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	atomic.wr.atomic.compare_add = 42;
	atomic.wr.atomic.swap = 100;
	atomic_run("compare with 42 and swap for 100", &atomic);
	atomic_run("the same again", &atomic);
}

int main(int argc, char **argv)
{
	enum { NO_RECEIVE = 1, SHORT_RECEIVE };
	const char *name;
	int exercise = args_read(argc, argv, "--no-receive", "--short-receive", &name);
	struct ibv_pd *pd = pd_open(name);

	a_mr = ibv_reg_mr(pd, &a_mem, sizeof(a_mem), IBV_ACCESS_LOCAL_WRITE);
	b_mr = ibv_reg_mr(pd, &b_mem, sizeof(b_mem),
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	check(a_mr && b_mr);
	pair_init(&pair, pd, NULL);
	pair_connect(&pair);

	message(exercise != NO_RECEIVE, exercise == SHORT_RECEIVE ? 4 : sizeof(b_mem.text));
	if (!exercise)
		one_sided();

	pair_fini(&pair);
	check0(ibv_dereg_mr(a_mr));
	check0(ibv_dereg_mr(b_mr));
	pd_close(pd);
	return 0;
}
