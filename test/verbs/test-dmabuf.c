/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of DMA-bufs: of /dev/udmabuf where it is, else of a memfd that fstatfs() is made to call
 * a DMA-buf (the linker puts functions below in the place of the C library's).
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "dev.h"
#include "verbs/newer.h"

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC,
	PAGES = 4,
};

/* ---- DMA-bufs ---- */

static int stand_in = -1; /* the memfd that is to pass for a DMA-buf */

int __real_fstatfs64(int fd, struct statfs *fs);
int __wrap_fstatfs64(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs);

int __wrap_fstatfs64(int fd, struct statfs *fs)
{
	const int ret = __real_fstatfs64(fd, fs);

	if (ret == 0 && fd == stand_in)
		fs->f_type = 0x444d4142;
	return ret;
}

int __wrap_fstatfs(int fd, struct statfs *fs)
{
	return __wrap_fstatfs64(fd, fs);
}

/* Pages that are mapped by number, as a heap's are, cannot be requested by madvise(). */
static bool mapped_by_number;

int __real_madvise(void *addr, size_t length, int advice);
int __wrap_madvise(void *addr, size_t length, int advice);

int __wrap_madvise(void *addr, size_t length, int advice)
{
	if (!mapped_by_number)
		return __real_madvise(addr, length, advice);
	errno = EINVAL;
	return -1;
}

struct bench {
	struct dev d;
	struct ibv_qp *a, *b;
	size_t page;
	int memfd, dmabuf; /* the same memory; dmabuf may be memfd */
	uint8_t *mem;	   /* PAGES of it */
};

/* linux/udmabuf.h, which not every machine has. */
struct create {
	uint32_t memfd, flags;
	uint64_t offset, size;
};
#define CREATE _IOW('u', 0x42, struct create)

static int udmabuf(const struct bench *t)
{
	struct create c = {.memfd = (uint32_t)t->memfd, .size = PAGES * t->page};
	const int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int fd;

	if (dev < 0)
		return -1;
	fd = ioctl(dev, CREATE, &c);
	close(dev);
	return fd;
}

static void setup(struct bench *t)
{
	dev_open(&t->d);
	t->a = dev_qp(&t->d, IBV_QPT_RC, 0);
	t->b = dev_qp(&t->d, IBV_QPT_RC, 0);
	dev_connect(t->a, t->b);
	t->page = (size_t)sysconf(_SC_PAGESIZE);
	t->memfd = memfd_create("test-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(t->memfd >= 0);
	assert_int_equal(ftruncate(t->memfd, (off_t)(PAGES * t->page)), 0);
	assert_int_equal(fcntl(t->memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	t->mem = mmap(NULL, PAGES * t->page, PROT_READ | PROT_WRITE, MAP_SHARED, t->memfd, 0);
	assert_true(t->mem != MAP_FAILED);
	t->dmabuf = udmabuf(t);
	if (t->dmabuf < 0)
		stand_in = t->dmabuf = t->memfd;
}

static void teardown(struct bench *t)
{
	stand_in = -1;
	munmap(t->mem, PAGES * t->page);
	if (t->dmabuf != t->memfd)
		close(t->dmabuf);
	close(t->memfd);
	assert_int_equal(ibv_destroy_qp(t->a), 0);
	assert_int_equal(ibv_destroy_qp(t->b), 0);
	dev_close(&t->d);
}

static void expect_refused(struct bench *t, uint64_t offset, size_t length, uint64_t iova, int fd,
			   int access, int err)
{
	errno = 0;
	assert_null(ibv_reg_dmabuf_mr(t->d.pd, offset, length, iova, fd, access));
	assert_int_equal(errno, err);
}

static enum ibv_wc_status access_remote(struct bench *t, enum ibv_wr_opcode opcode,
					struct ibv_sge sge, uint64_t remote, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = opcode,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {.remote_addr = remote, .rkey = rkey},
				 };

	assert_int_equal(ibv_post_send(t->a, &wr, &bad), 0);
	return dev_poll(t->d.cq).status;
}

/* ---- what works ---- */

TEST(dmabuf, offset_and_iova__written_and_read_by_a_peer)
{
	const uint64_t iova = 0x7000010000;
	struct ibv_mr *mr;
	struct bench t;

	setup(&t);
	mr = ibv_reg_dmabuf_mr(t.d.pd, t.page + 8, 2 * t.page, iova + 8, t.dmabuf, ALL_ACCESS);
	assert_non_null(mr);
	/* As with the kernel's regions: it has no address here, and this is all that the program
	 * gave. */
	assert_ptr_equal(mr->addr, (void *)(t.page + 8));
	assert_int_equal(mr->length, 2 * t.page);
	memset(t.d.mem, 0x5a, t.page);
	assert_int_equal(access_remote(&t, IBV_WR_RDMA_WRITE, dev_sge(&t.d, 0, (uint32_t)t.page),
				       iova + 8 + 100, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(t.mem + t.page + 108, t.d.mem, t.page);
	assert_int_equal(t.mem[t.page + 107], 0);
	assert_int_equal(access_remote(&t, IBV_WR_RDMA_READ, dev_sge(&t.d, 32768, 64),
				       iova + 8 + 100, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(t.d.mem + 32768, t.d.mem, 64);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&t);
}

TEST(dmabuf, local_memory__sent_and_received)
{
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct bench t;

	setup(&t);
	mr = ibv_reg_dmabuf_mr(t.d.pd, 0, PAGES * t.page, 0, t.dmabuf, ALL_ACCESS);
	assert_non_null(mr);
	memset(t.mem, 0x33, 256);
	sge = (struct ibv_sge){.addr = 0, .length = 256, .lkey = mr->lkey};
	assert_int_equal(
		access_remote(&t, IBV_WR_RDMA_WRITE, sge, (uintptr_t)t.d.mem, t.d.mr->rkey),
		IBV_WC_SUCCESS);
	assert_memory_equal(t.d.mem, t.mem, 256);
	sge.addr = 3 * t.page;
	assert_int_equal(access_remote(&t, IBV_WR_RDMA_READ, sge, (uintptr_t)t.d.mem, t.d.mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(t.mem + 3 * t.page, t.d.mem, 256);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&t);
}

TEST(dmabuf, end_of_the_region__remote_access_error)
{
	struct ibv_mr *mr;
	struct bench t;

	setup(&t);
	mr = ibv_reg_dmabuf_mr(t.d.pd, 0, t.page, 0, t.dmabuf, ALL_ACCESS);
	assert_non_null(mr);
	assert_int_equal(
		access_remote(&t, IBV_WR_RDMA_WRITE, dev_sge(&t.d, 0, 64), t.page - 63, mr->rkey),
		IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&t);
}

TEST(dmabuf, pages_mapped_by_number__registered)
{
	struct ibv_mr *mr;
	struct bench t;

	setup(&t);
	mapped_by_number = true;
	mr = ibv_reg_dmabuf_mr(t.d.pd, 0, t.page, 0, t.dmabuf, ALL_ACCESS);
	mapped_by_number = false;
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&t);
}

/* The region keeps the memory; ibv_dereg_mr() unmaps it. */
TEST(dmabuf, descriptor_closed__goes_on_until_deregistered)
{
	struct ibv_mr *mr;
	struct bench t;
	int fd;

	setup(&t);
	fd = fcntl(t.dmabuf, F_DUPFD_CLOEXEC, 0);
	assert_true(fd >= 0);
	if (t.dmabuf == t.memfd)
		stand_in = fd;
	mr = ibv_reg_dmabuf_mr(t.d.pd, 0, t.page, 0, fd, ALL_ACCESS);
	assert_non_null(mr);
	close(fd);
	assert_int_equal(access_remote(&t, IBV_WR_RDMA_WRITE, dev_sge(&t.d, 0, 64), 64, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(t.mem + 64, t.d.mem, 64);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&t);
}

TEST(dmabuf, by_attributes__as_reg_dmabuf_mr)
{
	struct ibv_mr_init_attr a = {
		.access = ALL_ACCESS,
		.comp_mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA,
	};
	struct ibv_mr *mr;
	struct bench t;

	setup(&t);
	a.fd = t.dmabuf;
	a.fd_offset = t.page;
	a.length = t.page;
	mr = ibv_reg_mr_ex(t.d.pd, &a);
	assert_non_null(mr);
	assert_int_equal(access_remote(&t, IBV_WR_RDMA_WRITE, dev_sge(&t.d, 0, 64), 64, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(t.mem + t.page + 64, t.d.mem, 64);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&t);
}

TEST(dmabuf, registered_again__einval)
{
	struct ibv_mr *mr;
	struct bench t;

	setup(&t);
	mr = ibv_reg_dmabuf_mr(t.d.pd, 0, t.page, 0, t.dmabuf, ALL_ACCESS);
	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	teardown(&t);
}

/* ---- what does not ---- */

TEST(dmabuf, range_rights_or_alignment_wrong__einval)
{
	const size_t none = 0;
	struct bench t;

	setup(&t);
	expect_refused(&t, 0, PAGES * t.page + 1, 0, t.dmabuf, ALL_ACCESS, EINVAL);
	expect_refused(&t, PAGES * t.page, 1, 0, t.dmabuf, ALL_ACCESS, EINVAL);
	expect_refused(&t, UINT64_MAX - t.page + 1, t.page, 0, t.dmabuf, ALL_ACCESS, EINVAL);
	expect_refused(&t, t.page, SIZE_MAX, 0, t.dmabuf, ALL_ACCESS, EINVAL);
	expect_refused(&t, 0, none, 0, t.dmabuf, ALL_ACCESS, EINVAL);
	expect_refused(&t, 0, t.page, 8, t.dmabuf, ALL_ACCESS, EINVAL);
	expect_refused(&t, 0, t.page, 0, t.dmabuf, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	expect_refused(&t, 0, t.page, 0, t.dmabuf, ALL_ACCESS | IBV_ACCESS_MW_BIND, EINVAL);
	expect_refused(&t, 0, t.page, 0, t.dmabuf, ALL_ACCESS | IBV_ACCESS_ON_DEMAND, EINVAL);
	teardown(&t);
}

TEST(dmabuf, file_that_is_none__einval)
{
	struct bench t;
	int fd;

	setup(&t);
	fd = memfd_create("plain", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)t.page), 0);
	expect_refused(&t, 0, t.page, 0, fd, ALL_ACCESS, EINVAL);
	close(fd);
	expect_refused(&t, 0, t.page, 0, fd, ALL_ACCESS, EBADF);
	teardown(&t);
}

TEST(dmabuf, question_with_no_descriptor__eopnotsupp)
{
	struct bench t;

	setup(&t);
	expect_refused(&t, 0, t.page, 0, -1, 0, EOPNOTSUPP);
	teardown(&t);
}

/* Most devices' memory cannot be mapped; here it cannot because the descriptor is only for reading.
 */
TEST(dmabuf, mmap_fails__eopnotsupp)
{
	struct ibv_mr *mr;
	char path[64];
	struct bench t;
	int fd;

	setup(&t);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", t.memfd);
	stand_in = fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	expect_refused(&t, 0, t.page, 0, fd, IBV_ACCESS_LOCAL_WRITE, EOPNOTSUPP);
	/* For reading it can. */
	mr = ibv_reg_dmabuf_mr(t.d.pd, 0, t.page, 0, fd, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(access_remote(&t, IBV_WR_RDMA_READ, dev_sge(&t.d, 0, 64), 64, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	close(fd);
	teardown(&t);
}
