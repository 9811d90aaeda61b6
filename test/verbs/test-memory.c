/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is not simply registered: on demand, registered again, null, of the device. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dev.h"
#include "verbs/newer.h"

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC,
	PAGES = 4,
};

struct pair {
	struct dev d;
	struct ibv_qp *a, *b;
	size_t page;
};

static void setup(struct pair *p)
{
	dev_open(&p->d);
	p->a = dev_qp(&p->d, IBV_QPT_RC, 0);
	p->b = dev_qp(&p->d, IBV_QPT_RC, 0);
	dev_connect(p->a, p->b);
	p->page = (size_t)sysconf(_SC_PAGESIZE);
}

static void teardown(struct pair *p)
{
	assert_int_equal(ibv_destroy_qp(p->a), 0);
	assert_int_equal(ibv_destroy_qp(p->b), 0);
	dev_close(&p->d);
}

static uint8_t *map(struct pair *p, int prot)
{
	uint8_t *mem = mmap(NULL, PAGES * p->page, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(mem != MAP_FAILED);
	return mem;
}

/* One one-sided operation of a on remote memory; its status. */
static enum ibv_wc_status access_remote(struct pair *p, enum ibv_wr_opcode opcode,
					struct ibv_sge sge, uint64_t remote, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = opcode,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {.remote_addr = remote, .rkey = rkey},
				 };

	assert_int_equal(ibv_post_send(p->a, &wr, &bad), 0);
	return dev_poll(p->d.cq).status;
}

/* ---- of no bytes ---- */

TEST(zero_length, registered__its_key_opens_nothing)
{
	struct pair p;

	setup(&p);
	for (unsigned i = 0; i < 3; i++) {
		void *at[] = {p.d.mem + 8, NULL, p.d.mem + p.page};
		struct ibv_mr *mr = ibv_reg_mr(p.d.pd, at[i], 0, ALL_ACCESS);
		struct ibv_sge none;

		assert_non_null(mr);
		assert_ptr_equal(mr->addr, at[i]);
		assert_int_equal(mr->length, 0);
		none = (struct ibv_sge){(uintptr_t)at[i], 0, mr->lkey};
		assert_int_equal(
			access_remote(&p, IBV_WR_RDMA_WRITE, none, (uintptr_t)at[i], mr->rkey),
			IBV_WC_SUCCESS);
		assert_int_equal(
			access_remote(&p, IBV_WR_RDMA_READ, none, (uintptr_t)at[i], mr->rkey),
			IBV_WC_SUCCESS);
		if (i == 2)
			assert_int_equal(access_remote(&p, IBV_WR_RDMA_WRITE, dev_sge(&p.d, 0, 1),
						       (uintptr_t)at[i], mr->rkey),
					 IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	teardown(&p);
}

/* ---- on demand ---- */

TEST(odp, device__says_so)
{
	struct ibv_device_attr_ex attr;
	struct pair p;

	setup(&p);
	assert_int_equal(ibv_query_device_ex(p.d.ctx, NULL, &attr), 0);
	assert_true(attr.odp_caps.general_caps & IBV_ODP_SUPPORT);
	assert_true(attr.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT);
	assert_true(attr.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC);
	assert_false(attr.odp_caps.per_transport_caps.ud_odp_caps & IBV_ODP_SUPPORT_READ);
	/* What the device can do at all it can do there. */
	assert_true(attr.odp_caps.per_transport_caps.rc_odp_caps & VB_ODP_SUPPORT_ATOMIC_WRITE);
	assert_true(attr.xrc_odp_caps & VB_ODP_SUPPORT_ATOMIC_WRITE);
	assert_false(attr.odp_caps.per_transport_caps.uc_odp_caps & VB_ODP_SUPPORT_ATOMIC_WRITE);
#ifdef HAVE_WR_FLUSH
	assert_true(attr.odp_caps.per_transport_caps.rc_odp_caps & VB_ODP_SUPPORT_FLUSH);
	assert_true(attr.xrc_odp_caps & VB_ODP_SUPPORT_FLUSH);
#else
	assert_false(attr.odp_caps.per_transport_caps.rc_odp_caps & VB_ODP_SUPPORT_FLUSH);
#endif
	teardown(&p);
}

TEST(odp, memory_mapped_after_registration__written_and_read)
{
	struct ibv_mr *mr;
	struct pair p;
	uint8_t *mem;

	setup(&p);
	mem = map(&p, PROT_NONE);
	mr = ibv_reg_mr(p.d.pd, mem, PAGES * p.page, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	assert_int_equal(mprotect(mem, PAGES * p.page, PROT_READ | PROT_WRITE), 0);
	memset(p.d.mem, 0x5a, 2 * p.page);
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_WRITE,
				       dev_sge(&p.d, 0, (uint32_t)(2 * p.page)),
				       (uintptr_t)mem + 100, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(mem + 100, p.d.mem, 2 * p.page);
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_READ, dev_sge(&p.d, 32768, 300),
				       (uintptr_t)mem + 50, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(p.d.mem + 32768, mem + 50, 300);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(mem, PAGES * p.page);
	teardown(&p);
}

/* Each ends the QP, so each has its own. */
static void expect_remote_access_error(enum ibv_wr_opcode opcode, int prot)
{
	struct ibv_mr *mr;
	struct pair p;
	uint8_t *mem;

	setup(&p);
	mem = map(&p, PROT_READ | PROT_WRITE);
	mr = ibv_reg_mr(p.d.pd, mem, PAGES * p.page, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	assert_int_equal(mprotect(mem + p.page, p.page, prot), 0);
	assert_int_equal(
		access_remote(&p, opcode, dev_sge(&p.d, 0, 64), (uintptr_t)mem + p.page, mr->rkey),
		IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(mem, PAGES * p.page);
	teardown(&p);
}

TEST(odp, remote_access_where_nothing_is__remote_access_error)
{
	expect_remote_access_error(IBV_WR_RDMA_WRITE, PROT_NONE);
	expect_remote_access_error(IBV_WR_RDMA_READ, PROT_NONE);
	expect_remote_access_error(IBV_WR_RDMA_WRITE, PROT_READ);
}

TEST(odp, local_memory_gone__local_protection_error)
{
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct pair p;
	uint8_t *mem;

	setup(&p);
	mem = map(&p, PROT_READ | PROT_WRITE);
	mr = ibv_reg_mr(p.d.pd, mem, PAGES * p.page, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	munmap(mem, PAGES * p.page);
	sge = (struct ibv_sge){.addr = (uintptr_t)mem, .length = 64, .lkey = mr->lkey};
	assert_int_equal(
		access_remote(&p, IBV_WR_RDMA_WRITE, sge, (uintptr_t)p.d.mem, p.d.mr->rkey),
		IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&p);
}

TEST(odp, implicit__reaches_all_memory_but_what_is_not_there)
{
	static uint8_t source[128], target[128];
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct pair p;
	uint8_t *hole;

	setup(&p);
	hole = map(&p, PROT_NONE);
	mr = ibv_reg_mr(p.d.pd, NULL, SIZE_MAX, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	memset(source, 0x77, sizeof(source));
	sge = (struct ibv_sge){
		.addr = (uintptr_t)source, .length = sizeof(source), .lkey = mr->lkey};
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_WRITE, sge, (uintptr_t)target, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(source, target, sizeof(source));
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_WRITE, sge, (uintptr_t)hole, mr->rkey),
			 IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(hole, PAGES * p.page);
	teardown(&p);
}

TEST(mr, much_larger_than_memory__registered_and_its_end_written)
{
	const size_t huge = (size_t)1 << 40;
	struct ibv_mr *mr;
	struct pair p;
	uint8_t *mem;

	if (sizeof(void *) < 8)
		skip();
	setup(&p);
	mem = mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	if (mem == MAP_FAILED) {
		print_message(
			"skipped: no address space of 1 TiB here (a limit, or a sanitizer)\n");
		teardown(&p);
		skip();
	}
	mr = ibv_reg_mr(p.d.pd, mem, huge, ALL_ACCESS);
	assert_non_null(mr);
	memset(p.d.mem, 0x42, 64);
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_WRITE, dev_sge(&p.d, 0, 64),
				       (uintptr_t)mem + huge - 64, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_int_equal(mem[huge - 1], 0x42);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(mem, huge);
	teardown(&p);
}

/* ---- advice ---- */

TEST(advise, region_on_demand__pages_there_or_efault)
{
	struct ibv_sge sge;
	struct ibv_mr *mr;
	unsigned char in = 0;
	struct pair p;
	uint8_t *mem;

	setup(&p);
	mem = map(&p, PROT_READ | PROT_WRITE);
	mr = ibv_reg_mr(p.d.pd, mem, PAGES * p.page, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	sge = (struct ibv_sge){.addr = (uintptr_t)mem, .length = 10, .lkey = mr->lkey};
	assert_int_equal(mincore(mem, p.page, &in), 0);
	assert_int_equal(in & 1, 0);
	assert_int_equal(ibv_advise_mr(p.d.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				       IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			 0);
	assert_int_equal(mincore(mem, p.page, &in), 0);
	assert_int_equal(in & 1, 1);
	assert_int_equal(mprotect(mem, p.page, PROT_NONE), 0);
	assert_int_equal(ibv_advise_mr(p.d.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	assert_int_equal(ibv_advise_mr(p.d.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1),
			 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(mem, PAGES * p.page);
	teardown(&p);
}

TEST(advise, wrong_arguments__refused)
{
	struct ibv_pd *other;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct pair p;
	uint8_t *mem;

	setup(&p);
	mem = map(&p, PROT_READ | PROT_WRITE);
	mr = ibv_reg_mr(p.d.pd, mem, PAGES * p.page, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
	other = ibv_alloc_pd(p.d.ctx);
	assert_non_null(mr);
	assert_non_null(other);
	sge = (struct ibv_sge){.addr = (uintptr_t)mem, .length = 10, .lkey = mr->lkey};
	assert_int_equal(ibv_advise_mr(p.d.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1),
			 EPERM);
	assert_int_equal(ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EPERM);
	assert_int_equal(ibv_advise_mr(p.d.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1u << 5, &sge, 1),
			 EINVAL);
	assert_int_equal(ibv_advise_mr(p.d.pd, (enum ibv_advise_mr_advice)77, 0, &sge, 1), ENOTSUP);
	sge.addr = (uintptr_t)mem + PAGES * p.page - 5;
	assert_int_equal(ibv_advise_mr(p.d.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	sge.lkey = p.d.mr->lkey;
	assert_int_equal(ibv_advise_mr(p.d.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), ENOENT);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(mem, PAGES * p.page);
	teardown(&p);
}

/* ---- registered again ---- */

TEST(rereg, access_only__keeps_the_address_peers_use)
{
	const uint64_t iova = 0x100000;
	struct ibv_mr *mr;
	struct pair p;

	setup(&p);
	mr = ibv_reg_mr_iova(p.d.pd, p.d.mem, 4096, iova, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS),
			 0);
	memset(p.d.mem + 8192, 0x31, 64);
	assert_int_equal(
		access_remote(&p, IBV_WR_RDMA_WRITE, dev_sge(&p.d, 8192, 64), iova + 10, mr->rkey),
		IBV_WC_SUCCESS);
	assert_memory_equal(p.d.mem + 10, p.d.mem + 8192, 64);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&p);
}

TEST(rereg, translation__old_range_gone_new_range_there)
{
	struct ibv_mr *mr;
	struct pair p;

	setup(&p);
	mr = ibv_reg_mr(p.d.pd, p.d.mem, 4096, ALL_ACCESS);
	assert_non_null(mr);
	assert_int_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p.d.mem + 16384, 64, 0), 0);
	assert_ptr_equal(mr->addr, p.d.mem + 16384);
	assert_int_equal(mr->length, 64);
	memset(p.d.mem + 8192, 0x32, 64);
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_WRITE, dev_sge(&p.d, 8192, 64),
				       (uintptr_t)p.d.mem + 16384, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(p.d.mem + 16384, p.d.mem + 8192, 64);
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_WRITE, dev_sge(&p.d, 8192, 64),
				       (uintptr_t)p.d.mem, mr->rkey),
			 IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&p);
}

TEST(rereg, other_pd__the_old_one_may_go)
{
	struct ibv_pd *other;
	struct ibv_mr *mr;
	struct pair p;

	setup(&p);
	other = ibv_alloc_pd(p.d.ctx);
	assert_non_null(other);
	mr = ibv_reg_mr(other, p.d.mem, 4096, ALL_ACCESS);
	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(other), EBUSY);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, p.d.pd, NULL, 0, 0), 0);
	assert_ptr_equal(mr->pd, p.d.pd);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_READ, dev_sge(&p.d, 8192, 64),
				       (uintptr_t)p.d.mem, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&p);
}

TEST(rereg, refused__region_is_as_before)
{
	struct ibv_mr *mr, *null;
	struct pair p;

	setup(&p);
	mr = ibv_reg_mr(p.d.pd, p.d.mem, 4096, ALL_ACCESS);
	null = ibv_alloc_null_mr(p.d.pd);
	assert_non_null(mr);
	assert_non_null(null);
	errno = 0;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, 1 << 9, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p.d.mem, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_WRITE, dev_sge(&p.d, 8192, 64),
				       (uintptr_t)p.d.mem, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(null), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&p);
}

/* ---- null ---- */

TEST(null_mr, as_source_and_target__zeros_and_nothing)
{
	enum { LEN = 30000 };
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct pair p;

	setup(&p);
	mr = ibv_alloc_null_mr(p.d.pd);
	assert_non_null(mr);
	sge = (struct ibv_sge){.addr = 0x123456, .length = LEN, .lkey = mr->lkey};
	memset(p.d.mem, 0xff, LEN + 1);
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_READ, sge, (uintptr_t)p.d.mem, p.d.mr->rkey),
			 IBV_WC_SUCCESS);
	assert_int_equal(
		access_remote(&p, IBV_WR_RDMA_WRITE, sge, (uintptr_t)p.d.mem, p.d.mr->rkey),
		IBV_WC_SUCCESS);
	for (unsigned i = 0; i < LEN; i++)
		assert_int_equal(p.d.mem[i], 0);
	assert_int_equal(p.d.mem[LEN], 0xff);
	/* Nothing of it is the peer's. */
	assert_int_equal(
		access_remote(&p, IBV_WR_RDMA_READ, dev_sge(&p.d, 0, 8), 0x123456, mr->rkey),
		IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&p);
}

TEST(null_mr, its_pd_is_deallocated__it_is_still_deregistered)
{
	struct ibv_mr *mr, *other, *gone;
	struct ibv_pd *pd;
	struct pair p;

	setup(&p);
	pd = ibv_alloc_pd(p.d.ctx);
	assert_non_null(pd);
	mr = ibv_alloc_null_mr(pd);
	other = ibv_alloc_null_mr(pd);
	gone = ibv_alloc_null_mr(pd);
	assert_true(mr && other && gone);
	assert_int_equal(ibv_dereg_mr(gone), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(other), 0);
	teardown(&p);
}

TEST(null_mr, its_parent_domain_is_deallocated__other_null_regions_stay)
{
	struct ibv_parent_domain_init_attr attr = {0};
	struct ibv_mr *mr, *mrs;
	struct ibv_pd *parent;
	struct ibv_sge sge;
	struct pair p;

	setup(&p);
	attr.pd = p.d.pd;
	parent = ibv_alloc_parent_domain(p.d.ctx, &attr);
	assert_non_null(parent);
	mr = ibv_alloc_null_mr(p.d.pd);
	mrs = ibv_alloc_null_mr(parent);
	assert_true(mr && mrs);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	sge = (struct ibv_sge){.addr = 4, .length = 64, .lkey = mr->lkey};
	assert_int_equal(
		access_remote(&p, IBV_WR_RDMA_WRITE, sge, (uintptr_t)p.d.mem, p.d.mr->rkey),
		IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mrs), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&p);
}

/* ---- device memory ---- */

static struct ibv_dm *new_dm(struct pair *p, size_t length)
{
	struct ibv_alloc_dm_attr attr = {.length = length, .log_align_req = 6};
	struct ibv_dm *dm = ibv_alloc_dm(p->d.ctx, &attr);

	assert_non_null(dm);
	return dm;
}

TEST(dm, peers_and_copies__see_the_same_bytes)
{
	struct ibv_mr *mr;
	struct ibv_dm *dm;
	uint8_t out[64];
	struct pair p;

	setup(&p);
	dm = new_dm(&p, 8192);
	mr = ibv_reg_dm_mr(p.d.pd, dm, 100, 1000, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	memset(p.d.mem, 0x66, 64);
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_WRITE, dev_sge(&p.d, 0, 64), 12, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(out, dm, 112, sizeof(out)), 0);
	assert_memory_equal(out, p.d.mem, sizeof(out));
	assert_int_equal(ibv_memcpy_to_dm(dm, 112, "rocemu..", 8), 0);
	assert_int_equal(access_remote(&p, IBV_WR_RDMA_READ, dev_sge(&p.d, 4096, 6), 12, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(p.d.mem + 4096, "rocemu", 6);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	teardown(&p);
}

TEST(dm, out_of_bounds_or_wrong_flags__refused)
{
	struct ibv_alloc_dm_attr attr = {0};
	struct ibv_device_attr_ex device;
	struct ibv_dm *dm;
	uint8_t out[16];
	struct pair p;

	setup(&p);
	assert_int_equal(ibv_query_device_ex(p.d.ctx, NULL, &device), 0);
	assert_true(device.max_dm_size > 0);
	assert_null(ibv_alloc_dm(p.d.ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr.length = device.max_dm_size + 1;
	assert_null(ibv_alloc_dm(p.d.ctx, &attr));
	assert_int_equal(errno, ENOMEM);
	dm = new_dm(&p, 4096);
	assert_int_equal(ibv_memcpy_from_dm(out, dm, 4084, sizeof(out)), EFAULT);
	assert_int_equal(ibv_memcpy_to_dm(dm, UINT64_MAX - 3, out, 4), EFAULT);
	assert_int_equal(ibv_memcpy_to_dm(dm, 2, out, 4), EFAULT);
	assert_int_equal(ibv_memcpy_from_dm(out, dm, 0, 3), EFAULT);
	assert_null(ibv_reg_dm_mr(p.d.pd, dm, 0, 4096, ALL_ACCESS));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_dm_mr(p.d.pd, dm, 1, 4096, IBV_ACCESS_ZERO_BASED));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_free_dm(dm), 0);
	teardown(&p);
}

TEST(dm, all_of_it_given_out__comes_back_when_freed)
{
	struct ibv_alloc_dm_attr attr = {0};
	struct ibv_device_attr_ex device;
	struct ibv_dm *dm;
	struct pair p;

	setup(&p);
	assert_int_equal(ibv_query_device_ex(p.d.ctx, NULL, &device), 0);
	for (int i = 0; i < 3; i++) {
		dm = new_dm(&p, device.max_dm_size);
		attr.length = 1;
		assert_null(ibv_alloc_dm(p.d.ctx, &attr));
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(ibv_free_dm(dm), 0);
	}
	teardown(&p);
}
