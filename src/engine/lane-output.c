/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends the endpoint's output: within the receivers' credits, ECN marked, with injected faults. */
#include "base/util.h"
#include "engine/lane-shm.h"
#include "engine/memfault.h"

/* UC and UD requests wait: check how much their receivers can take. @return false: nothing now. */
static bool give_room(struct lane *l, rocemu_ns_t now) REQUIRES(l);
static bool give_room(struct lane *l, rocemu_ns_t now)
{
	uint64_t room;

	if (!rocemu_ep_wants_send_credits(l->ep))
		return false;
	room = rcvbuf_room(&l->rcvbuf, now);
	if (unlikely(l->shm != NULL))
		room = MIN(room, lane_shm_room(l, now));
	rocemu_ep_set_send_credits(l->ep, room);
	return room > 0;
}

static uint32_t scope_of(const struct lane *l, const struct rocemu_path *path)
{
	for (unsigned i = 0; i < l->ngids; i++)
		if (l->gids[i].index == path->sgid_index)
			return l->gids[i].scope_id;
	return 0;
}

/*
 * Retransmitted packets are sent from a copy; captured ones as well, because the capture reads them
 * once more. @return how many are left, in pkt: a packet whose memory is gone is lost, and the
 * endpoint detects that when it sends again.
 */
static unsigned copy_some(struct lane *l, struct rocemu_tx **pkt, unsigned n) REQUIRES(l);
static unsigned copy_some(struct lane *l, struct rocemu_tx **pkt, unsigned n)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		struct rocemu_tx *t = &l->tx.desc[i];

		pkt[kept] = t;
		if (likely(!t->niov || !(t->again || l->tap)) ||
		    rocemu_ep_flatten(l->ep, t, l->tx.copy + (size_t)i * ROCEMU_MAX_MTU))
			kept++;
	}
	return kept;
}

/* Is there more output, or a completion that waits for output to be sent? */
static bool wants_more(const struct lane *l)
{
	return rocemu_ep_has_output(l->ep) || rocemu_ep_wants_send_credits(l->ep);
}

/* UC and UD packets are being sent: count those that go by UDP. */
static void count_sending(struct lane *l, rocemu_ns_t now, struct rocemu_tx *const *pkt, unsigned n)
	REQUIRES(l);
static void count_sending(struct lane *l, rocemu_ns_t now, struct rocemu_tx *const *pkt, unsigned n)
{
	struct rocemu_tx *other[ROCEMU_OUTPUT_BATCH];

	if (unlikely(l->shm != NULL)) {
		n = lane_shm_others(l, pkt, n, now, other);
		pkt = other;
	}
	if (n && rcvbuf_sending(&l->rcvbuf, scope_of(l, pkt[0]->path), now, pkt, n))
		lane_thread_request(l, LANE_REQ_RCVBUFS);
}

/*
 * The way of packets of one connection that are sent for the first time, if there is nothing more
 * to do with them. @return their route, and they are in pkt; NULL: they take the other way.
 */
static const struct lane_route *common_route(struct lane *l, struct rocemu_tx **pkt, unsigned n)
	REQUIRES(l);
static const struct lane_route *common_route(struct lane *l, struct rocemu_tx **pkt, unsigned n)
{
	struct rocemu_tx *first = l->tx.desc;

	if (unlikely(l->tap || l->held || l->down || !n))
		return NULL;
	for (unsigned i = 0; i < n; i++) {
		struct rocemu_tx *t = &l->tx.desc[i];
		const enum rocemu_service service = rocemu_opcode_service(t->hdr[0]);

		if (t->path != first->path || t->again ||
		    (service != ROCEMU_SVC_RC && service != ROCEMU_SVC_XRC))
			return NULL;
		pkt[i] = t;
	}
	return lane_tx_route(l, first->path, first->lqpn);
}

HOT bool lane_output(struct lane *l, rocemu_ns_t now)
{
	struct rocemu_tx *pkt[ROCEMU_OUTPUT_BATCH];
	const struct lane_route *route;
	unsigned n;

	if (unlikely(l->tx.nbacklog) && !lane_backlog_flush(l, now))
		return false;
	n = rocemu_ep_output(l->ep, now, l->tx.desc, ROCEMU_OUTPUT_BATCH);
	if (!n && !give_room(l, now))
		return false;
	memfault_thread();
	route = common_route(l, pkt, n);
	if (likely(route != NULL)) {
		lane_tx_send_on(l, route, pkt, n);
	} else {
		n = copy_some(l, pkt, n);
		ecn_mark(&l->tx.ecn, pkt, n);
		count_sending(l, now, pkt, n);
		if (unlikely(l->held || l->down))
			lane_impair_send(l, now, pkt, n);
		else
			lane_tx_send(l, pkt, n);
	}
	return wants_more(l) && likely(!l->tx.nbacklog);
}

void lane_output_end(struct lane *l)
{
	rocemu_ep_set_send_credits(l->ep, 0);
}
