/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Latency of messages that each side sleeps for: in ibv_get_cq_event() (--block), or in poll() or
 * epoll_wait() (--poll, --epoll) on the channel's non-blocking descriptor, as programs with an
 * event loop do. Each event is handled as man ibv_get_cq_event shows: take it, arm the CQ, empty
 * the CQ.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "connect-qp.h"

enum { WARM_UP = 1000, MAX_SIZE = 60000, RECVS = 16, SIGNAL_EVERY = 16, WCS = 8 };

struct end {
	uint32_t qpn;
	union ibv_gid gid;
};

struct side {
	const struct bench_options *o;
	struct ibv_context *ctx;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	int epoll_fd;
	unsigned received, sent;
	uint8_t buf[2 * MAX_SIZE];
};

static void post_recv(struct side *s)
{
	struct ibv_sge sge = {(uintptr_t)s->buf + MAX_SIZE, MAX_SIZE, s->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(s->qp, &wr, &bad))
		bench_die("ibv_post_recv");
}

static void post_send(struct side *s)
{
	struct ibv_sge sge = {(uintptr_t)s->buf, (uint32_t)s->o->size, s->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	if (++s->sent % SIGNAL_EVERY == 0)
		wr.send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(s->qp, &wr, &bad))
		bench_die("ibv_post_send");
}

static void open_device(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.cap = {2 * SIGNAL_EVERY, RECVS, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};
	struct epoll_event ev = {.events = EPOLLIN};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_pd *pd;

	s->ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	pd = s->ctx ? ibv_alloc_pd(s->ctx) : NULL;
	s->channel = pd ? ibv_create_comp_channel(s->ctx) : NULL;
	s->cq = s->channel ? ibv_create_cq(s->ctx, 64, NULL, s->channel, 0) : NULL;
	init.send_cq = init.recv_cq = s->cq;
	s->qp = s->cq ? ibv_create_qp(pd, &init) : NULL;
	s->mr = s->qp ? ibv_reg_mr(pd, s->buf, sizeof(s->buf), IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!s->mr || ibv_req_notify_cq(s->cq, 0))
		bench_die("device");
	if (!s->o->block && fcntl(s->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		bench_die("O_NONBLOCK");
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->channel->fd, &ev) < 0)
		bench_die("epoll");
}

/* A TCP connection over which the two sides exchange addresses. */
static int meet(const struct bench_options *o)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(o->port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), conn;

	if (o->host) {
		if (inet_pton(AF_INET, o->host, &a.sin_addr) != 1 ||
		    connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
			bench_die("connect");
		return fd;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1) < 0)
		bench_die("listen");
	bench_ready();
	conn = accept(fd, NULL, NULL);
	if (conn < 0)
		bench_die("accept");
	close(fd);
	return conn;
}

static void connect_sides(struct side *s)
{
	struct end own = {.qpn = s->qp->qp_num}, peer;
	struct ibv_qp_attr attr = {
		.path_mtu = IBV_MTU_4096, .max_rd_atomic = 1, .min_rnr_timer = 12, .timeout = 18};
	int fd = meet(s->o);

	if (ibv_query_gid(s->ctx, 1, 0, &own.gid))
		bench_die("ibv_query_gid");
	if (write(fd, &own, sizeof(own)) != sizeof(own) ||
	    recv(fd, &peer, sizeof(peer), MSG_WAITALL) != sizeof(peer))
		bench_die("exchange");
	attr.dest_qp_num = peer.qpn;
	attr.ah_attr.grh.dgid = peer.gid;
	if (connect_qp(s->qp, attr))
		bench_die("ibv_modify_qp");
	for (unsigned i = 0; i < RECVS; i++)
		post_recv(s);
	/* The other side is ready as well. */
	if (write(fd, "r", 1) != 1 || recv(fd, &peer, 1, 0) != 1)
		bench_die("exchange");
	close(fd);
}

static void empty_cq(struct side *s)
{
	struct ibv_wc wc[WCS];
	int n;

	while ((n = ibv_poll_cq(s->cq, WCS, wc)) > 0)
		for (int i = 0; i < n; i++) {
			errno = EIO;
			if (wc[i].status != IBV_WC_SUCCESS)
				bench_die(ibv_wc_status_str(wc[i].status));
			if (wc[i].opcode != IBV_WC_RECV)
				continue;
			s->received++;
			post_recv(s);
		}
}

static void sleep_until_readable(const struct side *s)
{
	struct pollfd p = {.fd = s->channel->fd, .events = POLLIN};
	struct epoll_event ev;

	if (s->o->epoll ? epoll_wait(s->epoll_fd, &ev, 1, -1) < 0 : poll(&p, 1, -1) < 0)
		bench_die("poll");
}

static void receive(struct side *s)
{
	struct ibv_cq *cq;
	void *user;

	while (!s->received) {
		if (!s->o->block)
			sleep_until_readable(s);
		if (ibv_get_cq_event(s->channel, &cq, &user)) {
			if (errno != EAGAIN)
				bench_die("ibv_get_cq_event");
			continue;
		}
		ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(cq, 0))
			bench_die("ibv_req_notify_cq");
		empty_cq(s);
	}
	s->received--;
}

int main(int argc, char **argv)
{
	struct bench_options o = {.size = 8, .iters = 20000};
	static struct side s;
	uint64_t *rtt;

	s.o = &o;
	bench_parse(&o, argc, argv);
	rtt = calloc(o.iters, sizeof(*rtt));
	if (!rtt)
		bench_die("memory");
	open_device(&s);
	connect_sides(&s);
	for (unsigned i = 0; i < WARM_UP + o.iters; i++) {
		uint64_t begin = bench_now_ns();

		if (!o.host)
			receive(&s);
		post_send(&s);
		if (o.host)
			receive(&s);
		if (i >= WARM_UP)
			rtt[i - WARM_UP] = bench_now_ns() - begin;
	}
	if (o.host)
		bench_print_latency(rtt, o.iters);
	free(rtt);
	return 0;
}
