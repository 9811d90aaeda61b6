/* SPDX-License-Identifier: BSD-2-Clause */
/* Dispatches a received MAD to its object by message type and IDs. */
#include <string.h>

#include "cm/cm-internal.h"

enum { MAD_CLASS_VERSION = 2 }; /* offset in the MAD header */

/**
 * A request of another class version: its beginning is the same in all versions, and IBTA defines
 * the answer (12.6.7.2, code 31). Other messages are dropped.
 */
static enum cm_drop version_unsupported(struct cm *cm, const uint8_t *mad,
					const struct cm_addr *from)
{
	uint8_t copy[ROCEMU_MAD_LEN];
	struct rocemu_cm_msg m;

	memcpy(copy, mad, sizeof(copy));
	copy[MAD_CLASS_VERSION] = ROCEMU_CM_CLASS_VERSION;
	if (rocemu_cm_decode(&m, copy, sizeof(copy)) != ROCEMU_MAD_OK)
		return CM_DROP_MALFORMED;
	if (m.attr_id == ROCEMU_CM_REQ)
		cm_rej_stray(cm, from, &m, ROCEMU_CM_REJ_CLASS_VERSION);
	else if (m.attr_id == ROCEMU_CM_SIDR_REQ)
		sidr_rep_stray(cm, from, &m, ROCEMU_CM_SIDR_VERSION);
	return CM_DROP_VERSION;
}

/**
 * Messages after both sides have exchanged IDs: both IDs, and both addresses, must be the
 * connection's.
 */
static enum cm_drop find(const struct cm *cm, uint32_t local_id, uint32_t remote_id,
			 const struct cm_addr *from, struct cm_conn **c)
{
	*c = conn_find(cm, local_id);
	if (!*c || (*c)->remote_id == 0 || (*c)->remote_id != remote_id)
		return CM_DROP_UNKNOWN_ID;
	return cm_from_peer(&(*c)->x, from) ? CM_DROP_NONE : CM_DROP_ADDRESS;
}

#define FIND(member) find(cm, m->member.remote_comm_id, m->member.local_comm_id, from, &c)

static enum cm_drop dispatch(struct cm *cm, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			     const struct cm_addr *from)
{
	struct cm_conn *c;
	enum cm_drop drop;

	switch ((enum rocemu_cm_attr)m->attr_id) {
	case ROCEMU_CM_REQ:
		return conn_input_req(cm, now, m, from);
	case ROCEMU_CM_REP:
		return conn_input_rep(cm, m, from);
	case ROCEMU_CM_REJ:
		return conn_input_rej(cm, now, m, from);
	case ROCEMU_CM_DREQ:
		return conn_input_dreq(cm, now, m, from);
	case ROCEMU_CM_LAP:
		return conn_input_lap(cm, m, from);
	case ROCEMU_CM_SIDR_REQ:
		return sidr_input_req(cm, m, from);
	case ROCEMU_CM_SIDR_REP:
		return sidr_input_rep(cm, m, from);
	case ROCEMU_CM_RTU:
		drop = FIND(rtu);
		return drop ? drop : conn_input_rtu(c, m, from);
	case ROCEMU_CM_MRA:
		return conn_input_mra(cm, now, m, from);
	case ROCEMU_CM_DREP:
		drop = FIND(drep);
		return drop ? drop : conn_input_drep(c, now, m, from);
	case ROCEMU_CM_APR:
		drop = FIND(apr);
		return drop ? drop : conn_input_apr(c, m, from);
	}
	return CM_DROP_MALFORMED;
}

enum cm_drop cm_input(struct cm *cm, rocemu_ns_t now, const uint8_t *mad, size_t len,
		      const struct cm_addr *addr)
{
	struct rocemu_cm_msg m;
	enum cm_drop drop;

	switch (rocemu_cm_decode(&m, mad, len)) {
	case ROCEMU_MAD_OK:
		cm->stats.rcvd[m.attr_id - ROCEMU_CM_REQ]++;
		drop = dispatch(cm, now, &m, addr);
		break;
	case ROCEMU_MAD_CLASS_VERSION:
		drop = version_unsupported(cm, mad, addr);
		break;
	default:
		drop = CM_DROP_MALFORMED;
		break;
	}
	cm->stats.drops[drop]++;
	return drop;
}
