/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios: memory windows and invalidation. The responder owns the window, the requester uses it.
 */
#include "parity.h"

enum { WINDOW = 8192 }; /* bytes from DST */

static struct ibv_mr *region(struct end *e, int access)
{
	struct ibv_mr *mr = (ibv_reg_mr)(e->pd, e->mem, MEM_SIZE, access);

	if (!mr)
		failed(e, "ibv_reg_mr with MW_BIND");
	return mr;
}

static struct ibv_mw *window(struct end *e, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(e->pd, type);

	if (!mw)
		failed(e, "ibv_alloc_mw");
	return mw;
}

/** Bind type 2 by a work request; the key is the window's with its low byte moved on. */
static uint32_t bind(struct end *e, struct ibv_mw *mw, struct ibv_mr *mr, unsigned access)
{
	struct ibv_send_wr *bad, wr = {
					 .wr_id = 50,
					 .opcode = IBV_WR_BIND_MW,
					 .send_flags = IBV_SEND_SIGNALED,
					 .bind_mw = {.mw = mw,
						     .rkey = ibv_inc_rkey(mw->rkey),
						     .bind_info = {.mr = mr,
								   .addr = (uintptr_t)e->mem + DST,
								   .length = WINDOW,
								   .mw_access_flags = access}},
				 };
	int err = ibv_post_send(e->qp, &wr, &bad);

	if (err) {
		errno = err;
		failed(e, "post a bind");
	}
	poll_send(e, 1);
	return wr.bind_mw.rkey;
}

static struct ibv_mr *bindable(struct end *e)
{
	return region(e, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				 IBV_ACCESS_MW_BIND);
}

static uint32_t bound(struct pair *p, unsigned access)
{
	pair_setup(p, &(struct setup){0});
	return bind(&p->rsp, window(&p->rsp, IBV_MW_TYPE_2), bindable(&p->rsp), access);
}

struct use {
	const char *name;
	unsigned access;
	struct msg m;
};
static const struct use uses[] = {
	/* clang-format off */
	{"write", IBV_ACCESS_REMOTE_WRITE, {IBV_WR_RDMA_WRITE, .len = 5000}},
	{"write-all", IBV_ACCESS_REMOTE_WRITE, {IBV_WR_RDMA_WRITE, .len = WINDOW}},
	{"write-past-its-end", IBV_ACCESS_REMOTE_WRITE, {IBV_WR_RDMA_WRITE, .len = WINDOW + 1}},
	{"write-before-it", IBV_ACCESS_REMOTE_WRITE, {IBV_WR_RDMA_WRITE, .len = 10, .remote = -1}},
	{"read", IBV_ACCESS_REMOTE_READ, {IBV_WR_RDMA_READ, .len = 5000, .remote = DST - SRC}},
	{"read-not-allowed", IBV_ACCESS_REMOTE_WRITE, {IBV_WR_RDMA_READ, .len = 100, .remote = DST - SRC}},
	{"write-not-allowed", IBV_ACCESS_REMOTE_READ, {IBV_WR_RDMA_WRITE, .len = 100}},
	/* clang-format on */
};

static void run_use(struct pair *p, const void *arg)
{
	const struct use *u = arg;
	struct msg m = u->m;

	m.rkey = bound(p, u->access);
	msg_post(&p->req, &p->rsp, &m);
	poll_send(&p->req, 1);
	memory_say(p);
}

/** After the peer's SEND with invalidate the key is dead. */
static void run_send_inv(struct pair *p, const void *arg)
{
	uint32_t rkey;

	(void)arg;
	if (!(p->rsp.attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS))
		unsupported(NULL, "no IBV_DEVICE_MEM_MGT_EXTENSIONS");
	rkey = bound(p, IBV_ACCESS_REMOTE_WRITE);
	recv_post(&p->rsp, 7, 65536, 100);
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_SEND_WITH_INV, .id = 1, .len = 20, .rkey = rkey});
	poll_send(&p->req, 1);
	poll_recv(&p->rsp, 1);
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 2, .len = 20, .rkey = rkey});
	poll_send(&p->req, 1);
	memory_say(p);
}

/** After a local invalidate the key is dead. */
static void run_local_inv(struct pair *p, const void *arg)
{
	struct ibv_send_wr *bad, wr = {.wr_id = 60, .opcode = IBV_WR_LOCAL_INV};
	uint32_t rkey = bound(p, IBV_ACCESS_REMOTE_WRITE);

	(void)arg;
	wr.invalidate_rkey = rkey;
	errno = ibv_post_send(p->rsp.qp, &wr, &bad);
	if (errno)
		failed(&p->rsp, "post a local invalidate");
	poll_send(&p->rsp, 1);
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 2, .len = 20, .rkey = rkey});
	poll_send(&p->req, 1);
	memory_say(p);
}

/** A region that was not registered for it. */
static void run_no_bind_right(struct pair *p, const void *arg)
{
	struct ibv_mw *mw;

	(void)arg;
	pair_setup(p, &(struct setup){0});
	mw = window(&p->rsp, IBV_MW_TYPE_2);
	bind(&p->rsp, mw, p->rsp.mr, IBV_ACCESS_REMOTE_WRITE);
	state_say(&p->rsp, IBV_QPS_ERR);
}

/** Type 1, bound by ibv_bind_mw(), which returns the key. */
static void run_type_1(struct pair *p, const void *arg)
{
	struct ibv_mw *mw;
	struct ibv_mw_bind b = {
		.wr_id = 51,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {.length = WINDOW, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE},
	};

	(void)arg;
	pair_setup(p, &(struct setup){0});
	mw = window(&p->rsp, IBV_MW_TYPE_1);
	b.bind_info.mr = bindable(&p->rsp);
	b.bind_info.addr = (uintptr_t)p->rsp.mem + DST;
	errno = ibv_bind_mw(p->rsp.qp, mw, &b);
	if (errno)
		failed(&p->rsp, "ibv_bind_mw");
	poll_send(&p->rsp, 1);
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 2, .len = 20, .rkey = mw->rkey});
	poll_send(&p->req, 1);
	memory_say(p);
}

/** ibv_dealloc_mw() ends it. */
static void run_dealloc(struct pair *p, const void *arg)
{
	struct ibv_mw *mw;
	uint32_t rkey;

	(void)arg;
	pair_setup(p, &(struct setup){0});
	mw = window(&p->rsp, IBV_MW_TYPE_2);
	rkey = bind(&p->rsp, mw, bindable(&p->rsp), IBV_ACCESS_REMOTE_WRITE);
	say_result(&p->rsp, "ibv_dealloc_mw", ibv_dealloc_mw(mw));
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 2, .len = 20, .rkey = rkey});
	poll_send(&p->req, 1);
	memory_say(p);
}

void scenarios_windows(void)
{
	for (unsigned i = 0; i < COUNT(uses); i++)
		registry_add(run_use, &uses[i], 0, "window/%s", uses[i].name);
	registry_add(run_send_inv, NULL, 0, "window/send-with-invalidate");
	registry_add(run_local_inv, NULL, 0, "window/local-invalidate");
	registry_add(run_no_bind_right, NULL, 0, "window/region-without-bind-right");
	registry_add(run_type_1, NULL, 0, "window/type-1");
	registry_add(run_dealloc, NULL, 0, "window/dealloc");
}
