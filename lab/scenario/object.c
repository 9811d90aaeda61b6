/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands that make and change regions, windows, CQs and SRQs. */
#include "scenario/internal.h"

bool run_dereg(struct round *r)
{
	enum scenario_area area;
	int want;

	return need_area(r, &area) && read_errno(r, &want) && end_of_line(r) &&
	       expect_result(r, r->b->dereg(r->world, r->end, area), want);
}

bool run_reg(struct round *r)
{
	enum scenario_area area;
	int access, want;
	bool other_pd;

	return read_reg(r, &area, &access, &other_pd, &want) &&
	       expect_result(r, r->b->reg(r->world, r->end, area, access, other_pd), want);
}

/** "1" or "2", the type, and "other_pd"; "free" */
bool run_mw(struct round *r)
{
	uint64_t type = 0;
	bool other_pd;
	int want;

	if (!take_word(r, "free") && !need_number(r, "a type, or 'free'", 3, &type))
		return false;
	other_pd = take_word(r, "other_pd");
	return read_errno(r, &want) && end_of_line(r) &&
	       expect_result(r, r->b->mw(r->world, r->end, (unsigned)type, other_pd), want);
}

/** "", "solicited" */
bool run_arm(struct round *r)
{
	const bool solicited = take_word(r, "solicited");

	return end_of_line(r) && expect_result(r, r->b->arm(r->world, r->end, solicited), 0);
}

/** "new [other_pd] [other_domain]", "destroy", "limit N", "size N" */
bool run_srq(struct round *r)
{
	struct scenario_srq c = {.what = SCENARIO_SRQ_NEW};
	uint64_t n = 0;
	int want;

	if (take_word(r, "new")) {
		c.other_pd = take_word(r, "other_pd");
		c.other_domain = take_word(r, "other_domain");
	} else if (take_word(r, "destroy")) {
		c.what = SCENARIO_SRQ_DESTROY;
	} else {
		c.what = take_word(r, "limit") ? SCENARIO_SRQ_LIMIT : SCENARIO_SRQ_SIZE;
		if (c.what == SCENARIO_SRQ_SIZE && !take_word(r, "size"))
			return refuse(r, "'new', 'destroy', 'limit N' or 'size N' is expected");
		if (!need_number(r, "a number", UINT32_MAX, &n))
			return false;
		c.n = (uint32_t)n;
	}
	return read_errno(r, &want) && end_of_line(r) &&
	       expect_result(r, r->b->srq(r->world, r->end, &c), want);
}
