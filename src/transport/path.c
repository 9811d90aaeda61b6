/* SPDX-License-Identifier: BSD-2-Clause */
/* Resolves an address vector to addresses and UDP source port, and seals packets for such paths. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"
#include "base/words.h"
#include "transport/ep.h"
#include "transport/guard.h"
#include "transport/path.h"
#include "wire/ip.h"

enum {
	SPORT_BASE = 0xc000, /* RoCEv2 source ports: 0xc000-0xffff (IBTA annex A17.6) */
	SPORT_MASK = 0x3fff,
	FLOW_LABEL_MASK = 0xfffff,
	DEFAULT_HOP_LIMIT = 64,
};

/** Entropy of a flow label folded into a port, as the kernel does it. */
static uint16_t sport_of_flow_label(uint32_t fl)
{
	return (uint16_t)(SPORT_BASE | ((fl & SPORT_MASK) ^ (fl >> 14)));
}

uint16_t path_sport_connected(uint32_t flow_label, uint32_t lqpn, uint32_t rqpn)
{
	uint64_t v;

	if (flow_label)
		return sport_of_flow_label(flow_label & FLOW_LABEL_MASK);
	v = (uint64_t)lqpn * rqpn;
	v ^= v >> 20;
	v ^= v >> 40;
	return sport_of_flow_label((uint32_t)v & FLOW_LABEL_MASK);
}

uint16_t path_sport_datagram(uint32_t flow_label, uint32_t lqpn)
{
	if (flow_label)
		return sport_of_flow_label(flow_label & FLOW_LABEL_MASK);
	return (uint16_t)(SPORT_BASE + ((lqpn * 0x61c88647u) >> 18));
}

int rocemu_path_resolve(const struct rocemu_ep *ep, const struct ibv_ah_attr *attr,
			struct rocemu_path *path)
{
	unsigned index = attr->grh.sgid_index;

	if (!attr->is_global || index >= ROCEMU_MAX_GID)
		return -EINVAL;
	if (!ep->gid_valid[index])
		return -ENODATA;
	*path = (struct rocemu_path){
		.sgid = ep->gids[index],
		.sgid_index = (uint8_t)index,
		.flow_label = attr->grh.flow_label & FLOW_LABEL_MASK,
		.tclass = attr->grh.traffic_class,
		.hop_limit = attr->grh.hop_limit ? attr->grh.hop_limit : DEFAULT_HOP_LIMIT,
	};
	memcpy(path->dgid.raw, attr->grh.dgid.raw, sizeof(path->dgid.raw));
	path->dgid = rocemu_gid_on_wire(&path->dgid);
	if (rocemu_gid_is_ipv4(&path->sgid) != rocemu_gid_is_ipv4(&path->dgid))
		return -EINVAL;
	path->sport = path_sport_datagram(path->flow_label, 0);
	return 0;
}

static struct rocemu_icrc_ctx icrc_ctx(const struct rocemu_tx *t, uint16_t ip_id)
{
	return (struct rocemu_icrc_ctx){
		.src = t->path->sgid,
		.dst = t->path->dgid,
		.sport = t->path->sport,
		.dport = ROCEMU_UDP_PORT,
		.ip_id = ip_id,
		.ip_frag = IP_FLAG_DF,
	};
}

void rocemu_ep_seal_copy(struct rocemu_ep *ep, struct rocemu_tx *t, const uint8_t *packet,
			 uint16_t ip_id)
{
	const struct rocemu_icrc_ctx ctx = icrc_ctx(t, ip_id);
	size_t pad = (size_t)t->trailer_len - ROCEMU_ICRC_LEN;

	put_le32(t->trailer + pad, icrc_memo_compute(&ep->icrc_sent, &ctx, packet,
						     t->hdr_len + t->payload_len + pad));
}

void rocemu_tx_seal(struct rocemu_tx *t, uint16_t ip_id)
{
	const struct rocemu_icrc_ctx ctx = icrc_ctx(t, ip_id);
	size_t pad = (size_t)t->trailer_len - ROCEMU_ICRC_LEN;

	put_le32(t->trailer + pad,
		 rocemu_icrc(&ctx, t->hdr, t->hdr_len, t->iov, t->niov, t->trailer, pad));
}

/* ---- payload whose memory may be missing ---- */

struct tx_work {
	struct rocemu_tx *t;
	uint8_t *copy;
	uint16_t ip_id;
};

HOT GUARDED_WORK static void flatten(void *arg)
{
	const struct tx_work *w = arg;
	struct rocemu_tx *t = w->t;
	size_t at = 0;

	for (unsigned i = 0; i < t->niov; i++) {
		words_load(w->copy + at, t->iov[i].iov_base, t->iov[i].iov_len);
		at += t->iov[i].iov_len;
	}
	t->niov = at > 0;
	t->iov[0] = (struct iovec){.iov_base = w->copy, .iov_len = at};
}

void rocemu_tx_flatten(struct rocemu_tx *t, uint8_t *copy)
{
	flatten(&(struct tx_work){.t = t, .copy = copy});
}

static void seal(void *arg)
{
	const struct tx_work *w = arg;

	rocemu_tx_seal(w->t, w->ip_id);
}

static bool run(struct rocemu_ep *ep, void (*what)(void *), struct tx_work *w)
{
	const struct rocemu_tx *t = w->t;

	if (likely(guard_run(what, w, t->iov, t->niov)))
		return true;
	for (unsigned i = 0; i < t->niov; i++)
		mr_missing(ep->mrs, t->iov[i].iov_base, t->iov[i].iov_len);
	return false;
}

HOT bool rocemu_ep_flatten(struct rocemu_ep *ep, struct rocemu_tx *t, uint8_t *copy)
{
	struct tx_work w = {.t = t, .copy = copy};

	if (t->own) {
		rocemu_tx_flatten(t, copy);
		return true;
	}
	if (likely(run(ep, flatten, &w)))
		return true;
	memset(copy, 0, t->payload_len);
	t->niov = 1;
	t->iov[0] = (struct iovec){.iov_base = copy, .iov_len = t->payload_len};
	return false;
}

bool rocemu_ep_seal(struct rocemu_ep *ep, struct rocemu_tx *t, uint16_t ip_id)
{
	struct tx_work w = {.t = t, .ip_id = ip_id};

	return run(ep, seal, &w);
}
