/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs-check over XRC: each side has a domain of its own, an SRQ in it and a target QP besides the
 * initiator; the two pairs of QPs are the two ways of a conn. See vc.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "vc.h"

static bool new_srq(struct vc_conn *c)
{
	struct vc *vc = c->vc;
	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = VC_DEPTH, .max_sge = VC_MAX_SGE},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = vc->pd,
		.xrcd = c->xrcd,
		.cq = c->rcq,
	};

	c->srq = ibv_create_srq_ex(vc->ctx, &a);
	VC_CHECK(vc, c->srq, "ibv_create_srq_ex: %s", strerror(errno));
	return true;
}

bool vc_xrc_new(struct vc_conn *c)
{
	struct vc *vc = c->vc;
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_qp_init_attr_ex qa = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};

	c->xrcd = ibv_open_xrcd(vc->ctx, &xa);
	VC_CHECK(vc, c->xrcd, "ibv_open_xrcd: %s", strerror(errno));
	VC_TRY(new_srq(c));
	qa.xrcd = c->xrcd;
	c->target = ibv_create_qp_ex(vc->ctx, &qa);
	VC_CHECK(vc, c->target, "ibv_create_qp_ex of a target: %s", strerror(errno));
	return true;
}

static void must(const char *what, int rc)
{
	if (rc)
		vc_die("%s: %s", what, strerror(rc));
}

void vc_xrc_free(struct vc_conn *c)
{
	if (c->target)
		must("ibv_destroy_qp of a target", ibv_destroy_qp(c->target));
	if (c->srq)
		must("ibv_destroy_srq", ibv_destroy_srq(c->srq));
	if (c->xrcd)
		must("ibv_close_xrcd", ibv_close_xrcd(c->xrcd));
	c->target = NULL;
	c->srq = NULL;
	c->xrcd = NULL;
}

struct ibv_qp *vc_qp_here(const struct vc_conn *c)
{
	return c->target && !c->vc->active ? c->target : c->qp;
}

bool vc_qp_destroy_here(struct vc_conn *c)
{
	bool target = vc_qp_here(c) == c->target;
	int rc = ibv_destroy_qp(vc_qp_here(c));

	VC_CHECK(c->vc, rc == 0, "ibv_destroy_qp: %s", strerror(rc));
	if (target)
		c->target = NULL;
	else
		c->qp = NULL;
	return true;
}

uint32_t vc_qpn_of(const struct vc_conn *c, const struct ibv_cq *cq)
{
	return c->target && cq == c->rcq ? c->target->qp_num : c->qp->qp_num;
}
