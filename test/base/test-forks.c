/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/mutex.h"

static char calls[16];

static void note(char c)
{
	const size_t n = strlen(calls);

	assert_true(n + 1 < sizeof(calls));
	calls[n] = c;
	calls[n + 1] = '\0';
}

#define HANDLERS(name, p, q, c)          \
	static void name##_prepare(void) \
	{                                \
		note(p);                 \
	}                                \
	static void name##_parent(void)  \
	{                                \
		note(q);                 \
	}                                \
	static void name##_child(void)   \
	{                                \
		note(c);                 \
	}                                \
	static const struct fork_handlers name = {name##_prepare, name##_parent, name##_child};

HANDLERS(first, '1', 'p', 'x')
HANDLERS(second, '2', 'q', 'y')
HANDLERS(third, '3', 'r', 'z')

TEST(forks, handlers_added_in_any_order__called_in_that_of_locks)
{
	int status;
	pid_t child;

	forks_add(FORK_TAP, &third);
	forks_add(FORK_SOCKETS, &first);
	forks_add(FORK_NETMON, &second);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(strcmp(calls, "123zyx") != 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_string_equal(calls, "123rqp");
}

static int state(void)
{
	const int now = cancel_disable();

	cancel_restore(now);
	return now;
}

TEST(mutex, locks_that_nest__no_cancellation_until_the_last_is_free)
{
	struct mutex a = MUTEX_INITIALIZER, b = MUTEX_INITIALIZER;

	mutex_lock(&a);
	assert_int_equal(state(), PTHREAD_CANCEL_DISABLE);
	assert_true(mutex_trylock(&b));
	assert_false(mutex_trylock(&b));
	mutex_unlock(&b);
	assert_int_equal(state(), PTHREAD_CANCEL_DISABLE);
	mutex_unlock(&a);
	assert_int_equal(state(), PTHREAD_CANCEL_ENABLE);
	{
		UNCANCELLED;

		assert_int_equal(state(), PTHREAD_CANCEL_DISABLE);
	}
	assert_int_equal(state(), PTHREAD_CANCEL_ENABLE);
}
