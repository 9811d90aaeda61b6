/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the transport costs: two endpoints in one thread, an array of bytes as the network. It does
 * the same for each run, so that instructions can be counted as well (valgrind --tool=callgrind),
 * which a busy machine does not change. Uses the public headers only.
 *
 *     transport-cost [write|send|read [BYTES [DEPTH [COUNT]]]]
 *
 * DEPTH requests are posted at once, by one endpoint and the other in turn, and completed before
 * the next.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rocemu/endpoint.h>

#include "base/clock.h"

#define must(call) ((call) ? (void)(fprintf(stderr, "failed: %s\n", #call), exit(1)) : (void)0)

enum { MEMORY = 1 << 20, QUEUE = 64, STEP_NS = 1000 };

struct host {
	struct rocemu_gid gid;
	struct rocemu_ep *ep;
	struct rocemu_mr *mr;
	struct rocemu_cq *cq;
	struct rocemu_qp *qp;
	uint8_t *memory; /* registered under the address 0 */
};

static rocemu_ns_t now = 1;

static void host_open(struct host *h, uint8_t number)
{
	struct rocemu_ep_config config = {.seed = number};
	struct rocemu_qp_init init = {
		.type = IBV_QPT_RC, .cap = {QUEUE, QUEUE, 1, 1, 0}, .sq_sig_all = 1};
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	h->gid = (struct rocemu_gid){{[10] = 0xff, 0xff, 127, 0, 0, number}};
	must((h->memory = calloc(1, MEMORY)) == NULL);
	must((h->ep = rocemu_ep_new(&config)) == NULL);
	must(rocemu_ep_set_slot(h->ep, number, 0) || rocemu_ep_set_gid(h->ep, 0, &h->gid));
	must((init.pd = rocemu_pd_new(h->ep)) == NULL);
	must(rocemu_mr_reg(init.pd, h->memory, MEMORY, 0, access, &h->mr));
	must(rocemu_cq_create(h->ep, 2 * QUEUE, NULL, &h->cq));
	init.send_cq = init.recv_cq = h->cq;
	must(rocemu_qp_create(h->ep, &init, &h->qp));
}

static void host_connect(struct host *h, const struct host *peer)
{
	static const int mask[] = {
		[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[IBV_QPS_RTS] = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
	};
	struct ibv_qp_attr a = {
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = rocemu_qp_num(peer->qp),
		.timeout = 14,
		.retry_cnt = 7,
		.max_rd_atomic = 16,
		.max_dest_rd_atomic = 16,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	memcpy(a.ah_attr.grh.dgid.raw, peer->gid.raw, 16);
	for (a.qp_state = IBV_QPS_INIT; a.qp_state <= IBV_QPS_RTS; a.qp_state++)
		must(rocemu_qp_modify(h->qp, now, &a, IBV_QP_STATE | mask[a.qp_state]));
}

static void carry_one(struct rocemu_tx *t, struct host *to, uint16_t ip_id)
{
	uint8_t wire[ROCEMU_MAX_PACKET], *p = wire;
	struct rocemu_dgram d = {
		.data = wire, .dport = ROCEMU_UDP_PORT, .ip_id_known = true, .ip_id = ip_id};

	rocemu_tx_seal(t, ip_id);
	p = (uint8_t *)memcpy(p, t->hdr, t->hdr_len) + t->hdr_len;
	for (unsigned i = 0; i < t->niov; p += t->iov[i++].iov_len)
		memcpy(p, t->iov[i].iov_base, t->iov[i].iov_len);
	memcpy(p, t->trailer, t->trailer_len);
	d.src = t->path->sgid;
	d.dst = t->path->dgid;
	d.sport = t->path->sport;
	d.len = rocemu_tx_len(t);
	must(rocemu_ep_input(to->ep, now, &d));
}

/** All that one host has to send. */
static void carry(struct host *from, struct host *to)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
	unsigned n;

	while ((n = rocemu_ep_output(from->ep, now, tx, ROCEMU_OUTPUT_BATCH)))
		for (unsigned i = 0; i < n; i++)
			carry_one(&tx[i], to, (uint16_t)i);
	now += STEP_NS;
	if (rocemu_ep_deadline(from->ep) <= now)
		rocemu_ep_expire(from->ep, now);
}

static void post(struct host *h, struct host *peer, enum ibv_wr_opcode op, uint32_t bytes)
{
	struct ibv_sge sge = {.length = bytes, .lkey = rocemu_mr_lkey(h->mr)};
	struct ibv_sge room = {.length = bytes, .lkey = rocemu_mr_lkey(peer->mr)};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = op};
	struct ibv_recv_wr recv = {.sg_list = &room, .num_sge = 1};
	const struct ibv_recv_wr *bad;

	wr.wr.rdma.rkey = rocemu_mr_rkey(peer->mr);
	if (op == IBV_WR_SEND)
		must(rocemu_qp_post_recv(peer->qp, now, &recv, &bad));
	must(rocemu_qp_post_send(h->qp, now, &wr, NULL));
}

static void take(struct host *h, unsigned n)
{
	struct rocemu_cqe cqe[QUEUE];

	must(rocemu_cq_poll(h->cq, cqe, QUEUE) != n);
	for (unsigned i = 0; i < n; i++)
		must(cqe[i].status);
}

/** depth messages from h to its peer. */
static void exchange(struct host *h, struct host *peer, enum ibv_wr_opcode op, uint32_t bytes,
		     unsigned depth)
{
	for (unsigned i = 0; i < depth; i++)
		post(h, peer, op, bytes);
	while (rocemu_ep_has_output(h->ep) || rocemu_ep_has_output(peer->ep)) {
		carry(h, peer);
		carry(peer, h);
	}
	take(h, depth);
	if (op == IBV_WR_SEND)
		take(peer, depth);
}

static void measure(const char *name, uint32_t bytes, unsigned depth, unsigned count)
{
	enum ibv_wr_opcode op = !strcmp(name, "read")	? IBV_WR_RDMA_READ
				: !strcmp(name, "send") ? IBV_WR_SEND
							: IBV_WR_RDMA_WRITE;
	struct host a = {.memory = NULL}, b = {.memory = NULL};
	uint64_t start;

	must(bytes > MEMORY || !depth || depth > QUEUE);
	host_open(&a, 1);
	host_open(&b, 2);
	host_connect(&a, &b);
	host_connect(&b, &a);
	start = monotonic_ns();
	for (unsigned done = 0; done < count; done += 2 * depth) {
		exchange(&a, &b, op, bytes, depth);
		exchange(&b, &a, op, bytes, depth);
	}
	printf("%-5s %7" PRIu32 " bytes, %2u at once: %8.0f ns a message\n", name, bytes, depth,
	       (double)(monotonic_ns() - start) / count);
	rocemu_ep_free(a.ep);
	rocemu_ep_free(b.ep);
	free(a.memory);
	free(b.memory);
}

static unsigned arg(char **argv, int i, unsigned otherwise)
{
	return argv[i] ? (unsigned)strtoul(argv[i], NULL, 0) : otherwise;
}

int main(int argc, char **argv)
{
	static const char *const name[] = {"write", "send", "read"};
	char *none[] = {NULL, NULL, NULL};

	if (argc > 1) {
		char **more = argc > 2 ? argv + 2 : none;
		unsigned bytes = arg(more, 0, 64);
		unsigned depth = argc > 3 ? arg(argv, 3, 1) : 1;

		measure(argv[1], bytes, depth, argc > 4 ? arg(argv, 4, 10000) : 10000);
		return 0;
	}
	for (unsigned i = 0; i < 3; i++) {
		measure(name[i], 64, 1, 100000);
		measure(name[i], 64, 16, 100000);
		measure(name[i], 4096, 16, 100000);
		measure(name[i], 65536, 16, 10000);
	}
	return 0;
}
