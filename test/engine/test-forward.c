/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rng.h"
#include "engine/forward.h"

enum {
	SLOT_A = 1022,
	SLOT_B = 1023,
	FREE_SLOT = 1021
}; /* the agent hands out the low ones first */

static const struct forward_hdr sample = {
	.src = {{0xfe, 0x80, 1, 2, 3}},
	.dst = {{[10] = 0xff, 0xff, 127, 0, 0, 1}},
	.sport = 0xc123,
	.seg_len = 4140,
	.ip_id = 7,
	.tclass = 2,
	.hop_limit = 64,
	.flow_label = 0xfedcb,
};

TEST(forward, encode_decode__same)
{
	uint8_t buf[FORWARD_HDR_LEN + 1];
	struct forward_hdr h;

	memset(&h, 0xaa, sizeof(h));
	forward_encode(&sample, buf);
	assert_int_equal(forward_decode(&h, buf, sizeof(buf)), 0);
	assert_memory_equal(&h.src, &sample.src, 16);
	assert_memory_equal(&h.dst, &sample.dst, 16);
	assert_int_equal(h.sport, sample.sport);
	assert_int_equal(h.seg_len, sample.seg_len);
	assert_int_equal(h.ip_id, sample.ip_id);
	assert_int_equal(h.tclass, sample.tclass);
	assert_int_equal(h.hop_limit, sample.hop_limit);
	assert_int_equal(h.flow_label, sample.flow_label);
}

TEST(forward, short_or_foreign__refused)
{
	uint8_t buf[FORWARD_HDR_LEN + 1] = {0};
	struct forward_hdr h, zero = sample;

	assert_int_equal(forward_decode(&h, buf, sizeof(buf)), -EBADMSG);
	forward_encode(&sample, buf);
	assert_int_equal(forward_decode(&h, buf, FORWARD_HDR_LEN), -EBADMSG);
	assert_int_equal(forward_decode(&h, buf, 0), -EBADMSG);
	zero.seg_len = 0; /* would never end */
	forward_encode(&zero, buf);
	assert_int_equal(forward_decode(&h, buf, sizeof(buf)), -EBADMSG);
	zero = sample;
	zero.flow_label = 0x100000;
	forward_encode(&zero, buf);
	assert_int_equal(forward_decode(&h, buf, sizeof(buf)), -EBADMSG);
}

TEST(forward, sent_to_a_slot__arrives_there)
{
	int a = forward_open(SLOT_A), b = forward_open(SLOT_B);
	uint8_t data[300], got[300];
	struct forward_hdr h;
	struct rng r;

	assert_true(a >= 0 && b >= 0);
	rng_init(&r, 1);
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)rng_u32(&r);
	assert_int_equal(forward_send(a, SLOT_B, &sample, data, sizeof(data)), 0);
	assert_int_equal(forward_recv(b, &h, got, sizeof(got)), sizeof(data));
	assert_memory_equal(got, data, sizeof(data));
	assert_int_equal(h.sport, sample.sport);
	assert_int_equal(forward_recv(b, &h, got, sizeof(got)), -EAGAIN);
	close(a);
	close(b);
}

TEST(forward, larger_than_the_buffer__refused)
{
	int a = forward_open(SLOT_A), b = forward_open(SLOT_B);
	uint8_t data[300] = {0}, got[299];
	struct forward_hdr h;

	assert_int_equal(forward_send(a, SLOT_B, &sample, data, sizeof(data)), 0);
	assert_int_equal(forward_recv(b, &h, got, sizeof(got)), -EBADMSG);
	close(a);
	close(b);
}

TEST(forward, nobody_there__error)
{
	int a = forward_open(SLOT_A);
	uint8_t data[1] = {0};

	assert_int_equal(forward_send(a, FREE_SLOT, &sample, data, 1), -ECONNREFUSED);
	close(a);
}

TEST(forward, slot_taken__error_and_free_after_close)
{
	int a = forward_open(SLOT_A), again = forward_open(SLOT_A);

	assert_int_equal(again, -EADDRINUSE);
	close(a);
	a = forward_open(SLOT_A);
	assert_true(a >= 0);
	close(a);
}
