/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests real devices beside emulated ones (test/verbs/fake-nic.c): the connection manager ignores
 * them.
 */
#include "test.h"

#include <rdma/rdma_cma.h>

#include "../verbs/dev.h"
#include "../verbs/fake-nic.h"

TEST(rdmacm_devices, real_ones_listed_beside__ours_only)
{
	struct ibv_device **list;
	struct ibv_context **ctx;
	int n = 0;

	dev_namespace();
	list = ibv_get_device_list(&n);
	assert_non_null(list);
	assert_int_equal(n, 1 + FAKE_DEVICES);
	ctx = rdma_get_devices(&n);
	assert_non_null(ctx);
	assert_int_equal(n, 1);
	assert_ptr_equal(ctx[0]->device, list[0]);
	assert_int_equal(fake_notes(list[1])->opened, 0);
	rdma_free_devices(ctx);
	ibv_free_device_list(list);
}
