/* SPDX-License-Identifier: BSD-2-Clause */
/* What the requester sends, when nothing goes wrong on the way. */
#include "req-bench.h"

#include <stdio.h>
#include <string.h>

#include "transport/peer.h"
#include "transport/qp.h"

static struct rocemu_packet decode_last(struct bench *b, uint8_t raw[ROCEMU_MAX_PACKET])
{
	struct rocemu_tx *t = &b->last;
	struct rocemu_packet p;
	uint32_t pos = t->hdr_len;

	memcpy(raw, t->hdr, t->hdr_len);
	for (unsigned i = 0; i < t->niov; i++) {
		memcpy(raw + pos, t->iov[i].iov_base, t->iov[i].iov_len);
		pos += (uint32_t)t->iov[i].iov_len;
	}
	memcpy(raw + pos, t->trailer, t->trailer_len);
	assert_int_equal(rocemu_packet_decode(&p, raw, rocemu_tx_len(t)), ROCEMU_DROP_NONE);
	return p;
}

TEST(req_window, shared__freed_by_the_other_qp)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = 4 * (256 + 512)});
	struct rocemu_qp *first = b->qp;
	struct rocemu_qp *second = bench_qp(b, &(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4 * 256);
	assert_string_equal(bench_out(b),
			    "SEND_FIRST 0; SEND_MIDDLE 1; SEND_MIDDLE 2; SEND_LAST 3 A");
	b->qp = second;
	bench_post(b, IBV_WR_SEND, 3 * 256);
	/* Its own flight is empty, the lane's is not: a packet of each QP would overrun the lane's
	 * socket. */
	assert_string_equal(bench_out(b), "");
	b->qp = first;
	bench_ack(b, 3);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_MIDDLE 1; SEND_LAST 2 A");
	bench_free(b);
}

/* The first one that is woken may take all the room: those woken with it must not lose their turn.
 */
TEST(req_window, shared_by_many__all_get_their_turn)
{
	enum { QPS = 8, ROUNDS = 400 };
	struct bench *b = bench_new(&(struct bench_opts){.window = 4 * (4096 + 512)});
	struct rocemu_qp *qps[QPS] = {b->qp};
	int32_t least = INT32_MAX, most = 0;

	for (unsigned i = 0; i < QPS; i++) {
		b->qp = qps[i] = i ? bench_qp(b, &(struct bench_opts){0}) : b->qp;
		for (unsigned k = 0; k < 8; k++)
			bench_post(b, IBV_WR_SEND, 1000 * 256);
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		bench_out(b);
		for (unsigned i = 0; i < QPS; i++) {
			b->qp = qps[i];
			if (qps[i]->req.inflight)
				bench_ack(b, rocemu_psn_diff(qps[i]->req.send_psn, BENCH_PSN) - 1);
		}
	}
	for (unsigned i = 0; i < QPS; i++) {
		least = MIN(least, rocemu_psn_diff(qps[i]->req.acked_psn, BENCH_PSN));
		most = MAX(most, rocemu_psn_diff(qps[i]->req.acked_psn, BENCH_PSN));
	}
	assert_true(least > 0 && least * 2 > most);
	bench_free(b);
}

/* Each output call's packets by QP: "A120 B8; B100": A is the first of qps. */
static const char *out_by_qp(struct bench *b, struct rocemu_qp *const *qps)
{
	static char text[256];
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
	size_t used = 0;
	unsigned n;

	text[0] = '\0';
	while ((n = rocemu_ep_output(b->ep, b->now, tx, ROCEMU_OUTPUT_BATCH)))
		for (unsigned i = 0, k; i < n; i = k) {
			for (k = i + 1; k < n && tx[k].lqpn == tx[i].lqpn;)
				k++;
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%c%u",
						 i	? " "
						 : used ? "; "
							: "",
						 tx[i].lqpn == rocemu_qp_num(qps[0]) ? 'A' : 'B',
						 k - i);
		}
	return text;
}

/* Packets of one QP share bursts and a system call: 120 in a row, then the next QP's. */
TEST(req_window, several_wait__a_turn_is_an_output_call)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = 256 * (256 + 512)});
	struct rocemu_qp *qps[] = {b->qp, bench_qp(b, &(struct bench_opts){0})};

	for (unsigned i = 0; i < 2; i++) {
		b->qp = qps[i];
		bench_post(b, IBV_WR_SEND, 1000 * 256);
	}
	assert_string_equal(out_by_qp(b, qps), "A120; B120; A16 B1");
	b->qp = qps[0];
	bench_ack(b, 119);
	assert_string_equal(out_by_qp(b, qps), "A119");
	b->qp = qps[1];
	bench_ack(b, 119);
	assert_string_equal(out_by_qp(b, qps), "A120");
	b->qp = qps[0];
	bench_ack(b, 254);
	assert_string_equal(out_by_qp(b, qps), "B120; A15 B1");
	bench_free(b);
}

TEST(req_window, qp_destroyed__gives_its_share_back)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = 4 * (256 + 512)});
	struct rocemu_qp *first = b->qp;
	struct rocemu_qp *second = bench_qp(b, &(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4 * 256);
	bench_out(b);
	b->qp = second;
	bench_post(b, IBV_WR_SEND, 3 * 256);
	assert_string_equal(bench_out(b), "");
	rocemu_qp_destroy(first);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_MIDDLE 1; SEND_LAST 2 A");
	bench_free(b);
}

TEST(req_uc, message__completes_once_it_has_left)
{
	struct bench *b = bench_new(&(struct bench_opts){.type = IBV_QPT_UC});
	struct rocemu_tx tx[4];

	bench_post(b, IBV_WR_SEND, 600);
	assert_int_equal(rocemu_ep_output(b->ep, b->now, tx, 4), 3);
	assert_int_equal(tx[0].hdr[0], ROCEMU_UC_SEND_FIRST);
	assert_int_equal(tx[2].hdr[0], ROCEMU_UC_SEND_LAST);
	/* The packets may still have to be sent out of the application's buffer. */
	assert_string_equal(bench_done(b), "");
	assert_true(rocemu_ep_has_output(b->ep));
	assert_int_equal(rocemu_ep_output(b->ep, b->now, tx, 4), 0);
	assert_string_equal(bench_done(b), "1 OK");
	assert_false(rocemu_ep_has_output(b->ep));
	assert_int_equal(rocemu_ep_deadline(b->ep), ROCEMU_NEVER);
	bench_free(b);
}

/* Packets of one length are cut where a UDP burst is full, others between messages. */
TEST(req_uc, more_packets_than_one_output_call__whole_bursts)
{
	enum { PACKETS = 200, EQUAL = 120 };
	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned packets;
	} rows[] = {{IBV_WR_SEND, EQUAL}, {IBV_WR_RDMA_WRITE, ROCEMU_OUTPUT_BATCH}};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct bench *b = bench_new(&(struct bench_opts){.type = IBV_QPT_UC});
		struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];

		bench_post(b, rows[i].opcode, PACKETS * 256);
		assert_int_equal(rocemu_ep_output(b->ep, b->now, tx, ROCEMU_OUTPUT_BATCH),
				 rows[i].packets);
		assert_true(rocemu_ep_has_output(b->ep));
		assert_int_equal(rocemu_ep_output(b->ep, b->now, tx, ROCEMU_OUTPUT_BATCH),
				 PACKETS - rows[i].packets);
		bench_free(b);
	}
}

TEST(req_ud, controlled_qkey__the_qps_own)
{
	struct bench *b = bench_new(&(struct bench_opts){.type = IBV_QPT_UD});
	struct rocemu_path path = {.sgid = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}},
				   .hop_limit = 9};
	struct ibv_sge sge;
	struct ibv_send_wr wr = bench_wr(b, IBV_WR_SEND_WITH_IMM, 0, 5, &sge);
	uint8_t raw[ROCEMU_MAX_PACKET];
	struct rocemu_packet p;

	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = 0x77;
	assert_int_equal(rocemu_qp_post_send(b->qp, b->now, &wr, &path), 0);
	assert_string_equal(bench_out(b), "SEND_ONLY_IMM 0");
	p = decode_last(b, raw);
	assert_int_equal(p.h.dqpn, 0xffffff);
	assert_int_equal(p.h.deth.qkey, 0x77);
	assert_int_equal(p.h.deth.sqpn, rocemu_qp_num(b->qp));
	assert_int_equal(b->last.path->hop_limit, 9);
	wr.wr.ud.remote_qkey = 0x80000001; /* IBTA 10.2.5 */
	assert_int_equal(rocemu_qp_post_send(b->qp, b->now, &wr, &path), 0);
	assert_string_equal(bench_out(b), "SEND_ONLY_IMM 1");
	assert_int_equal(decode_last(b, raw).h.deth.qkey, 0x1234);
	assert_string_equal(bench_done(b), "1 OK; 1 OK");
	bench_free(b);
}

/* IBTA 10.3.1.5 */
TEST(req_sqd, draining__begun_goes_on_new_waits)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = 2 * (256 + 512)});
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct rocemu_event ev;

	bench_post(b, IBV_WR_SEND, 3 * 256);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_MIDDLE 1 A");
	assert_int_equal(
		rocemu_qp_modify(b->qp, b->now, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	bench_ack(b, 1);
	assert_string_equal(bench_out(b), "SEND_LAST 2 A");
	assert_false(rocemu_ep_next_event(b->ep, &ev));
	bench_ack(b, 2);
	assert_string_equal(bench_out(b), "");
	assert_true(rocemu_ep_next_event(b->ep, &ev));
	assert_int_equal(ev.async, IBV_EVENT_SQ_DRAINED);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(rocemu_qp_modify(b->qp, b->now, &a, IBV_QP_STATE), 0);
	assert_string_equal(bench_out(b), "SEND_ONLY 3 A");
	bench_free(b);
}
