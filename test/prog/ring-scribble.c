/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring-scribble PID SECONDS SEED: what a hostile peer does with the rings in shared memory that it
 * has: it maps those of the process PID, and writes to them all the time: positions, the state of
 * the receiver, lengths and headers of records, and any word. The process uses them meanwhile.
 *
 * Prints "rings N writes N" at the end: N different rings. Ends with 77 where it may not map them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/shm-ring.h"

enum { RINGS = 64, BURST = 2000, NOT_ALLOWED = 77 };

/* What is written. The first ones leave the ring in use for a while, the last ones end it soon. */
enum kind { STATE, TAIL, WORD, HEADER, COPY, LENGTH, HEAD, KINDS };

struct ring {
	unsigned long inode;
	struct shm_ring_shared *shared;
	uint8_t *data;
	unsigned kinds; /* the first ones of enum kind */
	bool seen;	/* at the last look the process had it */
};

static struct ring ring[RINGS];
static unsigned nrings, found;
static unsigned long writes;
static struct rng rng;

static void add(int pid, const char *range, unsigned long inode)
{
	struct ring *r = &ring[nrings];
	char path[160];
	uint8_t *at;
	int fd;

	for (unsigned i = 0; i < nrings; i++)
		if (ring[i].inode == inode) {
			ring[i].seen = true;
			return;
		}
	if (nrings == RINGS)
		return;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%s", pid, range);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == EPERM)
		exit(NOT_ALLOWED);
	if (fd < 0)
		return; /* unmapped meanwhile */
	at = mmap(NULL, SHM_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return;
	*r = (struct ring){.inode = inode,
			   .shared = (struct shm_ring_shared *)(void *)at,
			   .data = at + SHM_RING_FRONT,
			   .kinds = 1 + rng_u32(&rng) % KINDS,
			   .seen = true};
	nrings++;
	found++;
}

static void drop_unseen(void)
{
	for (unsigned i = 0; i < nrings;) {
		if (ring[i].seen) {
			i++;
			continue;
		}
		munmap(ring[i].shared, SHM_RING_BYTES);
		ring[i] = ring[--nrings];
	}
}

/* @return false: the process has ended. */
static bool look(int pid)
{
	char path[64], line[512], range[128];
	unsigned long offset, inode;
	FILE *f;

	for (unsigned i = 0; i < nrings; i++)
		ring[i].seen = false;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "/memfd:rocemu-ring") &&
		    sscanf(line, "%127s %*s %lx %*s %lu", range, &offset, &inode) == 3 && !offset)
			add(pid, range, inode);
	if (f)
		fclose(f);
	drop_unseen();
	return f != NULL;
}

static uint32_t any_length(void)
{
	static const uint32_t lengths[] = {
		0,
		1,
		15,
		16,
		17,
		48,
		49,
		4096,
		64,
		20,
		1u << 31,
		UINT32_MAX,
		60,
		ROCEMU_MAX_PACKET,
		ROCEMU_MAX_PACKET + 1,
		SHM_RING_DATA,
	};

	return lengths[rng_u32(&rng) % (sizeof(lengths) / sizeof(lengths[0]))];
}

/* A record that the consumer has before it, or takes just now. */
static uint8_t *record(const struct ring *r)
{
	const uint32_t at = atomic_load_explicit(&r->shared->tail, memory_order_relaxed) +
			    rng_u32(&rng) % 32 * SHM_RING_ALIGN;

	return r->data + (at & (SHM_RING_DATA - 1) & ~(SHM_RING_ALIGN - 1u));
}

static void move(_Atomic uint32_t *position)
{
	const uint32_t by =
		rng_u32(&rng) % 2 ? SHM_RING_ALIGN * (rng_u32(&rng) % 256) : rng_u32(&rng);

	atomic_store(position, atomic_load(position) + by);
}

static void scribble(const struct ring *r, enum kind kind)
{
	const uint32_t value = rng_u32(&rng);
	uint8_t *rec = record(r);

	switch (kind) {
	case STATE:
		atomic_store(value % 2 ? &r->shared->sleeping : &r->shared->attached, value >> 31);
		break;
	case TAIL:
		move(&r->shared->tail);
		break;
	case WORD:
		((uint32_t *)(void *)r->data)[value % (SHM_RING_DATA / 4)] ^= 1u << value % 32;
		break;
	case HEADER: /* opcode and pad count, the record's flags, or one of the headers' bytes */
		rec[value % 4 == 0   ? sizeof(struct shm_record)
		    : value % 4 == 1 ? sizeof(struct shm_record) + 1
		    : value % 4 == 2 ? 4 + value / 4 % 12
				     : sizeof(struct shm_record) + 4 + value / 4 % 44] =
			(uint8_t)rng_u32(&rng);
		break;
	case COPY:
		r->shared->copy[value % SHM_RING_COPY] = (uint8_t)(value >> 16);
		atomic_store(&r->shared->copied, atomic_load(&r->shared->tail) + 1);
		break;
	case LENGTH:
		memcpy(rec, &(uint32_t){any_length()}, 4);
		break;
	case HEAD:
		move(&r->shared->head);
		break;
	case KINDS:
		break;
	}
	writes++;
}

int main(int argc, char **argv)
{
	uint64_t end;
	int pid;

	if (argc != 4)
		return 2;
	pid = atoi(argv[1]);
	rng_init(&rng, (uint64_t)atol(argv[3]));
	end = monotonic_ms() + (uint64_t)atol(argv[2]) * 1000;
	while (monotonic_ms() < end && look(pid)) {
		if (!nrings)
			usleep(1000);
		for (unsigned i = 0; nrings && i < BURST; i++) {
			const struct ring *r = &ring[rng_u32(&rng) % nrings];

			scribble(r, (enum kind)(rng_u32(&rng) % r->kinds));
		}
	}
	printf("rings %u writes %lu\n", found, writes);
	return 0;
}
