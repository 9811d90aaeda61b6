/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes every allocation fail in turn. A call returns the error; a message for which there is no
 * memory is treated as lost, and a timeout comes again: the exchange ends as it does with memory.
 */
#include <errno.h>
#include <stdlib.h>

#include "net.h"

/* Linked with --wrap=calloc. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

static unsigned countdown; /* the allocation that fails is the countdown-th; 0: none */

void *__wrap_calloc(size_t n, size_t size)
{
	if (countdown > 0 && --countdown == 0)
		return NULL;
	return __real_calloc(n, size);
}

enum { ALLOCATIONS = 12 };

TEST(memory, each_allocation_of_a_connection_fails__ends_as_with_memory)
{
	struct net n;

	for (unsigned i = 1; i <= ALLOCATIONS; i++) {
		net_start(&n, i);
		net_connect(&n, A);
		countdown = i;
		net_run(&n);
		assert_int_equal(cm_disconnect(n.side[A].conn, n.now, NULL, 0), 0);
		net_run(&n);
		assert_int_equal(countdown == 0, i < ALLOCATIONS - 3);
		countdown = 0;
		assert_string_equal(n.side[A].log, "REP; DREP; TIMEWAIT_EXIT");
		assert_string_equal(n.side[B].log, "REQ; RTU; DREQ; TIMEWAIT_EXIT");
		net_finish(&n);
	}
}

TEST(memory, each_allocation_of_a_resolution_fails__ends_as_with_memory)
{
	struct net n;

	for (unsigned i = 1; i <= 4; i++) {
		net_start(&n, i);
		net_sidr(&n, A);
		countdown = i;
		net_run(&n);
		countdown = 0;
		assert_string_equal(n.side[A].log, "SIDR_REP");
		assert_string_equal(n.side[B].log, "SIDR_REQ");
		net_finish(&n);
	}
}

TEST(memory, none_for_a_timeout__said_a_little_later)
{
	struct net n;

	net_start(&n, 1);
	n.cut = true;
	net_connect(&n, A);
	net_sidr(&n, A);
	net_run_until(&n, 1000000000ull * 60);
	for (unsigned i = 0; i < 2; i++) {
		rocemu_ns_t due;

		while (cm_get_stats(n.side[A].cm)->timeouts == i) {
			due = cm_deadline(n.side[A].cm);
			net_run_until(&n, due - 1);
			countdown = 1;
			cm_expire(n.side[A].cm, due);
			n.now = due;
			if (countdown == 0) {
				assert_int_equal(cm_get_stats(n.side[A].cm)->timeouts, i);
				assert_true(cm_deadline(n.side[A].cm) > due);
				net_run_until(&n, due + 1000000);
			}
			countdown = 0;
		}
	}
	net_run(&n);
	assert_string_equal(n.side[A].log, "TIMEOUT SIDR_REQ; TIMEOUT REQ");
	net_finish(&n);
}

TEST(memory, none_for_a_call__enomem)
{
	struct cm_listen_param listen = {.service_id = 1, .any_addr = true};
	struct cm_sidr_param ask = {.timeout = 20};
	struct cm_connect_param connect;
	struct cm_config config = {0};
	struct cm_listener *l;
	struct cm_conn *c;
	struct cm_sidr *s;
	struct net n;

	net_start(&n, 1);
	net_connect_param(&n, A, &connect);
	countdown = 1;
	assert_int_equal(cm_connect(n.side[A].cm, 0, &connect, &c), -ENOMEM);
	countdown = 1;
	assert_int_equal(cm_sidr_request(n.side[A].cm, 0, &ask, &s), -ENOMEM);
	countdown = 1;
	assert_int_equal(cm_listen(n.side[A].cm, &listen, &l), -ENOMEM);
	countdown = 1;
	assert_null(cm_new(&config));
	countdown = 0;
	net_finish(&n);
}
