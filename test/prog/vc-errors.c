/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs-check: requests that must fail do so with IBTA's status, do not damage memory, and leave
 * the queue pair in the right state. Every case has a connection of its own. See vc.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../lab/parity/error-rows.h"
#include "vc.h"

/** A connection made for one case, and what is done with it. */
struct once {
	struct vc_attr attr;
	bool (*body)(struct vc *vc, struct vc_conn *c);
	const char *row; /* of the errors table, in place of a body */
};

/** The active side's request ends with the status wanted, and the QP is in the error state. */
static bool fails_with(struct vc *vc, struct vc_conn *c, struct vc_op *op,
		       enum ibv_wc_status status)
{
	struct vc_op behind = {.opcode = IBV_WR_SEND, .wr_id = 2, .flags = IBV_SEND_SIGNALED};
	struct vc_done d;
	int rc;

	op->wr_id = 1; /* not signaled: an error completes in any case */
	rc = vc_post(c, op, 1);
	VC_CHECK(vc, rc == 0, "post: %s", strerror(rc));
	behind.nsge = vc_cut(behind.sge, 1, &vc->out, 0, 8);
	rc = vc_post(c, &behind, 1);
	VC_CHECK(vc, rc == 0, "post behind: %s", strerror(rc));
	VC_TRY(vc_wait(c, c->scq, &d));
	VC_CHECK(vc, d.wr_id == 1 && d.status == status, "wr_id %llu: %s, not %s",
		 (unsigned long long)d.wr_id, ibv_wc_status_str(d.status),
		 ibv_wc_status_str(status));
	VC_TRY(vc_wait(c, c->scq, &d));
	VC_CHECK(vc, d.wr_id == 2 && d.status == IBV_WC_WR_FLUSH_ERR, "behind it: wr_id %llu %s",
		 (unsigned long long)d.wr_id, ibv_wc_status_str(d.status));
	VC_CHECK(vc, vc_qp_state(c) == IBV_QPS_ERR, "QP state %d, not ERR", vc_qp_state(c));
	return true;
}

/* ---- rows of the errors table (lab/parity/error-rows.c): one request that fails ---- */

enum { WATCHED = 8192 };

/** The passive side's region where the row takes one; both sides' *remote becomes it. */
struct region {
	struct ibv_pd *pd; /* owned; NULL: the region is in the usual one */
	struct ibv_mr *mr; /* owned */
};

static void region_free(struct region *r)
{
	if (r->mr)
		ibv_dereg_mr(r->mr);
	if (r->pd)
		ibv_dealloc_pd(r->pd);
	*r = (struct region){0};
}

static bool region_make(struct vc *vc, const struct err_row *row, struct region *r,
			struct err_region *remote)
{
	uint32_t mine = 0;
	enum err_end end;
	unsigned access;

	if (!err_row_region(row, &end, &access))
		return true;
	if (!vc->active) {
		if (row->fault == FAULT_REGION_PD)
			r->pd = ibv_alloc_pd(vc->ctx);
		VC_CHECK(vc, r->pd || row->fault != FAULT_REGION_PD, "ibv_alloc_pd: %s",
			 strerror(errno));
		r->mr = ibv_reg_mr(r->pd ? r->pd : vc->pd, vc->in.data, WATCHED, access);
		VC_CHECK(vc, r->mr, "ibv_reg_mr: %s", strerror(errno));
		mine = r->mr->rkey;
		if (row->fault == FAULT_REGION_GONE)
			region_free(r);
	}
	return vc_swap(vc, &mine, &remote->rkey, sizeof(mine));
}

static bool row_active(struct vc *vc, struct vc_conn *c, const struct err_row *row,
		       const struct err_region *remote)
{
	const struct err_region local = {
		.addr = (uintptr_t)vc->out.data, .len = vc->out.len, .lkey = vc->out.mr->lkey};
	struct vc_op op = {.nsge = 1};
	const struct ibv_send_wr wr = err_row_wr(row, &local, remote, 0, op.sge);
	const bool atomic = wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	op.opcode = wr.opcode;
	op.raddr = atomic ? wr.wr.atomic.remote_addr : wr.wr.rdma.remote_addr;
	op.rkey = atomic ? wr.wr.atomic.rkey : wr.wr.rdma.rkey;
	return fails_with(vc, c, &op, (enum ibv_wc_status)row->want.first);
}

static bool row_passive(struct vc *vc, struct vc_conn *c, const struct err_row *row)
{
	struct vc_done d;

	VC_TRY(vc_wait(c, c->rcq, &d));
	VC_CHECK(vc, d.wr_id == WR_RECV && d.status == (enum ibv_wc_status)row->want.recv,
		 "receive: %s, not %s", ibv_wc_status_str(d.status),
		 ibv_wc_status_str((enum ibv_wc_status)row->want.recv));
	return true;
}

/** Nothing outside the receive has changed. */
static bool row_memory(struct vc *vc, const struct err_row *row)
{
	/* A requester may send the packets before the one whose memory it has not. */
	if (row->fault == FAULT_LOCAL_BOUNDS)
		return true;
	for (size_t i = row->with_recv ? row->recv_len : 0; i < WATCHED; i++)
		VC_CHECK(vc, vc->in.data[i] == 0xee, "memory changed at %zu", i);
	return vc_buf_guards(vc, &vc->in, WATCHED);
}

static bool row_steps(struct vc *vc, struct vc_conn *c, const struct err_row *row, struct region *r)
{
	struct err_region remote = {
		.addr = c->peer.in_addr, .len = c->peer.in_len, .rkey = c->peer.in_rkey};
	struct ibv_sge sge;

	vc_buf_clear(&vc->in, WATCHED);
	vc_fill(vc->out.data, WATCHED, 1);
	VC_TRY(region_make(vc, row, r, &remote));
	if (!vc->active && row->with_recv) {
		vc_cut(&sge, 1, &vc->in, 0, row->recv_len);
		if (row->recv_lkey_bad)
			sge.lkey = ERR_NO_KEY;
		VC_TRY(vc_post_recv(c, WR_RECV, &sge, 1));
	}
	VC_TRY(vc_sync(vc));
	if (vc->active)
		VC_TRY(row_active(vc, c, row, &remote));
	else if (row->with_recv)
		VC_TRY(row_passive(vc, c, row));
	VC_TRY(vc_sync(vc));
	return row_memory(vc, row);
}

static bool run_row(struct vc *vc, struct vc_conn *c, const struct err_row *row)
{
	struct region r = {0};
	bool ok;

	/* A receive that is wrong would be any QP's of the SRQ. */
	if (row->recv_lkey_bad && c->srq)
		return vc_sync(vc);
	ok = row_steps(vc, c, row, &r);
	region_free(&r);
	return ok;
}

static const struct err_row *row_of(const char *name)
{
	for (unsigned i = 0; i < err_nrows; i++)
		if (strcmp(err_rows[i].name, name) == 0)
			return &err_rows[i];
	vc_die("the errors table has no row %s", name);
}

static bool case_once(struct vc *vc, void *arg)
{
	struct once *o = arg;
	const struct err_row *row = o->row ? row_of(o->row) : NULL;
	struct vc_conn c;
	bool ok;

	if (row) {
		o->attr.qp_access = (int)row->config.access;
		if (!o->attr.rnr_retry)
			o->attr.rnr_retry = row->config.rnr_retry;
	}
	ok = vc_conn_new(vc, &c, &o->attr) && (row ? run_row(vc, &c, row) : o->body(vc, &c));
	vc_conn_free(&c);
	return ok;
}

/* ---- what is more than one request ---- */

/** The receive comes after the SEND: the requester waits and tries again. */
static bool rnr_recovers(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_SEND, .wr_id = 1, .flags = IBV_SEND_SIGNALED};
	struct ibv_sge sge;
	struct vc_done d;

	vc_buf_clear(&vc->in, 5000);
	if (vc->active) {
		vc_fill(vc->out.data, 5000, 8);
		op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 5000);
		VC_CHECK(vc, vc_post(c, &op, 1) == 0, "post");
	}
	VC_TRY(vc_sync(vc)); /* posted */
	if (vc->active) {
		VC_TRY(vc_wait_ok(c, c->scq, 1, &d));
	} else {
		VC_TRY(vc_post_recv(c, 9, &sge, vc_cut(&sge, 1, &vc->in, 0, 5000)));
		VC_TRY(vc_wait_ok(c, c->rcq, 9, &d));
		VC_TRY(vc_same(vc, vc->in.data, 5000, 8, "received"));
	}
	return vc_sync(vc);
}

static bool retry_exhausted(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_SEND};

	VC_TRY(vc_sync(vc));
	if (vc->active) {
		op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 100);
		VC_TRY(fails_with(vc, c, &op, IBV_WC_RETRY_EXC_ERR));
	}
	return vc_sync(vc);
}

/** The peer destroys its QP under a connection that works. */
static bool peer_destroys(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {
		.opcode = IBV_WR_RDMA_WRITE, .raddr = c->peer.in_addr, .rkey = c->peer.in_rkey};

	if (!vc->active)
		VC_TRY(vc_qp_destroy_here(c));
	VC_TRY(vc_sync(vc));
	if (vc->active) {
		op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 100);
		VC_TRY(fails_with(vc, c, &op, IBV_WC_RETRY_EXC_ERR));
	}
	return vc_sync(vc);
}

/** XRC: an unknown SRQ number. The target goes to the error state, its SRQ loses nothing.
 */
static bool wrong_srqn(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_SEND};
	struct ibv_sge sge;
	struct vc_done d;

	if (!vc->active)
		VC_TRY(vc_post_recv(c, 5, &sge, vc_cut(&sge, 1, &vc->in, 0, 100)));
	VC_TRY(vc_sync(vc));
	if (vc->active) {
		c->peer.srqn ^= 0x5a5a5a;
		op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 100);
		VC_TRY(fails_with(vc, c, &op, IBV_WC_REM_INV_REQ_ERR));
	}
	VC_TRY(vc_sync(vc));
	if (vc->active)
		return true;
	VC_CHECK(vc, vc_qp_state(c) == IBV_QPS_ERR, "target's state %d, not ERR", vc_qp_state(c));
	VC_CHECK(vc, !vc_poll(c, c->rcq, &d), "a receive completed");
	return true;
}

/** Everything that was posted comes back, flushed, when the QP goes to the error state. */
static bool flush(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_SEND, .wr_id = 100};
	struct ibv_sge sge;
	struct vc_done d;

	if (!c->srq)
		for (int i = 0; i < 5; i++)
			VC_TRY(vc_post_recv(c, (uint64_t)i, &sge, vc_cut(&sge, 1, &vc->in, 0, 64)));
	VC_TRY(vc_qp_to_error(c));
	op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 8);
	VC_CHECK(vc, vc_post(c, &op, 1) == 0, "post in the error state");
	VC_TRY(vc_wait(c, c->scq, &d));
	VC_CHECK(vc, d.wr_id == 100 && d.status == IBV_WC_WR_FLUSH_ERR, "send: %s",
		 ibv_wc_status_str(d.status));
	for (int i = 0; !c->srq && i < 5; i++) {
		VC_TRY(vc_wait(c, c->rcq, &d));
		VC_CHECK(vc, d.wr_id == (uint64_t)i && d.status == IBV_WC_WR_FLUSH_ERR,
			 "receive %d: wr_id %llu %s", i, (unsigned long long)d.wr_id,
			 ibv_wc_status_str(d.status));
	}
	return vc_sync(vc);
}

/** Posting a SEND is refused before the QP is connected. */
static bool not_connected(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_SEND};

	op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 8);
	VC_CHECK(vc, vc_post(c, &op, 1) == EINVAL, "a SEND was taken in state INIT");
	return vc_sync(vc);
}

static bool queue_full(struct vc *vc, struct vc_conn *c)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
	int rc = 0, i;

	if (c->srq)
		return vc_sync(vc);
	for (i = 0; i <= 1 << 16 && rc == 0; i++)
		rc = ibv_post_recv(c->qp, &wr, &bad);
	VC_CHECK(vc, rc == ENOMEM, "after %d receives: %s", i, strerror(rc));
	VC_CHECK(vc, bad == &wr, "bad_wr is not the request that was refused");
	VC_CHECK(vc, i > VC_DEPTH, "only %d receives fit", i - 1);
	return vc_sync(vc);
}

/** UC: a WRITE with a bad key vanishes without an error, and the connection lives. */
static bool uc_survives(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_RDMA_WRITE,
			   .wr_id = 1,
			   .flags = IBV_SEND_SIGNALED,
			   .raddr = c->peer.in_addr,
			   .rkey = c->peer.in_rkey ^ 0x5a5a5a};
	struct ibv_sge sge;
	struct vc_done d;

	vc_buf_clear(&vc->in, 200);
	if (!vc->active)
		VC_TRY(vc_post_recv(c, 3, &sge, vc_cut(&sge, 1, &vc->in, 100, 50)));
	VC_TRY(vc_sync(vc));
	if (!vc->active) {
		VC_TRY(vc_wait_ok(c, c->rcq, 3, &d));
		VC_TRY(vc_same(vc, vc->in.data + 100, 50, 6, "received"));
		VC_CHECK(vc, vc->in.data[0] == 0xee, "memory changed");
		return vc_sync(vc);
	}
	vc_fill(vc->out.data, 50, 6);
	op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 50);
	VC_CHECK(vc, vc_post(c, &op, 1) == 0, "post");
	VC_TRY(vc_wait_ok(c, c->scq, 1, &d));
	op.opcode = IBV_WR_SEND;
	op.wr_id = 2;
	VC_CHECK(vc, vc_post(c, &op, 1) == 0, "post");
	VC_TRY(vc_wait_ok(c, c->scq, 2, &d));
	return vc_sync(vc);
}

/** UD: a wrong Q_Key drops the message silently; the next one arrives. */
static bool ud_bad_qkey(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {
		.opcode = IBV_WR_SEND, .wr_id = 1, .flags = IBV_SEND_SIGNALED, .qkey = 0x7654321};
	struct ibv_sge sge;
	struct vc_done d;

	vc_buf_clear(&vc->in, 200);
	if (!vc->active)
		VC_TRY(vc_post_recv(c, 3, &sge, vc_cut(&sge, 1, &vc->in, 0, 200)));
	VC_TRY(vc_sync(vc));
	if (!vc->active) {
		VC_TRY(vc_wait_ok(c, c->rcq, 3, &d));
		VC_CHECK(vc, d.byte_len == VC_GRH + 60, "byte_len %u", d.byte_len);
		return vc_sync(vc);
	}
	op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 50);
	VC_CHECK(vc, vc_post(c, &op, 1) == 0, "post");
	VC_TRY(vc_wait_ok(c, c->scq, 1, &d));
	op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 60);
	op.qkey = 0;
	op.wr_id = 2;
	VC_CHECK(vc, vc_post(c, &op, 1) == 0, "post");
	VC_TRY(vc_wait_ok(c, c->scq, 2, &d));
	return vc_sync(vc);
}

/** The server dies by SIGKILL in the middle of a connection: the client's requests end with an
 * error. */
static bool peer_killed(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {
		.opcode = IBV_WR_RDMA_WRITE, .raddr = c->peer.in_addr, .rkey = c->peer.in_rkey};
	char nothing;

	VC_TRY(vc_sync(vc));
	if (vc->opt.server)
		raise(SIGKILL);
	/* The TCP connection closes with the process. */
	VC_CHECK(vc, read(vc->sock, &nothing, 1) <= 0, "the server speaks");
	op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 100);
	return fails_with(vc, c, &op, IBV_WC_RETRY_EXC_ERR);
}

static bool case_killed(struct vc *vc, void *arg)
{
	struct once *o = arg;
	bool ok = case_once(vc, o);

	/* The peer is gone, so no verdicts are exchanged. */
	printf("%s %u - peer_killed\n", ok ? "ok" : "not ok", vc->passed + vc->failed + 1);
	if (!ok)
		printf("# client: %s\n", vc->why);
	printf("1..%u\n", vc->passed + vc->failed + 1);
	fflush(stdout);
	_exit(ok && vc->failed == 0 ? 0 : 1);
}

/* clang-format off */
static const struct {
	const char *name;
	enum ibv_qp_type type;
	struct once once;
	bool xrc; /* over XRC only */
} errors[] = {
	{"bad_rkey_write",       IBV_QPT_RC, {.row = "rc/write/unknown-rkey"}},
	{"bad_rkey_read",        IBV_QPT_RC, {.row = "rc/read/unknown-rkey"}},
	{"bad_rkey_atomic",      IBV_QPT_RC, {.row = "rc/fetch-add/unknown-rkey"}},
	{"beyond_the_end",       IBV_QPT_RC, {.row = "rc/write/past-region"}},
	{"before_the_start",     IBV_QPT_RC, {.row = "rc/write/before-region"}},
	{"address_wraps",        IBV_QPT_RC, {.row = "rc/write/address-wraps"}},
	{"no_permission",        IBV_QPT_RC, {.row = "rc/write/region-right"}},
	{"no_read_permission",   IBV_QPT_RC, {.row = "rc/read/region-right"}},
	{"no_atomic_permission", IBV_QPT_RC, {.row = "rc/fetch-add/region-right"}},
	{"atomic_unaligned",     IBV_QPT_RC, {.row = "rc/fetch-add/unaligned"}},
	{"stale_key",            IBV_QPT_RC, {.row = "rc/write/region-gone"}},
	{"other_pd",             IBV_QPT_RC, {.row = "rc/write/region-pd"}},
	{"qp_forbids",           IBV_QPT_RC, {.row = "rc/write/qp-no-right"}},
	{"send_too_long",        IBV_QPT_RC, {.row = "rc/send/too-long"}},
	{"receive_bad_lkey",     IBV_QPT_RC, {.row = "rc/send/receive-lkey"}},
	{"rnr_write_imm",        IBV_QPT_RC, {.row = "rc/write-imm/no-receive"}},
	{"rnr_exhausted",        IBV_QPT_RC, {.row = "rc/send/no-receive"}},
	{"rnr_no_retry",         IBV_QPT_RC, {.row = "rc/send/no-receive", .attr = {.rnr_retry = VC_ZERO}}},
	{"rnr_recovers",     IBV_QPT_RC, {.body = rnr_recovers}},
	{"wrong_qpn",        IBV_QPT_RC, {.body = retry_exhausted, .attr = {.wrong_qpn = 0xfffffe, .timeout = 10, .retry_cnt = 2}}},
	{"peer_destroys",    IBV_QPT_RC, {.body = peer_destroys, .attr = {.timeout = 10, .retry_cnt = 2}}},
	{"wrong_srqn",       IBV_QPT_RC, {.body = wrong_srqn}, .xrc = true},
	{"bad_lkey",             IBV_QPT_RC, {.row = "rc/write/lkey"}},
	{"read_bad_lkey",        IBV_QPT_RC, {.row = "rc/read/lkey"}},
	{"local_bounds",         IBV_QPT_RC, {.row = "rc/write/local-bounds"}},
	{"flush",            IBV_QPT_RC, {.body = flush}},
	{"flush",            IBV_QPT_UC, {.body = flush}},
	{"flush",            IBV_QPT_UD, {.body = flush}},
	{"not_connected",    IBV_QPT_RC, {.body = not_connected, .attr = {.stay_init = true}}},
	{"not_connected",    IBV_QPT_UC, {.body = not_connected, .attr = {.stay_init = true}}},
	{"queue_full",       IBV_QPT_RC, {.body = queue_full}},
	{"uc_survives",      IBV_QPT_UC, {.body = uc_survives}},
	{"ud_bad_qkey",      IBV_QPT_UD, {.body = ud_bad_qkey}},
};
/* clang-format on */

void vc_group_errors(struct vc *vc)
{
	struct once killed = {.body = peer_killed, .attr = {.timeout = 10, .retry_cnt = 2}};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct once o = errors[i].once;

		if (errors[i].type == vc->opt.type && (vc->opt.xrc || !errors[i].xrc))
			vc_case(vc, errors[i].name, false, case_once, &o);
	}
	if (vc->opt.kill && vc->opt.type == IBV_QPT_RC)
		vc_case(vc, "peer_killed", false, case_killed, &killed);
}
