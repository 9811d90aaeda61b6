/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners: which of them a request goes to, and how many requests may wait. */
#include <errno.h>
#include <string.h>

#include "bench.h"

static const struct cm_config small = {
	.ca_guid = BENCH_OWN_GUID, .id_prefix = 9, .max_half_open = 4, .max_lingering = 3};

static struct cm_listener *listen_as(struct bench *b, struct cm_listen_param p)
{
	struct cm_listener *l;

	p.service_id = BENCH_SERVICE;
	assert_int_equal(cm_listen(b->cm, &p, &l), 0);
	return l;
}

/** A REQ of another connection of a host's. */
static enum cm_drop request_from(struct bench *b, unsigned number, const struct rocemu_gid *from)
{
	struct rocemu_cm_msg m;

	bench_message(b, NULL, ROCEMU_CM_REQ, &m);
	m.req.local_comm_id += number;
	m.req.local_qpn += number;
	m.tid += number;
	return bench_in_from(b, &m, from);
}

static enum cm_drop request(struct bench *b, unsigned number)
{
	return request_from(b, number, &bench_peer);
}

TEST(listen, several_match__most_specific_one)
{
	struct cm_listener *any, *ip4, *own, *compares;
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start_config(&b, &small);
	any = listen_as(&b, (struct cm_listen_param){.any_addr = true});
	request(&b, 0);
	bench_events(&b);
	assert_ptr_equal(b.event.listener, any);
	ip4 = listen_as(&b, (struct cm_listen_param){.any_addr = true, .ip_version = 4});
	request(&b, 1);
	bench_events(&b);
	assert_ptr_equal(b.event.listener, ip4);
	own = listen_as(&b, (struct cm_listen_param){.addr = bench_own});
	request(&b, 2);
	bench_events(&b);
	assert_ptr_equal(b.event.listener, own);
	compares = listen_as(&b, (struct cm_listen_param){.addr = bench_own,
							  .compare_len = 1,
							  .compare_offset = 2,
							  .compare_value = {0x70},
							  .compare_mask = {0xf0}});
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.local_comm_id += 3;
	m.req.local_qpn += 3;
	m.req.private_data[2] = 0x7f;
	bench_in(&b, &m);
	bench_events(&b);
	assert_ptr_equal(b.event.listener, compares);
	bench_end(&b);
}

TEST(listen, other_address_or_kind__not_found)
{
	struct bench b;

	bench_start_config(&b, &small);
	listen_as(&b, (struct cm_listen_param){.addr = bench_other});
	listen_as(&b, (struct cm_listen_param){.any_addr = true, .ip_version = 6});
	listen_as(&b, (struct cm_listen_param){.any_addr = true,
					       .compare_len = 1,
					       .compare_value = {1},
					       .compare_mask = {1}});
	assert_int_equal(request(&b, 0), CM_DROP_NO_SERVICE);
	bench_end(&b);
}

TEST(listen, masked_service__all_of_its_range)
{
	struct cm_listen_param p = {
		.service_id = BENCH_SERVICE, .service_mask = ~0xffffull, .any_addr = true};
	struct rocemu_cm_msg m;
	struct cm_listener *l;
	struct bench b;

	bench_start_config(&b, &small);
	assert_int_equal(cm_listen(b.cm, &p, &l), 0);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.service_id ^= 0x1234;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	m.req.service_id ^= 0x10000;
	m.req.local_comm_id++;
	m.req.local_qpn++;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NO_SERVICE);
	bench_end(&b);
}

TEST(listen, same_again__eaddrinuse)
{
	struct cm_listen_param p = {.service_id = BENCH_SERVICE, .any_addr = true};
	struct cm_listener *l;
	struct bench b;

	bench_start(&b);
	assert_int_equal(cm_listen(b.cm, &p, &l), -EADDRINUSE);
	p.ip_version = 6;
	assert_int_equal(cm_listen(b.cm, &p, &l), 0);
	assert_int_equal(cm_listen(b.cm, &p, &l), -EADDRINUSE);
	p.ip_version = 5;
	assert_int_equal(cm_listen(b.cm, &p, &l), -EINVAL);
	p.any_addr = false;
	p.addr = bench_own;
	assert_int_equal(cm_listen(b.cm, &p, &l), 0);
	assert_int_equal(cm_listen(b.cm, &p, &l), -EADDRINUSE);
	p.compare_len = 1;
	p.compare_mask[0] = 0xff;
	assert_int_equal(cm_listen(b.cm, &p, &l), 0);
	assert_int_equal(cm_listen(b.cm, &p, &l), -EADDRINUSE);
	p.compare_value[0] = 1;
	assert_int_equal(cm_listen(b.cm, &p, &l), 0);
	p.compare_mask[0] = 0x0f;
	assert_int_equal(cm_listen(b.cm, &p, &l), 0);
	p.compare_value[0] = 0xf1; /* the same where it counts */
	assert_int_equal(cm_listen(b.cm, &p, &l), -EADDRINUSE);
	p.compare_len = CM_COMPARE_MAX + 1;
	assert_int_equal(cm_listen(b.cm, &p, &l), -EINVAL);
	bench_end(&b);
}

TEST(unlisten, requests_nobody_saw__rejected_and_the_others_live_on)
{
	struct cm_conn *seen;
	struct bench b;

	bench_start(&b);
	request(&b, 0);
	bench_events(&b);
	seen = b.event.conn;
	request(&b, 1);
	cm_unlisten(b.listener, b.now);
	assert_string_equal(bench_sends(&b), "REJ 28");
	assert_string_equal(bench_events(&b), "-");
	assert_int_equal(cm_conn_state(seen), CM_REQ_RCVD);
	assert_null(cm_conn_listener(seen));
	assert_int_equal(cm_reject(seen, b.now, ROCEMU_CM_REJ_CONSUMER, NULL, 0, NULL, 0), 0);
	assert_int_equal(request(&b, 2), CM_DROP_NO_SERVICE);
	bench_end(&b);
}

/** Another event of a connection that was seen is not its REQ. */
TEST(unlisten, other_events_wait__their_connections_live_on)
{
	struct rocemu_cm_msg m;
	struct cm_conn *seen;
	struct bench b;

	bench_start(&b);
	request(&b, 0);
	bench_events(&b);
	seen = b.event.conn;
	bench_message(&b, seen, ROCEMU_CM_REJ, &m);
	bench_in(&b, &m);
	request(&b, 1);
	cm_unlisten(b.listener, b.now);
	assert_string_equal(bench_events(&b), "REJ");
	assert_ptr_equal(b.event.conn, seen);
	bench_end(&b);
}

/* ---- floods ---- */

TEST(backlog, full__rej_3_until_one_is_decided)
{
	struct bench b;

	bench_start_config(&b, &small);
	listen_as(&b, (struct cm_listen_param){.any_addr = true, .backlog = 2});
	assert_int_equal(request(&b, 0), CM_DROP_NONE);
	assert_int_equal(request(&b, 1), CM_DROP_NONE);
	assert_int_equal(request(&b, 2), CM_DROP_NO_RESOURCES);
	assert_string_equal(bench_sends(&b), "REJ 3");
	assert_string_equal(bench_events(&b), "REQ REQ");
	assert_int_equal(cm_reject(b.event.conn, b.now, ROCEMU_CM_REJ_NO_QP, NULL, 0, NULL, 0), 0);
	assert_int_equal(request(&b, 2), CM_DROP_NONE);
	bench_end(&b);
}

TEST(backlog, seen_by_the_program__does_not_count)
{
	struct bench b;

	bench_start_config(&b, &small);
	listen_as(&b, (struct cm_listen_param){.any_addr = true, .backlog = 1});
	request(&b, 0);
	bench_events(&b);
	cm_conn_seen(b.event.conn);
	assert_int_equal(cm_get_stats(b.cm)->half_open, 0);
	bench_says(&b, NULL, ROCEMU_CM_SIDR_REQ);
	bench_events(&b);
	assert_int_equal(request(&b, 1), CM_DROP_NO_RESOURCES);
	cm_sidr_seen(b.event.sidr);
	assert_int_equal(request(&b, 1), CM_DROP_NONE);
	/* Deciding on one that was seen counts nothing down. */
	cm_sidr_destroy(b.event.sidr, b.now);
	assert_int_equal(cm_get_stats(b.cm)->half_open, 1);
	bench_end(&b);
}

TEST(flood, of_all_listeners__bounded)
{
	const unsigned reqs = 1000;
	unsigned taken = 0, sent = 0;
	struct cm_mad mad;
	struct bench b;

	bench_start_config(&b, &small);
	listen_as(&b, (struct cm_listen_param){.any_addr = true, .backlog = reqs});
	for (unsigned i = 0; i < reqs; i++)
		taken += request(&b, i) == CM_DROP_NONE;
	assert_int_equal(taken, small.max_half_open);
	assert_int_equal(cm_get_stats(b.cm)->conns, taken);
	/* Answers wait in a ring: more than it has room for are left out, not piled up. */
	while (cm_output(b.cm, b.now, &mad, 1))
		sent++;
	assert_in_range(sent, 1, 100);
	assert_int_equal(cm_get_stats(b.cm)->unsent, reqs - taken - sent);
	bench_end(&b);
}

TEST(flood, of_rejected_ones__oldest_forgotten)
{
	struct bench b;

	bench_start_config(&b, &small);
	listen_as(&b, (struct cm_listen_param){.any_addr = true});
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(request(&b, i), CM_DROP_NONE);
		bench_events(&b);
		cm_conn_destroy(b.event.conn, b.now);
		assert_string_equal(bench_sends(&b), "REJ 28");
		assert_true(cm_get_stats(b.cm)->conns <= 3);
	}
	assert_int_equal(cm_get_stats(b.cm)->evicted, 7);
	/* The newest are kept. */
	assert_int_equal(request(&b, 9), CM_DROP_DUPLICATE);
	assert_string_equal(bench_sends(&b), "REJ 28");
	bench_end(&b);
}

static void drain(struct bench *b)
{
	struct cm_mad mad;

	while (cm_output(b->cm, b->now, &mad, 1))
		;
}

/**
 * A host that floods has its share; another one's request is taken, and a third one repeats its
 * own.
 */
TEST(flood, of_one_host__room_for_another)
{
	static const struct rocemu_gid third = {{[10] = 0xff, 0xff, 10, 0, 0, 44}};
	unsigned taken = 0, others = 0;
	struct bench b;

	bench_start_config(&b, &small);
	listen_as(&b, (struct cm_listen_param){.any_addr = true, .backlog = 100});
	for (unsigned i = 0; i < 1000; i++)
		taken += request(&b, i) == CM_DROP_NONE;
	assert_int_equal(taken, small.max_half_open);
	for (unsigned i = 0; i < 20; i++)
		others += request_from(&b, i, &bench_other) == CM_DROP_NONE;
	assert_in_range(others, 1, small.max_half_open - 1);
	assert_int_equal(request_from(&b, 1, &third), CM_DROP_NONE);
	drain(&b);
	/* A REJ for those that have some waiting already. */
	assert_int_equal(request(&b, 1001), CM_DROP_NO_RESOURCES);
	assert_string_equal(bench_sends(&b), "REJ 3");
	bench_end(&b);
}

TEST(flood, of_all_that_there_is__another_one_hears_nothing_and_asks_again)
{
	static const struct cm_config one = {.id_prefix = 9, .max_half_open = 1};
	static const struct rocemu_gid third = {{[10] = 0xff, 0xff, 10, 0, 0, 44}};
	struct bench b;

	bench_start_config(&b, &one);
	listen_as(&b, (struct cm_listen_param){.any_addr = true, .backlog = 100});
	assert_int_equal(request(&b, 0), CM_DROP_NONE);
	assert_int_equal(request_from(&b, 0, &bench_other), CM_DROP_NONE);
	assert_int_equal(request_from(&b, 0, &third), CM_DROP_NO_RESOURCES);
	assert_string_equal(bench_sends(&b), "-");
	bench_events(&b);
	cm_conn_seen(b.event.conn);
	assert_int_equal(request_from(&b, 0, &third), CM_DROP_NONE);
	bench_end(&b);
}

/** Answers kept for another host are not dropped because of one that floods. */
TEST(flood, of_rejected_ones_of_one_host__those_of_another_remembered)
{
	struct bench b;

	bench_start_config(&b, &small);
	listen_as(&b, (struct cm_listen_param){.any_addr = true});
	assert_int_equal(request_from(&b, 0, &bench_other), CM_DROP_NONE);
	bench_events(&b);
	cm_conn_destroy(b.event.conn, b.now);
	for (unsigned i = 0; i < 10; i++) {
		request(&b, i);
		bench_events(&b);
		cm_conn_destroy(b.event.conn, b.now);
		bench_sends(&b);
	}
	assert_int_equal(cm_get_stats(b.cm)->evicted, 8);
	assert_int_equal(request_from(&b, 0, &bench_other), CM_DROP_DUPLICATE);
	assert_string_equal(bench_sends(&b), "REJ 28");
	bench_end(&b);
}
