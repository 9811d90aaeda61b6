/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of IDs, and the vendors' connection options (ECE). */
#include <endian.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/resolve.h"

static int set_tos(struct rcm_id *id, const void *value)
{
	id->tos = *(const uint8_t *)value;
	id->path_rec.traffic_class = id->tos;
	return 0;
}

static int set_ack_timeout(struct rcm_id *id, const void *value)
{
	enum { ACK_TIMEOUT_MAX = 31 };
	uint8_t timeout = *(const uint8_t *)value;

	if (timeout > ACK_TIMEOUT_MAX || rcm_id_is_ud(id))
		return REFUSE(-EINVAL, 0,
			      "rdma_set_option ACK_TIMEOUT: the value is %u: it must be 31 at "
			      "most, and the ID not UD: lower it",
			      timeout);
	id->ack_timeout = timeout;
	id->ack_timeout_set = true;
	return 0;
}

static int get_int(const void *value)
{
	int n;

	memcpy(&n, value, sizeof(n));
	return n;
}

/* These two affect binding, so they must be set before bind. */
static int set_reuseaddr(struct rcm_id *id, const void *value)
{
	if (id->state != RCM_IDLE)
		return REFUSE(-EINVAL, 0,
			      "rdma_set_option REUSEADDR: the ID is in state %d: the option must "
			      "be set before binding: set it before rdma_bind_addr()",
			      (int)id->state);
	id->reuseaddr = get_int(value) != 0;
	return 0;
}

static int set_afonly(struct rcm_id *id, const void *value)
{
	if (id->state != RCM_IDLE)
		return REFUSE(-EINVAL, 0,
			      "rdma_set_option AFONLY: the ID is in state %d: the option must be "
			      "set before binding: set it before rdma_bind_addr()",
			      (int)id->state);
	id->afonly = get_int(value) != 0;
	return 0;
}

static int set_id_option(struct rcm_id *id, int name, const void *value, size_t len)
{
	static const struct {
		size_t len;
		int (*set)(struct rcm_id *id, const void *value);
	} options[] = {
		[RDMA_OPTION_ID_TOS] = {sizeof(uint8_t), set_tos},
		[RDMA_OPTION_ID_REUSEADDR] = {sizeof(int), set_reuseaddr},
		[RDMA_OPTION_ID_AFONLY] = {sizeof(int), set_afonly},
		[RDMA_OPTION_ID_ACK_TIMEOUT] = {sizeof(uint8_t), set_ack_timeout},
	};

	if (name < 0 || (size_t)name >= ARRAY_LEN(options))
		return -ENOSYS;
	if (len != options[name].len)
		return REFUSE(-EINVAL, 0,
			      "rdma_set_option: optlen is %zu: option %d must have %zu bytes: pass "
			      "that length",
			      len, name, options[name].len);
	return options[name].set(id, value);
}

/* A path set by the program: only the members that RoCE uses are taken. */
static int set_path(struct rcm_id *id, const void *value, size_t len)
{
	struct ibv_path_data data;
	uint8_t mtu;
	int err;

	if (len == 0 || len % sizeof(data) != 0)
		return REFUSE(-EINVAL, 0,
			      "rdma_set_option IB_PATH: optlen is %zu: it must be a multiple of "
			      "sizeof(struct ibv_path_data): pass one at least",
			      len);
	memcpy(&data, value, sizeof(data));
	err = rcm_resolve_route(id);
	if (err)
		return err;
	mtu = data.path.mtu & 0x3f;
	if (mtu >= IBV_MTU_256 && mtu < id->path_rec.mtu)
		id->path_rec.mtu = mtu;
	id->tos = data.path.tclass ? data.path.tclass : id->tos;
	id->path_rec.traffic_class = id->tos;
	if (data.path.packetlifetime & 0x3f)
		id->path_rec.packet_life_time = MIN(data.path.packetlifetime & 0x3f, 30);
	return 0;
}

int rdma_set_option(struct rdma_cm_id *base, int level, int optname, void *optval, size_t optlen)
{
	struct rcm_id *id = rcm_id_of(base);
	int err;

	if (!base || !optval)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_set_option: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	switch (level) {
	case RDMA_OPTION_ID:
		return rcm_ret(set_id_option(id, optname, optval, optlen));
	case RDMA_OPTION_IB:
		if (optname != RDMA_OPTION_IB_PATH)
			return rcm_ret(-ENOSYS);
		err = set_path(id, optval, optlen);
		return err ? rcm_ret(err) : rcm_sync_wait(id);
	default:
		return rcm_ret(-ENOSYS);
	}
}

/*
 * Vendors' options are for QPs that the program manages itself. QPs created through an ID are of
 * emulated devices, which have no options: their requests offer none, and a peer's are ignored.
 */

int rdma_set_local_ece(struct rdma_cm_id *base, struct ibv_ece *ece)
{
	struct rcm_id *id = rcm_id_of(base);

	if (!base || base->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return rcm_ret(REFUSE(
			-EINVAL, 0,
			"rdma_set_local_ece: the ID has a QP, or vendor_id is 0, or comp_mask is "
			"not: ECE must be set before the ID's QP is created: change the call"));
	rcm_lock_take();
	id->local_ece = *ece;
	rcm_lock_drop();
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *base, struct ibv_ece *ece)
{
	if (!base || base->qp || !ece)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_get_remote_ece: the ID is NULL or has a QP: ECE is "
				      "read from an ID without one: change the call"));
	rcm_lock_take();
	*ece = rcm_id_of(base)->remote_ece;
	rcm_lock_drop();
	return 0;
}
