/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries of a context: device and port attributes, GID and P_Key tables. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "engine/lane.h"
#include "netdev/netdev.h"
#include "verbs/context.h"
#include "verbs/device.h"
#include "verbs/dm.h"
#include "verbs/fault.h"
#include "verbs/misc.h"
#include "verbs/newer.h"
#include "verbs/odp.h"
#include "verbs/port.h"
#include "verbs/real.h"

#undef ibv_query_port

enum {
	VENDOR_ID = 0x02726f, /* an OUI with the "locally administered" bit: no vendor's */
	VENDOR_PART_ID = 1,
	PHYS_LINK_UP = 5, /* IBTA 14.2.5.6, PortPhysicalState */
	PHYS_DISABLED = 3,
};

/* device_cap_flags_ex; the kernel's numbers (IB_UVERBS_DEVICE_*), for which verbs.h has no names.
 */
#define CAP_ATOMIC_WRITE (UINT64_C(1) << 40)
#ifdef HAVE_WR_FLUSH
#define CAP_FLUSH                                                                      \
	(UINT64_C(1) << 38) /* global visibility; memory of a process does not persist \
			     */
#define ODP_FLUSH VB_ODP_SUPPORT_FLUSH
#else
#define CAP_FLUSH UINT64_C(0)
#define ODP_FLUSH 0
#endif

/* ---- device ---- */

/**
 * perftest and other programs choose their data path by this number, so a test may set the number
 * of a known adapter.
 */
static uint32_t vendor_part_id(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const char *env = secure_getenv("ROCEMU_VENDOR_PART_ID");
	unsigned long v;
	char *end;

	if (!env || !*env)
		return VENDOR_PART_ID;
	v = strtoul(env, &end, 0);
	if (!*end && v > 0 && v <= UINT32_MAX && *env != '-')
		return (uint32_t)v;
	if (!atomic_flag_test_and_set(&said))
		log_error("ROCEMU_VENDOR_PART_ID=%s: expected a number from 1, such as 4119; %d is "
			  "used",
			  env, VENDOR_PART_ID);
	return VENDOR_PART_ID;
}

static void fill_device_attr(struct vb_context *c, struct ibv_device_attr *a)
{
	memset(a, 0, sizeof(*a));
	snprintf(a->fw_ver, sizeof(a->fw_ver), "%s", ROCEMU_VERSION);
	a->node_guid = ibv_get_device_guid(&c->dev->base);
	a->sys_image_guid = a->node_guid;
	a->max_mr_size = UINT64_MAX;
	a->page_size_cap = 0xfffff000;
	a->vendor_id = VENDOR_ID;
	a->vendor_part_id = vendor_part_id();
	a->max_qp = VB_MAX_QP;
	a->max_qp_wr = (int)c->limits.max_qp_wr;
	a->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
			      IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
			      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
			      IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC;
	a->max_sge = a->max_sge_rd = (int)c->limits.max_sge;
	a->max_cq = VB_LIMIT;
	a->max_cqe = ROCEMU_MAX_CQE;
	a->max_mr = a->max_mw = ROCEMU_MAX_MR; /* together: they share the table of keys */
	a->max_pd = VB_LIMIT;
	a->max_qp_rd_atom = a->max_qp_init_rd_atom = (int)c->limits.max_qp_rd_atom;
	a->max_res_rd_atom = a->max_qp_rd_atom * a->max_qp;
	a->atomic_cap = IBV_ATOMIC_HCA;
	a->max_mcast_grp = ROCEMU_MAX_MCAST_GROUPS;
	a->max_mcast_qp_attach = ROCEMU_MAX_MCAST_QPS;
	a->max_total_mcast_qp_attach = ROCEMU_MAX_MCAST_GROUPS * ROCEMU_MAX_MCAST_QPS;
	a->max_ah = VB_LIMIT;
	a->max_srq = VB_LIMIT;
	a->max_srq_wr = ROCEMU_MAX_WR;
	a->max_srq_sge = ROCEMU_MAX_SGE;
	a->max_pkeys = 1;
	a->local_ca_ack_delay = 15;
	a->phys_port_cnt = 1;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct vb_context *c = vb_context_of(context);
	int ret;

	if (!c)
		return REAL_CALL(ibv_query_device, context, attr);
	ret = vb_fault(c, NULL, FAULT_VERB_QUERY_DEVICE);
	if (ret < 0)
		return vb_errno(ret);
	fill_device_attr(c, attr);
	return 0;
}

static void fill_odp_caps(struct ibv_device_attr_ex *a)
{
	const uint32_t two_sided = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
	const uint32_t all = two_sided | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
			     IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV | ODP_FLUSH |
			     VB_ODP_SUPPORT_ATOMIC_WRITE;

	if (!vb_can_page_in())
		return;
	a->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	a->odp_caps.per_transport_caps.rc_odp_caps = all;
	a->odp_caps.per_transport_caps.uc_odp_caps = two_sided | IBV_ODP_SUPPORT_WRITE;
	a->odp_caps.per_transport_caps.ud_odp_caps = two_sided;
	a->xrc_odp_caps = all;
}

int vb_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex full = {0};
	int ret;

	if ((input && input->comp_mask) || attr_size < sizeof(full.orig_attr))
		return vb_errno(REFUSE(-EINVAL, 0,
				       "ibv_query_device_ex: comp_mask 0x%x, attr_size %zu: there "
				       "is no valid input, and the attributes need %zu bytes at "
				       "least: call the inline function of verbs.h",
				       input ? input->comp_mask : 0, attr_size,
				       sizeof(full.orig_attr)));
	ret = vb_fault(vb_context_of(ctx), NULL, FAULT_VERB_QUERY_DEVICE);
	if (ret < 0)
		return vb_errno(ret);
	fill_device_attr(vb_context_of(ctx), &full.orig_attr);
	fill_odp_caps(&full);
	full.cq_mod_caps.max_cq_count = UINT16_MAX;
	full.cq_mod_caps.max_cq_period = UINT16_MAX;
	full.max_dm_size = VB_DM_MAX;
	full.completion_timestamp_mask = UINT64_MAX;
	full.hca_core_clock = 1000000; /* kHz: timestamps count nanoseconds */
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags | CAP_ATOMIC_WRITE | CAP_FLUSH;
	full.phys_port_cnt_ex = 1;
	memset(attr, 0, attr_size);
	memcpy(attr, &full, MIN(attr_size, sizeof(full)));
	return 0;
}

int vb_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values)
{
	rocemu_ns_t now = lane_now();

	(void)ctx;
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		values->raw_clock.tv_sec = (time_t)(now / NS_PER_S);
		values->raw_clock.tv_nsec = (long)(now % NS_PER_S);
	}
	values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}

/* ---- port ---- */

/* The port's current state; where the interface cannot be queried, the last known state. */
static void port_now(struct vb_context *c, struct netdev *now)
{
	if (vb_port_get(c, now))
		(void)netdev_refresh(now);
}

static void fill_port_attr(struct vb_context *c, struct ibv_port_attr *a)
{
	struct netdev_speed speed;
	struct netdev now;

	/* State and speed are current; the rest is as the lane has it. */
	port_now(c, &now);
	memset(a, 0, sizeof(*a));
	a->state = now.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a->max_mtu = IBV_MTU_4096;
	a->active_mtu = vb_port_mtu(c);
	a->gid_tbl_len = ROCEMU_MAX_GID;
	a->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	a->max_msg_sz = ROCEMU_MAX_MSG;
	a->pkey_tbl_len = 1;
	a->max_vl_num = 1;
	speed = netdev_link_speed(now.speed_mbps);
	a->active_width = speed.width;
	a->active_speed = speed.speed;
	a->phys_state = now.active ? PHYS_LINK_UP : PHYS_DISABLED;
	a->link_layer = IBV_LINK_LAYER_ETHERNET;
	a->flags = IBV_QPF_GRH_REQUIRED;
}

int vb_query_port(struct ibv_context *ctx, uint8_t port_num, struct ibv_port_attr *attr,
		  size_t attr_size)
{
	struct ibv_port_attr full;
	int ret;

	if (port_num != 1)
		return vb_errno(REFUSE(-EINVAL, 0,
				       "ibv_query_port: port_num is %u: the only port is 1: pass 1",
				       port_num));
	ret = vb_fault(vb_context_of(ctx), NULL, FAULT_VERB_QUERY_PORT);
	if (ret < 0)
		return vb_errno(ret);
	fill_port_attr(vb_context_of(ctx), &full);
	memset(attr, 0, attr_size);
	memcpy(attr, &full, MIN(attr_size, sizeof(full)));
	return 0;
}

/**
 * The link's speed in units of 100 Mb/s; where the interface does not report it, derived from
 * ibv_query_port()'s values.
 */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
{
	struct vb_context *c = vb_context_of(context);
	struct netdev now;
	struct netdev_speed s;
	unsigned mbps;

	if (!c) {
#ifdef HAVE_IBV_QUERY_PORT_SPEED
		return REAL_CALL(ibv_query_port_speed, context, port_num, port_speed);
#else
		return REFUSE(EOPNOTSUPP, 0,
			      "ibv_query_port_speed: the device is the system's, whose libibverbs "
			      "has no such call: "
			      "use ibv_query_port()");
#endif
	}
	if (port_num != 1)
		return vb_errno(
			REFUSE(-EINVAL, 0,
			       "ibv_query_port_speed: port_num is %u: the only port is 1: pass 1",
			       port_num));
	port_now(c, &now);
	s = netdev_link_speed(now.speed_mbps);
	mbps = now.speed_mbps ? now.speed_mbps : s.lanes * s.lane_mbps;
	*port_speed = MAX(mbps / 100, 1u);
	return 0;
}

/**
 * For programs built before verbs_context.query_port: the structure ended before port_cap_flags2.
 */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *port_attr)
{
	if (!vb_context_of(context))
		return REAL_CALL(ibv_query_port, context, port_num, port_attr);
	return vb_query_port(context, port_num, (struct ibv_port_attr *)(void *)port_attr,
			     offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* ---- GIDs ---- */

/** As vb_port_gid(), port number included; an empty entry reads as zeros. */
static int gid_get(struct vb_context *c, uint32_t port_num, uint32_t index, void *gid)
{
	struct rocemu_gid g = {{0}};
	int ret = port_num == 1 ? vb_port_gid(c, index, &g) : -EINVAL;

	memset(gid, 0, sizeof(g));
	if (!ret)
		memcpy(gid, &g, sizeof(g));
	return ret;
}

/*
 * The two old calls cannot report that an entry is empty: it is returned as zeros, of the first
 * type.
 */

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct vb_context *c = vb_context_of(context);
	int ret;

	if (!c)
		return REAL_CALL(ibv_query_gid, context, port_num, index, gid);
	ret = vb_fault(c, NULL, FAULT_VERB_QUERY_GID);
	if (ret < 0) {
		errno = -ret;
		return -1;
	}
	if (index < 0 || gid_get(c, port_num, (uint32_t)index, gid->raw) == -EINVAL) {
		errno = REFUSE(EINVAL, 0,
			       "ibv_query_gid: port_num is %u, index %d: port 1 has a GID table "
			       "with the indices 0 to %d: "
			       "see gid_tbl_len of ibv_query_port()",
			       port_num, index, ROCEMU_MAX_GID - 1);
		return -1;
	}
	return 0;
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned index,
		       enum vb_gid_type_sysfs *type)
{
	struct vb_context *c = vb_context_of(context);
	const struct netdev_gid *g;
	struct netdev now;

	if (!c)
		return REAL_CALL(ibv_query_gid_type, context, port_num, index, type);
	if (port_num != 1 || index >= ARRAY_LEN(now.gids)) {
		errno = REFUSE(EINVAL, 0,
			       "ibv_query_gid_type: port_num is %u, index %u: port 1 has a GID "
			       "table with the indices 0 to %d: "
			       "see gid_tbl_len of ibv_query_port()",
			       port_num, index, ROCEMU_MAX_GID - 1);
		return -1;
	}
	vb_port_get(c, &now);
	g = &now.gids[index];
	*type = g->here && !g->v1 ? VB_GID_TYPE_ROCE_V2 : VB_GID_TYPE_IB_ROCE_V1;
	return 0;
}

static void fill_gid_entry(const struct netdev *d, uint32_t index, void *entry, size_t entry_size)
{
	struct ibv_gid_entry full = {
		.gid_index = index,
		.port_num = 1,
		.gid_type = d->gids[index].v1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = d->ifindex,
	};

	memcpy(full.gid.raw, d->gids[index].gid.raw, 16);
	memset(entry, 0, entry_size);
	memcpy(entry, &full, MIN(entry_size, sizeof(full)));
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct vb_context *c = vb_context_of(context);
	struct netdev now;
	int ret;

	if (!c)
		return REAL_CALL(_ibv_query_gid_ex, context, port_num, gid_index, entry, flags,
				 entry_size);
	ret = vb_fault(c, NULL, FAULT_VERB_QUERY_GID);
	if (ret < 0)
		return vb_errno(ret);
	if (flags)
		return vb_errno(REFUSE(
			-EOPNOTSUPP, 0,
			"ibv_query_gid_ex: flags is 0x%x: no flags are defined: pass 0", flags));
	if (port_num != 1 || gid_index >= ARRAY_LEN(now.gids))
		return vb_errno(REFUSE(-EINVAL, 0,
				       "ibv_query_gid_ex: port_num is %u, gid_index %u: port 1 has "
				       "a GID table with the indices 0 to %d: "
				       "see gid_tbl_len of ibv_query_port()",
				       port_num, gid_index, ROCEMU_MAX_GID - 1));
	vb_port_get(c, &now);
	if (!now.gids[gid_index].here)
		return vb_errno(-ENODATA);
	fill_gid_entry(&now, gid_index, entry, entry_size);
	return 0;
}

ssize_t vb_gid_table(const struct netdev *d, void *entries, size_t max_entries, size_t entry_size)
{
	size_t n = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(d->gids); i++) {
		if (!d->gids[i].here)
			continue;
		if (n == max_entries)
			return REFUSE(-EINVAL, 0,
				      "ibv_query_gid_table: max_entries is %zu: the table has more "
				      "entries: pass %d",
				      max_entries, ROCEMU_MAX_GID);
		fill_gid_entry(d, i, (char *)entries + n++ * entry_size, entry_size);
	}
	return (ssize_t)n;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	struct vb_context *c = vb_context_of(context);
	struct netdev now;

	if (!c)
		return REAL_CALL(_ibv_query_gid_table, context, entries, max_entries, flags,
				 entry_size);
	if (flags)
		return REFUSE(-EOPNOTSUPP, 0,
			      "ibv_query_gid_table: flags is 0x%x: no flags are defined: pass 0",
			      flags);
	vb_port_get(c, &now);
	return vb_gid_table(&now, entries, max_entries, entry_size);
}

/* ---- P_Keys ---- */

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	if (!vb_context_of(context))
		return REAL_CALL(ibv_query_pkey, context, port_num, index, pkey);
	if (port_num != 1 || index != 0) {
		errno = REFUSE(EINVAL, 0,
			       "ibv_query_pkey: port_num is %u, index %d: port 1 has one P_Key, "
			       "index 0: pass these",
			       port_num, index);
		return -1;
	}
	*pkey = ROCEMU_PKEY_DEFAULT;
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	if (!vb_context_of(context))
		return REAL_CALL(ibv_get_pkey_index, context, port_num, pkey);
	if (port_num == 1 && pkey == ROCEMU_PKEY_DEFAULT)
		return 0;
	errno = REFUSE(EINVAL, 0,
		       "ibv_get_pkey_index: port_num is %u, pkey 0x%x: port 1 has one P_Key, "
		       "0xffff: pass these",
		       port_num, be16toh(pkey));
	return -1;
}
