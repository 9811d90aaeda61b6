/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a run came to, kept for all outputs: report.c has the results, and each output is a file of
 * its own. Calls that write leave errors in the FILE (ferror()).
 */
#ifndef CONFORM_REPORT_H
#define CONFORM_REPORT_H

#include "conform/known.h"

struct conform_report {
	char target[64], from[64];	   /* addresses */
	const char *name;		   /* borrowed: of the device, as --name has it; or "" */
	const char *version;		   /* borrowed: of the tester */
	const char *words;		   /* borrowed: of the command line, " --from 10.0.0.1" */
	const struct conform_known *known; /* borrowed; or NULL */
	uint64_t started_ns;		   /* since 1970 */
	uint64_t ns;			   /* that it took until now */
	const char *stopped;		   /* static: why not all cases were carried out; or NULL */
	bool dead;			   /* because of the device */
	struct conform_noise noise;
	bool has_noise;
	unsigned chosen;	       /* cases to be carried out */
	struct conform_result *result; /* owned; in their order */
	unsigned results, room;
	unsigned count[CONFORM_VERDICT_COUNT];
};

/** The other members are set by the caller, before or behind this. */
void conform_report_begin(struct conform_report *p, const struct conform_options *o,
			  const struct rocemu_gid *from);
/** A case was carried out. r is taken. @return it, valid until the next; NULL: no memory. */
const struct conform_result *conform_report_add(struct conform_report *p,
						const struct conform_result *r);
void conform_report_free(struct conform_report *p);

/* ---- parts of a result ---- */

/** The verdict in tables: '.', 'F', ... */
char conform_letter(enum conform_verdict v);
/** "seq" of "seq/gap": its length. */
int conform_family_len(const char *id);
/** Is it of the family of the other one? */
bool conform_same_family(const struct conform_case *a, const struct conform_case *b);

/** A part of a text. */
struct conform_part {
	const char *at;
	int len;
};
/** What differs: what was expected and what came are empty where the text has another form. */
struct conform_difference {
	struct conform_part what, expected, came;
};
void conform_difference(const struct conform_result *r, struct conform_difference *d);
/** The text of a line of the case's file, without its indentation; "": there is none. */
const char *conform_line_text(const struct conform_case *c, unsigned number);

/** The measures of one name. */
struct conform_series {
	const char *name;
	enum scenario_measure_kind kind;
	unsigned n;
	uint64_t min, median, max;			      /* of numbers and times */
	const struct scenario_measure *of[SCENARIO_MEASURES]; /* in their order */
};
/** The next name, from *at = 0 on. @return false: there is none. */
bool conform_series_next(const struct conform_result *r, unsigned *at, struct conform_series *s);
/** Set min, median and max from n > 0 and of. */
void conform_series_median(struct conform_series *s);
/** "recovery keeps", "nak_latency 12.3 us (11.0 us to 14.1 us, 5 times)". */
void conform_series_text(const struct conform_series *s, char *to, size_t size);
/** "12.3 us" */
void conform_time_text(uint64_t ns, char *to, size_t size);

/** The command that carries this case out again, alone. */
void conform_again(FILE *f, const struct conform_report *p, const struct conform_case *c);

/** Text of several lines, each behind blanks. */
void conform_indented(FILE *f, const char *text, unsigned indent);
/** "recovery keeps": a line for each name. */
void conform_measures(FILE *f, const struct conform_result *r, unsigned indent);
/** The clause, what differs, the packets, the command: lines behind blanks. */
void conform_details(FILE *f, const struct conform_report *p, const struct conform_result *r,
		     unsigned indent, unsigned width);

/* ---- outputs ---- */

/** A case in a line: ID, level, clause, peer, sentence; with, all: its text. */
void conform_report_case(FILE *f, const struct conform_case *c, bool all);
/** json.c */
void conform_json(FILE *f, const struct conform_report *p);
/** junit.c */
void conform_junit(FILE *f, const struct conform_report *p);
/** page.c */
void conform_html(FILE *f, const struct conform_report *p);
/** tap.c */
void conform_tap(FILE *f, const struct conform_report *p);

#endif
