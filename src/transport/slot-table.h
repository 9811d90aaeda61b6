/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Maps numbers that a peer sends to objects: keys to memory, XRC SRQ numbers to SRQs. A number has
 * 24 bits, is never 0, and cannot be guessed from others: its low bits are a place in the table,
 * which is chosen at random among the free ones, and the bits above are random. So a look-up is one
 * load, and no two objects meet at a place: when the table doubles, each goes to the place given by
 * one more bit of its number. Half of the places stay free, which makes choosing quick and leaves
 * more than 22 bits of each number to chance.
 */
#ifndef TRANSPORT_SLOT_TABLE_H
#define TRANSPORT_SLOT_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/prf.h"

enum { SLOT_NUMBER_BITS = 24 };

struct slot_table {
	void **entries;	   /* owned array by place; the entries are the user's */
	uint32_t *numbers; /* owned, by place: number of its present or last object */
	uint32_t size;	   /* of both; 0 or a power of two */
	uint32_t count;	   /* of entries in use */
	uint32_t max;	   /* of entries, no more than that; a power of two, 32 at least */
};

void slot_table_init(struct slot_table *t, uint32_t max);
/** The user frees objects that are still in the table. */
void slot_table_fini(struct slot_table *t);

/**
 * Put an object into the table: *number is its number, and not that of the last object in its
 * place.
 * @return 0; -ENOMEM: also when there are max.
 */
int slot_init(struct slot_table *t, struct prf *prf, void *entry, uint32_t *number);
/** Remove it. */
void slot_fini(struct slot_table *t, uint32_t number);

/**
 * The only object that may have a number, which may be any, or NULL: the caller compares. Below
 * each packet's key check.
 */
static inline void *slot_at(const struct slot_table *t, uint32_t number)
{
	return t->size ? t->entries[number & (t->size - 1)] : NULL;
}

#endif
