/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that the program may not read or write is not registered. */
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dev.h"

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC,
	READ_ACCESS = IBV_ACCESS_REMOTE_READ,
	PAGES = 4,
};

/* A region of so many pages, the one at an index with other rights, is refused or not. */
static void expect_reg(struct dev *d, size_t page, size_t pages, size_t at, int prot, int access,
		       bool ok)
{
	uint8_t *mem = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	struct ibv_mr *mr;

	assert_true(mem != MAP_FAILED);
	assert_int_equal(mprotect(mem + at * page, page, prot), 0);
	errno = 0;
	mr = ibv_reg_mr(d->pd, mem + 1, pages * page - 1, (unsigned)access);
	if (ok) {
		assert_non_null(mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	} else {
		assert_null(mr);
		assert_int_equal(errno, EFAULT);
	}
	munmap(mem, pages * page);
}

TEST(reg_mr, page_without_rights__efault_wherever_it_is)
{
	/* A region whose pages are touched, and one of which the mappings are looked at. */
	const size_t sizes[] = {8, 4096};
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct dev d;

	dev_open(&d);
	for (size_t i = 0; i < 2; i++) {
		const size_t places[] = {0, sizes[i] / 2, sizes[i] - 1};

		for (size_t j = 0; j < 3; j++) {
			expect_reg(&d, page, sizes[i], places[j], PROT_NONE, ALL_ACCESS, false);
			expect_reg(&d, page, sizes[i], places[j], PROT_NONE, READ_ACCESS, false);
			expect_reg(&d, page, sizes[i], places[j], PROT_READ, ALL_ACCESS, false);
			expect_reg(&d, page, sizes[i], places[j], PROT_READ, IBV_ACCESS_MW_BIND,
				   false);
			expect_reg(&d, page, sizes[i], places[j], PROT_READ, READ_ACCESS, true);
			expect_reg(&d, page, sizes[i], places[j], PROT_READ | PROT_WRITE,
				   ALL_ACCESS, true);
		}
	}
	dev_close(&d);
}

TEST(reg_mr, hole_or_wrong_rights_after_reregistration__refused)
{
	struct ibv_mr *mr;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct dev d;
	uint8_t *mem;

	dev_open(&d);
	mem = dev_pages(PAGES * page, PROT_READ, -1);
	mr = ibv_reg_mr(d.pd, mem, PAGES * page, READ_ACCESS);
	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(mem + page, page);
	assert_null(ibv_reg_mr(d.pd, mem, PAGES * page, READ_ACCESS));
	assert_int_equal(errno, EFAULT);
	munmap(mem, PAGES * page);
	dev_close(&d);
}

TEST(reg_mr, pages_behind_a_files_end__efault)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct dev d;
	uint8_t *mem;
	int fd = memfd_create("file", MFD_CLOEXEC);

	dev_open(&d);
	assert_int_equal(ftruncate(fd, (off_t)page), 0);
	mem = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(mem != MAP_FAILED);
	/* On a kernel that cannot report it, any memory is accepted. */
	if (madvise(mem, page, 22 /* MADV_POPULATE_READ */) == 0) {
		assert_null(ibv_reg_mr(d.pd, mem, PAGES * page, READ_ACCESS));
		assert_int_equal(errno, EFAULT);
	}
	munmap(mem, PAGES * page);
	close(fd);
	dev_close(&d);
}
