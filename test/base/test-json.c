/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static char *written;
static size_t length;

static struct json open_json(void)
{
	struct json j = {.f = open_memstream(&written, &length)};

	assert_non_null(j.f);
	return j;
}

static void text_is(struct json *j, const char *text)
{
	assert_int_equal(fclose(j->f), 0);
	assert_string_equal(written, text);
	free(written);
}

static void string_is(const char *text, size_t len, const char *json)
{
	struct json j = open_json();

	json_string(j.f, text, len);
	text_is(&j, json);
}

TEST(json, members__separated_and_in_their_order)
{
	struct json j = open_json();

	json_open(&j, NULL, '{');
	json_u64(&j, "a", UINT64_MAX);
	json_i64(&j, "i", INT64_MIN);
	json_real(&j, "b", 0.5, 3);
	json_bool(&j, "c", true);
	json_bool(&j, "d", false);
	json_null(&j, "e");
	json_text(&j, "f", "x");
	json_text_n(&j, "g", "xyz", 2);
	json_close(&j, '}');
	text_is(&j, "{\"a\": 18446744073709551615, \"i\": -9223372036854775808, "
		    "\"b\": 0.500, \"c\": true, \"d\": false, \"e\": null, \"f\": \"x\", \"g\": "
		    "\"xy\"}");
}

TEST(json, empty_and_nested__no_separator_too_many)
{
	struct json j = open_json();

	json_open(&j, NULL, '[');
	json_open(&j, NULL, '[');
	json_close(&j, ']');
	json_open(&j, NULL, '{');
	json_open(&j, "a", '[');
	json_u64(&j, NULL, 1);
	json_u64(&j, NULL, 2);
	json_close(&j, ']');
	json_null(&j, "b");
	json_close(&j, '}');
	json_close(&j, ']');
	text_is(&j, "[[], {\"a\": [1, 2], \"b\": null}]");
}

TEST(json, lines__where_wanted)
{
	struct json j = open_json();

	json_open(&j, NULL, '[');
	for (unsigned i = 0; i < 3; i++) {
		json_line(&j);
		json_u64(&j, NULL, i);
	}
	json_close(&j, ']');
	text_is(&j, "[\n0,\n1,\n2]");
}

TEST(json, strings__escaped)
{
	string_is("a\"b\\c\n\t\x01\x7f</script>", 18,
		  "\"a\\\"b\\\\c\\u000a\\u0009\\u0001\\u007f\\u003c/script>\"");
	string_is("\xc2\x9bz\xc2\xa0", 5, "\"\\u009bz\xc2\xa0\""); /* CSI; a space */
	string_is("", 0, "\"\"");
	string_is("a\0b", 3, "\"a\\u0000b\"");
}

TEST(json, utf8__stays)
{
	static const char text[] = "\xc3\xa4 \xe2\x86\x92 \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf";
	char json[40];

	snprintf(json, sizeof(json), "\"%s\"", text);
	string_is(text, strlen(text), json);
}

TEST(json, no_utf8__replacement_character_for_each_byte)
{
	static const struct {
		const char *text, *json;
	} cases[] = {
		{"\x80", "\"\\ufffd\""},
		{"\xff", "\"\\ufffd\""},
		{"\xc0\xaf", "\"\\ufffd\\ufffd\""},			  /* longer than needed */
		{"\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\""},		  /* the same */
		{"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},		  /* a surrogate */
		{"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""}, /* above U+10FFFF */
		{"\xc3", "\"\\ufffd\""},				  /* the end is missing */
		{"\xc3"
		 "a",
		 "\"\\ufffda\""},
		{"\xe2\x86", "\"\\ufffd\\ufffd\""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		string_is(cases[i].text, strlen(cases[i].text), cases[i].json);
}
