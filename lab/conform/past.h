/* SPDX-License-Identifier: BSD-2-Clause */
/* Earlier runs, read from the files of --json: compared, and side by side. */
#ifndef CONFORM_PAST_H
#define CONFORM_PAST_H

#include "conform/conform.h"

enum { CONFORM_PAST_TRAITS = 16 };

/** What was measured under a name, as text. */
struct conform_past_trait {
	char name[48], value[80];
	bool time; /* in ns: not the same each time */
};

struct conform_past_case {
	char id[CONFORM_ID_LEN];
	enum conform_verdict verdict;
	char sentence[160], expected[160], came[160];
	struct conform_past_trait trait[CONFORM_PAST_TRAITS];
	unsigned traits;
};

struct conform_past {
	const char *path; /* borrowed */
	char name[64], target[64], version[32], started[32];
	struct conform_past_case *cases; /* owned */
	unsigned ncases;
};

/** @return NULL, or what is wrong (static), and its line in *line. p is to be freed in any case. */
const char *conform_past_parse(struct conform_past *p, const char *text, size_t len,
			       unsigned *line);
/** Of a file. @return false, after a message. */
bool conform_past_read(struct conform_past *p, const char *path, const char *self);
void conform_past_free(struct conform_past *p);
/** NULL: it has none. */
const struct conform_past_case *conform_past_find(const struct conform_past *p, const char *id);
/** The device's name, or else its address. */
const char *conform_past_name(const struct conform_past *p);

/** diff.c: what changed from a to b. @return how many cases got worse. */
unsigned conform_diff(FILE *f, const struct conform_past *a, const struct conform_past *b);

/** matrix.c: cases x devices, as text and as a page. */
void conform_matrix(FILE *f, const struct conform_past *p, unsigned n);
void conform_matrix_html(FILE *f, const struct conform_past *p, unsigned n);

/**
 * compare.c: the command on files: diff, or else the table of all, as a page at path html if that
 * is not NULL. @return its exit code: 0; 1: diff, and a case got worse; 2: after a message.
 */
int conform_compare(const char *self, char **paths, unsigned n, bool diff, const char *html);

#endif
