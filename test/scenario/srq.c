/* SPDX-License-Identifier: BSD-2-Clause */
/* The SRQs of an end. Receives are posted to the newest, unless the scenario names another. */
#include <errno.h>

#include "world.h"

int srq_new(struct end *e, uint32_t max_wr, bool other_pd, bool other_domain)
{
	struct ibv_srq_attr attr = {.max_wr = max_wr, .max_sge = SCENARIO_QP_SGES};
	struct rocemu_pd *pd = other_pd ? e->other_pd : e->pd;
	struct rocemu_xrcd *xrcd = other_domain ? rocemu_xrcd_new(e->ep) : e->xrcd;
	int error;

	if (e->srqs == SRQS_MAX)
		return -EINVAL;
	error = xrcd ? rocemu_xrc_srq_create(pd, xrcd, e->cq, &attr, NULL, &e->srq)
		     : rocemu_srq_create(pd, &attr, NULL, &e->srq);
	if (error)
		return error;
	e->srqn[e->srqs] = rocemu_srq_num(e->srq);
	e->all_srqs[e->srqs++] = e->srq;
	return 0;
}

struct rocemu_srq *srq_of(const struct end *e, unsigned number)
{
	return !number ? e->srq : number <= e->srqs ? e->all_srqs[number - 1] : NULL;
}

static int destroy(struct end *e)
{
	int error = e->srq ? rocemu_srq_destroy(e->srq) : -EINVAL;

	if (!error) {
		e->all_srqs[e->srqs - 1] = NULL;
		e->srq = NULL;
	}
	return error;
}

int end_srq(void *world, unsigned end, const struct scenario_srq *c)
{
	struct world *w = world;
	struct end *e = w->end[end];
	struct ibv_srq_attr attr = {.srq_limit = c->n, .max_wr = c->n};

	switch (c->what) {
	case SCENARIO_SRQ_NEW:
		return e->xrcd ? srq_new(e, w->setup.recv_wr, c->other_pd, c->other_domain)
			       : -EINVAL;
	case SCENARIO_SRQ_DESTROY:
		return destroy(e);
	case SCENARIO_SRQ_LIMIT:
		return e->srq ? rocemu_srq_modify(e->srq, &attr, IBV_SRQ_LIMIT) : -EINVAL;
	default:
		return e->srq ? rocemu_srq_modify(e->srq, &attr, IBV_SRQ_MAX_WR) : -EINVAL;
	}
}

bool end_srq_number(void *world, unsigned end, unsigned which, uint32_t *srqn)
{
	const struct end *e = ((struct world *)world)->end[end];

	if (!which || which > e->srqs)
		return false;
	*srqn = e->srqn[which - 1];
	return true;
}
