/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma-check DEVICE COUNT: makes COUNT QPs and takes the list of resources over NETLINK_RDMA,
 * slowly: each QP is there once, in the state it has, and none is once they are destroyed.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	PROTOCOL_RDMA = 20,
	QP_GET = 5 << 10 | 10,
	ATTR_DEV_INDEX = 1,
	ATTR_QPS = 19,
	ATTR_LQPN = 21,
	ATTR_TYPE = 26,
	ATTR_STATE = 27,
	ATTR_PID = 28,
	QPS_MAX = 4096,
};

static struct ibv_qp *qps[QPS_MAX];
static bool seen[QPS_MAX];
static int nqps;
static unsigned checks;

#define CHECK(condition)                                                           \
	do {                                                                       \
		checks++;                                                          \
		if (!(condition)) {                                                \
			printf("failed, line %d: %s (%s)\n", __LINE__, #condition, \
			       strerror(errno));                                   \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

static void ask(int fd)
{
	struct {
		struct nlmsghdr h;
		struct nlattr a;
		uint32_t index;
	} m = {
		.h = {.nlmsg_len = sizeof(m),
		      .nlmsg_type = QP_GET,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		      .nlmsg_seq = 9},
		.a = {.nla_len = sizeof(m.a) + sizeof(m.index), .nla_type = ATTR_DEV_INDEX},
	};
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	CHECK(sendto(fd, &m, sizeof(m), 0, (struct sockaddr *)&kernel, sizeof(kernel)) ==
	      sizeof(m));
}

/** The QP that an entry's attributes are about. */
static void take_entry(const uint8_t *p, size_t len, uint8_t state)
{
	uint32_t qpn = 0, pid = 0;
	uint8_t type = 0, now = 99;
	struct nlattr a;
	int i = 0;

	for (; len >= sizeof(a); p += (a.nla_len + 3u) & ~3u, len -= (a.nla_len + 3u) & ~3u) {
		memcpy(&a, p, sizeof(a));
		CHECK(a.nla_len >= sizeof(a) && a.nla_len <= len);
		if (a.nla_type == ATTR_LQPN)
			memcpy(&qpn, p + sizeof(a), sizeof(qpn));
		else if (a.nla_type == ATTR_PID)
			memcpy(&pid, p + sizeof(a), sizeof(pid));
		else if (a.nla_type == ATTR_TYPE)
			type = p[sizeof(a)];
		else if (a.nla_type == ATTR_STATE)
			now = p[sizeof(a)];
	}
	while (i < nqps && qps[i]->qp_num != qpn)
		i++;
	CHECK(i < nqps && !seen[i]);
	CHECK(pid == (uint32_t)getpid() && type == IBV_QPT_UD && now == state);
	seen[i] = true;
}

/** Entries of the table in a message. */
static int take_message(const uint8_t *p, size_t len, uint8_t state)
{
	struct nlattr a;
	int n = 0;

	for (; len >= sizeof(a); p += (a.nla_len + 3u) & ~3u, len -= (a.nla_len + 3u) & ~3u) {
		memcpy(&a, p, sizeof(a));
		CHECK(a.nla_len >= sizeof(a) && ((a.nla_len + 3u) & ~3u) <= len);
		if (a.nla_type != ATTR_QPS)
			continue;
		for (size_t at = sizeof(a); at < a.nla_len;) {
			struct nlattr e;

			memcpy(&e, p + at, sizeof(e));
			take_entry(p + at + sizeof(e), e.nla_len - sizeof(e), state);
			at += (e.nla_len + 3u) & ~3u;
			n++;
		}
	}
	return n;
}

/** Query, and check the number of QPs. */
static void look(int fd, int count, uint8_t state)
{
	static uint8_t data[65536] __attribute__((aligned(4)));
	int found = 0, messages = 0;

	memset(seen, 0, sizeof(seen));
	ask(fd);
	for (bool done = false; !done;) {
		const ssize_t n = recv(fd, data, sizeof(data), 0);
		struct nlmsghdr h;

		CHECK(n >= (ssize_t)sizeof(h));
		for (size_t at = 0; at + sizeof(h) <= (size_t)n; at += (h.nlmsg_len + 3u) & ~3u) {
			memcpy(&h, data + at, sizeof(h));
			CHECK(h.nlmsg_len <= (size_t)n - at && h.nlmsg_seq == 9 &&
			      h.nlmsg_flags & NLM_F_MULTI);
			done = h.nlmsg_type == NLMSG_DONE;
			if (done)
				break;
			CHECK(h.nlmsg_type == QP_GET);
			found +=
				take_message(data + at + sizeof(h), h.nlmsg_len - sizeof(h), state);
			messages++;
		}
	}
	CHECK(found == count);
	CHECK(count < 100 || messages > 1);
}

/** A forked child's copies are not what there is. */
static void forget_in_child(void)
{
	const pid_t child = fork();
	int status;

	if (child == 0) {
		ibv_destroy_qp(qps[0]);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};
	struct sockaddr_nl any = {.nl_family = AF_NETLINK};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	struct ibv_pd *pd;
	int fd, small = 4096;

	CHECK(argc == 3 && list);
	nqps = atoi(argv[2]);
	CHECK(nqps > 0 && nqps <= QPS_MAX);
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			ctx = ibv_open_device(list[i]);
	CHECK(ctx);
	fd = socket(AF_NETLINK, SOCK_RAW, PROTOCOL_RDMA);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0);
	/* The list does not fit: it waits for us. */
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)) == 0);
	pd = ibv_alloc_pd(ctx);
	CHECK(pd);
	init.send_cq = init.recv_cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	CHECK(init.send_cq);
	look(fd, 0, 0);
	for (int i = 0; i < nqps; i++) {
		qps[i] = ibv_create_qp(pd, &init);
		CHECK(qps[i]);
	}
	look(fd, nqps, IBV_QPS_RESET);
	forget_in_child();
	look(fd, nqps, IBV_QPS_RESET);
	for (int i = 0; i < nqps; i++)
		CHECK(ibv_modify_qp(qps[i], &attr,
				    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) ==
		      0);
	look(fd, nqps, IBV_QPS_INIT);
	for (int i = 0; i < nqps; i++)
		CHECK(ibv_destroy_qp(qps[i]) == 0);
	look(fd, 0, 0);
	CHECK(ibv_destroy_cq(init.send_cq) == 0 && ibv_dealloc_pd(pd) == 0 &&
	      ibv_close_device(ctx) == 0);
	ibv_free_device_list(list);
	printf("%u checks ok\n", checks);
	return 0;
}
