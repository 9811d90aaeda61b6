/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mcast-check: multicast on plain libibverbs. A receiver attaches a UD queue pair to a group,
 * prints "ready" and exits with 0 when it has received --count messages, each the right one. A
 * sender sends so many; attached itself (--member), it waits for its own, too. It uses nothing of
 * rocemu.
 *
 * usage: mcast-check --device NAME --address ADDRESS --group GID --count N --send|--receive
 *	[--member] [--first NUMBER]
 *
 * The messages are numbered from --first (0) on, which shows in their bytes.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

enum {
	GRH = 40,
	LEN = 900,
	ROOM = 1024,
	DEPTH = 256,
	QKEY = 0x01234567,
	MCAST_QPN = 0xffffff,
	HOP_LIMIT = 5,
	WAIT_S = 60, /* hang guard */
};

struct check {
	const char *device;
	union ibv_gid self, group;
	unsigned count, first;
	bool send, member;
	unsigned sent, received; /* completions */
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint8_t gid_index;
	uint8_t mem[(DEPTH + 1) * ROOM];
};

static struct check check;

static void die(const char *what)
{
	printf("failed: %s\n", what);
	exit(1);
}

static void parse_gid(const char *text, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	if (inet_pton(AF_INET, text, gid->raw + 12) != 1 &&
	    inet_pton(AF_INET6, text, gid->raw) != 1)
		die("expected an address");
}

static bool parse(int argc, char **argv, struct check *c)
{
	static const struct option longs[] = {
		{"device", required_argument, NULL, 'd'},
		{"address", required_argument, NULL, 'a'},
		{"group", required_argument, NULL, 'g'},
		{"count", required_argument, NULL, 'n'},
		{"send", no_argument, NULL, 's'},
		{"receive", no_argument, NULL, 'r'},
		{"member", no_argument, NULL, 'm'},
		{"first", required_argument, NULL, 'f'},
		{0},
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 'd':
			c->device = optarg;
			break;
		case 'a':
			parse_gid(optarg, &c->self);
			break;
		case 'g':
			parse_gid(optarg, &c->group);
			break;
		case 'n':
			c->count = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 'f':
			c->first = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 's':
			c->send = true;
			break;
		case 'r':
			c->member = true;
			break;
		case 'm':
			c->member = true;
			break;
		default:
			return false;
		}
	}
	return c->device && c->count > 0 && c->count <= DEPTH && optind == argc;
}

static void find_gid(struct check *c)
{
	union ibv_gid gid;

	for (int i = 0; ibv_query_gid(c->ctx, 1, i, &gid) == 0; i++)
		if (!memcmp(&gid, &c->self, sizeof(gid))) {
			c->gid_index = (uint8_t)i;
			return;
		}
	die("the device has no such address");
}

static void open_device(struct check *c)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (unsigned i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), c->device))
			c->ctx = ibv_open_device(list[i]);
	if (!c->ctx)
		die("no such device");
	ibv_free_device_list(list);
	find_gid(c);
}

static void make_qp(struct check *c)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	c->pd = ibv_alloc_pd(c->ctx);
	c->cq = ibv_create_cq(c->ctx, 2 * DEPTH, NULL, NULL, 0);
	c->mr = ibv_reg_mr(c->pd, c->mem, sizeof(c->mem), IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = c->cq;
	c->qp = ibv_create_qp(c->pd, &init);
	if (!c->mr || !c->qp)
		die("no queue pair");
	if (ibv_modify_qp(c->qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		die("INIT");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(c->qp, &attr, IBV_QP_STATE))
		die("RTR");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN))
		die("RTS");
}

static void post_receives(struct check *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)c->mem + i * ROOM,
				      .length = GRH + LEN,
				      .lkey = c->mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		if (ibv_post_recv(c->qp, &wr, &bad))
			die("post receive");
	}
}

/* A message's bytes: which one it is, and where in it. */
static uint8_t pattern(unsigned message, unsigned at)
{
	return (uint8_t)(message * 31 + at);
}

static void check_message(const struct check *c, unsigned i, const struct ibv_wc *wc)
{
	const uint8_t *grh = c->mem + wc->wr_id * ROOM;
	const bool v4 = !memcmp(c->group.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);

	if (wc->byte_len != GRH + LEN || !(wc->wc_flags & IBV_WC_GRH))
		die("wrong length or no GRH");
	if (v4 ? memcmp(grh + 36, c->group.raw + 12, 4) : memcmp(grh + 24, c->group.raw, 16))
		die("the GRH does not name the group");
	if ((v4 ? grh[28] : grh[7]) != HOP_LIMIT)
		die("wrong hop limit");
	for (unsigned k = 0; k < LEN; k++)
		if (grh[GRH + k] != pattern(c->first + i, k))
			die("wrong data, or messages out of order");
}

/* Until so many sends and receives have completed in all. */
static void complete(struct check *c, unsigned sends, unsigned recvs)
{
	const time_t end = time(NULL) + WAIT_S;
	struct ibv_wc wc;

	while (c->sent < sends || c->received < recvs) {
		int n = ibv_poll_cq(c->cq, 1, &wc);

		if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
			die("a completion in error");
		if (!n && time(NULL) > end) {
			printf("%u of %u received\n", c->received, recvs);
			die("no completion");
		}
		if (n && wc.opcode == IBV_WC_SEND)
			c->sent++;
		else if (n)
			check_message(c, c->received++, &wc);
	}
}

static void send_all(struct check *c)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1};
	uint8_t *data = c->mem + DEPTH * ROOM;
	struct ibv_sge sge = {.addr = (uintptr_t)data, .length = LEN, .lkey = c->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	a.grh.dgid = c->group;
	a.grh.sgid_index = c->gid_index;
	a.grh.hop_limit = HOP_LIMIT;
	wr.wr.ud.ah = ibv_create_ah(c->pd, &a);
	wr.wr.ud.remote_qpn = MCAST_QPN;
	wr.wr.ud.remote_qkey = QKEY;
	if (!wr.wr.ud.ah)
		die("no address handle");
	for (unsigned i = 0; i < c->count; i++) {
		for (unsigned k = 0; k < LEN; k++)
			data[k] = pattern(c->first + i, k);
		if (ibv_post_send(c->qp, &wr, &bad))
			die("post send");
		complete(c, i + 1, 0);
	}
	if (ibv_destroy_ah(wr.wr.ud.ah))
		die("destroy address handle");
}

int main(int argc, char **argv)
{
	struct check *c = &check;

	if (!parse(argc, argv, c)) {
		fprintf(stderr, "%s: wrong arguments, see the head of its source\n", argv[0]);
		return 2;
	}
	open_device(c);
	make_qp(c);
	post_receives(c);
	if (c->member && ibv_attach_mcast(c->qp, &c->group, 0))
		die("attach");
	puts("ready");
	fflush(stdout);
	if (c->send)
		send_all(c);
	if (c->member) {
		complete(c, 0, c->count);
		if (ibv_detach_mcast(c->qp, &c->group, 0))
			die("detach");
	}
	if (ibv_destroy_qp(c->qp) || ibv_destroy_cq(c->cq) || ibv_dereg_mr(c->mr) ||
	    ibv_dealloc_pd(c->pd) || ibv_close_device(c->ctx))
		die("closing");
	puts("ok");
	return 0;
}
