/* SPDX-License-Identifier: BSD-2-Clause */
/* Registered memory that the program unmaps, protects or truncates: accesses fail, and the process
 * goes on. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dev.h"

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC,
	PAGES = 16,
	SMALL = 64,
};

/* Two devices, so that what b's memory is used for is done by its lane's thread. */
struct pair {
	struct dev here, there;
	struct ibv_qp *a, *b;
	size_t page;
	uint8_t *mem; /* there, of PAGES */
	struct ibv_mr *mr;
	int fd; /* what it is a mapping of, or -1 */
};

enum way { UNMAP, PROTECT, READ_ONLY, TRUNCATE };

static void setup(struct pair *p, bool file)
{
	dev_open(&p->here);
	dev_open(&p->there);
	p->page = (size_t)sysconf(_SC_PAGESIZE);
	p->a = dev_qp(&p->here, IBV_QPT_RC, 0);
	p->b = dev_qp(&p->there, IBV_QPT_RC, 0);
	dev_connect(p->a, p->b);
	p->fd = file ? memfd_create("file", MFD_CLOEXEC) : -1;
	if (file)
		assert_int_equal(ftruncate(p->fd, (off_t)(PAGES * p->page)), 0);
	p->mem = dev_pages(PAGES * p->page, PROT_READ | PROT_WRITE, p->fd);
	p->mr = ibv_reg_mr(p->there.pd, p->mem, PAGES * p->page, ALL_ACCESS);
	assert_non_null(p->mr);
}

static void teardown(struct pair *p)
{
	assert_int_equal(ibv_destroy_qp(p->a), 0);
	assert_int_equal(ibv_destroy_qp(p->b), 0);
	assert_int_equal(ibv_dereg_mr(p->mr), 0);
	munmap(p->mem, PAGES * p->page);
	if (p->fd >= 0)
		close(p->fd);
	dev_close(&p->here);
	dev_close(&p->there);
}

/* The second page and what follows it. */
static void take_away(struct pair *p, enum way how)
{
	uint8_t *at = p->mem + p->page;
	const size_t len = (PAGES - 1) * p->page;
	int ret = 0;

	switch (how) {
	case UNMAP:
		ret = munmap(at, len);
		break;
	case PROTECT:
		ret = mprotect(at, len, PROT_NONE);
		break;
	case READ_ONLY:
		ret = mprotect(at, len, PROT_READ);
		break;
	case TRUNCATE:
		ret = ftruncate(p->fd, (off_t)p->page);
		break;
	}
	assert_int_equal(ret, 0);
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_sge sge, uint64_t remote,
		 uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = opcode,
					 .send_flags = IBV_SEND_SIGNALED,
				 };

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/* a's access to there's memory from an offset on: its status. */
static enum ibv_wc_status access_there(struct pair *p, enum ibv_wr_opcode opcode, size_t offset,
				       uint32_t len)
{
	post(p->a, opcode, dev_sge(&p->here, 0, len), (uintptr_t)p->mem + offset, p->mr->rkey);
	return dev_poll(p->here.cq).status;
}

static void expect_remote_error(enum ibv_wr_opcode opcode, enum way how, size_t len)
{
	struct pair p;

	setup(&p, how == TRUNCATE);
	assert_int_equal(access_there(&p, opcode, p.page, (uint32_t)len), IBV_WC_SUCCESS);
	take_away(&p, how);
	/* What is left is there as before. */
	if (len <= p.page)
		assert_int_equal(access_there(&p, opcode, 0, (uint32_t)len), IBV_WC_SUCCESS);
	assert_int_equal(access_there(&p, opcode, p.page, (uint32_t)len), IBV_WC_REM_ACCESS_ERR);
	teardown(&p);
}

TEST(gone, target_of_write_read_or_atomic__remote_access_error)
{
	const enum way ways[] = {UNMAP, PROTECT, TRUNCATE};

	for (unsigned i = 0; i < 3; i++) {
		expect_remote_error(IBV_WR_RDMA_WRITE, ways[i], SMALL);
		expect_remote_error(IBV_WR_RDMA_READ, ways[i], SMALL);
		expect_remote_error(IBV_WR_RDMA_WRITE, ways[i], 32768);
		expect_remote_error(IBV_WR_RDMA_READ, ways[i], 32768);
		expect_remote_error(IBV_WR_ATOMIC_FETCH_AND_ADD, ways[i], 8);
		expect_remote_error(IBV_WR_ATOMIC_CMP_AND_SWP, ways[i], 8);
	}
	expect_remote_error(IBV_WR_RDMA_WRITE, READ_ONLY, SMALL);
	expect_remote_error(IBV_WR_ATOMIC_FETCH_AND_ADD, READ_ONLY, 8);
}

TEST(gone, only_read_only__is_still_read)
{
	struct pair p;

	setup(&p, false);
	take_away(&p, READ_ONLY);
	assert_int_equal(access_there(&p, IBV_WR_RDMA_READ, p.page, SMALL), IBV_WC_SUCCESS);
	teardown(&p);
}

/* The memory is found missing once, and is there again: accesses to it work again. */
TEST(gone, mapped_again__accesses_work_again)
{
	struct pair p;

	setup(&p, false);
	take_away(&p, PROTECT);
	assert_int_equal(access_there(&p, IBV_WR_RDMA_WRITE, p.page, SMALL), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(mprotect(p.mem, PAGES * p.page, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(ibv_destroy_qp(p.a), 0);
	assert_int_equal(ibv_destroy_qp(p.b), 0);
	p.a = dev_qp(&p.here, IBV_QPT_RC, 0);
	p.b = dev_qp(&p.there, IBV_QPT_RC, 0);
	dev_connect(p.a, p.b);
	memset(p.here.mem, 0x5a, SMALL);
	assert_int_equal(access_there(&p, IBV_WR_RDMA_WRITE, p.page, SMALL), IBV_WC_SUCCESS);
	assert_memory_equal(p.mem + p.page, p.here.mem, SMALL);
	teardown(&p);
}

static void expect_receive_error(enum way how, uint32_t len)
{
	struct ibv_recv_wr *bad, wr = {.num_sge = 1};
	struct ibv_sge sge;
	struct pair p;

	setup(&p, how == TRUNCATE);
	sge = (struct ibv_sge){(uintptr_t)p.mem + p.page, len, p.mr->lkey};
	wr.sg_list = &sge;
	assert_int_equal(ibv_post_recv(p.b, &wr, &bad), 0);
	take_away(&p, how);
	post(p.a, IBV_WR_SEND, dev_sge(&p.here, 0, len), 0, 0);
	assert_int_equal(dev_poll(p.there.cq).status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(dev_poll(p.here.cq).status, IBV_WC_REM_OP_ERR);
	teardown(&p);
}

TEST(gone, receive_buffer__local_protection_error_and_remote_operation_error)
{
	expect_receive_error(UNMAP, SMALL);
	expect_receive_error(PROTECT, 32768);
	expect_receive_error(READ_ONLY, SMALL);
	expect_receive_error(TRUNCATE, SMALL);
}

static void expect_source_error(enum ibv_wr_opcode opcode, enum way how, uint32_t len)
{
	struct pair p;

	setup(&p, how == TRUNCATE);
	take_away(&p, how);
	dev_post_recv(&p.here, p.a, 0, 0, len);
	post(p.b, opcode, (struct ibv_sge){(uintptr_t)p.mem + p.page, len, p.mr->lkey},
	     (uintptr_t)p.here.mem, p.here.mr->rkey);
	assert_int_equal(dev_poll(p.there.cq).status, IBV_WC_LOC_PROT_ERR);
	teardown(&p);
}

TEST(gone, source_of_a_request__local_protection_error)
{
	const enum way ways[] = {UNMAP, PROTECT, TRUNCATE};

	for (unsigned i = 0; i < 3; i++) {
		expect_source_error(IBV_WR_SEND, ways[i], SMALL);
		expect_source_error(IBV_WR_SEND, ways[i], 32768);
		expect_source_error(IBV_WR_RDMA_WRITE, ways[i], SMALL);
		expect_source_error(IBV_WR_RDMA_WRITE, ways[i], 32768);
		/* Where the answer is to go. */
		expect_source_error(IBV_WR_RDMA_READ, ways[i], SMALL);
	}
	expect_source_error(IBV_WR_RDMA_READ, READ_ONLY, 32768);
}

/* ---- the program's own faults and handlers ---- */

static void *with_all_signals_blocked(void *arg)
{
	struct pair *p = arg;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	post(p->b, IBV_WR_SEND, (struct ibv_sge){(uintptr_t)p->mem + p->page, SMALL, p->mr->lkey},
	     0, 0);
	assert_int_equal(dev_poll(p->there.cq).status, IBV_WC_LOC_PROT_ERR);
	return NULL;
}

TEST(gone, found_by_a_thread_that_blocks_signals__the_same)
{
	pthread_t thread;
	struct pair p;

	setup(&p, false);
	take_away(&p, UNMAP);
	assert_int_equal(pthread_create(&thread, NULL, with_all_signals_blocked, &p), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	teardown(&p);
}

static sigjmp_buf landing;
static const void *volatile seen;

static void own_handler(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	seen = info->si_addr;
	siglongjmp(landing, 1);
}

static struct sigaction chained;

static void chaining_handler(int sig, siginfo_t *info, void *context)
{
	chained.sa_sigaction(sig, info, context);
}

static void install(void (*handler)(int, siginfo_t *, void *), struct sigaction *old)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	assert_int_equal(sigaction(SIGSEGV, &action, old), 0);
}

static void expect_own_fault(uint8_t *at)
{
	seen = NULL;
	if (sigsetjmp(landing, 1) == 0)
		*(volatile uint8_t *)at = 1;
	assert_ptr_equal(seen, at);
}

TEST(handler, of_the_program__gets_its_own_faults_and_not_ours)
{
	struct sigaction was;
	struct pair p;

	install(own_handler, &was);
	setup(&p, false);
	take_away(&p, PROTECT);
	expect_own_fault(p.mem + p.page);
	assert_int_equal(access_there(&p, IBV_WR_RDMA_WRITE, p.page, SMALL), IBV_WC_REM_ACCESS_ERR);
	expect_own_fault(p.mem + p.page);
	teardown(&p);
	sigaction(SIGSEGV, &was, NULL);
}

/*
 * It was installed after rocemu's handler, calls its predecessor, and rocemu's replaces it at the
 * next registration.
 */
TEST(handler, that_calls_ours__and_is_called_by_ours__comes_to_an_end)
{
	struct sigaction was;
	struct pair p, q;

	install(own_handler, &was);
	setup(&p, false);
	install(chaining_handler, &chained);
	setup(&q, false);
	take_away(&p, PROTECT);
	expect_own_fault(p.mem + p.page);
	assert_int_equal(access_there(&p, IBV_WR_RDMA_WRITE, p.page, SMALL), IBV_WC_REM_ACCESS_ERR);
	teardown(&p);
	teardown(&q);
	sigaction(SIGSEGV, &was, NULL);
}

/* Without a handler of the program's, what its own mistakes end in is what it was. */
static void expect_death(bool by_access)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		struct pair p;

		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		setup(&p, false);
		take_away(&p, PROTECT);
		if (by_access)
			*(volatile uint8_t *)(p.mem + p.page) = 1;
		else
			kill(getpid(), SIGSEGV);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	/* A sanitizer's runtime has a handler, and exits. */
	assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) != 0);
}

TEST(handler, none_of_the_program__its_own_fault_ends_it)
{
	expect_death(true);
	expect_death(false);
}
