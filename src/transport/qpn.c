/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/qpn.h"

#include <string.h>

#include "base/util.h"

static uint32_t index_at(const struct qpns *s, uint32_t place)
{
	const uint16_t set = s->order[place % QPN_COUNT];

	return set ? set - 1u : (s->first_index + place) % QPN_COUNT;
}

static void set_index(struct qpns *s, uint32_t place, uint32_t index)
{
	s->order[place % QPN_COUNT] = (uint16_t)(index + 1);
}

/** The first two and the last are not used: in slot 0 they are QP 0 and QP 1, in the last slot the
 * multicast QPN, and every endpoint has as many. */
static bool is_used(uint32_t index)
{
	return index >= 2 && index != QPN_COUNT - 1;
}

void qpn_init(struct qpns *s, uint16_t first_index)
{
	s->first_index = first_index % QPN_COUNT;
	s->next = 0;
	s->left = QPN_COUNT;
	memset(s->order, 0, sizeof(s->order));
}

int qpn_take(struct qpns *s, struct prf *prf)
{
	uint32_t index;

	do {
		uint32_t block = MIN(QPN_BLOCK - s->next % QPN_BLOCK, s->left), other;

		if (!block)
			return -1;
		other = s->next + prf_below(prf, block);
		index = index_at(s, other);
		set_index(s, other, index_at(s, s->next));
		s->next++;
		s->left--;
	} while (!is_used(index));
	return (int)index;
}

void qpn_give_back(struct qpns *s, uint32_t index)
{
	set_index(s, s->next + s->left++, index);
}
