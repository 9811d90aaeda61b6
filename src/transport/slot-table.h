/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects by small numbers that a peer names: memory by its keys, shared receive queues of XRC by
 * theirs. An object's slot is an index and a tag; the tag changes each time an index is used again,
 * so that an old number is not mistaken for a new object. How both make up the number is the
 * user's.
 */
#ifndef TRANSPORT_SLOT_TABLE_H
#define TRANSPORT_SLOT_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

struct slot_table {
	void **entries; /* owned array by index; the entries are the user's */
	uint8_t *tags;	/* owned, by index: the last one that was used */
	uint32_t size;	/* of both */
	uint32_t max;	/* no more than that; a power of two, 64 at least */
	uint32_t next;	/* where the search for a free index starts */
	uint32_t fresh; /* indices from here on were never used */
};

struct slot {
	uint32_t index;
	uint8_t tag;
};

void slot_table_init(struct slot_table *t, uint32_t max);
/** Of what is still in the table, only the user can know what to do with it. */
void slot_table_fini(struct slot_table *t);

/**
 * Put an object into the table. Its index is never 0, so that number 0 is nobody's; an index that
 * became free stays so for as long as there are others. The first tag of an index is random.
 * @return 0; -ENOMEM: also when all of max are in use.
 */
int slot_init(struct slot_table *t, struct rng *rng, void *entry, struct slot *out);
/** Take it out again; used says which tag its number had in the end. */
void slot_fini(struct slot_table *t, struct slot used);

/** The object at an index, which may be any number, or NULL. Below each packet's key check. */
static inline void *slot_at(const struct slot_table *t, uint32_t index)
{
	return index < t->size ? t->entries[index] : NULL;
}

#endif
