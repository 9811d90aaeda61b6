/* SPDX-License-Identifier: BSD-2-Clause */
#include "node.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rng.h"
#include "engine/lane-internal.h"
#include "netns.h"
#include "test.h"

static void on_events(void *user, struct rocemu_ep *ep)
{
	struct node *n = user;
	struct rocemu_event ev;
	const uint64_t one = 1;

	while (rocemu_ep_next_event(ep, &ev))
		if (ev.type == ROCEMU_EVENT_CQ &&
		    write(n->event_fd, &one, sizeof(one)) != sizeof(one))
			abort();
}

static struct rocemu_gid parse(const char *address)
{
	struct rocemu_gid g = {.raw = {[10] = 0xff, [11] = 0xff}};

	if (inet_pton(AF_INET, address, g.raw + 12) != 1)
		assert_int_equal(inet_pton(AF_INET6, address, g.raw), 1);
	return g;
}

static void make_objects(struct node *n, enum ibv_qp_type type)
{
	struct rocemu_ep *ep = lane_ep(n->lane);
	const int access =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct rocemu_qp_init init = {
		.type = type,
		.cap =
			{
				.max_send_wr = NODE_DEPTH,
				.max_recv_wr = NODE_DEPTH,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = 64,
			},
	};

	n->pd = rocemu_pd_new(ep);
	assert_non_null(n->pd);
	assert_int_equal(rocemu_mr_reg(n->pd, n->mem, NODE_MEM, (uintptr_t)n->mem, access, &n->mr),
			 0);
	assert_int_equal(rocemu_cq_create(ep, 2 * NODE_DEPTH, n, &n->cq), 0);
	init.pd = n->pd;
	init.send_cq = init.recv_cq = n->cq;
	assert_int_equal(rocemu_qp_create(ep, &init, &n->qp), 0);
}

static void open_node(struct node *n, const char *address, enum ibv_qp_type type)
{
	struct lane_gid gid = {.gid = parse(address)};
	struct lane_config config = {
		.device = address,
		.ep = {.seed = 1},
		.gids = &gid,
		.ngids = 1,
		.ifindex = if_nametoindex("lo"),
		.on_events = on_events,
		.user = n,
	};
	char err[512] = "";

	netns_enter_once();
	memset(n, 0, sizeof(*n));
	n->gid = gid.gid;
	n->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	n->mem = calloc(1, NODE_MEM);
	assert_non_null(n->mem);
	if (lane_new(&n->lane, &config, err, sizeof(err)) || lane_attach(n->lane, err, sizeof(err)))
		fail_msg("%s: %s", address, err);
	lane_lock(n->lane);
	make_objects(n, type);
	lane_unlock(n->lane);
}

void node_open(struct node *n, const char *address)
{
	open_node(n, address, IBV_QPT_RC);
}

void node_open_ud(struct node *n, const char *address, uint32_t qkey)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	static const int masks[] = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0,
				    IBV_QP_SQ_PSN};
	struct ibv_qp_attr attr = {.port_num = 1, .qkey = qkey};

	open_node(n, address, IBV_QPT_UD);
	lane_lock(n->lane);
	lane_want_hop_limits(n->lane);
	for (unsigned i = 0; i < 3; i++) {
		attr.qp_state = states[i];
		assert_int_equal(
			rocemu_qp_modify(n->qp, lane_now(), &attr, IBV_QP_STATE | masks[i]), 0);
	}
	lane_unlock(n->lane);
}

void node_close(struct node *n)
{
	lane_free(n->lane);
	free(n->mem);
	close(n->event_fd);
}

static void to_rts(struct node *n, const struct node *peer)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.hop_limit = 64, .traffic_class = n->tclass}},
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = rocemu_qp_num(peer->qp),
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 15, /* 134 ms: other tests may keep a peer's thread from running */
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 16,
	};

	memcpy(rtr.ah_attr.grh.dgid.raw, peer->gid.raw, 16);
	lane_lock(n->lane);
	assert_int_equal(rocemu_qp_modify(n->qp, lane_now(), &init,
					  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  IBV_QP_ACCESS_FLAGS),
			 0);
	assert_int_equal(rocemu_qp_modify(n->qp, lane_now(), &rtr,
					  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	assert_int_equal(rocemu_qp_modify(n->qp, lane_now(), &rts,
					  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
						  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						  IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
	lane_unlock(n->lane);
}

void node_connect(struct node *a, struct node *b)
{
	to_rts(a, b);
	if (a != b)
		to_rts(b, a);
}

static void post(struct node *n, struct ibv_send_wr *wr, uint32_t offset, uint32_t len,
		 bool signaled)
{
	struct ibv_sge sge = {.addr = (uintptr_t)n->mem + offset, .length = len};

	sge.lkey = rocemu_mr_lkey(n->mr);
	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = signaled ? IBV_SEND_SIGNALED : 0;
	lane_lock(n->lane);
	assert_int_equal(rocemu_qp_post_send(n->qp, lane_now(), wr, NULL), 0);
	lane_posted(n->lane, n->post_time ? n->post_time : lane_now(),
		    (struct lane_post){.bytes = len, .signaled = signaled});
	lane_unlock(n->lane);
}

static void one_sided(struct node *from, struct node *to, enum ibv_wr_opcode op, uint32_t offset,
		      uint32_t len, bool signaled)
{
	struct ibv_send_wr wr = {.opcode = op};

	wr.wr.rdma.remote_addr = (uintptr_t)to->mem + offset;
	wr.wr.rdma.rkey = rocemu_mr_rkey(to->mr);
	post(from, &wr, offset, len, signaled);
}

void node_write(struct node *from, struct node *to, uint32_t offset, uint32_t len, bool signaled)
{
	one_sided(from, to, IBV_WR_RDMA_WRITE, offset, len, signaled);
}

void node_read_together(struct node *to, struct node *from, unsigned n, uint32_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)to->mem, .length = len, .lkey = rocemu_mr_lkey(to->mr)};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = (uintptr_t)from->mem;
	wr.wr.rdma.rkey = rocemu_mr_rkey(from->mr);
	lane_lock(to->lane);
	while (n--) {
		wr.send_flags = n ? 0 : IBV_SEND_SIGNALED;
		assert_int_equal(rocemu_qp_post_send(to->qp, lane_now(), &wr, NULL), 0);
	}
	lane_kick(to->lane);
	lane_unlock(to->lane);
}

void node_read(struct node *to, struct node *from, uint32_t offset, uint32_t len)
{
	one_sided(to, from, IBV_WR_RDMA_READ, offset, len, true);
}

void node_send(struct node *from, uint32_t offset, uint32_t len, bool signaled)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	post(from, &wr, offset, len, signaled);
}

void node_recv(struct node *n, uint32_t offset, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)n->mem + offset, .length = len};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
	const struct ibv_recv_wr *bad;

	sge.lkey = rocemu_mr_lkey(n->mr);
	lane_lock(n->lane);
	assert_int_equal(rocemu_qp_post_recv(n->qp, lane_now(), &wr, &bad), 0);
	lane_unlock(n->lane);
}

static bool take(struct node *n)
{
	struct rocemu_cqe cqe;

	if (!rocemu_cq_poll(n->cq, &cqe, 1))
		return false;
	assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	return true;
}

bool node_try(struct node *n)
{
	if (take(n))
		return true;
	lane_poll(n->lane);
	return take(n);
}

void node_poll(struct node *n)
{
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;

	while (!node_try(n))
		if (lane_now() > end)
			fail_msg("no completion within %u ms", NODE_PATIENCE_MS);
}

void node_wait(struct node *n)
{
	struct pollfd pfd = {.fd = n->event_fd, .events = POLLIN};
	uint64_t count;

	lane_lock(n->lane);
	rocemu_cq_arm(n->cq, lane_now(), false);
	lane_wait_hint(n->lane);
	lane_unlock(n->lane);
	while (!take(n)) {
		if (poll(&pfd, 1, NODE_PATIENCE_MS) != 1)
			fail_msg("no event within %u ms", NODE_PATIENCE_MS);
		assert_int_equal(read(n->event_fd, &count, sizeof(count)), sizeof(count));
	}
}

void node_open_pair(struct node *a, struct node *b, const char *addr_a, const char *addr_b)
{
	node_open(a, addr_a);
	node_open(b, addr_b);
	node_connect(a, b);
}

void node_close_pair(struct node *a, struct node *b)
{
	node_close(a);
	node_close(b);
}

struct lane_stats node_stats(struct node *n)
{
	struct lane_stats s;

	lane_get_stats(n->lane, &s);
	return s;
}

void node_ping_pong(struct node *a, struct node *b, unsigned rounds, uint32_t len)
{
	for (unsigned i = 0; i < rounds; i++) {
		node_recv(b, 0, len);
		node_recv(a, 0, len);
		node_send(a, 0, len, false);
		node_poll(b);
		node_send(b, 0, len, false);
		node_poll(a);
	}
}

void node_fill(struct node *n, uint64_t seed, uint32_t len)
{
	struct rng r;

	rng_init(&r, seed);
	for (uint32_t i = 0; i < len; i++)
		n->mem[i] = (uint8_t)rng_u32(&r);
}

void node_make_hasty(struct node *n)
{
	lane_lock(n->lane);
	n->lane->progress.need = 1;
	lane_unlock(n->lane);
}

bool node_holds(bool (*condition)(struct node *n), struct node *n)
{
	bool is;

	lane_lock(n->lane);
	is = condition(n);
	lane_unlock(n->lane);
	return is;
}

void node_until(bool (*condition)(struct node *n), struct node *n)
{
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;

	while (!node_holds(condition, n))
		if (lane_now() > end)
			fail_msg("it does not come");
}
