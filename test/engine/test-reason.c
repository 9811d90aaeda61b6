/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of reasons, and the lines that are made of it. */
#include "test.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "engine/reason.h"

static const struct {
	unsigned number;
	const char *name, *text, *rule, *remedy;
} table[] = {
#define X(number, name, text, rule, remedy) {number, #name, text, rule, remedy},
	ROCEMU_WHYS(X)
#undef X
};

TEST(reason, table__each_code_has_a_number_a_text_a_rule_and_a_remedy)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		/* In order, so none is there twice; above every syndrome; in the lower half of a
		 * cause. */
		assert_true(table[i].number > (i ? table[i - 1].number : 0xff));
		assert_true(table[i].number < 0x10000);
		assert_true(strlen(table[i].text) > 10);
		assert_true(strlen(table[i].rule) > 5);
		assert_true(strlen(table[i].remedy) > 5);
	}
}

TEST(reason, table__every_word_in_braces_has_a_value)
{
	char line[1024], tag[16];

	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		const struct rocemu_why w = {.code = table[i].number,
					     .qpn = 0x12,
					     .peer_qpn = 0x34,
					     .what = "WRITE",
					     .n = 3,
					     .limit = 4,
					     .lo = 1,
					     .hi = 2};

		reason_text(line, sizeof(line), &w);
		if (strpbrk(line, "{}"))
			fail_msg("%s: %s", table[i].name, line);
		assert_int_equal(strncmp(line, "QP 0x12: ", 9), 0);
		snprintf(tag, sizeof(tag), " [0x%x]", table[i].number);
		assert_string_equal(line + strlen(line) - strlen(tag), tag);
		/* Room for the longest values. */
		assert_true(strlen(line) < 600);
	}
}

TEST(reason, values__as_people_read_them)
{
	const struct rocemu_why bounds = {
		.code = ROCEMU_WHY_RKEY_BOUNDS,
		.qpn = 0x12,
		.peer_qpn = 0x34,
		.peer = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}},
		.what = "RC_WRITE_ONLY",
		.addr = 0x7f00,
		.len = 4096,
		.key = 0x1234,
		.lo = 0x7000,
		.hi = 0x8000,
	};
	const struct rocemu_why missing = {
		.code = ROCEMU_WHY_MISSING,
		.qpn = 0x12,
		.lo = IBV_QPS_INIT,
		.hi = IBV_QPS_RTR,
		.n = IBV_QP_AV,
		.limit = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	};
	char line[1024];

	reason_text(line, sizeof(line), &bounds);
	assert_string_equal(line, "QP 0x12: NAK remote access error sent to 10.0.0.2 QP 0x34: "
				  "RC_WRITE_ONLY of 4096 bytes accesses [0x7f00, 0x8f00), "
				  "rkey 0x1234 covers [0x7000, 0x8000): a request lies within the "
				  "region or window: check the remote address and "
				  "length, or register more [0x14c]");
	reason_text(line, sizeof(line), &missing);
	assert_string_equal(
		line, "QP 0x12: ibv_modify_qp INIT to RTR: IBV_QP_AV is missing: attr_mask needs "
		      "IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN | "
		      "IBV_QP_DEST_QPN: set these members of ibv_qp_attr and their bits [0x1c3]");
}

TEST(reason, no_room__cut)
{
	const struct rocemu_why w = {.code = ROCEMU_WHY_DEVICE_GONE, .qpn = 0x12};
	char line[16];

	for (size_t size = 1; size <= sizeof(line); size++) {
		memset(line, 'x', sizeof(line));
		reason_text(line, size, &w);
		assert_true(memchr(line, 0, size) != NULL);
		assert_int_equal(strncmp(line, "QP 0x12: the dev", strlen(line)), 0);
	}
}
