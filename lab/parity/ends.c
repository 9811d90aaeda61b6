/* SPDX-License-Identifier: BSD-2-Clause */
/* One end of a pair: its device, objects, and the way from RESET to RTS. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "parity.h"

enum {
	ACCESS_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC
};

/* ---- the device ---- */

static struct ibv_context *open_named(const char *name)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *ctx = NULL;

	for (int i = 0; i < n && !ctx; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) != 0)
			continue;
		ctx = ibv_open_device(list[i]);
		if (!ctx)
			broken("%s: ibv_open_device: %s", name, text_errno(errno));
	}
	if (!ctx) {
		printf("no device %s; there %s", name, n == 1 ? "is" : "are");
		for (int i = 0; i < n; i++)
			printf("%s %s", i ? "," : "", ibv_get_device_name(list[i]));
		puts(n > 0 ? "" : " none");
		exit(RUN_NO_DEVICE);
	}
	ibv_free_device_list(list);
	return ctx;
}

/** The first RoCE v2 GID, better one that is not link-local: those need an interface to go out. */
static int choose_gid(struct end *e)
{
	struct ibv_gid_entry g;
	int found = -1;

	if (e->port.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return 0;
	for (int i = 0; i < e->port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(e->ctx, 1, (uint32_t)i, &g, 0) ||
		    g.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (g.gid.raw[0] != 0xfe)
			return i;
		if (found < 0)
			found = i;
	}
	if (found < 0)
		broken("%s: no RoCE v2 GID at port 1: give its interface an address",
		       ibv_get_device_name(e->ctx->device));
	return found;
}

void end_open(struct end *e, const char *tag, const char *device, int gid_index)
{
	e->tag = tag;
	e->ctx = open_named(device);
	if (ibv_query_device(e->ctx, &e->attr) || ibv_query_port(e->ctx, 1, &e->port))
		broken("%s: cannot be queried: %s", device, text_errno(errno));
	if (e->port.state != IBV_PORT_ACTIVE)
		broken("%s: port 1 is not active", device);
	e->gid_index = gid_index >= 0 ? gid_index : choose_gid(e);
	if (ibv_query_gid(e->ctx, 1, e->gid_index, &e->gid))
		broken("%s: no GID at index %d", device, e->gid_index);
}

/* ---- objects ---- */

/** Bytes that differ between the ends and from each other's neighbourhoods. */
static void fill(uint8_t *mem, uint32_t seed)
{
	uint32_t x = seed;

	for (size_t i = 0; i < MEM_SIZE; i++) {
		x = x * 1664525 + 1013904223;
		mem[i] = (uint8_t)(x >> 24);
	}
}

static void make_memory(struct end *e)
{
	e->mem = mmap(NULL, MEM_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (e->mem == MAP_FAILED)
		broken("no memory");
	fill(e->mem, e->tag[1] == 'e' ? 1 : 2);
	e->mr = ibv_reg_mr(e->pd, e->mem, MEM_SIZE, ACCESS_ALL);
	if (!e->mr)
		failed(e, "ibv_reg_mr");
}

static void make_srq(struct end *e, const struct setup *s)
{
	struct ibv_srq_init_attr init = {
		.attr = {.max_wr = s->depth ? s->depth : 32, .max_sge = s->sge ? s->sge : 1}};

	e->srq = ibv_create_srq(e->pd, &init);
	if (!e->srq)
		failed(e, "ibv_create_srq");
}

static void make_qp(struct end *e, const struct setup *s)
{
	uint32_t depth = s->depth ? s->depth : 32, sge = s->sge ? s->sge : 1;
	struct ibv_qp_init_attr_ex a = {
		.send_cq = e->scq,
		.recv_cq = e->rcq,
		.srq = e->srq,
		.cap = {.max_send_wr = depth,
			.max_recv_wr = e->srq ? 0 : depth,
			.max_send_sge = sge,
			.max_recv_sge = e->srq ? 0 : sge,
			.max_inline_data = s->inline_bytes},
		.qp_type = s->type ? s->type : IBV_QPT_RC,
		.sq_sig_all = !s->unsignaled,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = e->pd,
		.send_ops_flags = s->ops,
	};

	/* The extended call only on request: it is a separate path in every provider. An
	 * ibv_qp_init_attr_ex begins as an ibv_qp_init_attr. */
	e->qp = s->ops ? ibv_create_qp_ex(e->ctx, &a)
		       : ibv_create_qp(e->pd, (struct ibv_qp_init_attr *)(void *)&a);
	if (!e->qp)
		failed(e, s->ops ? "ibv_create_qp_ex" : "ibv_create_qp");
}

void end_setup(struct end *e, const struct setup *s)
{
	int cqe = 2 * (int)(s->depth ? s->depth : 32);

	e->psn = e->tag[1] == 's' || !s->psn ? 0x123456 : s->psn;
	e->pd = ibv_alloc_pd(e->ctx);
	if (!e->pd)
		failed(e, "ibv_alloc_pd");
	if (s->channel) {
		e->channel = ibv_create_comp_channel(e->ctx);
		if (!e->channel)
			failed(e, "ibv_create_comp_channel");
	}
	e->scq = ibv_create_cq(e->ctx, cqe, e, e->channel, 0);
	e->rcq = ibv_create_cq(e->ctx, cqe, e, e->channel, 0);
	if (!e->scq || !e->rcq)
		failed(e, "ibv_create_cq");
	make_memory(e);
	if (s->srq && e->tag[1] == 's')
		make_srq(e, s);
	make_qp(e, s);
}

/* ---- connecting ---- */

static void path_to(const struct end *e, const struct end *peer, struct ibv_ah_attr *ah)
{
	memset(ah, 0, sizeof(*ah));
	ah->port_num = 1;
	ah->dlid = peer->port.lid;
	if (e->port.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return;
	ah->is_global = 1;
	ah->grh.dgid = peer->gid;
	ah->grh.sgid_index = (uint8_t)e->gid_index;
	ah->grh.hop_limit = 64;
}

struct ibv_ah *ah_to(struct end *e, const struct end *peer)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	path_to(e, peer, &attr);
	ah = ibv_create_ah(e->pd, &attr);
	if (!ah)
		failed(e, "ibv_create_ah");
	return ah;
}

static int init_attr(const struct setup *s, enum ibv_qp_type type, struct ibv_qp_attr *a)
{
	a->qp_state = IBV_QPS_INIT;
	a->port_num = 1;
	a->qkey = QKEY;
	a->qp_access_flags = s->access == NO_ACCESS ? 0 : s->access ? s->access : ACCESS_ALL;
	if (type == IBV_QPT_UC)
		a->qp_access_flags &= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

/** Reliable, as the responder; as the requester. */
static bool answers(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
}

static bool retries(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
}

static int rtr_attr(const struct end *e, const struct end *peer, const struct setup *s,
		    struct ibv_qp_attr *a)
{
	a->qp_state = IBV_QPS_RTR;
	if (e->qp->qp_type == IBV_QPT_UD)
		return IBV_QP_STATE;
	path_to(e, peer, &a->ah_attr);
	a->path_mtu = IBV_MTU_1024;
	a->dest_qp_num = peer->qp->qp_num;
	a->rq_psn = peer->psn;
	a->max_dest_rd_atomic = s->rd_atomic ? s->rd_atomic : 1;
	a->min_rnr_timer = s->rnr_timer ? s->rnr_timer : 1;
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       (answers(e->qp->qp_type) ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
}

static int rts_attr(const struct end *e, const struct setup *s, struct ibv_qp_attr *a)
{
	a->qp_state = IBV_QPS_RTS;
	a->sq_psn = e->psn;
	a->timeout = s->timeout ? s->timeout : 14;
	a->retry_cnt = s->retry ? s->retry : 7;
	a->rnr_retry = s->rnr_retry ? s->rnr_retry : 7;
	a->max_rd_atomic = s->rd_atomic ? s->rd_atomic : 1;
	return IBV_QP_STATE | IBV_QP_SQ_PSN |
	       (e->qp->qp_type == IBV_QPT_XRC_RECV ? IBV_QP_TIMEOUT : 0) |
	       (retries(e->qp->qp_type) ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						  IBV_QP_MAX_QP_RD_ATOMIC
					: 0);
}

int step_attr(const struct end *e, const struct end *peer, const struct setup *s, enum step step,
	      struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	return step == TO_INIT	? init_attr(s, e->qp->qp_type, attr)
	       : step == TO_RTR ? rtr_attr(e, peer, s, attr)
				: rts_attr(e, s, attr);
}

static void step_to(struct end *e, const struct end *peer, const struct setup *s, enum step step)
{
	static const char *const names[] = {"modify to INIT", "modify to RTR", "modify to RTS"};
	struct ibv_qp_attr attr;
	int mask = step_attr(e, peer, s, step, &attr);

	errno = ibv_modify_qp(e->qp, &attr, mask);
	if (errno)
		failed(e, names[step]);
}

void pair_connect(struct pair *p, const struct setup *s)
{
	enum ibv_qp_state state = s->state ? s->state : IBV_QPS_RTS;

	if (s->state == STAY_RESET)
		return;
	for (enum step i = TO_INIT; i <= TO_RTS && (int)i < (int)state; i++) {
		step_to(&p->req, &p->rsp, s, i);
		step_to(&p->rsp, &p->req, s, i);
	}
}

void pair_setup(struct pair *p, const struct setup *s)
{
	end_setup(&p->req, s);
	end_setup(&p->rsp, s);
	pair_connect(p, s);
	if (s->type == IBV_QPT_UD)
		p->req.ah = ah_to(&p->req, &p->rsp);
}
