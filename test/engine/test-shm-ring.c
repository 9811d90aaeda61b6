/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "engine/shm-ring.h"

enum { LEAST = ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN };

/* Both sides of one ring, each with a mapping of its own as in two processes. */
struct pair {
	struct shm_ring tx, rx;
};

static void open_pair(struct pair *p)
{
	const int fd = shm_ring_create();

	assert_true(fd >= 0);
	assert_int_equal(shm_ring_map(&p->tx, fd), 0);
	assert_int_equal(shm_ring_map(&p->rx, fd), 0);
	close(fd);
}

static void close_pair(struct pair *p)
{
	shm_ring_unmap(&p->tx);
	shm_ring_unmap(&p->rx);
}

/* @return false: full. */
static bool put(struct shm_ring *r, uint8_t fill, uint32_t len)
{
	const struct shm_record rec = {.len = len, .sport = fill};
	uint8_t *at = shm_ring_reserve(r, len);

	if (!at)
		return false;
	memset(at, fill, len);
	shm_ring_commit(r, rec);
	return true;
}

static void expect_packet(struct shm_ring *r, uint8_t fill, uint32_t len)
{
	struct shm_record rec;
	const uint8_t *packet;

	assert_int_equal(shm_ring_next(r, &rec, &packet), 1);
	assert_int_equal(rec.len, len);
	assert_int_equal(rec.sport, fill);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(packet[i], fill);
	shm_ring_done(r, &rec);
}

static int next(struct shm_ring *r)
{
	struct shm_record rec;
	const uint8_t *packet;

	return shm_ring_next(r, &rec, &packet);
}

TEST(shm_ring, many_laps__same_packets_in_order)
{
	struct {
		uint8_t fill;
		uint32_t len;
	} sent[64];
	struct pair p;
	struct rng r;

	rng_init(&r, 1);
	open_pair(&p);
	for (unsigned lap = 0; lap < 200; lap++) {
		unsigned n = 1 + rng_u32(&r) % 64;

		for (unsigned i = 0; i < n; i++) {
			sent[i].fill = (uint8_t)rng_u32(&r);
			sent[i].len = LEAST + rng_u32(&r) % (ROCEMU_MAX_PACKET + 1 - LEAST);
			assert_true(put(&p.tx, sent[i].fill, sent[i].len));
		}
		shm_ring_publish(&p.tx);
		for (unsigned i = 0; i < n; i++)
			expect_packet(&p.rx, sent[i].fill, sent[i].len);
		assert_int_equal(next(&p.rx), 0);
		shm_ring_release(&p.rx);
	}
	close_pair(&p);
}

TEST(shm_ring, not_told__not_seen)
{
	struct pair p;

	open_pair(&p);
	assert_true(put(&p.tx, 1, 100));
	assert_true(shm_ring_unpublished(&p.tx) > 0);
	assert_int_equal(next(&p.rx), 0);
	shm_ring_publish(&p.tx);
	assert_int_equal(shm_ring_unpublished(&p.tx), 0);
	expect_packet(&p.rx, 1, 100);
	close_pair(&p);
}

/* ---- the copy in the line of the head ---- */

enum { SMALL = SHM_RING_COPY - sizeof(struct shm_record) }; /* the largest packet that fits */

/* The n-th record in the ring, each of one cache line. */
static uint8_t *record(struct pair *p, unsigned n)
{
	return p->tx.data + (size_t)n * SHM_RING_ALIGN;
}

TEST(shm_ring, small_packet_alone__taken_from_the_line_of_the_head)
{
	struct pair p;

	open_pair(&p);
	assert_true(put(&p.tx, 1, SMALL));
	assert_true(put(&p.tx, 2, SMALL));
	shm_ring_publish(&p.tx);
	memset(record(&p, 0), 0, SHM_RING_ALIGN);
	expect_packet(&p.rx, 1, SMALL);
	expect_packet(&p.rx, 2, SMALL);
	/* Too large by one byte. */
	assert_true(put(&p.tx, 3, SMALL + 1));
	shm_ring_publish(&p.tx);
	memset(record(&p, 2), 0, SHM_RING_ALIGN);
	assert_int_equal(next(&p.rx), -EBADMSG);
	close_pair(&p);
}

TEST(shm_ring, copy_is_not_of_the_next_packet__taken_from_the_ring)
{
	struct pair p;

	open_pair(&p);
	assert_true(put(&p.tx, 1, SMALL));
	shm_ring_publish(&p.tx);
	assert_true(put(&p.tx, 2, SMALL));
	shm_ring_publish(&p.tx);
	expect_packet(&p.rx, 1, SMALL);
	expect_packet(&p.rx, 2, SMALL);
	/* A copy that is being written. */
	assert_true(put(&p.tx, 3, SMALL));
	shm_ring_publish(&p.tx);
	atomic_store(&p.tx.shared->copied, 0);
	memset(p.tx.shared->copy, 0xff, SHM_RING_COPY);
	expect_packet(&p.rx, 3, SMALL);
	assert_int_equal(next(&p.rx), 0);
	close_pair(&p);
}

/* A record of that many bytes through the ring; what is in it does not matter. */
static void pass(struct pair *p, uint32_t bytes)
{
	const struct shm_record sent = {.len = bytes - (uint32_t)sizeof(sent)};
	struct shm_record rec;
	const uint8_t *packet;

	assert_non_null(shm_ring_reserve(&p->tx, sent.len));
	shm_ring_commit(&p->tx, sent);
	shm_ring_publish(&p->tx);
	assert_int_equal(shm_ring_next(&p->rx, &rec, &packet), 1);
	assert_int_equal(rec.len, sent.len);
	shm_ring_done(&p->rx, &rec);
	shm_ring_release(&p->rx);
}

TEST(shm_ring, positions_wrap_around__copy_of_the_last_time_is_not_taken)
{
	enum { BYTES = 4096, LAST = BYTES - SHM_RING_ALIGN };
	struct pair p;

	open_pair(&p);
	assert_true(put(&p.tx, 1, SMALL));
	shm_ring_publish(&p.tx);
	expect_packet(&p.rx, 1, SMALL);
	shm_ring_release(&p.rx);
	/* 4 GiB of large packets, which have no copy. */
	for (uint64_t i = 1; i < (1ull << 32) / BYTES; i++)
		pass(&p, BYTES);
	pass(&p, LAST);
	assert_int_equal(p.tx.pos, 0);
	assert_true(put(&p.tx, 2, ROCEMU_MAX_PACKET));
	shm_ring_publish(&p.tx);
	expect_packet(&p.rx, 2, ROCEMU_MAX_PACKET);
	assert_int_equal(next(&p.rx), 0);
	close_pair(&p);
}

TEST(shm_ring, looked_at_twice__same_packet)
{
	struct pair p;

	open_pair(&p);
	assert_true(put(&p.tx, 1, SMALL));
	shm_ring_publish(&p.tx);
	assert_int_equal(next(&p.rx), 1);
	expect_packet(&p.rx, 1, SMALL);
	close_pair(&p);
}

/* As a producer whose processor changes between processes. @return how far it is from the
 * beginning. */
static ptrdiff_t put_near(struct shm_ring *r, uint8_t fill, uint32_t len)
{
	uint8_t *at;

	if (shm_ring_is_stretched(r))
		shm_ring_restart(r);
	at = shm_ring_at(r, r->pos);
	assert_true(put(r, fill, len));
	shm_ring_publish(r);
	return at - r->data;
}

TEST(shm_ring, empty_each_time__uses_its_beginning_only_and_consumer_may_sleep)
{
	enum { LEN = 1000 };
	struct pair p;

	open_pair(&p);
	for (unsigned i = 0; i < 2 * SHM_RING_DATA / LEN; i++) {
		assert_true(put_near(&p.tx, (uint8_t)i, LEN) < SHM_RING_RESTART);
		expect_packet(&p.rx, (uint8_t)i, LEN);
		shm_ring_release(&p.rx);
		assert_true(shm_ring_sleep(&p.rx));
	}
	close_pair(&p);
}

TEST(shm_ring, never_empty__uses_all_of_it_and_no_packet_is_overwritten)
{
	enum { LEN = SHM_RING_RESTART - sizeof(struct shm_record), LAPS = 3 };
	const unsigned n = LAPS * SHM_RING_DATA / SHM_RING_RESTART;
	struct pair p;

	open_pair(&p);
	put_near(&p.tx, 0, LEN);
	for (unsigned i = 1; i < n; i++) {
		assert_int_equal(put_near(&p.tx, (uint8_t)i, LEN),
				 i * SHM_RING_RESTART % SHM_RING_DATA);
		expect_packet(&p.rx, (uint8_t)(i - 1), LEN);
		shm_ring_release(&p.rx);
	}
	/* Taken, and its room not returned. */
	expect_packet(&p.rx, (uint8_t)(n - 1), LEN);
	put_near(&p.tx, 0, LEN);
	assert_int_equal(put_near(&p.tx, 1, LEN), SHM_RING_RESTART);
	close_pair(&p);
}

TEST(shm_ring, full__refused_until_released)
{
	struct pair p;
	unsigned n = 0;

	open_pair(&p);
	assert_int_equal(shm_ring_room(&p.tx), SHM_RING_DATA);
	while (put(&p.tx, 7, ROCEMU_MAX_PACKET))
		n++;
	assert_true(n > 100 && n * ROCEMU_MAX_PACKET <= SHM_RING_DATA);
	assert_true(shm_ring_room(&p.tx) < 2 * ROCEMU_MAX_PACKET);
	shm_ring_publish(&p.tx);
	expect_packet(&p.rx, 7, ROCEMU_MAX_PACKET);
	expect_packet(&p.rx, 7, ROCEMU_MAX_PACKET);
	assert_false(put(&p.tx, 8, ROCEMU_MAX_PACKET));
	shm_ring_release(&p.rx);
	assert_true(put(&p.tx, 8, ROCEMU_MAX_PACKET));
	assert_null(shm_ring_reserve(&p.tx, ROCEMU_MAX_PACKET + 1));
	close_pair(&p);
}

TEST(shm_ring, attach_and_sleep__seen_and_woken_once)
{
	struct pair p;

	open_pair(&p);
	assert_false(shm_ring_is_attached(&p.tx));
	shm_ring_attach(&p.rx);
	assert_true(shm_ring_is_attached(&p.tx));

	assert_true(put(&p.tx, 1, 100));
	assert_false(shm_ring_publish(&p.tx)); /* it does not sleep */
	assert_false(shm_ring_sleep(&p.rx));   /* it must not */
	expect_packet(&p.rx, 1, 100);
	assert_true(shm_ring_sleep(&p.rx));
	assert_true(put(&p.tx, 2, 100));
	assert_true(shm_ring_publish(&p.tx));
	assert_true(put(&p.tx, 3, 100));
	assert_false(shm_ring_publish(&p.tx)); /* once is enough */
	expect_packet(&p.rx, 2, 100);
	expect_packet(&p.rx, 3, 100);
	assert_true(shm_ring_sleep(&p.rx));
	shm_ring_awake(&p.rx);
	assert_true(put(&p.tx, 4, 100));
	assert_false(shm_ring_publish(&p.tx));
	close_pair(&p);
}

/* ---- what is no ring ---- */

static void expect_refused(int fd)
{
	struct shm_ring r;

	assert_true(fd >= 0);
	assert_int_equal(shm_ring_map(&r, fd), -EINVAL);
	assert_null(r.shared);
	shm_ring_unmap(&r);
	close(fd);
}

static int memory(off_t size, int seals)
{
	const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

TEST(shm_ring, memory_that_may_shrink_or_is_no_ring__refused)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int ends[2];

	expect_refused(memory(SHM_RING_BYTES, F_SEAL_GROW));
	expect_refused(memory(SHM_RING_BYTES, F_SEAL_GROW | F_SEAL_SEAL));
	expect_refused(memory(SHM_RING_BYTES, seals | F_SEAL_WRITE));
	expect_refused(memory(SHM_RING_BYTES - 4096, seals));
	expect_refused(memory(2 * SHM_RING_BYTES, seals));
	expect_refused(open("/dev/null", O_RDWR));
	expect_refused(open("/proc/self/exe", O_RDONLY));
	assert_int_equal(pipe(ends), 0);
	expect_refused(ends[0]);
	close(ends[1]);
}

/* ---- what the other side may write ---- */

static void set_head(struct pair *p, uint32_t head)
{
	atomic_store(&p->tx.shared->head, head);
}

TEST(shm_ring, head_out_of_bounds__refused)
{
	static const uint32_t heads[] = {1, 63, SHM_RING_DATA + 64, 0x80000000u, UINT32_MAX - 63};

	for (unsigned i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct pair p;

		open_pair(&p);
		set_head(&p, heads[i]);
		assert_int_equal(next(&p.rx), -EBADMSG);
		assert_int_equal(next(&p.rx), -EBADMSG);
		close_pair(&p);
	}
}

TEST(shm_ring, length_out_of_bounds__refused)
{
	static const uint32_t lens[] = {0,	  LEAST - 1, 49, ROCEMU_MAX_PACKET + 1,
					1u << 31, UINT32_MAX};

	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct pair p;

		open_pair(&p);
		memcpy(p.tx.data, &lens[i], sizeof(lens[i]));
		set_head(&p, 64); /* one record of 48 bytes at most */
		assert_int_equal(next(&p.rx), -EBADMSG);
		close_pair(&p);
	}
}

TEST(shm_ring, length_in_the_copy_out_of_bounds__refused)
{
	static const uint32_t lens[] = {0, LEAST - 1, SMALL + 1, ROCEMU_MAX_PACKET, UINT32_MAX};

	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct pair p;

		open_pair(&p);
		memcpy(p.tx.shared->copy, &lens[i], sizeof(lens[i]));
		atomic_store(&p.tx.shared->copied, 1);
		set_head(&p, 4 * ROCEMU_MAX_PACKET / SHM_RING_ALIGN * SHM_RING_ALIGN);
		assert_int_equal(next(&p.rx), -EBADMSG);
		close_pair(&p);
	}
}

TEST(shm_ring, tail_out_of_bounds__full)
{
	static const uint32_t tails[] = {64, SHM_RING_DATA, 0x80000000u};
	struct pair p;

	open_pair(&p);
	while (put(&p.tx, 1, 4000))
		;
	for (unsigned i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		atomic_store(&p.rx.shared->tail, p.tx.pos + tails[i]);
		assert_int_equal(shm_ring_room(&p.tx), 0);
		assert_null(shm_ring_reserve(&p.tx, 100));
	}
	close_pair(&p);
}

struct scribbler {
	struct shm_ring ring;
	atomic_bool stop;
};

static void *scribble(void *arg)
{
	struct scribbler *s = arg;
	uint32_t *words = (uint32_t *)(void *)s->ring.data;
	struct rng r;

	rng_init(&r, 2);
	while (!atomic_load(&s->stop)) {
		const uint32_t at = rng_u32(&r) % (SHM_RING_DATA / 64) * 16;

		/* Mostly lengths that are right, or none would be taken. */
		words[at] =
			rng_u32(&r) % 16 ? LEAST + rng_u32(&r) % ROCEMU_MAX_PACKET : rng_u32(&r);
		words[at + 1 + rng_u32(&r) % 15] = rng_u32(&r);
		atomic_store(&s->ring.shared->head,
			     rng_u32(&r) % (SHM_RING_DATA / 64) * 64 | rng_u32(&r) % 2);
		atomic_store(&s->ring.shared->tail, rng_u32(&r));
		atomic_store(&s->ring.shared->copied, rng_u32(&r) % 4 * 64 + 1);
		memcpy(s->ring.shared->copy, &words[at], SHM_RING_COPY);
		atomic_store(&s->ring.shared->sleeping, rng_u32(&r) % 2);
	}
	return NULL;
}

/* Take what there is, as a lane does; anew when the rules were broken. */
static unsigned take_scribbled(struct shm_ring *rx, unsigned rounds)
{
	static uint8_t copy[ROCEMU_MAX_PACKET];
	unsigned taken = 0;

	for (unsigned i = 0; i < rounds; i++) {
		struct shm_record rec;
		const uint8_t *packet;
		const int r = shm_ring_next(rx, &rec, &packet);

		if (r < 0)
			rx->pos = rx->other = rx->told = 0;
		if (r <= 0)
			continue;
		memcpy(copy, packet, rec.len);
		shm_ring_done(rx, &rec);
		shm_ring_release(rx);
		taken++;
	}
	return taken;
}

TEST(shm_ring, scribbled_on_while_it_is_used__stays_within_bounds)
{
	struct scribbler s = {.stop = false};
	struct shm_ring rx, tx;
	unsigned taken = 0;
	pthread_t thread;
	int fd = shm_ring_create();

	assert_int_equal(shm_ring_map(&s.ring, fd), 0);
	assert_int_equal(shm_ring_map(&rx, fd), 0);
	assert_int_equal(shm_ring_map(&tx, fd), 0);
	close(fd);
	assert_int_equal(pthread_create(&thread, NULL, scribble, &s), 0);
	while (taken < 1000) {
		taken += take_scribbled(&rx, 1000);
		for (unsigned i = 0; i < 100; i++) {
			put(&tx, (uint8_t)i, LEAST + i * 40);
			shm_ring_publish(&tx);
		}
	}
	atomic_store(&s.stop, true);
	pthread_join(thread, NULL);
	shm_ring_unmap(&s.ring);
	shm_ring_unmap(&rx);
	shm_ring_unmap(&tx);
}
