/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "transport/ep.h"
#include "transport/mr.h"

struct fixture {
	struct rocemu_ep ep;
	struct rocemu_pd pd, other;
	uint8_t mem[256];
};

static void setup(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->ep.prf = (struct prf){.key = {7}};
	f->ep.mrs = &f->ep.own_mrs;
	mr_table_init(f->ep.mrs);
	f->pd.ep = f->other.ep = &f->ep;
}

static struct rocemu_mr *reg(struct fixture *f, size_t off, size_t len, int access)
{
	struct rocemu_mr *mr;

	assert_int_equal(rocemu_mr_reg(&f->pd, f->mem + off, len, 0x1000 + off, access, &mr), 0);
	return mr;
}

TEST(mr_access, within_region__its_memory)
{
	struct fixture f;
	struct rocemu_mr *mr;

	setup(&f);
	mr = reg(&f, 16, 64, IBV_ACCESS_REMOTE_READ);
	assert_ptr_equal(mr_access(f.ep.mrs, &f.pd, mr->key, 0x1010, 64, IBV_ACCESS_REMOTE_READ),
			 f.mem + 16);
	assert_ptr_equal(mr_access(f.ep.mrs, &f.pd, mr->key, 0x1010 + 63, 1, 0), f.mem + 79);
	mr_table_fini(f.ep.mrs);
}

TEST(mr_access, bounds_rights_pd_key__refused)
{
	struct fixture f;
	struct rocemu_mr *mr;
	const struct mr_table *t = &f.ep.own_mrs;

	setup(&f);
	mr = reg(&f, 16, 64, IBV_ACCESS_REMOTE_READ);
	assert_null(mr_access(t, &f.pd, mr->key, 0x100f, 1, 0));
	assert_null(mr_access(t, &f.pd, mr->key, 0x1010, 65, 0));
	assert_null(mr_access(t, &f.pd, mr->key, 0x1050, 1, 0));
	assert_null(mr_access(t, &f.pd, mr->key, 0x1020, UINT64_MAX, 0));
	assert_null(mr_access(t, &f.pd, mr->key, UINT64_MAX, 2, 0));
	assert_null(mr_access(t, &f.pd, mr->key, 0x1010, 1, IBV_ACCESS_REMOTE_WRITE));
	assert_null(mr_access(t, &f.other, mr->key, 0x1010, 1, 0));
	assert_null(mr_access(t, &f.pd, mr->key ^ 1, 0x1010, 1, 0));
	assert_null(mr_access(t, &f.pd, 0xffffffff, 0x1010, 1, 0));
	assert_null(mr_access(t, &f.pd, 0, 0x1010, 1, 0));
	mr_table_fini(f.ep.mrs);
}

TEST(mr_access, zero_length__key_not_looked_at)
{
	struct fixture f;

	setup(&f);
	assert_non_null(mr_access(f.ep.mrs, &f.pd, 0xdeadbeef, 0, 0, IBV_ACCESS_REMOTE_WRITE));
}

TEST(mr_dereg, index_used_again__old_key_stays_dead)
{
	struct fixture f;
	struct rocemu_mr *mr;
	uint32_t old;

	setup(&f);
	mr = reg(&f, 0, 8, 0);
	old = mr->key;
	rocemu_mr_dereg(mr);
	for (unsigned i = 0; i < 200; i++) {
		mr = reg(&f, 0, 8, 0);
		assert_int_not_equal(mr->key, old);
		assert_null(mr_find(f.ep.mrs, old));
		rocemu_mr_dereg(mr);
	}
	assert_int_equal(f.pd.refs, 0);
	mr_table_fini(f.ep.mrs);
}

TEST(mr_reg, many__all_found_by_distinct_keys)
{
	enum { MANY = 5000 };
	static struct rocemu_mr *mrs[MANY];
	struct fixture f;

	setup(&f);
	for (unsigned i = 0; i < MANY; i++)
		mrs[i] = reg(&f, 0, 8, 0);
	for (unsigned i = 0; i < MANY; i++)
		assert_ptr_equal(mr_find(f.ep.mrs, mrs[i]->key), mrs[i]);
	mr_table_fini(f.ep.mrs);
}

TEST(mr_reg, remote_write_without_local_write__einval)
{
	struct fixture f;
	struct rocemu_mr *mr;

	setup(&f);
	assert_int_equal(rocemu_mr_reg(&f.pd, f.mem, 8, 0, IBV_ACCESS_REMOTE_WRITE, &mr), -EINVAL);
	assert_int_equal(rocemu_mr_reg(&f.pd, f.mem, 8, 0, IBV_ACCESS_REMOTE_ATOMIC, &mr), -EINVAL);
	assert_int_equal(rocemu_mr_reg(&f.pd, f.mem, 8, UINT64_MAX - 3, 0, &mr), -EINVAL);
}

TEST(sge, gather_and_scatter_across_pieces__right_bytes)
{
	struct fixture f;
	struct rocemu_mr *mr;
	struct iovec iov[4];
	uint8_t data[30];
	struct ibv_sge sge[3];

	setup(&f);
	mr = reg(&f, 0, 256, IBV_ACCESS_LOCAL_WRITE);
	sge[0] = (struct ibv_sge){.addr = 0x1000, .length = 10, .lkey = mr->key};
	sge[1] = (struct ibv_sge){.addr = 0x1064, .length = 0, .lkey = 0};
	sge[2] = (struct ibv_sge){.addr = 0x1080, .length = 25, .lkey = mr->key};
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i + 1);
	assert_int_equal(sge_total(sge, 3), 35);
	assert_int_equal(sge_scatter(f.ep.mrs, &f.pd, sge, 3, 5, data, 30), 0);
	assert_memory_equal(f.mem + 5, data, 5);
	assert_memory_equal(f.mem + 0x80, data + 5, 25);
	assert_int_equal(f.mem[10], 0);
	assert_int_equal(f.mem[0x80 + 25], 0);
	assert_int_equal(sge_gather(f.ep.mrs, &f.pd, sge, 3, 9, 3, 0, iov, 4), 2);
	assert_int_equal(iov[0].iov_len, 1);
	assert_ptr_equal(iov[1].iov_base, f.mem + 0x80);
	assert_int_equal(iov[1].iov_len, 2);
	assert_int_equal(sge_scatter(f.ep.mrs, &f.pd, sge, 3, 6, data, 30), -EMSGSIZE);
	sge[2].lkey ^= 0xff;
	memset(f.mem, 0, sizeof(f.mem));
	assert_int_equal(sge_scatter(f.ep.mrs, &f.pd, sge, 3, 0, data, 30), -EFAULT);
	assert_int_equal(f.mem[0], 0);
	mr_table_fini(f.ep.mrs);
}

TEST(mr_change, other_place_and_rights__same_key)
{
	struct fixture f;
	struct rocemu_mr *mr;
	uint32_t key;

	setup(&f);
	mr = reg(&f, 0, 64, 0);
	key = mr->key;
	assert_int_equal(
		rocemu_mr_change(mr, &f.other, f.mem + 100, 8, 0x50, IBV_ACCESS_REMOTE_READ), 0);
	assert_null(mr_access(f.ep.mrs, &f.pd, key, 0x50, 8, IBV_ACCESS_REMOTE_READ));
	assert_ptr_equal(mr_access(f.ep.mrs, &f.other, key, 0x50, 8, IBV_ACCESS_REMOTE_READ),
			 f.mem + 100);
	assert_int_equal(f.pd.refs, 0);
	assert_int_equal(f.other.refs, 1);
	assert_int_equal(rocemu_mr_change(mr, &f.pd, f.mem, 8, 0, IBV_ACCESS_REMOTE_WRITE),
			 -EINVAL);
	mr->windows = 1;
	assert_int_equal(rocemu_mr_change(mr, &f.pd, f.mem, 8, 0, 0), -EBUSY);
	assert_ptr_equal(mr_access(f.ep.mrs, &f.other, key, 0x50, 8, 0), f.mem + 100);
	mr_table_fini(f.ep.mrs);
}

static struct {
	void *addr;
	size_t len;
	bool write, there;
} asked;

static bool page_in(void *addr, size_t len, bool write)
{
	asked.addr = addr;
	asked.len = len;
	asked.write = write;
	return asked.there;
}

TEST(mr_on_demand, each_access__asks_for_its_pages)
{
	struct fixture f;
	struct rocemu_mr *mr;

	setup(&f);
	assert_int_equal(rocemu_mr_reg(&f.pd, f.mem, 64, 0, IBV_ACCESS_ON_DEMAND, &mr),
			 -EOPNOTSUPP);
	f.ep.cfg.page_in = page_in;
	mr = reg(&f, 0, 64, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
	asked.there = true;
	assert_ptr_equal(mr_access(f.ep.mrs, &f.pd, mr->key, 0x1010, 8, 0), f.mem + 16);
	assert_ptr_equal(asked.addr, f.mem + 16);
	assert_int_equal(asked.len, 8);
	assert_false(asked.write);
	assert_non_null(mr_access(f.ep.mrs, &f.pd, mr->key, 0x1000, 8, IBV_ACCESS_LOCAL_WRITE));
	assert_true(asked.write);
	asked.there = false;
	assert_null(mr_access(f.ep.mrs, &f.pd, mr->key, 0x1010, 8, 0));
	mr_table_fini(f.ep.mrs);
}

TEST(mr_on_demand, no_bytes__no_page_asked_for)
{
	struct fixture f;
	struct rocemu_mr *mr;

	setup(&f);
	f.ep.cfg.page_in = page_in;
	mr = reg(&f, 0, 64, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
	asked.there = false;
	assert_ptr_equal(mr_range(mr, &f.pd, 0x1000, 0, IBV_ACCESS_LOCAL_WRITE), f.mem);
	assert_null(mr_range(mr, &f.pd, 0x1000, 0, IBV_ACCESS_REMOTE_READ));
	mr_table_fini(f.ep.mrs);
}

TEST(mr_missing, region_and_those_that_overlap__ask_for_their_pages)
{
	struct rocemu_mr *hit, *beside;
	struct fixture f;

	setup(&f);
	f.ep.cfg.page_in = page_in;
	hit = reg(&f, 0, 64, IBV_ACCESS_LOCAL_WRITE);
	beside = reg(&f, 64, 64, IBV_ACCESS_LOCAL_WRITE);
	mr_missing(f.ep.mrs, f.mem + 60, 4);
	asked.there = false;
	assert_null(mr_access(f.ep.mrs, &f.pd, hit->key, 0x1000, 8, 0));
	assert_non_null(mr_access(f.ep.mrs, &f.pd, beside->key, 0x1040, 8, 0));
	asked.there = true;
	assert_non_null(mr_access(f.ep.mrs, &f.pd, hit->key, 0x1000, 8, 0));
	mr_missing(f.ep.mrs, f.mem + 60, 8);
	asked.there = false;
	assert_null(mr_access(f.ep.mrs, &f.pd, beside->key, 0x1040, 8, 0));
	mr_table_fini(f.ep.mrs);
}

TEST(mr_missing, nobody_to_ask__region_grants_nothing)
{
	struct rocemu_mr *mr;
	struct fixture f;

	setup(&f);
	mr = reg(&f, 0, 64, IBV_ACCESS_LOCAL_WRITE);
	mr_missing(f.ep.mrs, f.mem, 1);
	assert_null(mr_access(f.ep.mrs, &f.pd, mr->key, 0x1000, 8, 0));
	mr_table_fini(f.ep.mrs);
}

TEST(mr_null, any_address__zeros_and_a_place_to_write)
{
	struct fixture f;
	struct rocemu_mr *mr;
	const uint8_t *zeros;
	uint8_t *sink;

	setup(&f);
	assert_int_equal(rocemu_mr_null_reg(&f.pd, &mr), 0);
	sink = mr_access(f.ep.mrs, &f.pd, mr->key, 0xffff0000u, ROCEMU_MAX_MTU,
			 IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(sink);
	memset(sink, 0xff, ROCEMU_MAX_MTU);
	zeros = mr_access(f.ep.mrs, &f.pd, mr->key, 17, MR_PIECE_MAX, 0);
	for (size_t i = 0; i < MR_PIECE_MAX; i++)
		assert_int_equal(zeros[i], 0);
	assert_null(mr_access(f.ep.mrs, &f.pd, mr->key, 17, 1, IBV_ACCESS_REMOTE_READ));
	mr_table_fini(f.ep.mrs);
}

TEST(mr_reg, endpoints_with_common_domains__one_table)
{
	struct rocemu_ep *a = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct rocemu_ep *b = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 2, .domains_of = a});
	struct rocemu_ep *c = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 3, .domains_of = b});
	struct rocemu_pd *pd = rocemu_pd_new(b);
	struct rocemu_mr *mr, *kept;
	uint8_t mem[64];

	assert_int_equal(rocemu_mr_reg(pd, mem, 64, 0x1000, IBV_ACCESS_REMOTE_READ, &mr), 0);
	assert_ptr_equal(mr_access(a->mrs, pd, mr->key, 0x1000, 64, IBV_ACCESS_REMOTE_READ), mem);
	assert_ptr_equal(mr_access(c->mrs, pd, mr->key, 0x1000, 64, IBV_ACCESS_REMOTE_READ), mem);
	assert_int_equal(rocemu_pd_free(pd), -EBUSY);
	mr_missing(c->mrs, mem, 1);
	assert_null(mr_access(a->mrs, pd, mr->key, 0x1000, 64, IBV_ACCESS_REMOTE_READ));
	assert_int_equal(rocemu_mr_dereg(mr), 0);
	/* What an endpoint that goes leaves behind is the others'. */
	assert_int_equal(rocemu_mr_reg(pd, mem, 64, 0x1000, 0, &kept), 0);
	rocemu_ep_free(b);
	assert_ptr_equal(mr_access(c->mrs, pd, kept->key, 0x1000, 64, 0), mem);
	rocemu_ep_free(c);
	rocemu_ep_free(a);
}
