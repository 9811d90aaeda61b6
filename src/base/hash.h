/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intrusive hash table that grows with its entries. One that is all zeros is empty. Several entries
 * may have one key, so a look-up compares what the key was made of. Adding never fails: without
 * memory for more buckets, chains become longer.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

struct hash_node {
	struct hash_node *next; /* of its bucket */
	uint64_t key;
};

struct hash {
	struct hash_node **bucket; /* owned; NULL: "one" alone */
	struct hash_node *one;
	size_t buckets, n; /* buckets: a power of two, or 0 */
};

/** A key made of bytes. */
uint64_t hash_bytes(const void *data, size_t len);

/** n is in no table. */
void hash_add(struct hash *h, struct hash_node *n, uint64_t key);

/** n is in h. With the last entry goes the table's own memory. */
void hash_remove(struct hash *h, struct hash_node *n);

/** The first entry with that key, and the next one; NULL: there is none. */
struct hash_node *hash_find(const struct hash *h, uint64_t key);
struct hash_node *hash_next(const struct hash_node *n);

/** Empty it, and free its own memory. */
void hash_fini(struct hash *h);

#define hash_entry_(n, type, member) ((n) ? container_of(n, type, member) : (type *)NULL)
/** Each entry with that key. A body that removes it has to leave the loop. */
#define hash_for_each(e, type, member, h, key)                          \
	for (type *e = hash_entry_(hash_find(h, key), type, member); e; \
	     e = hash_entry_(hash_next(&e->member), type, member))

#endif
