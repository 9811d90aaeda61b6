/* SPDX-License-Identifier: BSD-2-Clause */
/* Identifiers and addresses: made, compared, hashed. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "cm/cm-internal.h"

/* The first word of a hash's input: the kind of the hash. */
enum { OF_ID = 1, OF_ID_ROUND, OF_PEER, OF_CELL };

uint64_t cm_key(const struct cm *cm, uint32_t id)
{
	const uint64_t words[] = {OF_ID, id};

	return prf_hash(&cm->prf, words, 2);
}

uint64_t cm_key_peer(const struct cm *cm, uint32_t number, uint64_t other,
		     const struct rocemu_gid *peer)
{
	const uint64_t words[] = {OF_PEER, number, other, get_be64(peer->raw),
				  get_be64(peer->raw + 8)};

	return prf_hash(&cm->prf, words, 5);
}

/**
 * A port in use on a host is not available to its other users, so messages from QP 1's port are
 * counted apart from those of other ports of the host.
 */
unsigned cm_cell(const struct cm *cm, const struct rocemu_gid *peer, uint16_t sport)
{
	const uint64_t words[] = {OF_CELL, get_be64(peer->raw), get_be64(peer->raw + 8),
				  sport == CM_SPORT || sport == 0};

	return (unsigned)prf_hash(&cm->prf, words, 4) % SHARE_CELLS;
}

static bool id_taken(const struct cm *cm, uint32_t id)
{
	const uint64_t key = cm_key(cm, id);

	if (id == 0)
		return true;
	hash_for_each (c, struct cm_conn, id_link, &cm->by_id, key)
		if (c->local_id == id)
			return true;
	hash_for_each (s, struct cm_sidr, link, &cm->sidrs_active, key)
		if (s->id == id)
			return true;
	return false;
}

/**
 * A permutation under the key (a Feistel network). A peer cannot predict IDs from those of its own
 * connections; and an ID is reused only after all others, when no late message for it can arrive.
 */
uint32_t cm_id_nth(const struct cm *cm, uint32_t n)
{
	enum { ROUNDS = 8, HALF = CM_ID_PREFIX_SHIFT / 2, MASK = (1 << HALF) - 1 };
	uint32_t left = n >> HALF & MASK, right = n & MASK;

	_Static_assert(CM_ID_PREFIX_SHIFT % 2 == 0, "halves are equal");
	for (unsigned i = 0; i < ROUNDS; i++) {
		const uint64_t words[] = {OF_ID_ROUND, i, right};
		uint32_t next = left ^ ((uint32_t)prf_hash(&cm->prf, words, 3) & MASK);

		left = right;
		right = next;
	}
	return left << HALF | right;
}

uint32_t cm_id_next(struct cm *cm)
{
	uint32_t id;

	do {
		id = (uint32_t)cm->cfg.id_prefix << CM_ID_PREFIX_SHIFT | cm_id_nth(cm, cm->next_id);
		cm->next_id = (cm->next_id + 1) % CM_ID_COUNT;
	} while (id_taken(cm, id));
	return id;
}

uint64_t cm_tid_next(struct cm *cm)
{
	return prf_u64(&cm->prf);
}

int cm_fill(uint8_t *to, size_t room, const void *data, size_t len)
{
	if (len > room)
		return -EMSGSIZE;
	if (len > 0)
		memcpy(to, data, len);
	return 0;
}

bool cm_from_peer(const struct xchg *x, const struct cm_addr *from)
{
	return rocemu_gid_equal(&x->addr.dst, &from->src) &&
	       rocemu_gid_equal(&x->addr.src, &from->dst);
}

struct cm_addr cm_addr_back(const struct cm_addr *from)
{
	struct cm_addr back = *from;

	back.src = from->dst;
	back.dst = from->src;
	back.hop_limit = 0;
	return back;
}
