/* SPDX-License-Identifier: BSD-2-Clause */
/* UD: datagrams, the 40 bytes of GRH before the data, Q_Keys, loss. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "duo.h"

enum { GRH = 40 };

static struct sim_qp_opts ud_opts(void)
{
	struct sim_qp_opts o = SIM_QP_OPTS;

	o.type = IBV_QPT_UD;
	return o;
}

static struct duo ud_duo(const char *name)
{
	struct sim_qp_opts o = ud_opts();

	return duo_new(name, &o);
}

TEST(ud_send, over_ipv4__header_at_offset_20)
{
	struct duo d = ud_duo("ud-grh4");
	const uint8_t *h = d.mb->buf + 20;

	sim_recv(d.b, d.mb, 0, GRH + 100);
	sim_send(d.a, d.ma, 0, 100);
	sim_want_copy(d.mb, GRH, d.ma, 0, 100);
	sim_run(d.s);
	assert_string_equal(sim_done(d.b), "recv OK");
	assert_int_equal(d.b->rq.e[0].cqe.byte_len, GRH + 100);
	assert_int_equal(d.b->rq.e[0].cqe.src_qp, rocemu_qp_num(d.a->qp));
	assert_true(d.b->rq.e[0].cqe.wc_flags & IBV_WC_GRH);
	assert_int_equal(h[0], 0x45);
	assert_int_equal(h[9], 17); /* UDP */
	assert_memory_equal(h + 12, d.s->node[0].gid.raw + 12, 4);
	assert_memory_equal(h + 16, d.s->node[1].gid.raw + 12, 4);
	sim_want_any(d.mb, 0, GRH); /* the first 20 bytes are undefined (A17.4.5.1) */
	sim_end(d.s);
}

TEST(ud_send, over_ipv6__header_fills_the_grh)
{
	struct sim_config cfg = {.name = "ud-grh6", .seed = 1, .ipv6 = true};
	struct sim *s = sim_new(&cfg);
	struct sim_qp_opts o = ud_opts();
	struct sim_pair p = sim_connect(s, 0, 1, &o);
	struct sim_mem *ma = sim_mem_new(s, 0, 4096, SIM_ACCESS_ALL),
		       *mb = sim_mem_new(s, 1, 4096, SIM_ACCESS_ALL);

	sim_recv(p.b, mb, 0, GRH + 256);
	sim_send(p.a, ma, 0, 256);
	sim_want_copy(mb, GRH, ma, 0, 256);
	sim_run(s);
	assert_string_equal(sim_done(p.b), "recv OK");
	assert_int_equal(mb->buf[0] >> 4, 6);
	assert_int_equal(mb->buf[6], 17);
	assert_memory_equal(mb->buf + 8, s->node[0].gid.raw, 16);
	assert_memory_equal(mb->buf + 24, s->node[1].gid.raw, 16);
	sim_want_any(mb, 0, GRH);
	sim_end(s);
}

TEST(ud_send, with_immediate_and_of_nothing__arrive)
{
	struct duo d = ud_duo("ud-imm");
	struct sim_wr w = sim_wr(IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED);
	uint8_t imm[4] = {1, 2, 3, 4};

	memcpy(&w.wr.imm_data, imm, sizeof(imm));
	sim_recv(d.b, d.mb, 0, GRH);
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_run(d.s);
	assert_string_equal(sim_done(d.b), "recv OK");
	assert_int_equal(d.b->rq.e[0].cqe.imm, 0x01020304);
	assert_int_equal(d.b->rq.e[0].cqe.byte_len, GRH);
	sim_want_any(d.mb, 0, GRH);
	sim_end(d.s);
}

static void loss_under_mask(unsigned mask)
{
	struct duo d = ud_duo("ud-loss");
	unsigned got = 0;

	d.s->link[0][1].c.loss_mask = mask;
	d.s->cfg.seed = mask;
	for (unsigned i = 0; i < 10; i++) {
		sim_recv(d.b, d.mb, i * 1024, GRH + 200);
		sim_send(d.a, d.ma, i * 1024, 200);
	}
	sim_run(d.s);
	for (unsigned i = 0; i < 10; i++) {
		if (mask >> i & 1)
			continue;
		sim_want_any(d.mb, got * 1024, GRH);
		sim_want_copy(d.mb, got * 1024 + GRH, d.ma, i * 1024, 200);
		got++;
	}
	sim_assert(d.s, d.b->rq.good == got && d.b->rq.bad == 0 && d.a->sq.good == 10);
	sim_end(d.s);
}

TEST(ud_send, first_8_packets_lost_in_any_pattern__the_others_arrive)
{
	for (unsigned mask = 0; mask < 256; mask++)
		loss_under_mask(mask);
}

TEST(ud_send, wrong_qkey__dropped)
{
	struct duo d = ud_duo("ud-qkey");
	struct sim_wr w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED);

	sim_recv(d.b, d.mb, 0, GRH + 100);
	sim_wr_local(&w, d.ma, 0, 100);
	w.wr.wr.ud.remote_qkey = 0x22222222;
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send OK");
	assert_string_equal(sim_done(d.b), "");
	assert_int_equal(duo_stats(&d, 1)->drops[ROCEMU_DROP_QKEY], 1);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_QKEY;
	sim_end(d.s);
}

/* C10-15: a Q_Key with its high bit set in the work request means the QP's own. */
TEST(ud_send, qkey_with_high_bit__the_qps_own_is_used)
{
	struct duo d = ud_duo("ud-qkey-own");
	struct sim_wr w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED);

	sim_recv(d.b, d.mb, 0, GRH + 100);
	sim_wr_local(&w, d.ma, 0, 100);
	w.wr.wr.ud.remote_qkey = 0x80000000;
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_run(d.s);
	assert_string_equal(sim_done(d.b), "recv OK");
	sim_want_any(d.mb, 0, GRH);
	sim_want_copy(d.mb, GRH, d.ma, 0, 100);
	sim_end(d.s);
}

TEST(ud_send, no_receive_posted__dropped)
{
	struct duo d = ud_duo("ud-no-recv");

	sim_send(d.a, d.ma, 0, 100);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send OK");
	assert_int_equal(duo_stats(&d, 1)->drops[ROCEMU_DROP_NO_RECV], 1);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_NO_RECV;
	sim_end(d.s);
}

TEST(ud_send, longer_than_any_packet__completes_with_length_error)
{
	struct duo d = ud_duo("ud-long");
	struct sim_wr w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED);

	sim_wr_local(&w, d.ma, 0, 4097);
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send LOC_LEN");
	sim_end(d.s);
}

TEST(ud_send, to_two_peers_in_turn__each_gets_its_own)
{
	struct sim_config cfg = {.name = "ud-two", .seed = 1, .nodes = 3};
	struct sim *s = sim_new(&cfg);
	struct sim_qp_opts o = ud_opts();
	struct sim_pair p = sim_connect(s, 0, 1, &o), q = sim_connect(s, 0, 2, &o);
	struct sim_mem *m[3];

	for (unsigned i = 0; i < 3; i++)
		m[i] = sim_mem_new(s, i, 8192, SIM_ACCESS_ALL);
	for (unsigned i = 0; i < 6; i++) {
		struct sim_qp *to = i & 1 ? q.b : p.b;
		struct sim_mem *mt = i & 1 ? m[2] : m[1];
		struct sim_wr w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED);

		sim_recv(to, mt, i * 256, GRH + 100);
		sim_wr_local(&w, m[0], i * 256, 100);
		w.ud_path = i & 1 ? &q.a->ud_path : &p.a->ud_path;
		w.wr.wr.ud.remote_qpn = rocemu_qp_num(to->qp);
		assert_int_equal(sim_post(p.a, &w), 0);
	}
	sim_run(s);
	for (unsigned i = 0; i < 6; i++) {
		struct sim_mem *mt = i & 1 ? m[2] : m[1];

		sim_want_any(mt, i * 256, GRH);
		sim_want_copy(mt, i * 256 + GRH, m[0], i * 256, 100);
	}
	assert_int_equal(p.b->rq.good + q.b->rq.good, 6);
	sim_end(s);
}
