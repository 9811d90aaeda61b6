/* SPDX-License-Identifier: BSD-2-Clause */
/* The files that the program has: made of cases/, known/ and personality/ by cases.py. */
#ifndef CONFORM_CASES_H
#define CONFORM_CASES_H

struct conform_file {
	const char *name;	   /* "seq.scenario" */
	const unsigned char *text; /* with a zero */
};

/** The last one has no name. */
extern const struct conform_file conform_files[], conform_known_files[],
	conform_personality_files[];

#endif
