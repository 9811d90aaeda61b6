/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/slot-table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SIZE = 64 };

void slot_table_init(struct slot_table *t, uint32_t max)
{
	*t = (struct slot_table){.max = max, .next = 1, .fresh = 1};
}

void slot_table_fini(struct slot_table *t)
{
	free(t->entries);
	free(t->tags);
}

/** Twice the room. -ENOMEM: nothing has changed. */
static int slot_table_reserve(struct slot_table *t)
{
	uint32_t size = t->size ? 2 * t->size : FIRST_SIZE;
	void **entries;
	uint8_t *tags;

	if (size > t->max)
		return -ENOMEM;
	entries = realloc(t->entries, size * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	t->entries = entries;
	tags = realloc(t->tags, size);
	if (!tags)
		return -ENOMEM;
	t->tags = tags;
	memset(&entries[t->size], 0, (size - t->size) * sizeof(*entries));
	t->size = size;
	return 0;
}

/** The next free index in a circle without 0; 0: there is none. */
static uint32_t find_free(const struct slot_table *t)
{
	uint32_t at = t->next;

	for (uint32_t i = 1; i < t->size; i++, at++) {
		if (at >= t->size)
			at = 1;
		if (!t->entries[at])
			return at;
	}
	return 0;
}

int slot_init(struct slot_table *t, struct rng *rng, void *entry, struct slot *out)
{
	uint32_t index = find_free(t);

	if (!index) {
		index = t->size ? t->size : 1;
		if (slot_table_reserve(t))
			return -ENOMEM;
	}
	t->next = index + 1;
	if (index >= t->fresh) {
		t->fresh = index + 1;
		t->tags[index] = (uint8_t)rng_u32(rng);
	}
	t->tags[index]++;
	t->entries[index] = entry;
	*out = (struct slot){.index = index, .tag = t->tags[index]};
	return 0;
}

void slot_fini(struct slot_table *t, struct slot used)
{
	t->entries[used.index] = NULL;
	t->tags[used.index] = used.tag;
}
