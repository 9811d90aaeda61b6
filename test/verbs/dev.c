/* SPDX-License-Identifier: BSD-2-Clause */
#include "dev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "netns.h"
#include "test.h"

enum { PATIENCE_S = 20 };

void dev_namespace(void)
{
	netns_enter_once();
}

struct ibv_context *dev_open_named(const char *name)
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);

	assert_non_null(list);
	for (unsigned i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	assert_non_null(ctx);
	return ctx;
}

void dev_open(struct dev *d)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	dev_namespace();
	unsetenv("ROCEMU_DEVICES");
	memset(d, 0, sizeof(*d));
	d->ctx = dev_open_named("rocemu_lo");
	d->pd = ibv_alloc_pd(d->ctx);
	assert_non_null(d->pd);
	d->mr = ibv_reg_mr(d->pd, d->mem, sizeof(d->mem), access);
	assert_non_null(d->mr);
	d->channel = ibv_create_comp_channel(d->ctx);
	assert_non_null(d->channel);
	d->cq = ibv_create_cq(d->ctx, DEV_CQE, d, d->channel, 0);
	assert_non_null(d->cq);
}

void dev_close(struct dev *d)
{
	assert_int_equal(ibv_destroy_cq(d->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(d->channel), 0);
	assert_int_equal(ibv_dereg_mr(d->mr), 0);
	assert_int_equal(ibv_dealloc_pd(d->pd), 0);
	assert_int_equal(ibv_close_device(d->ctx), 0);
}

struct ibv_qp *dev_qp(struct dev *d, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.cap = {.max_send_wr = DEV_WR,
			.max_recv_wr = DEV_WR,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = d->pd,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(d->ctx, &attr);

	assert_non_null(qp);
	return qp;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 0x11111111,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	if (qp->qp_type == IBV_QPT_UC)
		a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	assert_int_equal(ibv_modify_qp(qp, &a, mask), 0);
}

static void to_rts(struct ibv_qp *qp, const struct ibv_qp *peer, uint8_t gid_index)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer ? peer->qp_num : 0,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1},
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	int rtr = IBV_QP_STATE, rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

	assert_int_equal(ibv_query_gid(qp->context, 1, gid_index, &a.ah_attr.grh.dgid), 0);
	a.ah_attr.grh.sgid_index = gid_index;
	a.ah_attr.grh.hop_limit = 1;
	if (peer)
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type != IBV_QPT_UC && qp->qp_type != IBV_QPT_UD) {
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	}
	assert_int_equal(ibv_modify_qp(qp, &a, rtr), 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &a, rts), 0);
}

void dev_connect_on(struct ibv_qp *a, struct ibv_qp *b, uint8_t gid_index)
{
	to_init(a);
	if (b)
		to_init(b);
	to_rts(a, b, gid_index);
	if (b)
		to_rts(b, a, gid_index);
}

void dev_connect(struct ibv_qp *a, struct ibv_qp *b)
{
	dev_connect_on(a, b, 0);
}

struct ibv_ah *dev_self_ah(struct dev *d)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1};
	struct ibv_ah *ah;

	a.grh.hop_limit = 1;
	assert_int_equal(ibv_query_gid(d->ctx, 1, 0, &a.grh.dgid), 0);
	ah = ibv_create_ah(d->pd, &a);
	assert_non_null(ah);
	return ah;
}

uint8_t *dev_pages(size_t len, int prot, int fd)
{
	static size_t below = (size_t)1 << 34; /* more each time: several may be there at once */
	const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	uint8_t *others = mmap(NULL, len, prot, flags, fd, 0), *pages;

	assert_true(others != MAP_FAILED);
	/* The kernel gives the highest hole that is large enough: the space in between. */
	pages = mmap(others - below, len, prot, flags, fd, 0);
	assert_ptr_equal(pages, others - below);
	munmap(others, len);
	below += 2 * len;
	return pages;
}

struct ibv_sge dev_sge(struct dev *d, uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)d->mem + offset,
		.length = length,
		.lkey = d->mr->lkey,
	};
}

void dev_post_recv(struct dev *d, struct ibv_qp *qp, uint64_t wr_id, uint32_t offset,
		   uint32_t length)
{
	struct ibv_sge sge = dev_sge(d, offset, length);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

struct ibv_wc dev_poll(struct ibv_cq *cq)
{
	time_t end = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;

	while (time(NULL) < end)
		if (ibv_poll_cq(cq, 1, &wc) == 1)
			return wc;
	fail_msg("no completion in %d s", PATIENCE_S);
	return wc;
}

/* ---- XRC ---- */

struct ibv_xrcd *dev_xrcd(struct dev *d, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	errno = 0;
	return ibv_open_xrcd(d->ctx, &attr);
}

struct ibv_srq *dev_xrc_srq(struct dev *d, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = DEV_WR, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = d->pd,
		.xrcd = xrcd,
		.cq = cq,
	};

	return ibv_create_srq_ex(d->ctx, &attr);
}

struct ibv_qp *dev_xrc_initiator(struct dev *d, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = d->cq,
		.cap = {.max_send_wr = DEV_WR, .max_send_sge = 2},
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = d->pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(d->ctx, &attr);
}

struct ibv_qp *dev_xrc_target(struct dev *d, struct ibv_xrcd *xrcd, void *user)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = user,
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};

	return ibv_create_qp_ex(d->ctx, &attr);
}
