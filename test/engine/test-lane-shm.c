/* SPDX-License-Identifier: BSD-2-Clause */
/* Lanes that send by rings in shared memory, and when they do not. Both are of one process here. */
#include "node.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "engine/lane-shm.h"
#include "test.h"

static void wire(const char *name)
{
	assert_int_equal(setenv("ROCEMU_WIRE", name, 1), 0);
}

static void open_pair(struct node *a, struct node *b)
{
	wire("shm");
	node_open_pair(a, b, "127.0.0.2", "127.0.0.3");
}

/* Exchange messages until packets go by rings both ways. */
static void use_rings(struct node *a, struct node *b)
{
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;
	const uint64_t from_a = node_stats(a).tx_rings, from_b = node_stats(b).tx_rings;

	while (node_stats(a).tx_rings == from_a || node_stats(b).tx_rings == from_b) {
		node_ping_pong(a, b, 1, 100);
		if (lane_now() > end)
			fail_msg("no packet went by a ring");
	}
}

static bool holds(bool (*condition)(struct node *n), struct node *n)
{
	bool is;

	lane_lock(n->lane);
	is = condition(n);
	lane_unlock(n->lane);
	return is;
}

/* Until a condition that the lane's thread brings about. */
static void until(bool (*condition)(struct node *n), struct node *n)
{
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;

	while (!holds(condition, n))
		if (lane_now() > end)
			fail_msg("it does not come");
}

static bool has_no_ring_in(struct node *n)
{
	return n->lane->shm->nrx == 0;
}

static bool has_no_ring_out(struct node *n)
{
	return n->lane->shm->nopen == 0;
}

static bool has_offered(struct node *n)
{
	return n->lane->shm->nopen == 1;
}

static bool has_used_ring(struct node *n)
{
	return n->lane->stats->tx_rings >= 1;
}

static bool sleeps(struct node *n)
{
	return n->lane->progress.mode == PROGRESS_ARMED && n->lane->shm->nrx &&
	       atomic_load(&n->lane->shm->rx[0]->ring.shared->sleeping);
}

TEST(lane_shm, same_user_and_host__no_packet_by_sockets)
{
	struct lane_stats before, after;
	struct node a, b;

	open_pair(&a, &b);
	use_rings(&a, &b);
	before = node_stats(&a);
	node_ping_pong(&a, &b, 500, 64);
	node_write(&a, &b, 0, NODE_MEM, true);
	node_poll(&a);
	after = node_stats(&a);
	assert_int_equal(after.tx_syscalls, before.tx_syscalls);
	assert_int_equal(after.tx_datagrams - before.tx_datagrams,
			 after.tx_rings - before.tx_rings);
	assert_int_equal(after.rx_datagrams - before.rx_datagrams,
			 after.rx_rings - before.rx_rings);
	assert_int_equal(after.tx_errors, 0);
	node_close_pair(&a, &b);
}

TEST(lane_shm, written_by_ring__same_bytes)
{
	struct node a, b;

	open_pair(&a, &b);
	use_rings(&a, &b);
	for (unsigned i = 0; i < NODE_MEM; i++)
		a.mem[i] = (uint8_t)(i * 7 + (i >> 10));
	node_write(&a, &b, 0, NODE_MEM, true);
	node_poll(&a);
	assert_memory_equal(a.mem, b.mem, NODE_MEM);
	node_close_pair(&a, &b);
}

TEST(lane_shm, receiver_sleeps__woken)
{
	struct node a, b;

	open_pair(&a, &b);
	use_rings(&a, &b);
	for (unsigned i = 0; i < 100; i++) {
		node_recv(&b, 0, 64);
		until(sleeps, &b);
		node_send(&a, 0, 64, true);
		node_wait(&b);
		node_wait(&a);
	}
	assert_true(node_stats(&b).rx_rings >= 100);
	node_close_pair(&a, &b);
}

TEST(lane_shm, to_itself__by_a_ring)
{
	struct node a;

	wire("shm");
	node_open(&a, "127.0.0.2");
	node_connect(&a, &a);
	while (!node_stats(&a).rx_rings) {
		node_write(&a, &a, 0, 100, true);
		node_poll(&a);
	}
	node_close(&a);
}

TEST(lane_shm, peer_without_rings__by_udp)
{
	struct node a, b;

	wire("shm");
	node_open(&a, "127.0.0.2");
	wire("udp");
	node_open(&b, "127.0.0.3");
	node_connect(&a, &b);
	node_ping_pong(&a, &b, 10, 64);
	/* The offer was refused. */
	until(has_no_ring_out, &a);
	node_ping_pong(&a, &b, 100, 64);
	assert_int_equal(node_stats(&a).tx_rings, 0);
	node_close_pair(&a, &b);
}

TEST(lane_shm, unknown_wire__refused)
{
	struct lane_config config = {.device = "dev"};
	char err[512] = "";
	struct lane *l;

	wire("tcp");
	assert_int_equal(lane_new(&l, &config, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "ROCEMU_WIRE=tcp: expected \"udp\" or \"shm\"");
}

TEST(lane_shm, peer_closed__ring_ends_and_the_next_peer_is_reached)
{
	struct node a, b;

	open_pair(&a, &b);
	use_rings(&a, &b);
	node_close(&b);
	until(has_no_ring_out, &a);
	until(has_no_ring_in, &a);
	node_close(&a);
	open_pair(&a, &b);
	node_ping_pong(&a, &b, 10, 64);
	node_close_pair(&a, &b);
}

TEST(lane_shm, ring_breaks_the_rules__by_udp_instead)
{
	struct node a, b;

	open_pair(&a, &b);
	use_rings(&a, &b);
	/* As if the sender had written nonsense: its position is beyond the ring. */
	lane_lock(a.lane);
	atomic_store(&a.lane->shm->open[0]->ring.shared->head,
		     a.lane->shm->open[0]->ring.pos + SHM_RING_DATA + SHM_RING_ALIGN);
	lane_unlock(a.lane);
	lane_poll(b.lane);
	until(has_no_ring_in, &b);
	until(has_no_ring_out, &a);
	node_ping_pong(&a, &b, 100, 64);
	node_close_pair(&a, &b);
}

TEST(lane_shm, address_gone__ring_ends)
{
	struct node a, b;

	open_pair(&a, &b);
	use_rings(&a, &b);
	lane_set_gid(b.lane, 0, NULL);
	until(has_no_ring_in, &b);
	until(has_no_ring_out, &a);
	node_close_pair(&a, &b);
}

static bool has_brief_polls(struct node *n)
{
	return n->lane->brief_polls > 1;
}

TEST(lane_shm, forked__child_has_no_part_in_it)
{
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;
	struct node a, b;
	int status;
	pid_t pid;

	open_pair(&a, &b);
	use_rings(&a, &b);
	/* The next polls are to be brief ones: they look at rings first. */
	do {
		assert_true(lane_now() < end);
		lane_poll(a.lane);
	} while (!holds(has_brief_polls, &a));
	pid = fork();
	if (pid == 0) {
		for (unsigned i = 0; i < 100; i++)
			lane_poll(a.lane);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	node_ping_pong(&a, &b, 100, 64);
	assert_true(holds(has_offered, &a));
	node_close_pair(&a, &b);
}

struct cycler {
	struct node *a, *b;
	atomic_bool stop;
	atomic_uint rings; /* that ended */
};

/* As by an address that goes and comes: rings end, and the next are offered at once. */
static void end_rings(struct cycler *c, struct node *n)
{
	lane_lock(n->lane);
	for (unsigned i = 0; i < SHM_SLOTS; i++)
		if (n->lane->shm->tx[i])
			n->lane->shm->tx[i]->retry_at = 0;
	if (n->lane->shm->nrx) {
		lane_shm_forget(n->lane, &n->gid);
		atomic_fetch_add(&c->rings, 1);
	}
	lane_unlock(n->lane);
}

static void *cycle_rings(void *arg)
{
	struct cycler *c = arg;

	while (!atomic_load(&c->stop)) {
		node_ping_pong(c->a, c->b, 2, 64);
		end_rings(c, c->a);
		end_rings(c, c->b);
	}
	return NULL;
}

/* Sockets and rings among the descriptors. */
static unsigned count_connections(void)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;
	unsigned n = 0;
	char to[64];

	if (!d)
		return UINT_MAX;
	while ((e = readdir(d))) {
		const ssize_t len = readlinkat(dirfd(d), e->d_name, to, sizeof(to) - 1);

		to[len < 0 ? 0 : len] = 0;
		n += strstr(to, "socket:") || strstr(to, "rocemu-ring");
	}
	closedir(d);
	return n;
}

TEST(lane_shm, forked_while_rings_come_and_go__child_has_no_part_in_them)
{
	const unsigned before = count_connections();
	struct node a, b;
	struct cycler c = {.a = &a, .b = &b};
	pthread_t thread;

	if (HAVE_TSAN) {
		print_message("skipped: ThreadSanitizer has no threads in the child\n");
		skip();
	}
	open_pair(&a, &b);
	use_rings(&a, &b);
	assert_int_equal(pthread_create(&thread, NULL, cycle_rings, &c), 0);
	for (unsigned i = 0; i < 200; i++) {
		const unsigned rings = atomic_load(&c.rings);
		int status;
		pid_t pid;

		while (i % 4 == 0 && atomic_load(&c.rings) == rings)
			sched_yield();
		pid = fork();
		if (pid == 0)
			_exit(count_connections() != before);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	atomic_store(&c.stop, true);
	pthread_join(thread, NULL);
	node_close_pair(&a, &b);
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

	open_pair(&a, &b);
	node_recv(&b, 0, 64);
	node_recv(&b, 0, 64);
	lane_lock(b.lane);
	node_send(&a, 0, 64, true);
	until(has_offered, &a);
	while (!b.lane->shm->nrx && lane_now() < end) {
		lane_rx_forwarded(b.lane, lane_now());
		lane_shm_take_offer(b.lane, only_drain);
	}
	node_send(&a, 0, 64, true);
	/* Where the machine is slow, the first has had probes, and the second waits for the next.
	 */
	until(has_used_ring, &a);
	assert_int_equal(b.lane->stats->rx_datagrams, 0);
	lane_rx_hot(b.lane, lane_now());
	assert_true(b.lane->stats->rx_datagrams >= 2);
	assert_int_equal(rocemu_ep_get_stats(lane_ep(b.lane))->kept, 0);
	lane_unlock(b.lane);
	node_poll(&b);
	node_poll(&b); /* its thread does not look at this ring */
	node_close_pair(&a, &b);
}

/* More than the ring holds, while the receiver takes nothing. */
TEST(lane_shm, receiver_stands_still__connection_goes_on_afterwards)
{
	struct node a, b;

	open_pair(&a, &b);
	use_rings(&a, &b);
	lane_lock(b.lane);
	for (unsigned i = 0; i < 4; i++)
		node_write(&a, &b, 0, 1 << 20, true);
	lane_unlock(b.lane);
	for (unsigned i = 0; i < 4; i++)
		node_poll(&a);
	/* The window fits a ring; on a busy machine all of it may be sent again meanwhile. */
	if (!rocemu_ep_get_stats(lane_ep(a.lane))->retransmits)
		assert_int_equal(node_stats(&a).tx_errors, 0);
	node_close_pair(&a, &b);
}

/* ---- a sender that writes to the ring whatever it likes ---- */

struct scribbler {
	struct shm_ring_shared *shared; /* a mapping of its own */
	uint32_t head;
	atomic_bool stop;
};

static void map_ring(struct scribbler *s, const struct shm_ring *ring)
{
	s->shared = mremap(ring->shared, 0, SHM_RING_BYTES, MREMAP_MAYMOVE);
	assert_true(s->shared != MAP_FAILED);
	s->head = ring->pos;
}

/* Flips bits of valid records, and publishes them. */
static void *scribble(void *arg)
{
	struct scribbler *s = arg;
	uint32_t *words = (uint32_t *)(void *)((uint8_t *)s->shared + SHM_RING_FRONT);
	struct rng r;

	rng_init(&r, 3);
	while (!atomic_load(&s->stop)) {
		words[rng_u32(&r) % (SHM_RING_DATA / 4)] ^= 1u << rng_u32(&r) % 32;
		if (rng_u32(&r) % 8)
			continue;
		s->head += SHM_RING_ALIGN * (rng_u32(&r) % 256);
		atomic_store(&s->shared->head, s->head);
	}
	return NULL;
}

TEST(lane_shm, scribbled_on_while_it_is_used__receiver_lives)
{
	struct scribbler s = {.stop = false};
	struct node a, b;
	pthread_t thread;

	for (unsigned round = 0; round < 10; round++) {
		open_pair(&a, &b);
		use_rings(&a, &b);
		node_write(&a, &b, 0, NODE_MEM, true); /* the ring is full of records */
		node_poll(&a);
		lane_lock(a.lane);
		map_ring(&s, &a.lane->shm->open[0]->ring);
		lane_unlock(a.lane);
		atomic_store(&s.stop, false);
		assert_int_equal(pthread_create(&thread, NULL, scribble, &s), 0);
		/* Until the receiver has had enough of it. */
		for (unsigned i = 0; i < 2000 && !holds(has_no_ring_in, &b); i++)
			lane_poll(b.lane);
		atomic_store(&s.stop, true);
		pthread_join(thread, NULL);
		munmap(s.shared, SHM_RING_BYTES);
		node_close_pair(&a, &b);
	}
}

/* ---- datagrams ---- */

enum { QKEY = 0x1234, GRH = 40, DGRAM = 2048, DGRAMS = 400 /* more than a ring holds */ };

static void send_part(struct node *from, const struct node *to, uint32_t offset, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)from->mem + offset, .length = len};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	struct rocemu_path path;

	memcpy(ah.grh.dgid.raw, to->gid.raw, 16);
	wr.wr.ud.remote_qpn = rocemu_qp_num(to->qp);
	wr.wr.ud.remote_qkey = QKEY;
	lane_lock(from->lane);
	sge.lkey = rocemu_mr_lkey(from->mr);
	assert_int_equal(rocemu_path_resolve(lane_ep(from->lane), &ah, &path), 0);
	assert_int_equal(rocemu_qp_post_send(from->qp, lane_now(), &wr, &path), 0);
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

	wire("shm");
	node_open_ud(&a, "127.0.0.2", QKEY);
	node_open_ud(&b, "127.0.0.3", QKEY);
	for (uint32_t i = 0; i < ALL; i++) {
		memcpy(a.mem + (size_t)i * LEN, &i, sizeof(i));
		node_recv(&b, i * ROOM, GRH + LEN);
	}
	lane_lock(b.lane);
	for (uint32_t i = 0; i < BY_UDP; i++)
		send_part(&a, &b, i * LEN, LEN);
	until(has_offered, &a);
	while (!b.lane->shm->nrx && lane_now() < end) {
		lane_rx_forwarded(b.lane, lane_now());
		lane_shm_take_offer(b.lane, only_drain);
	}
	for (uint32_t i = BY_UDP; i < ALL; i++)
		send_part(&a, &b, i * LEN, LEN);
	until(has_used_ring, &a);
	lane_rx_hot(b.lane, lane_now());
	lane_unlock(b.lane);
	for (uint32_t i = 0; i < ALL; i++) {
		node_poll(&b);
		assert_memory_equal(b.mem + (size_t)i * ROOM + GRH, &i, sizeof(i));
	}
	node_close_pair(&a, &b);
}

TEST(lane_shm, datagrams_to_a_receiver_that_stands_still__wait_for_room)
{
	uint64_t by_udp, sent;
	struct node a, b;

	wire("shm");
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

TEST(lane_shm, datagrams_to_a_receiver_that_stopped__others_do_not_wait_for_it)
{
	struct node a, b;
	struct shm_tx *t;
	rocemu_ns_t now;

	wire("shm");
	node_open_ud(&a, "127.0.0.2", QKEY);
	node_open_ud(&b, "127.0.0.3", QKEY);
	while (!node_stats(&a).tx_rings) {
		node_recv(&b, 0, GRH + DGRAM);
		send_dgram(&a, &b);
		node_poll(&b);
	}
	lane_lock(b.lane);
	lane_lock(a.lane);
	t = a.lane->shm->open[0];
	while (shm_ring_reserve(&t->ring, DGRAM))
		shm_ring_commit(&t->ring, (struct shm_record){.len = DGRAM});
	now = t->used = lane_now();
	assert_int_equal(lane_shm_room(a.lane, now), 0);
	assert_true(lane_shm_room(a.lane, now + SHM_STILL_NS / 2) == UINT64_MAX); /* not used */
	now = t->used = now + SHM_STILL_NS;
	assert_int_equal(lane_shm_room(a.lane, now), 0);
	now = t->used = now + 1;
	assert_true(lane_shm_room(a.lane, now) == UINT64_MAX);
	lane_unlock(a.lane);
	lane_unlock(b.lane);
	node_close_pair(&a, &b);
}
