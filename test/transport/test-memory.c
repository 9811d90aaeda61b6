/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes every allocation fail in turn, and counts what is allocated: a call that fails leaves
 * nothing behind, and the end of the objects gives all back.
 */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"
#include "transport/qp.h"

/* Linked with --wrap of these; mmap() of 64-bit offsets is mmap64(). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *p);
void *__real_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t off);
int __real_munmap(void *at, size_t len);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *p);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t off);
int __wrap_munmap(void *at, size_t len);

static unsigned countdown; /* the allocation that fails is the countdown-th; 0: none */
static int blocks;	   /* that are allocated */

static bool fails(void)
{
	return countdown > 0 && --countdown == 0;
}

static void *counted(void *p)
{
	blocks += p != NULL;
	return p;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
	if (fails())
		return NULL;
	return p ? __real_realloc(p, size) : counted(__real_realloc(p, size));
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return fails() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *p)
{
	blocks -= p != NULL;
	__real_free(p);
}

void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	if (fails()) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return counted(__real_mmap64(at, len, prot, flags, fd, off));
}

int __wrap_munmap(void *at, size_t len)
{
	blocks--;
	return __real_munmap(at, len);
}

enum { QPS = 5 };
static const enum ibv_qp_type types[QPS] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND,
					    IBV_QPT_XRC_RECV};
static const struct rocemu_gid gid = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
static const struct rocemu_gid group = {{[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};

/** One of each kind, and a QP of each type. */
struct objects {
	struct rocemu_ep *ep;
	struct rocemu_pd *pd;
	struct rocemu_cq *cq;
	struct rocemu_srq *srq, *xrc_srq;
	struct rocemu_xrcd *xrcd;
	struct rocemu_mr *mr, *null_mr;
	struct rocemu_mw *mw;
	struct rocemu_qp *qp[QPS];
	uint8_t memory[64];
};

static int make_queues(struct objects *o)
{
	struct ibv_srq_attr srq = {.max_wr = 4, .max_sge = 2};
	const struct ibv_srq_attr more = {.max_wr = 8};
	int r;

	if ((r = rocemu_cq_create(o->ep, 16, NULL, &o->cq)) || (r = rocemu_cq_resize(o->cq, 64)) ||
	    (r = rocemu_srq_create(o->pd, &srq, NULL, &o->srq)) ||
	    (r = rocemu_srq_modify(o->srq, &more, IBV_SRQ_MAX_WR)))
		return r;
	o->xrcd = rocemu_xrcd_new(o->ep);
	return o->xrcd ? rocemu_xrc_srq_create(o->pd, o->xrcd, o->cq, &srq, NULL, &o->xrc_srq)
		       : -ENOMEM;
}

static int make_memory(struct objects *o)
{
	int r;

	if ((r = rocemu_mr_reg(o->pd, o->memory, sizeof(o->memory), 0, 0, &o->mr)))
		return r;
	if ((r = rocemu_mr_null_reg(o->pd, &o->null_mr)))
		return r;
	return rocemu_mw_new(o->pd, IBV_MW_TYPE_2, &o->mw);
}

static int to_rtr(struct rocemu_qp *qp, enum ibv_qp_type type)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.path_mtu = IBV_MTU_1024,
				.ah_attr = {.is_global = 1, .port_num = 1}};
	const bool answers = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT, r;

	memcpy(a.ah_attr.grh.dgid.raw, gid.raw, sizeof(gid.raw));
	r = rocemu_qp_modify(qp, 0, &a,
			     mask | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	if (r)
		return r;
	a.qp_state = IBV_QPS_RTR;
	mask = IBV_QP_STATE;
	if (type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (answers)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return rocemu_qp_modify(qp, 0, &a, mask);
}

static int make_qp(struct objects *o, unsigned i)
{
	struct rocemu_qp_init init = {.type = types[i], .cap = {4, 4, 2, 2, 32}};
	int r;

	if (types[i] == IBV_QPT_XRC_RECV) {
		init.xrcd = o->xrcd;
	} else {
		init.pd = o->pd;
		init.send_cq = o->cq;
		init.recv_cq = types[i] == IBV_QPT_XRC_SEND ? NULL : o->cq;
	}
	r = rocemu_qp_create(o->ep, &init, &o->qp[i]);
	if (!r)
		r = to_rtr(o->qp[i], types[i]);
	if (!r && types[i] == IBV_QPT_UD)
		r = rocemu_qp_attach_mcast(o->qp[i], &group);
	return r;
}

/** @return 0, or the error of the call that failed. */
static int make(struct objects *o)
{
	const struct rocemu_ep_config cfg = {.seed = 1};
	int r;

	memset(o, 0, sizeof(*o));
	o->ep = rocemu_ep_new(&cfg);
	if (!o->ep)
		return -ENOMEM;
	if ((r = rocemu_ep_set_slot(o->ep, 5, 0)) || (r = rocemu_ep_set_gid(o->ep, 0, &gid)))
		return r;
	o->pd = rocemu_pd_new(o->ep);
	if (!o->pd)
		return -ENOMEM;
	if ((r = make_queues(o)) || (r = make_memory(o)))
		return r;
	for (unsigned i = 0; i < QPS && !r; i++)
		r = make_qp(o, i);
	return r;
}

TEST(memory, each_allocation_fails__enomem_and_nothing_left)
{
	static struct objects o;
	const int before = blocks;
	unsigned failed = 0;
	int r;

	do {
		countdown = failed + 1;
		r = make(&o);
		if (r)
			failed++;
		assert_true(r == 0 || r == -ENOMEM);
		assert_int_equal(countdown != 0, r == 0);
		countdown = 0;
		if (o.ep)
			rocemu_ep_free(o.ep);
		assert_int_equal(blocks, before);
	} while (r);
	assert_in_range(failed, 20, 200);
}

static void destroy(struct objects *o)
{
	assert_int_equal(rocemu_qp_detach_mcast(o->qp[2], &group), 0);
	for (unsigned i = 0; i < QPS; i++)
		assert_int_equal(rocemu_qp_destroy(o->qp[i]), 0);
	assert_int_equal(rocemu_srq_destroy(o->xrc_srq), 0);
	assert_int_equal(rocemu_srq_destroy(o->srq), 0);
	assert_int_equal(rocemu_xrcd_free(o->xrcd), 0);
	rocemu_mw_free(o->mw);
	assert_int_equal(rocemu_mr_dereg(o->mr), 0);
	assert_int_equal(rocemu_mr_dereg(o->null_mr), 0);
	assert_int_equal(rocemu_cq_destroy(o->cq), 0);
	assert_int_equal(rocemu_pd_free(o->pd), 0);
}

/* Twice: what an endpoint keeps for the next objects is no more the second time. */
TEST(memory, each_object_destroyed__its_memory_is_given_back)
{
	static struct objects o, again;
	const int before = blocks;
	int kept;

	assert_int_equal(make(&o), 0);
	destroy(&o);
	assert_int_equal(o.ep->timers.reserved, 0);
	kept = blocks;
	again.ep = o.ep;
	again.pd = rocemu_pd_new(o.ep);
	assert_int_equal(make_queues(&again), 0);
	assert_int_equal(make_memory(&again), 0);
	for (unsigned i = 0; i < QPS; i++)
		assert_int_equal(make_qp(&again, i), 0);
	destroy(&again);
	assert_int_equal(blocks, kept);
	rocemu_ep_free(o.ep);
	assert_int_equal(blocks, before);
}
