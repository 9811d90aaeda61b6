/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exit MADs: sent for a connection by the agent when the connection's process dies, so that the
 * peer does not wait for a timeout. Each change of one is reported, so that the agent always has
 * the current one.
 */
#include "base/bytes.h"
#include "cm/cm-internal.h"

bool cm_conn_exit_mad(const struct cm_conn *c, struct cm_mad *mad)
{
	struct rocemu_cm_msg m = {.tid = c->req_tid};

	switch (c->exit) {
	case EXIT_NONE:
		return false;
	case EXIT_REJ_TIMEOUT:
	case EXIT_REJ:
		m.attr_id = ROCEMU_CM_REJ;
		conn_rej_default(
			c, c->exit == EXIT_REJ ? ROCEMU_CM_REJ_CONSUMER : ROCEMU_CM_REJ_TIMEOUT,
			&m.rej);
		break;
	case EXIT_DREQ:
		m.attr_id = ROCEMU_CM_DREQ;
		m.tid = conn_dreq_tid(c);
		m.dreq.local_comm_id = c->local_id;
		m.dreq.remote_comm_id = c->remote_id;
		m.dreq.remote_qpn = c->remote_qpn;
		break;
	case EXIT_DREP:
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

bool cm_next_exit_mad(struct cm *cm, struct cm_exit_mad *exit_mad)
{
	struct list *l = list_first(&cm->exit_mads);
	struct cm_conn *c;

	if (!l)
		return false;
	c = list_entry(l, struct cm_conn, exit_link);
	list_remove(l);
	exit_mad->comm_id = c->local_id;
	exit_mad->present = cm_conn_exit_mad(c, &exit_mad->mad);
	c->exit_reported = exit_mad->present;
	conn_settle(c);
	return true;
}
