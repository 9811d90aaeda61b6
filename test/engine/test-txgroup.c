/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets are written as text: a letter is a path, then w (a WRITE), s (a SEND), m (the middle of
 * a SEND) or a (an ACK), then the length; bursts come back as the lengths in them: "Aw40 Aa20"
 * makes "40+20".
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "engine/txgroup.h"

enum { HDR = 16, TRAILER = 4 };

static struct rocemu_path paths[26];
static struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
static struct rocemu_tx *pkt[ROCEMU_OUTPUT_BATCH];

static unsigned make(const char *text)
{
	unsigned n = 0;

	memset(paths, 0, sizeof(paths));
	for (unsigned i = 0; i < 26; i++)
		paths[i].sport = (uint16_t)(0xc000 + i);
	while (*text) {
		struct rocemu_tx *t = &tx[n];
		char *end;

		*t = (struct rocemu_tx){.path = &paths[text[0] - 'A'], .trailer_len = TRAILER};
		t->hdr[0] = text[1] == 'a'   ? ROCEMU_RC_ACK
			    : text[1] == 's' ? ROCEMU_RC_SEND_ONLY
			    : text[1] == 'm' ? ROCEMU_RC_SEND_MIDDLE
					     : ROCEMU_RC_WRITE_ONLY;
		t->hdr_len = HDR;
		t->payload_len = (uint32_t)strtoul(text + 2, &end, 10) - HDR - TRAILER;
		t->niov = t->payload_len ? 1 : 0;
		pkt[n] = t;
		n++;
		text = *end ? end + 1 : end;
	}
	return n;
}

static const char *bursts(unsigned n, unsigned max_segments)
{
	static char out[4096];
	struct txburst burst[ROCEMU_OUTPUT_BATCH];
	unsigned count = txgroup_build(pkt, n, max_segments, burst), covered = 0;
	size_t used = 0;

	out[0] = '\0';
	for (unsigned b = 0; b < count; b++) {
		assert_int_equal(burst[b].first, covered);
		covered += burst[b].count;
		assert_int_equal(burst[b].seg_len, rocemu_tx_len(pkt[burst[b].first]));
		for (unsigned i = 0; i < burst[b].count; i++)
			used += (size_t)snprintf(out + used, sizeof(out) - used, "%s%u",
						 i   ? "+"
						 : b ? " "
						     : "",
						 rocemu_tx_len(pkt[burst[b].first + i]));
	}
	assert_int_equal(covered, n);
	return out;
}

static const char *grouped(const char *text)
{
	unsigned n = make(text);

	txgroup_order(pkt, n, TXGROUP_MAX_SEGMENTS);
	return bursts(n, TXGROUP_MAX_SEGMENTS);
}

TEST(txgroup, none__none)
{
	assert_string_equal(grouped(""), "");
}

TEST(txgroup, equal_lengths__one_burst)
{
	assert_string_equal(grouped("Aw100 Aw100 Aw100"), "100+100+100");
}

TEST(txgroup, shorter_one__ends_the_burst)
{
	assert_string_equal(grouped("Aw100 Aw60 Aw60 Aw100"), "100+60 60 100");
}

TEST(txgroup, other_path__other_burst)
{
	assert_string_equal(grouped("Aw100 Bw100 Bw100 Aw100"), "100 100+100 100");
}

TEST(txgroup, equal_path_elsewhere_in_memory__same_burst)
{
	unsigned n = make("Aw100 Bw100");

	paths[1] = paths[0];
	assert_string_equal(bursts(n, TXGROUP_MAX_SEGMENTS), "100+100");
	paths[1].tclass = 1;
	assert_string_equal(bursts(n, TXGROUP_MAX_SEGMENTS), "100 100");
}

TEST(txgroup, other_destination_slot__other_burst)
{
	unsigned n = make("Aw100 Aw100");

	put_be24(tx[0].hdr + 5, 3u << ROCEMU_QPN_INDEX_BITS | 17);
	put_be24(tx[1].hdr + 5, 3u << ROCEMU_QPN_INDEX_BITS | 18);
	assert_string_equal(bursts(n, TXGROUP_MAX_SEGMENTS), "100+100");
	put_be24(tx[1].hdr + 5, 4u << ROCEMU_QPN_INDEX_BITS | 17);
	assert_string_equal(bursts(n, TXGROUP_MAX_SEGMENTS), "100 100");
}

TEST(txgroup, ack_and_data__ack_ends_the_burst)
{
	assert_string_equal(grouped("Aa20 Aw40"), "40+20");
	assert_string_equal(grouped("Aa20 Aw40 Aw40 Aw40"), "40+40+40+20");
	assert_string_equal(grouped("Aa20 Bw40"), "20 40");
}

TEST(txgroup, ack_after_shorter_last__goes_with_it)
{
	assert_string_equal(grouped("Aw100 Aw84 Aa20"), "100 84+20");
	assert_string_equal(grouped("Aw100 Aw100 Aw50 Aa20 Aa20"), "100+100 50+20 20");
	assert_string_equal(grouped("Aw100 Aw84 Ba20"), "100+84 20");
	assert_string_equal(grouped("Aw100 Aw20 Aa40"), "100+20 40");
	assert_string_equal(grouped("Aw84 Aw100 Aw84"), "84 100+84");
	make("Aa20 Aw100");
	assert_string_equal(bursts(2, TXGROUP_MAX_SEGMENTS), "20 100");
}

TEST(txgroup, ack_longer_than_empty_send__ack_first)
{
	assert_string_equal(grouped("Aa28 As20"), "28+20");
	assert_string_equal(grouped("As20 As20 Aa28"), "28+20 20");
	/* Nothing completes a receive: the requests stay in front. */
	assert_string_equal(grouped("Aw40 Aw20 Aa28"), "40+20 28");
}

/* The receiver takes the ACK of a burst first. */
TEST(txgroup, send_and_ack__in_one_burst_or_ack_first)
{
	assert_string_equal(grouped("Aa20 As40"), "40+20");
	assert_string_equal(grouped("As40 As40 As40 Aa20"), "40+40+40+20");
	assert_string_equal(grouped("Am100 Am100 As50 Aa20"), "100+100 50+20");
	assert_string_equal(grouped("As40 As60 Aa20"), "20 40 60");
	assert_string_equal(grouped("As40 Aw60 Aa20"), "20 40 60");
	assert_string_equal(grouped("Aw40 As60 Aa20"), "40 60+20");
	assert_string_equal(grouped("Aw40 Aw60 Aa20"), "40 60+20");
	assert_string_equal(grouped("As40 As60 Ba20"), "40 60 20");
}

TEST(txgroup, more_sends_than_one_burst_has__ack_first)
{
	char text[1024] = "Aa20";
	size_t used = 4;
	unsigned n;

	for (unsigned i = 0; i < 64; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, " As40");
	n = make(text);
	txgroup_order(pkt, n, 65);
	assert_ptr_equal(pkt[0], &tx[1]);
	assert_ptr_equal(pkt[64], &tx[0]);
	n = make(text);
	txgroup_order(pkt, n, 64);
	assert_ptr_equal(pkt[0], &tx[0]);
	assert_ptr_equal(pkt[64], &tx[64]);
	n = make("Aa20 As4000 As4000 As4000");
	txgroup_order(pkt, n, TXGROUP_MAX_SEGMENTS);
	assert_ptr_equal(pkt[3], &tx[0]);
	for (unsigned i = 1; i < n; i++)
		tx[i].payload_len = TXGROUP_MAX_BYTES / 3;
	txgroup_order(pkt, n, TXGROUP_MAX_SEGMENTS);
	assert_ptr_equal(pkt[0], &tx[0]);
}

TEST(txgroup, packets_one_by_one__ack_before_a_send_and_behind_a_write)
{
	unsigned n = make("As40 Aa20");

	txgroup_order(pkt, n, 1);
	assert_string_equal(bursts(n, 1), "20 40");
	n = make("Aa20 Aw40");
	txgroup_order(pkt, n, 1);
	assert_string_equal(bursts(n, 1), "40 20");
}

TEST(txgroup, order__kept_within_requests_and_within_responses)
{
	unsigned n = make("Aa20 Aw30 Aa20 Aw40 Bw20 Aw50");

	txgroup_order(pkt, n, TXGROUP_MAX_SEGMENTS);
	assert_ptr_equal(pkt[0], &tx[1]);
	assert_ptr_equal(pkt[1], &tx[3]);
	assert_ptr_equal(pkt[2], &tx[0]);
	assert_ptr_equal(pkt[3], &tx[2]);
	assert_ptr_equal(pkt[4], &tx[4]);
	assert_ptr_equal(pkt[5], &tx[5]);
}

TEST(txgroup, no_segmentation__one_by_one)
{
	unsigned n = make("Aw100 Aw100 Aw100");

	assert_string_equal(bursts(n, 1), "100 100 100");
}

TEST(txgroup, full_batch__within_the_kernels_limits)
{
	struct txburst burst[ROCEMU_OUTPUT_BATCH];
	unsigned count, covered = 0;

	for (unsigned i = 0; i < ROCEMU_OUTPUT_BATCH; i++) {
		make("Aw100");
		tx[i] = tx[0];
		tx[i].payload_len = ROCEMU_MAX_MTU;
		tx[i].niov = ROCEMU_MAX_SGE;
		pkt[i] = &tx[i];
	}
	count = txgroup_build(pkt, ROCEMU_OUTPUT_BATCH, TXGROUP_MAX_SEGMENTS, burst);
	for (unsigned b = 0; b < count; b++) {
		assert_true(burst[b].count * (size_t)burst[b].seg_len <= TXGROUP_MAX_BYTES);
		assert_true(burst[b].count * (ROCEMU_MAX_SGE + 2) <= 1024);
		covered += burst[b].count;
	}
	assert_int_equal(covered, ROCEMU_OUTPUT_BATCH);
}
