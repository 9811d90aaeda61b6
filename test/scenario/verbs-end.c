/* SPDX-License-Identifier: BSD-2-Clause */
/* An end: its objects, and what is done with it. See verbs-end.h. */
#include "verbs-end.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scenario/setup.h"

#include "base/util.h"

#define MAX_INLINE 64u

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC,
	GUARD_PAGE = 4096, /* around each area, without any access */
	CHUNK = 2 << 20,
};

struct verbs_way verbs_way;
static struct ibv_device *device;
static int gid_index;
static bool has_windows;

static const unsigned area_access[SCENARIO_AREAS] = {
	[SCENARIO_MEM] = ALL_ACCESS,
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

bool verbs_end_open(struct verbs_end *e)
{
	struct ibv_device_attr attr;

	if (!device)
		return false;
	e->ctx = ibv_open_device(device);
	if (!e->ctx || ibv_query_device(e->ctx, &attr) ||
	    ibv_query_gid(e->ctx, VERBS_PORT, gid_index, &e->self.gid)) {
		fprintf(stderr, "the device, or its GID %d: %s\n", gid_index, strerror(errno));
		return false;
	}
	has_windows = attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	/* Reading an event must not wait for one. */
	fcntl(e->ctx->async_fd, F_SETFL, O_NONBLOCK);
	return true;
}

void verbs_say(struct verbs_end *e, const char *fmt, ...)
{
	const size_t room = VERBS_TEXT - e->text_len;
	va_list ap;
	size_t n = 0;

	if (e->text_len && room > 3) {
		memcpy(e->text + e->text_len, "; ", 3);
		n = 2;
	}
	va_start(ap, fmt);
	n += (size_t)vsnprintf(e->text + e->text_len + n, room - n, fmt, ap);
	va_end(ap);
	e->text_len += MIN(n, room - 1);
}

/* ---- memory ---- */

/** A file with CHUNK bytes of an area as it is at first. */
static int first_bytes(unsigned area)
{
	int fd = memfd_create("area", MFD_CLOEXEC);
	uint8_t *at;

	if (fd < 0 || ftruncate(fd, CHUNK))
		return -errno;
	at = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	scenario_fill((enum scenario_area)area, at, CHUNK);
	munmap(at, CHUNK);
	return fd;
}

static size_t pages(size_t len)
{
	return (len + GUARD_PAGE - 1) / GUARD_PAGE * GUARD_PAGE;
}

/** Memory between two pages that cannot be touched. Only what is written to is memory of its own.
 */
static int map_area(struct verbs_end *e, unsigned area)
{
	static int file[SCENARIO_AREAS];
	const size_t len = pages(e->setup.area);
	uint8_t *at = mmap(NULL, len + 2 * GUARD_PAGE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	e->memory[area] = at + GUARD_PAGE;
	e->self.addr[area] = (uintptr_t)e->memory[area];
	if (!file[area])
		file[area] = first_bytes(area);
	if (file[area] < 0)
		return file[area];
	for (size_t i = 0; i < len; i += CHUNK) {
		at = mmap(e->memory[area] + i, MIN(len - i, (size_t)CHUNK), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file[area], 0);
		if (at == MAP_FAILED)
			return -errno;
	}
	return 0;
}

static int register_area(struct verbs_end *e, unsigned area, int access, bool other_pd)
{
	struct ibv_mr *mr;

	if (e->mr[area] && e->old_mr[area])
		return -ENOSPC;
	if (other_pd && !e->other_pd)
		e->other_pd = ibv_alloc_pd(e->ctx);
	mr = ibv_reg_mr(other_pd ? e->other_pd : e->pd, e->memory[area], e->setup.area,
			(unsigned)access);
	if (!mr)
		return -errno;
	if (e->mr[area])
		e->old_mr[area] = e->mr[area];
	e->mr[area] = mr;
	e->self.lkey[area] = mr->lkey;
	e->self.rkey[area] = mr->rkey;
	return 0;
}

static int dereg(struct verbs_end *e, unsigned area)
{
	int error = e->mr[area] ? ibv_dereg_mr(e->mr[area]) : EINVAL;

	if (!error)
		e->mr[area] = NULL;
	return -error;
}

static int new_mw(struct verbs_end *e, unsigned type, bool other_pd)
{
	int error = e->mw ? ibv_dealloc_mw(e->mw) : type ? 0 : EINVAL;

	if (error)
		return -error;
	e->mw = NULL;
	e->self.mw_rkey = 0;
	if (!type)
		return 0;
	if (other_pd && !e->other_pd)
		e->other_pd = ibv_alloc_pd(e->ctx);
	e->mw = ibv_alloc_mw(other_pd ? e->other_pd : e->pd, (enum ibv_mw_type)type);
	if (e->mw)
		e->self.mw_rkey = e->mw->rkey;
	return e->mw ? 0 : -errno;
}

/* ---- queues ---- */

static int make_cqs(struct verbs_end *e)
{
	struct ibv_cq_init_attr_ex a = {
		.cqe = e->setup.cqe,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
	};

	for (unsigned i = 0; i < ARRAY_LEN(e->cq); i++) {
		a.channel = e->channel[i] = ibv_create_comp_channel(e->ctx);
		if (!a.channel)
			return -errno;
		if (verbs_way.cq_ex) {
			struct ibv_cq_ex *x = ibv_create_cq_ex(e->ctx, &a);

			e->cq[i] = x ? ibv_cq_ex_to_cq(x) : NULL;
		} else {
			e->cq[i] = ibv_create_cq(e->ctx, (int)a.cqe, NULL, a.channel, 0);
		}
		if (!e->cq[i])
			return -errno;
	}
	return 0;
}

static uint64_t operations(enum ibv_qp_type type)
{
	uint64_t flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	if (type != IBV_QPT_UD)
		flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
		flags |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	if (type == IBV_QPT_RC && has_windows)
		flags |= IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW |
			 IBV_QP_EX_WITH_LOCAL_INV;
	return flags;
}

static int make_qp(struct verbs_end *e)
{
	struct scenario_setup *s = &e->setup;
	const bool xrc = s->type == IBV_QPT_XRC_SEND;
	struct ibv_qp_init_attr_ex a = {
		.send_cq = e->cq[0],
		.recv_cq = xrc ? NULL : e->cq[1],
		.srq = xrc ? NULL : e->srq,
		.qp_type = s->type,
		.cap = {s->send_wr, e->srq ? 0 : s->recv_wr, SCENARIO_QP_SGES,
			e->srq ? 0 : SCENARIO_QP_SGES, MAX_INLINE},
		.sq_sig_all = (int)s->sig_all,
		.pd = e->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};
	struct ibv_qp_init_attr old = {
		.send_cq = a.send_cq,
		.recv_cq = a.recv_cq,
		.srq = a.srq,
		.cap = a.cap,
		.qp_type = a.qp_type,
		.sq_sig_all = a.sq_sig_all,
	};
	struct ibv_qp_attr now;

	if (verbs_way.wr) {
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = operations(s->type);
		e->qp = ibv_create_qp_ex(e->ctx, &a);
		e->qpx = e->qp ? ibv_qp_to_qp_ex(e->qp) : NULL;
	} else {
		e->qp = ibv_create_qp(e->pd, &old);
		a.cap = old.cap;
	}
	if (!e->qp || (verbs_way.wr && !e->qpx))
		return -errno;
	if (a.cap.max_inline_data < MAX_INLINE)
		return -ERANGE;
	/* rxe reports what it rounded up here only. */
	if (ibv_query_qp(e->qp, &now, IBV_QP_CAP, &old))
		return -EINVAL;
	s->send_wr = MAX(a.cap.max_send_wr, old.cap.max_send_wr);
	if (!e->srq)
		s->recv_wr = MAX(a.cap.max_recv_wr, old.cap.max_recv_wr);
	e->self.qpn = e->qp->qp_num;
	return 0;
}

/** XRC: each end has a domain of its own, an SRQ in it and a target besides the initiator. */
static int make_xrc(struct verbs_end *e)
{
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex sa = {
		.attr = {.max_wr = e->setup.recv_wr, .max_sge = SCENARIO_QP_SGES},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = e->pd,
		.cq = e->cq[1],
	};
	struct ibv_qp_init_attr_ex qa = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};

	sa.xrcd = qa.xrcd = e->xrcd = ibv_open_xrcd(e->ctx, &xa);
	e->srq = e->xrcd ? ibv_create_srq_ex(e->ctx, &sa) : NULL;
	e->target = e->srq ? ibv_create_qp_ex(e->ctx, &qa) : NULL;
	if (!e->target)
		return -errno;
	e->self.target_qpn = e->target->qp_num;
	return -ibv_get_srq_num(e->srq, &e->self.srqn);
}

static int make_queues(struct verbs_end *e)
{
	struct ibv_srq_init_attr sa = {
		.attr = {.max_wr = e->setup.recv_wr, .max_sge = SCENARIO_QP_SGES}};
	int error = make_cqs(e);

	if (!error && e->setup.type == IBV_QPT_XRC_SEND) {
		error = make_xrc(e);
	} else if (!error && e->setup.srq) {
		e->srq = ibv_create_srq(e->pd, &sa);
		error = e->srq ? 0 : -errno;
	}
	return error ? error : make_qp(e);
}

static int srq_limit(struct verbs_end *e, uint32_t limit)
{
	struct ibv_srq_attr attr = {.srq_limit = limit};

	return e->srq ? -ibv_modify_srq(e->srq, &attr, IBV_SRQ_LIMIT) : -EINVAL;
}

/* ---- begin and end ---- */

static int start(struct verbs_end *e, const struct verbs_call *c)
{
	int error = 0;

	e->setup = c->setup;
	e->index = c->index;
	/* Flushing needs a device that can. */
	e->setup.access &= ALL_ACCESS;
	if (e->setup.type == IBV_QPT_UC)
		e->setup.access &= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	e->pd = ibv_alloc_pd(e->ctx);
	if (!e->pd)
		return -errno;
	for (unsigned i = 0; i < SCENARIO_AREAS && !error; i++)
		error = map_area(e, i);
	for (unsigned i = 0; i < SCENARIO_AREAS && !error; i++)
		error = register_area(e, i, (int)area_access[i], false);
	return error ? error : make_queues(e);
}

#define FREE(call, object)                                                \
	do {                                                              \
		if ((object) && !error && (error = call(object)))         \
			fprintf(stderr, #call ": %s\n", strerror(error)); \
	} while (0)

/** Nothing may be in the way of destroying objects in this order. */
static int stop(struct verbs_end *e)
{
	struct ibv_context *ctx = e->ctx;
	const union ibv_gid gid = e->self.gid;
	struct ibv_async_event event;
	int error = 0;

	while (ibv_get_async_event(e->ctx, &event) == 0)
		ibv_ack_async_event(&event);
	FREE(ibv_destroy_qp, e->qp);
	FREE(ibv_destroy_qp, e->probe);
	FREE(ibv_destroy_qp, e->target);
	FREE(ibv_destroy_ah, e->ah);
	FREE(ibv_destroy_srq, e->srq);
	FREE(ibv_close_xrcd, e->xrcd);
	for (unsigned i = 0; i < ARRAY_LEN(e->cq); i++)
		FREE(ibv_destroy_cq, e->cq[i]);
	for (unsigned i = 0; i < ARRAY_LEN(e->cq); i++)
		FREE(ibv_destroy_comp_channel, e->channel[i]);
	FREE(ibv_dealloc_mw, e->mw);
	for (unsigned i = 0; i < SCENARIO_AREAS; i++) {
		FREE(ibv_dereg_mr, e->mr[i]);
		FREE(ibv_dereg_mr, e->old_mr[i]);
	}
	FREE(ibv_dealloc_pd, e->pd);
	FREE(ibv_dealloc_pd, e->other_pd);
	for (unsigned i = 0; i < SCENARIO_AREAS; i++)
		if (e->memory[i])
			munmap(e->memory[i] - GUARD_PAGE, pages(e->setup.area) + 2 * GUARD_PAGE);
	memset(e, 0, sizeof(*e));
	e->ctx = ctx;
	e->self.gid = gid;
	return -error;
}

/* ---- states ---- */

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	return !qp || ibv_query_qp(qp, &a, IBV_QP_STATE, &init) ? IBV_QPS_UNKNOWN : a.qp_state;
}

/** XRC: the initiator's, unless the target is in error. */
enum ibv_qp_state verbs_end_state(struct verbs_end *e)
{
	return state_of(e->target) == IBV_QPS_ERR ? IBV_QPS_ERR : state_of(e->qp);
}

static void set_path(struct ibv_qp_attr *a, const void *gid, uint32_t qpn)
{
	a->dest_qp_num = qpn;
	a->ah_attr = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = VERBS_PORT,
		.grh = {.sgid_index = (uint8_t)gid_index, .hop_limit = 64},
	};
	memcpy(a->ah_attr.grh.dgid.raw, gid, sizeof(a->ah_attr.grh.dgid));
}

static int modify_qp(struct verbs_end *e, struct ibv_qp *qp, uint32_t dqpn,
		     const struct verbs_call *c)
{
	const enum ibv_qp_state to = (enum ibv_qp_state)c->number;
	const enum ibv_qp_type type = qp == e->target ? IBV_QPT_XRC_RECV : e->setup.type;
	struct ibv_qp_attr a = scenario_attr(&c->setup, e->index, to);

	set_path(&a, &e->peer.gid, c->setup.dest_qp_num ? c->setup.dest_qp_num : dqpn);
	a.qp_access_flags &= e->setup.type == IBV_QPT_UC
				     ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
				     : ALL_ACCESS;
	if (e->setup.type == IBV_QPT_UD && to == IBV_QPS_RTR && !e->ah) {
		e->ah = ibv_create_ah(e->pd, &a.ah_attr);
		if (!e->ah)
			return -errno;
	}
	return -ibv_modify_qp(qp, &a, c->mask | scenario_attr_mask(type, state_of(qp), to));
}

static int make_probe(struct verbs_end *e)
{
	static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	const struct scenario_setup s = {.type = IBV_QPT_RC,
					 .access = IBV_ACCESS_REMOTE_READ,
					 .mtu = 256,
					 .dest_rd_atomic = 1};
	struct ibv_qp_init_attr init = {.send_cq = e->cq[0],
					.recv_cq = e->cq[1],
					.qp_type = s.type,
					.cap = {1, 1, 1, 1, 0}};
	enum ibv_qp_state from = IBV_QPS_RESET;

	e->probe = ibv_create_qp(e->pd, &init);
	for (size_t i = 0; e->probe && i < ARRAY_LEN(way); from = way[i++]) {
		struct ibv_qp_attr a = scenario_attr(&s, 0, way[i]);
		int error;

		set_path(&a, &e->peer.gid, e->peer.probe_qpn);
		error = ibv_modify_qp(e->probe, &a, scenario_attr_mask(s.type, from, way[i]));
		if (error)
			return -error;
	}
	if (e->probe)
		e->self.probe_qpn = e->probe->qp_num;
	return e->probe ? 0 : -errno;
}

/** XRC: the way to RTS is the target's, too. */
static int modify(struct verbs_end *e, const struct verbs_call *c)
{
	const enum ibv_qp_state to = (enum ibv_qp_state)c->number;
	const bool both =
		e->target && (to == IBV_QPS_INIT || to == IBV_QPS_RTR || to == IBV_QPS_RTS);
	int error = 0;

	if (!e->qp)
		return -EINVAL;
	error = modify_qp(e, e->qp, e->target ? e->peer.target_qpn : e->peer.qpn, c);
	if (!error && both)
		error = modify_qp(e, e->target, e->peer.qpn, c);
	if (!error && to != IBV_QPS_ERR)
		e->told_error = false;
	return error;
}

/** The one that the peer's requests come to. */
static int destroy_qp(struct verbs_end *e)
{
	struct ibv_qp **qp = e->target ? &e->target : &e->qp;
	int error = *qp ? ibv_destroy_qp(*qp) : EINVAL;

	if (!error)
		*qp = NULL;
	return -error;
}

/* ---- calls ---- */

static void effects(struct verbs_end *e)
{
	verbs_poll(e, UINT32_MAX);
	verbs_async(e, 0, "event ");
	if (!e->told_error && verbs_end_state(e) == IBV_QPS_ERR) {
		e->told_error = true;
		verbs_say(e, "ERR");
	}
}

static int copy(struct verbs_end *e, const struct verbs_call *c, void *data)
{
	uint8_t *at = c->area < SCENARIO_AREAS ? e->memory[c->area] : NULL;

	if (!at || c->offset > e->setup.area || c->len > e->setup.area - c->offset)
		return -EINVAL;
	if (c->what == VERBS_READ)
		memcpy(data, at + c->offset, c->len);
	else
		memcpy(at + c->offset, data, c->len);
	return 0;
}

static int do_call(struct verbs_end *e, const struct verbs_call *c, void *data)
{
	switch (c->what) {
	case VERBS_START:
		return start(e, c);
	case VERBS_PROBE:
		return make_probe(e);
	case VERBS_STOP:
		return stop(e);
	case VERBS_MODIFY:
		return modify(e, c);
	case VERBS_SEND:
		return verbs_post_send(e, data, (unsigned)c->number);
	case VERBS_RECV:
		return verbs_post_recv(e, data);
	case VERBS_EFFECTS:
		effects(e);
		return 0;
	case VERBS_COMPLETIONS:
		verbs_wait(e, (unsigned)c->number);
		return 0;
	case VERBS_STATE:
		return (int)verbs_end_state(e);
	case VERBS_READ:
	case VERBS_WRITE:
		return copy(e, c, data);
	case VERBS_DEREG:
		return dereg(e, c->area);
	case VERBS_REG:
		return register_area(e, c->area,
				     c->access < 0 ? (int)area_access[c->area] : c->access,
				     c->other_pd);
	case VERBS_MW:
		return new_mw(e, (unsigned)c->number, c->other_pd);
	case VERBS_DESTROY_QP:
		return destroy_qp(e);
	case VERBS_NOTIFY:
		return -ibv_req_notify_cq(e->cq[1], (int)c->number);
	case VERBS_EVENT:
		return verbs_cq_event(e, c->number);
	case VERBS_ASYNC:
		verbs_async(e, (unsigned)c->number, "");
		return 0;
	case VERBS_VENDOR_ERR:
		return verbs_way.vendor_err ? (int)e->vendor_err : -EOPNOTSUPP;
	case VERBS_SRQ_LIMIT:
		return srq_limit(e, (uint32_t)c->number);
	case VERBS_KILL:
		return raise(SIGKILL);
	default:
		return -EINVAL;
	}
}

void verbs_end_do(struct verbs_end *e, const struct verbs_call *c, void *data,
		  struct verbs_answer *a)
{
	e->peer = c->peer;
	e->text_len = 0;
	e->text[0] = 0;
	a->magic = VERBS_MAGIC;
	/* Of what is not made, nothing can be done. */
	a->result = c->area >= SCENARIO_AREAS ||
				    (c->what != VERBS_START && c->what != VERBS_STOP && !e->pd)
			    ? -EINVAL
			    : do_call(e, c, data);
	a->self = e->self;
	a->setup = e->setup;
}
