/* SPDX-License-Identifier: BSD-2-Clause */
/* What fuzz-conform starts from: results, with all that a result may have. */
#include "driver.h"

#include <string.h>

static void add(struct fuzz_corpus *c, const char *text)
{
	fuzz_corpus_add(c, text, strlen(text));
}

void fuzz_seed(struct fuzz_corpus *c)
{
	add(c,
	    "{\"tester\": \"rocemu conform\", \"format\": 1, \"name\": \"a \\u00e9\", \"cases\": "
	    "[\n"
	    "{\"id\": \"seq/gap\", \"verdict\": \"pass\", \"sentence\": \"a \\\"b\\\" \\u003c\", "
	    "\"measured\": {\"nak_ns\": [12000, 13000, 9], \"gap\": [\"keeps\", \"drops\", "
	    "\"keeps\"]}, "
	    "\"tries\": 1, \"ms\": 0.496},\n"
	    "{\"id\": \"seq/new\", \"verdict\": \"FAIL\", \"expected\": \"nak 60 0/0\", "
	    "\"came\": \"nothing\", \"measured\": {\"count\": [3]}}],\n"
	    "\"sums\": {\"pass\": 1, \"FAIL\": 1}, \"other\": [true, null, -1.5e3, {\"a\": "
	    "[]}]}\n");
	add(c, "{\"format\": 1, \"target\": \"10.0.0.7\", \"cases\": []}");
}
