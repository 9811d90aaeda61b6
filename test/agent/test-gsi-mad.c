/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a MAD goes by its IDs, and what is answered for an absent client. */
#include "agent/gsi-mad.h"

#include "../wire/golden.h"
#include "test.h"

static void check_golden(const char *file, const struct capture_rec *rec, void *user)
{
	struct rocemu_packet p;
	struct rocemu_cm_msg m;
	unsigned *seen = user;
	uint64_t service_id;

	(void)file;
	if (rocemu_packet_decode(&p, rec->data, rec->len) || p.h.dqpn != ROCEMU_GSI_QPN)
		return;
	++*seen;
	assert_int_equal(rocemu_cm_decode(&m, p.payload, p.payload_len), 0);
	assert_true(gsi_mad_service(&m, &service_id) || gsi_mad_receiver_id(&m) != 0);
}

TEST(gsi_mad, what_the_kernel_sent__names_its_receiver)
{
	unsigned seen = 0;

	golden_for_each(check_golden, &seen);
	assert_true(seen > 20);
}

TEST(gsi_mad, rep__ids_of_both_sides)
{
	const struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_REP,
					.rep = {.local_comm_id = 2, .remote_comm_id = 3}};

	assert_int_equal(gsi_mad_sender_id(&m), 2);
	assert_int_equal(gsi_mad_receiver_id(&m), 3);
}

TEST(gsi_mad, answers__are_not_answered)
{
	static const uint16_t attrs[] = {ROCEMU_CM_REQ, ROCEMU_CM_REP, ROCEMU_CM_DREQ,
					 ROCEMU_CM_LAP, ROCEMU_CM_SIDR_REQ};

	for (unsigned i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		struct rocemu_cm_msg m = {.attr_id = attrs[i], .tid = 77}, answer, again;

		assert_true(gsi_mad_answer(&m, &answer));
		assert_int_equal(answer.tid, 77);
		assert_false(gsi_mad_answer(&answer, &again));
	}
}
