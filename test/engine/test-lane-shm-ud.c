/* SPDX-License-Identifier: BSD-2-Clause */
/* What comes by a ring after what came by UDP; and datagrams, which no window limits. */
#include "node.h"

#include <stdlib.h>
#include <string.h>

#include "engine/lane-shm.h"
#include "test.h"

static void use_shm(void)
{
	assert_int_equal(setenv("ROCEMU_WIRE", "shm", 1), 0);
}

static bool has_offered(struct node *n)
{
	return n->lane->shm->nopen == 1;
}

static bool has_used_ring(struct node *n)
{
	return n->lane->stats->tx_rings >= 1;
}

static void only_drain(struct loop_io *io)
{
	lane_shm_woken(io->data);
}

/* A lane's thread that is slow to look at its sockets: the test is in its place. */
TEST(lane_shm, sent_by_udp_before_the_ring__taken_before)
{
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;
	struct node a, b;

	use_shm();
	node_open_pair(&a, &b, "127.0.0.2", "127.0.0.3");
	node_recv(&b, 0, 64);
	node_recv(&b, 0, 64);
	lane_lock(b.lane);
	node_send(&a, 0, 64, true);
	node_until(has_offered, &a);
	while (!b.lane->shm->nrx && lane_now() < end) {
		lane_rx_forwarded(b.lane, lane_now());
		lane_shm_take_offer(b.lane, only_drain);
	}
	node_send(&a, 0, 64, true);
	/* Where the machine is slow, the first has had probes, and the second waits for the next.
	 */
	node_until(has_used_ring, &a);
	assert_int_equal(b.lane->stats->rx_datagrams, 0);
	lane_rx_hot(b.lane, lane_now());
	assert_true(b.lane->stats->rx_datagrams >= 2);
	assert_int_equal(rocemu_ep_get_stats(lane_ep(b.lane))->kept, 0);
	lane_unlock(b.lane);
	node_poll(&b);
	node_poll(&b); /* its thread does not look at this ring */
	node_close_pair(&a, &b);
}

enum { LOOKS = 100 };
enum { QKEY = 0x1234, GRH = 40, DGRAM = 2048, DGRAMS = 400 /* more than a ring holds */ };

/* Some of the memory, to a QP or to all members of a group. */
static void post_dgram(struct node *from, const struct rocemu_gid *to, uint32_t qpn,
		       uint32_t offset, uint32_t len) REQUIRES(from->lane);
static void post_dgram(struct node *from, const struct rocemu_gid *to, uint32_t qpn,
		       uint32_t offset, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)from->mem + offset, .length = len};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	struct rocemu_path path;

	memcpy(ah.grh.dgid.raw, to->raw, 16);
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	sge.lkey = rocemu_mr_lkey(from->mr);
	assert_int_equal(rocemu_path_resolve(lane_ep(from->lane), &ah, &path), 0);
	assert_int_equal(rocemu_qp_post_send(from->qp, lane_now(), &wr, &path), 0);
}

static void send_part(struct node *from, const struct node *to, uint32_t offset, uint32_t len)
{
	lane_lock(from->lane);
	post_dgram(from, &to->gid, rocemu_qp_num(to->qp), offset, len);
	lane_kick(from->lane);
	lane_unlock(from->lane);
}

static void send_dgram(struct node *from, const struct node *to)
{
	send_part(from, to, 0, DGRAM);
}

/* More than is usually taken from a socket at a time; each is sent by a call of its own. */
TEST(lane_shm, many_datagrams_sent_by_udp_before_the_ring__taken_before)
{
	enum { BY_UDP = 350, ALL = BY_UDP + 10, LEN = 64, ROOM = 128 };
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;
	struct node a, b;

	use_shm();
	node_open_ud(&a, "127.0.0.2", QKEY);
	node_open_ud(&b, "127.0.0.3", QKEY);
	for (uint32_t i = 0; i < ALL; i++) {
		memcpy(a.mem + (size_t)i * LEN, &i, sizeof(i));
		node_recv(&b, i * ROOM, GRH + LEN);
	}
	lane_lock(b.lane);
	for (uint32_t i = 0; i < BY_UDP; i++)
		send_part(&a, &b, i * LEN, LEN);
	node_until(has_offered, &a);
	while (!b.lane->shm->nrx && lane_now() < end) {
		lane_rx_forwarded(b.lane, lane_now());
		lane_shm_take_offer(b.lane, only_drain);
	}
	for (uint32_t i = BY_UDP; i < ALL; i++)
		send_part(&a, &b, i * LEN, LEN);
	node_until(has_used_ring, &a);
	lane_rx_hot(b.lane, lane_now());
	lane_unlock(b.lane);
	for (uint32_t i = 0; i < ALL; i++) {
		node_poll(&b);
		assert_memory_equal(b.mem + (size_t)i * ROOM + GRH, &i, sizeof(i));
	}
	node_close_pair(&a, &b);
}

static bool has_attached(struct node *n)
{
	struct lane_shm *s = n->lane->shm;

	return s->nopen == 1 && s->open[0]->state == SHM_TX_OFFERED &&
	       shm_ring_is_attached(&s->open[0]->ring);
}

/* A datagram to a group is by UDP, where nothing limits the sender: a ring's length still does. */
TEST(lane_shm, first_datagrams_by_a_ring_after_one_by_udp__wait_for_room)
{
	static const struct rocemu_gid group = {{[10] = 0xff, [11] = 0xff, [12] = 239, [15] = 1}};
	struct node a, b;

	use_shm();
	node_open_ud(&a, "127.0.0.2", QKEY);
	node_open_ud(&b, "127.0.0.3", QKEY);
	for (unsigned i = 0; i < 1 + DGRAMS; i++)
		node_recv(&b, 0, GRH + DGRAM);
	send_dgram(&a, &b);
	node_poll(&b);
	node_until(has_attached, &a);
	lane_lock(b.lane);
	lane_lock(a.lane);
	post_dgram(&a, &group, ROCEMU_MCAST_QPN, 0, DGRAM);
	lane_kick(a.lane);
	for (unsigned i = 0; i < DGRAMS; i++)
		post_dgram(&a, &b.gid, rocemu_qp_num(b.qp), 0, DGRAM);
	lane_kick(a.lane);
	lane_unlock(a.lane);
	assert_int_equal(node_stats(&a).tx_errors, 0);
	lane_unlock(b.lane);
	for (unsigned i = 0; i < DGRAMS; i++) {
		lane_poll(a.lane);
		node_poll(&b);
	}
	assert_int_equal(node_stats(&a).tx_errors, 0);
	assert_int_equal(node_stats(&a).tx_rings, DGRAMS);
	node_close_pair(&a, &b);
}

TEST(lane_shm, datagrams_to_a_receiver_that_stands_still__wait_for_room)
{
	uint64_t by_udp, sent;
	struct node a, b;

	use_shm();
	node_open_ud(&a, "127.0.0.2", QKEY);
	node_open_ud(&b, "127.0.0.3", QKEY);
	while (!node_stats(&a).tx_rings) {
		node_recv(&b, 0, GRH + DGRAM);
		send_dgram(&a, &b);
		node_poll(&b);
	}
	by_udp = node_stats(&b).rx_datagrams - node_stats(&b).rx_rings;
	for (unsigned i = 0; i < DGRAMS; i++)
		node_recv(&b, 0, GRH + DGRAM);
	lane_lock(b.lane);
	for (unsigned i = 0; i < DGRAMS; i++)
		send_dgram(&a, &b);
	sent = node_stats(&a).tx_rings;
	assert_true(sent > DGRAMS / 4 && sent < DGRAMS);
	lane_unlock(b.lane);
	for (unsigned i = 0; i < DGRAMS; i++) {
		lane_poll(a.lane);
		node_poll(&b);
	}
	assert_int_equal(node_stats(&a).tx_errors, 0);
	assert_int_equal(node_stats(&b).rx_datagrams - node_stats(&b).rx_rings, by_udp);
	node_close_pair(&a, &b);
}

/* A ring from a to b, full; both lanes are locked then. */
static struct shm_tx *fill_ring(struct node *a, struct node *b) ACQUIRE(a->lane, b->lane);
static struct shm_tx *fill_ring(struct node *a, struct node *b)
{
	struct shm_tx *t;

	use_shm();
	node_open_ud(a, "127.0.0.2", QKEY);
	node_open_ud(b, "127.0.0.3", QKEY);
	while (!node_stats(a).tx_rings) {
		node_recv(b, 0, GRH + DGRAM);
		send_dgram(a, b);
		node_poll(b);
	}
	lane_lock(b->lane);
	lane_lock(a->lane);
	t = a->lane->shm->open[0];
	while (shm_ring_reserve(&t->ring, DGRAM))
		shm_ring_commit(&t->ring, (struct shm_record){.len = DGRAM});
	t->used = t->taken_at = lane_now();
	t->taken = t->ring.other;
	return t;
}

TEST(lane_shm, datagrams_to_a_receiver_that_stopped__others_do_not_wait_for_it)
{
	struct node a, b;
	struct shm_tx *t = fill_ring(&a, &b);
	rocemu_ns_t now = t->used;

	assert_int_equal(lane_shm_room(a.lane, now), 0);
	assert_true(lane_shm_room(a.lane, now + SHM_STILL_NS / 2) > 0); /* not used */
	now = t->used = now + SHM_STILL_NS;
	assert_int_equal(lane_shm_room(a.lane, now), 0);
	now = t->used = now + 1;
	assert_true(lane_shm_room(a.lane, now) == UINT64_MAX);
	lane_unlock(a.lane);
	lane_unlock(b.lane);
	node_close_pair(&a, &b);
}

/* How often in two seconds, with a look each 10 ms, do UC and UD have to wait? */
static unsigned waits(struct node *n, struct shm_tx *t,
		      uint32_t (*tail)(const struct shm_tx *t, unsigned i)) REQUIRES(n->lane);
static unsigned waits(struct node *n, struct shm_tx *t,
		      uint32_t (*tail)(const struct shm_tx *t, unsigned i))
{
	const uint32_t was = t->ring.other;
	rocemu_ns_t now = t->used;
	unsigned waited = 0;

	for (unsigned i = 0; i < 2 * LOOKS; i++) {
		now += SHM_STILL_NS / LOOKS;
		t->used = now;
		atomic_store(&t->ring.shared->tail, tail(t, i));
		waited += !lane_shm_room(n->lane, now);
	}
	t->ring.other = t->taken = was;
	t->used = t->taken_at = now;
	return waited;
}

static uint32_t takes_a_little(const struct shm_tx *t, unsigned i)
{
	return t->ring.pos - SHM_RING_DATA + i * SHM_RING_ALIGN;
}

static uint32_t goes_back_and_forth(const struct shm_tx *t, unsigned i)
{
	return t->ring.pos - SHM_RING_DATA + i % 2 * (128 << 10);
}

static uint32_t goes_anywhere(const struct shm_tx *t, unsigned i)
{
	return t->ring.pos - 2654435761u * (i + 1) % (UINT32_MAX - SHM_RING_DATA) - SHM_RING_DATA;
}

TEST(lane_shm, datagrams_to_a_receiver_that_feigns_progress__others_wait_a_second_at_most)
{
	struct node a, b;
	struct shm_tx *t = fill_ring(&a, &b);

	assert_in_range(waits(&a, t, takes_a_little), 1, LOOKS + 1);
	assert_in_range(waits(&a, t, goes_back_and_forth), 1, LOOKS + 2);
	assert_in_range(waits(&a, t, goes_anywhere), 1, LOOKS + 1);
	lane_unlock(a.lane);
	lane_unlock(b.lane);
	node_close_pair(&a, &b);
}
