/* SPDX-License-Identifier: BSD-2-Clause */
/* Two RoCEv2 endpoints, an array as the network: one RC WRITE and one SEND, and what crossed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rocemu/endpoint.h>

#define must(call) ((call) ? (void)(fprintf(stderr, "failed: %s\n", #call), exit(1)) : (void)0)

struct host {
	struct rocemu_gid gid;
	struct rocemu_ep *ep;
	struct rocemu_mr *mr;
	struct rocemu_cq *cq;
	struct rocemu_qp *qp;
	char memory[4096]; /* registered under the address 0 */
};

static rocemu_ns_t now;

static void host_open(struct host *h, uint8_t number)
{
	struct rocemu_ep_config config = {.seed = number};
	struct rocemu_qp_init init = {.type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}, .sq_sig_all = 1};
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	h->gid = (struct rocemu_gid){{[10] = 0xff, 0xff, 10, 0, 0, number}}; /* 10.0.0.number */
	must((h->ep = rocemu_ep_new(&config)) == NULL);
	must(rocemu_ep_set_slot(h->ep, number, 0) || rocemu_ep_set_gid(h->ep, 0, &h->gid));
	must((init.pd = rocemu_pd_new(h->ep)) == NULL);
	must(rocemu_mr_reg(init.pd, h->memory, sizeof(h->memory), 0, access, &h->mr));
	must(rocemu_cq_create(h->ep, 16, NULL, &h->cq));
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
	struct ibv_qp_attr a = {.port_num = 1,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
				.path_mtu = IBV_MTU_1024,
				.dest_qp_num = rocemu_qp_num(peer->qp),
				.timeout = 14,
				.ah_attr = {.is_global = 1, .port_num = 1}};

	memcpy(a.ah_attr.grh.dgid.raw, peer->gid.raw, 16);
	for (a.qp_state = IBV_QPS_INIT; a.qp_state <= IBV_QPS_RTS; a.qp_state++)
		must(rocemu_qp_modify(h->qp, now, &a, IBV_QP_STATE | mask[a.qp_state]));
}

/** Carry what one host has to send to the other, through an array of bytes. */
static void carry(struct host *from, struct host *to)
{
	uint8_t wire[ROCEMU_MAX_PACKET], *p;
	struct rocemu_dgram d = {.data = wire, .dport = ROCEMU_UDP_PORT, .ip_id_known = true};

	for (struct rocemu_tx t; rocemu_ep_output(from->ep, now, &t, 1);) {
		rocemu_tx_seal(&t, 0);
		p = (uint8_t *)memcpy(wire, t.hdr, t.hdr_len) + t.hdr_len;
		for (unsigned i = 0; i < t.niov; p += t.iov[i++].iov_len)
			memcpy(p, t.iov[i].iov_base, t.iov[i].iov_len);
		memcpy(p, t.trailer, t.trailer_len);
		d.src = t.path->sgid, d.dst = t.path->dgid;
		d.sport = t.path->sport, d.len = rocemu_tx_len(&t);
		printf("10.0.0.%d sends %s (%u bytes)\n", d.src.raw[15],
		       rocemu_opcode_name(wire[0]), d.len);
		must(rocemu_ep_input(to->ep, now, &d));
	}
}

int main(void)
{
	static struct host a = {.memory = "written into the other's memory"}, b;

	host_open(&a, 1), host_open(&b, 2);
	host_connect(&a, &b), host_connect(&b, &a);
	struct ibv_sge sge = {.addr = 0, .length = 32, .lkey = rocemu_mr_lkey(a.mr)};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
	struct ibv_sge room = {.addr = 1024, .length = 1024, .lkey = rocemu_mr_lkey(b.mr)};
	struct ibv_recv_wr recv = {.wr_id = 3, .sg_list = &room, .num_sge = 1};

	must(rocemu_qp_post_recv(b.qp, now, &recv, &(const struct ibv_recv_wr *){NULL}));
	wr.opcode = IBV_WR_RDMA_WRITE, wr.wr.rdma.rkey = rocemu_mr_rkey(b.mr);
	must(rocemu_qp_post_send(a.qp, now, &wr, NULL));
	wr.opcode = IBV_WR_SEND, wr.wr_id = 2;
	must(rocemu_qp_post_send(a.qp, now, &wr, NULL));
	for (; rocemu_ep_has_output(a.ep) || rocemu_ep_has_output(b.ep); now += 1000)
		carry(&a, &b), carry(&b, &a);
	for (struct rocemu_cqe c; rocemu_cq_poll(a.cq, &c, 1) || rocemu_cq_poll(b.cq, &c, 1);)
		printf("request %d: %s\n", (int)c.wr_id, c.status ? "failed" : "done");
	printf("WRITE left \"%s\", SEND left \"%s\"\n", b.memory, b.memory + 1024);
	rocemu_ep_free(a.ep), rocemu_ep_free(b.ep);
	return strcmp(a.memory, b.memory) || strcmp(a.memory, b.memory + 1024);
}
