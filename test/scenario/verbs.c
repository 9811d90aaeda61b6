/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pairs by verbs: each end opens the device for itself. Time is real, so an expectation waits until
 * as many completions came as it names. What packets there are is not seen.
 */
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scenario/names.h"
#include "scenario/setup.h"

#include "base/util.h"

#define MAX_INLINE 64u

enum { PORT = 1, CQ_DEPTH = 8192, PATIENCE_S = 30 };

struct end {
	struct ibv_context *ctx; /* owned, as all that follows */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr[SCENARIO_AREAS]; /* NULL once deregistered */
	uint32_t lkey[SCENARIO_AREAS], rkey[SCENARIO_AREAS];
	union ibv_gid gid;
	uint64_t sends, recvs;
	bool told_error;
	size_t len;
	char text[SCENARIO_EFFECTS_MAX];
	uint8_t memory[SCENARIO_AREAS][SCENARIO_AREA] __attribute__((aligned(4096)));
};

struct world {
	struct scenario_setup setup;
	struct end *end[SCENARIO_ENDS]; /* owned */
};

static struct ibv_device *device;
static int gid_index;

static const unsigned area_access[SCENARIO_AREAS] = {
	[SCENARIO_MEM] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			 IBV_ACCESS_REMOTE_ATOMIC,
	[SCENARIO_SEND] = IBV_ACCESS_LOCAL_WRITE,
	[SCENARIO_RECV] = IBV_ACCESS_LOCAL_WRITE,
};

int scenario_verbs_device(const char *name, int index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	/* The list is kept: its devices are used until the end. */
	for (unsigned i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
			device = list[i];
			gid_index = index;
			return 0;
		}
	}
	return -ENODEV;
}

/* ---- objects ---- */

static int register_area(struct end *e, struct ibv_pd *pd, unsigned area, unsigned access)
{
	e->mr[area] = ibv_reg_mr(pd, e->memory[area], SCENARIO_AREA, access);
	if (!e->mr[area])
		return -errno;
	e->lkey[area] = e->mr[area]->lkey;
	e->rkey[area] = e->mr[area]->rkey;
	return 0;
}

static int make_qp(struct end *e, const struct scenario_setup *s)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.qp_type = s->type,
		.cap = {s->send_wr, s->recv_wr, SCENARIO_SGES, SCENARIO_SGES, MAX_INLINE},
		.sq_sig_all = (int)s->sig_all,
	};

	e->qp = ibv_create_qp(e->pd, &init);
	return e->qp ? 0 : -errno;
}

static int make_end(struct world *w, unsigned index)
{
	struct end *e = w->end[index] = aligned_alloc(4096, sizeof(*e));
	int error = 0;

	if (!e)
		return -ENOMEM;
	memset(e, 0, offsetof(struct end, memory));
	for (unsigned i = 0; i < SCENARIO_AREAS; i++)
		scenario_fill((enum scenario_area)i, e->memory[i], SCENARIO_AREA);
	e->ctx = ibv_open_device(device);
	if (!e->ctx)
		return -errno;
	if (ibv_query_gid(e->ctx, PORT, gid_index, &e->gid))
		return -EINVAL;
	/* Reading an event must not wait for one. */
	fcntl(e->ctx->async_fd, F_SETFL, O_NONBLOCK);
	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = e->pd ? ibv_create_cq(e->ctx, CQ_DEPTH, NULL, NULL, 0) : NULL;
	if (!e->cq)
		return -errno;
	for (unsigned i = 0; i < SCENARIO_AREAS && !error; i++)
		error = register_area(e, e->pd, i, area_access[i]);
	return error ? error : make_qp(e, &w->setup);
}

static void free_end(struct end *e)
{
	if (!e)
		return;
	if (e->qp)
		ibv_destroy_qp(e->qp);
	for (unsigned i = 0; i < SCENARIO_AREAS; i++)
		if (e->mr[i])
			ibv_dereg_mr(e->mr[i]);
	if (e->cq)
		ibv_destroy_cq(e->cq);
	if (e->pd)
		ibv_dealloc_pd(e->pd);
	if (e->ctx)
		ibv_close_device(e->ctx);
	free(e);
}

static void world_free(void *world)
{
	struct world *w = world;

	for (unsigned i = 0; i < SCENARIO_ENDS; i++)
		free_end(w->end[i]);
	free(w);
}

/* ---- states ---- */

static enum ibv_qp_state state(void *world, unsigned end)
{
	struct world *w = world;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	return ibv_query_qp(w->end[end]->qp, &a, IBV_QP_STATE, &init) ? IBV_QPS_UNKNOWN
								      : a.qp_state;
}

static struct ibv_ah_attr path_to(const struct end *peer)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = PORT,
		.grh = {.dgid = peer->gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64},
	};
}

static int modify(void *world, unsigned end, enum ibv_qp_state to, const struct scenario_setup *s,
		  int mask)
{
	struct world *w = world;
	struct end *e = w->end[end];
	struct ibv_qp_attr a = scenario_attr(s, end, to);
	int error;

	a.dest_qp_num = w->end[!end]->qp->qp_num;
	a.ah_attr = path_to(w->end[!end]);
	if (s->type == IBV_QPT_UC)
		a.qp_access_flags &= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	error = ibv_modify_qp(e->qp, &a, mask | scenario_attr_mask(s->type, state(w, end), to));
	if (!error && to != IBV_QPS_ERR)
		e->told_error = false;
	return -error;
}

static int connect_ends(struct world *w)
{
	static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

	for (size_t i = 0; i < ARRAY_LEN(way) && w->setup.state != IBV_QPS_RESET; i++) {
		for (unsigned end = 0; end < SCENARIO_ENDS; end++) {
			int error = modify(w, end, way[i], &w->setup, 0);

			if (error)
				return error;
		}
		if (way[i] == w->setup.state)
			break;
	}
	return 0;
}

static void *start(const struct scenario_setup *s, int *error)
{
	const bool possible = s->ends == SCENARIO_ENDS && device && !s->srq && !s->dest_qp_num &&
			      s->area == SCENARIO_AREA &&
			      (s->type == IBV_QPT_RC || s->type == IBV_QPT_UC);
	struct world *w = possible ? calloc(1, sizeof(*w)) : NULL;

	*error = possible ? w ? 0 : -ENOMEM : -EOPNOTSUPP;
	if (!w)
		return NULL;
	w->setup = *s;
	/* Flushing needs a device that can. */
	w->setup.access &= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	for (unsigned i = 0; i < SCENARIO_ENDS && !*error; i++)
		*error = make_end(w, i);
	if (!*error)
		*error = connect_ends(w);
	if (!*error)
		return w;
	world_free(w);
	return NULL;
}

/* ---- requests ---- */

static int sges_of(const struct world *w, const struct scenario_request *r,
		   struct ibv_sge sge[SCENARIO_SGES])
{
	const struct scenario_sge all = {.at = r->from, .len = r->len};
	const struct scenario_sge *s = r->sges ? r->sge : &all;
	const unsigned n = r->sges ? r->sges : 1;

	for (unsigned i = 0; i < n; i++) {
		const struct end *e = w->end[s[i].at.end];

		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)e->memory[s[i].at.area] + s[i].at.offset,
			.length = s[i].len,
			.lkey = r->lkey ? r->lkey : e->lkey[s[i].at.area],
		};
	}
	return (int)n;
}

static void set_remote(const struct world *w, const struct scenario_request *r,
		       struct ibv_send_wr *wr)
{
	const struct end *to = w->end[r->to.end];
	const unsigned area = r->to.area < SCENARIO_AREAS ? r->to.area : SCENARIO_MEM;
	const uint64_t addr =
		r->to.offset + (r->to.area < SCENARIO_AREAS ? (uintptr_t)to->memory[area] : 0);
	const uint32_t rkey = r->rkey ? r->rkey : to->rkey[area];

	scenario_set_remote(r, addr, rkey, wr);
}

static int post_send(void *world, unsigned end, const struct scenario_request *r)
{
	struct world *w = world;
	struct end *e = w->end[end];
	struct ibv_sge sge[SCENARIO_SGES];
	struct ibv_send_wr *bad, wr = {
					 .wr_id = r->id ? r->id : e->sends + 1,
					 .opcode = r->opcode,
					 .sg_list = sge,
					 .num_sge = sges_of(w, r, sge),
					 .send_flags = r->flags,
				 };
	int error;

	if (r->opcode == IBV_WR_BIND_MW)
		return -EOPNOTSUPP; /* there are no windows here */
	if (r->opcode == IBV_WR_SEND_WITH_INV || r->opcode == IBV_WR_LOCAL_INV)
		wr.invalidate_rkey = r->imm;
	else
		wr.imm_data = htobe32(r->imm);
	set_remote(w, r, &wr);
	error = ibv_post_send(e->qp, &wr, &bad);
	e->sends += !error;
	return -error;
}

static int post_recv(void *world, unsigned end, const struct scenario_request *r)
{
	struct world *w = world;
	struct end *e = w->end[end];
	struct ibv_sge sge[SCENARIO_SGES];
	struct ibv_recv_wr *bad, wr = {
					 .wr_id = (r->id ? r->id : e->recvs + 1) | SCENARIO_RECV_ID,
					 .sg_list = sge,
					 .num_sge = sges_of(w, r, sge),
				 };
	int error = ibv_post_recv(e->qp, &wr, &bad);

	e->recvs += !error;
	return -error;
}

/* ---- looks ---- */

static void say(struct end *e, const char *text)
{
	e->len += (size_t)snprintf(e->text + e->len, SCENARIO_EFFECTS_MAX - e->len, "%s%s",
				   e->len ? "; " : "", text);
	e->len = MIN(e->len, (size_t)SCENARIO_EFFECTS_MAX - 1);
}

static void say_completion(struct end *e, const struct ibv_wc *wc)
{
	const struct scenario_completion c = {
		.id = wc->wr_id,
		.status = wc->status,
		.opcode = wc->opcode,
		.byte_len = wc->byte_len,
		.imm = be32toh(wc->imm_data),
		.flags = wc->wc_flags,
	};
	char text[160];

	scenario_completion_text(&c, text, sizeof(text));
	say(e, text);
}

/** Completions that there are, up to n. @return how many. */
static unsigned poll_cq(struct end *e, unsigned n)
{
	unsigned got = 0;
	struct ibv_wc wc;

	for (; got < n && ibv_poll_cq(e->cq, 1, &wc) == 1; got++)
		say_completion(e, &wc);
	return got;
}

static void say_events(struct world *w, unsigned end)
{
	struct end *e = w->end[end];
	struct ibv_async_event event;
	char text[64];

	while (ibv_get_async_event(e->ctx, &event) == 0) {
		snprintf(text, sizeof(text), "event %s", scenario_event_name(event.event_type));
		ibv_ack_async_event(&event);
		say(e, text);
	}
	if (!e->told_error && state(w, end) == IBV_QPS_ERR) {
		e->told_error = true;
		say(e, "ERR");
	}
}

static const char *taken(struct end *e)
{
	static char text[SCENARIO_EFFECTS_MAX];

	memcpy(text, e->text, e->len + 1);
	e->len = 0;
	e->text[0] = 0;
	return text;
}

static const char *effects(void *world, unsigned end, unsigned n)
{
	struct world *w = world;

	(void)n;
	poll_cq(w->end[end], UINT32_MAX);
	say_events(w, end);
	return taken(w->end[end]);
}

static time_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static const char *completions(void *world, unsigned end, unsigned n)
{
	struct world *w = world;
	const time_t until = seconds() + PATIENCE_S;
	unsigned got = poll_cq(w->end[end], n ? n : 1);

	while (got < n && seconds() < until)
		got += poll_cq(w->end[end], n - got);
	/* Those that are not expected, too. */
	poll_cq(w->end[end], UINT32_MAX);
	return taken(w->end[end]);
}

static uint8_t *memory(void *world, unsigned end, enum scenario_area area)
{
	return ((struct world *)world)->end[end]->memory[area];
}

static int dereg(void *world, unsigned end, enum scenario_area area)
{
	struct end *e = ((struct world *)world)->end[end];
	int error = e->mr[area] ? ibv_dereg_mr(e->mr[area]) : EINVAL;

	if (!error)
		e->mr[area] = NULL;
	return -error;
}

static uint32_t key(void *world, unsigned end, enum scenario_area area, bool remote)
{
	const struct end *e = ((struct world *)world)->end[end];

	return remote ? e->rkey[area] : e->lkey[area];
}

const struct scenario_backend scenario_verbs = {
	.start = start,
	.end = world_free,
	.post_send = post_send,
	.post_recv = post_recv,
	.modify = modify,
	.effects = effects,
	.completions = completions,
	.state = state,
	.memory = memory,
	.dereg = dereg,
	.key = key,
};
