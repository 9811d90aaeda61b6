/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers that the library allocates, and regions by attributes: of such buffers and of plain
 * memory. */
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dev.h"
#include "verbs/newer.h"

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	SIZE = 4096,
};

struct bench {
	struct dev d;
	struct ibv_qp *a, *b;
	struct ibv_buf *buf;
	uint8_t *mem; /* buf's SIZE bytes */
};

static void setup(struct bench *t)
{
	dev_open(&t->d);
	t->a = dev_qp(&t->d, IBV_QPT_RC, 0);
	t->b = dev_qp(&t->d, IBV_QPT_RC, 0);
	dev_connect(t->a, t->b);
	t->mem = ibv_alloc_buf(t->d.pd, SIZE, &t->buf);
	assert_non_null(t->mem);
	assert_int_equal((uintptr_t)t->mem % (size_t)sysconf(_SC_PAGESIZE), 0);
}

static void teardown(struct bench *t)
{
	ibv_free_buf(t->buf);
	assert_int_equal(ibv_destroy_qp(t->a), 0);
	assert_int_equal(ibv_destroy_qp(t->b), 0);
	dev_close(&t->d);
}

/* A peer writes 64 bytes to remote, which the key calls so, and they are at mem. Ends the region.
 */
static void expect_written(struct bench *t, struct ibv_mr *mr, uint64_t remote, const uint8_t *mem)
{
	struct ibv_sge sge = dev_sge(&t->d, 0, 64);
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED,
				 };

	assert_non_null(mr);
	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = mr->rkey;
	memset(t->d.mem, 0x5a, 64);
	assert_int_equal(ibv_post_send(t->a, &wr, &bad), 0);
	assert_int_equal(dev_poll(t->d.cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(mem, t->d.mem, 64);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void expect_refused(struct ibv_mr *mr, int err)
{
	assert_null(mr);
	assert_int_equal(errno, err);
}

/* ---- ibv_alloc_buf() and ibv_reg_buf_mr() ---- */

TEST(buf, registered__written_by_a_peer)
{
	struct bench t;

	setup(&t);
	expect_written(&t, ibv_reg_buf_mr(t.d.pd, t.buf, t.mem + 6, SIZE - 6, ALL_ACCESS),
		       (uintptr_t)t.mem + SIZE - 64, t.mem + SIZE - 64);
	teardown(&t);
}

TEST(buf, out_of_bounds__einval)
{
	struct ibv_buf *other;
	struct bench t;

	setup(&t);
	assert_null(ibv_alloc_buf(t.d.pd, 0, &other));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_alloc_buf(t.d.pd, SIZE_MAX, &other));
	assert_int_equal(errno, ENOMEM);
	expect_refused(ibv_reg_buf_mr(t.d.pd, t.buf, t.mem, SIZE + 1, 0), EINVAL);
	expect_refused(ibv_reg_buf_mr(t.d.pd, t.buf, t.mem - 1, 2, 0), EINVAL);
	expect_refused(ibv_reg_buf_mr(t.d.pd, t.buf, t.mem + 1, SIZE_MAX, 0), EINVAL);
	ibv_free_buf(NULL);
	teardown(&t);
}

TEST(buf, another_domain__einval)
{
	struct ibv_pd *other;
	struct bench t;

	setup(&t);
	other = ibv_alloc_pd(t.d.ctx);
	assert_non_null(other);
	expect_refused(ibv_reg_buf_mr(other, t.buf, t.mem, SIZE, ALL_ACCESS), EINVAL);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	teardown(&t);
}

TEST(buf, exported__enodata)
{
	struct bench t;

	setup(&t);
	errno = 0;
	assert_int_equal(ibv_export_buf_dmabuf_fd(t.buf), -1);
	assert_int_equal(errno, ENODATA);
	teardown(&t);
}

/* A confidential guest may share such a domain's buffers with its host; elsewhere nothing is
 * different. */
TEST(buf, domain_that_allows_shared_memory__as_any)
{
	struct ibv_parent_domain_init_attr attr = {
		.comp_mask = VB_PARENT_DOMAIN_ALLOW_CC_UNPROTECTED_ALLOC};
	struct ibv_buf *buf;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct bench t;
	uint8_t *mem;

	setup(&t);
	attr.pd = t.d.pd;
	pd = ibv_alloc_parent_domain(t.d.ctx, &attr);
	assert_non_null(pd);
	mem = ibv_alloc_buf(pd, SIZE, &buf);
	assert_non_null(mem);
	expect_refused(ibv_reg_buf_mr(t.d.pd, buf, mem, SIZE, ALL_ACCESS), EINVAL);
	mr = ibv_reg_buf_mr(pd, buf, mem, SIZE, ALL_ACCESS);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	teardown(&t);
}

/* ---- ibv_reg_mr_ex() ---- */

TEST(reg_mr_ex, address__as_reg_mr)
{
	struct ibv_mr_init_attr a = {
		.length = 4096, .access = ALL_ACCESS, .comp_mask = IBV_REG_MR_MASK_ADDR};
	struct bench t;

	setup(&t);
	a.addr = t.mem;
	a.iova = 0x1000; /* not in the mask */
	expect_written(&t, ibv_reg_mr_ex(t.d.pd, &a), (uintptr_t)t.mem + 10, t.mem + 10);
	teardown(&t);
}

TEST(reg_mr_ex, iova__is_the_peers_address)
{
	struct ibv_mr_init_attr a = {.length = 4096,
				     .access = ALL_ACCESS,
				     .iova = 0x1000,
				     .comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA};
	struct bench t;

	setup(&t);
	a.addr = t.mem;
	expect_written(&t, ibv_reg_mr_ex(t.d.pd, &a), 0x1000 + 10, t.mem + 10);
	teardown(&t);
}

/* On demand, of all memory: the address 0 is one. */
TEST(reg_mr_ex, implicit__as_reg_mr)
{
	struct ibv_mr_init_attr a = {.length = SIZE_MAX,
				     .access = ALL_ACCESS | IBV_ACCESS_ON_DEMAND,
				     .comp_mask = IBV_REG_MR_MASK_ADDR};
	struct ibv_device_attr_ex attr;
	struct bench t;

	setup(&t);
	assert_int_equal(ibv_query_device_ex(t.d.ctx, NULL, &attr), 0);
	if (attr.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT)
		expect_written(&t, ibv_reg_mr_ex(t.d.pd, &a), (uintptr_t)t.mem, t.mem);
	teardown(&t);
}

TEST(reg_mr_ex, what_contradicts_itself__einval)
{
	static const uint64_t masks[] = {
		0,
		IBV_REG_MR_MASK_IOVA,
		IBV_REG_MR_MASK_FD,
		IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_IOVA,
		IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET,
		IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD_OFFSET,
		IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD,
		IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET |
			IBV_REG_MR_MASK_IOVA,
	};
	struct bench t;

	setup(&t);
	for (unsigned i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		struct ibv_mr_init_attr a = {
			.length = SIZE, .access = ALL_ACCESS, .comp_mask = masks[i], .addr = t.mem};

		expect_refused(ibv_reg_mr_ex(t.d.pd, &a), EINVAL);
	}
	teardown(&t);
}

TEST(reg_mr_ex, hints_to_a_bus_and_unknown_bits__eopnotsupp)
{
	static const uint64_t masks[] = {IBV_REG_MR_MASK_DMAH, UINT64_C(1) << 40};
	struct bench t;

	setup(&t);
	for (unsigned i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		struct ibv_mr_init_attr a = {.length = SIZE,
					     .access = ALL_ACCESS,
					     .comp_mask = IBV_REG_MR_MASK_ADDR | masks[i],
					     .addr = t.mem};

		expect_refused(ibv_reg_mr_ex(t.d.pd, &a), EOPNOTSUPP);
	}
	teardown(&t);
}

#if !defined(HAVE_IBV_REG_MR_EX) || defined(HAVE_MR_INIT_ATTR_BUF)
TEST(reg_mr_ex, buffer__as_reg_buf_mr)
{
	const uint64_t mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR;
	struct ibv_mr_init_attr a = {.length = SIZE - 100, .access = ALL_ACCESS, .comp_mask = mask};
	struct bench t;

	setup(&t);
	a.buf = t.buf;
	a.addr = t.mem + 100;
	expect_written(&t, ibv_reg_mr_ex(t.d.pd, &a), (uintptr_t)t.mem + 100, t.mem + 100);
	assert_int_equal(a.comp_mask, mask);
	a.comp_mask = mask | IBV_REG_MR_MASK_IOVA;
	a.iova = 0x2000;
	expect_written(&t, ibv_reg_mr_ex(t.d.pd, &a), 0x2000, t.mem + 100);
	teardown(&t);
}

/* A program that was built before there were buffers. */
TEST(reg_mr_ex, structure_of_an_older_header__not_read_beyond)
{
	const size_t size = offsetof(struct ibv_mr_init_attr, buf);
	struct ibv_mr_init_attr *a;
	struct bench t;
	uint8_t *pages;
	size_t page;

	setup(&t);
	page = (size_t)sysconf(_SC_PAGESIZE);
	pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
	a = (void *)(pages + page - size);
	a->length = SIZE;
	a->access = ALL_ACCESS;
	a->addr = t.mem;
	a->comp_mask = IBV_REG_MR_MASK_ADDR;
	expect_written(&t, ibv_reg_mr_ex(t.d.pd, a), (uintptr_t)t.mem, t.mem);
	munmap(pages, 2 * page);
	teardown(&t);
}

TEST(reg_mr_ex, buffer_of_another_domain_or_too_short__einval)
{
	const uint64_t mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR;
	struct ibv_mr_init_attr a = {.length = SIZE, .access = ALL_ACCESS, .comp_mask = mask};
	struct ibv_pd *other;
	struct bench t;

	setup(&t);
	a.buf = t.buf;
	a.addr = t.mem;
	other = ibv_alloc_pd(t.d.ctx);
	assert_non_null(other);
	expect_refused(ibv_reg_mr_ex(other, &a), EINVAL);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	a.length = SIZE + 1;
	expect_refused(ibv_reg_mr_ex(t.d.pd, &a), EINVAL);
	a.length = SIZE;
	a.comp_mask = IBV_REG_MR_MASK_BUF;
	expect_refused(ibv_reg_mr_ex(t.d.pd, &a), EINVAL);
	a.comp_mask = mask | IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET;
	expect_refused(ibv_reg_mr_ex(t.d.pd, &a), EINVAL);
	teardown(&t);
}
#endif

/* ---- other calls of newer versions ---- */

TEST(ece, provider_without__eopnotsupp_and_left_alone)
{
	struct ibv_ece ece = {.vendor_id = 0x15b3, .options = 7, .comp_mask = 3};
	struct bench t;

	setup(&t);
	assert_int_equal(ibv_query_ece(t.a, &ece), EOPNOTSUPP);
	assert_int_equal(ece.vendor_id, 0x15b3);
	assert_int_equal(ece.options, 7);
	assert_int_equal(ece.comp_mask, 3);
	assert_int_equal(ibv_set_ece(t.a, &ece), EOPNOTSUPP);
	ece.vendor_id = 0;
	errno = 0;
	assert_int_equal(ibv_set_ece(t.a, &ece), EOPNOTSUPP);
	assert_int_equal(errno, EOPNOTSUPP);
	teardown(&t);
}

TEST(query_port_speed, port__as_query_port_says)
{
	uint64_t speed = 0;
	struct bench t;

	setup(&t);
	assert_int_equal(ibv_query_port_speed(t.d.ctx, 2, &speed), EINVAL);
	assert_int_equal(ibv_query_port_speed(t.d.ctx, 1, &speed), 0);
	assert_true(speed >= 10 && speed <= 10000); /* in units of 100 Mb/s: 1 Gb/s to 1 Tb/s */
	teardown(&t);
}
