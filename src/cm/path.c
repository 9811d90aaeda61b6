/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Alternate paths: LAP proposes one, APR answers (IBTA 12.8). A repeated LAP is answered again.
 * Some peers use one transaction ID for all LAPs of a connection, so a repeated LAP is recognised
 * by its contents.
 */
#include <errno.h>
#include <string.h>

#include "cm/cm-internal.h"

int cm_lap(struct cm_conn *c, rocemu_ns_t now, const struct rocemu_cm_path *alternate,
	   uint8_t remote_cm_timeout, const void *private_data, size_t len)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_LAP};
	int r;

	if (c->state != CM_ESTABLISHED || c->lap != LAP_NONE || remote_cm_timeout > 31)
		return -EINVAL;
	r = cm_fill(m.lap.private_data, sizeof(m.lap.private_data), private_data, len);
	if (r)
		return r;
	c->lap_tid = m.tid = conn_dreq_tid(c) + ++c->lap_count;
	m.lap.local_comm_id = c->local_id;
	m.lap.remote_comm_id = c->remote_id;
	m.lap.remote_qpn = c->remote_qpn;
	m.lap.remote_cm_timeout = remote_cm_timeout;
	m.lap.alternate = *alternate;
	c->lap = LAP_SENT;
	c->lap_delayed = false;
	xchg_request(&c->x, now, &m, cm_timeout_ns(remote_cm_timeout) + c->life_ns, c->max_retries);
	return 0;
}

int cm_apr(struct cm_conn *c, rocemu_ns_t now, uint8_t status, const void *info, size_t info_len,
	   const void *private_data, size_t len)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_APR, .tid = c->tid};

	(void)now;
	if (c->state != CM_ESTABLISHED || c->lap != LAP_RCVD)
		return -EINVAL;
	if (info_len > sizeof(m.apr.info) || len > sizeof(m.apr.private_data))
		return -EMSGSIZE;
	cm_fill(m.apr.info, sizeof(m.apr.info), info, info_len);
	cm_fill(m.apr.private_data, sizeof(m.apr.private_data), private_data, len);
	m.apr.local_comm_id = c->local_id;
	m.apr.remote_comm_id = c->remote_id;
	m.apr.status = status;
	m.apr.info_len = (uint8_t)info_len;
	c->lap = LAP_NONE;
	xchg_answer(&c->x, &m);
	return 0;
}

/** FNV-1a of the fields that distinguish LAPs; 0 is reserved for "none". */
static uint64_t sum_of(const struct rocemu_cm_msg *m)
{
	uint8_t mad[ROCEMU_MAD_LEN];
	uint64_t sum = 0xcbf29ce484222325u;

	rocemu_cm_encode(m, mad);
	for (unsigned i = 0; i < sizeof(mad); i++)
		sum = (sum ^ mad[i]) * 0x100000001b3u;
	return sum ? sum : 1;
}

/** Answer without the consumer, and without disturbing what is kept for it. */
static void apr_stray(struct cm *cm, const struct cm_addr *from, const struct rocemu_cm_msg *m,
		      uint8_t status)
{
	struct rocemu_cm_msg apr = {
		.attr_id = ROCEMU_CM_APR,
		.tid = m->tid,
		.apr =
			{
				.local_comm_id = m->lap.remote_comm_id,
				.remote_comm_id = m->lap.local_comm_id,
				.status = status,
			},
	};

	cm_answer_stray(cm, from, &apr);
}

enum cm_drop conn_input_lap(struct cm *cm, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from)
{
	struct cm_conn *c = conn_find(cm, m->lap.remote_comm_id);
	uint64_t sum = sum_of(m);
	struct event *e;

	if (!c || c->remote_id != m->lap.local_comm_id) {
		apr_stray(cm, from, m, ROCEMU_CM_APR_COMM_ID);
		return CM_DROP_UNKNOWN_ID;
	}
	if (!cm_from_peer(&c->x, from))
		return CM_DROP_ADDRESS;
	/*
	 * Proposals may cross; the peer's is dropped until the local one is answered: the peer
	 * sends it again.
	 */
	if (c->state != CM_ESTABLISHED || c->lap == LAP_SENT)
		return CM_DROP_STATE;
	if (m->lap.remote_qpn != c->local_qpn) {
		apr_stray(cm, from, m, ROCEMU_CM_APR_QPN_EECN);
		return CM_DROP_UNSUPPORTED;
	}
	if (sum == c->lap_sum) {
		xchg_answer_again(&c->x, c->lap == LAP_RCVD ? ROCEMU_CM_MRA : ROCEMU_CM_APR);
		return CM_DROP_DUPLICATE;
	}
	if (c->lap == LAP_RCVD)
		return CM_DROP_STATE;
	if (!cm->cfg.lap_events) {
		apr_stray(cm, from, m, ROCEMU_CM_APR_UNSUPPORTED);
		return CM_DROP_NONE;
	}
	e = event_new();
	if (!e)
		return CM_DROP_NO_MEMORY;
	c->lap = LAP_RCVD;
	c->lap_sum = sum;
	c->tid = m->tid;
	event_post(e, CM_EV_LAP, &c->x, m, from);
	return CM_DROP_NONE;
}

enum cm_drop conn_input_apr(struct cm_conn *c, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from)
{
	struct event *e;

	if (c->state != CM_ESTABLISHED)
		return CM_DROP_STATE;
	if (c->lap != LAP_SENT || m->tid != c->lap_tid)
		return CM_DROP_DUPLICATE;
	e = event_new();
	if (!e)
		return CM_DROP_NO_MEMORY;
	c->lap = LAP_NONE;
	xchg_stop(&c->x);
	event_post(e, CM_EV_APR, &c->x, m, from);
	return CM_DROP_NONE;
}
