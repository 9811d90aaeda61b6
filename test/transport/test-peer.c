/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "transport/peer.h"

static const struct rocemu_gid gid = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}};
static const struct rocemu_gid other = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}};

enum { FULL = 4096 + 512 };

TEST(peer_get, same_lane__same_peer)
{
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct peer *p = peer_get(ep, &gid, 5 << 14 | 1);
	struct peer *q = peer_get(ep, &gid, 5 << 14 | 2);
	struct peer *slot = peer_get(ep, &gid, 6 << 14 | 1);
	struct peer *host = peer_get(ep, &other, 5 << 14 | 1);

	assert_ptr_equal(p, q);
	assert_ptr_not_equal(p, slot);
	assert_ptr_not_equal(p, host);
	assert_int_equal(p->cc.cwnd, CC_START_PACKETS * FULL);
	peer_put(p);
	peer_put(q);
	peer_put(slot);
	peer_put(host);
	assert_int_equal(ep->peers.n, 0);
	rocemu_ep_free(ep);
}

TEST(peer_window, filled__no_room_until_acknowledged)
{
	struct rocemu_ep *ep =
		rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1, .window_bytes = 3 * FULL});
	struct peer *p = peer_get(ep, &gid, 0);

	for (int i = 0; i < 3; i++) {
		assert_true(peer_may_send(p, FULL));
		peer_on_send(p, FULL);
	}
	assert_false(peer_may_send(p, 1));
	peer_on_ack(p, 0, FULL);
	assert_true(peer_may_send(p, FULL));
	peer_on_forget(p, 2 * FULL);
	assert_int_equal(p->inflight, 0);
	peer_put(p);
	rocemu_ep_free(ep);
}

/* Its receiver may be busy: its round trip does not show how much it can take. */
TEST(peer_window, nearby_with_a_long_round_trip__own_limit)
{
	static const struct rocemu_gid here = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 2}};
	struct rocemu_ep *ep =
		rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1, .window_nearby = 200 * FULL});
	struct peer *near = peer_get(ep, &here, 0), *far = peer_get(ep, &gid, 0);

	cc_on_rtt(&near->cc, 10000000);
	cc_on_rtt(&far->cc, 10000000);
	assert_int_equal(cc_max(&near->cc), 200 * FULL);
	assert_true(cc_max(&far->cc) > 200 * FULL);
	peer_put(near);
	peer_put(far);
	rocemu_ep_free(ep);
}

TEST(peer_use_mtu, several__least_window_is_the_largest_ones_packet)
{
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct peer *p = peer_get(ep, &gid, 1);

	peer_use_mtu(p, 1024);
	assert_int_equal(p->cc.unit, 1024 + 512);
	assert_ptr_equal(peer_get(ep, &gid, 2), p);
	peer_use_mtu(p, 2048);
	assert_int_equal(p->cc.unit, 2048 + 512);
	assert_ptr_equal(peer_get(ep, &gid, 3), p);
	peer_use_mtu(p, 256);
	assert_int_equal(p->cc.unit, 2048 + 512);
	for (int i = 0; i < 3; i++)
		peer_put(p);
	rocemu_ep_free(ep);
}

TEST(peer_heard_since, acknowledgement__heard)
{
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct peer *p = peer_get(ep, &gid, 0);

	peer_on_send(p, 2 * FULL);
	assert_false(peer_heard_since(p, 0));
	peer_on_ack(p, 1000, FULL);
	assert_true(peer_heard_since(p, 999));
	assert_false(peer_heard_since(p, 1000));
	peer_on_forget(p, FULL);
	peer_put(p);
	rocemu_ep_free(ep);
}

/* 127.0.0.0/8, ::1 and what is in the GID table: packets there are late because of threads. */
TEST(peer_get, address_of_this_host__lateness_is_not_congestion)
{
	static const struct rocemu_gid near[] = {
		{{[10] = 0xff, [11] = 0xff, 127, 0, 0, 9}},
		{{[15] = 1}},
		{{[10] = 0xff, [11] = 0xff, 10, 0, 0, 3}},
	};
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct peer *far = peer_get(ep, &gid, 0);

	assert_int_equal(rocemu_ep_set_gid(ep, 3, &near[2]), 0);
	for (unsigned i = 0; i < ARRAY_LEN(near); i++) {
		struct peer *p = peer_get(ep, &near[i], 0);
		uint64_t before = p->cc.cwnd;

		peer_on_rtt(p, 0, 20000);
		for (int k = 0; k < 50; k++)
			peer_on_rtt(p, 0, 1000000);
		peer_on_loss(p, 1000000);
		assert_int_equal(p->cc.cwnd, before);
		peer_put(p);
	}
	peer_on_rtt(far, 0, 20000);
	for (int k = 0; k < 50; k++)
		peer_on_rtt(far, 0, 1000000);
	peer_on_loss(far, 1000000);
	assert_true(far->cc.cwnd < CC_START_PACKETS * FULL);
	peer_put(far);
	rocemu_ep_free(ep);
}
