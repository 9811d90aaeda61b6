/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults on purpose of devices, ports and addresses (ROCEMU_IMPAIR): events, and what goes on all
 * the same. */
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "faulty.h"

TEST(fault_device, fatal_at_a_call__event_flush_and_eio)
{
	struct ibv_context *other;
	struct pair p;

	pair_open(&p, 0, "device-fatal verb=ibv_post_send nth=2");
	setenv("ROCEMU_IMPAIR", "", 1);
	other = p.d.ctx;
	assert_int_equal(pair_write(&p, p.a, 1), 0);
	pair_expect_wc(&p, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair_write(&p, p.a, 2), 0);
	pair_expect_wc(&p, 2, IBV_WC_WR_FLUSH_ERR);
	faulty_expect_event(other, IBV_EVENT_DEVICE_FATAL);
	errno = 0;
	assert_null(ibv_alloc_pd(p.d.ctx));
	assert_int_equal(errno, EIO);
	assert_int_equal(pair_state(p.b), IBV_QPS_ERR);
	unsetenv("ROCEMU_IMPAIR");
	pair_close(&p);
}

TEST(fault_device, fatal__other_contexts_are_told)
{
	struct ibv_context *other;
	struct pair p;

	faulty_set_rules("device-fatal verb=ibv_post_send");
	dev_namespace();
	dev_open(&p.d);
	other = dev_open_named("rocemu_lo");
	unsetenv("ROCEMU_IMPAIR");
	p.a = dev_qp(&p.d, IBV_QPT_RC, 0);
	p.b = dev_qp(&p.d, IBV_QPT_RC, 0);
	dev_connect(p.a, p.b);
	assert_int_equal(pair_write(&p, p.a, 1), 0);
	faulty_expect_event(p.d.ctx, IBV_EVENT_DEVICE_FATAL);
	faulty_expect_event(other, IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(ibv_close_device(other), 0);
	pair_close(&p);
}

TEST(fault_device, fatal_by_time__event)
{
	struct dev d;

	/* Of a process that is older than that. */
	faulty_open(&d, "fail verb=ibv_alloc_dm");
	dev_close(&d);
	faulty_set_rules("device-fatal after=1ms");
	d.ctx = dev_open_named("rocemu_lo");
	unsetenv("ROCEMU_IMPAIR");
	faulty_expect_event(d.ctx, IBV_EVENT_DEVICE_FATAL);
	errno = 0;
	assert_null(ibv_alloc_pd(d.ctx));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_close_device(d.ctx), 0);
}

TEST(fault_device, port_down__events_come_and_traffic_goes_on)
{
	struct ibv_port_attr port;
	struct pair p;

	pair_open(&p, 0, "port-down after=0s for=20ms every=60ms");
	assert_int_equal(pair_write(&p, p.a, 1), 0);
	pair_expect_wc(&p, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < 4; i++) {
		struct ibv_async_event ev;

		assert_int_equal(ibv_get_async_event(p.d.ctx, &ev), 0);
		assert_true(ev.event_type == IBV_EVENT_PORT_ERR ||
			    ev.event_type == IBV_EVENT_PORT_ACTIVE);
		ibv_ack_async_event(&ev);
	}
	assert_int_equal(ibv_query_port(p.d.ctx, 1, &port), 0);
	assert_int_equal(pair_write(&p, p.a, 2), 0);
	pair_expect_wc(&p, 2, IBV_WC_SUCCESS);
	pair_close(&p);
}

TEST(fault_device, gid_remove__table_has_a_hole_and_event)
{
	union ibv_gid gid, zero = {{0}};
	bool gone = false, back = false;
	struct dev d;

	faulty_open(&d, "gid-remove index=0 after=0s for=20ms every=60ms");
	for (int i = 0; i < 1000 && !(gone && back); i++) {
		faulty_expect_event(d.ctx, IBV_EVENT_GID_CHANGE);
		assert_int_equal(ibv_query_gid(d.ctx, 1, 0, &gid), 0);
		if (!memcmp(&gid, &zero, sizeof(gid)))
			gone = true;
		else if (gone)
			back = true;
	}
	assert_true(gone && back);
	dev_close(&d);
}
