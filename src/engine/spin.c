/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/spin.h"

#include "base/util.h"

enum { FORGIVEN_AFTER = 4 }; /* polls in a row that were not in vain pay for one that was */

void spin_init(struct spin *s, uint32_t need_min)
{
	s->need_min = need_min;
	atomic_init(&s->run, 0);
	atomic_init(&s->need, need_min);
	atomic_init(&s->hits, 0);
	atomic_init(&s->since_vain, 0);
}

static uint32_t get(const _Atomic uint32_t *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

static void set(_Atomic uint32_t *v, uint32_t to)
{
	atomic_store_explicit(v, to, memory_order_relaxed);
}

bool spin_pays(const struct spin *s)
{
	return get(&s->run) >= get(&s->need);
}

static void set_need(struct spin *s, uint32_t need)
{
	set(&s->need, need);
	set(&s->hits, 0);
}

void spin_waited(struct spin *s, uint64_t waited_ns, bool spun)
{
	const uint32_t need = get(&s->need), since_vain = get(&s->since_vain);

	if (spun)
		set(&s->since_vain, waited_ns < SPIN_WAIT_NS ? since_vain + 1 : 0);
	if (waited_ns >= SPIN_WAIT_NS) {
		if (spun && since_vain >= FORGIVEN_AFTER)
			return;
		set(&s->run, 0);
		if (spun)
			set_need(s, MIN(2 * need, (uint32_t)SPIN_NEED_MAX));
		return;
	}
	set(&s->run, MIN(get(&s->run) + 1, (uint32_t)SPIN_NEED_MAX));
	if (!spun || need == s->need_min)
		return;
	set(&s->hits, get(&s->hits) + 1);
	if (get(&s->hits) >= need)
		set_need(s, MAX(need / 2, s->need_min));
}
