/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Differences that are accepted, with a reason: lines "ID | reason", where ID is a case's or a
 * pattern of several, as of shells. "#" begins a comment.
 */
#ifndef CONFORM_KNOWN_H
#define CONFORM_KNOWN_H

#include "conform/conform.h"

struct conform_known_entry {
	char *id, *why;	    /* owned */
	bool met, differed; /* a case of it was carried out; and one of them differed */
};

struct conform_known {
	struct conform_known_entry *entry; /* owned */
	unsigned entries;
};

/** Add those of a list of the program, or of a file. @return false, after a message of self's. */
bool conform_known_read(struct conform_known *k, const char *name, const char *self);
/** Add the lines of text, which is changed. @return 0, or the number of the line that is wrong. */
unsigned conform_known_add(struct conform_known *k, char *text);
/** A case was carried out: what differs as an entry states is known. */
void conform_known_judge(struct conform_known *k, struct conform_result *r);
void conform_known_free(struct conform_known *k);

#endif
