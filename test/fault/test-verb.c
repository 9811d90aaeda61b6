/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules about what is not a packet: what is taken, what is refused and how, and when they hold. */
#include "test.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "fault/verb.h"

#define MS UINT64_C(1000000)

/* @return 0 or -EINVAL, with the message and the column. */
static int parse(const char *text, struct fault_verbs *v, struct fault_error *e)
{
	struct fault_reader r;
	struct fault_item item;
	int ret;

	memset(v, 0, sizeof(*v));
	memset(e, 0, sizeof(*e));
	fault_reader_init(&r, text, NULL);
	while ((ret = fault_reader_next(&r, &item, e)) == 1) {
		if (!fault_verb_is_rule(&item))
			continue;
		ret = fault_verb_parse(v, &r, &item, e);
		if (ret)
			return ret;
	}
	return ret;
}

static const struct fault_verb_rule *one(const char *text)
{
	static struct fault_verbs v;
	struct fault_error e;

	if (parse(text, &v, &e))
		fail_msg("%s", e.text);
	assert_int_equal(v.n, 1);
	return &v.rule[0];
}

TEST(fault_verb_is_rule, actions_of_packets_and_rates__not)
{
	struct fault_verbs v;
	struct fault_error e;

	assert_int_equal(parse("loss=1%,seed=7; drop nth=3\nfail verb=ibv_reg_mr; fail=1", &v, &e),
			 0);
	assert_int_equal(v.n, 1);
	assert_string_equal(v.rule[0].text, "fail verb=ibv_reg_mr");
	assert_int_equal(v.rule[0].number, 3);
}

TEST(fault_verb_parse, values__as_written)
{
	const struct fault_verb_rule *r;

	r = one("fail verb=ibv_reg_mr");
	assert_int_equal(r->action, FAULT_FAIL);
	assert_int_equal(r->verb, FAULT_VERB_REG_MR);
	assert_int_equal(r->error, ENOMEM);
	r = one("fail verb=ibv_post_send nth=3..5 errno=EIO per=qp chance=50%");
	assert_int_equal(r->error, EIO);
	assert_true(r->per_qp);
	assert_int_equal(r->when.nth.min, 3);
	assert_int_equal(r->when.nth.max, 5);
	assert_true(r->when.chance == 0.5);
	assert_int_equal(one("fail verb=ibv_alloc_pd errno=7")->error, 7);
	r = one("wc-error qp=first nth=5");
	assert_int_equal(r->action, FAULT_WC_ERROR);
	assert_true(r->first_object);
	assert_int_equal(r->status, IBV_WC_REM_ACCESS_ERR);
	r = one("wc-error qp=0x4003 status=RETRY_EXC_ERR first");
	assert_int_equal(r->status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(r->qp.min, 0x4003);
	assert_int_equal(r->qp.max, 0x4003);
	assert_true(r->per_qp);
	assert_int_equal(one("cq-overflow")->when.times, 1);
	assert_int_equal(one("cq-overflow every=7")->when.times, UINT64_MAX);
	r = one("port-down after=1s for=200ms every=2s");
	assert_int_equal(r->span.after_ns, 1000 * MS);
	assert_int_equal(r->span.length_ns, 200 * MS);
	assert_int_equal(r->span.period_ns, 2000 * MS);
	assert_int_equal(one("gid-remove index=3 after=0ms")->gid_index, 3);
	assert_int_equal(one("device-fatal after=100ms")->verb, FAULT_VERB_COUNT);
	assert_int_equal(one("device-fatal verb=ibv_post_send nth=9")->verb, FAULT_VERB_POST_SEND);
}

TEST(fault_verb_parse, wrong_words__refused_where_they_stand)
{
	static const struct {
		const char *text;
		unsigned column;
		const char *expected;
	} bad[] = {
		{"fail", 5, "verb="},
		{"fail nth=3", 11, "verb="},
		{"fail verb=ibv_frob", 6, "reg_mr"},
		{"fail verb=ibv_reg_mr nth=0", 22, "nth=N"},
		{"fail verb=ibv_reg_mr nth=5..3", 22, "nth=N"},
		{"fail verb=ibv_reg_mr,nth=3", 22, "blanks"},
		{"fail verb=ibv_reg_mr errno=ENONE", 22, "ENOMEM"},
		{"fail verb=ibv_reg_mr errno=0", 22, "1 to 133"},
		{"fail verb=ibv_reg_mr status=FATAL_ERR", 22, "verb=, errno="},
		{"fail verb=ibv_reg_mr nth=1 nth=2", 28, "once"},
		{"fail verb=ibv_reg_mr nth=1 first", 28, "either"},
		{"fail verb=ibv_reg_mr times=2 once", 30, "either"},
		{"fail verb=ibv_reg_mr once=2", 22, "once"},
		{"fail verb=ibv_reg_mr per=qp", 22, "ibv_post_send"},
		{"fail verb=ibv_post_send per=cq", 25, "per=qp"},
		{"fail verb=ibv_reg_mr every=0", 22, "every=N"},
		{"fail verb=ibv_reg_mr chance=101%", 22, "0% to 100%"},
		{"fail verb=ibv_reg_mr after=1s", 22, "one of"},
		{"wc-error status=SUCCESS", 10, "REM_ACCESS_ERR"},
		{"wc-error qp=last", 10, "qp=first"},
		{"wc-error qp=0x1000000", 10, "0xffffff"},
		{"cq-overflow cq=2", 13, "cq=first"},
		{"cq-overflow chance=1%", 13, "one of"},
		{"device-fatal", 13, "after= or verb="},
		{"device-fatal after=1s verb=ibv_post_send", 41, "after= or verb="},
		{"device-fatal after=1s nth=2", 28, "verb="},
		{"port-down", 10, "after="},
		{"port-down after=1", 11, "200ms"},
		{"port-down after=1s for=0s", 20, "200ms"},
		{"port-down after=1s every=1s", 20, "longer than for"},
		{"port-down after=1s for=2s every=1s", 27, "longer than for"},
		{"gid-remove after=1s", 20, "index="},
		{"gid-remove index=64 after=1s", 12, "0 to 63"},
	};

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		struct fault_verbs v;
		struct fault_error e;

		if (parse(bad[i].text, &v, &e) != -EINVAL)
			fail_msg("taken: %s", bad[i].text);
		if (e.column != bad[i].column || !strstr(e.text, bad[i].expected))
			fail_msg("%s: %s", bad[i].text, e.text);
	}
}

TEST(fault_verb_parse, too_many__refused)
{
	char text[(FAULT_VERB_RULES + 1) * 32] = "";
	struct fault_verbs v;
	struct fault_error e;

	for (unsigned i = 0; i < FAULT_VERB_RULES; i++)
		strcat(text, "fail verb=ibv_alloc_pd\n");
	assert_int_equal(parse(text, &v, &e), 0);
	strcat(text, "fail verb=ibv_alloc_pd\n");
	assert_int_equal(parse(text, &v, &e), -EINVAL);
	assert_int_equal(e.line, FAULT_VERB_RULES + 1);
}

/* The numbers of the matches, up to 12, that a rule is for. */
static const char *hits(const char *text)
{
	const struct fault_when when = one(text)->when;
	static char out[64];
	struct fault_counter count = {0};
	struct rng rng;
	size_t n = 0;

	rng_init(&rng, 5);
	out[0] = '\0';
	for (unsigned i = 1; i <= 12; i++)
		if (fault_when_hit(&when, &count, &rng))
			n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%u", n ? " " : "", i);
	return out;
}

TEST(fault_when_hit, conditions__all_hold)
{
	assert_string_equal(hits("fail verb=ibv_reg_mr"), "1 2 3 4 5 6 7 8 9 10 11 12");
	assert_string_equal(hits("fail verb=ibv_reg_mr nth=3"), "3");
	assert_string_equal(hits("fail verb=ibv_reg_mr first"), "1");
	assert_string_equal(hits("fail verb=ibv_reg_mr nth=3..5"), "3 4 5");
	assert_string_equal(hits("fail verb=ibv_reg_mr nth=11.."), "11 12");
	assert_string_equal(hits("fail verb=ibv_reg_mr every=5"), "5 10");
	assert_string_equal(hits("fail verb=ibv_reg_mr every=5 nth=6.."), "10");
	assert_string_equal(hits("fail verb=ibv_reg_mr every=2 times=2"), "2 4");
	assert_string_equal(hits("fail verb=ibv_reg_mr once"), "1");
	assert_string_equal(hits("fail verb=ibv_reg_mr chance=0%"), "");
}

TEST(fault_when_hit, chance__same_sequence_for_the_same_seed_whatever_else_is_asked)
{
	char some[64];

	snprintf(some, sizeof(some), "%s", hits("fail verb=ibv_reg_mr chance=50%"));
	assert_string_not_equal(some, "");
	assert_string_not_equal(some, "1 2 3 4 5 6 7 8 9 10 11 12");
	assert_string_equal(hits("fail verb=ibv_reg_mr chance=50%"), some);
	/* Only later ones: those that the dice would have had anyway. */
	assert_non_null(strstr(some, hits("fail verb=ibv_reg_mr chance=50% nth=7..")));
}

static struct fault_now at(const char *text, uint64_t ms)
{
	struct fault_verbs v;
	struct fault_error e;

	assert_int_equal(parse(text, &v, &e), 0);
	return fault_now_at(&v, ms * MS);
}

TEST(fault_now_at, once__from_after_on_for_so_long)
{
	const char *text = "port-down after=100ms for=50ms";

	assert_false(at(text, 0).down);
	assert_int_equal(at(text, 0).next_ns, 100 * MS);
	assert_false(at(text, 99).down);
	assert_true(at(text, 100).down);
	assert_int_equal(at(text, 100).next_ns, 150 * MS);
	assert_true(at(text, 149).down);
	assert_false(at(text, 150).down);
	assert_int_equal(at(text, 150).next_ns, UINT64_MAX);
}

TEST(fault_now_at, every__again_and_again)
{
	const char *text = "gid-remove index=2 after=100ms for=50ms every=200ms";

	for (uint64_t round = 0; round < 5; round++) {
		const uint64_t on = 100 + round * 200;

		assert_int_equal(at(text, on - 1).gids, 0);
		assert_int_equal(at(text, on).gids, 1 << 2);
		assert_int_equal(at(text, on).next_ns, (on + 50) * MS);
		assert_int_equal(at(text, on + 50).gids, 0);
		assert_int_equal(at(text, on + 50).next_ns, (on + 200) * MS);
	}
}

TEST(fault_now_at, several__the_next_change_of_any)
{
	const char *text = "device-fatal after=300ms; gid-remove index=0 after=10ms\n"
			   "port-down after=200ms for=1s; fail verb=ibv_reg_mr; device-fatal "
			   "verb=ibv_post_send";
	struct fault_now now = at(text, 0);

	assert_int_equal(now.next_ns, 10 * MS);
	assert_false(now.fatal);
	now = at(text, 10);
	assert_int_equal(now.gids, 1);
	assert_int_equal(now.next_ns, 200 * MS);
	now = at(text, 300);
	assert_true(now.fatal && now.down);
	assert_int_equal(now.next_ns, 1200 * MS);
	assert_int_equal(at("fail verb=ibv_reg_mr", 5).next_ns, UINT64_MAX);
}
