/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-mad.h"

#include <string.h>

#include <rocemu/wire.h>

#include "base/bytes.h"
#include "wire/ip.h"

enum {
	UD_SEND_ONLY = 0x64,
	PKEY_DEFAULT = 0xffff,
	PKEY_MASK = 0x7fff, /* bit 15 tells full from limited members */
	SEALED_LEN = AGENT_GSI_DGRAM_LEN - ROCEMU_ICRC_LEN,
};

static struct rocemu_icrc_ctx icrc_ctx(const struct agent_gsi_dgram *d, uint16_t ip_id)
{
	return (struct rocemu_icrc_ctx){.src = d->src,
					.dst = d->dst,
					.sport = d->sport,
					.dport = ROCEMU_UDP_PORT,
					.ip_id = ip_id,
					.ip_frag = IP_FLAG_DF};
}

enum gsi_mad_verdict gsi_mad_decode(struct agent_gsi_dgram *d, struct rocemu_cm_msg *m)
{
	struct rocemu_icrc_ctx ctx = icrc_ctx(d, d->ip_id);
	struct rocemu_packet pkt;
	int32_t id;

	if (d->len != AGENT_GSI_DGRAM_LEN || rocemu_packet_decode(&pkt, d->data, d->len) ||
	    pkt.h.opcode != UD_SEND_ONLY || pkt.payload_len != ROCEMU_MAD_LEN ||
	    pkt.h.dqpn != ROCEMU_GSI_QPN || pkt.h.deth.sqpn != ROCEMU_GSI_QPN)
		return GSI_MAD_FORM;
	/* C10-122 and 10.2.5: a QP of general services has the well-known Q_Key, and the P_Key must
	 * match the port's, of which there is one. */
	if (pkt.h.deth.qkey != ROCEMU_GSI_QKEY ||
	    (pkt.h.pkey & PKEY_MASK) != (PKEY_DEFAULT & PKEY_MASK))
		return GSI_MAD_KEY;
	if (rocemu_cm_decode(m, pkt.payload, pkt.payload_len))
		return GSI_MAD_FORM;
	id = rocemu_icrc_check(&ctx, false, d->data, d->len);
	if (id < 0)
		return GSI_MAD_ICRC;
	d->ip_id = (uint16_t)id;
	return GSI_MAD_OK;
}

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

uint32_t gsi_mad_sender_id(const struct rocemu_cm_msg *m)
{
	switch (m->attr_id) {
	case ROCEMU_CM_REQ:
		return m->req.local_comm_id;
	case ROCEMU_CM_MRA:
		return m->mra.local_comm_id;
	case ROCEMU_CM_REJ:
		return m->rej.local_comm_id;
	case ROCEMU_CM_REP:
		return m->rep.local_comm_id;
	case ROCEMU_CM_RTU:
		return m->rtu.local_comm_id;
	case ROCEMU_CM_DREQ:
		return m->dreq.local_comm_id;
	case ROCEMU_CM_DREP:
		return m->drep.local_comm_id;
	case ROCEMU_CM_LAP:
		return m->lap.local_comm_id;
	case ROCEMU_CM_APR:
		return m->apr.local_comm_id;
	case ROCEMU_CM_SIDR_REQ:
		return m->sidr_req.request_id;
	default:
		return 0;
	}
}

uint32_t gsi_mad_receiver_id(const struct rocemu_cm_msg *m)
{
	switch (m->attr_id) {
	case ROCEMU_CM_MRA:
		return m->mra.remote_comm_id;
	case ROCEMU_CM_REJ:
		return m->rej.remote_comm_id;
	case ROCEMU_CM_REP:
		return m->rep.remote_comm_id;
	case ROCEMU_CM_RTU:
		return m->rtu.remote_comm_id;
	case ROCEMU_CM_DREQ:
		return m->dreq.remote_comm_id;
	case ROCEMU_CM_DREP:
		return m->drep.remote_comm_id;
	case ROCEMU_CM_LAP:
		return m->lap.remote_comm_id;
	case ROCEMU_CM_APR:
		return m->apr.remote_comm_id;
	case ROCEMU_CM_SIDR_REP:
		return m->sidr_rep.request_id;
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

void gsi_mad_seal(const struct agent_gsi_dgram *d, uint8_t buf[static AGENT_GSI_DGRAM_LEN])
{
	struct rocemu_icrc_ctx ctx = icrc_ctx(d, 0);

	put_le32(buf + SEALED_LEN, rocemu_icrc(&ctx, buf, SEALED_LEN, NULL, 0, NULL, 0));
}

void gsi_mad_build(struct agent_gsi_dgram *d, const struct rocemu_cm_msg *m, uint32_t psn,
		  uint8_t buf[static AGENT_GSI_DGRAM_LEN])
{
	/* AckReq on QP 1 has no meaning; it is there because the kernel's CM sends it, too. */
	struct rocemu_hdrs h = {.opcode = UD_SEND_ONLY,
				.migreq = true,
				.ackreq = true,
				.pkey = PKEY_DEFAULT,
				.dqpn = ROCEMU_GSI_QPN,
				.psn = psn,
				.deth = {.qkey = ROCEMU_GSI_QKEY, .sqpn = ROCEMU_GSI_QPN}};
	size_t n = rocemu_hdrs_encode(&h, buf);

	(void)rocemu_cm_encode(m, buf + n);
	d->len = AGENT_GSI_DGRAM_LEN;
	d->data = buf;
	gsi_mad_seal(d, buf);
}
