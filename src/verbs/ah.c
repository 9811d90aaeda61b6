/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles, and the sender's address of a UD message. */
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "engine/lane.h"
#include "netdev/netdev.h"
#include "verbs/ah.h"
#include "verbs/context.h"
#include "verbs/fault.h"
#include "verbs/handle.h"
#include "verbs/orphan.h"
#include "verbs/pd.h"
#include "verbs/port.h"
#include "verbs/real.h"

static int find_path(struct lane *lane, struct ibv_ah_attr *attr, struct rocemu_path *path)
	REQUIRES(lane);
static int find_path(struct lane *lane, struct ibv_ah_attr *attr, struct rocemu_path *path)
{
	const int ret = rocemu_path_resolve(lane_ep(lane), attr, path);

	return ret == 0
		       ? lane_find_interface(lane, path)
		       : REFUSE(ret, 0,
				"ibv_create_ah: sgid_index is %u: it must be the index of an entry "
				"of the GID table, of the same address family as dgid: see "
				"ibv_query_gid() or rocemu devices",
				attr->grh.sgid_index);
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *ibpd, struct ibv_ah_attr *attr)
{
	struct vb_context *c = vb_context_of(ibpd->context);
	struct lane *lane;
	struct vb_ah *ah;
	int ret;

	if (!c)
		return REAL_CALL(ibv_create_ah, ibpd, attr);
	/* RoCE has no LIDs: without a GRH there is no destination (IBTA A16.4). */
	if (!attr->is_global || attr->port_num != 1)
		return vb_null(REFUSE(EINVAL, 0,
				      "ibv_create_ah: is_global is %d, port_num %d: RoCE needs a "
				      "GRH and port 1: set both to 1 and fill grh",
				      attr->is_global, attr->port_num));
	ret = vb_fault(c, NULL, FAULT_VERB_CREATE_AH);
	if (ret == 0)
		ret = vb_pd_check(ibpd);
	if (ret < 0)
		return vb_null(-ret);
	if (!vb_take(c, VB_AHS))
		return vb_null(ENOMEM);
	ah = calloc(1, sizeof(*ah));
	lane = c->lanes.lane[0]; /* each has the same addresses */
	lane_lock(lane);
	ret = ah ? find_path(lane, attr, &ah->path) : -ENOMEM;
	lane_unlock(lane);
	if (ret == 0)
		ret = vb_handle_new(c, ah, &ah->base.handle);
	if (ret < 0) {
		vb_give_back(c, VB_AHS);
		free(ah);
		return vb_null(-ret);
	}
	ah->base.context = ibpd->context;
	ah->base.pd = ibpd;
	atomic_fetch_add(&vb_pd_of(ibpd)->refs, 1);
	return &ah->base;
}

int ibv_destroy_ah(struct ibv_ah *ibah)
{
	struct vb_context *c = vb_context_of(ibah->context);
	struct vb_ah *ah = vb_ah_of(ibah);
	int ret;

	if (!c)
		return REAL_CALL(ibv_destroy_ah, ibah);
	if (c->orphan)
		return vb_orphan_free(ah);
	ret = vb_handle_check(c, ibah->handle, ah);
	if (ret < 0)
		return vb_errno(ret);
	vb_handle_free(c, ibah->handle, ah);
	vb_give_back(c, VB_AHS);
	atomic_fetch_sub(&vb_pd_of(ibah->pd)->refs, 1);
	free(ah);
	return 0;
}

/** Reads the sender's address from the 40 bytes before a UD message. */
struct grh_view {
	struct rocemu_gid src, dst;
	uint32_t flow_label;
	uint8_t tclass, hop_limit;
};

/** RoCEv2 over IPv4 puts the IPv4 header at offset 20 and nothing before it (IBTA A17.4.5.1). */
static bool ipv4_header_ok(const uint8_t *ip)
{
	uint32_t sum = 0;

	if (ip[0] != 0x45 || ip[9] != IPPROTO_UDP)
		return false;
	for (unsigned i = 0; i < 20; i += 2)
		sum += get_be16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff || get_be16(ip + 10) == 0;
}

static bool grh_parse(const struct ibv_grh *grh, struct grh_view *v)
{
	const uint8_t *p = (const uint8_t *)grh, *ip = p + 20;

	memset(v, 0, sizeof(*v));
	if (ipv4_header_ok(ip)) {
		v->src.raw[10] = v->src.raw[11] = v->dst.raw[10] = v->dst.raw[11] = 0xff;
		memcpy(v->src.raw + 12, ip + 12, 4);
		memcpy(v->dst.raw + 12, ip + 16, 4);
		v->tclass = ip[1];
		v->hop_limit = ip[8];
		return true;
	}
	if (p[0] >> 4 != 6)
		return false;
	memcpy(v->src.raw, p + 8, 16);
	memcpy(v->dst.raw, p + 24, 16);
	v->flow_label = get_be32(p) & 0xfffff;
	v->tclass = (uint8_t)(get_be16(p) >> 4);
	v->hop_limit = p[7];
	return true;
}

/** The GID table's entry for an address; for a multicast address, the first of the same family. */
static int find_sgid(struct vb_context *c, const struct rocemu_gid *dst)
{
	struct netdev now;

	if (!rocemu_gid_is_multicast(dst))
		return vb_port_find_gid(c, dst);
	vb_port_get(c, &now);
	return netdev_find_family(&now, rocemu_gid_is_ipv4(dst));
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct vb_context *c = vb_context_of(context);
	struct grh_view v;
	int sgid_index;

	if (!c)
		return REAL_CALL(ibv_init_ah_from_wc, context, port_num, wc, grh, attr);
	memset(attr, 0, sizeof(*attr));
	if (port_num != 1 || !(wc->wc_flags & IBV_WC_GRH) || !grh_parse(grh, &v)) {
		errno = REFUSE(EINVAL, 0,
			       "ibv_init_ah_from_wc: port_num is %u, wc_flags 0x%x: port 1, "
			       "IBV_WC_GRH and the 40 bytes of a GRH are needed: "
			       "pass the beginning of the UD receive's buffer",
			       port_num, wc->wc_flags);
		return -1;
	}
	sgid_index = find_sgid(c, &v.dst);
	if (sgid_index < 0) {
		errno = ENOENT;
		return -1;
	}
	attr->sl = wc->sl;
	attr->port_num = port_num;
	attr->is_global = 1;
	memcpy(attr->grh.dgid.raw, v.src.raw, 16);
	attr->grh.sgid_index = (uint8_t)sgid_index;
	attr->grh.flow_label = v.flow_label;
	attr->grh.traffic_class = v.tclass;
	/*
	 * The maximum: the hop limit that remains in the received packet does not show the distance
	 * back.
	 */
	attr->grh.hop_limit = 0xff;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (!vb_context_of(pd->context))
		return REAL_CALL(ibv_create_ah_from_wc, pd, wc, grh, port_num);
	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) < 0)
		return NULL;
	return ibv_create_ah(pd, &attr);
}
