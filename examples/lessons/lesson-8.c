/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lesson 8: rdma_cm and rsockets. rdma_cm finds the device by IP address, exchanges what lesson 4
 * set by hand, and brings the queue pairs to RTS. rsockets are sockets on top of it.
 *
 *     cc lesson-8.c -o lesson-8 -libverbs -lrdmacm
 *     rocemu run --device dev0=lo -- ./lesson-8 [--EXERCISE] [ADDRESS]
 *
 * Exercises: --no-listener, --refuse
 */
#include <arpa/inet.h>
#include <pthread.h>

#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

#include "lesson.h"

enum { PATIENCE_MS = 5000 };

static struct sockaddr_in address = {.sin_family = AF_INET}; /* of the server; port 0: any */

/** Wait for the next event of a channel and print it. Returns its ID: at a listener, a new one. */
static struct rdma_cm_id *event_wait(const char *who, struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	check(rdma_get_cm_event(channel, &event) == 0);
	struct rdma_cm_id *id = event->id;
	const char *data = event->param.conn.private_data;
	printf("%s: %s", who, rdma_event_str(event->event));
	if (event->status)
		printf(", status %d", event->status);
	/* A few bytes of the program's own may come with each message. */
	if (event->param.conn.private_data_len && *data)
		printf(", private data \"%s\"", data);
	printf("\n");
	rdma_ack_cm_event(event);
	return id;
}

/** Give an ID a queue pair in state INIT, with a CQ for sends and one for receives. */
static void qp_add(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};

	check(rdma_create_qp(id, NULL, &init) == 0);
}

/** A new ID: what a socket is to TCP. Its events go to a channel. */
static struct rdma_cm_id *id_new(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	check(channel);
	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	return id;
}

/** B answers a request. To accept needs a queue pair, with receives for what may come at once. */
static void request_answer(struct rdma_cm_id *b, bool refuse)
{
	struct rdma_conn_param param = {.private_data = "welcome", .private_data_len = 8};
	struct ibv_recv_wr recv = {0};

	if (refuse) {
		check(rdma_reject(b, "no room", 8) == 0);
		return;
	}
	qp_add(b);
	recv_post(b->qp, &recv);
	check(rdma_accept(b, &param) == 0);
	/* rdma_accept and rdma_connect bring the queue pairs through INIT, RTR and RTS. */
}

/** An empty message from A to B, and the end of the connection. */
static void connection_use(struct rdma_cm_id *a, struct rdma_cm_id *b)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND};

	event_wait("B", b->channel);
	send_post(a->qp, &send);
	completion_print("B's receive", b->recv_cq);

	/* Each side disconnects: one begins, the other answers. */
	check(rdma_disconnect(a) == 0);
	event_wait("B", b->channel);
	check(rdma_disconnect(b) == 0);
	event_wait("A", a->channel);
	rdma_destroy_qp(b);
}

/** A connects to B; both in this thread, as each call only begins what an event ends. */
static void by_rdma_cm(bool listens, bool refuse)
{
	struct rdma_conn_param param = {.private_data = "it is A", .private_data_len = 8};
	struct rdma_event_channel *a_channel = rdma_create_event_channel();
	struct rdma_event_channel *b_channel = rdma_create_event_channel();
	struct rdma_cm_id *a = id_new(a_channel), *listener = id_new(b_channel), *b = NULL;
	struct sockaddr *to = (struct sockaddr *)&address;

	check(rdma_bind_addr(listener, to) == 0);
	address.sin_port = rdma_get_src_port(listener); /* chosen by the kernel */
	if (listens)
		check(rdma_listen(listener, 1) == 0);

	check(rdma_resolve_addr(a, NULL, to, PATIENCE_MS) == 0);
	event_wait("A", a_channel); /* now the ID has a device */
	check(rdma_resolve_route(a, PATIENCE_MS) == 0);
	event_wait("A", a_channel);
	qp_add(a);
	check(rdma_connect(a, &param) == 0);
	if (listens) {
		b = event_wait("B", b_channel); /* the new connection's ID */
		request_answer(b, refuse);
	}
	event_wait("A", a_channel);
	if (listens && !refuse)
		connection_use(a, b);

	rdma_destroy_qp(a);
	rdma_destroy_id(a);
	if (b)
		rdma_destroy_id(b);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(a_channel);
	rdma_destroy_event_channel(b_channel);
}

static void *client_run(void *unused)
{
	char text[16];
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	check(fd >= 0);
	check(rconnect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	check(rsend(fd, "ping", 5, 0) == 5);
	check(rrecv(fd, text, 5, MSG_WAITALL) == 5);
	check(rclose(fd) == 0);
	return unused;
}

/** The same calls as for TCP, with an r before them. */
static void by_rsockets(void)
{
	pthread_t client;
	char text[16];
	socklen_t size = sizeof(address);
	int listener = rsocket(AF_INET, SOCK_STREAM, 0);

	check(listener >= 0);
	address.sin_port = 0;
	check(rbind(listener, (struct sockaddr *)&address, size) == 0);
	check(rlisten(listener, 1) == 0);
	check(rgetsockname(listener, (struct sockaddr *)&address, &size) == 0);
	check0(pthread_create(&client, NULL, client_run, NULL));

	int fd = raccept(listener, NULL, NULL);
	check(fd >= 0);
	check(rrecv(fd, text, 5, MSG_WAITALL) == 5);
	printf("rsocket: the server receives \"%s\"\n", text);
	check(rsend(fd, "pong", 5, 0) == 5);
	check(rrecv(fd, text, 5, 0) == 0);
	printf("rsocket: the client has closed the connection\n");
	check0(pthread_join(client, NULL));
	check(rclose(fd) == 0 && rclose(listener) == 0);
}

int main(int argc, char **argv)
{
	enum { NO_LISTENER = 1, REFUSE };
	const char *where;
	int exercise = args_read(argc, argv, "--no-listener", "--refuse", &where);

	errno = EINVAL;
	check(inet_pton(AF_INET, where ? where : "127.0.0.1", &address.sin_addr) == 1);
	by_rdma_cm(exercise != NO_LISTENER, exercise == REFUSE);
	if (!exercise)
		by_rsockets();
	return 0;
}
