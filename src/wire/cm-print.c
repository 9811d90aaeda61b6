/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints management datagrams: messages of communication management with the fields that identify a
 * connection and that explain failures; of other classes the header.
 */
#include "wire/print.h"

#include <inttypes.h>
#include <string.h>

#include <rocemu/cm.h>

#include "wire/text.h"

static void add_comm_ids(struct text *t, uint32_t local, uint32_t remote)
{
	text_add(t, " local-comm-id 0x%08" PRIx32 " remote-comm-id 0x%08" PRIx32, local, remote);
}

/* With the port, where it is one. */
static void add_service(struct text *t, uint64_t service_id)
{
	enum rocemu_port_space ps;
	uint16_t port;

	text_add(t, " service 0x%" PRIx64, service_id);
	if (rocemu_cm_service_port(service_id, &ps, &port))
		text_add(t, " (%s:%u)", rocemu_port_space_text((uint16_t)ps), port);
}

static void add_cma(struct text *t, uint64_t service_id, const uint8_t *private_data, size_t len)
{
	struct rocemu_cma c;

	if (!rocemu_cm_service_is_ip(service_id) ||
	    rocemu_cma_decode(&c, private_data, len) != ROCEMU_MAD_OK)
		return;
	text_add(t, " from ");
	text_add_gid(t, &c.src);
	text_add(t, " port %u to ", c.sport);
	text_add_gid(t, &c.dst);
}

static void add_answered(struct text *t, uint8_t answered, const char *other)
{
	static const char *const names[] = {"REQ", "REP"};

	text_add(t, " to %s", answered < 2 ? names[answered] : other);
}

static void add_path(struct text *t, const char *what, const struct rocemu_cm_path *p)
{
	text_add(t, " %s ", what);
	text_add_gid(t, &p->local_gid);
	text_add(t, " > ");
	text_add_gid(t, &p->remote_gid);
}

static void add_transport(struct text *t, const struct rocemu_cm_req *m)
{
	static const char *const names[] = {"rc", "uc", "rd"};

	if (m->transport < ROCEMU_CM_EXTENDED)
		text_add(t, " %s", names[m->transport]);
	else if (m->extended_transport == ROCEMU_CM_EXTENDED_XRC)
		text_add(t, " xrc");
	else
		text_add(t, " extended-transport %u", m->extended_transport);
}

/* Vendors' options; most messages have none. */
static void add_ece(struct text *t, const struct rocemu_cm_ece *e)
{
	if (e->vendor_id != 0 || e->options != 0)
		text_add(t, " ece 0x%06" PRIx32 ":0x%08" PRIx32, e->vendor_id, e->options);
}

static void add_req(struct text *t, const struct rocemu_cm_req *m)
{
	static const struct rocemu_gid none;

	text_add(t, " local-comm-id 0x%08" PRIx32, m->local_comm_id);
	add_service(t, m->service_id);
	add_transport(t, m);
	text_add(t, " qpn 0x%" PRIx32 " psn %" PRIu32, m->local_qpn, m->starting_psn);
	if (m->path_mtu >= 1 && m->path_mtu <= 5)
		text_add(t, " mtu %u", 128u << m->path_mtu);
	else
		text_add(t, " mtu-code %u", m->path_mtu);
	text_add(t, " resp-res %u init-depth %u retry %u rnr-retry %u ack-timeout %u",
		 m->responder_resources, m->initiator_depth, m->retry_count, m->rnr_retry_count,
		 m->primary.ack_timeout);
	if (m->srq)
		text_add(t, " srq");
	add_ece(t, &m->ece);
	add_path(t, "path", &m->primary);
	if (!rocemu_gid_equal(&m->alternate.remote_gid, &none))
		add_path(t, "alternate", &m->alternate);
	add_cma(t, m->service_id, m->private_data, sizeof(m->private_data));
}

static void add_rep(struct text *t, const struct rocemu_cm_rep *m)
{
	add_comm_ids(t, m->local_comm_id, m->remote_comm_id);
	text_add(t, " qpn 0x%" PRIx32 " psn %" PRIu32 " resp-res %u init-depth %u rnr-retry %u",
		 m->local_qpn, m->starting_psn, m->responder_resources, m->initiator_depth,
		 m->rnr_retry_count);
	if (m->srq)
		text_add(t, " srq");
	add_ece(t, &m->ece);
}

static void add_sidr_rep(struct text *t, const struct rocemu_cm_sidr_rep *m)
{
	text_add(t, " request-id 0x%08" PRIx32, m->request_id);
	add_service(t, m->service_id);
	text_add(t, " status %u (%s)", m->status, rocemu_cm_sidr_text(m->status));
	if (m->status == ROCEMU_CM_SIDR_VALID)
		text_add(t, " qpn 0x%" PRIx32 " qkey 0x%" PRIx32, m->qpn, m->qkey);
	add_ece(t, &m->ece);
}

static void add_cm(struct text *t, const struct rocemu_cm_msg *m)
{
	text_add(t, "CM %s", rocemu_cm_name(m->attr_id));
	switch ((enum rocemu_cm_attr)m->attr_id) {
	case ROCEMU_CM_REQ:
		add_req(t, &m->req);
		return;
	case ROCEMU_CM_MRA:
		add_comm_ids(t, m->mra.local_comm_id, m->mra.remote_comm_id);
		add_answered(t, m->mra.answered, "LAP");
		text_add(t, " service-timeout %u", m->mra.service_timeout);
		return;
	case ROCEMU_CM_REJ:
		add_comm_ids(t, m->rej.local_comm_id, m->rej.remote_comm_id);
		add_answered(t, m->rej.answered, "other");
		text_add(t, " reason %u (%s)", m->rej.reason, rocemu_cm_rej_text(m->rej.reason));
		return;
	case ROCEMU_CM_REP:
		add_rep(t, &m->rep);
		return;
	case ROCEMU_CM_RTU:
		add_comm_ids(t, m->rtu.local_comm_id, m->rtu.remote_comm_id);
		return;
	case ROCEMU_CM_DREQ:
		add_comm_ids(t, m->dreq.local_comm_id, m->dreq.remote_comm_id);
		text_add(t, " remote-qpn 0x%" PRIx32, m->dreq.remote_qpn);
		return;
	case ROCEMU_CM_DREP:
		add_comm_ids(t, m->drep.local_comm_id, m->drep.remote_comm_id);
		return;
	case ROCEMU_CM_SIDR_REQ:
		text_add(t, " request-id 0x%08" PRIx32, m->sidr_req.request_id);
		add_service(t, m->sidr_req.service_id);
		add_cma(t, m->sidr_req.service_id, m->sidr_req.private_data,
			sizeof(m->sidr_req.private_data));
		return;
	case ROCEMU_CM_SIDR_REP:
		add_sidr_rep(t, &m->sidr_rep);
		return;
	case ROCEMU_CM_LAP:
		add_comm_ids(t, m->lap.local_comm_id, m->lap.remote_comm_id);
		text_add(t, " remote-qpn 0x%" PRIx32, m->lap.remote_qpn);
		add_path(t, "alternate", &m->lap.alternate);
		return;
	case ROCEMU_CM_APR:
		add_comm_ids(t, m->apr.local_comm_id, m->apr.remote_comm_id);
		text_add(t, " status %u (%s)", m->apr.status, rocemu_cm_apr_text(m->apr.status));
		return;
	}
}

size_t print_mad(char *buf, size_t size, const uint8_t *data, size_t len)
{
	struct text t = text_start(buf, size);
	struct rocemu_cm_msg m;
	struct rocemu_mad mad;
	enum rocemu_mad_verdict why = rocemu_cm_decode(&m, data, len);

	if (why == ROCEMU_MAD_OK) {
		add_cm(&t, &m);
		return t.len;
	}
	text_add(&t, "MAD");
	if (rocemu_mad_decode(&mad, data, len) == ROCEMU_MAD_OK)
		text_add(&t,
			 " class 0x%02x version %u method 0x%02x attribute 0x%04x status 0x%04x",
			 mad.mgmt_class, mad.class_version, mad.method, mad.attr_id, mad.status);
	if (why != ROCEMU_MAD_CLASS)
		text_add(&t, ": %s", rocemu_mad_verdict_text(why));
	return t.len;
}
