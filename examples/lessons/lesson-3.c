/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lesson 3: completion queues and events. A program learns that a request ended by a completion. It
 * may poll for it, or sleep until an event wakes it up.
 *
 *     cc lesson-3.c -o lesson-3 -libverbs -lrdmacm
 *     rocemu run --device dev0=lo -- ./lesson-3
 *
 * Exercises: --not-armed, --overrun
 */
#include <poll.h>

#include "lesson.h"

static struct ibv_qp *a, *b;
static struct ibv_cq *send_cq; /* for A's sends */
static struct ibv_cq *recv_cq; /* for B's receives */

/** B posts a receive, A sends an empty message into it; waits until B has acknowledged it. */
static void message_send(uint64_t number, unsigned flags)
{
	struct ibv_recv_wr recv = {.wr_id = number};
	struct ibv_send_wr send = {.wr_id = number, .opcode = IBV_WR_SEND, .send_flags = flags};

	recv_post(b, &recv);
	send_post(a, &send);
	/* wr_id comes back in the completion: it is how a program finds its request. */
	struct ibv_wc wc = completion_wait(send_cq);
	printf("  A: send %d, %s\n", (int)wc.wr_id, ibv_wc_status_str(wc.status));
}

static void receive_print(void)
{
	struct ibv_wc wc = completion_wait(recv_cq);

	printf("  B: receive %d, %s\n", (int)wc.wr_id, ibv_wc_status_str(wc.status));
}

/** Sleep until there is an event. */
static void event_wait(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	check(ibv_get_cq_event(channel, &cq, &context) == 0);
	printf("  B: woken up by an event\n");
	/* Each event is acknowledged, or ibv_destroy_cq waits for that forever. */
	ibv_ack_cq_events(cq, 1);
}

static void overrun(struct ibv_context *ctx)
{
	/* The device may have made the queue larger than requested: see cqe. */
	printf("B does not poll, and its queue has room for %d:\n", recv_cq->cqe);
	for (int i = 0; i <= recv_cq->cqe; i++)
		message_send((uint64_t)i, 0);
	async_event_print("  B", ctx);
}

static void events(struct ibv_comp_channel *channel, bool arm)
{
	printf("B polls:\n");
	message_send(1, 0);
	receive_print();

	printf("B %s, then two messages come:\n",
	       arm ? "arms the queue" : "forgets to arm the queue");
	/* Armed, the next completion raises an event, and that disarms the queue. */
	if (arm)
		check0(ibv_req_notify_cq(recv_cq, 0));
	message_send(2, 0);
	message_send(3, 0);
	if (arm)
		event_wait(channel);
	receive_print();
	receive_print();
	struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};
	printf("  B: %s event waits\n", poll(&pfd, 1, 0) ? "an" : "no");
	if (!arm)
		return;

	printf("B arms the queue for solicited messages alone:\n");
	check0(ibv_req_notify_cq(recv_cq, 1));
	message_send(4, 0);
	printf("  B: %s event waits\n", poll(&pfd, 1, 0) ? "an" : "no");
	message_send(5, IBV_SEND_SOLICITED);
	event_wait(channel);
	receive_print();
	receive_print();
}

int main(int argc, char **argv)
{
	enum { NOT_ARMED = 1, OVERRUN };
	const char *name;
	int exercise = args_read(argc, argv, "--not-armed", "--overrun", &name);
	struct ibv_pd *pd = pd_open(name);
	struct ibv_context *ctx = pd->context;

	/* A channel is a file descriptor: poll() and epoll wait for it beside sockets. */
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	check(channel);
	send_cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	recv_cq = ibv_create_cq(ctx, exercise == OVERRUN ? 1 : 16, NULL, channel, 0);
	check(send_cq && recv_cq);
	a = qp_new(pd, IBV_QPT_RC, send_cq, send_cq, NULL);
	b = qp_new(pd, IBV_QPT_RC, recv_cq, recv_cq, NULL);
	qp_connect(a, b);
	qp_connect(b, a);

	if (exercise == OVERRUN)
		overrun(ctx);
	else
		events(channel, exercise != NOT_ARMED);

	check0(ibv_destroy_qp(a));
	check0(ibv_destroy_qp(b));
	check0(ibv_destroy_cq(send_cq));
	check0(ibv_destroy_cq(recv_cq));
	check0(ibv_destroy_comp_channel(channel));
	pd_close(pd);
	return 0;
}
