/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests a QP's report: counts, queues, and what it waits for. */
#include "hostile.h"
#include "req-bench.h"

#include <string.h>

#include <rocemu/report.h>

static struct hostile h;

static struct rocemu_qp_report of_bench(const struct bench *b)
{
	struct rocemu_qp_report r;

	rocemu_qp_report(b->qp, b->now, &r);
	return r;
}

static struct rocemu_qp_report of_hostile(void)
{
	struct rocemu_qp_report r;

	rocemu_qp_report(h.qp, h.now, &r);
	return r;
}

TEST(report, sent_and_not_acknowledged__waits_for_an_answer)
{
	struct bench *b = bench_new(&(struct bench_opts){.retry_cnt = 2});
	struct rocemu_qp_report r;

	assert_int_equal(of_bench(b).wait, ROCEMU_WAIT_NOTHING);
	bench_post(b, IBV_WR_SEND, 300);
	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	r = of_bench(b);
	assert_int_equal(r.wait, ROCEMU_WAIT_ANSWER);
	assert_int_equal(r.type, IBV_QPT_RC);
	assert_int_equal(r.state, IBV_QPS_RTS);
	assert_int_equal(r.dest_qpn, BENCH_QPN);
	assert_int_equal(r.sends, 2);
	assert_int_equal(r.sends_begun, 2);
	assert_int_equal(r.nwqes, 2);
	assert_int_equal(r.wqe[0].length, 300);
	assert_int_equal(r.wqe[0].npkts, 2);
	assert_int_equal(r.wqe[1].first_psn, 0);
	assert_int_equal(r.acked_psn, BENCH_PSN);
	assert_int_equal(r.timeout_ns, 8192);
	assert_int_equal(r.retry_left, 2);
	assert_true(r.inflight > 0 && r.window > 0);
	assert_int_equal(r.stats.tx_packets, 3);
	assert_int_equal(r.stats.tx_bytes, 304);
	bench_ack(b, 2);
	r = of_bench(b);
	assert_int_equal(r.wait, ROCEMU_WAIT_NOTHING);
	assert_int_equal(r.stats.rx_packets, 1);
	assert_false(r.flags & ROCEMU_REPORT_TIMER);
	assert_int_equal(r.send_cqes, 2);
	bench_free(b);
}

TEST(report, ack_timeout__counted_with_what_is_sent_again)
{
	struct bench *b = bench_new(&(struct bench_opts){.retry_cnt = 2});
	struct rocemu_qp_report r;

	bench_post(b, IBV_WR_SEND, 300);
	bench_out(b);
	bench_wait(b, 8192);
	bench_out(b);
	r = of_bench(b);
	assert_int_equal(r.stats.timeouts, 1);
	assert_int_equal(r.stats.retransmits, 2);
	assert_int_equal(r.retry_left, 1);
	assert_int_equal(r.stats.retransmits, rocemu_ep_get_stats(b->ep)->retransmits);
	bench_free(b);
}

TEST(report, naks_received__counted_by_code)
{
	struct bench *b = bench_new(&(struct bench_opts){.retry_cnt = 7});
	struct rocemu_qp_report r;

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_nak(b, 0, ROCEMU_AETH_RNR | 1);
	r = of_bench(b);
	assert_int_equal(r.wait, ROCEMU_WAIT_RNR);
	assert_int_equal(r.stats.rnr_naks_rcvd, 1);
	assert_int_equal(r.rnr_ns, rocemu_rnr_timer_ns(1));
	assert_int_equal(r.timeout_ns, UINT64_MAX);
	bench_wait(b, r.rnr_ns);
	bench_out(b);
	bench_nak(b, 0, ROCEMU_NAK_PSN_SEQ);
	bench_out(b);
	bench_nak(b, 0, ROCEMU_NAK_REM_ACCESS);
	r = of_bench(b);
	assert_int_equal(r.stats.seq_naks_rcvd, 1);
	assert_int_equal(r.stats.access_naks_rcvd, 1);
	assert_int_equal(r.stats.inv_naks_rcvd + r.stats.op_naks_rcvd, 0);
	assert_int_equal(r.state, IBV_QPS_ERR);
	assert_int_equal(rocemu_ep_get_stats(b->ep)->err_naks_rcvd, 1);
	bench_free(b);
}

TEST(report, more_reads_than_allowed__waits_for_reads)
{
	struct bench *b = bench_new(&(struct bench_opts){.rd_atomic = 1});

	bench_post(b, IBV_WR_RDMA_READ, 4);
	bench_post(b, IBV_WR_RDMA_READ, 4);
	bench_out(b);
	assert_int_equal(of_bench(b).wait, ROCEMU_WAIT_READ);
	assert_int_equal(of_bench(b).reads, 1);
	assert_int_equal(of_bench(b).sends_begun, 1);
	bench_free(b);
}

TEST(report, naks_sent__counted_by_code_with_what_is_kept)
{
	struct rocemu_qp_report r;

	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	EXPECT(&h, "drop NO_RECV; rnr 12 0/0");
	r = of_hostile();
	assert_int_equal(r.stats.rnr_naks_sent, 1);
	assert_true(r.flags & ROCEMU_REPORT_RNR);
	assert_int_equal(r.recvs, 0);
	hostile_recv(&h, 1, 0, 64);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	hostile_effects(&h);
	assert_int_equal(of_hostile().stats.duplicates, 1);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 3, 8, 0, 8);
	hostile_effects(&h);
	r = of_hostile();
	assert_int_equal(r.rq_psn, 1);
	assert_int_equal(r.early, 1);
	assert_int_equal(r.stats.kept, 1);
	assert_int_equal(r.stats.seq_naks_sent, 1);
	assert_true(r.flags & ROCEMU_REPORT_GAP);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 1, 8, HOSTILE_MEM, 8);
	hostile_effects(&h);
	r = of_hostile();
	assert_int_equal(r.stats.access_naks_sent, 1);
	assert_int_equal(r.stats.rx_packets, 5);
	assert_int_equal(r.stats.rx_bytes, 40);
	hostile_free(&h);
}

TEST(report, ud__receives_that_wait)
{
	struct rocemu_qp_report r;

	hostile_start(&h, IBV_QPT_UD);
	hostile_recv(&h, 1, 0, 64);
	hostile_recv(&h, 2, 0, 64);
	r = of_hostile();
	assert_int_equal(r.type, IBV_QPT_UD);
	assert_int_equal(r.recvs, 2);
	assert_int_equal(r.window, 0);
	assert_false(r.flags & (ROCEMU_REPORT_PATH | ROCEMU_REPORT_SRQ));
	hostile_free(&h);
}

TEST(report, walk__finds_each_qp_once_and_ends)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct rocemu_qp_report r[2];
	uint32_t seen[8], next = 0;
	unsigned n = 0, calls = 0;

	for (unsigned i = 0; i < 4; i++)
		bench_qp(b, &(struct bench_opts){0});
	while (next != UINT32_MAX) {
		const unsigned got = rocemu_ep_report(b->ep, b->now, &next, r, 2);

		assert_in_range(got, 0, 2);
		for (unsigned i = 0; i < got; i++)
			seen[n++] = r[i].qpn;
		assert_in_range(++calls, 1, 100);
	}
	assert_int_equal(n, 5);
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(seen[i], seen[k]);
	assert_int_equal(rocemu_ep_report(b->ep, b->now, &next, r, 2), 0);
	bench_free(b);
}

TEST(report, no_slot__ends_at_once)
{
	struct rocemu_ep *ep =
		rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1, .active_mtu = IBV_MTU_1024});
	struct rocemu_qp_report r;
	uint32_t next = 0;

	assert_int_equal(rocemu_ep_report(ep, 0, &next, &r, 1), 0);
	assert_int_equal(next, UINT32_MAX);
	rocemu_ep_free(ep);
}
