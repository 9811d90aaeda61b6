/* SPDX-License-Identifier: BSD-2-Clause */
/* Personalities: any bytes are either lines of traits or refused with one line of text. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "fault/like.h"

static void check_trait(const struct like_trait *t)
{
	FUZZ_CHECK(*t->name && memchr(t->name, 0, sizeof(t->name)));
	FUZZ_CHECK(*t->value && memchr(t->value, 0, sizeof(t->value)));
	FUZZ_CHECK(memchr(t->source, 0, sizeof(t->source)) && !strchr(t->source, '\n'));
	FUZZ_CHECK(t->range.min <= t->range.max);
	FUZZ_CHECK(t->kind != LIKE_WORD || !t->range.max);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), err[160];
	struct like_reader r = {.at = text};
	struct like like = {0};
	struct like_trait t;
	int got;

	FUZZ_CHECK(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	while ((got = like_next(&r, &t, err, sizeof(err))) > 0) {
		check_trait(&t);
		*err = 0;
		if (like_take(&like, &t, err, sizeof(err)) < 0)
			FUZZ_CHECK(*err != 0);
	}
	FUZZ_CHECK(got == 0 ? !*r.at : !strncmp(err, "line ", 5) && !strchr(err, '\n'));
	FUZZ_CHECK(like.limits.max_sge <= ROCEMU_MAX_SGE &&
		   like.limits.max_qp_wr <= ROCEMU_MAX_WR &&
		   like.limits.max_inline_data <= ROCEMU_MAX_INLINE &&
		   like.limits.max_qp_rd_atom <= ROCEMU_MAX_RD_ATOMIC);
	free(text);
	return 0;
}
