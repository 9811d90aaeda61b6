/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A window of requests on its way to an RC responder by a network that loses, doubles and reorders,
 * and two kinds of peers behind it: one that repeats the single packet that is missing, and one
 * that repeats everything from there on (go-back-N). Responses get lost as well. What must hold:
 * each request is executed once, the peer gets to the end in a bounded number of steps, a gap is
 * reported once unless packets were repeated, and nothing is kept at the end.
 */
#include "hostile.h"

#include <string.h>

#include "base/rng.h"

enum {
	ROUNDS = 300,
	PACKETS = 400,
	ATOMIC_EVERY = 32,  /* fewer than ROCEMU_MAX_RD_ATOMIC in the window */
	WORD = 8 * PACKETS, /* where the atomics count */
};

static struct hostile h;

struct peer_model {
	struct rng rng;
	uint32_t base;		/* PSN of the first request */
	uint32_t una;		/* requests before this one are acknowledged */
	bool answered[PACKETS]; /* atomics whose response came */
	bool reported[PACKETS]; /* a NAK was made for it before anything was repeated */
	bool repeats;		/* something was repeated */
	bool go_back_n;
	double loss;
};

/** Over all rounds: shows that the faults reach what they are for. */
static uint64_t naks, kept;

static bool is_atomic(uint32_t i)
{
	return i % ATOMIC_EVERY == 7;
}

/** Request i, with AckReq if requested or where a requester sets it anyway. */
static void deliver(struct peer_model *m, uint32_t i, bool ackreq)
{
	struct rocemu_hdrs hdrs = {
		.opcode = is_atomic(i) ? ROCEMU_RC_FETCH_ADD : ROCEMU_RC_WRITE_ONLY,
		.psn = (m->base + i) & ROCEMU_PSN_MASK,
		.ackreq = ackreq || is_atomic(i) || i % 16 == 15 || i + 1 == PACKETS,
		.reth = {.va = (uintptr_t)h.mem + 8 * i, .rkey = h.rkey, .length = 8},
	};

	if (rng_chance(&m->rng, m->loss))
		return;
	if (is_atomic(i)) {
		hdrs.atomiceth.va = (uintptr_t)h.mem + WORD;
		hdrs.atomiceth.rkey = h.rkey;
		hdrs.atomiceth.swap_add = 1;
	}
	memset(h.payload, (int)(i % 251 + 1), 8);
	hostile_send_hdrs(&h, &hdrs, is_atomic(i) ? 0 : 8);
}

/** Everything before `to` is acknowledged, as far as no atomic waits for its response. */
static void advance(struct peer_model *m, uint32_t to)
{
	assert_true(to <= PACKETS);
	while (m->una < to && (!is_atomic(m->una) || m->answered[m->una]))
		m->una++;
}

/** What the responder sends, some of it lost. */
static void take_responses(struct peer_model *m)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
	unsigned n;

	while ((n = rocemu_ep_output(h.ep, h.now, tx, ROCEMU_OUTPUT_BATCH)))
		for (unsigned j = 0; j < n; j++) {
			uint8_t buf[ROCEMU_MAX_HDR_LEN + 8];
			struct rocemu_packet p;
			uint32_t i;

			assert_int_equal(tx[j].payload_len, 0);
			memcpy(buf, tx[j].hdr, tx[j].hdr_len);
			memcpy(buf + tx[j].hdr_len, tx[j].trailer, tx[j].trailer_len);
			assert_int_equal(rocemu_packet_decode(&p, buf, rocemu_tx_len(&tx[j])),
					 ROCEMU_DROP_NONE);
			i = (p.h.psn - m->base) & ROCEMU_PSN_MASK;
			if (p.h.aeth.syndrome == ROCEMU_NAK_PSN_SEQ) {
				assert_true(i < PACKETS);
				assert_false(m->reported[i] && !m->repeats);
				m->reported[i] = true;
				naks++;
			}
			if (rng_chance(&m->rng, m->loss))
				continue;
			if ((p.h.opcode & 0x1f) == ROCEMU_RC_ATOMIC_ACK) {
				assert_true(is_atomic(i));
				m->answered[i] = true;
				advance(m, i + 1);
			} else if (p.h.aeth.syndrome == ROCEMU_NAK_PSN_SEQ) {
				advance(m, i);
			} else if (i < PACKETS) {
				assert_false(is_atomic(i));
				advance(m, i + 1);
			}
		}
}

/** All once, each up to `reach` places later than its own, some twice. */
static void deliver_window(struct peer_model *m, uint32_t reach)
{
	uint32_t at[PACKETS];

	for (uint32_t i = 0; i < PACKETS; i++)
		at[i] = i + (rng_chance(&m->rng, 0.1) ? rng_below(&m->rng, reach) : 0);
	for (uint32_t t = 0; t < PACKETS + reach; t++)
		for (uint32_t i = t > reach ? t - reach : 0; i <= t && i < PACKETS; i++) {
			if (at[i] != t)
				continue;
			deliver(m, i, false);
			if (m->loss > 0 && rng_chance(&m->rng, 0.01)) {
				m->repeats = true;
				deliver(m, i, false);
			}
			if (rng_chance(&m->rng, 0.5))
				take_responses(m);
		}
}

static void repeat(struct peer_model *m)
{
	uint32_t to = m->go_back_n ? PACKETS : m->una + 1;

	m->repeats = true;
	for (uint32_t i = m->una; i < to; i++) {
		deliver(m, i, !m->go_back_n);
		if (rng_chance(&m->rng, 0.5))
			take_responses(m);
	}
}

static void round_of(uint64_t seed)
{
	struct peer_model m = {.go_back_n = seed & 1, .loss = (double)(seed % 5) * 0.05};
	uint64_t count;
	unsigned steps = 0;

	rng_init(&m.rng, seed);
	m.base = (0x1000000 - rng_below(&m.rng, PACKETS)) & ROCEMU_PSN_MASK;
	hostile_new(&h, IBV_QPT_RC, false);
	h.psn = m.base;
	h.rd_atomic = ROCEMU_MAX_RD_ATOMIC;
	hostile_connect(&h, IBV_QPS_RTS);
	memset(h.mem + WORD, 0, 8);
	deliver_window(&m, 1 + rng_below(&m.rng, 2) * 40);
	take_responses(&m);
	while (m.una < PACKETS) {
		assert_true(steps++ < 4 * PACKETS);
		repeat(&m);
		take_responses(&m);
	}
	assert_int_equal(h.qp->resp.epsn, (m.base + PACKETS) & ROCEMU_PSN_MASK);
	for (uint32_t i = 0; i < PACKETS; i++) {
		uint8_t want[8];

		memset(want, (int)(i % 251 + 1), 8);
		assert_true(is_atomic(i) || memcmp(h.mem + 8 * i, want, 8) == 0);
	}
	memcpy(&count, h.mem + WORD, 8);
	assert_int_equal(count, (PACKETS - 8) / ATOMIC_EVERY + 1);
	assert_true(keep_empty(&h.qp->resp.early));
	assert_int_equal(h.ep->keep.nfree, KEEP_SLOTS);
	assert_true(m.loss > 0 || rocemu_ep_get_stats(h.ep)->kept_full == 0);
	kept += rocemu_ep_get_stats(h.ep)->kept;
	hostile_free(&h);
}

TEST(resp_keep, random_networks_and_two_kinds_of_peers__each_request_once)
{
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		print_message("seed %llu\n", (unsigned long long)seed);
		round_of(seed);
	}
	assert_true(naks > ROUNDS && kept > 10 * ROUNDS);
}
