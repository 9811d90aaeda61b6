/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of scenarios: any bytes are read and carried out, or refused with a place in the text. */
#include "driver.h"

#include <string.h>

#include "endpoint.h"

enum { CASES = 4, ROUNDS = 3, STEPS = 200 };

static void check_place(const struct scenario_error *e, unsigned lines, size_t size)
{
	FUZZ_CHECK(e->line >= 1 && e->line <= lines);
	FUZZ_CHECK(e->column <= size);
	FUZZ_CHECK(*e->text && strlen(e->text) < sizeof(e->text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct scenario_result r;
	struct scenario *s = scenario_read((const char *)data, size, "fuzz", &r.error);
	unsigned lines = 1;

	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	if (!s) {
		check_place(&r.error, lines, size);
		return 0;
	}
	s->steps_max = STEPS;
	for (unsigned c = 0; c < s->ncases && c < CASES; c++) {
		for (unsigned i = 0; i < s->cases[c].rounds && i < ROUNDS; i++) {
			scenario_run(s, c, i, &scenario_endpoint, NULL, &r);
			if (r.verdict != SCENARIO_PASS)
				check_place(&r.error, lines, size);
		}
	}
	scenario_free(s);
	return 0;
}
