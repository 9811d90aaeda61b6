/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-mad.h"

#include <stddef.h>
#include <string.h>

bool gsi_mad_service(const struct rocemu_cm_msg *m, uint64_t *service_id)
{
	switch (m->attr_id) {
	case ROCEMU_CM_REQ:
		*service_id = m->req.service_id;
		return true;
	case ROCEMU_CM_SIDR_REQ:
		*service_id = m->sidr_req.service_id;
		return true;
	default:
		return false;
	}
}

/*
 * Each message begins with its sender's ID, and in most the receiver's follows: any member of the
 * union reads them.
 */
#define IDS_FIRST(msg)                                                                \
	_Static_assert(offsetof(struct rocemu_cm_##msg, local_comm_id) == 0 &&        \
			       offsetof(struct rocemu_cm_##msg, remote_comm_id) == 4, \
		       "")
IDS_FIRST(mra);
IDS_FIRST(rej);
IDS_FIRST(rep);
IDS_FIRST(rtu);
IDS_FIRST(dreq);
IDS_FIRST(drep);
IDS_FIRST(lap);
IDS_FIRST(apr);

uint32_t gsi_mad_sender_id(const struct rocemu_cm_msg *m)
{
	return m->attr_id == ROCEMU_CM_SIDR_REP ? 0 : m->rtu.local_comm_id;
}

uint32_t gsi_mad_receiver_id(const struct rocemu_cm_msg *m)
{
	if (m->attr_id == ROCEMU_CM_REQ || m->attr_id == ROCEMU_CM_SIDR_REQ)
		return 0;
	return m->attr_id == ROCEMU_CM_SIDR_REP ? m->sidr_rep.request_id : m->rtu.remote_comm_id;
}

uint32_t gsi_mad_sender_qpn(const struct rocemu_cm_msg *m)
{
	switch (m->attr_id) {
	case ROCEMU_CM_REQ:
		return m->req.local_qpn;
	case ROCEMU_CM_REP:
		return m->rep.local_qpn;
	case ROCEMU_CM_SIDR_REP:
		return m->sidr_rep.qpn;
	default:
		return 0;
	}
}

bool gsi_mad_answer(const struct rocemu_cm_msg *m, struct rocemu_cm_msg *answer)
{
	uint32_t theirs = gsi_mad_sender_id(m), ours = gsi_mad_receiver_id(m);

	memset(answer, 0, sizeof(*answer));
	answer->tid = m->tid;
	switch (m->attr_id) {
	case ROCEMU_CM_REQ:
		answer->attr_id = ROCEMU_CM_REJ;
		answer->rej.remote_comm_id = theirs;
		answer->rej.answered = ROCEMU_CM_TO_REQ;
		answer->rej.reason = ROCEMU_CM_REJ_SERVICE_ID;
		return true;
	case ROCEMU_CM_REP:
		answer->attr_id = ROCEMU_CM_REJ;
		answer->rej.local_comm_id = ours;
		answer->rej.remote_comm_id = theirs;
		answer->rej.answered = ROCEMU_CM_TO_REP;
		answer->rej.reason = ROCEMU_CM_REJ_COMM_ID;
		return true;
	case ROCEMU_CM_DREQ:
		answer->attr_id = ROCEMU_CM_DREP;
		answer->drep.local_comm_id = ours;
		answer->drep.remote_comm_id = theirs;
		return true;
	case ROCEMU_CM_LAP:
		answer->attr_id = ROCEMU_CM_APR;
		answer->apr.local_comm_id = ours;
		answer->apr.remote_comm_id = theirs;
		answer->apr.status = ROCEMU_CM_APR_COMM_ID;
		return true;
	case ROCEMU_CM_SIDR_REQ:
		answer->attr_id = ROCEMU_CM_SIDR_REP;
		answer->sidr_rep.request_id = theirs;
		answer->sidr_rep.status = ROCEMU_CM_SIDR_SERVICE_ID;
		answer->sidr_rep.service_id = m->sidr_req.service_id;
		return true;
	default:
		return false;
	}
}
