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

TEST(req_send, three_packets__first_middle_last)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 600);
	bench_post(b, IBV_WR_SEND, 0);
	assert_string_equal(bench_out(b),
			    "SEND_FIRST 0; SEND_MIDDLE 1; SEND_LAST 2 A; SEND_ONLY 3 A");
	bench_free(b);
}

TEST(req_send, batches_of_one__same_packets)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	b->batch = 1;
	bench_post(b, IBV_WR_RDMA_WRITE, 600);
	bench_post(b, IBV_WR_SEND, 256);
	assert_string_equal(bench_out(b),
			    "WRITE_FIRST 0; WRITE_MIDDLE 1; WRITE_LAST 2 A; SEND_ONLY 3 A");
	bench_free(b);
}

TEST(req_send, pieces_across_packets__bytes_in_order_and_padded)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	uint32_t key = rocemu_mr_lkey(b->mr);
	struct ibv_sge sge[4] = {{1000, 200, key}, {5000, 0, key}, {3000, 100, key}, {10, 5, key}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 4};
	uint8_t raw[ROCEMU_MAX_PACKET], want[305];
	struct rocemu_packet p;

	memcpy(want, b->buf + 1000, 200);
	memcpy(want + 200, b->buf + 3000, 100);
	memcpy(want + 300, b->buf + 10, 5);
	bench_post_wr(b, &wr);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_LAST 1 A");
	p = decode_last(b, raw);
	assert_int_equal(p.payload_len, 49);
	assert_int_equal(p.h.pad, 3);
	assert_memory_equal(p.payload, want + 256, 49);
	assert_memory_equal(p.payload + 49, "\0\0\0", 3);
	bench_free(b);
}

TEST(req_send, inline__copied_at_post)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	uint8_t raw[ROCEMU_MAX_PACKET], data[3] = {1, 2, 3};
	struct ibv_sge sge = {.addr = (uintptr_t)data, .length = 3, .lkey = 0xdead};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	struct rocemu_packet p;

	wr.send_flags = IBV_SEND_INLINE;
	bench_post_wr(b, &wr);
	memset(data, 0, 3);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	p = decode_last(b, raw);
	assert_memory_equal(p.payload, "\1\2\3", 3);
	bench_free(b);
}

TEST(req_send, immediate_and_invalidate__in_the_last_packet)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct ibv_sge sge;
	struct ibv_send_wr wr = bench_wr(b, IBV_WR_SEND_WITH_IMM, 0, 300, &sge);
	uint8_t raw[ROCEMU_MAX_PACKET];

	wr.imm_data = htobe32(0xcafe);
	bench_post_wr(b, &wr);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_LAST_IMM 1 A");
	assert_int_equal(decode_last(b, raw).h.imm, 0xcafe);
	wr = bench_wr(b, IBV_WR_SEND_WITH_INV, 0, 3, &sge);
	wr.invalidate_rkey = 0x1234;
	bench_post_wr(b, &wr);
	assert_string_equal(bench_out(b), "SEND_ONLY_INV 2 A");
	assert_int_equal(decode_last(b, raw).h.ieth, 0x1234);
	bench_free(b);
}

/* IBTA 9.2.3: the solicited event bit belongs to what completes a receive. */
TEST(req_send, solicited__where_a_receive_completes)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						 IBV_WR_RDMA_WRITE_WITH_IMM};

	for (unsigned i = 0; i < 3; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = bench_wr(b, ops[i], 0, 300, &sge);

		wr.send_flags = IBV_SEND_SOLICITED;
		bench_post_wr(b, &wr);
	}
	assert_string_equal(bench_out(b),
			    "SEND_FIRST 0; SEND_LAST 1 A S; WRITE_FIRST 2; WRITE_LAST 3 A; "
			    "WRITE_FIRST 4; WRITE_LAST_IMM 5 A S");
	bench_free(b);
}

TEST(req_write, headers__whole_length_in_the_first_packet)
{
	struct bench *b = bench_new(&(struct bench_opts){.mtu = IBV_MTU_1024});
	struct rocemu_packet p;
	uint8_t raw[ROCEMU_MAX_PACKET];

	bench_post(b, IBV_WR_RDMA_WRITE, 1000);
	bench_out(b);
	p = decode_last(b, raw);
	assert_int_equal(p.h.dqpn, BENCH_QPN);
	assert_int_equal(p.h.reth.va, 0x1000);
	assert_int_equal(p.h.reth.rkey, BENCH_RKEY);
	assert_int_equal(p.h.reth.length, 1000);
	bench_free(b);
}

TEST(req_send, long_message__asks_for_ack_every_16_packets)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 18 * 256);
	assert_non_null(strstr(bench_out(b),
			       "SEND_MIDDLE 14; SEND_MIDDLE 15 A; SEND_MIDDLE 16; SEND_LAST 17 A"));
	bench_free(b);
}

TEST(req_window, full__last_one_asks_for_ack_and_ack_opens)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = 3 * (256 + 512)});

	bench_post(b, IBV_WR_SEND, 5 * 256);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_MIDDLE 1; SEND_MIDDLE 2 A");
	bench_ack(b, 0);
	assert_string_equal(bench_out(b), "SEND_MIDDLE 3 A");
	bench_ack(b, 3);
	assert_string_equal(bench_out(b), "SEND_LAST 4 A");
	bench_ack(b, 4);
	assert_string_equal(bench_done(b), "1 OK");
	bench_free(b);
}

TEST(req_window, smaller_than_a_packet__one_at_a_time)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = 1});

	bench_post(b, IBV_WR_SEND, 2 * 256);
	assert_string_equal(bench_out(b), "SEND_FIRST 0 A");
	bench_ack(b, 0);
	assert_string_equal(bench_out(b), "SEND_LAST 1 A");
	bench_free(b);
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

TEST(req_read, long__several_requests_with_psns_of_responses)
{
	struct bench *b = bench_new(&(struct bench_opts){.mtu = IBV_MTU_4096});
	uint8_t raw[ROCEMU_MAX_PACKET];

	bench_post(b, IBV_WR_RDMA_READ, 100 * 1024);
	bench_post(b, IBV_WR_SEND, 0);
	assert_string_equal(bench_out(b),
			    "READ_REQUEST 0+65536 A; READ_REQUEST 16+36864 A; SEND_ONLY 25 A");
	bench_free(b);
	b = bench_new(&(struct bench_opts){.mtu = IBV_MTU_4096});
	bench_post(b, IBV_WR_RDMA_READ, 65536 + 1);
	bench_out(b);
	assert_int_equal(decode_last(b, raw).h.reth.va, 0x1000 + 65536);
	assert_int_equal(decode_last(b, raw).h.reth.rkey, BENCH_RKEY);
	bench_free(b);
}

TEST(req_read, limit_reached__waits_for_a_response)
{
	struct bench *b = bench_new(&(struct bench_opts){.rd_atomic = 2});

	bench_post(b, IBV_WR_RDMA_READ, 256);
	bench_post(b, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	bench_post(b, IBV_WR_RDMA_READ, 0);
	bench_post(b, IBV_WR_SEND, 0);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A; FETCH_ADD 1 A");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 0, 1, 256);
	assert_string_equal(bench_out(b), "READ_REQUEST 2+0 A; SEND_ONLY 3 A");
	bench_free(b);
}

/* IBTA 10.8.3 */
TEST(req_fence, read_outstanding__waits_for_it)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct ibv_sge sge;
	struct ibv_send_wr wr = bench_wr(b, IBV_WR_SEND, 0, 4, &sge);

	bench_post(b, IBV_WR_RDMA_READ, 300);
	bench_post(b, IBV_WR_SEND, 4);
	wr.send_flags = IBV_SEND_FENCE;
	bench_post_wr(b, &wr);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+300 A; SEND_ONLY 2 A");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 0, 1, 256);
	assert_string_equal(bench_out(b), "");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 1, 1, 44);
	assert_string_equal(bench_out(b), "SEND_ONLY 3 A");
	bench_free(b);
}

TEST(req_atomic, compare_and_swap__operands_in_their_places)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	uint8_t raw[ROCEMU_MAX_PACKET];
	struct rocemu_packet p;

	bench_post(b, IBV_WR_ATOMIC_CMP_AND_SWP, 8);
	assert_string_equal(bench_out(b), "CMP_SWAP 0 A");
	p = decode_last(b, raw);
	assert_int_equal(p.h.atomiceth.compare, 0x11);
	assert_int_equal(p.h.atomiceth.swap_add, 0x22);
	assert_int_equal(p.h.atomiceth.rkey, BENCH_RKEY);
	bench_post(b, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	bench_out(b);
	p = decode_last(b, raw);
	assert_int_equal(p.h.atomiceth.swap_add, 0x11);
	assert_int_equal(p.h.atomiceth.compare, 0);
	bench_free(b);
}

static void post_bad_key(struct bench *b, enum ibv_wr_opcode op, uint32_t len)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = bench_wr(b, op, 0, len, &sge);

	sge.lkey ^= 1;
	bench_post_wr(b, &wr);
}

TEST(req_fault, bad_key__fails_after_those_before_it)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	post_bad_key(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	assert_string_equal(bench_done(b), "");
	bench_ack(b, 0);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 OK; 2 LOC_PROT; 3 FLUSH");
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_ERR);
	assert_int_equal(rocemu_ep_deadline(b->ep), ROCEMU_NEVER);
	bench_free(b);
}

TEST(req_fault, bad_key_first__nothing_sent)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE};

	for (unsigned i = 0; i < 2; i++) {
		struct bench *b = bench_new(&(struct bench_opts){0});

		post_bad_key(b, ops[i], 1000);
		assert_string_equal(bench_out(b), "");
		assert_string_equal(bench_done(b), "1 LOC_PROT");
		bench_free(b);
	}
}

TEST(req_fault, end_of_long_message_out_of_bounds__nothing_sent)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct ibv_sge sge;
	struct ibv_send_wr wr = bench_wr(b, IBV_WR_RDMA_WRITE, BENCH_BUF - 1000, 1001, &sge);

	bench_post_wr(b, &wr);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 LOC_PROT");
	bench_free(b);
}

TEST(req_fault, region_gone_before_retransmission__fails)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 600);
	bench_out(b);
	rocemu_mr_dereg(b->mr);
	bench_nak(b, 1, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 LOC_PROT");
	bench_free(b);
}

TEST(req_fault, read_without_read_resources__fails)
{
	struct bench *b = bench_new(&(struct bench_opts){.no_rd_atomic = true});

	bench_post(b, IBV_WR_RDMA_READ, 8);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 LOC_QP_OP");
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

TEST(req_uc, bad_key__send_queue_error_and_back)
{
	struct bench *b = bench_new(&(struct bench_opts){.type = IBV_QPT_UC});
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};

	bench_post(b, IBV_WR_SEND, 4);
	post_bad_key(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "SEND_ONLY 0");
	assert_string_equal(bench_done(b), "1 OK; 2 LOC_PROT; 3 FLUSH");
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_SQE);
	assert_int_equal(rocemu_qp_modify(b->qp, b->now, &rts, IBV_QP_STATE), 0);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "SEND_ONLY 1");
	assert_string_equal(bench_done(b), "4 OK");
	bench_free(b);
}

TEST(req_uc, error_state_between__what_left_is_complete)
{
	struct bench *b = bench_new(&(struct bench_opts){.type = IBV_QPT_UC});
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct rocemu_tx tx[2];

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_SEND, 600);
	assert_int_equal(rocemu_ep_output(b->ep, b->now, tx, 2), 2);
	assert_int_equal(rocemu_qp_modify(b->qp, b->now, &err, IBV_QP_STATE), 0);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 OK; 2 FLUSH");
	bench_free(b);
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
