/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies from and to memory that others access at the same time: threads of the program, other
 * processes, devices. Like an adapter's, a copy accesses each byte of this memory once, and each
 * naturally aligned word of 2, 4 or 8 bytes in it as a whole. It goes upwards, and the stores of
 * the last words come after all others. memcpy() promises none of this: of 12 bytes it may access
 * those in the middle twice.
 */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WORDS_INLINE static inline __attribute__((always_inline))

/* What is left of a copy. Others access the source if load, else the destination. */
struct words {
	uint8_t *dst;
	const uint8_t *src;
	size_t left;
	const bool load;
};

WORDS_INLINE bool words_is_at(const struct words *w, unsigned bit)
{
	return ((uintptr_t)(w->load ? w->src : w->dst) & bit) != 0;
}

WORDS_INLINE void words_advance(struct words *w, size_t len)
{
	w->dst += len;
	w->src += len;
	w->left -= len;
}

/* One word, aligned where others access it. */
#define WORDS_MOVE(type)                                                                  \
	WORDS_INLINE void words_move_##type(struct words *w)                              \
	{                                                                                 \
		type word;                                                                \
                                                                                          \
		if (w->load) {                                                            \
			word = __atomic_load_n((const type *)(const void *)w->src,        \
					       __ATOMIC_RELAXED);                         \
			memcpy(w->dst, &word, sizeof(word));                              \
		} else {                                                                  \
			memcpy(&word, w->src, sizeof(word));                              \
			__atomic_store_n((type *)(void *)w->dst, word, __ATOMIC_RELEASE); \
		}                                                                         \
		words_advance(w, sizeof(word));                                           \
	}
WORDS_MOVE(uint8_t)
WORDS_MOVE(uint16_t)
WORDS_MOVE(uint32_t)
WORDS_MOVE(uint64_t)
#undef WORDS_MOVE

/* Two words of 8 bytes, aligned as a vector: processors access no less than 8 of its bytes. */
WORDS_INLINE void words_move_two(struct words *w)
{
	typedef uint64_t two_t __attribute__((vector_size(16), may_alias));
	two_t two;

	if (w->load) {
		two = *(const volatile two_t *)(const void *)w->src;
		memcpy(w->dst, &two, sizeof(two));
	} else {
		memcpy(&two, w->src, sizeof(two));
		*(volatile two_t *)(void *)w->dst = two;
	}
	words_advance(w, sizeof(two));
}

WORDS_INLINE void words_copy(struct words w)
{
	/* To a boundary of words, if there is one. */
	if (words_is_at(&w, 1) && w.left >= 1)
		words_move_uint8_t(&w);
	if (words_is_at(&w, 2) && w.left >= 2)
		words_move_uint16_t(&w);
	if (words_is_at(&w, 4) && w.left >= 4)
		words_move_uint32_t(&w);
	if (w.left > 16) {
		if (words_is_at(&w, 8))
			words_move_uint64_t(&w);
		for (; w.left > 64; words_move_two(&w)) {
			words_move_two(&w);
			words_move_two(&w);
			words_move_two(&w);
		}
		if (w.left > 32) {
			words_move_two(&w);
			words_move_two(&w);
		}
		if (w.left > 16)
			words_move_two(&w);
	}
	/* The last words, each store behind the one before. */
	if (w.left > 8)
		words_move_uint64_t(&w);
	if (w.left & 8)
		words_move_uint64_t(&w);
	if (w.left & 4)
		words_move_uint32_t(&w);
	if (w.left & 2)
		words_move_uint16_t(&w);
	if (w.left & 1)
		words_move_uint8_t(&w);
}

/** Copy from memory that others write to. */
WORDS_INLINE void words_load(void *dst, const void *watched, size_t len)
{
	words_copy((struct words){.dst = dst, .src = watched, .left = len, .load = true});
}

/** Copy to memory that others read. */
WORDS_INLINE void words_store(void *watched, const void *src, size_t len)
{
	words_copy((struct words){.dst = watched, .src = src, .left = len, .load = false});
}

#endif
