/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a responder refuses (IBTA 9.7.4.1, 9.7.5.2, table 61): keys, bounds, rights, the QP's access
 * flags, messages longer than the receive; and what the requester's own memory does not allow.
 */
#include <errno.h>
#include <string.h>

#include "duo.h"

static const uint64_t REFUSED = 1ull << ROCEMU_DROP_ACCESS | 1ull << ROCEMU_DROP_TOO_LONG |
				1ull << ROCEMU_DROP_SEQUENCE | 1ull << ROCEMU_DROP_PSN |
				1ull << ROCEMU_DROP_STATE;

static struct sim_wr rdma(const struct duo *d, enum ibv_wr_opcode op, uint32_t len)
{
	struct sim_wr w = sim_wr(op, IBV_SEND_SIGNALED);

	sim_wr_local(&w, d->ma, 0, len);
	sim_wr_remote(&w, d->mb, 0);
	return w;
}

/**
 * Post w; it must fail with the status text, the responder's QP must be in error, and memory be
 * untouched.
 */
static void refused(struct duo *d, struct sim_wr *w, const char *nak, const char *done)
{
	assert_int_equal(sim_post(d->a, w), 0);
	sim_run(d->s);
	assert_string_equal(sim_done(d->a), done);
	assert_non_null(strstr(sim_effects(d->s), nak));
	assert_int_equal(rocemu_qp_state(d->a->qp), IBV_QPS_ERR);
	d->s->allowed_drops |= REFUSED;
	sim_end(d->s);
}

static const enum ibv_wr_opcode REMOTE[] = {
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_WR_ATOMIC_FETCH_AND_ADD,
};
enum { NREMOTE = 4 };

static uint64_t *remote_addr(struct sim_wr *w)
{
	return w->wr.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP ? &w->wr.wr.atomic.remote_addr
							 : &w->wr.wr.rdma.remote_addr;
}

static uint32_t *remote_key(struct sim_wr *w)
{
	return w->wr.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP ? &w->wr.wr.atomic.rkey
							 : &w->wr.wr.rdma.rkey;
}

TEST(rc_responder, unknown_rkey__remote_access_error)
{
	for (unsigned i = 0; i < NREMOTE; i++) {
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct duo d = duo_new("rkey-unknown", &o);
		struct sim_wr w = rdma(&d, REMOTE[i], 8);

		*remote_key(&w) ^= 0x55500;
		refused(&d, &w, "B NAK 62 100", "send REM_ACCESS");
	}
}

TEST(rc_responder, stale_rkey__remote_access_error)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("rkey-stale", &o);
	struct sim_wr w = rdma(&d, IBV_WR_RDMA_WRITE, 8);

	assert_int_equal(rocemu_mr_dereg(d.mb->mr), 0);
	d.mb->mr = NULL;
	/* Its index may be in use again: the key must not be. */
	sim_mem_new(d.s, 1, 4096, SIM_ACCESS_ALL);
	refused(&d, &w, "B NAK 62 100", "send REM_ACCESS");
}

TEST(rc_responder, one_byte_out_of_bounds__remote_access_error)
{
	for (unsigned i = 0; i < 2; i++) {
		for (int at_end = 0; at_end < 2; at_end++) {
			struct sim_qp_opts o = SIM_QP_OPTS;
			struct duo d = duo_new("bounds", &o);
			struct sim_wr w = rdma(&d, REMOTE[i], 8);

			*remote_addr(&w) = at_end ? d.mb->iova + d.mb->len - 7 : d.mb->iova - 1;
			refused(&d, &w, "B NAK 62 100", "send REM_ACCESS");
		}
	}
}

TEST(rc_responder, bounds_that_wrap_around__remote_access_error)
{
	for (unsigned i = 0; i < NREMOTE; i++) {
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct duo d = duo_new("bounds-wrap", &o);
		struct sim_wr w = rdma(&d, REMOTE[i], 8);

		*remote_addr(&w) = UINT64_MAX - 7;
		refused(&d, &w, "B NAK 62 100", "send REM_ACCESS");
	}
}

/* The whole message is checked when its first packet comes, before any byte is placed. */
TEST(rc_responder, long_write_out_of_bounds_at_its_end__nothing_placed)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("bounds-long", &o);
	struct sim_wr w = rdma(&d, IBV_WR_RDMA_WRITE, 1024);

	*remote_addr(&w) = d.mb->iova + d.mb->len - 1023;
	refused(&d, &w, "B NAK 62 100", "send REM_ACCESS");
}

TEST(rc_responder, region_lacks_the_right__remote_access_error)
{
	static const unsigned access[NREMOTE] = {
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	for (unsigned i = 0; i < NREMOTE; i++) {
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct duo d = duo_new("region-rights", &o);
		struct sim_wr w = rdma(&d, REMOTE[i], 8);

		sim_wr_remote(&w, sim_mem_new(d.s, 1, 4096, access[i]), 0);
		refused(&d, &w, "B NAK 62 100", "send REM_ACCESS");
	}
}

/* Table 61 (C9-56): an operation that the QP does not allow is an invalid request. */
TEST(rc_responder, qp_lacks_the_access_flag__invalid_request)
{
	static const unsigned access[NREMOTE] = {
		IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	for (unsigned i = 0; i < NREMOTE; i++) {
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct duo d;
		struct sim_wr w;

		o.access = access[i];
		d = duo_new("qp-rights", &o);
		w = rdma(&d, REMOTE[i], 8);
		refused(&d, &w, "B NAK 61 100", "send REM_INV_REQ");
	}
}

TEST(rc_responder, region_of_another_pd__remote_access_error)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("other-pd", &o);
	struct rocemu_pd *pd = rocemu_pd_new(d.s->node[1].ep);
	static uint8_t memory[64];
	struct sim_wr w = rdma(&d, IBV_WR_RDMA_WRITE, 8);
	struct rocemu_mr *mr;

	assert_int_equal(rocemu_mr_reg(pd, memory, sizeof(memory), 0x1000, SIM_ACCESS_ALL, &mr), 0);
	w.wr.wr.rdma.remote_addr = 0x1000;
	w.wr.wr.rdma.rkey = rocemu_mr_rkey(mr);
	refused(&d, &w, "B NAK 62 100",
		"send REM_ACCESS"); /* frees the endpoint with what is left in it */
}

TEST(rc_responder, unaligned_atomic__refused)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("unaligned", &o);
	struct sim_wr w = rdma(&d, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	int rc;

	w.wr.wr.atomic.remote_addr += 4;
	rc = sim_post(d.a, &w);
	assert_true(rc == 0 || rc == -EINVAL);
	sim_run(d.s);
	if (rc == 0)
		assert_string_equal(sim_done(d.a), "send REM_INV_REQ");
	d.s->allowed_drops |= REFUSED;
	sim_end(d.s);
}

TEST(rc_responder, zero_length_with_a_bad_rkey__allowed)
{
	for (unsigned i = 0; i < 2; i++) {
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct duo d = duo_new("zero-rkey", &o);
		struct sim_wr w = rdma(&d, REMOTE[i], 0);

		/* C9-88: no check of the R_Key when the length is zero. */
		w.wr.wr.rdma.rkey = 0xdead00;
		w.wr.wr.rdma.remote_addr = 0;
		assert_int_equal(sim_post(d.a, &w), 0);
		sim_run(d.s);
		assert_string_equal(sim_done(d.a), "send OK");
		sim_end(d.s);
	}
}

/* 9.7.5.2.6 and table 61: length error at the responder. */
TEST(rc_responder, send_longer_than_the_receive__invalid_request_and_length_error)
{
	static const uint32_t room[] = {0, 99, 255, 256, 699};

	for (unsigned i = 0; i < 5; i++) {
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct duo d = duo_new("too-long", &o);

		sim_recv(d.b, d.mb, 0, room[i]);
		sim_recv(d.b, d.mb, 0, 1024);
		sim_send(d.a, d.ma, 0, 700);
		sim_run(d.s);
		assert_string_equal(sim_done(d.a), "send REM_INV_REQ");
		assert_string_equal(sim_done(d.b), "recv LOC_LEN; recv FLUSH");
		assert_int_equal(rocemu_qp_state(d.b->qp), IBV_QPS_ERR);
		assert_int_equal(duo_stats(&d, 1)->err_naks_sent, 1);
		/* Packets that fitted may have been placed. */
		sim_want_any(d.mb, 0, room[i]);
		d.s->allowed_drops |= REFUSED;
		sim_end(d.s);
	}
}

TEST(rc_responder, write_that_brings_more_than_its_reth_says__invalid_request)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("reth-short", &o);
	struct rocemu_hdrs h = duo_request(&d, ROCEMU_RC_WRITE_ONLY, 100);
	uint8_t data[64] = {0};

	h.reth.va = d.mb->iova;
	h.reth.rkey = rocemu_mr_rkey(d.mb->mr);
	h.reth.length = 60;
	sim_inject(d.s, 0, 1, NULL, &h, data, sizeof(data));
	sim_run(d.s);
	assert_string_equal(sim_effects(d.s), "B NAK 61 100");
	sim_want_any(d.mb, 0, 60);
	d.s->allowed_drops |= REFUSED | 1ull << ROCEMU_DROP_GHOST;
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_LENGTH;
	sim_end(d.s);
}

/* C9-84: FIRST and MIDDLE carry exactly the path MTU, LAST and ONLY no more than it. */
TEST(rc_responder, packet_of_a_wrong_size__invalid_request)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
	} bad[] = {
		{ROCEMU_RC_SEND_FIRST, 255}, {ROCEMU_RC_SEND_FIRST, 257},
		{ROCEMU_RC_SEND_ONLY, 257},  {ROCEMU_RC_WRITE_FIRST, 255},
		{ROCEMU_RC_WRITE_ONLY, 257},
	};
	static const uint8_t data[512];

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct duo d = duo_new("packet-size", &o);
		struct rocemu_hdrs h = duo_request(&d, bad[i].opcode, 100);

		h.reth.va = d.mb->iova + 4096;
		h.reth.rkey = rocemu_mr_rkey(d.mb->mr);
		h.reth.length = bad[i].opcode == ROCEMU_RC_WRITE_ONLY ? 257 : 600;
		d.b->may_lose_receives = true;
		sim_recv(d.b, d.mb, 0, 1024);
		sim_inject(d.s, 0, 1, NULL, &h, data, bad[i].len);
		sim_run(d.s);
		assert_string_equal(sim_effects(d.s), "B NAK 61 100");
		sim_want_any(d.mb, 0, 8192);
		d.s->allowed_drops |=
			REFUSED | 1ull << ROCEMU_DROP_GHOST | 1ull << ROCEMU_DROP_LENGTH;
		sim_end(d.s);
	}
}

/* C9-49, table 38: an opcode that cannot follow the last one is an invalid request. */
TEST(rc_responder, opcode_out_of_sequence__invalid_request)
{
	static const uint8_t bad[] = {ROCEMU_RC_SEND_MIDDLE, ROCEMU_RC_SEND_LAST,
				      ROCEMU_RC_WRITE_MIDDLE, ROCEMU_RC_WRITE_LAST,
				      ROCEMU_RC_WRITE_LAST_IMM};
	static const uint8_t data[256];

	for (unsigned i = 0; i < sizeof(bad); i++) {
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct duo d = duo_new("op-sequence", &o);
		struct rocemu_hdrs h = duo_request(&d, bad[i], 100);

		d.b->may_lose_receives = true;
		sim_recv(d.b, d.mb, 0, 1024);
		sim_inject(d.s, 0, 1, NULL, &h, data, 256);
		sim_run(d.s);
		assert_string_equal(sim_effects(d.s), "B NAK 61 100");
		d.s->allowed_drops |= REFUSED | 1ull << ROCEMU_DROP_GHOST;
		sim_end(d.s);
	}
}

TEST(rc_requester, own_memory_bad__local_protection_error_and_nothing_sent)
{
	for (int which = 0; which < 3; which++) {
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct duo d = duo_new("loc-prot", &o);
		struct sim_wr w = rdma(&d, IBV_WR_RDMA_WRITE, 8);

		if (which == 0)
			w.sge[0].lkey ^= 0x55500;
		else if (which == 1)
			w.sge[0].addr = d.ma->iova + d.ma->len - 7;
		else
			w.sge[0].addr = UINT64_MAX - 3;
		assert_int_equal(sim_post(d.a, &w), 0);
		sim_send(d.a, d.ma, 0, 8);
		sim_run(d.s);
		assert_string_equal(sim_done(d.a), "send LOC_PROT; send FLUSH");
		assert_string_equal(sim_effects(d.s), "");
		sim_end(d.s);
	}
}

TEST(rc_requester, read_into_memory_without_local_write__local_protection_error)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("read-only-target", &o);
	struct sim_mem *ro = sim_mem_new(d.s, 0, 4096, IBV_ACCESS_REMOTE_READ);
	struct sim_wr w = sim_wr(IBV_WR_RDMA_READ, IBV_SEND_SIGNALED);

	sim_wr_local(&w, ro, 0, 100);
	sim_wr_remote(&w, d.mb, 0);
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send LOC_PROT");
	sim_end(d.s);
}

TEST(rc_responder, receive_into_memory_without_local_write__remote_operation_error)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("recv-read-only", &o);
	struct sim_mem *ro = sim_mem_new(d.s, 1, 4096, IBV_ACCESS_REMOTE_READ);

	sim_recv(d.b, ro, 0, 100);
	sim_send(d.a, d.ma, 0, 100);
	sim_run(d.s);
	/* Table 61: a local QP operation error at the responder is a remote operation error. */
	assert_string_equal(sim_done(d.a), "send REM_OP");
	assert_string_equal(sim_done(d.b), "recv LOC_PROT");
	d.s->allowed_drops |= REFUSED;
	sim_end(d.s);
}

TEST(rc_requester, error__requests_before_complete_and_those_after_flush_in_order)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("flush-order", &o);
	struct sim_wr bad, quiet;

	sim_recv(d.a, d.ma, 0, 16);
	sim_recv(d.a, d.ma, 0, 16);
	sim_write(d.a, d.ma, 0, 700, d.mb, 0);
	sim_want_copy(d.mb, 0, d.ma, 0, 700);
	bad = rdma(&d, IBV_WR_RDMA_WRITE, 8);
	bad.wr.wr.rdma.rkey ^= 0x55500;
	assert_int_equal(sim_post(d.a, &bad), 0);
	quiet = rdma(&d, IBV_WR_RDMA_WRITE, 8);
	quiet.wr.send_flags = 0;
	assert_int_equal(sim_post(d.a, &quiet), 0);
	sim_read(d.a, d.ma, 0, 8, d.mb, 0);
	sim_run(d.s);
	assert_string_equal(
		sim_done(d.a),
		"send OK; send REM_ACCESS; send FLUSH; send FLUSH; recv FLUSH; recv FLUSH");
	d.s->allowed_drops |= REFUSED;
	sim_end(d.s);
}

TEST(rc_qp, posts_in_the_error_state__flushed)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("post-in-error", &o);

	sim_recv(d.a, d.ma, 0, 8);
	sim_qp_state(d.a, IBV_QPS_ERR);
	sim_send(d.a, d.ma, 0, 8);
	sim_recv(d.a, d.ma, 0, 8);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send FLUSH; recv FLUSH; recv FLUSH");
	sim_end(d.s);
}
