/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of a world, and the effects that each must have when it completes. See world.h. */
#include "world.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/util.h"

enum { POLL_BATCH = 16, BACKGROUND = 0x5a };

/* ---- what memory holds ---- */

static uint64_t mix(uint64_t a, uint64_t b)
{
	struct rng r = {.state = a * 0x2545f4914f6cdd1du ^ b};

	return rng_u64(&r);
}

static void pattern_fill(uint8_t *p, uint32_t len, uint64_t key)
{
	for (uint32_t i = 0; i < len; i += 8, key += 0x9e3779b97f4a7c15u)
		memcpy(p + i, &key, MIN(len - i, 8));
}

static bool pattern_is(const uint8_t *p, uint32_t len, uint64_t key)
{
	for (uint32_t i = 0; i < len; i += 8, key += 0x9e3779b97f4a7c15u)
		if (memcmp(p + i, &key, MIN(len - i, 8)) != 0)
			return false;
	return true;
}

static bool background_is(const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (p[i] != BACKGROUND)
			return false;
	return true;
}

static uint64_t key_of(const struct world_side *s, uint64_t op)
{
	return mix(s->id, op);
}

static uint64_t fixed_key(const struct world_side *s)
{
	return mix(s->id, UINT64_MAX);
}

void side_fill(struct world_side *s)
{
	pattern_fill(s->m->fixed, s->world->slot, fixed_key(s));
	s->m->counter = mix(s->id, UINT64_MAX - 1);
	s->other->counter = s->m->counter;
}

/* ---- posting ---- */

static bool keeps_order(const struct world_side *s)
{
	return s->conn->type != IBV_QPT_UD && s->conn->type != IBV_QPT_UC;
}

static bool takes_receive(enum world_op_kind k)
{
	return k == WORLD_SEND || k == WORLD_SEND_IMM || k == WORLD_WRITE_IMM ||
	       k == WORLD_SEND_INV;
}

static bool is_write(enum world_op_kind k)
{
	return k == WORLD_WRITE || k == WORLD_WRITE_IMM || k == WORLD_ATOMIC_WRITE;
}

static bool is_local(enum world_op_kind k)
{
	return k == WORLD_BIND || k == WORLD_LOCAL_INV;
}

static enum ibv_wr_opcode wr_opcode(enum world_op_kind k)
{
	static const int code[] = {
		[WORLD_SEND] = IBV_WR_SEND,
		[WORLD_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
		[WORLD_WRITE] = IBV_WR_RDMA_WRITE,
		[WORLD_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[WORLD_READ] = IBV_WR_RDMA_READ,
		[WORLD_FAA] = IBV_WR_ATOMIC_FETCH_AND_ADD,
		[WORLD_CAS] = IBV_WR_ATOMIC_CMP_AND_SWP,
		[WORLD_ATOMIC_WRITE] = ROCEMU_WR_ATOMIC_WRITE,
		[WORLD_FLUSH] = ROCEMU_WR_FLUSH,
		[WORLD_BIND] = IBV_WR_BIND_MW,
		[WORLD_LOCAL_INV] = IBV_WR_LOCAL_INV,
		[WORLD_SEND_INV] = IBV_WR_SEND_WITH_INV,
	};

	return (enum ibv_wr_opcode)code[k];
}

static enum ibv_wc_opcode wc_opcode(enum world_op_kind k)
{
	static const int code[] = {
		[WORLD_SEND] = IBV_WC_SEND,	      [WORLD_SEND_IMM] = IBV_WC_SEND,
		[WORLD_WRITE] = IBV_WC_RDMA_WRITE,    [WORLD_WRITE_IMM] = IBV_WC_RDMA_WRITE,
		[WORLD_READ] = IBV_WC_RDMA_READ,      [WORLD_FAA] = IBV_WC_FETCH_ADD,
		[WORLD_CAS] = IBV_WC_COMP_SWAP,	      [WORLD_ATOMIC_WRITE] = ROCEMU_WC_ATOMIC_WRITE,
		[WORLD_FLUSH] = ROCEMU_WC_FLUSH,      [WORLD_BIND] = IBV_WC_BIND_MW,
		[WORLD_LOCAL_INV] = IBV_WC_LOCAL_INV, [WORLD_SEND_INV] = IBV_WC_SEND,
	};

	return (enum ibv_wc_opcode)code[k];
}

static uint32_t random_len(struct world_side *s)
{
	struct rng *r = &s->world->rng;
	uint32_t mtu = 128u << s->conn->mtu, max = s->world->slot - WORLD_GUARD;

	if (s->conn->type == IBV_QPT_UD)
		return rng_below(r, MIN(mtu, max - WORLD_GRH) + 1);
	switch (rng_below(r, 8)) {
	case 0:
		return rng_below(r, 9);
	case 1:
		return MIN(mtu, max);
	case 2:
		return rng_below(r, max + 1);
	default:
		return rng_below(r, MIN(4 * mtu, max) + 1);
	}
}

/** The lengths of a UC or UD message follow from its number: it may be lost, or come twice. */
static uint32_t len_of(struct world_side *s, uint64_t op)
{
	struct rng mine = s->world->rng;
	uint32_t len;

	s->world->rng.state = key_of(s, op);
	len = random_len(s);
	s->world->rng = mine;
	return len;
}

static void fill_atomic(struct world_side *s, struct world_op *o, struct ibv_send_wr *wr)
{
	struct rng *r = &s->world->rng;

	o->old = s->counter;
	wr->wr.atomic.remote_addr = (uintptr_t)&s->other->m->counter;
	wr->wr.atomic.rkey = rocemu_mr_rkey(s->other->remote);
	wr->wr.atomic.compare_add = rng_u64(r);
	wr->wr.atomic.swap = rng_u64(r);
	if (o->kind == WORLD_FAA) {
		s->counter += wr->wr.atomic.compare_add;
		return;
	}
	if (rng_chance(r, 0.7))
		wr->wr.atomic.compare_add = s->counter;
	if (wr->wr.atomic.compare_add == s->counter)
		s->counter = wr->wr.atomic.swap;
}

static void fill_remote(struct world_side *s, struct world_op *o, struct ibv_send_wr *wr,
			unsigned slot)
{
	struct world_side *t = s->other;

	if (o->kind == WORLD_FAA || o->kind == WORLD_CAS) {
		fill_atomic(s, o, wr);
		return;
	}
	wr->wr.rdma.rkey = rocemu_mr_rkey(t->remote);
	wr->wr.rdma.remote_addr = (uintptr_t)t->m->dst[slot];
	if (o->kind == WORLD_READ)
		wr->wr.rdma.remote_addr = (uintptr_t)t->m->fixed;
	if (is_write(o->kind)) {
		memset(t->m->dst[slot], BACKGROUND, o->len + WORLD_GUARD);
		if (t->mw_state == MW_BOUND && o->kind != WORLD_ATOMIC_WRITE)
			wr->wr.rdma.rkey = rocemu_mw_rkey(t->mw);
	}
	if (o->kind == WORLD_FLUSH)
		wr->invalidate_rkey = ROCEMU_FLUSH_GLOBAL | ROCEMU_FLUSH_RANGE
								    << ROCEMU_FETH_LEVEL_SHIFT;
	if (o->kind == WORLD_SEND_INV) {
		wr->invalidate_rkey = rocemu_mw_rkey(t->mw);
		t->mw_state = MW_INVALIDATING;
	}
}

static void fill_bind(struct world_side *s, struct world_op *o, struct ibv_send_wr *wr,
		      struct ibv_mw *mw, struct ibv_mr *mr)
{
	*mw = (struct ibv_mw){.rkey = rocemu_mw_rkey(s->mw)};
	*mr = (struct ibv_mr){.lkey = rocemu_mr_lkey(s->remote)};
	if (o->kind == WORLD_LOCAL_INV) {
		wr->invalidate_rkey = mw->rkey;
		s->mw_state = MW_INVALIDATING;
		return;
	}
	s->mw_state = MW_BINDING;
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = (mw->rkey & ~0xffu) | ((mw->rkey + 1) & 0xff);
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		mr, (uintptr_t)s->m->dst, sizeof(s->m->dst), IBV_ACCESS_REMOTE_WRITE};
}

static uint32_t op_len(struct world_side *s, enum world_op_kind kind)
{
	if (kind == WORLD_FAA || kind == WORLD_CAS || kind == WORLD_ATOMIC_WRITE)
		return 8;
	return is_local(kind) ? 0 : len_of(s, s->posted);
}

bool side_post_kind(struct world_side *s, enum world_op_kind kind)
{
	struct world *w = s->world;
	unsigned slot = (unsigned)(s->posted % WORLD_DEPTH);
	struct world_op *o = &s->ops[slot];
	struct ibv_sge sge = {(uintptr_t)s->m->src[slot], 0, 0};
	struct ibv_send_wr wr = {
		.wr_id = s->posted, .opcode = wr_opcode(kind), .sg_list = &sge, .num_sge = 1};
	struct ibv_mw mw;
	struct ibv_mr mr;

	if (s->posted - s->done == WORLD_DEPTH || !s->local || !s->other->remote || !s->remote ||
	    (keeps_order(s) && s->other->due - s->other->received >= WORLD_RECVS))
		return false;
	*o = (struct world_op){.kind = kind, .len = op_len(s, kind)};
	sge.length = o->len;
	sge.lkey = rocemu_mr_lkey(s->local);
	/* At least one of each half of the queue: unsignaled requests alone free no place in it. */
	o->signaled =
		rng_chance(&w->rng, 0.6) || s->posted % (WORLD_DEPTH / 2) == 0 || is_local(kind);
	if (o->signaled)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (s->fetches && rng_chance(&w->rng, 0.05))
		wr.send_flags |= IBV_SEND_FENCE;
	wr.imm_data = htonl((uint32_t)s->posted);
	pattern_fill(s->m->src[slot], o->len,
		     kind == WORLD_READ ? ~key_of(s, s->posted) : key_of(s, s->posted));
	if (is_local(kind))
		fill_bind(s, o, &wr, &mw, &mr);
	else if (s->conn->type != IBV_QPT_UD)
		fill_remote(s, o, &wr, slot);
	if (s->conn->type == IBV_QPT_UD) {
		wr.wr.ud.remote_qpn = rocemu_qp_num(s->other->qp);
		wr.wr.ud.remote_qkey = 1;
	}
	if (s->conn->type == IBV_QPT_XRC_SEND)
		wr.qp_type.xrc.remote_srqn = rocemu_srq_num(s->other->srq);
	world_assert(w, rocemu_qp_post_send(s->qp, w->fabric->now, &wr, &s->path) == 0);
	if (takes_receive(kind) && keeps_order(s)) {
		o->message = s->other->due;
		s->other->messages[s->other->due++ % ARRAY_LEN(s->messages)] =
			(struct world_message){s->posted, kind, o->len};
	}
	if (s->posted++ == s->done)
		s->progress = w->fabric->now;
	w->stats.requests++;
	return true;
}

void side_post(struct world_side *s)
{
	struct rng *r = &s->world->rng;
	enum world_op_kind kind;

	if (s->conn->type == IBV_QPT_UD || s->conn->type == IBV_QPT_UC) {
		kind = s->conn->type == IBV_QPT_UC && rng_chance(r, 0.2) ? WORLD_WRITE
									 : WORLD_SEND_IMM;
	} else if (s->mw && s->mw_state == MW_UNBOUND && rng_chance(r, 0.2)) {
		kind = WORLD_BIND;
	} else {
		kind = (enum world_op_kind)rng_below(r, WORLD_BIND);
		if (kind == WORLD_FLUSH && rng_chance(r, 0.5))
			kind = WORLD_READ;
		if (s->other->mw_state == MW_BOUND && rng_chance(r, 0.02))
			kind = WORLD_SEND_INV;
	}
	side_post_kind(s, kind);
}

void side_post_recvs(struct world_side *s, unsigned n)
{
	while (n-- && s->qp && s->local && s->recvs - s->received < WORLD_RECVS &&
	       (s->recvs < s->due || !keeps_order(s))) {
		struct ibv_sge sge = {(uintptr_t)s->m->recv[s->recvs % WORLD_RECVS], s->world->slot,
				      rocemu_mr_lkey(s->local)};
		struct ibv_recv_wr wr = {.wr_id = s->recvs, .sg_list = &sge, .num_sge = 1};
		const struct ibv_recv_wr *bad;

		memset((void *)(uintptr_t)sge.addr, BACKGROUND, s->world->slot);
		if (s->srq)
			world_assert(s->world, rocemu_srq_post(s->srq, &wr, &bad) == 0);
		else if (rocemu_qp_state(s->qp) != IBV_QPS_ERR &&
			 rocemu_qp_state(s->qp) != IBV_QPS_RESET)
			world_assert(s->world, rocemu_qp_post_recv(s->qp, s->world->fabric->now,
								   &wr, &bad) == 0);
		else
			return;
		s->recvs++;
	}
}

/* ---- completions ---- */

static void poll_recv(struct world_side *s);

static void check_write(const struct world_side *s, const struct world_op *o, uint64_t n)
{
	const uint8_t *p = s->other->m->dst[n % WORLD_DEPTH];

	if (!pattern_is(p, o->len, key_of(s, n)))
		side_fail(
			s,
			"request %llu (WRITE of %u bytes) is complete, memory holds something else",
			(unsigned long long)n, o->len);
	if (!background_is(p + o->len, WORLD_GUARD))
		side_fail(s, "request %llu (WRITE of %u bytes) wrote behind its end",
			  (unsigned long long)n, o->len);
}

/** Request n is complete: it has had its effect. */
static void check_effect(struct world_side *s, uint64_t n)
{
	const struct world_op *o = &s->ops[n % WORLD_DEPTH];
	const uint8_t *src = s->m->src[n % WORLD_DEPTH];
	uint64_t old;

	if (!keeps_order(s))
		return;
	if (is_write(o->kind))
		check_write(s, o, n);
	if (o->kind == WORLD_READ && !pattern_is(src, o->len, fixed_key(s->other)))
		side_fail(
			s,
			"request %llu (READ of %u bytes) is complete, memory holds something else",
			(unsigned long long)n, o->len);
	if (o->kind == WORLD_FAA || o->kind == WORLD_CAS) {
		memcpy(&old, src, 8);
		if (old != o->old)
			side_fail(s, "request %llu (atomic) returned %#llx, not %#llx",
				  (unsigned long long)n, (unsigned long long)old,
				  (unsigned long long)o->old);
	}
	if (takes_receive(o->kind) && s->other->qp && !s->conn->excused) {
		poll_recv(s->other);
		if (s->other->received <= o->message)
			side_fail(s, "request %llu is complete, its receive is not",
				  (unsigned long long)n);
	}
	if (o->kind == WORLD_BIND)
		s->mw_state = MW_BOUND;
	if (o->kind == WORLD_LOCAL_INV)
		s->mw_state = MW_UNBOUND;
}

static void first_failure(struct world_side *s, const struct rocemu_cqe *c)
{
	s->failed = true;
	if (!s->conn->excused)
		side_fail(s, "request %llu failed: status %d, syndrome %#x",
			  (unsigned long long)c->wr_id, c->status, c->vendor_err);
	if (s->conn->state == CONN_ALIVE)
		s->conn->state = CONN_ENDING;
}

static void completed(struct world_side *s, const struct rocemu_cqe *c)
{
	bool good = c->status == IBV_WC_SUCCESS;

	world_note(s->world, c->wr_id << 8 | c->status);
	if (c->wr_id < s->done || c->wr_id >= s->posted)
		side_fail(s, "completion of request %llu, outstanding are %llu to %llu",
			  (unsigned long long)c->wr_id, (unsigned long long)s->done,
			  (unsigned long long)s->posted);
	/* A local request may have been executed before the one ahead of it failed. */
	if (s->failed && c->status != IBV_WC_WR_FLUSH_ERR &&
	    !(good && is_local(s->ops[c->wr_id % WORLD_DEPTH].kind)))
		side_fail(s, "request %llu after a failed one: status %d",
			  (unsigned long long)c->wr_id, c->status);
	for (; s->done < c->wr_id; s->done++) {
		/* C11-8: once flushing, every request completes, signaled or not. */
		if (s->ops[s->done % WORLD_DEPTH].signaled || s->failed)
			side_fail(s, "completion of request %llu (status %d) before that of %llu",
				  (unsigned long long)c->wr_id, c->status,
				  (unsigned long long)s->done);
		check_effect(s, s->done);
	}
	if (good) {
		const struct world_op *o = &s->ops[c->wr_id % WORLD_DEPTH];

		if (!o->signaled || c->opcode != wc_opcode(o->kind))
			side_fail(s, "request %llu: opcode %d, signaled %d",
				  (unsigned long long)c->wr_id, c->opcode, o->signaled);
		check_effect(s, c->wr_id);
		s->world->stats.good++;
	} else {
		s->world->stats.bad++;
		if (!s->failed)
			first_failure(s, c);
	}
	s->done++;
	s->progress = s->world->fabric->now;
}

bool side_waits(const struct world_side *s)
{
	for (uint64_t n = s->done; n < s->posted; n++)
		if (s->ops[n % WORLD_DEPTH].signaled)
			return true;
	return false;
}

static const uint8_t *recv_data(const struct world_side *s, const struct rocemu_cqe *c)
{
	return s->m->recv[c->wr_id % WORLD_RECVS] + (s->conn->type == IBV_QPT_UD ? WORLD_GRH : 0);
}

/** UC, UD: some message of the other side, whole. */
static void check_datagram(struct world_side *s, const struct rocemu_cqe *c)
{
	uint32_t len = c->byte_len - (s->conn->type == IBV_QPT_UD ? WORLD_GRH : 0);

	if (c->imm >= s->other->posted || len != len_of(s->other, c->imm) ||
	    !pattern_is(recv_data(s, c), len, key_of(s->other, c->imm)))
		side_fail(s, "receive %llu: message %u, %u bytes, not as sent",
			  (unsigned long long)c->wr_id, c->imm, len);
}

/** UC, where packets keep their order: a message that the network doubled comes once. */
static void check_order(struct world_side *s, const struct rocemu_cqe *c)
{
	const struct fabric_config *f = &s->world->fabric->cfg;

	if (s->conn->type != IBV_QPT_UC || f->reorder > 0 || f->jitter_ns)
		return;
	if (c->imm < s->newest)
		side_fail(s, "receive %llu: message %u, after message %llu",
			  (unsigned long long)c->wr_id, c->imm, (unsigned long long)s->newest - 1);
	s->newest = (uint64_t)c->imm + 1;
}

static void check_message(struct world_side *s, const struct rocemu_cqe *c)
{
	const struct world_message *m = &s->messages[s->received % ARRAY_LEN(s->messages)];
	bool write = m->kind == WORLD_WRITE_IMM;

	if (c->wr_id != s->received || s->received >= s->due)
		side_fail(s, "receive %llu, expected is %llu of %llu", (unsigned long long)c->wr_id,
			  (unsigned long long)s->received, (unsigned long long)s->due);
	if (c->opcode != (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
	    c->byte_len != m->len ||
	    ((m->kind == WORLD_SEND_IMM || write) && c->imm != (uint32_t)m->op))
		side_fail(s,
			  "receive %llu: opcode %d, %u bytes, immediate %u; expected %u bytes of "
			  "request %llu",
			  (unsigned long long)c->wr_id, c->opcode, c->byte_len, c->imm, m->len,
			  (unsigned long long)m->op);
	if (!write && (!pattern_is(recv_data(s, c), m->len, key_of(s->other, m->op)) ||
		       !background_is(recv_data(s, c) + m->len, WORLD_GUARD)))
		side_fail(s, "receive %llu (%u bytes) is complete, memory holds something else",
			  (unsigned long long)c->wr_id, m->len);
	if (m->kind == WORLD_SEND_INV) {
		world_assert(s->world, c->wc_flags & IBV_WC_WITH_INV);
		s->mw_state = MW_UNBOUND;
	}
}

static void received(struct world_side *s, const struct rocemu_cqe *c)
{
	world_note(s->world, ~(c->wr_id << 8 | c->status));
	if (c->wr_id < s->received || c->wr_id >= s->recvs)
		side_fail(s, "completion of receive %llu, outstanding are %llu to %llu",
			  (unsigned long long)c->wr_id, (unsigned long long)s->received,
			  (unsigned long long)s->recvs);
	if (c->status == IBV_WC_SUCCESS && keeps_order(s)) {
		check_message(s, c);
	} else if (c->status == IBV_WC_SUCCESS) {
		check_datagram(s, c);
		check_order(s, c);
	} else if (!s->conn->excused) {
		side_fail(s, "receive %llu failed: status %d", (unsigned long long)c->wr_id,
			  c->status);
	} else if (s->conn->state == CONN_ALIVE) {
		s->conn->state = CONN_ENDING;
	}
	s->received++;
}

static void poll_recv(struct world_side *s)
{
	struct rocemu_cqe c[POLL_BATCH];
	unsigned n;

	while (s->rcq && (n = rocemu_cq_poll(s->rcq, c, POLL_BATCH)))
		for (unsigned i = 0; i < n; i++)
			received(s, &c[i]);
}

void side_poll(struct world_side *s)
{
	struct rocemu_cqe c[POLL_BATCH];
	unsigned n;

	poll_recv(s);
	while (s->scq && (n = rocemu_cq_poll(s->scq, c, POLL_BATCH)))
		for (unsigned i = 0; i < n; i++)
			completed(s, &c[i]);
}
