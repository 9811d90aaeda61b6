/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ibv_wr_* interface. Requests built between ibv_wr_start() and ibv_wr_complete() are staged
 * here as plain work requests, and posted at complete: all of it or, when anything in it is wrong,
 * nothing. The lock that the interface requires (one builder at a time) is a mutex held from start
 * to complete or abort.
 *
 * All room is taken when the QP is made: as many requests as its send queue has, each with its SGEs
 * and its inline bytes (inline data is the program's again when the setter returns).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "base/words.h"
#include "verbs/orphan.h"
#include "verbs/post.h"
#include "verbs/qp.h"
#include "verbs/wr.h"

struct vb_wr {
	pthread_mutex_t building;
	struct ibv_send_wr *wrs; /* owned, cap.max_send_wr */
	struct ibv_sge *sges;	 /* owned, max_sge for each of wrs */
	uint8_t *inl;		 /* owned, cap.max_inline_data for each of wrs, or NULL */
	unsigned max_sge;	 /* at least 1: inline data takes one */
	unsigned n;		 /* staged so far */
	int err;		 /* errno of the first thing that went wrong, or 0 */
	uint64_t ops;		 /* IBV_QP_EX_WITH_* that the program requested */
};

static inline struct vb_qp *ex_of(struct ibv_qp_ex *ex)
{
	return container_of(ex, struct vb_qp, base);
}

static void spoil(struct vb_wr *w, int err)
{
	if (!w->err)
		w->err = err;
}

/** The request being built, or NULL when there is none or the batch has failed. */
static struct ibv_send_wr *current(struct vb_wr *w)
{
	return w->err || w->n == 0 ? NULL : &w->wrs[w->n - 1];
}

static struct ibv_send_wr *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op)
{
	struct vb_qp *qp = ex_of(ex);
	struct vb_wr *w = qp->wr;
	struct ibv_send_wr *wr;

	if (!(w->ops & op))
		spoil(w, REFUSE(EOPNOTSUPP, ex->qp_base.qp_num,
				"ibv_wr_*() QP 0x%x: opcode %d: send_ops_flags of the QP's "
				"creation has no such bit: set it",
				ex->qp_base.qp_num, (int)opcode));
	if (w->n == qp->cap.max_send_wr)
		spoil(w, REFUSE(ENOMEM, ex->qp_base.qp_num,
				"ibv_wr_*() QP 0x%x: a batch has %u requests, as many as "
				"max_send_wr: complete it earlier, or create "
				"the QP with more",
				ex->qp_base.qp_num, w->n));
	if (w->err)
		return NULL;
	wr = &w->wrs[w->n];
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = ex->wr_id;
	wr->send_flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE;
	wr->opcode = opcode;
	wr->sg_list = &w->sges[(size_t)w->n * w->max_sge];
	w->n++;
	return wr;
}

/* ---- operations ---- */

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, IBV_WR_SEND, IBV_QP_EX_WITH_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	struct ibv_send_wr *wr = begin(ex, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM);

	if (wr)
		wr->imm_data = imm_data;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	struct ibv_send_wr *wr = begin(ex, IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV);

	if (wr)
		wr->invalidate_rkey = invalidate_rkey;
}

static struct ibv_send_wr *begin_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op,
				      uint32_t rkey, uint64_t remote_addr)
{
	struct ibv_send_wr *wr = begin(ex, opcode, op);

	if (wr) {
		wr->wr.rdma.rkey = rkey;
		wr->wr.rdma.remote_addr = remote_addr;
	}
	return wr;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, remote_addr);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	struct ibv_send_wr *wr = begin_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM,
					    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

	if (wr)
		wr->imm_data = imm_data;
}

static void begin_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op,
			 uint32_t rkey, uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = begin(ex, opcode, op);

	if (!wr)
		return;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	begin_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, rkey,
		     remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	begin_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, rkey,
		     remote_addr, add, 0);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	struct ibv_send_wr *wr = begin(ex, IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV);

	if (wr)
		wr->invalidate_rkey = invalidate_rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = begin(ex, IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW);

	if (!wr)
		return;
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

/** Unsupported operations: a QP with them could not be created, so calling one fails the batch. */
static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	(void)hdr;
	(void)hdr_sz;
	(void)mss;
	spoil(ex_of(ex)->wr, REFUSE(EOPNOTSUPP, ex->qp_base.qp_num,
				    "ibv_wr_send_tso() QP 0x%x: there is no TSO: send packets",
				    ex->qp_base.qp_num));
}

/* ---- setters ---- */

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct vb_wr *w = ex_of(ex)->wr;
	struct ibv_send_wr *wr = current(w);

	if (!wr || ex->qp_base.qp_type != IBV_QPT_UD) {
		spoil(w, REFUSE(EINVAL, ex->qp_base.qp_num,
				"ibv_wr_set_ud_addr() QP 0x%x: the call must follow a request of a "
				"UD QP: begin one first",
				ex->qp_base.qp_num));
		return;
	}
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = remote_qpn;
	wr->wr.ud.remote_qkey = remote_qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct vb_wr *w = ex_of(ex)->wr;
	struct ibv_send_wr *wr = current(w);

	if (!wr || ex->qp_base.qp_type != IBV_QPT_XRC_SEND)
		spoil(w, REFUSE(EINVAL, ex->qp_base.qp_num,
				"ibv_wr_set_xrc_srqn() QP 0x%x: the call must follow a request of "
				"an XRC_SEND QP: begin one first",
				ex->qp_base.qp_num));
	else
		wr->qp_type.xrc.remote_srqn = remote_srqn;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct vb_qp *qp = ex_of(ex);
	struct ibv_send_wr *wr = current(qp->wr);

	if (!wr || num_sge > qp->cap.max_send_sge) {
		spoil(qp->wr,
		      REFUSE(EINVAL, ex->qp_base.qp_num,
			     "ibv_wr_set_sge_list() QP 0x%x: num_sge is %zu: the call must follow "
			     "a request, with max_send_sge, %u, at most: create the QP with more",
			     ex->qp_base.qp_num, num_sge, qp->cap.max_send_sge));
		return;
	}
	if (num_sge)
		memcpy(wr->sg_list, sg_list, num_sge * sizeof(*sg_list));
	wr->num_sge = (int)num_sge;
	wr->send_flags &= ~(unsigned)IBV_SEND_INLINE;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *bufs)
{
	struct vb_qp *qp = ex_of(ex);
	struct vb_wr *w = qp->wr;
	struct ibv_send_wr *wr = current(w);
	size_t max = qp->cap.max_inline_data, len = 0;
	uint8_t *to;

	if (!wr) {
		spoil(w, REFUSE(EINVAL, ex->qp_base.qp_num,
				"ibv_wr_set_inline_data() QP 0x%x: the call must follow a request: "
				"begin one first",
				ex->qp_base.qp_num));
		return;
	}
	to = w->inl ? w->inl + (size_t)(w->n - 1) * max : NULL;
	for (size_t i = 0; i < num_buf; i++) {
		if (bufs[i].length > max - len) {
			spoil(w, REFUSE(EINVAL, ex->qp_base.qp_num,
					"ibv_wr_set_inline_data() QP 0x%x: the data is longer than "
					"max_inline_data, %zu: create the QP with "
					"more, or use ibv_wr_set_sge()",
					ex->qp_base.qp_num, max));
			return;
		}
		if (bufs[i].length)
			words_load(to + len, bufs[i].addr, bufs[i].length);
		len += bufs[i].length;
	}
	wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)to, .length = (uint32_t)len};
	wr->num_sge = len ? 1 : 0;
	wr->send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buf);
}

/* ---- operations that not every version's verbs.h has ---- */

#ifdef HAVE_WR_ATOMIC_WRITE
/** The eight bytes are the program's again when this returns: they go as inline data. */
static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *atomic_wr)
{
	struct ibv_data_buf word = {.addr = (void *)(uintptr_t)atomic_wr, .length = 8};

	if (begin_rdma(ex, IBV_WR_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE, rkey, remote_addr))
		wr_set_inline_data_list(ex, 1, &word);
}
#endif

#ifdef HAVE_WR_FLUSH
static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t len,
		     uint8_t type, uint8_t level)
{
	struct ibv_send_wr *wr;

	if (len > UINT32_MAX) {
		spoil(ex_of(ex)->wr, REFUSE(EINVAL, ex->qp_base.qp_num,
					    "ibv_wr_flush() QP 0x%x: len is %zu: it must fit in 32 "
					    "bits: flush in parts",
					    ex->qp_base.qp_num, len));
		return;
	}
	wr = begin_rdma(ex, IBV_WR_FLUSH, IBV_QP_EX_WITH_FLUSH, rkey, remote_addr);
	if (!wr)
		return;
	wr->invalidate_rkey = type | (uint32_t)level << ROCEMU_FETH_LEVEL_SHIFT;
	wr->sg_list[0] = (struct ibv_sge){.length = (uint32_t)len};
	wr->num_sge = 1;
}
#endif

/* ---- start, complete, abort ---- */

/* In a forked child, another thread of the parent may have held the lock. */
static bool is_orphan(const struct ibv_qp_ex *ex)
{
	return vb_context_of(ex->qp_base.context)->orphan;
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct vb_wr *w = ex_of(ex)->wr;

	if (likely(!is_orphan(ex)))
		pthread_mutex_lock(&w->building);
	w->n = 0;
	w->err = 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	if (likely(!is_orphan(ex)))
		pthread_mutex_unlock(&ex_of(ex)->wr->building);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct vb_qp *qp = ex_of(ex);
	struct vb_wr *w = qp->wr;
	int err = w->err;

	if (unlikely(is_orphan(ex)))
		return vb_errno(vb_orphan_refuse());
	if (!err && w->n > 0)
		err = vb_post_send_all(qp, w->wrs, w->n);
	pthread_mutex_unlock(&w->building);
	return err;
}

/* ---- life ---- */

static void set_entry_points(struct ibv_qp_ex *ex)
{
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
#ifdef HAVE_WR_ATOMIC_WRITE
	ex->wr_atomic_write = wr_atomic_write;
#endif
#ifdef HAVE_WR_FLUSH
	ex->wr_flush = wr_flush;
#endif
}

int vb_wr_init(struct vb_qp *qp, uint64_t ops)
{
	const struct ibv_qp_cap *cap = &qp->cap;
	struct vb_wr *w = calloc(1, sizeof(*w));
	size_t n = MAX(cap->max_send_wr, 1);

	if (!w)
		return -ENOMEM;
	qp->wr = w;
	w->ops = ops;
	w->max_sge = MAX(cap->max_send_sge, 1);
	w->wrs = calloc(n, sizeof(*w->wrs));
	w->sges = calloc(n * w->max_sge, sizeof(*w->sges));
	w->inl = cap->max_inline_data ? calloc(n, cap->max_inline_data) : NULL;
	pthread_mutex_init(&w->building, NULL);
	if (!w->wrs || !w->sges || (cap->max_inline_data && !w->inl)) {
		vb_wr_fini(qp);
		return -ENOMEM;
	}
	set_entry_points(&qp->base);
	return 0;
}

void vb_wr_fini(struct vb_qp *qp)
{
	struct vb_wr *w = qp->wr;

	if (!w)
		return;
	pthread_mutex_destroy(&w->building);
	free(w->wrs);
	free(w->sges);
	free(w->inl);
	free(w);
	qp->wr = NULL;
}
