/* SPDX-License-Identifier: BSD-2-Clause */
/* Handles of objects: different ones in a context, and calls that are given a wrong one. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dev.h"

enum { GARBLE = 0x5eadbeef, EACH = 40, KINDS = 8 };

/** One object of each kind. */
struct set {
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_dm *dm;
};

static struct ibv_srq *new_srq(struct ibv_pd *pd)
{
	return ibv_create_srq(pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 4, .max_sge = 1}});
}

static struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq)
{
	return ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = cq,
							    .recv_cq = cq,
							    .srq = srq,
							    .qp_type = IBV_QPT_RC,
							    .cap = {2, 2, 1, 1, 0}});
}

static void set_make(struct dev *d, struct set *s)
{
	struct ibv_alloc_dm_attr dm = {.length = 64};

	s->pd = ibv_alloc_pd(d->ctx);
	s->mr = ibv_reg_mr(d->pd, d->mem, 64, IBV_ACCESS_LOCAL_WRITE);
	s->mw = ibv_alloc_mw(d->pd, IBV_MW_TYPE_2);
	s->cq = ibv_create_cq(d->ctx, 4, NULL, NULL, 0);
	s->srq = new_srq(d->pd);
	s->qp = new_qp(d->pd, d->cq, NULL);
	s->ah = dev_self_ah(d);
	s->dm = ibv_alloc_dm(d->ctx, &dm);
	assert_true(s->pd && s->mr && s->mw && s->cq && s->srq && s->qp && s->ah && s->dm);
}

static void set_free(struct set *s)
{
	assert_int_equal(ibv_free_dm(s->dm), 0);
	assert_int_equal(ibv_destroy_ah(s->ah), 0);
	assert_int_equal(ibv_destroy_qp(s->qp), 0);
	assert_int_equal(ibv_destroy_srq(s->srq), 0);
	assert_int_equal(ibv_destroy_cq(s->cq), 0);
	assert_int_equal(ibv_dealloc_mw(s->mw), 0);
	assert_int_equal(ibv_dereg_mr(s->mr), 0);
	assert_int_equal(ibv_dealloc_pd(s->pd), 0);
}

static void set_handles(const struct set *s, uint32_t out[KINDS])
{
	const uint32_t h[KINDS] = {s->pd->handle,  s->mr->handle, s->mw->handle, s->cq->handle,
				   s->srq->handle, s->qp->handle, s->ah->handle, s->dm->handle};

	memcpy(out, h, sizeof(h));
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void expect_different(const struct set *sets, const struct dev *d)
{
	uint32_t all[EACH * KINDS + 3];
	size_t n = 0;

	for (unsigned i = 0; i < EACH; i++, n += KINDS)
		set_handles(&sets[i], &all[n]);
	all[n++] = d->pd->handle;
	all[n++] = d->mr->handle;
	all[n++] = d->cq->handle;
	qsort(all, n, sizeof(all[0]), compare);
	for (size_t i = 1; i < n; i++)
		assert_int_not_equal(all[i], all[i - 1]);
}

TEST(handle, many_objects_of_each_kind__all_different)
{
	static struct set sets[EACH];
	struct dev d;

	dev_open(&d);
	for (unsigned i = 0; i < EACH; i++)
		set_make(&d, &sets[i]);
	expect_different(sets, &d);
	/* Some go and others come. */
	for (unsigned i = 1; i < EACH; i += 3)
		set_free(&sets[i]);
	for (unsigned i = 1; i < EACH; i += 3)
		set_make(&d, &sets[i]);
	expect_different(sets, &d);
	for (unsigned i = 0; i < EACH; i++)
		set_free(&sets[i]);
	dev_close(&d);
}

#define REFUSED(call)                             \
	do {                                      \
		errno = 0;                        \
		assert_int_equal((call), ENOENT); \
		assert_int_equal(errno, ENOENT);  \
	} while (0)
#define REFUSED_NULL(call)                       \
	do {                                     \
		errno = 0;                       \
		assert_null((call));             \
		assert_int_equal(errno, ENOENT); \
	} while (0)

/* To the kernel the handle is the object; so it is in every call that the kernel would get. */
TEST(handle, garbled__end_of_the_object_refused_and_it_stays)
{
	struct set s;
	struct dev d;

	dev_open(&d);
	set_make(&d, &s);
	uint32_t *const handles[KINDS] = {&s.pd->handle, &s.mr->handle,	 &s.mw->handle,
					  &s.cq->handle, &s.srq->handle, &s.qp->handle,
					  &s.ah->handle, &s.dm->handle};
	/* An unused number, and one that is another object's. */
	for (unsigned pass = 0; pass < 2; pass++) {
		uint32_t kept[KINDS];

		set_handles(&s, kept);
		for (unsigned i = 0; i < KINDS; i++)
			*handles[i] = pass ? kept[(i + 1) % KINDS] : kept[i] ^ GARBLE;
		REFUSED(ibv_dealloc_pd(s.pd));
		REFUSED(ibv_dereg_mr(s.mr));
		REFUSED(ibv_dealloc_mw(s.mw));
		REFUSED(ibv_destroy_cq(s.cq));
		REFUSED(ibv_destroy_srq(s.srq));
		REFUSED(ibv_destroy_qp(s.qp));
		REFUSED(ibv_destroy_ah(s.ah));
		REFUSED(ibv_free_dm(s.dm));
		for (unsigned i = 0; i < KINDS; i++)
			*handles[i] = kept[i];
	}
	set_free(&s);
	dev_close(&d);
}

TEST(handle, garbled__calls_on_the_object_refused)
{
	struct ibv_modify_cq_attr cq_attr = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_srq_attr srq_attr = {.srq_limit = 1};
	struct ibv_qp_init_attr init;
	union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};
	struct set s;
	struct dev d;

	dev_open(&d);
	set_make(&d, &s);
	s.qp->handle ^= GARBLE;
	REFUSED(ibv_modify_qp(
		s.qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS));
	REFUSED(ibv_query_qp(s.qp, &attr, IBV_QP_STATE, &init));
	REFUSED(ibv_attach_mcast(s.qp, &group, 0));
	REFUSED(ibv_detach_mcast(s.qp, &group, 0));
	s.qp->handle ^= GARBLE;
	assert_int_equal(ibv_query_qp(s.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RESET);
	s.srq->handle ^= GARBLE;
	REFUSED(ibv_modify_srq(s.srq, &srq_attr, IBV_SRQ_LIMIT));
	REFUSED(ibv_query_srq(s.srq, &srq_attr));
	s.srq->handle ^= GARBLE;
	s.cq->handle ^= GARBLE;
	REFUSED(ibv_resize_cq(s.cq, 16));
	REFUSED(ibv_modify_cq(s.cq, &cq_attr));
	s.cq->handle ^= GARBLE;
	s.mr->handle ^= GARBLE;
	assert_int_equal(ibv_rereg_mr(s.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, ENOENT);
	s.mr->handle ^= GARBLE;
	set_free(&s);
	dev_close(&d);
}

TEST(handle, garbled__nothing_is_made_with_the_object)
{
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1};
	struct set s;
	struct dev d;

	dev_open(&d);
	set_make(&d, &s);
	assert_int_equal(ibv_query_gid(d.ctx, 1, 0, &ah.grh.dgid), 0);
	s.pd->handle ^= GARBLE;
	REFUSED_NULL(ibv_reg_mr(s.pd, d.mem, 64, 0));
	REFUSED_NULL(ibv_alloc_null_mr(s.pd));
	REFUSED_NULL(ibv_reg_dm_mr(s.pd, s.dm, 0, 64, IBV_ACCESS_ZERO_BASED));
	REFUSED_NULL(ibv_alloc_mw(s.pd, IBV_MW_TYPE_1));
	REFUSED_NULL(new_srq(s.pd));
	REFUSED_NULL(new_qp(s.pd, s.cq, NULL));
	REFUSED_NULL(ibv_create_ah(s.pd, &ah));
	REFUSED_NULL(
		ibv_alloc_parent_domain(d.ctx, &(struct ibv_parent_domain_init_attr){.pd = s.pd}));
	assert_int_equal(ibv_rereg_mr(s.mr, IBV_REREG_MR_CHANGE_PD, s.pd, NULL, 0, 0),
			 IBV_REREG_MR_ERR_CMD);
	s.pd->handle ^= GARBLE;
	s.cq->handle ^= GARBLE;
	REFUSED_NULL(new_qp(s.pd, s.cq, NULL));
	s.cq->handle ^= GARBLE;
	s.srq->handle ^= GARBLE;
	REFUSED_NULL(new_qp(s.pd, s.cq, s.srq));
	s.srq->handle ^= GARBLE;
	set_free(&s);
	dev_close(&d);
}
