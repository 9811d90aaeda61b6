/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC in the simulator: SRQs with a CQ of their own, whose receives several QPs may take. */
#include <stdlib.h>

#include "base/util.h"
#include "sim.h"

struct sim_srq *sim_xrc_srq_new(struct sim *s, unsigned node, struct rocemu_xrcd *xrcd,
				unsigned depth)
{
	struct sim_srq *q = calloc(1, sizeof(*q));
	struct ibv_srq_attr attr = {.max_wr = depth, .max_sge = 4};

	if (!q)
		abort();
	q->node = &s->node[node];
	sim_assert(s, rocemu_cq_create(q->node->ep, 2 * depth, q, &q->cq) == 0);
	sim_assert(s, rocemu_xrc_srq_create(q->node->pd, xrcd ? xrcd : q->node->xrcd, q->cq, &attr,
					    q, &q->srq) == 0);
	sim_assert(s, rocemu_srq_num(q->srq) != 0);
	q->next = s->srqs;
	s->srqs = q;
	return q;
}

/** The target QP that a completion names. */
static struct sim_qp *target_of(struct sim_srq *srq, uint32_t qpn)
{
	struct sim *s = srq->node->sim;

	for (struct sim_qp *q = s->qps; q; q = q->next)
		if (q->type == IBV_QPT_XRC_RECV && q->node == srq->node &&
		    rocemu_qp_num(q->qp) == qpn)
			return q;
	sim_fail(s, "a receive of SRQ %u is said to be of QP %06x", rocemu_srq_num(srq->srq), qpn);
}

void sim_xrc_poll(struct sim_srq *srq)
{
	struct rocemu_cqe c[16];
	unsigned n;

	while (srq->cq && (n = rocemu_cq_poll(srq->cq, c, ARRAY_LEN(c))) > 0)
		for (unsigned i = 0; i < n; i++) {
			struct sim_qp *q = target_of(srq, c[i].qpn);

			sim_take(q, &srq->rq, &c[i], false);
			if (c[i].status == IBV_WC_SUCCESS)
				sim_assert(q->sim, c[i].src_qp == rocemu_qp_num(q->peer->qp));
		}
}
