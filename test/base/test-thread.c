/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/thread.h"

#include <signal.h>

#include "test.h"

enum { MORE_THAN_THE_STACK = 1 << 20 };

/* As a program may have it. */
static _Thread_local char own[MORE_THAN_THE_STACK];

static void *look(void *arg)
{
	sigset_t mask;

	pthread_getname_np(pthread_self(), arg, 16);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	own[sizeof(own) - 1] = 1;
	return (void *)(uintptr_t)sigismember(&mask, SIGUSR1);
}

static void expect_works(void)
{
	char name[16] = "";
	void *blocked;
	pthread_t id;
	sigset_t mask;

	assert_int_equal(thread_start(&id, "rocemu-test", look, name), 0);
	assert_int_equal(pthread_join(id, &blocked), 0);
	assert_int_equal((uintptr_t)blocked, 1);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	assert_int_equal(sigismember(&mask, SIGUSR1), 0);
}

TEST(thread_start, program_with_much_thread_local_data__starts)
{
	expect_works();
}

/* The size by default is RLIMIT_STACK's: ulimit -s of more than there is memory for. */
TEST(thread_start, stacks_larger_than_memory_by_default__starts)
{
	pthread_attr_t before, attr;
	char name[16];
	pthread_t id;

	pthread_getattr_default_np(&before);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstacksize(&attr, (size_t)1 << 60), 0);
	assert_int_equal(pthread_setattr_default_np(&attr), 0);
	assert_int_not_equal(pthread_create(&id, NULL, look, name), 0);
	expect_works();
	assert_int_equal(pthread_setattr_default_np(&before), 0);
}
