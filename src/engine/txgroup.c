/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/txgroup.h"

#include <string.h>

#include "base/util.h"
#include "wire/bth.h"
#include "wire/opcode.h"

static bool is_response(const struct rocemu_tx *t)
{
	return opcode_ops(t->hdr[0]) & ROCEMU_OP_RESPONSE;
}

/**
 * Requests whose responses leave with them. @return one of them completes a receive, and the
 * responses would not be in its burst.
 */
static bool answers_early(struct rocemu_tx *const *req, unsigned n,
			  const struct rocemu_tx *response, unsigned max_segments)
{
	const uint32_t len = rocemu_tx_len(req[n - 1]);
	unsigned i = 0;

	while (i < n && !opcode_ends_receive(req[i]->hdr[0]))
		i++;
	if (i == n)
		return false;
	/* The last request shares a burst with the response that follows: see is_acked_last(). */
	if (max_segments == 1 || rocemu_tx_len(response) > len)
		return true;
	if (i == n - 1)
		return false;
	for (i = 0; i < n; i++)
		if (rocemu_tx_len(req[i]) != len)
			return true;
	return n >= max_segments || n * len + rocemu_tx_len(response) > TXGROUP_MAX_BYTES;
}

/* An answer and the ACK of what it answers, mostly: answers_early() of one request. */
static inline void order_two(struct rocemu_tx **pkt, unsigned max_segments)
{
	const bool swapped = is_response(pkt[0]);
	struct rocemu_tx *req = pkt[swapped], *resp = pkt[!swapped];
	const bool early = opcode_ends_receive(req->hdr[0]) &&
			   (max_segments == 1 || rocemu_tx_len(resp) > rocemu_tx_len(req));

	if (swapped != is_response(pkt[1]) && swapped != early) {
		pkt[0] = early ? resp : req;
		pkt[1] = early ? req : resp;
	}
}

HOT static void order_run(struct rocemu_tx **pkt, unsigned n, unsigned max_segments)
{
	struct rocemu_tx *responses[ROCEMU_OUTPUT_BATCH];
	unsigned nreq = 0, nresp = 0;

	for (unsigned i = 0; i < n; i++) {
		if (is_response(pkt[i]))
			responses[nresp++] = pkt[i];
		else
			pkt[nreq++] = pkt[i];
	}
	if (nreq && nresp && answers_early(pkt, nreq, responses[0], max_segments)) {
		memmove(pkt + nresp, pkt, nreq * sizeof(*pkt));
		memcpy(pkt, responses, nresp * sizeof(*pkt));
	} else {
		memcpy(pkt + nreq, responses, nresp * sizeof(*pkt));
	}
}

HOT void txgroup_order(struct rocemu_tx **pkt, unsigned n, unsigned max_segments)
{
	unsigned start = 0;

	for (unsigned i = 1; i <= n; i++) {
		if (i < n && txgroup_same_path(pkt[start]->path, pkt[i]->path))
			continue;
		if (i - start == 2)
			order_two(pkt + start, max_segments);
		else if (i - start > 2)
			order_run(pkt + start, i - start, max_segments);
		start = i;
	}
}

static uint32_t slot_of(const struct rocemu_tx *t)
{
	return bth_dqpn(t->hdr) >> ROCEMU_QPN_INDEX_BITS;
}

/*
 * An ACK after the last request, which may share a burst with it. A burst ends with its first
 * shorter packet, for instance the second packet of a WRITE, which has no RETH. An ACK in a burst
 * of its own would arrive microseconds after the message that answers for its sender.
 */
static bool is_acked_last(const struct rocemu_tx *last, const struct rocemu_tx *ack)
{
	return !is_response(last) && is_response(ack) && slot_of(last) == slot_of(ack) &&
	       rocemu_tx_len(ack) <= rocemu_tx_len(last) &&
	       txgroup_same_path(last->path, ack->path);
}

HOT unsigned txgroup_build(struct rocemu_tx *const *pkt, unsigned n, unsigned max_segments,
			   struct txburst *out)
{
	unsigned bursts = 0;

	for (unsigned i = 0; i < n;) {
		const struct rocemu_tx *head = pkt[i];
		uint32_t seg_len = rocemu_tx_len(head), bytes = seg_len, last = seg_len;
		unsigned count = 1, iov = head->niov + 2u;

		while (i + count < n && count < max_segments && last == seg_len) {
			const struct rocemu_tx *t = pkt[i + count];

			last = rocemu_tx_len(t);
			bytes += last;
			iov += t->niov + 2u;
			if (last > seg_len || bytes > TXGROUP_MAX_BYTES || iov > TXGROUP_MAX_IOV ||
			    slot_of(t) != slot_of(head) || !txgroup_same_path(t->path, head->path))
				break;
			count++;
		}
		if (count > 1 && i + count < n && is_acked_last(pkt[i + count - 1], pkt[i + count]))
			count--;
		out[bursts++] = (struct txburst){
			.first = (uint16_t)i,
			.count = (uint16_t)count,
			.seg_len = (uint16_t)seg_len,
		};
		i += count;
	}
	return bursts;
}
