/* SPDX-License-Identifier: BSD-2-Clause */
/* Verdicts of a case that is carried out several times: the runs are given by the test. */
#include "conform/conform.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static const enum conform_verdict *verdicts;

void conform_run(struct conform_session *s, const struct conform_case *c, struct conform_result *r)
{
	const enum conform_verdict v = *verdicts++;

	(void)s;
	*r = (struct conform_result){.c = c, .verdict = v, .tries = 1, .ns = 10, .measures = 1};
	r->measure[0].number = (uint64_t)v;
	if (v != CONFORM_PASS)
		r->text = strdup(conform_verdict_text[v]);
}

void conform_result_free(struct conform_result *r)
{
	free(r->text);
}

static struct conform_result repeat(const enum conform_verdict *of, unsigned n)
{
	struct conform_result r;

	verdicts = of;
	conform_repeat(NULL, NULL, n, &r);
	assert_int_equal(r.tries, verdicts - of);
	return r;
}

TEST(conform_repeat, same_each_time__that_verdict)
{
	static const enum conform_verdict of[] = {CONFORM_FAIL, CONFORM_FAIL, CONFORM_FAIL};
	struct conform_result r = repeat(of, 3);

	assert_int_equal(r.verdict, CONFORM_FAIL);
	assert_string_equal(r.text, "FAIL");
	assert_int_equal(r.measures, 3);
	assert_int_equal(r.ns, 30);
	conform_result_free(&r);
}

TEST(conform_repeat, differs_once__inconclusive_with_counts)
{
	static const enum conform_verdict of[] = {CONFORM_PASS, CONFORM_FAIL, CONFORM_PASS,
						  CONFORM_PASS};
	struct conform_result r = repeat(of, 4);

	assert_int_equal(r.verdict, CONFORM_INCONCLUSIVE);
	assert_string_equal(r.text, "3 of 4 times pass, 1 of 4 times FAIL; FAIL");
	conform_result_free(&r);
}

TEST(conform_repeat, skipped__not_tried_again)
{
	static const enum conform_verdict of[] = {CONFORM_SKIP};
	struct conform_result r = repeat(of, 1);

	assert_int_equal(r.verdict, CONFORM_SKIP);
	conform_result_free(&r);
	r = repeat(of, 5);
	assert_int_equal(r.verdict, CONFORM_SKIP);
	conform_result_free(&r);
}
