/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder's attributes changed while the connection is up: they hold from then on. */
#include "hostile.h"

#include <stdio.h>
#include <string.h>

static struct hostile h;

#define CHANGE(name) TEST(resp_change, name)

static void modify(const struct ibv_qp_attr *attr, int mask)
{
	assert_int_equal(rocemu_qp_modify(h.qp, 0, attr, mask), 0);
}

/* max_dest_rd_atomic and the address may be changed in SQD only. */
static void modify_in_sqd(struct ibv_qp_attr attr, int mask)
{
	attr.qp_state = IBV_QPS_SQD;
	modify(&attr, IBV_QP_STATE);
	hostile_effects(&h);
	modify(&attr, mask);
	attr.qp_state = IBV_QPS_RTS;
	modify(&attr, IBV_QP_STATE);
}

static void set_limit(uint8_t limit)
{
	modify_in_sqd((struct ibv_qp_attr){.max_dest_rd_atomic = limit}, IBV_QP_MAX_DEST_RD_ATOMIC);
}

static void read_at(uint32_t psn)
{
	hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, psn, 0, 0, 8);
}

static void add(uint32_t psn)
{
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, psn, 0, 1, 0);
}

CHANGE(max_dest_rd_atomic__raised__more_at_a_time)
{
	hostile_start(&h, IBV_QPT_RC);
	set_limit(4);
	for (uint32_t psn = 0; psn < 4; psn++)
		read_at(psn);
	EXPECT(&h, "only 0+8; only 1+8; only 2+8; only 3+8");
	hostile_free(&h);
}

CHANGE(max_dest_rd_atomic__lowered__fewer_at_a_time)
{
	hostile_new(&h, IBV_QPT_RC, false);
	h.rd_atomic = 4;
	hostile_connect(&h, IBV_QPS_RTS);
	set_limit(1);
	read_at(0);
	EXPECT(&h, "only 0+8");
	read_at(1);
	read_at(2);
	EXPECT(&h, "drop SEQUENCE; only 1+8; nak 61 2/2; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

CHANGE(max_dest_rd_atomic__from_and_to_zero__as_it_says)
{
	hostile_new(&h, IBV_QPT_RC, false);
	h.rd_atomic = 0;
	hostile_connect(&h, IBV_QPS_RTS);
	set_limit(1);
	read_at(0);
	EXPECT(&h, "only 0+8");
	set_limit(0);
	read_at(0); /* again: it was executed */
	EXPECT(&h, "only 0+8");
	read_at(1);
	EXPECT(&h, "drop SEQUENCE; nak 61 1/1; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

/*
 * Requests executed under the old limit may be repeated after the change, and must not be executed
 * twice.
 */
CHANGE(max_dest_rd_atomic__changed_at_any_place_of_the_ring__old_atomics_replayed)
{
	static const uint8_t to[] = {1, 2, 3, 5, 16};

	for (unsigned i = 0; i < ARRAY_LEN(to); i++)
		for (uint32_t before = 4; before < 24; before++) {
			uint64_t value = 0;

			hostile_new(&h, IBV_QPT_RC, false);
			h.rd_atomic = 4;
			hostile_connect(&h, IBV_QPS_RTS);
			memset(h.mem, 0, 8);
			for (uint32_t psn = 0; psn < before; psn++) {
				add(psn);
				hostile_effects(&h);
			}
			set_limit(to[i]);
			for (uint32_t psn = before - 4; psn < before; psn++) {
				char want[64];

				snprintf(want, sizeof(want), "atomic %u/%u =%u", psn, psn + 1, psn);
				add(psn);
				EXPECT(&h, want);
			}
			memcpy(&value, h.mem, 8);
			assert_int_equal(value, before);
			/* A new one, and the newest of the old. */
			add(before);
			hostile_effects(&h);
			add(before);
			if (to[i] > 1)
				add(before - 1);
			assert_non_null(strstr(hostile_effects(&h), "atomic"));
			memcpy(&value, h.mem, 8);
			assert_int_equal(value, before + 1);
			assert_int_equal(rocemu_ep_get_stats(h.ep)->drops[ROCEMU_DROP_STALE_ATOMIC],
					 0);
			hostile_free(&h);
		}
}

CHANGE(max_dest_rd_atomic__lowered_with_responses_owed__they_are_sent)
{
	hostile_new(&h, IBV_QPT_RC, false);
	h.rd_atomic = 4;
	hostile_connect(&h, IBV_QPS_RTS);
	for (uint32_t psn = 0; psn < 4; psn++)
		read_at(psn);
	modify(&(struct ibv_qp_attr){.qp_state = IBV_QPS_SQD}, IBV_QP_STATE);
	modify(&(struct ibv_qp_attr){.max_dest_rd_atomic = 1}, IBV_QP_MAX_DEST_RD_ATOMIC);
	EXPECT(&h, "only 0+8; only 1+8; only 2+8; only 3+8");
	read_at(4);
	EXPECT(&h, "only 4+8");
	hostile_free(&h);
}

CHANGE(max_dest_rd_atomic__before_kept_reads_have_their_turn__new_limit_holds)
{
	hostile_start(&h, IBV_QPT_RC);
	for (uint32_t psn = 1; psn <= 3; psn++)
		read_at(psn);
	EXPECT(&h, "nak 60 0/0");
	set_limit(3);
	read_at(0);
	EXPECT(&h, "only 0+8; only 1+8; only 2+8; nak 61 3/3; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

CHANGE(min_rnr_timer__in_rts__next_rnr_nak_bears_it)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	EXPECT(&h, "drop NO_RECV; rnr 12 0/0");
	modify(&(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .min_rnr_timer = 25},
	       IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	EXPECT(&h, "drop NO_RECV; rnr 25 0/0");
	hostile_free(&h);
}

CHANGE(access_flags__in_rts__next_request_needs_them)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "ack 0/1");
	modify(&(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				     .qp_access_flags = IBV_ACCESS_REMOTE_READ},
	       IBV_QP_STATE | IBV_QP_ACCESS_FLAGS);
	read_at(1);
	EXPECT(&h, "only 1+8");
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 2, 8);
	EXPECT(&h, "drop ACCESS; nak 61 2/2; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

CHANGE(address__in_sqd__requests_of_the_new_one_taken_and_answered)
{
	struct rocemu_gid old, next = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 3}};
	struct ibv_qp_attr attr = {.ah_attr = {.is_global = 1, .port_num = 1}};

	hostile_start(&h, IBV_QPT_RC);
	old = h.peer;
	memcpy(attr.ah_attr.grh.dgid.raw, next.raw, 16);
	modify_in_sqd(attr, IBV_QP_AV);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "drop SOURCE");
	h.peer = next;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "ack 0/1"); /* hostile.c checks the ICRC, which covers the address */
	h.peer = old;
	hostile_free(&h);
}
