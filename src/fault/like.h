/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Personalities: texts that state what a device does, a trait in each line. `rocemu conform
 * --identify` compares a device with them, and `rocemu run --like` makes the emulated device behave
 * so. docs/conform.md
 *
 *   LINE  := NAME VALUE [ "|" SOURCE ]     "#" begins a comment line
 *   VALUE := a word, a number (7, 0x88, 4..11) or a time (40us, 530ms..545ms)
 *
 * Any bytes are safe.
 */
#ifndef FAULT_LIKE_H
#define FAULT_LIKE_H

#include <rocemu/endpoint.h>

#include "fault/parse.h"

enum {
	LIKE_NAME_LEN = 32, /* with the NUL, as the others */
	LIKE_VALUE_LEN = 48,
	LIKE_SOURCE_LEN = 200,
	LIKE_TEXT_MAX = 16384,
};

enum like_kind { LIKE_WORD, LIKE_NUMBER, LIKE_TIME };

struct like_trait {
	char name[LIKE_NAME_LEN];
	char value[LIKE_VALUE_LEN]; /* as written */
	char source[LIKE_SOURCE_LEN];
	enum like_kind kind;
	struct fault_range range; /* of numbers, and of times in ns */
};

struct like_reader {
	const char *at; /* borrowed; where the next line begins */
	unsigned line;	/* that was read last, from 1 */
};

/** From at and line 0 on. @return 1, 0 (there is none any more), or -EINVAL with a line in errbuf.
 */
int like_next(struct like_reader *r, struct like_trait *t, char *errbuf, size_t errlen);
/** A value as a file has it. @return false: not one. */
bool like_value(struct like_trait *t, const char *text);

/** What ibv_query_device() and the creation of queue pairs state; 0: rocemu's. */
struct like_limits {
	uint32_t max_sge, max_inline_data, max_qp_wr, max_qp_rd_atom;
};

struct like {
	struct rocemu_traits traits;
	struct like_limits limits;
};

/**
 * Add a trait to what the emulated device does. Of a range it is the middle. @return 1; 0: it is
 * not emulated; -EINVAL with a line in errbuf: not a value of this trait.
 */
int like_take(struct like *l, const struct like_trait *t, char *errbuf, size_t errlen);

/** ROCEMU_LIKE, which has the lines themselves. @return 0, or -EINVAL with a line in errbuf. */
int like_get(struct like *l, char *errbuf, size_t errlen);

#endif
