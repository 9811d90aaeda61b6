/* SPDX-License-Identifier: BSD-2-Clause */
/* Personalities: their lines, and what of them is emulated. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fault/like.h"

static char err[256];
static struct like_trait trait;

static int first(const char *text)
{
	struct like_reader r = {.at = text};

	err[0] = '\0';
	return like_next(&r, &trait, err, sizeof(err));
}

TEST(like, lines__name_value_source)
{
	struct like_reader r = {
		.at = "# text\n\n recovery keeps | a.c:7, b \n\tmigreq 1|\nmax_sge 4"};

	assert_int_equal(like_next(&r, &trait, err, sizeof(err)), 1);
	assert_string_equal(trait.name, "recovery");
	assert_string_equal(trait.value, "keeps");
	assert_string_equal(trait.source, "a.c:7, b");
	assert_int_equal(trait.kind, LIKE_WORD);
	assert_int_equal(r.line, 3);
	assert_int_equal(like_next(&r, &trait, err, sizeof(err)), 1);
	assert_string_equal(trait.name, "migreq");
	assert_string_equal(trait.source, "");
	assert_int_equal(like_next(&r, &trait, err, sizeof(err)), 1);
	assert_string_equal(trait.name, "max_sge");
	assert_int_equal(like_next(&r, &trait, err, sizeof(err)), 0);
}

TEST(like, values__words_numbers_times)
{
	static const struct {
		const char *text;
		enum like_kind kind;
		uint64_t min, max;
	} rows[] = {
		{"a yes", LIKE_WORD, 0, 0},
		{"a 7", LIKE_NUMBER, 7, 7},
		{"a 0x88", LIKE_NUMBER, 0x88, 0x88},
		{"a 4..11", LIKE_NUMBER, 4, 11},
		{"a 40us", LIKE_TIME, 40000, 40000},
		{"a 530ms..545ms", LIKE_TIME, 530000000, 545000000},
		{"a 1.5ms", LIKE_TIME, 1500000, 1500000},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(first(rows[i].text), 1);
		assert_int_equal(trait.kind, rows[i].kind);
		assert_int_equal(trait.range.min, rows[i].min);
		assert_int_equal(trait.range.max, rows[i].max);
	}
}

TEST(like, wrong_lines__refused_with_their_number)
{
	static const char *const rows[] = {
		"\nrecovery", "\n| x",	  "\na b c",
		"\na 7x",     "\na 5..4", "\na 2h",
		"\na;b c",    "\na b;",	  "\nname_that_is_longer_than_thirty_one x",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(first(rows[i]), -EINVAL);
		assert_memory_equal(err, "line 2: ", 8);
	}
}

static int get(struct like *l, const char *text)
{
	setenv("ROCEMU_LIKE", text, 1);
	err[0] = '\0';
	return like_get(l, err, sizeof(err));
}

TEST(like, environment__traits_and_limits)
{
	struct like l;

	assert_int_equal(get(&l, "recovery goes_back\nnak_range goes_back\nprobes no\n"
				 "migreq 0\nack_credits 0..30\n"
				 "cnp no\nnak_cnp yes\nextra_repetitions 4..11\n"
				 "ack_timeout_floor 530ms..545ms\nrnr_wait_floor 1500us\n"
				 "nak_delay 40us\ncnp_interval 50us\nmax_sge 4\n"
				 "max_inline_data 64\nmax_qp_wr 100\nmax_qp_rd_atom 128\n"
				 "partial_write begun\n"),
			 0);
	assert_true(l.traits.drops_early && l.traits.goes_back && l.traits.no_probes &&
		    l.traits.no_migreq && l.traits.sends_credits && l.traits.cnp_on_nak &&
		    l.traits.no_cnps);
	assert_int_equal(l.traits.extra_repetitions, 7);
	assert_int_equal(l.traits.ack_timeout_floor, 537500000);
	assert_int_equal(l.traits.rnr_wait_floor, 1500000);
	assert_int_equal(l.traits.nak_delay, 40000);
	assert_int_equal(l.traits.cnp_interval, 50000);
	assert_int_equal(l.limits.max_sge, 4);
	assert_int_equal(l.limits.max_inline_data, 64);
	assert_int_equal(l.limits.max_qp_wr, 100);
	assert_int_equal(l.limits.max_qp_rd_atom, ROCEMU_MAX_RD_ATOMIC);
}

TEST(like, environment_of_rocemu__nothing_changes)
{
	static const struct like none;
	struct like l;

	assert_int_equal(
		get(&l, "recovery keeps\nprobes yes\nmigreq 1\nack_credits 31\nnak_cnp no"), 0);
	assert_memory_equal(&l, &none, sizeof(l));
	unsetenv("ROCEMU_LIKE");
	assert_int_equal(like_get(&l, err, sizeof(err)), 0);
	assert_memory_equal(&l, &none, sizeof(l));
}

TEST(like, values_of_another_kind__refused)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{"recovery maybe", "ROCEMU_LIKE: recovery maybe: expected keeps or goes_back"},
		{"nak_delay 7", "ROCEMU_LIKE: nak_delay 7: expected a time, such as 40us"},
		{"max_sge 7us", "ROCEMU_LIKE: max_sge 7us: expected a number"},
		{"max_sge", "ROCEMU_LIKE: line 1: expected a value behind the name"},
	};
	struct like l;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(get(&l, rows[i].text), -EINVAL);
		assert_string_equal(err, rows[i].why);
	}
}
