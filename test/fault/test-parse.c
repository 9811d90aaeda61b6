/* SPDX-License-Identifier: BSD-2-Clause */
/* Words, values and positions of the faults' grammar. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "fault/parse.h"

/* All items of a text: "LINE:COLUMN[,]KEY[=VALUE]" for each word, items separated by "; ". */
static void describe(const char *text, char *out, size_t size)
{
	struct fault_reader r;
	struct fault_item item;
	struct fault_error e;
	size_t n = 0;

	out[0] = '\0';
	fault_reader_init(&r, text, NULL);
	for (int ret; (ret = fault_reader_next(&r, &item, &e)) != 0;) {
		if (ret < 0)
			fail_msg("\"%s\": %s", text, e.text);
		n += (size_t)snprintf(out + n, size - n, "%s", n ? "; " : "");
		for (unsigned i = 0; i < item.nwords; i++) {
			const struct fault_word *w = &item.word[i];

			n += (size_t)snprintf(out + n, size - n, "%s%u:%u%s%s%s%s", i ? " " : "",
					      item.line, w->column, w->comma ? "," : ":", w->key,
					      w->has_value ? "=" : "", w->value);
		}
	}
}

static void assert_items(const char *text, const char *expected)
{
	char out[1024];

	describe(text, out, sizeof(out));
	assert_string_equal(out, expected);
}

TEST(fault_reader, words_and_items__as_written)
{
	assert_items("", "");
	assert_items("loss=1%", "1:1:loss=1%");
	assert_items("loss=1%,delay=1us..2us,seed=7", "1:1:loss=1% 1:9,delay=1us..2us 1:24,seed=7");
	assert_items("drop opcode=RC_ACK nth=3 first",
		     "1:1:drop 1:6:opcode=RC_ACK 1:20:nth=3 1:26:first");
	assert_items("drop nth=1;dup\nloss=1%", "1:1:drop 1:6:nth=1; 1:12:dup; 2:1:loss=1%");
	assert_items("a=b=c", "1:1:a=b=c");
	assert_items("a= =b", "1:1:a= 1:4:=b");
}

TEST(fault_reader, blanks_comments_and_empty_items__passed_over)
{
	assert_items(" \t\r\n;; ;\n", "");
	assert_items("# all of it; even this\n\n  drop  # why\n;dup\r\n", "3:3:drop; 4:2:dup");
	assert_items("loss=1% , dup=2%", "1:1:loss=1% 1:11,dup=2%");
	assert_items("drop#x\n", "1:1:drop");
}

TEST(fault_reader, comma_with_nothing_behind__an_empty_word)
{
	assert_items(",", "1:1: 1:2,");
	assert_items("a=1,", "1:1:a=1 1:5,");
	assert_items("a=1,,b=2", "1:1:a=1 1:5, 1:6,b=2");
	assert_items("a=1,;b", "1:1:a=1 1:5,; 1:6:b");
}

TEST(fault_reader, item__its_own_text)
{
	struct fault_reader r;
	struct fault_item item;
	struct fault_error e;

	fault_reader_init(&r, "\n drop nth=3  # comment\n", NULL);
	assert_int_equal(fault_reader_next(&r, &item, &e), 1);
	assert_int_equal(item.length, strlen("drop nth=3"));
	assert_memory_equal(item.start, "drop nth=3", item.length);
	assert_string_equal(fault_item_find(&item, "nth")->value, "3");
	assert_null(fault_item_find(&item, "drop"));
	assert_null(fault_item_find(&item, "nt"));
	assert_int_equal(fault_reader_next(&r, &item, &e), 0);
	assert_int_equal(fault_reader_next(&r, &item, &e), 0);
}

TEST(fault_reader, word_too_long__refused_where_it_stands)
{
	char text[512] = "drop ";
	struct fault_reader r;
	struct fault_item item;
	struct fault_error e;

	memset(text + 5, 'x', FAULT_KEY_LEN);
	fault_reader_init(&r, text, NULL);
	assert_int_equal(fault_reader_next(&r, &item, &e), -EINVAL);
	assert_int_equal(e.column, 6);
	memset(text + 5, 0, sizeof(text) - 5);
	text[5] = 'a';
	text[6] = '=';
	memset(text + 7, 'x', FAULT_VALUE_LEN - 1);
	fault_reader_init(&r, text, NULL);
	assert_int_equal(fault_reader_next(&r, &item, &e), 1);
	assert_int_equal(strlen(item.word[1].value), FAULT_VALUE_LEN - 1);
	text[7 + FAULT_VALUE_LEN - 1] = 'x';
	fault_reader_init(&r, text, NULL);
	assert_int_equal(fault_reader_next(&r, &item, &e), -EINVAL);
	assert_non_null(strstr(e.text, "at most"));
}

TEST(fault_reader, as_many_words_as_there_may_be__one_more_is_refused)
{
	char text[2 * FAULT_WORDS + 4] = "";
	struct fault_reader r;
	struct fault_item item;
	struct fault_error e;

	for (unsigned i = 0; i < FAULT_WORDS; i++)
		strcat(text, "a ");
	fault_reader_init(&r, text, NULL);
	assert_int_equal(fault_reader_next(&r, &item, &e), 1);
	assert_int_equal(item.nwords, FAULT_WORDS);
	strcat(text, "a");
	fault_reader_init(&r, text, NULL);
	assert_int_equal(fault_reader_next(&r, &item, &e), -EINVAL);
	assert_int_equal(e.column, 2 * FAULT_WORDS - 1);
}

static struct fault_error refuse(const char *text, const char *source, unsigned word)
{
	struct fault_reader r;
	struct fault_item item;
	struct fault_error e;

	fault_reader_init(&r, text, source);
	while (fault_reader_next(&r, &item, &e) == 1 && item.nwords <= word)
		;
	assert_int_equal(fault_refuse(&r, &item, &item.word[word], &e, "%s %d", "number", 5),
			 -EINVAL);
	return e;
}

TEST(fault_refuse, a_word__position_text_and_caret)
{
	struct fault_error e = refuse("loss=1%\n  drop nht=3 x", NULL, 1);

	assert_int_equal(e.line, 2);
	assert_int_equal(e.column, 8);
	assert_string_equal(e.text, "impairment: line 2, column 8: \"nht=3\": expected number 5");
	assert_string_equal(e.excerpt, "    drop nht=3 x\n         ^~~~~\n");
	e = refuse("drop x", "/tmp/f", 0);
	assert_string_equal(e.text, "/tmp/f: line 1, column 1: \"drop\": expected number 5");
}

TEST(fault_refuse, bytes_that_are_no_text__replaced)
{
	struct fault_error e = refuse("drop\ta\x1b[31m\xc3\xa9 x", NULL, 1);

	assert_non_null(strstr(e.text, "\"a?[31m??\""));
	assert_string_equal(e.excerpt, "  drop a?[31m?? x\n       ^~~~~~~~\n");
}

TEST(fault_refuse, long_line__cut_around_the_caret)
{
	char text[600];
	struct fault_error e;

	memset(text, ' ', sizeof(text));
	memcpy(text, "drop", 4);
	memcpy(text + 300, "wrong=1", 7);
	memcpy(text + 590, "x", 2);
	e = refuse(text, NULL, 1);
	assert_int_equal(e.column, 301);
	assert_true(strlen(e.excerpt) < 220);
	assert_int_equal(strcspn(e.excerpt, "w"), strcspn(strchr(e.excerpt, '\n') + 1, "^"));
}

TEST(fault_refuse, something_missing__behind_the_last_word)
{
	struct fault_reader r;
	struct fault_item item;
	struct fault_error e;

	fault_reader_init(&r, "delay nth=3 ", NULL);
	assert_int_equal(fault_reader_next(&r, &item, &e), 1);
	assert_int_equal(fault_refuse_end(&r, &item, &e, "time=..."), -EINVAL);
	assert_int_equal(e.column, 12);
	assert_string_equal(e.excerpt, "  delay nth=3 \n             ^\n");
}

TEST(fault_value, number__decimal_or_hexadecimal_within_its_bounds)
{
	static const char *const bad[] = {"",
					  "-1",
					  "+1",
					  " 1",
					  "1 ",
					  "x",
					  "0x",
					  "1e3",
					  "18446744073709551616",
					  "0x10000000000000000",
					  "0xg",
					  "1.5"};
	uint64_t v = 9;

	assert_true(fault_value_number("0", 0, &v) && v == 0);
	assert_true(fault_value_number("18446744073709551615", UINT64_MAX, &v) && v == UINT64_MAX);
	assert_true(fault_value_number("0xfFfFfF", 0xffffff, &v) && v == 0xffffff);
	assert_false(fault_value_number("0x1000000", 0xffffff, &v));
	assert_false(fault_value_number("2", 1, &v));
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		if (fault_value_number(bad[i], UINT64_MAX, &v))
			fail_msg("\"%s\" taken", bad[i]);
}

static void assert_range(const char *s, uint64_t min, uint64_t max)
{
	struct fault_range r;

	if (!fault_value_range(s, 100, &r) || r.min != min || r.max != max)
		fail_msg("range \"%s\"", s);
}

TEST(fault_value, range__one_number_two_or_open)
{
	static const char *const bad[] = {"",	   "..",      "5..3", "101",  "1..101",
					  "1...3", "1..2..3", "1..x", "x..1", "1.5"};
	struct fault_range r;

	assert_range("7", 7, 7);
	assert_range("3..5", 3, 5);
	assert_range("3..", 3, 100);
	assert_range("..5", 0, 5);
	assert_range("0x10..0x20", 16, 32);
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		if (fault_value_range(bad[i], 100, &r))
			fail_msg("\"%s\" taken", bad[i]);
}

TEST(fault_value, sizes_and_rates__units)
{
	static const char *const bad_bytes[] = {"", "k", "1K", "1kB", "1.5.5", "-1", "65537k"};
	static const char *const bad_rate[] = {"",	  "1",	     "0Gbit", "1gbit",
					       "1Gbit/s", "101Gbit", "Gbit"};
	const uint64_t max = 100000000000u;
	uint64_t v;

	assert_true(fault_value_bytes("4096", 1 << 26, &v) && v == 4096);
	assert_true(fault_value_bytes("64k", 1 << 26, &v) && v == 65536);
	assert_true(fault_value_bytes("1.5M", 1 << 26, &v) && v == 3 << 19);
	for (unsigned i = 0; i < ARRAY_LEN(bad_bytes); i++)
		if (fault_value_bytes(bad_bytes[i], 1 << 26, &v))
			fail_msg("\"%s\" taken", bad_bytes[i]);
	assert_true(fault_value_rate("1Gbit", max, &v) && v == 1000000000);
	assert_true(fault_value_rate("2.5Gbit", max, &v) && v == 2500000000u);
	assert_true(fault_value_rate("100Mbit", max, &v) && v == 100000000);
	assert_true(fault_value_rate("64kbit", max, &v) && v == 64000);
	for (unsigned i = 0; i < ARRAY_LEN(bad_rate); i++)
		if (fault_value_rate(bad_rate[i], max, &v))
			fail_msg("\"%s\" taken", bad_rate[i]);
}

TEST(fault_value, chance_and_times__as_rates_have_them)
{
	struct fault_range r;
	double c;
	uint64_t t;

	assert_true(fault_value_chance("100%", &c) && c == 1);
	assert_true(fault_value_chance("0.25", &c) && c == 0.25);
	assert_false(fault_value_chance("101%", &c));
	assert_false(fault_value_chance("1%%", &c));
	assert_true(fault_value_time("1.5us", 10000, &t) && t == 1500);
	assert_false(fault_value_time("11us", 10000, &t));
	assert_false(fault_value_time("10", 10000, &t));
	assert_true(fault_value_span("1us..2us", 10000, &r) && r.min == 1000 && r.max == 2000);
	assert_false(fault_value_span("2us..1us", 10000, &r));
	assert_false(fault_value_span("1us..", 10000, &r));
}
