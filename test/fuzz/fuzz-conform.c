/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that are given to `rocemu conform --diff` and `--matrix`. */
#include "driver.h"

#include <string.h>

#include "conform/past.h"

/* What is printed ends, and has no control characters. */
static void check_text(const char *text, size_t size)
{
	const char *end = memchr(text, 0, size);

	FUZZ_CHECK(end);
	for (; text < end; text++)
		FUZZ_CHECK((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check_case(const struct conform_past_case *c)
{
	check_text(c->id, sizeof(c->id));
	check_text(c->sentence, sizeof(c->sentence));
	check_text(c->expected, sizeof(c->expected));
	check_text(c->came, sizeof(c->came));
	FUZZ_CHECK(c->verdict < CONFORM_VERDICT_COUNT && c->traits <= CONFORM_PAST_TRAITS);
	for (unsigned i = 0; i < c->traits; i++) {
		check_text(c->trait[i].name, sizeof(c->trait[i].name));
		check_text(c->trait[i].value, sizeof(c->trait[i].value));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conform_past p = {.path = "file"};
	unsigned line;
	const char *wrong = conform_past_parse(&p, (const char *)data, size, &line);

	FUZZ_CHECK(line >= 1 && line <= size + 1);
	check_text(conform_past_name(&p), sizeof(p.name));
	for (unsigned i = 0; i < p.ncases; i++) {
		check_case(&p.cases[i]);
		FUZZ_CHECK(wrong || conform_past_find(&p, p.cases[i].id));
	}
	conform_past_free(&p);
	return 0;
}
