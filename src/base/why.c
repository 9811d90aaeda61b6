/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/why.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { ENTRIES = 256, PROBES = 4 };

#define INTERVAL_NS (WHY_INTERVAL_S * (uint64_t)NS_PER_S)

/** What was printed last of a site and an object. Two threads that race lose a count, not more. */
struct said {
	_Atomic uint64_t key; /* 0: free */
	_Atomic uint64_t at_ns;
	atomic_uint held;
};

static struct said table[ENTRIES];

/** Lines that were held back and no later line has counted, and the process that counted them (a
 * child starts anew). */
static atomic_uint uncounted;
static atomic_int owner;

static uint64_t key_of(const struct why_site *site, uint64_t object)
{
	uint64_t x = (uint64_t)(uintptr_t)site ^ object * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 29;
	return x ? x : 1;
}

static uint64_t get(_Atomic uint64_t *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

/**
 * The key's entry; a free one, or else the oldest, becomes the key's. *is_new: nothing was printed
 * for it yet.
 */
static struct said *find(uint64_t key, bool *is_new)
{
	struct said *oldest = NULL;

	for (unsigned i = 0; i < PROBES; i++) {
		struct said *s = &table[(key + i) % ENTRIES];

		*is_new = get(&s->key) != key;
		if (!*is_new)
			return s;
		if (!oldest ||
		    (get(&oldest->key) && (!get(&s->key) || get(&s->at_ns) < get(&oldest->at_ns))))
			oldest = s;
	}
	atomic_store_explicit(&oldest->key, key, memory_order_relaxed);
	atomic_store_explicit(&oldest->held, 0, memory_order_relaxed);
	return oldest;
}

static void hold(struct said *s)
{
	atomic_fetch_add_explicit(&s->held, 1, memory_order_relaxed);
	if (atomic_exchange_explicit(&owner, (int)getpid(), memory_order_relaxed) != (int)getpid())
		atomic_store_explicit(&uncounted, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&uncounted, 1, memory_order_relaxed);
}

/** Has the site lines left in this interval? Takes one. */
static bool take_line(struct why_site *site, uint64_t now_ns)
{
	const uint64_t since = get(&site->since_ns);

	if (!since || now_ns - since >= INTERVAL_NS) {
		atomic_store_explicit(&site->since_ns, now_ns, memory_order_relaxed);
		atomic_store_explicit(&site->lines, 0, memory_order_relaxed);
	}
	return atomic_fetch_add_explicit(&site->lines, 1, memory_order_relaxed) < WHY_OBJECTS;
}

bool why_pass(struct why_site *site, uint64_t object, uint64_t now_ns, uint32_t *held)
{
	bool is_new;
	struct said *s = find(key_of(site, object), &is_new);

	if ((!is_new && now_ns - get(&s->at_ns) < INTERVAL_NS) || !take_line(site, now_ns)) {
		if (is_new)
			atomic_store_explicit(&s->at_ns, now_ns, memory_order_relaxed);
		hold(s);
		return false;
	}
	atomic_store_explicit(&s->at_ns, now_ns, memory_order_relaxed);
	*held = atomic_exchange_explicit(&s->held, 0, memory_order_relaxed);
	atomic_fetch_sub_explicit(&uncounted, *held, memory_order_relaxed);
	return true;
}

bool why_begin(struct why_site *site, uint64_t object, uint32_t *held)
{
	return log_enabled(LOG_LVL_WHY) && why_pass(site, object, monotonic_ns(), held);
}

void why_print(uint32_t held, const char *fmt, ...)
{
	const int saved = errno;
	char text[960], more[64] = "";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (held)
		snprintf(more, sizeof(more), " (%u more like it since the last line)", held);
	log_msg(LOG_LVL_WHY, "why: %s%s", text, more);
	errno = saved;
}

static __attribute__((destructor)) void say_held(void)
{
	const unsigned n = atomic_load_explicit(&uncounted, memory_order_relaxed);

	if (n && atomic_load_explicit(&owner, memory_order_relaxed) == (int)getpid())
		log_msg(LOG_LVL_WHY,
			"%u more lines of --log why were suppressed: each is printed once in %d s "
			"for an object",
			n, WHY_INTERVAL_S);
}
