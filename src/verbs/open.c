/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts: opening a device makes a lane, closing it frees the lane with all objects that the
 * program left in it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/evq.h"
#include "base/limit.h"
#include "base/list.h"
#include "base/log.h"
#include "base/util.h"
#include "engine/lane.h"
#include "netdev/netdev.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/dm.h"
#include "verbs/event.h"
#include "verbs/fault.h"
#include "verbs/handle.h"
#include "verbs/lanes.h"
#include "verbs/mr.h"
#include "verbs/mw.h"
#include "verbs/odp.h"
#include "verbs/orphan.h"
#include "verbs/pd.h"
#include "verbs/port.h"
#include "verbs/post.h"
#include "verbs/qp.h"
#include "verbs/real.h"
#include "verbs/srq.h"
#include "verbs/xrc.h"

static const struct ibv_context_ops context_ops = {
	._compat_query_device = vb_context_mark,
	.poll_cq = vb_poll_cq,
	.req_notify_cq = vb_req_notify_cq,
	.post_srq_recv = vb_post_srq_recv,
	.post_send = vb_post_send,
	.post_recv = vb_post_recv,
	.alloc_mw = vb_alloc_mw,
	.bind_mw = vb_bind_mw,
	.dealloc_mw = vb_dealloc_mw,
};

/**
 * Entry points of the extended interface. What is NULL makes verbs.h's inline function return
 * EOPNOTSUPP.
 */
static void set_extended_ops(struct verbs_context *v)
{
	v->sz = sizeof(*v);
	v->query_port = vb_query_port;
	v->query_device_ex = vb_query_device_ex;
	v->query_rt_values = vb_query_rt_values;
	v->alloc_td = vb_alloc_td;
	v->dealloc_td = vb_dealloc_td;
	v->alloc_parent_domain = vb_alloc_parent_domain;
	v->create_cq_ex = vb_create_cq_ex;
	v->create_srq_ex = vb_create_srq_ex;
	v->create_qp_ex = vb_create_qp_ex;
	v->open_qp = vb_open_qp;
	v->get_srq_num = vb_get_srq_num;
	v->open_xrcd = vb_open_xrcd;
	v->close_xrcd = vb_close_xrcd;
	v->modify_cq = vb_modify_cq;
	v->alloc_null_mr = vb_alloc_null_mr;
	v->advise_mr = vb_advise_mr;
	v->alloc_dm = vb_alloc_dm;
	v->free_dm = vb_free_dm;
	v->reg_dm_mr = vb_reg_dm_mr;
}

/* Free a context's descriptors, memory and threads, as far as they exist. */
static void context_fini(struct vb_context *c)
{
	if (c->lanes.lane[0] && !c->orphan)
		vb_port_stop(c);
	vb_lanes_fini(c);
	vb_handles_fini(&c->handles);
	hash_fini(&c->on_demand);
	if (c->async.fd >= 0)
		evq_fini(&c->async);
	if (c->vctx.context.cmd_fd >= 0)
		close(c->vctx.context.cmd_fd);
}

static int cannot_open(const struct vb_context *c, int err)
{
	char text[128 + LIMIT_TEXT_LEN], policy[LIMIT_TEXT_LEN];

	snprintf(text, sizeof(text), "%s: cannot be opened: %s%s", c->netdev.name, strerror(-err),
		 refusal_text(err, policy));
	log_failure(err, text);
	return err;
}

static int set_limits(struct vb_context *c)
{
	struct like like;
	char text[256];
	const int ret = like_get(&like, text, sizeof(text));
	const struct like_limits *of = &like.limits;

	if (ret < 0) {
		log_failure(ret, text);
		return ret;
	}
	c->limits = (struct like_limits){
		.max_sge = of->max_sge ? of->max_sge : ROCEMU_MAX_SGE,
		.max_inline_data = of->max_inline_data ? of->max_inline_data : ROCEMU_MAX_INLINE,
		.max_qp_wr = of->max_qp_wr ? of->max_qp_wr : ROCEMU_MAX_WR,
		.max_qp_rd_atom = of->max_qp_rd_atom ? of->max_qp_rd_atom : ROCEMU_MAX_RD_ATOMIC,
	};
	return 0;
}

static int context_open(struct vb_context *c)
{
	int ret = evq_init(&c->async);

	if (ret < 0)
		return cannot_open(c, ret);
	c->vctx.context.async_fd = c->async.fd;
	c->vctx.context.cmd_fd = vb_placeholder_fd();
	/* A sandbox may forbid it; programs rarely use it. */
	if (c->vctx.context.cmd_fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return cannot_open(c, -errno);
	ret = set_limits(c);
	if (ret == 0)
		ret = vb_lanes_init(c);
	return ret < 0 ? ret : vb_port_start(c);
}

static int context_init(struct vb_context *c, struct vb_device *dev)
{
	struct ibv_context *ctx = &c->vctx.context;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int ret;

	c->dev = dev;
	c->async.fd = ctx->cmd_fd = -1;
	vb_device_netdev(dev, &c->netdev);
	mutex_init(&c->lock);
	mutex_init(&c->spread.lock);
	vb_handles_init(&c->handles);
	pthread_mutex_init(&c->port.lock, NULL);
	mutex_init(&c->port.update);
	vb_xrc_init(c);
	set_extended_ops(&c->vctx);
	ctx->device = &dev->base;
	ctx->ops = context_ops;
	ctx->num_comp_vectors = (int)MAX(cpus, 1);
	pthread_mutex_init(&ctx->mutex, NULL);
	ctx->abi_compat = __VERBS_ABI_IS_EXTENDED;
	ret = context_open(c);
	if (ret < 0)
		context_fini(c);
	return ret;
}

static struct ibv_context *open_real(struct ibv_device *device)
{
	struct ibv_context *ctx = REAL_CALL(ibv_open_device, device);

	if (ctx)
		real_ops_wrap(ctx);
	return ctx;
}

static int close_real(struct ibv_context *ctx)
{
	int ret;

	real_ops_unwrap(ctx);
	ret = REAL_CALL(ibv_close_device, ctx);
	if (ret)
		real_ops_wrap(ctx);
	return ret;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct vb_device *dev = vb_device_of(device);
	UNCANCELLED;
	struct vb_context *c;
	int ret;

	if (!dev)
		return open_real(device);
	vb_faults_load();
	ret = vb_fault(NULL, NULL, FAULT_VERB_OPEN_DEVICE);
	if (ret < 0)
		return vb_null(-ret);
	c = calloc(1, sizeof(*c));
	if (!c)
		return vb_null(ENOMEM);
	vb_device_get(dev);
	ret = context_init(c, dev);
	if (ret < 0) {
		vb_device_put(dev);
		free(c);
		return vb_null(-ret);
	}
	return &c->vctx.context;
}

void vb_context_free(struct vb_context *c)
{
	context_fini(c);
	vb_device_put(c->dev);
	free(c);
}

int ibv_close_device(struct ibv_context *context)
{
	struct vb_context *c = vb_context_of(context);
	UNCANCELLED;

	if (!c)
		return close_real(context);
	if (c->orphan || vb_xrc_fini(c))
		vb_context_free(c);
	return 0;
}

int vb_context_attach(struct vb_context *c)
{
	char err[512] = "";
	int ret = vb_orphan_check(c);

	if (ret < 0)
		return ret;
	if (atomic_load_explicit(&c->attached, memory_order_acquire))
		return 0;
	mutex_lock(&c->lock);
	if (!c->attached) {
		ret = lane_attach(c->lanes.lane[0], err, sizeof(err));
		if (ret == 0)
			atomic_store_explicit(&c->attached, true, memory_order_release);
		else if (!c->complained)
			log_failure(ret, err);
		c->complained = ret < 0;
	}
	mutex_unlock(&c->lock);
	return ret;
}
