/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wrap.h"

enum {
	SITES = 256,
	SITE_LIMIT = 2,	  /* calls of FAULT_IO counted per caller: programs poll */
	BLOCKS = 1 << 17, /* live ones that can be distinguished */
	RANGES = 8,
};

static struct fault_control own;
static struct fault_control *control = &own;

/* ---- who calls ---- */

struct range {
	uintptr_t begin, end;
};

static struct range watched[RANGES];
static atomic_uint nwatched;

#ifdef FAULT_IN_PROGRAM
extern const char __executable_start[], etext[];

static bool is_test(const void *caller)
{
	return (const char *)caller >= __executable_start && (const char *)caller < etext;
}
#else
static bool is_test(const void *caller)
{
	(void)caller;
	return false;
}
#endif

static bool is_watched(const void *caller)
{
	const unsigned n = atomic_load_explicit(&nwatched, memory_order_acquire);

	for (unsigned i = 0; i < n; i++)
		if ((uintptr_t)caller >= watched[i].begin && (uintptr_t)caller < watched[i].end)
			return true;
	return false;
}

static int watch_object(struct dl_phdr_info *info, size_t size, void *user)
{
	const char *const *names = user;
	const unsigned at = atomic_load(&nwatched);
	bool wanted = false;

	(void)size;
	for (unsigned i = 0; names[i]; i++)
		wanted |= strstr(info->dlpi_name, names[i]) != NULL;
	if (!wanted || at == RANGES)
		return 0;
	watched[at] = (struct range){UINTPTR_MAX, 0};
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		const uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		if (begin < watched[at].begin)
			watched[at].begin = begin;
		if (end > watched[at].end)
			watched[at].end = end;
	}
	atomic_store_explicit(&nwatched, at + 1, memory_order_release);
	return 0;
}

void fault_watch(const char *const *names)
{
	dl_iterate_phdr(watch_object, (void *)(uintptr_t)names);
}

/* ---- live blocks ---- */

struct block {
	const void *address; /* NULL: free; a hash table with linear probing */
	const void *caller;
	bool marked;
};

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block blocks[BLOCKS];
static long nblocks;
static atomic_long nmaps;

static size_t slot_of(const void *p)
{
	return (((uintptr_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % BLOCKS;
}

void *fault_block_add(void *p, const void *caller)
{
	size_t at = slot_of(p);

	if (!p || !is_watched(caller))
		return p;
	pthread_mutex_lock(&blocks_lock);
	if (++nblocks > BLOCKS / 2)
		abort();
	while (blocks[at].address)
		at = (at + 1) % BLOCKS;
	blocks[at] = (struct block){p, caller, false};
	pthread_mutex_unlock(&blocks_lock);
	return p;
}

void fault_block_remove(const void *p)
{
	size_t at = slot_of(p), next;

	if (!p || !atomic_load_explicit(&nwatched, memory_order_relaxed))
		return;
	pthread_mutex_lock(&blocks_lock);
	while (blocks[at].address && blocks[at].address != p)
		at = (at + 1) % BLOCKS;
	if (blocks[at].address) {
		nblocks--;
		/* Move up what probed past this entry. */
		for (next = (at + 1) % BLOCKS; blocks[next].address; next = (next + 1) % BLOCKS) {
			const size_t home = slot_of(blocks[next].address);

			if ((next - home) % BLOCKS < (next - at) % BLOCKS)
				continue;
			blocks[at] = blocks[next];
			at = next;
		}
		blocks[at] = (struct block){0};
	}
	pthread_mutex_unlock(&blocks_lock);
}

void fault_map_count(const void *caller, int n)
{
	if (is_watched(caller))
		atomic_fetch_add(&nmaps, n);
}

struct fault_live fault_live(void)
{
	struct fault_live live;

	pthread_mutex_lock(&blocks_lock);
	live = (struct fault_live){nblocks, atomic_load(&nmaps)};
	pthread_mutex_unlock(&blocks_lock);
	return live;
}

void fault_live_mark(void)
{
	pthread_mutex_lock(&blocks_lock);
	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i].marked = true;
	pthread_mutex_unlock(&blocks_lock);
}

static void where(const void *caller, char *buf, size_t len)
{
	const char *name;
	Dl_info info;

	if (!dladdr(caller, &info) || !info.dli_fname) {
		snprintf(buf, len, "%p", caller);
		return;
	}
	name = strrchr(info.dli_fname, '/');
	snprintf(buf, len, "%s+0x%lx %s", name ? name + 1 : info.dli_fname,
		 (unsigned long)((uintptr_t)caller - (uintptr_t)info.dli_fbase),
		 info.dli_sname ? info.dli_sname : "");
}

void fault_live_print(void)
{
	char text[128];

	for (size_t i = 0; i < BLOCKS; i++) {
		if (!blocks[i].address || blocks[i].marked)
			continue;
		where(blocks[i].caller, text, sizeof(text));
		fprintf(stderr, "    a block allocated by %s\n", text);
	}
}

/* ---- which call fails ---- */

struct site {
	_Atomic(const void *) caller;
	atomic_uint calls;
};

static struct site sites[SITES];
static atomic_uint sites_of; /* which arming */

static void sites_forget(const struct fault_control *c)
{
	const unsigned now = atomic_load(&c->armings);

	if (atomic_exchange(&sites_of, now) == now)
		return;
	for (size_t at = 0; at < SITES; at++) {
		atomic_store(&sites[at].caller, NULL);
		atomic_store(&sites[at].calls, 0);
	}
}

/* Has the caller called often enough? A full table: it has. */
static bool site_is_spent(const void *caller)
{
	for (size_t i = 0, at = (uintptr_t)caller / 4 % SITES; i < SITES;
	     i++, at = (at + 1) % SITES) {
		const void *none = NULL;

		if (atomic_compare_exchange_strong(&sites[at].caller, &none, caller) ||
		    none == caller)
			return atomic_fetch_add(&sites[at].calls, 1) >= SITE_LIMIT;
	}
	return true;
}

bool fault_hits(enum fault_kind kind, const char *name, int error, const void *caller)
{
	struct fault_control *c = control;

	if (!atomic_load(&c->armed) || is_test(caller))
		return false;
	sites_forget(c);
	if (atomic_load(&c->failed) && atomic_load(&c->mode) == FAULT_ALWAYS && kind != FAULT_IO &&
	    kind == atomic_load(&c->kind) && (kind != FAULT_CALL || !strcmp(name, c->name))) {
		atomic_fetch_add(&c->failed, 1);
		errno = error;
		return true;
	}
	if (kind == FAULT_IO && site_is_spent(caller))
		return false;
	if (atomic_fetch_add(&c->count, 1) + 1 != atomic_load(&c->nth))
		return false;
	atomic_store(&c->kind, kind);
	atomic_store(&c->error, error);
	snprintf(c->name, sizeof(c->name), "%s", name);
	where(caller, c->where, sizeof(c->where));
	atomic_fetch_add(&c->failed, 1);
	errno = error;
	return true;
}

struct fault_control *fault_control(void)
{
	return control;
}

void fault_arm(struct fault_control *c, enum fault_mode mode, unsigned long nth)
{
	atomic_store(&c->count, 0);
	atomic_fetch_add(&c->armings, 1);
	atomic_store(&c->failed, 0);
	atomic_store(&c->mode, mode);
	atomic_store(&c->nth, nth);
	atomic_store(&c->error, 0);
	c->name[0] = c->where[0] = 0;
	atomic_store(&c->armed, true);
}

void fault_disarm(struct fault_control *c)
{
	atomic_store(&c->armed, false);
}

/* Before main(): the file of the process that started this program with the library preloaded. */
__attribute__((constructor)) static void control_map(void)
{
	const char *path = getenv("FAULT_CONTROL");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map;

	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		control = map;
}
