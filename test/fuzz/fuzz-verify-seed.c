/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-verify starts from: the recorded captures, each a row of packets. */
#include "driver.h"

#include <string.h>

#include "../wire/golden.h"

enum { ROW = 8000, HEADER = 5 };

struct row {
	struct fuzz_corpus *corpus;
	const char *file; /* borrowed */
	struct rocemu_gid first;
	size_t len;
	uint8_t bytes[ROW];
};

static void finish(struct row *r)
{
	if (r->len != 0)
		fuzz_corpus_add(r->corpus, r->bytes, r->len);
	r->len = 0;
}

static void add(const char *file, const struct capture_rec *rec, void *user)
{
	struct row *r = user;
	uint8_t *p;

	if (rec->number == 1 || r->file == NULL) {
		finish(r);
		r->file = file;
		r->first = rec->ip.src;
	}
	if (r->len + HEADER + rec->len > ROW)
		return;
	p = r->bytes + r->len;
	p[0] = memcmp(&r->first, &rec->ip.src, sizeof(r->first)) != 0;
	p[1] = 1;
	p[2] = (uint8_t)(rec->len >> 8);
	p[3] = (uint8_t)rec->len;
	p[4] = 0;
	memcpy(p + HEADER, rec->data, rec->len);
	r->len += HEADER + rec->len;
}

void fuzz_seed(struct fuzz_corpus *c)
{
	static struct row r;

	r.corpus = c;
	golden_for_each(add, &r);
	finish(&r);
}
