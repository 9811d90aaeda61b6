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

#include "vc.h"

/** A connection made for one case, destroyed however the case ends. */
struct once {
	struct vc_attr attr;
	bool (*body)(struct vc *vc, struct vc_conn *c);
};

static bool case_once(struct vc *vc, void *arg)
{
	struct once *o = arg;
	struct vc_conn c;
	bool ok = vc_conn_new(vc, &c, &o->attr) && o->body(vc, &c);

	vc_conn_free(&c);
	return ok;
}

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

/** One bad request by the active side; the passive side's memory must not change. */
static bool bad_request(struct vc *vc, struct vc_conn *c, struct vc_op *op, size_t size,
			enum ibv_wc_status status)
{
	vc_buf_clear(&vc->in, 4096);
	vc_fill(vc->out.data, 4096, 1);
	VC_TRY(vc_sync(vc));
	if (vc->active) {
		op->nsge = vc_cut(op->sge, 1, &vc->out, 0, size);
		VC_TRY(fails_with(vc, c, op, status));
	}
	VC_TRY(vc_sync(vc));
	for (size_t i = 0; i < 4096; i++)
		VC_CHECK(vc, vc->in.data[i] == 0xee, "memory changed at %zu", i);
	return true;
}

/* clang-format off */
static bool bad_rkey_write(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_RDMA_WRITE, .raddr = c->peer.in_addr, .rkey = c->peer.in_rkey ^ 0x5a5a5a};
	return bad_request(vc, c, &op, 100, IBV_WC_REM_ACCESS_ERR);
}

static bool bad_rkey_read(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_RDMA_READ, .raddr = c->peer.out_addr, .rkey = c->peer.out_rkey ^ 0x5a5a5a};
	return bad_request(vc, c, &op, 100, IBV_WC_REM_ACCESS_ERR);
}

static bool bad_rkey_atomic(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .raddr = c->peer.in_addr, .rkey = c->peer.in_rkey ^ 0x5a5a5a};
	return bad_request(vc, c, &op, 8, IBV_WC_REM_ACCESS_ERR);
}

static bool beyond_the_end(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_RDMA_WRITE, .raddr = c->peer.in_addr + c->peer.in_len - 99, .rkey = c->peer.in_rkey};
	return bad_request(vc, c, &op, 100, IBV_WC_REM_ACCESS_ERR);
}

static bool before_the_start(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_RDMA_READ, .raddr = c->peer.out_addr - 1, .rkey = c->peer.out_rkey};
	return bad_request(vc, c, &op, 100, IBV_WC_REM_ACCESS_ERR);
}

static bool address_wraps(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_RDMA_WRITE, .raddr = UINT64_MAX - 9, .rkey = c->peer.in_rkey};
	return bad_request(vc, c, &op, 100, IBV_WC_REM_ACCESS_ERR);
}
/* clang-format on */

/** An address that is no multiple of 8 is an invalid request, whatever the region's rights. */
static bool atomic_unaligned(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			   .raddr = c->peer.in_addr + 4,
			   .rkey = c->peer.in_rkey};

	return bad_request(vc, c, &op, 8, IBV_WC_REM_INV_REQ_ERR);
}

/** A region that allows nothing remote. */
static bool region_forbids(struct vc *vc, struct vc_conn *c, enum ibv_wr_opcode opcode)
{
	struct vc_op op = {.opcode = opcode};
	struct ibv_mr *mr = ibv_reg_mr(vc->pd, vc->in.data, 4096, IBV_ACCESS_LOCAL_WRITE);
	uint32_t theirs = 0;
	bool ok;

	VC_CHECK(vc, mr, "ibv_reg_mr: %s", strerror(errno));
	ok = vc_swap(vc, &mr->rkey, &theirs, sizeof(theirs));
	op.raddr = c->peer.in_addr;
	op.rkey = theirs;
	ok = ok && bad_request(vc, c, &op, 8, IBV_WC_REM_ACCESS_ERR);
	ibv_dereg_mr(mr);
	return ok;
}

static bool no_permission(struct vc *vc, struct vc_conn *c)
{
	return region_forbids(vc, c, IBV_WR_RDMA_WRITE);
}

static bool no_read_permission(struct vc *vc, struct vc_conn *c)
{
	return region_forbids(vc, c, IBV_WR_RDMA_READ);
}

static bool no_atomic_permission(struct vc *vc, struct vc_conn *c)
{
	return region_forbids(vc, c, IBV_WR_ATOMIC_CMP_AND_SWP);
}

/** A key that was good until its region was deregistered. */
static bool stale_key(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_RDMA_WRITE};
	struct ibv_mr *mr = ibv_reg_mr(vc->pd, vc->in.data, 4096,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	uint32_t mine, theirs = 0;

	VC_CHECK(vc, mr, "ibv_reg_mr: %s", strerror(errno));
	mine = mr->rkey;
	VC_CHECK(vc, ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	VC_TRY(vc_swap(vc, &mine, &theirs, sizeof(theirs)));
	op.raddr = c->peer.in_addr;
	op.rkey = theirs;
	return bad_request(vc, c, &op, 100, IBV_WC_REM_ACCESS_ERR);
}

/** A region of another protection domain than the queue pair's. */
static bool other_pd(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_RDMA_WRITE};
	struct ibv_pd *pd = ibv_alloc_pd(vc->ctx);
	struct ibv_mr *mr;
	uint32_t theirs = 0;
	bool ok;

	VC_CHECK(vc, pd, "ibv_alloc_pd: %s", strerror(errno));
	mr = ibv_reg_mr(pd, vc->in.data, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	ok = mr && vc_swap(vc, &mr->rkey, &theirs, sizeof(theirs));
	op.raddr = c->peer.in_addr;
	op.rkey = theirs;
	ok = ok && bad_request(vc, c, &op, 100, IBV_WC_REM_ACCESS_ERR);
	if (mr)
		ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	return ok;
}

/** The QP allows no remote access at all: IBTA has an invalid-request NAK for it. */
static bool qp_forbids(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {
		.opcode = IBV_WR_RDMA_WRITE, .raddr = c->peer.in_addr, .rkey = c->peer.in_rkey};

	return bad_request(vc, c, &op, 100, IBV_WC_REM_INV_REQ_ERR);
}

static bool send_too_long(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_SEND};
	struct ibv_sge sge;
	struct vc_done d;

	vc_buf_clear(&vc->in, 100);
	if (!vc->active)
		VC_TRY(vc_post_recv(c, 9, &sge, vc_cut(&sge, 1, &vc->in, 0, 100)));
	VC_TRY(vc_sync(vc));
	if (vc->active) {
		op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 101);
		VC_TRY(fails_with(vc, c, &op, IBV_WC_REM_INV_REQ_ERR));
	} else {
		VC_TRY(vc_wait(c, c->rcq, &d));
		VC_CHECK(vc, d.wr_id == 9 && d.status == IBV_WC_LOC_LEN_ERR, "receive: %s",
			 ibv_wc_status_str(d.status));
		VC_TRY(vc_buf_guards(vc, &vc->in, 100));
	}
	return vc_sync(vc);
}

/** What the receive names is not registered: the responder's own fault, a remote operational error.
 */
static bool receive_bad_lkey(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_SEND};
	struct ibv_sge sge;
	struct vc_done d;

	vc_buf_clear(&vc->in, 100);
	if (!vc->active && !c->srq) {
		vc_cut(&sge, 1, &vc->in, 0, 100);
		sge.lkey ^= 0x5a5a5a;
		VC_TRY(vc_post_recv(c, 9, &sge, 1));
	}
	VC_TRY(vc_sync(vc));
	if (vc->active && !c->srq) {
		op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 100);
		VC_TRY(fails_with(vc, c, &op, IBV_WC_REM_OP_ERR));
	} else if (!c->srq) {
		VC_TRY(vc_wait(c, c->rcq, &d));
		VC_CHECK(vc, d.wr_id == 9 && d.status == IBV_WC_LOC_PROT_ERR, "receive: %s, not %s",
			 ibv_wc_status_str(d.status), ibv_wc_status_str(IBV_WC_LOC_PROT_ERR));
		VC_TRY(vc_buf_guards(vc, &vc->in, 100));
	}
	return vc_sync(vc);
}

static bool rnr_exhausted(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_SEND};

	VC_TRY(vc_sync(vc));
	if (vc->active) {
		op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 100);
		VC_TRY(fails_with(vc, c, &op, IBV_WC_RNR_RETRY_EXC_ERR));
	}
	return vc_sync(vc);
}

static bool rnr_write_imm(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			   .raddr = c->peer.in_addr,
			   .rkey = c->peer.in_rkey};

	VC_TRY(vc_sync(vc));
	if (vc->active) {
		op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 100);
		VC_TRY(fails_with(vc, c, &op, IBV_WC_RNR_RETRY_EXC_ERR));
	}
	return vc_sync(vc);
}

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

/* ---- local faults ---- */

static bool bad_lkey(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {
		.opcode = IBV_WR_RDMA_WRITE, .raddr = c->peer.in_addr, .rkey = c->peer.in_rkey};

	vc_buf_clear(&vc->in, 100);
	VC_TRY(vc_sync(vc));
	if (vc->active) {
		op.nsge = vc_cut(op.sge, 1, &vc->out, 0, 100);
		op.sge[0].lkey ^= 0x5a5a5a;
		VC_TRY(fails_with(vc, c, &op, IBV_WC_LOC_PROT_ERR));
	}
	return vc_sync(vc);
}

/** The response arrives, and there is nowhere to put it. */
static bool read_bad_lkey(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {
		.opcode = IBV_WR_RDMA_READ, .raddr = c->peer.out_addr, .rkey = c->peer.out_rkey};

	VC_TRY(vc_sync(vc));
	if (vc->active) {
		op.nsge = vc_cut(op.sge, 1, &vc->in, 0, 100);
		op.sge[0].lkey ^= 0x5a5a5a;
		VC_TRY(fails_with(vc, c, &op, IBV_WC_LOC_PROT_ERR));
	}
	return vc_sync(vc);
}

static bool local_bounds(struct vc *vc, struct vc_conn *c)
{
	struct vc_op op = {.opcode = IBV_WR_SEND};

	VC_TRY(vc_sync(vc));
	if (vc->active) {
		op.nsge = vc_cut(op.sge, 1, &vc->out, vc->out.len - 99, 100);
		VC_TRY(fails_with(vc, c, &op, IBV_WC_LOC_PROT_ERR));
	}
	return vc_sync(vc);
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
	{"bad_rkey_write",   IBV_QPT_RC, {.body = bad_rkey_write}},
	{"bad_rkey_read",    IBV_QPT_RC, {.body = bad_rkey_read}},
	{"bad_rkey_atomic",  IBV_QPT_RC, {.body = bad_rkey_atomic}},
	{"beyond_the_end",   IBV_QPT_RC, {.body = beyond_the_end}},
	{"before_the_start", IBV_QPT_RC, {.body = before_the_start}},
	{"address_wraps",    IBV_QPT_RC, {.body = address_wraps}},
	{"no_permission",    IBV_QPT_RC, {.body = no_permission}},
	{"no_read_permission",   IBV_QPT_RC, {.body = no_read_permission}},
	{"no_atomic_permission", IBV_QPT_RC, {.body = no_atomic_permission}},
	{"atomic_unaligned", IBV_QPT_RC, {.body = atomic_unaligned}},
	{"stale_key",        IBV_QPT_RC, {.body = stale_key}},
	{"other_pd",         IBV_QPT_RC, {.body = other_pd}},
	{"qp_forbids",       IBV_QPT_RC, {.body = qp_forbids, .attr = {.qp_access = -1}}},
	{"send_too_long",    IBV_QPT_RC, {.body = send_too_long}},
	{"receive_bad_lkey", IBV_QPT_RC, {.body = receive_bad_lkey}},
	{"rnr_write_imm",    IBV_QPT_RC, {.body = rnr_write_imm, .attr = {.rnr_retry = 2}}},
	{"rnr_exhausted",    IBV_QPT_RC, {.body = rnr_exhausted, .attr = {.rnr_retry = 2}}},
	{"rnr_no_retry",     IBV_QPT_RC, {.body = rnr_exhausted, .attr = {.rnr_retry = VC_ZERO}}},
	{"rnr_recovers",     IBV_QPT_RC, {.body = rnr_recovers}},
	{"wrong_qpn",        IBV_QPT_RC, {.body = retry_exhausted, .attr = {.wrong_qpn = 0xfffffe, .timeout = 10, .retry_cnt = 2}}},
	{"peer_destroys",    IBV_QPT_RC, {.body = peer_destroys, .attr = {.timeout = 10, .retry_cnt = 2}}},
	{"wrong_srqn",       IBV_QPT_RC, {.body = wrong_srqn}, .xrc = true},
	{"bad_lkey",         IBV_QPT_RC, {.body = bad_lkey}},
	{"read_bad_lkey",    IBV_QPT_RC, {.body = read_bad_lkey}},
	{"local_bounds",     IBV_QPT_RC, {.body = local_bounds}},
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
