/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups. As with a hardware RNIC, attaching selects the groups whose packets a QP gets.
 * It also joins the group on the network, because the receiving socket has to join (on hardware,
 * rdma_cm does this through the kernel). Sending needs no attach or join, so a send-only member
 * does nothing here.
 */
#include <string.h>

#include "base/log.h"
#include "engine/lane.h"
#include "verbs/context.h"
#include "verbs/fault.h"
#include "verbs/qp.h"
#include "verbs/real.h"

int ibv_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct lane *lane;
	struct rocemu_gid group;
	char err[512];
	int ret;

	if (!c)
		return REAL_CALL(ibv_attach_mcast, ibqp, gid,
				 lid); /* rocemu's ports have no LIDs */
	ret = vb_fault(c, NULL, FAULT_VERB_ATTACH_MCAST);
	if (ret == 0)
		ret = vb_qp_check(ibqp);
	if (ret < 0)
		return vb_errno(ret);
	memcpy(group.raw, gid->raw, sizeof(group.raw));
	lane = vb_qp_of(ibqp)->lane;
	lane_lock(lane);
	ret = lane_attach_mcast(lane, vb_qp_of(ibqp)->rqp, &group, err, sizeof(err));
	lane_unlock(lane);
	if (ret < 0 && *err)
		log_error("%s", err);
	if (ret == -EINVAL && !*err)
		why_say(ibqp->qp_num,
			"ibv_attach_mcast QP 0x%x: the QP must be UD and the GID a multicast "
			"address, for IPv6 of another scope than 0 (ff00::, ff10::): change them",
			ibqp->qp_num);
	return vb_errno(ret);
}

int ibv_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct lane *lane;
	struct rocemu_gid group;
	int ret;

	if (!c)
		return REAL_CALL(ibv_detach_mcast, ibqp, gid, lid);
	ret = vb_qp_check(ibqp);
	if (ret < 0)
		return vb_errno(ret);
	memcpy(group.raw, gid->raw, sizeof(group.raw));
	lane = vb_qp_of(ibqp)->lane;
	lane_lock(lane);
	ret = lane_detach_mcast(lane, vb_qp_of(ibqp)->rqp, &group);
	lane_unlock(lane);
	if (ret == -EINVAL)
		why_say(ibqp->qp_num,
			"ibv_detach_mcast QP 0x%x: the QP is not attached to that group: attach it "
			"first",
			ibqp->qp_num);
	return vb_errno(ret);
}
