/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intrusive hash table that grows with its entries. One that is all zeros is empty. Several entries
 * may have one key, so a look-up compares what the key was made of; the newest comes first. Adding
 * never fails: without memory for more buckets, chains become longer. Removing costs the same in a
 * long chain, and does nothing to an entry that is in no table (all zeros, or removed). A header
 * only, since the transport, which is a library of its own, uses no other part of base.
 *
 * Keys that others choose (peers, users) are made by prf_hash() under a secret key. hash_bytes() is
 * for what only this process or the host's administrator chooses.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/util.h"

struct hash_node {
	struct hash_node *next, *prev; /* of its bucket; NULL: the last, the first */
	uint64_t key;
};

struct hash {
	struct hash_node **bucket; /* owned; NULL: "one" alone */
	struct hash_node *one;
	size_t buckets, n; /* buckets: a power of two, or 0 */
};

enum { HASH_FIRST_SIZE = 16 };

/** A key made of bytes. */
static inline uint64_t hash_bytes(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t x = UINT64_C(0xcbf29ce484222325);

	/* FNV-1a */
	for (size_t i = 0; i < len; i++)
		x = (x ^ p[i]) * UINT64_C(0x100000001b3);
	return x;
}

static inline size_t hash_place(const struct hash *h, uint64_t key)
{
	/* The product's bits depend on those of the factor below them. */
	key ^= key >> 32;
	return (key * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (h->buckets - 1);
}

static inline struct hash_node **hash_bucket(const struct hash *h, uint64_t key)
{
	return h->buckets ? &h->bucket[hash_place(h, key)]
			  : (struct hash_node **)(uintptr_t)&h->one;
}

static inline void hash_put(struct hash *h, struct hash_node *n)
{
	struct hash_node **b = hash_bucket(h, n->key);

	n->prev = NULL;
	n->next = *b;
	if (n->next)
		n->next->prev = n;
	*b = n;
}

/** The last ones first, so that they stay behind newer ones. */
static inline void hash_put_chain(struct hash *h, struct hash_node *n)
{
	struct hash_node *prev;

	while (n && n->next)
		n = n->next;
	for (; n; n = prev) {
		prev = n->prev;
		hash_put(h, n);
	}
}

/** Not inlined: in the transport, functions of such names alone allocate. */
static __attribute__((noinline, unused)) void hash_resize(struct hash *h, size_t buckets)
{
	const struct hash old = *h;
	struct hash_node **bucket = calloc(buckets, sizeof(struct hash_node *));

	if (!bucket)
		return;
	h->bucket = bucket;
	h->buckets = buckets;
	h->one = NULL;
	for (size_t i = 0; i < MAX(old.buckets, (size_t)1); i++)
		hash_put_chain(h, old.buckets ? old.bucket[i] : old.one);
	free(old.bucket);
}

/** Empty it, and free its own memory. Not inlined: see hash_resize(). */
static __attribute__((noinline, unused)) void hash_fini(struct hash *h)
{
	free(h->bucket);
	*h = (struct hash){0};
}

/** n is in no table. */
static inline void hash_add(struct hash *h, struct hash_node *n, uint64_t key)
{
	if (unlikely(h->n >= MAX(h->buckets, (size_t)1)))
		hash_resize(h, h->buckets ? 2 * h->buckets : HASH_FIRST_SIZE);
	n->key = key;
	hash_put(h, n);
	h->n++;
}

/** n is in h or in no table. With the last entry goes the table's own memory. */
static inline void hash_remove(struct hash *h, struct hash_node *n)
{
	struct hash_node **b = hash_bucket(h, n->key);

	if (n->prev)
		n->prev->next = n->next;
	else if (*b == n)
		*b = n->next;
	else
		return;
	if (n->next)
		n->next->prev = n->prev;
	n->next = n->prev = NULL;
	if (--h->n == 0)
		hash_fini(h);
}

static inline struct hash_node *hash_with_key(struct hash_node *n, uint64_t key)
{
	while (n && n->key != key)
		n = n->next;
	return n;
}

/** The first entry with that key, and the next one; NULL: there is none. */
static inline struct hash_node *hash_find(const struct hash *h, uint64_t key)
{
	return hash_with_key(*hash_bucket(h, key), key);
}

static inline struct hash_node *hash_next(const struct hash_node *n)
{
	return hash_with_key(n->next, n->key);
}

/** The entry after n, in no order; after NULL: the first one. NULL: there is none. */
static inline struct hash_node *hash_after(const struct hash *h, const struct hash_node *n)
{
	struct hash_node *next = n ? n->next : h->one;
	size_t i = n && h->buckets ? hash_place(h, n->key) + 1 : 0;

	for (; !next && i < h->buckets; i++)
		next = h->bucket[i];
	return next;
}

static inline void *hash_entry_at(struct hash_node *n, size_t offset)
{
	return n ? (char *)n - offset : NULL;
}

#define hash_entry(n, type, member) ((type *)hash_entry_at(n, offsetof(type, member)))
/** Each entry with that key. A body that removes it has to leave the loop. */
#define hash_for_each(e, type, member, h, key)                         \
	for (type *e = hash_entry(hash_find(h, key), type, member); e; \
	     e = hash_entry(hash_next(&e->member), type, member))

/** Each entry; the loop's body may remove it. */
#define hash_for_all(e, type, member, h)                                                  \
	for (type *e = hash_entry(hash_after(h, NULL), type, member), *e##_next;          \
	     e && (e##_next = hash_entry(hash_after(h, &e->member), type, member), true); \
	     e = e##_next)

#endif
