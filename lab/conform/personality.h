/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Personalities, what devices do: texts (fault/like.h), those of the program in personality/. Of a
 * text, "name" and "status" are no traits; status is "measured", or "published": what others
 * measured, not carried out.
 */
#ifndef CONFORM_PERSONALITY_H
#define CONFORM_PERSONALITY_H

#include "fault/like.h"

enum { PERSONALITY_TRAITS = 64 };

struct personality {
	char name[LIKE_VALUE_LEN];
	bool published;
	struct like_trait trait[PERSONALITY_TRAITS];
	unsigned traits;
};

/** @return false, with a line in errbuf. */
bool personality_parse(struct personality *p, const char *text, char *errbuf, size_t errlen);
/** One of the program by its name, or else a file. @return false, with a line in errbuf. */
bool personality_read(struct personality *p, const char *name, char *errbuf, size_t errlen);
/** The program's, from 0 on. @return false: there are no more. */
bool personality_built_in(struct personality *p, unsigned number);

#endif
