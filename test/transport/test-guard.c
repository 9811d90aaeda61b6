/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <rocemu/endpoint.h>

#include "transport/guard.h"

static sigjmp_buf elsewhere;

/* As the engine's, with a way out for what rocemu_memory_fault() leaves to it. */
static void handler(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *interrupted = context;

	(void)sig;
	sigprocmask(SIG_SETMASK, &interrupted->uc_sigmask, NULL);
	rocemu_memory_fault(info->si_addr);
	siglongjmp(elsewhere, 1);
}

struct fixture {
	struct sigaction was;
	size_t page;
	uint8_t *mem; /* two pages, the second without rights */
};

static void setup(struct fixture *f)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER};

	f->page = (size_t)sysconf(_SC_PAGESIZE);
	f->mem =
		mmap(NULL, 2 * f->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(f->mem != MAP_FAILED);
	assert_int_equal(mprotect(f->mem + f->page, f->page, PROT_NONE), 0);
	assert_int_equal(sigaction(SIGSEGV, &action, &f->was), 0);
}

static void teardown(struct fixture *f)
{
	sigaction(SIGSEGV, &f->was, NULL);
	munmap(f->mem, 2 * f->page);
}

TEST(guard_store, memory_there__copied)
{
	uint8_t mine[8];
	struct fixture f;

	setup(&f);
	assert_true(guard_store(f.mem, "abcdefgh", 8));
	assert_memory_equal(f.mem, "abcdefgh", 8);
	assert_true(guard_load(mine, f.mem, 8));
	assert_memory_equal(mine, "abcdefgh", 8);
	assert_true(guard_store(f.mem + f.page, f.mem, 0));
	teardown(&f);
}

TEST(guard_store, not_there__false_each_time)
{
	uint8_t mine[64] = {0};
	struct fixture f;

	setup(&f);
	for (unsigned i = 0; i < 3; i++) {
		assert_false(guard_store(f.mem + f.page, mine, sizeof(mine)));
		assert_false(guard_load(mine, f.mem + f.page - 10, sizeof(mine)));
		assert_true(guard_store(f.mem, mine, sizeof(mine)));
	}
	teardown(&f);
}

static void store(void *arg)
{
	*(volatile uint8_t *)arg = 1;
}

TEST(guard_run, fault_in_the_memory_meant__false)
{
	struct fixture f;
	struct iovec iov[2];

	setup(&f);
	iov[0] = (struct iovec){f.mem, 64};
	iov[1] = (struct iovec){f.mem + f.page, 64};
	assert_false(guard_run(store, f.mem + f.page, iov, 2));
	assert_true(guard_run(store, f.mem, iov, 2));
	teardown(&f);
}

/*
 * A fault in rocemu's own code, or in a signal handler of the program that interrupts a copy, is
 * not caught.
 */
TEST(guard_run, fault_elsewhere__left_to_the_handler)
{
	volatile bool left = false;
	struct fixture f;
	struct iovec iov;

	setup(&f);
	iov = (struct iovec){f.mem, 64};
	if (sigsetjmp(elsewhere, 1) == 0)
		guard_run(store, f.mem + f.page, &iov, 1);
	else
		left = true;
	assert_true(left);
	teardown(&f);
}

TEST(memory_fault, in_no_access__returns)
{
	uint8_t mine[8];

	assert_true(guard_store(mine, "abcdefgh", 8));
	rocemu_memory_fault(mine);
}

/* What is sent in place of a payload that is gone is zeros, not what the copy had before. */
TEST(ep_flatten, payload_that_is_not_there__false_and_zeros)
{
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	uint8_t to[32];
	struct fixture f;
	struct rocemu_tx t = {.payload_len = 16};

	setup(&f);
	memset(to, 0x5a, sizeof(to));
	t.iov[0] = (struct iovec){.iov_base = f.mem + f.page - 8, .iov_len = 16};
	t.iov[1] = (struct iovec){.iov_base = f.mem, .iov_len = 0};
	t.niov = 2;
	assert_false(rocemu_ep_flatten(ep, &t, to));
	assert_int_equal(t.niov, 1);
	assert_ptr_equal(t.iov[0].iov_base, to);
	assert_int_equal(t.iov[0].iov_len, 16);
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(to[i], i < 16 ? 0 : 0x5a);
	t.iov[0] = (struct iovec){.iov_base = f.mem + f.page, .iov_len = 16};
	t.trailer_len = ROCEMU_ICRC_LEN;
	t.path = &(const struct rocemu_path){.sport = 1};
	assert_false(rocemu_ep_seal(ep, &t, 0));
	teardown(&f);
	rocemu_ep_free(ep);
}
