/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the language among themselves: a round of a case, its words and their values. */
#ifndef SCENARIO_INTERNAL_H
#define SCENARIO_INTERNAL_H

#include "scenario/scenario.h"

struct scenario_word {
	char text[SCENARIO_WORD_LEN]; /* with the values of the "with" lines in it */
	unsigned column;	      /* in the file, from 1 */
};

/** A name that stands for a word ("with"), or for a number ("for": text is empty). */
struct variable {
	char name[SCENARIO_WORD_LEN];
	char text[SCENARIO_WORD_LEN];
	uint64_t number;
};

enum { KEPT_LEN = SCENARIO_EFFECTS_MAX, ALTERNATIVES = 8 };

/** A round of a case, at one of its lines. */
struct round {
	const struct scenario *s;
	const struct scenario_backend *b;
	void *world; /* NULL: not begun */
	FILE *log;   /* or NULL */
	struct scenario_result *r;
	struct scenario_setup setup;
	const struct scenario_line *line;
	unsigned at, to;       /* of scenario::line: the next, and behind the case's last */
	unsigned end;	       /* that the line is about */
	unsigned next, nwords; /* of word: where reading is */
	struct scenario_word word[SCENARIO_WORDS];
	struct variable with[SCENARIO_VARIABLES], loop[SCENARIO_LOOPS];
	unsigned withs, loops;
	struct scenario_packet sent; /* the last packet of a line "<" */
	bool any_sent;
	unsigned steps;
	unsigned lets;		     /* of loop: names that "let" made */
	bool skip;		     /* the rest of the case */
	bool failed;		     /* a line before, and the round goes on */
	bool ignored[SCENARIO_ENDS]; /* what is left of it at the end */
	/* Completions that came while those of the other queue were waited for. */
	char kept[SCENARIO_ENDS][KEPT_LEN];
	char seen[KEPT_LEN];
};

/** A word that stands for a value. */
struct name {
	const char *text;
	unsigned value;
};

/** A field that is set by its name and a number. */
struct field {
	const char *name;
	size_t offset, size;
	uint64_t max;
};

/* Made from the lists of fields in scenario.h. */
#define FIELD(type, name, member, max)                                                        \
	{                                                                                     \
#name, offsetof(struct type, member), sizeof(((struct type *)0)->member), max \
	}

/** The texts of a list, a line of --words. */
#define PRINT(f, title, list, text)                          \
	do {                                                 \
		fprintf(f, "%s:", title);                    \
		for (size_t i = 0; i < ARRAY_LEN(list); i++) \
			fprintf(f, " %s", (list)[i].text);   \
		putc('\n', f);                               \
	} while (0)

/* ---- read.c ---- */

/**
 * Split text into words at blanks. @return how many, or 0 with *e filled but for its file: too
 * many words, or one that is too long.
 */
unsigned words_split(const struct scenario_line *line, struct scenario_word word[SCENARIO_WORDS],
		     struct scenario_error *e);
/** The variables of a round of a case. false: *e is filled. */
bool with_values(const struct scenario_case *c, unsigned round,
		 struct variable with[SCENARIO_VARIABLES], unsigned *n, struct scenario_error *e);

/* ---- words.c: each returns false with r->r filled, the word that is wrong being the last read */

/** The scenario is wrong at the word that was read last. @return false. */
bool refuse(struct round *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** The back end cannot do what the word that was read last asks for. @return false. */
bool cannot(struct round *r, const char *what);
/** Something else came than the scenario states. @return false. */
bool fail(struct round *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** A call of the back end returned got: is it what the line states? */
bool expect_result(struct round *r, int got, int want);

/** The next word, or NULL: there is none. */
const char *next_word(struct round *r);
/** The next word if it is this one. */
bool take_word(struct round *r, const char *text);
/** The next word, which must be there; what: what it is, for the error. */
const char *need_word(struct round *r, const char *what);
bool end_of_line(struct round *r);

/** Areas: those that are registered come first. */
extern const struct name area_names[SCENARIO_AREAS + 1];
bool need_area(struct round *r, enum scenario_area *area);
bool need_state(struct round *r, enum ibv_qp_state *state);
/** Its name, static. */
const char *state_text(enum ibv_qp_state state);

/** The words that lines have behind their commands, a list a line. */
void print_words(FILE *f);

struct scenario_setup setup_defaults(void);
/** @return false: no attribute has this name. */
bool setup_value(const struct scenario_setup *s, const char *name, uint64_t *value);
/** The value that a name has. @return false: there is no such name. */
bool find_name(const struct name *names, size_t n, const char *text, unsigned *value);
/** The next word is one of the names. */
#define NEED_NAME(r, names, what, value) need_name(r, names, ARRAY_LEN(names), what, value)
bool need_name(struct round *r, const struct name *names, size_t n, const char *what,
	       unsigned *value);
/** The word that was read last is a field: set it. @return its index, or -1: none, or refused. */
int read_field(struct round *r, const struct field *fields, size_t n, void *to);
uint64_t field_value(const struct field *field, const void *of);
void store_field(const struct field *field, void *of, uint64_t v);
bool read_setup(struct round *r);
bool read_send(struct round *r, struct scenario_request *q, int *error);
bool read_recv(struct round *r, struct scenario_request *q, int *error);
/** A state, and attributes with their values: s is the setup with these, mask has their bits. */
bool read_modify(struct round *r, enum ibv_qp_state *to, struct scenario_setup *s, int *mask,
		 int *error);
/** access is negative if the line has none. */
bool read_reg(struct round *r, enum scenario_area *area, int *access, bool *other_pd, int *error);
/** The result that the line states: "errno ENOMEM" at its end; otherwise 0. */
bool read_errno(struct round *r, int *error);

/* ---- real-time.c ---- */

/**
 * Change a list of effects to what can be told of it in real time: without packets that were not
 * taken ("drop"), without an ACK in front of another one or a NAK, without "sol". Nothing left:
 * "nothing".
 * @return how many effects are left.
 */
unsigned in_real_time(char *list);

/* ---- packet.c ---- */

void print_packet_words(FILE *f);
bool read_packet(struct round *r, struct scenario_packet *p);
/** An opcode by its name or number, the next word. */
bool need_opcode(struct round *r, uint8_t *opcode);
/** The word that was read last is a field of a packet: read its value. */
bool read_packet_field(struct round *r, struct scenario_packet *p);
/** The rest of the line names fields of a packet that was sent: does it have their values? */
bool read_fields_of(struct round *r, const struct rocemu_packet *got);
/** "last.sport": the value of a field of it. @return false: there is no such field, or no packet.
 */
bool last_value(struct round *r, const char *name, uint64_t *out);

/* ---- value.c ---- */

/**
 * A number: "12", "0x1f", the name of a loop, an attribute of the QPs, a key ("mem.rkey",
 * "b:recv.lkey", "mw.rkey", "b:qpn"), and sums, differences, products and quotients of them.
 */
bool number_of(struct round *r, const char *text, uint64_t max, uint64_t *out);
bool need_number(struct round *r, const char *what, uint64_t max, uint64_t *out);
bool need_time(struct round *r, uint64_t *ns);
/** Up to SCENARIO_BYTES bytes as pairs of hexadecimal digits. */
bool need_hex(struct round *r, uint8_t to[SCENARIO_BYTES], unsigned *len);
/** A PSN, counted from the first of its direction: negative ones are before it. */
bool need_psn(struct round *r, uint32_t *psn);
/** "mem+8", "b:recv+0", or an address; "mem-1" is in front of mem. */
bool need_place(struct round *r, struct scenario_place *p);
/** Commands. */
bool run_let(struct round *r);
bool run_skip_if(struct round *r);

/* ---- expect.c ---- */

/** The line behind its first word, with values in place of names and {sums}. */
bool expected_text(struct round *r, char *to, size_t size);
/** Does what came match the line? */
bool compare(struct round *r, const char *want, const char *got);
/** Patterns with "or" between them. */
struct alternatives {
	unsigned n;
	char *text[ALTERNATIVES];	 /* borrowed from what they were split from */
	char came[SCENARIO_EFFECTS_MAX]; /* what was compared with them last */
};
/** Split the text at each " or ". */
bool split_alternatives(struct round *r, char *text, struct alternatives *a);
/** What came at this end, as soon as it is one of them. @return which, or -1: none of them. */
int await_one(struct round *r, struct alternatives *a);
/** None of them came. @return false. */
bool fail_alternatives(struct round *r, const struct alternatives *a);

/** Commands. */
bool run_expect(struct round *r);
bool run_completions(struct round *r);
bool run_ignore(struct round *r);
bool run_state(struct round *r);
bool run_last(struct round *r);
bool run_deadline(struct round *r);

/* ---- queues.c: commands ---- */

/** Add an effect, or a list of them, to a list. */
void list_append(char *to, size_t size, const char *text, size_t len);
/** How many effects a list that is not empty has. */
unsigned list_items(const char *list);
/** What came at this end, behind what was kept. */
const char *with_kept(struct round *r, const char *got);
bool run_send_cq(struct round *r);
bool run_recv_cq(struct round *r);
bool run_events(struct round *r);
bool run_cq_event(struct round *r);
bool run_destroy_qp(struct round *r);
bool run_kill(struct round *r);

/* ---- object.c: commands ---- */

bool run_dereg(struct round *r);
bool run_reg(struct round *r);
bool run_mw(struct round *r);
bool run_arm(struct round *r);
bool run_srq(struct round *r);

/* ---- look.c: commands ---- */

/** "FIRST..LAST" */
bool range_of(struct round *r, const char *text, uint64_t max, uint64_t *first, uint64_t *last);
bool run_counter(struct round *r);
bool run_report(struct round *r);
bool run_why(struct round *r);
bool run_vendor_err(struct round *r);

/* ---- measure.c ---- */

bool run_conform(struct round *r);
bool run_answer(struct round *r);
bool run_latency(struct round *r);
bool run_interval(struct round *r);
bool run_note(struct round *r);
bool run_trait(struct round *r);
void print_measure_words(FILE *f);

/* ---- memory.c: commands ---- */

bool run_set(struct round *r);
bool run_check(struct round *r);

#endif
