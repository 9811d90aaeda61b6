/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/hash.h"

#include <stdlib.h>

enum { BUCKETS_FIRST = 16, CHAIN = 2 /* entries of a bucket, on average */ };

uint64_t hash_bytes(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t x = UINT64_C(0xcbf29ce484222325);

	/* FNV-1a */
	for (size_t i = 0; i < len; i++)
		x = (x ^ p[i]) * UINT64_C(0x100000001b3);
	return x;
}

static struct hash_node **bucket_of(const struct hash *h, uint64_t key)
{
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return h->buckets ? &h->bucket[key >> 32 & (h->buckets - 1)]
			  : (struct hash_node **)(uintptr_t)&h->one;
}

static void put(struct hash *h, struct hash_node *n)
{
	struct hash_node **b = bucket_of(h, n->key);

	n->next = *b;
	*b = n;
}

static void grow(struct hash *h)
{
	const struct hash old = *h;
	const size_t n = old.buckets ? 2 * old.buckets : BUCKETS_FIRST;
	struct hash_node **bucket = calloc(n, sizeof(struct hash_node *));

	if (!bucket)
		return;
	h->bucket = bucket;
	h->buckets = n;
	h->one = NULL;
	for (size_t i = 0; i < MAX(old.buckets, (size_t)1); i++) {
		struct hash_node *next, *e = old.buckets ? old.bucket[i] : old.one;

		for (; e; e = next) {
			next = e->next;
			put(h, e);
		}
	}
	free(old.bucket);
}

void hash_fini(struct hash *h)
{
	free(h->bucket);
	*h = (struct hash){0};
}

void hash_add(struct hash *h, struct hash_node *n, uint64_t key)
{
	if (h->n >= CHAIN * MAX(h->buckets, (size_t)1))
		grow(h);
	n->key = key;
	put(h, n);
	h->n++;
}

void hash_remove(struct hash *h, struct hash_node *n)
{
	struct hash_node **p = bucket_of(h, n->key);

	while (*p != n)
		p = &(*p)->next;
	*p = n->next;
	if (--h->n == 0)
		hash_fini(h);
}

static struct hash_node *with_key(struct hash_node *n, uint64_t key)
{
	while (n && n->key != key)
		n = n->next;
	return n;
}

struct hash_node *hash_find(const struct hash *h, uint64_t key)
{
	return with_key(*bucket_of(h, key), key);
}

struct hash_node *hash_next(const struct hash_node *n)
{
	return with_key(n->next, n->key);
}
