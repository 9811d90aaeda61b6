/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that a correct peer would not have sent, or not now: wrong addresses and keys, every NAK
 * code, responses to nothing, old duplicates. Nothing of this may change memory, complete a request
 * that is not done, or stop a good QP.
 */
#include <string.h>

#include "duo.h"

static struct duo rc_duo(const char *name)
{
	struct sim_qp_opts o = SIM_QP_OPTS;

	return duo_new(name, &o);
}

/** The connection still works. */
static void still_alive(struct duo *d, enum rocemu_drop expected)
{
	assert_int_equal(duo_stats(d, 1)->drops[expected] + duo_stats(d, 0)->drops[expected], 1);
	sim_write(d->a, d->ma, 0, 700, d->mb, 32768);
	sim_want_copy(d->mb, 32768, d->ma, 0, 700);
	sim_run(d->s);
	assert_true(sim_all_good(d->a) && sim_all_good(d->b));
	d->s->allowed_drops |= 1ull << expected;
	sim_end(d->s);
}

static struct rocemu_hdrs write_request(const struct duo *d, uint32_t psn)
{
	struct rocemu_hdrs h = duo_request(d, ROCEMU_RC_WRITE_ONLY, psn);

	h.reth.va = d->mb->iova;
	h.reth.rkey = rocemu_mr_rkey(d->mb->mr);
	h.reth.length = 4;
	return h;
}

TEST(rc_input, source_address_of_another_host__dropped)
{
	struct duo d = rc_duo("wrong-source");
	struct rocemu_hdrs h = write_request(&d, 100);
	struct rocemu_gid other = d.s->node[0].gid;

	other.raw[15] = 77;
	sim_inject(d.s, 0, 1, &other, &h, "evil", 4);
	sim_run(d.s);
	still_alive(&d, ROCEMU_DROP_SOURCE);
}

TEST(rc_input, wrong_pkey__dropped)
{
	struct duo d = rc_duo("wrong-pkey");
	struct rocemu_hdrs h = write_request(&d, 100);

	h.pkey = 0x1234;
	sim_inject(d.s, 0, 1, NULL, &h, "evil", 4);
	sim_run(d.s);
	still_alive(&d, ROCEMU_DROP_PKEY);
}

TEST(rc_input, migreq_clear__taken)
{
	struct duo d = rc_duo("migreq");
	struct rocemu_hdrs h = write_request(&d, 100);

	h.migreq = false;
	sim_inject(d.s, 0, 1, NULL, &h, "good", 4);
	memcpy(d.mb->want, "good", 4);
	sim_run(d.s);
	assert_string_equal(sim_effects(d.s), "B ACK 100");
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_GHOST; /* a has sent nothing */
	sim_end(d.s);
}

TEST(rc_input, qpn_that_nobody_has__dropped)
{
	struct duo d = rc_duo("no-qp");
	struct rocemu_hdrs h = write_request(&d, 100);

	h.dqpn ^= 0x1000;
	sim_inject(d.s, 0, 1, NULL, &h, "evil", 4);
	sim_run(d.s);
	still_alive(&d, ROCEMU_DROP_QPN);
}

TEST(rc_input, opcode_of_another_service__dropped)
{
	static const uint8_t ops[] = {ROCEMU_UC_WRITE_ONLY, ROCEMU_UD_SEND_ONLY,
				      ROCEMU_XRC_WRITE_ONLY};

	for (unsigned i = 0; i < sizeof(ops); i++) {
		struct duo d = rc_duo("wrong-service");
		struct rocemu_hdrs h = write_request(&d, 100);

		h.opcode = ops[i];
		h.deth.qkey = 0x11111111;
		sim_inject(d.s, 0, 1, NULL, &h, "evil", 4);
		sim_run(d.s);
		still_alive(&d, ROCEMU_DROP_SERVICE);
	}
}

TEST(rc_input, qp_in_init__dropped)
{
	struct duo d = rc_duo("in-init");
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_qp *q = sim_qp_new(d.s, 1, &o);
	struct rocemu_hdrs h = write_request(&d, 500);

	sim_qp_init(q, &o);
	h.dqpn = rocemu_qp_num(q->qp);
	sim_inject(d.s, 0, 1, NULL, &h, "evil", 4);
	sim_run(d.s);
	still_alive(&d, ROCEMU_DROP_STATE);
}

TEST(rc_input, psn_in_the_invalid_half__no_effect)
{
	struct duo d = rc_duo("psn-far");
	struct rocemu_hdrs h = write_request(&d, (100 + 0x7fffff) & ROCEMU_PSN_MASK);

	/* Half the PSN space ahead is a gap, so a sequence NAK; nothing is written. */
	sim_inject(d.s, 0, 1, NULL, &h, "evil", 4);
	sim_run(d.s);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_GHOST;
	sim_end(d.s);
}

TEST(rc_input, duplicate_write__acked_and_not_written_again)
{
	struct duo d = rc_duo("dup-write");
	struct rocemu_hdrs h = write_request(&d, 100);

	sim_write(d.a, d.ma, 0, 4, d.mb, 0);
	sim_run(d.s);
	sim_mem_set_u64(d.mb, 0, 42); /* the application has gone on */
	sim_effects_clear(d.s);
	sim_inject(d.s, 0, 1, NULL, &h, "evil", 4);
	sim_run(d.s);
	assert_string_equal(sim_effects(d.s), "B ACK 100");
	assert_int_equal(duo_stats(&d, 1)->duplicates, 1);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_GHOST | 1ull << ROCEMU_DROP_PSN;
	sim_end(d.s);
}

TEST(rc_input, duplicate_send__acked_with_the_newest_psn)
{
	struct duo d = rc_duo("dup-send");
	struct rocemu_hdrs h = duo_request(&d, ROCEMU_RC_SEND_ONLY, 100);

	for (unsigned i = 0; i < 3; i++) {
		sim_recv(d.b, d.mb, i * 64, 16);
		sim_send(d.a, d.ma, i * 64, 4);
		sim_want_copy(d.mb, i * 64, d.ma, i * 64, 4);
	}
	sim_run(d.s);
	sim_effects_clear(d.s);
	sim_inject(d.s, 0, 1, NULL, &h, "evil", 4);
	sim_run(d.s);
	/* C9-105: the response to a duplicate carries the PSN of the newest request completed. */
	assert_string_equal(sim_effects(d.s), "B ACK 102");
	assert_int_equal(d.b->rq.good, 3);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_GHOST | 1ull << ROCEMU_DROP_PSN;
	sim_end(d.s);
}

static struct rocemu_hdrs faa_request(const struct duo *d, uint32_t psn, uint64_t add)
{
	struct rocemu_hdrs h = duo_request(d, ROCEMU_RC_FETCH_ADD, psn);

	h.atomiceth.va = d->mb->iova;
	h.atomiceth.rkey = rocemu_mr_rkey(d->mb->mr);
	h.atomiceth.swap_add = add;
	return h;
}

TEST(rc_input, duplicate_atomic__replayed_and_not_executed_again)
{
	struct duo d = rc_duo("dup-atomic");
	struct rocemu_hdrs h = faa_request(&d, 100, 5);
	uint64_t old = sim_mem_u64(d.mb, 0);

	sim_faa(d.a, d.ma, 0, d.mb, 0, 5);
	sim_want_u64(d.ma, 0, old);
	sim_want_u64(d.mb, 0, old + 5);
	sim_run(d.s);
	sim_effects_clear(d.s);
	for (unsigned i = 0; i < 3; i++) {
		sim_inject(d.s, 0, 1, NULL, &h, NULL, 0);
		sim_run(d.s);
	}
	assert_string_equal(sim_effects(d.s),
			    "B ATOMIC_ACK 100; B ATOMIC_ACK 100; B ATOMIC_ACK 100");
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_GHOST | 1ull << ROCEMU_DROP_PSN;
	sim_end(d.s);
}

/* C9-105: what fell out of the replay cache is dropped silently, never executed. */
TEST(rc_input, stale_atomic__dropped_silently)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;
	struct rocemu_hdrs h;
	uint64_t old;

	o.rd_atomic = o.dest_rd_atomic = 2;
	d = duo_new("stale-atomic", &o);
	h = faa_request(&d, 100, 1);
	old = sim_mem_u64(d.mb, 0);
	for (unsigned i = 0; i < 6; i++) {
		sim_faa(d.a, d.ma, i * 8, d.mb, 0, 1);
		sim_want_u64(d.ma, i * 8, old + i);
	}
	sim_want_u64(d.mb, 0, old + 6);
	sim_run(d.s);
	sim_effects_clear(d.s);
	sim_inject(d.s, 0, 1, NULL, &h, NULL, 0);
	sim_run(d.s);
	assert_string_equal(sim_effects(d.s), "");
	assert_int_equal(duo_stats(&d, 1)->drops[ROCEMU_DROP_STALE_ATOMIC], 1);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_STALE_ATOMIC;
	sim_end(d.s);
}

TEST(rc_input, nak_codes__each_with_its_status)
{
	static const struct {
		uint8_t syndrome;
		const char *done;
	} cases[] = {
		{ROCEMU_NAK_INV_REQ, "send REM_INV_REQ; send FLUSH"},
		{ROCEMU_NAK_REM_ACCESS, "send REM_ACCESS; send FLUSH"},
		{ROCEMU_NAK_REM_OP, "send REM_OP; send FLUSH"},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct duo d = rc_duo("nak-codes");
		struct rocemu_hdrs h = duo_response(&d, ROCEMU_RC_ACK, 100, cases[i].syndrome);

		d.s->node[1].gone = true;
		sim_write(d.a, d.ma, 0, 4, d.mb, 0);
		sim_write(d.a, d.ma, 0, 4, d.mb, 0);
		sim_run_for(d.s, 1 * SIM_US);
		sim_inject(d.s, 1, 0, NULL, &h, NULL, 0);
		sim_run(d.s);
		assert_string_equal(sim_done(d.a), cases[i].done);
		assert_int_equal(d.a->sq.e[0].cqe.vendor_err, cases[i].syndrome);
		assert_int_equal(duo_stats(&d, 0)->err_naks_rcvd, 1);
		sim_end(d.s);
	}
}

/* A NAK for a later request acknowledges those before it. */
TEST(rc_input, nak_of_the_second_request__the_first_is_good)
{
	struct duo d = rc_duo("nak-second");
	struct rocemu_hdrs h = duo_response(&d, ROCEMU_RC_ACK, 101, ROCEMU_NAK_REM_ACCESS);

	d.s->node[1].gone = true;
	sim_write(d.a, d.ma, 0, 4, d.mb, 0);
	sim_write(d.a, d.ma, 0, 4, d.mb, 0);
	sim_write(d.a, d.ma, 0, 4, d.mb, 0);
	sim_run_for(d.s, 1 * SIM_US);
	h.aeth.msn = 1;
	sim_inject(d.s, 1, 0, NULL, &h, NULL, 0);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send OK; send REM_ACCESS; send FLUSH");
	sim_end(d.s);
}

TEST(rc_input, ack_of_what_was_never_sent__ignored)
{
	struct duo d = rc_duo("ghost-ack");
	struct rocemu_hdrs h = duo_response(&d, ROCEMU_RC_ACK, 120, ROCEMU_AETH_NO_CREDITS);

	sim_inject(d.s, 1, 0, NULL, &h, NULL, 0);
	sim_run(d.s);
	still_alive(&d, ROCEMU_DROP_GHOST);
}

TEST(rc_input, read_response_to_nothing__ignored)
{
	struct duo d = rc_duo("ghost-read");
	struct rocemu_hdrs h =
		duo_response(&d, ROCEMU_RC_READ_RESP_ONLY, 100, ROCEMU_AETH_NO_CREDITS);

	sim_inject(d.s, 1, 0, NULL, &h, "evil", 4);
	sim_run(d.s);
	still_alive(&d, ROCEMU_DROP_GHOST);
}

TEST(rc_input, ack_beyond_an_open_read__the_read_is_repeated)
{
	struct duo d = rc_duo("implied-nak");

	/*
	 * The READ's response is lost; the WRITE's ACK behind it shows that (C9-143: implied NAK).
	 */
	d.s->link[1][0].c.loss_mask = 1;
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_GHOST | 1ull << ROCEMU_DROP_PSN;
	sim_read(d.a, d.ma, 0, 100, d.mb, 0);
	sim_want_copy(d.ma, 0, d.mb, 0, 100);
	sim_write(d.a, d.ma, 1024, 100, d.mb, 1024);
	sim_want_copy(d.mb, 1024, d.ma, 1024, 100);
	sim_run(d.s);
	assert_int_equal(duo_stats(&d, 0)->timeouts, 0);
	assert_string_equal(sim_done(d.a), "send OK; send OK");
	sim_end(d.s);
}

TEST(rc_input, cnp__counted)
{
	struct duo d = rc_duo("cnp");
	struct rocemu_hdrs h = {.opcode = ROCEMU_CNP,
				.dqpn = rocemu_qp_num(d.b->qp),
				.pkey = ROCEMU_PKEY_DEFAULT,
				.becn = true};
	static const uint8_t zero[16];

	sim_inject(d.s, 0, 1, NULL, &h, zero, sizeof(zero));
	sim_run(d.s);
	assert_int_equal(duo_stats(&d, 1)->cnps_rcvd, 1);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_CNP;
	sim_end(d.s);
}

TEST(rc_input, ackreq__acked_within_a_message_and_not_without_it)
{
	struct duo d = rc_duo("ackreq");
	struct rocemu_hdrs h = duo_request(&d, ROCEMU_RC_WRITE_FIRST, 100);
	static const uint8_t data[256];

	h.reth.va = d.mb->iova;
	h.reth.rkey = rocemu_mr_rkey(d.mb->mr);
	h.reth.length = 3 * 256;
	sim_inject(d.s, 0, 1, NULL, &h, data, 256);
	sim_run(d.s);
	assert_string_equal(sim_effects(d.s), "B ACK 100");
	h.opcode = ROCEMU_RC_WRITE_MIDDLE;
	h.psn = 101;
	h.ackreq = false;
	sim_inject(d.s, 0, 1, NULL, &h, data, 256);
	sim_run(d.s);
	assert_string_equal(sim_effects(d.s), "");
	sim_want_any(d.mb, 0, 3 * 256);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_GHOST;
	sim_end(d.s);
}

TEST(rc_input, flood_of_duplicate_reads__bounded_and_harmless)
{
	struct duo d = rc_duo("dup-flood");
	struct rocemu_hdrs h = duo_request(&d, ROCEMU_RC_READ_REQUEST, 100);

	sim_read(d.a, d.ma, 0, 4 * 256, d.mb, 0);
	sim_want_copy(d.ma, 0, d.mb, 0, 4 * 256);
	sim_run(d.s);
	/* Each requests another part of it; all at once, before the first answer. */
	h.reth.rkey = rocemu_mr_rkey(d.mb->mr);
	for (uint32_t i = 0; i < 400; i++) {
		h.psn = 100 + i % 4;
		h.reth.va = d.mb->iova + i % 4 * 256;
		h.reth.length = 256 * (1 + i / 4 % (4 - i % 4));
		sim_inject(d.s, 0, 1, NULL, &h, NULL, 0);
	}
	d.s->allowed_drops = UINT64_MAX;
	sim_run(d.s);
	assert_int_equal(rocemu_qp_state(d.b->qp), IBV_QPS_RTS);
	sim_write(d.a, d.ma, 8192, 700, d.mb, 8192);
	sim_want_copy(d.mb, 8192, d.ma, 8192, 700);
	sim_run(d.s);
	assert_true(sim_all_good(d.a));
	sim_end(d.s);
}
