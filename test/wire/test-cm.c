/* SPDX-License-Identifier: BSD-2-Clause */
/* CM messages against known answers, bit by bit, and against what must be refused or cut. */
#include "../lib/test.h"

#include <stdlib.h>
#include <string.h>

#include <rocemu/cm.h>

#include "base/util.h"
#include "cm-vectors.h"
#include "golden.h"

enum {
	MAD_CLASS = 1,
	MAD_CLASS_VERSION = 2,
	MAD_METHOD = 3,
	MAD_ATTR_ID = 16,
	MAD_ATTR_MOD = 20,
	DATA = ROCEMU_MAD_HDR_LEN
};

TEST(cm_encode, every_message__the_standards_bytes)
{
	const struct cm_vector *v = cm_vectors();
	uint8_t buf[ROCEMU_MAD_LEN];

	for (unsigned i = 0; i < CM_VECTORS; i++) {
		memset(buf, 0xa5, sizeof(buf));
		assert_int_equal(rocemu_cm_encode(&v[i].msg, buf), ROCEMU_MAD_LEN);
		assert_memory_equal(buf, v[i].bytes, sizeof(buf));
	}
}

/* Vectors are static, so padding in their structs is zero, as decode's is. */
TEST(cm_decode, every_message__its_fields)
{
	const struct cm_vector *v = cm_vectors();
	struct rocemu_cm_msg m;

	for (unsigned i = 0; i < CM_VECTORS; i++) {
		uint8_t *copy = exact_copy(v[i].bytes, ROCEMU_MAD_LEN);

		memset(&m, 0xa5, sizeof(m));
		assert_int_equal(rocemu_cm_decode(&m, copy, ROCEMU_MAD_LEN), ROCEMU_MAD_OK);
		assert_memory_equal(&m, &v[i].msg, sizeof(m));
		free(copy);
	}
}

/* Reserved bits of the MAD's data, first and last, per message. */
static const struct reserved {
	uint16_t attr_id, first, last;
} reserved[] = {
/* clang-format off */
#define BIT(byte, bit) ((byte) * 8 + (bit))
	{ROCEMU_CM_REQ, BIT(4, 0), BIT(4, 7)},      {ROCEMU_CM_REQ, BIT(24, 0), BIT(27, 7)},
	{ROCEMU_CM_REQ, BIT(90, 4), BIT(91, 1)},    {ROCEMU_CM_REQ, BIT(94, 5), BIT(94, 7)},
	{ROCEMU_CM_REQ, BIT(95, 5), BIT(95, 7)},    {ROCEMU_CM_REQ, BIT(134, 4), BIT(135, 1)},
	{ROCEMU_CM_REQ, BIT(138, 5), BIT(138, 7)},  {ROCEMU_CM_REQ, BIT(139, 6), BIT(139, 7)},
	{ROCEMU_CM_MRA, BIT(8, 2), BIT(8, 7)},      {ROCEMU_CM_MRA, BIT(9, 5), BIT(9, 7)},
	{ROCEMU_CM_REJ, BIT(8, 2), BIT(8, 7)},      {ROCEMU_CM_REJ, BIT(9, 7), BIT(9, 7)},
	{ROCEMU_CM_REP, BIT(27, 4), BIT(27, 7)},
	{ROCEMU_CM_DREQ, BIT(11, 0), BIT(11, 7)},
	{ROCEMU_CM_SIDR_REQ, BIT(6, 0), BIT(7, 7)},
	{ROCEMU_CM_LAP, BIT(8, 0), BIT(11, 7)},     {ROCEMU_CM_LAP, BIT(15, 5), BIT(19, 7)},
	{ROCEMU_CM_LAP, BIT(58, 4), BIT(58, 7)},    {ROCEMU_CM_LAP, BIT(61, 0), BIT(61, 1)},
	{ROCEMU_CM_LAP, BIT(62, 5), BIT(62, 7)},    {ROCEMU_CM_LAP, BIT(63, 5), BIT(63, 7)},
	{ROCEMU_CM_APR, BIT(10, 0), BIT(11, 7)},
	/* clang-format on */
};

/* The top bit of an eight-bit length is 128, more than there is room for. */
static bool too_long(uint16_t attr_id, unsigned bit)
{
	return (attr_id == ROCEMU_CM_SIDR_REP && bit == BIT(5, 0)) ||
	       (attr_id == ROCEMU_CM_APR && bit == BIT(8, 0));
}

static bool is_reserved(uint16_t attr_id, unsigned bit)
{
	for (const struct reserved *r = reserved; r < reserved + ARRAY_LEN(reserved); r++)
		if (r->attr_id == attr_id && bit >= r->first && bit <= r->last)
			return true;
	return false;
}

/* Each bit alone comes back where it was, and a reserved one does not: no two fields share a bit,
 * none is cut. */
TEST(cm, every_bit_alone__comes_back_unless_reserved)
{
	const struct cm_vector *v = cm_vectors();
	uint8_t in[ROCEMU_MAD_LEN], out[ROCEMU_MAD_LEN];
	struct rocemu_cm_msg m;

	for (unsigned i = 0; i < CM_VECTORS; i++) {
		uint16_t id = v[i].msg.attr_id;

		for (unsigned bit = 0; bit < ROCEMU_MAD_DATA_LEN * 8; bit++) {
			memcpy(in, v[i].bytes, DATA);
			memset(in + DATA, 0, ROCEMU_MAD_DATA_LEN);
			in[DATA + bit / 8] = (uint8_t)(0x80 >> bit % 8);
			if (too_long(id, bit)) {
				assert_int_equal(rocemu_cm_decode(&m, in, sizeof(in)),
						 ROCEMU_MAD_FIELD);
				continue;
			}
			assert_int_equal(rocemu_cm_decode(&m, in, sizeof(in)), ROCEMU_MAD_OK);
			assert_int_equal(rocemu_cm_encode(&m, out), ROCEMU_MAD_LEN);
			if (is_reserved(id, bit))
				in[DATA + bit / 8] = 0;
			if (memcmp(in, out, sizeof(in)) != 0)
				fail_msg("%s: byte %u bit %u", rocemu_cm_name(id), bit / 8,
					 bit % 8);
		}
	}
}

/* The attribute modifier holds the options of those messages that have a vendor ID. */
TEST(cm, every_bit_of_the_attribute_modifier__comes_back_where_it_is_options)
{
	const struct cm_vector *v = cm_vectors();
	uint8_t in[ROCEMU_MAD_LEN] = {0}, out[ROCEMU_MAD_LEN];
	struct rocemu_cm_msg m;

	for (unsigned i = 0; i < CM_VECTORS; i++) {
		uint16_t id = v[i].msg.attr_id;
		bool options =
			id == ROCEMU_CM_REQ || id == ROCEMU_CM_REP || id == ROCEMU_CM_SIDR_REP;

		for (unsigned bit = 0; bit < 32; bit++) {
			memcpy(in, v[i].bytes, MAD_ATTR_MOD);
			memset(in + MAD_ATTR_MOD, 0, sizeof(in) - MAD_ATTR_MOD);
			in[MAD_ATTR_MOD + bit / 8] = (uint8_t)(0x80 >> bit % 8);
			assert_int_equal(rocemu_cm_decode(&m, in, sizeof(in)), ROCEMU_MAD_OK);
			assert_int_equal(rocemu_cm_encode(&m, out), ROCEMU_MAD_LEN);
			if (!options)
				in[MAD_ATTR_MOD + bit / 8] = 0;
			assert_memory_equal(in, out, sizeof(in));
		}
	}
}

TEST(cm_decode, any_other_length__refused)
{
	const struct cm_vector *v = cm_vectors();
	uint8_t longer[ROCEMU_MAD_LEN + 1] = {0};
	struct rocemu_cm_msg m;

	memcpy(longer, v[0].bytes, ROCEMU_MAD_LEN);
	assert_int_equal(rocemu_cm_decode(&m, longer, sizeof(longer)), ROCEMU_MAD_LENGTH);
	for (size_t len = 0; len < ROCEMU_MAD_LEN; len++) {
		uint8_t *copy = exact_copy(v[0].bytes, len);

		assert_int_equal(rocemu_cm_decode(&m, copy, len), ROCEMU_MAD_LENGTH);
		free(copy);
	}
}

TEST(cm_decode, header_of_something_else__told_what)
{
	static const struct {
		unsigned at;
		uint8_t value;
		enum rocemu_mad_verdict want;
	} t[] = {
		{0, 0x80, ROCEMU_MAD_BASE_VERSION},
		{MAD_CLASS, 0x03, ROCEMU_MAD_CLASS},
		{MAD_CLASS_VERSION, 1, ROCEMU_MAD_CLASS_VERSION},
		{MAD_METHOD, 0x01, ROCEMU_MAD_METHOD},
		{MAD_METHOD, 0x83, ROCEMU_MAD_METHOD},
		{MAD_ATTR_ID, 0x01, ROCEMU_MAD_ATTRIBUTE}, /* 0x0110 */
		{MAD_ATTR_ID + 1, 0x0f, ROCEMU_MAD_ATTRIBUTE},
		{MAD_ATTR_ID + 1, 0x1b, ROCEMU_MAD_ATTRIBUTE},
	};
	struct rocemu_cm_msg m;
	uint8_t buf[ROCEMU_MAD_LEN];

	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		memcpy(buf, cm_vectors()[0].bytes, sizeof(buf));
		buf[t[i].at] = t[i].value;
		assert_int_equal(rocemu_cm_decode(&m, buf, sizeof(buf)), t[i].want);
	}
}

/* A length beyond its 72 bytes would let its user read beyond it. */
TEST(cm_decode, information_length__up_to_72)
{
	static const struct {
		uint8_t attr_id, at, shift, max;
	} t[] = {
		{ROCEMU_CM_REJ, 9, 1, 127},
		{ROCEMU_CM_SIDR_REP, 5, 0, 255},
		{ROCEMU_CM_APR, 8, 0, 255},
	};
	struct rocemu_cm_msg m;
	uint8_t buf[ROCEMU_MAD_LEN];

	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		memcpy(buf, cm_vectors()[t[i].attr_id - ROCEMU_CM_REQ].bytes, sizeof(buf));
		for (unsigned len = 0; len <= t[i].max; len++) {
			buf[DATA + t[i].at] = (uint8_t)(len << t[i].shift);
			assert_int_equal(rocemu_cm_decode(&m, buf, sizeof(buf)),
					 len <= 72 ? ROCEMU_MAD_OK : ROCEMU_MAD_FIELD);
		}
	}
}

TEST(cm_encode, fields_too_wide__cut_and_neighbours_unharmed)
{
	static const struct rocemu_cm_msg wide = {
		.attr_id = ROCEMU_CM_REQ,
		.req = {.ece = {.vendor_id = 0xff0002c9},
			.local_qpn = 0xff000001,
			.transport = 0xfd,
			.retry_count = 0xf8,
			.path_mtu = 0xf3,
			.primary = {.flow_label = 0xfff00001, .packet_rate = 0xc1}},
	};
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_REJ,
				  .rej = {.answered = 0xfd, .ari_len = 0xff}};
	uint8_t buf[ROCEMU_MAD_LEN];

	rocemu_cm_encode(&wide, buf);
	assert_int_equal(rocemu_cm_decode(&m, buf, sizeof(buf)), ROCEMU_MAD_OK);
	assert_int_equal(m.req.ece.vendor_id, 0x2c9);
	assert_int_equal(m.req.local_qpn, 1);
	assert_int_equal(m.req.responder_resources, 0);
	assert_int_equal(m.req.transport, 1);
	assert_int_equal(m.req.remote_cm_timeout, 0);
	assert_int_equal(m.req.retry_count, 0);
	assert_int_equal(m.req.local_cm_timeout, 0);
	assert_int_equal(m.req.path_mtu, 3);
	assert_int_equal(m.req.primary.flow_label, 1);
	assert_int_equal(m.req.primary.packet_rate, 1);

	m = (struct rocemu_cm_msg){.attr_id = ROCEMU_CM_REP,
				   .rep = {.ece = {.vendor_id = 0xff0002c9}}};
	rocemu_cm_encode(&m, buf);
	assert_int_equal(rocemu_cm_decode(&m, buf, sizeof(buf)), ROCEMU_MAD_OK);
	assert_int_equal(m.rep.ece.vendor_id, 0x2c9);
	assert_int_equal(m.rep.local_qpn | m.rep.local_eecn | m.rep.starting_psn, 0);

	m = (struct rocemu_cm_msg){.attr_id = ROCEMU_CM_REJ,
				   .rej = {.answered = 0xfd, .ari_len = 0xff}};
	rocemu_cm_encode(&m, buf);
	assert_int_equal(rocemu_cm_decode(&m, buf, sizeof(buf)), ROCEMU_MAD_OK);
	assert_int_equal(m.rej.answered, 1);
	assert_int_equal(m.rej.ari_len, 72);
}

TEST(cm_encode, unknown_attribute__0_and_nothing_written)
{
	struct rocemu_cm_msg m = {0};
	uint8_t buf[ROCEMU_MAD_LEN] = {0xa5};

	for (unsigned id = 0; id <= 0xffff; id++) {
		if (id >= ROCEMU_CM_REQ && id <= ROCEMU_CM_APR)
			continue;
		m.attr_id = (uint16_t)id;
		assert_int_equal(rocemu_cm_encode(&m, buf), 0);
		assert_null(rocemu_cm_name(m.attr_id));
	}
	assert_int_equal(buf[0], 0xa5);
}

TEST(cm_texts, known_and_unknown__as_listed)
{
	assert_string_equal(rocemu_cm_name(ROCEMU_CM_SIDR_REP), "SIDR_REP");
	assert_string_equal(rocemu_cm_rej_text(ROCEMU_CM_REJ_SERVICE_ID), "invalid service ID");
	assert_string_equal(rocemu_cm_rej_text(28), "rejected by the consumer");
	assert_string_equal(rocemu_cm_rej_text(0), "unknown reason");
	assert_string_equal(rocemu_cm_rej_text(34), "unknown reason");
	assert_string_equal(rocemu_cm_sidr_text(3), "no QP available");
	assert_string_equal(rocemu_cm_sidr_text(6), "unknown status");
	assert_string_equal(rocemu_cm_apr_text(0), "alternate path loaded");
	assert_string_equal(rocemu_cm_apr_text(14), "unknown status");
}
