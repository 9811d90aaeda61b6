/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC and UD on a network that is bad on purpose (ROCEMU_IMPAIR), over real sockets: messages may be
 * missing or, if of one packet, come twice (IBTA 9.8.2.2.1: whatever the PSN of a packet that
 * begins a message), but what is delivered is what was sent. RC, where all must arrive: test/prog.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "dev.h"

enum {
	SLOT = 4096,
	RECVS = DEV_WR - 4,
	OUT = RECVS * SLOT, /* where in the memory messages are made */
	OUT_ID = 1000,
	LEN_MIN = 16,
	GRH = 40,
	MTU = 1024,
	DELIVERED = 400, /* so many, then it is enough */
};

struct stream {
	struct dev d;
	struct ibv_qp *from, *to;
	struct ibv_ah *ah; /* UD */
	uint32_t max_len;
	uint32_t sent, delivered;
};

/* A message is its number and bytes that follow from it, as its length does. */
static uint32_t make(uint8_t *p, uint32_t number, uint32_t max_len)
{
	struct rng r;
	uint32_t len;

	rng_init(&r, number);
	len = LEN_MIN + rng_below(&r, max_len - LEN_MIN + 1);
	put_be32(p, number);
	for (uint32_t i = 4; i < len; i++)
		p[i] = (uint8_t)rng_u32(&r);
	return len;
}

static void check_delivered(struct stream *s, const struct ibv_wc *wc)
{
	const uint32_t grh = s->ah ? GRH : 0;
	const uint8_t *p = s->d.mem + wc->wr_id * SLOT + grh;
	const uint32_t len = wc->byte_len - grh, number = get_be32(p);
	uint8_t want[SLOT];

	assert_int_equal(wc->status, IBV_WC_SUCCESS);
	assert_in_range(number, 1, s->sent);
	assert_int_equal(len, make(want, number, s->max_len));
	assert_memory_equal(p, want, len);
	s->delivered++;
	dev_post_recv(&s->d, s->to, wc->wr_id, (uint32_t)wc->wr_id * SLOT, SLOT);
}

static void send_one(struct stream *s)
{
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = {
					 .wr_id = OUT_ID,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED,
				 };
	struct ibv_wc wc;

	sge = dev_sge(&s->d, OUT, make(s->d.mem + OUT, s->sent + 1, s->max_len));
	s->sent++;
	if (s->ah) {
		wr.wr.ud.ah = s->ah;
		wr.wr.ud.remote_qpn = s->to->qp_num;
		wr.wr.ud.remote_qkey = 0x11111111;
	}
	assert_int_equal(ibv_post_send(s->from, &wr, &bad), 0);
	while ((wc = dev_poll(s->d.cq)).wr_id != OUT_ID)
		check_delivered(s, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	while (ibv_poll_cq(s->d.cq, 1, &wc) == 1)
		check_delivered(s, &wc);
}

/* An address handle to the device itself by an IPv6 GID, for which the ICRC check is a full one. */
static struct ibv_ah *ipv6_ah(struct dev *d)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	static const uint8_t loopback[16] = {[15] = 1};

	for (int i = 0; !ibv_query_gid(d->ctx, 1, i, &a.grh.dgid); i++) {
		if (memcmp(a.grh.dgid.raw, loopback, sizeof(loopback)) != 0)
			continue;
		a.grh.sgid_index = (uint8_t)i;
		return ibv_create_ah(d->pd, &a);
	}
	print_message("skipped: no IPv6 on lo\n");
	skip();
	return NULL;
}

static void run(enum ibv_qp_type type, const char *impairment)
{
	static struct stream s;

	memset(&s, 0, sizeof(s));
	setenv("ROCEMU_IMPAIR", impairment, 1);
	dev_open(&s.d);
	unsetenv("ROCEMU_IMPAIR");
	s.from = dev_qp(&s.d, type, 0);
	s.to = dev_qp(&s.d, type, 0);
	if (type == IBV_QPT_UD) {
		dev_connect(s.from, NULL);
		dev_connect(s.to, NULL);
		s.ah = ipv6_ah(&s.d);
		assert_non_null(s.ah);
	} else {
		dev_connect(s.from, s.to);
	}
	s.max_len = type == IBV_QPT_UD ? MTU : 3 * MTU;
	for (uint32_t i = 0; i < RECVS; i++)
		dev_post_recv(&s.d, s.to, i, i * SLOT, SLOT);
	while (s.delivered < DELIVERED)
		send_one(&s);
	/* The network was a bad one. */
	if (type == IBV_QPT_UC)
		assert_true(s.sent > s.delivered + DELIVERED / 10);
	assert_int_equal(ibv_destroy_qp(s.from), 0);
	assert_int_equal(ibv_destroy_qp(s.to), 0);
	if (s.ah)
		assert_int_equal(ibv_destroy_ah(s.ah), 0);
	dev_close(&s.d);
}

TEST(impaired, uc_corrupted__nothing_damaged_is_delivered)
{
	run(IBV_QPT_UC, "corrupt=20%,seed=1");
}

TEST(impaired, uc_lost_doubled_reordered__whole_messages)
{
	run(IBV_QPT_UC, "loss=5%,dup=10%,reorder=10%,seed=2");
}

TEST(impaired, ud_all_at_once__nothing_damaged_is_delivered)
{
	run(IBV_QPT_UD, "loss=5%,dup=5%,reorder=10%,corrupt=50%,delay=0us..100us,seed=3");
}
