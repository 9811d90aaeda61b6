/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wills: what is to be sent for a connection when its process dies, so that the peer does not wait
 * for a timeout. Whoever outlives the process (the agent) is told each time that a connection's
 * will becomes another.
 */
#include "base/bytes.h"
#include "cm/cm-internal.h"

bool cm_conn_will(const struct cm_conn *c, struct cm_mad *mad)
{
	struct rocemu_cm_msg m = {.tid = c->req_tid};

	switch (c->will) {
	case WILL_NONE:
		return false;
	case WILL_REJ_TIMEOUT:
	case WILL_REJ:
		m.attr_id = ROCEMU_CM_REJ;
		conn_rej_default(
			c, c->will == WILL_REJ ? ROCEMU_CM_REJ_CONSUMER : ROCEMU_CM_REJ_TIMEOUT,
			&m.rej);
		break;
	case WILL_DREQ:
		m.attr_id = ROCEMU_CM_DREQ;
		m.tid = conn_dreq_tid(c);
		m.dreq.local_comm_id = c->local_id;
		m.dreq.remote_comm_id = c->remote_id;
		m.dreq.remote_qpn = c->remote_qpn;
		break;
	case WILL_DREP:
		m.attr_id = ROCEMU_CM_DREP;
		m.tid = c->tid;
		m.drep.local_comm_id = c->local_id;
		m.drep.remote_comm_id = c->remote_id;
		break;
	}
	rocemu_cm_encode(&m, mad->data);
	mad->addr = c->x.addr;
	return true;
}

bool cm_next_will(struct cm *cm, struct cm_will *will)
{
	struct list *l = list_first(&cm->wills);
	struct cm_conn *c;

	if (!l)
		return false;
	c = list_entry(l, struct cm_conn, will_link);
	list_remove(l);
	will->comm_id = c->local_id;
	will->present = cm_conn_will(c, &will->mad);
	c->will_told = will->present;
	conn_settle(c);
	return true;
}
