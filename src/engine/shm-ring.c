/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/shm-ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/memfile.h"
#include "base/sigwrite.h"
#include "base/util.h"

enum {
	SHM_RING_NEXT = 2, /* a message and an ACK */
	RESTART = 1,	   /* in the head */
	HEAD_LEN = sizeof(struct shm_record),
	MAPPED = SHM_RING_FRONT + 2 * SHM_RING_DATA,
	LEAST_PACKET = ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN,
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

_Static_assert((SHM_RING_DATA & (SHM_RING_DATA - 1)) == 0, "positions are masked");
_Static_assert(sizeof(struct shm_ring_shared) <= SHM_RING_FRONT, "the front has room for it");
_Static_assert(offsetof(struct shm_ring_shared, copy) + SHM_RING_COPY == SHM_RING_ALIGN,
	       "the copy is in the line of the head");
_Static_assert(sizeof(struct shm_record) == 16, "the same for all compilers");

/* ---- the memory ---- */

int shm_ring_create(void)
{
	const int fd = memfile("rocemu-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err;

	if (fd < 0)
		return -errno;
	if (!sigwrite_resize(fd, SHM_RING_BYTES) && !fcntl(fd, F_ADD_SEALS, SEALS))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/*
 * Sealed, of the right size, and not of huge pages, which may be exhausted when one is accessed.
 */
static int check(int fd)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS || (seals & F_SEAL_WRITE))
		return -EINVAL;
	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return -errno;
	return st.st_size == SHM_RING_BYTES && fs.f_type == TMPFS_MAGIC ? 0 : -EINVAL;
}

static int map_at(uint8_t *at, size_t len, int fd, off_t offset)
{
	return mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) ==
			       MAP_FAILED
		       ? -errno
		       : 0;
}

int shm_ring_map(struct shm_ring *r, int fd)
{
	uint8_t *base;
	int err = check(fd);

	*r = (struct shm_ring){.shared = NULL};
	if (err)
		return err;
	base = mmap(NULL, MAPPED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return -errno;
	err = map_at(base, SHM_RING_BYTES, fd, 0);
	if (!err)
		err = map_at(base + SHM_RING_BYTES, SHM_RING_DATA, fd, SHM_RING_FRONT);
	/* A forked child has no part in it. */
	if (!err && madvise(base, MAPPED, MADV_DONTFORK))
		err = -errno;
	if (err) {
		munmap(base, MAPPED);
		return err;
	}
	r->shared = (struct shm_ring_shared *)(void *)base;
	r->data = base + SHM_RING_FRONT;
	return 0;
}

void shm_ring_unmap(struct shm_ring *r)
{
	if (r->shared)
		munmap(r->shared, MAPPED);
	*r = (struct shm_ring){.shared = NULL};
}

/* ---- the producer ---- */

static uint32_t room(const struct shm_ring *r)
{
	const uint32_t used = r->pos - r->other;

	return used < SHM_RING_DATA ? SHM_RING_DATA - used : 0;
}

uint32_t shm_ring_room(struct shm_ring *r)
{
	r->other = atomic_load_explicit(&r->shared->tail, memory_order_acquire);
	return room(r);
}

void shm_ring_restart(struct shm_ring *r)
{
	if (shm_ring_room(r) == SHM_RING_DATA) {
		r->origin = r->pos;
		r->restart ^= RESTART;
	}
	r->looked = r->pos;
}

uint8_t *shm_ring_reserve(struct shm_ring *r, uint32_t len)
{
	const uint32_t bytes = shm_record_bytes(len);

	if (unlikely(len > ROCEMU_MAX_PACKET))
		return NULL;
	if (unlikely(room(r) < bytes) && shm_ring_room(r) < bytes)
		return NULL;
	return shm_ring_at(r, r->pos) + HEAD_LEN;
}

/* Without the attribute, the compiler fetches for reading: the instruction is not in its x86-64. */
#ifdef __x86_64__
__attribute__((target("prfchw")))
#endif
void shm_ring_fetch_ahead(const struct shm_ring *r, uint32_t len)
{
	const uint8_t *at = shm_ring_at(r, r->pos) + SHM_RING_AHEAD;

	for (uint32_t i = 0; i < len; i += SHM_RING_ALIGN)
		__builtin_prefetch(at + i, 1);
}

/*
 * The lines of the next small packets, which the consumer's core has since the last time around:
 * their stores would delay those to the line of the head, which come after them.
 */
#ifdef __x86_64__
__attribute__((target("prfchw")))
#endif
static void
fetch_next(const struct shm_ring *r)
{
	const uint8_t *at = shm_ring_at(r, r->pos);

	for (unsigned i = 0; i < SHM_RING_NEXT; i++)
		__builtin_prefetch(at + (size_t)i * SHM_RING_ALIGN, 1);
}

/* Behind the packets in the ring, as the head: stores to one line, one after the other. */
static void copy_first(struct shm_ring *r)
{
	struct shm_ring_shared *s = r->shared;

	atomic_store_explicit(&s->copied, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	memcpy(s->copy, shm_ring_at(r, r->told), SHM_RING_COPY);
	atomic_store_explicit(&s->copied, r->told + 1, memory_order_release);
}

/*
 * The consumer sets sleeping, then reads head; here it is the other way round. A fence is between
 * the two accesses of each side, so that at least one side sees what the other one wrote. The
 * fence comes after the store: an exchange would begin to request the line of the head when all
 * lines of the packets are there.
 */
bool shm_ring_publish(struct shm_ring *r)
{
	if (r->pos != r->told) {
		if (r->first <= SHM_RING_COPY)
			copy_first(r);
		else /* an old copy would be right again when positions have wrapped around */
			atomic_store_explicit(&r->shared->copied, 0, memory_order_relaxed);
	}
	r->told = r->pos;
	atomic_store_explicit(&r->shared->head, r->pos | r->restart, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	fetch_next(r);
	return unlikely(atomic_load_explicit(&r->shared->sleeping, memory_order_relaxed)) &&
	       atomic_exchange_explicit(&r->shared->sleeping, 0, memory_order_relaxed);
}

bool shm_ring_is_attached(const struct shm_ring *r)
{
	return atomic_load_explicit(&r->shared->attached, memory_order_acquire);
}

/* ---- the consumer ---- */

/* The next record, if the line of the head has it. @return false: take it from the ring. */
static bool take_copy(struct shm_ring *r)
{
	const struct shm_ring_shared *s = r->shared;

	if (atomic_load_explicit(&s->copied, memory_order_acquire) != r->pos + 1)
		return false;
	memcpy(r->copy, s->copy, SHM_RING_COPY);
	/* The producer may have published more meanwhile, and written to it. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&s->copied, memory_order_relaxed) == r->pos + 1;
}

int shm_ring_next(struct shm_ring *r, struct shm_record *rec, const uint8_t **packet)
{
	uint32_t filled = r->other - r->pos;
	bool copied = false;
	const uint8_t *at;

	if (!filled) {
		const uint32_t head = atomic_load_explicit(&r->shared->head, memory_order_acquire);

		if (likely(head == (r->pos | r->restart)))
			return 0;
		filled = (head & ~(uint32_t)RESTART) - r->pos;
		if (unlikely(!filled || filled > SHM_RING_DATA || filled % SHM_RING_ALIGN))
			return -EBADMSG;
		if ((head & RESTART) != r->restart) {
			r->restart ^= RESTART;
			r->origin = r->pos;
		}
		r->other = r->pos + filled;
		copied = take_copy(r);
	}
	at = copied ? r->copy : shm_ring_at(r, r->pos);
	/* The next small packet's line comes while this one is handled. */
	if (filled > SHM_RING_ALIGN)
		__builtin_prefetch(shm_ring_at(r, r->pos) + SHM_RING_ALIGN);
	memcpy(rec, at, HEAD_LEN);
	/* The code below uses this copy: the compiler must not read the ring again. */
	__asm__ volatile("" : : : "memory");
	if (unlikely(rec->len < LEAST_PACKET ||
		     rec->len > (copied ? SHM_RING_COPY - HEAD_LEN : ROCEMU_MAX_PACKET) ||
		     shm_record_bytes(rec->len) > filled))
		return -EBADMSG;
	*packet = at + HEAD_LEN;
	return 1;
}

void shm_ring_done(struct shm_ring *r, const struct shm_record *rec)
{
	r->pos += shm_record_bytes(rec->len);
}

void shm_ring_release(struct shm_ring *r)
{
	if (r->told == r->pos)
		return;
	r->told = r->pos;
	atomic_store_explicit(&r->shared->tail, r->pos, memory_order_release);
}

void shm_ring_attach(struct shm_ring *r)
{
	atomic_store_explicit(&r->shared->attached, 1, memory_order_release);
}

bool shm_ring_sleep(struct shm_ring *r)
{
	atomic_store_explicit(&r->shared->sleeping, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return !shm_ring_filled(r);
}

void shm_ring_awake(struct shm_ring *r)
{
	atomic_store_explicit(&r->shared->sleeping, 0, memory_order_relaxed);
}
