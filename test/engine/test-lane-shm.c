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
#include "engine/poller.h"
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

static uint32_t filled(struct node *n)
{
	uint32_t pos;

	lane_lock(n->lane);
	pos = n->lane->shm->open[0]->ring.pos;
	lane_unlock(n->lane);
	return pos;
}

static void *polls_here(void *arg)
{
	(void)arg;
	poller_vain(poller_here(), 1);
	return NULL;
}

/* This thread polls on a processor on which another one has polled. */
static void take_turns(void)
{
	pthread_t id;

	assert_int_equal(pthread_create(&id, NULL, polls_here, NULL), 0);
	assert_int_equal(pthread_join(id, NULL), 0);
	poller_vain(poller_here(), 1);
	assert_true(poller_takes_turns());
}

/* How far its ring's next packet is from the beginning, had the ring no end. */
static uint32_t stretch(struct node *n)
{
	uint32_t bytes;

	lane_lock(n->lane);
	bytes = n->lane->shm->open[0]->ring.pos - n->lane->shm->open[0]->ring.origin;
	lane_unlock(n->lane);
	return bytes;
}

TEST(lane_shm, pollers_take_turns__empty_ring_begins_again)
{
	enum { LEN = 1000, MESSAGES = 100 };
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;
	cpu_set_t all, here;
	struct node a, b;

	assert_return_code(sched_getaffinity(0, sizeof(all), &all), errno);
	CPU_ZERO(&here);
	CPU_SET((unsigned)sched_getcpu(), &here);
	open_pair(&a, &b);
	use_rings(&a, &b);
	node_ping_pong(&a, &b, MESSAGES, LEN);
	assert_return_code(sched_setaffinity(0, sizeof(here), &here), errno);
	while (stretch(&a) > SHM_RING_RESTART + 2 * LEN) {
		assert_true(lane_now() < end);
		take_turns();
		node_ping_pong(&a, &b, 1, LEN);
	}
	assert_return_code(sched_setaffinity(0, sizeof(all), &all), errno);
	node_close_pair(&a, &b);
}

/* The receiver does not check it, so the sender computes it for captures only. */
TEST(lane_shm, packet_in_a_ring__no_icrc)
{
	static const uint8_t none[ROCEMU_ICRC_LEN];
	struct shm_record rec;
	struct node a, b;
	uint32_t at;

	open_pair(&a, &b);
	use_rings(&a, &b);
	lane_lock(b.lane); /* it takes no packet meanwhile */
	at = filled(&a);
	node_write(&a, &b, 0, 10000, true);
	assert_true(filled(&a) - at > 10000);
	while (at != filled(&a)) {
		const uint8_t *p = shm_ring_at(&a.lane->shm->open[0]->ring, at);

		memcpy(&rec, p, sizeof(rec));
		assert_int_equal(rec.sealed, 0);
		assert_memory_equal(p + sizeof(rec) + rec.len - sizeof(none), none, sizeof(none));
		at += shm_record_bytes(rec.len);
	}
	lane_unlock(b.lane);
	node_poll(&a);
	node_close_pair(&a, &b);
}

TEST(lane_shm, receiver_sleeps__woken)
{
	struct node a, b;

	open_pair(&a, &b);
	use_rings(&a, &b);
	for (unsigned i = 0; i < 100; i++) {
		node_recv(&b, 0, 64);
		node_until(sleeps, &b);
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
	node_until(has_no_ring_out, &a);
	node_ping_pong(&a, &b, 100, 64);
	assert_int_equal(node_stats(&a).tx_rings, 0);
	node_close_pair(&a, &b);
}

/* 192.0.2.1, of which no interface of this host is: RFC 5737. */
static void prepare_other_host(struct node *a, uint32_t dqpn)
{
	const struct rocemu_path path = {
		.sgid = a->gid,
		.dgid = {{[10] = 0xff, 0xff, 192, 0, 2, 1}},
	};

	lane_lock(a->lane);
	lane_shm_prepare(a->lane, &path, dqpn);
	lane_unlock(a->lane);
}

static bool offers_nothing(struct node *n)
{
	return !n->lane->shm->wanted;
}

TEST(lane_shm, other_host_with_the_same_slot_first__ring_to_this_one)
{
	struct node a, b;

	open_pair(&a, &b);
	prepare_other_host(&a, rocemu_qp_num(b.qp));
	node_until(offers_nothing, &a);
	/* The first packet to b is enough. */
	node_ping_pong(&a, &b, 1, 64);
	node_until(has_offered, &a);
	use_rings(&a, &b);
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
	node_until(has_no_ring_out, &a);
	node_until(has_no_ring_in, &a);
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
	node_until(has_no_ring_in, &b);
	node_until(has_no_ring_out, &a);
	node_ping_pong(&a, &b, 100, 64);
	node_close_pair(&a, &b);
}

TEST(lane_shm, address_gone__ring_ends)
{
	struct node a, b;

	open_pair(&a, &b);
	use_rings(&a, &b);
	lane_set_gid(b.lane, 0, NULL);
	node_until(has_no_ring_in, &b);
	node_until(has_no_ring_out, &a);
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
	} while (!node_holds(has_brief_polls, &a));
	pid = fork();
	if (pid == 0) {
		for (unsigned i = 0; i < 100; i++)
			lane_poll(a.lane);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	node_ping_pong(&a, &b, 100, 64);
	assert_true(node_holds(has_offered, &a));
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

struct forker {
	pthread_t thread;
	int go_on[2]; /* a pipe: children live until the parent closes it */
	atomic_bool stop;
	atomic_uint children;
};

enum { CHILDREN = 64 };

static void *fork_children(void *arg)
{
	struct forker *f = arg;
	char byte;

	while (!atomic_load(&f->stop) && atomic_load(&f->children) < CHILDREN) {
		const pid_t pid = fork();

		if (pid == 0) {
			close(f->go_on[1]);
			_exit(read(f->go_on[0], &byte, 1) != 0);
		}
		if (pid > 0)
			atomic_fetch_add(&f->children, 1);
	}
	return NULL;
}

static void forker_start(struct forker *f)
{
	*f = (struct forker){.stop = false};
	assert_int_equal(pipe(f->go_on), 0);
	assert_int_equal(pthread_create(&f->thread, NULL, fork_children, f), 0);
	while (!atomic_load(&f->children))
		sched_yield();
}

static void forker_end(struct forker *f)
{
	int status;

	close(f->go_on[0]);
	close(f->go_on[1]);
	for (unsigned i = atomic_load(&f->children); i; i--) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
}

/* A child of that moment has the connections of a lane that is not in the list of lanes. */
TEST(lane_shm, forked_while_a_lane_ends__peer_sees_the_end_though_the_child_lives)
{
	struct forker f;
	struct node a, b;

	if (HAVE_TSAN) {
		print_message("skipped: ThreadSanitizer has no threads in the child\n");
		skip();
	}
	for (unsigned i = 0; i < 40; i++) {
		open_pair(&a, &b);
		use_rings(&a, &b);
		forker_start(&f);
		node_close(&b);
		atomic_store(&f.stop, true);
		pthread_join(f.thread, NULL);
		node_until(has_no_ring_out, &a);
		node_until(has_no_ring_in, &a);
		forker_end(&f);
		node_close(&a);
	}
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
		for (unsigned i = 0; i < 2000 && !node_holds(has_no_ring_in, &b); i++)
			lane_poll(b.lane);
		atomic_store(&s.stop, true);
		pthread_join(thread, NULL);
		munmap(s.shared, SHM_RING_BYTES);
		node_close_pair(&a, &b);
	}
}
