/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/slot-table.h"

#include <errno.h>
#include <stdlib.h>

enum {
	FIRST_SIZE = 64,
	NUMBER_MASK = (1 << SLOT_NUMBER_BITS) - 1,
};

void slot_table_init(struct slot_table *t, uint32_t max)
{
	*t = (struct slot_table){.max = max};
}

void slot_table_fini(struct slot_table *t)
{
	free(t->entries);
	free(t->numbers);
}

/** Twice the room. -ENOMEM: nothing has changed. */
static int slot_table_reserve(struct slot_table *t)
{
	uint32_t size = t->size ? 2 * t->size : FIRST_SIZE;
	void **entries = calloc(size, sizeof(*entries));
	uint32_t *numbers = calloc(size, sizeof(*numbers));

	if (!entries || !numbers) {
		free(entries);
		free(numbers);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < t->size; i++) {
		uint32_t at = t->numbers[i] & (size - 1);

		if (!t->numbers[i])
			continue; /* never used */
		numbers[at] = t->numbers[i];
		entries[at] = t->entries[i];
	}
	slot_table_fini(t);
	t->entries = entries;
	t->numbers = numbers;
	t->size = size;
	return 0;
}

int slot_init(struct slot_table *t, struct prf *prf, void *entry, uint32_t *number)
{
	uint32_t n, at;

	if (t->count == t->max || (2 * t->count == t->size && slot_table_reserve(t)))
		return -ENOMEM;
	do {
		n = prf_u32(prf) & NUMBER_MASK;
		at = n & (t->size - 1);
	} while (!n || t->entries[at] || t->numbers[at] == n);
	t->entries[at] = entry;
	t->numbers[at] = n;
	t->count++;
	*number = n;
	return 0;
}

void slot_fini(struct slot_table *t, uint32_t number)
{
	t->entries[number & (t->size - 1)] = NULL;
	t->count--;
}
