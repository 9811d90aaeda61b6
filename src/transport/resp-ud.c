/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD responder: one packet, one receive, nothing sent back (IBTA 9.8.3). A wrong datagram is
 * dropped silently and uses no receive: wrong Q_Key, no receive, and also longer than the receive
 * (class D; some hardware completes that receive in error and stops the QP, which would let any
 * sender with the Q_Key stop it).
 *
 * A receive begins with 40 bytes for the GRH, always there on RoCEv2 (annex A17): the IPv6 header,
 * or the IPv4 header in the last 20 of them.
 */
#include <rocemu/mad.h>

#include "base/util.h"
#include "transport/why.h"
#include "wire/ip.h"
#include "wire/opcode.h"

/*
 * The IP header as on the wire, as far as a UDP socket shows it (not the IPv4 identification unless
 * given).
 */
static void grh_build(const struct rocemu_dgram *d, uint8_t buf[ROCEMU_GRH_LEN])
{
	struct rocemu_grh grh = {
		.ipver = gid_is_ipv4(&d->src) && gid_is_ipv4(&d->dst) ? 4 : 6,
		.tclass = d->tclass,
		.flow_label = d->flow_label,
		.paylen = (uint16_t)(UDP_LEN + d->len),
		.nxthdr = IP_PROTO_UDP,
		.hop_limit = d->hop_limit,
		.sgid = d->src,
		.dgid = d->dst,
		.ip_id = d->ip_id_known ? d->ip_id : 0,
		.ip_frag = IP_FLAG_DF,
	};

	rocemu_grh_encode(&grh, buf);
}

static int place(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
		 const struct rocemu_dgram *d)
{
	const struct rwqe *w = &qp->resp.rwqe;
	const struct rocemu_pd *pd = resp_recv_pd(qp);
	uint8_t grh[ROCEMU_GRH_LEN];

	grh_build(d, grh);
	if (sge_scatter(qp->ep->mrs, pd, w->sge, w->nsge, 0, grh, ROCEMU_GRH_LEN))
		return -1;
	return sge_scatter(qp->ep->mrs, pd, w->sge, w->nsge, ROCEMU_GRH_LEN, pkt->payload,
			   pkt->payload_len);
}

/*
 * RoCEv2 has no service level. Common adapters put the kind of the network header there, and UCX
 * reads it to find the receiver's address in the first 40 bytes: without it, UCX drops all
 * datagrams over IPv4.
 */
static uint8_t service_level(const struct rocemu_dgram *d)
{
	enum { HEADER_IPV4 = 2 };

	return gid_is_ipv4(&d->dst) ? HEADER_IPV4 : 0;
}

APART enum rocemu_drop resp_ud_input(struct rocemu_qp *qp, rocemu_ns_t now,
				     const struct rocemu_packet *pkt, const struct rocemu_dgram *d)
{
	struct qp_resp *r = &qp->resp;
	struct rocemu_cqe cqe;

	if (pkt->h.deth.qkey != qp->attr.qkey)
		return ROCEMU_DROP_QKEY; /* IBTA 9.6.1.4 */
	if (pkt->payload_len > qp->mtu)
		return ROCEMU_DROP_LENGTH;
	if (!resp_take(qp))
		return ROCEMU_DROP_NO_RECV;
	if (ROCEMU_GRH_LEN + pkt->payload_len > r->rwqe.length)
		return ROCEMU_DROP_TOO_LONG;
	if (place(qp, pkt, d)) {
		resp_fail_recv(qp, now, IBV_WC_LOC_PROT_ERR, why_receive(qp));
		qp_fail(qp, now);
		return ROCEMU_DROP_ACCESS;
	}
	cqe = qp_cqe(qp, now, r->rwqe.wr_id, IBV_WC_SUCCESS, IBV_WC_RECV);
	cqe.byte_len = ROCEMU_GRH_LEN + pkt->payload_len;
	cqe.src_qp = pkt->h.deth.sqpn;
	cqe.solicited = pkt->h.se;
	cqe.wc_flags = IBV_WC_GRH;
	cqe.sl = service_level(d);
	if (opcode_ops(pkt->h.opcode) & ROCEMU_OP_IMM) {
		cqe.imm = pkt->h.imm;
		cqe.wc_flags |= IBV_WC_WITH_IMM;
	}
	r->have_rwqe = false;
	cq_push(qp->recv_cq, &cqe);
	return ROCEMU_DROP_NONE;
}
