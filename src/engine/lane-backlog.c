/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that a transmit socket had no room for. A blocking send would hold the lane's lock until
 * the interface has drained the socket's buffer: no poll, no receive, no timer of the lane for that
 * long. So the lane keeps a copy, takes no further output from its endpoint, and tries again after
 * BACKLOG_RETRY_NS; the order of packets stays.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/lane-internal.h"

enum {
	BACKLOG_RETRY_NS = 100000,
	/*
	 * At least an endpoint's output call, and the packets that impairment releases meanwhile;
	 * more are lost.
	 */
	BACKLOG_MAX = 8192,
};

struct backlog_packet {
	struct list node;
	struct rocemu_path path;
	size_t len;
	uint8_t data[];
};

void lane_tx_invalidate(struct rocemu_tx *t)
{
	for (unsigned i = t->trailer_len - ROCEMU_ICRC_LEN; i < t->trailer_len; i++)
		t->trailer[i] ^= 0xff;
}

void lane_tx_copy(struct lane *l, struct rocemu_tx *t, uint8_t *out)
{
	bool there;

	memcpy(out, t->hdr, t->hdr_len);
	there = rocemu_ep_flatten(l->ep, t, out + t->hdr_len);
	rocemu_tx_seal(t, 0);
	if (unlikely(!there))
		lane_tx_invalidate(t);
	memcpy(out + t->hdr_len + t->payload_len, t->trailer, t->trailer_len);
}

static struct backlog_packet *packet_new(struct lane *l, const struct rocemu_path *path, size_t len)
	REQUIRES(l);
static struct backlog_packet *packet_new(struct lane *l, const struct rocemu_path *path, size_t len)
{
	struct backlog_packet *b = l->tx.nbacklog < BACKLOG_MAX ? malloc(sizeof(*b) + len) : NULL;

	if (!b) {
		l->stats->tx_errors++;
		return NULL;
	}
	list_init(&b->node);
	b->path = *path;
	b->len = len;
	return b;
}

static void add(struct lane *l, struct backlog_packet *b) REQUIRES(l);
static void add(struct lane *l, struct backlog_packet *b)
{
	if (!l->tx.nbacklog++)
		l->tx.retry_at = lane_now() + BACKLOG_RETRY_NS;
	list_append(&l->tx.backlog, &b->node);
	l->stats->tx_backlogged++;
}

void lane_backlog_add(struct lane *l, struct rocemu_tx *const *pkt, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct backlog_packet *b = packet_new(l, pkt[i]->path, rocemu_tx_len(pkt[i]));

		if (!b)
			continue;
		lane_tx_copy(l, pkt[i], b->data);
		add(l, b);
	}
}

void lane_backlog_add_raw(struct lane *l, const struct rocemu_path *path, const uint8_t *data,
			  size_t len)
{
	struct backlog_packet *b = packet_new(l, path, len);

	if (!b)
		return;
	memcpy(b->data, data, len);
	add(l, b);
}

static void backlog_pop(struct lane *l, struct backlog_packet *b) REQUIRES(l);
static void backlog_pop(struct lane *l, struct backlog_packet *b)
{
	list_remove(&b->node);
	l->tx.nbacklog--;
	free(b);
}

bool lane_backlog_flush(struct lane *l, rocemu_ns_t now)
{
	struct list *first;

	if (now < l->tx.retry_at)
		return !l->tx.nbacklog;
	while ((first = list_first(&l->tx.backlog))) {
		struct backlog_packet *b = list_entry(first, struct backlog_packet, node);

		if (!lane_send_try(l, &b->path, b->data, b->len, false)) {
			l->tx.retry_at = now + BACKLOG_RETRY_NS;
			return false;
		}
		backlog_pop(l, b);
	}
	return true;
}

void lane_backlog_drain(struct lane *l)
{
	struct list *first;

	while ((first = list_first(&l->tx.backlog))) {
		struct backlog_packet *b = list_entry(first, struct backlog_packet, node);

		lane_send_try(l, &b->path, b->data, b->len, true);
		backlog_pop(l, b);
	}
}

void lane_backlog_fini(struct lane *l)
{
	list_for_each_safe (it, tmp, &l->tx.backlog)
		free(list_entry(it, struct backlog_packet, node));
	list_init(&l->tx.backlog);
	l->tx.nbacklog = 0;
}
