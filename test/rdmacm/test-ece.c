/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests vendors' options (ECE): when they may be set, and what the other side reads. */
#include <errno.h>
#include <string.h>

#include "bench.h"
#include "test.h"

static const struct ibv_ece none;

static void assert_remote(struct rdma_cm_id *id, uint32_t vendor_id, uint32_t options)
{
	struct ibv_ece ece;

	memset(&ece, 0xa5, sizeof(ece));
	assert_int_equal(rdma_get_remote_ece(id, &ece), 0);
	assert_int_equal(ece.vendor_id, vendor_id);
	assert_int_equal(ece.options, options);
	assert_int_equal(ece.comp_mask, 0);
}

static void set_local(struct rdma_cm_id *id, struct ibv_ece ece)
{
	if (ece.vendor_id)
		assert_int_equal(rdma_set_local_ece(id, &ece), 0);
}

static void take_request(struct bench *b)
{
	struct rdma_cm_event *ev = bench_event(b->sch, RDMA_CM_EVENT_CONNECT_REQUEST);

	b->server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
}

/* A connection of QPs that the program would look after; the client has offered something. */
static void connect_with(struct bench *b, const char *addr, struct ibv_ece offer)
{
	struct rdma_conn_param param = {.qp_num = 0x123};

	*b = (struct bench){.cch = bench_channel(), .sch = bench_channel()};
	b->listener = bench_listener(b->sch, addr, RDMA_PS_TCP, 0);
	b->client = bench_client(b->cch, addr, b->listener);
	set_local(b->client, offer);
	assert_remote(b->client, 0, 0);
	assert_int_equal(rdma_connect(b->client, &param), 0);
	take_request(b);
}

static void accept_with(struct bench *b, struct ibv_ece answer)
{
	struct rdma_conn_param param = {.qp_num = 0x456};

	set_local(b->server, answer);
	assert_int_equal(rdma_accept(b->server, &param), 0);
	bench_expect(b->cch, RDMA_CM_EVENT_CONNECT_RESPONSE);
}

static void establish(struct bench *b)
{
	assert_int_equal(rdma_establish(b->client), 0);
	bench_expect(b->sch, RDMA_CM_EVENT_ESTABLISHED);
}

TEST(ece, offered_and_answered__each_side_reads_the_others)
{
	static const char *const addrs[] = {"127.0.0.1", "::1"};
	struct bench b;

	for (unsigned i = 0; i < 2; i++) {
		connect_with(&b, addrs[i],
			     (struct ibv_ece){.vendor_id = 0xa1b2c3, .options = 0xd4e5f607});
		assert_remote(b.server, 0xa1b2c3, 0xd4e5f607);
		/* The options are those of the offer, whatever side answers. */
		accept_with(&b, (struct ibv_ece){.vendor_id = 0x2c9, .options = 0x80000001});
		assert_remote(b.client, 0xa1b2c3, 0x80000001);
		establish(&b);
		assert_remote(b.server, 0xa1b2c3, 0xd4e5f607);
		bench_end(&b);
	}
}

TEST(ece, not_said__zero_on_both_sides)
{
	struct bench b;

	connect_with(&b, "127.0.0.1", none);
	assert_remote(b.server, 0, 0);
	accept_with(&b, none);
	assert_remote(b.client, 0, 0);
	establish(&b);
	bench_end(&b);
}

TEST(ece, offered_and_not_answered__connected_with_none_of_the_options)
{
	struct bench b;

	connect_with(&b, "127.0.0.1", (struct ibv_ece){.vendor_id = 0x2c9, .options = 7});
	accept_with(&b, none);
	assert_remote(b.client, 0x2c9, 0);
	establish(&b);
	bench_end(&b);
}

/* A vendor ID has 24 bits on the wire. */
TEST(ece, vendor_id_too_wide__the_low_24_bits)
{
	struct bench b;

	connect_with(&b, "127.0.0.1", (struct ibv_ece){.vendor_id = 0xff0002c9, .options = 1});
	assert_remote(b.server, 0x2c9, 1);
	bench_end(&b);
}

TEST(ece, not_understood__rejected_with_35)
{
	struct rdma_cm_event *ev;
	struct bench b;

	connect_with(&b, "127.0.0.1", (struct ibv_ece){.vendor_id = 0xa1b2c3, .options = 1});
	assert_int_equal(rdma_reject_ece(b.server, "no", 2), 0);
	assert_errno(rdma_reject_ece(b.server, NULL, 0), EINVAL); /* it is */
	ev = bench_event(b.cch, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(ev->status, 35);
	assert_int_equal(ev->param.conn.private_data_len, 148);
	assert_memory_equal(ev->param.conn.private_data, "no", 2);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_remote(b.client, 0, 0);
	bench_end(&b);
}

/* Emulated devices have no options: with their QPs none are offered, and none are taken. */
TEST(ece, qp_of_the_id__offers_none_and_connects_with_who_offers)
{
	struct rdma_conn_param param = {.qp_num = 0x123};
	struct ibv_ece ece = {.vendor_id = 0x2c9, .options = 1};
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_TCP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	set_local(b.client, ece);
	bench_qp(b.client);
	assert_int_equal(rdma_connect(b.client, NULL), 0);
	take_request(&b);
	assert_remote(b.server, 0, 0);
	assert_int_equal(rdma_accept(b.server, &param), 0);
	bench_expect(b.cch, RDMA_CM_EVENT_ESTABLISHED);
	bench_expect(b.sch, RDMA_CM_EVENT_ESTABLISHED);
	bench_end(&b);

	connect_with(&b, "127.0.0.1", ece);
	set_local(b.server, ece);
	bench_qp(b.server);
	assert_int_equal(rdma_accept(b.server, NULL), 0);
	bench_expect(b.cch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_remote(b.client, 0x2c9, 0);
	establish(&b);
	bench_end(&b);
}

TEST(ece, what_makes_no_sense__refused)
{
	struct rdma_event_channel *ch = bench_channel();
	struct ibv_ece ece = {.vendor_id = 0x2c9, .options = 1};
	struct ibv_ece mask = {.vendor_id = 0x2c9, .comp_mask = 1}, nobody = {.options = 1};
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, bench_addr("127.0.0.1", 0)), 0);
	assert_errno(rdma_set_local_ece(NULL, &ece), EINVAL);
	assert_errno(rdma_set_local_ece(id, NULL), EINVAL);
	assert_errno(rdma_set_local_ece(id, &mask), EINVAL);
	assert_errno(rdma_set_local_ece(id, &nobody), EINVAL);
	assert_int_equal(rdma_set_local_ece(id, &ece), 0);
	assert_errno(rdma_get_remote_ece(NULL, &ece), EINVAL);
	assert_errno(rdma_get_remote_ece(id, NULL), EINVAL);
	assert_errno(rdma_reject_ece(NULL, NULL, 0), EINVAL);
	assert_errno(rdma_reject_ece(id, NULL, 0), EINVAL); /* no request */
	bench_qp(id);
	assert_errno(rdma_set_local_ece(id, &ece), EINVAL);
	assert_errno(rdma_get_remote_ece(id, &ece), EINVAL);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}
