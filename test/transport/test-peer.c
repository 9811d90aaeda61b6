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
	assert_int_equal(p->cwnd, EP_DEFAULT_WINDOW);
	peer_put(p);
	peer_put(q);
	peer_put(slot);
	peer_put(host);
	assert_true(list_empty(&ep->peers));
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

TEST(peer_loss, again_and_again__down_to_the_floor)
{
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct peer *p = peer_get(ep, &gid, 0);

	peer_on_loss(p, 0);
	assert_int_equal(p->cwnd, EP_DEFAULT_WINDOW / 2);
	for (int i = 0; i < 20; i++)
		peer_on_loss(p, 0);
	assert_int_equal(p->cwnd, 4 * FULL);
	peer_put(p);
	rocemu_ep_free(ep);
}

TEST(peer_loss, same_round_trip__counts_once)
{
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct peer *p = peer_get(ep, &gid, 0);

	peer_on_send(p, 10 * FULL);
	peer_on_loss(p, 0);
	peer_on_ack(p, 0, 9 * FULL);
	peer_on_loss(p, 0);
	assert_true(p->cwnd >= EP_DEFAULT_WINDOW / 2);
	peer_on_forget(p, FULL);
	peer_on_loss(p, 0);
	assert_true(p->cwnd < EP_DEFAULT_WINDOW / 2);
	peer_put(p);
	rocemu_ep_free(ep);
}

TEST(peer_window, acknowledged_windows__grows_a_packet_each_up_to_the_limit)
{
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct peer *p = peer_get(ep, &gid, 0);
	uint64_t before;

	peer_on_loss(p, 0);
	before = p->cwnd;
	peer_on_send(p, before);
	peer_on_ack(p, 0, before);
	assert_int_equal(p->cwnd, before + FULL);
	for (int i = 0; i < 100; i++) {
		peer_on_send(p, p->cwnd);
		peer_on_ack(p, 0, p->cwnd);
	}
	assert_int_equal(p->cwnd, EP_DEFAULT_WINDOW);
	peer_put(p);
	rocemu_ep_free(ep);
}
