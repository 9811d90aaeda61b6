/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session as a lesson: its packets as steps (a message, an acknowledgement, a CM message), each
 * with a sentence; repetitions are folded into one step.
 */
#ifndef VERIFY_LESSON_H
#define VERIFY_LESSON_H

#include "session.h"
#include "wire/text.h"

enum { STEP_TEXT = 512 };

struct step {
	uint32_t first, last; /* places in the session's packets */
	uint32_t n;	      /* packets; of a repetition, all that it stands for */
	uint32_t repeats;     /* not 0: the last `period` steps, so many times more */
	uint32_t period;
	uint64_t bytes;
	uint32_t missing;
	uint8_t opcode, opcode_last;
	bool back, again, late;
	bool hides; /* of a frame that was cut, and may hold more packets */
};

struct lesson {
	const struct packet_log *log;
	const struct session *session;
	struct step *steps; /* owned */
	unsigned step_n;
	uint32_t *step_of; /* owned; of each packet of the session: its step, or LESSON_HIDDEN */
};

enum { LESSON_HIDDEN = UINT32_MAX };

/** @return false: no memory. Either way lesson_fini(). */
bool lesson_init(struct lesson *l, const struct packet_log *log, const struct session *s);
void lesson_fini(struct lesson *l);

/** The packet at a place in the session. */
static inline const struct logged *lesson_packet(const struct lesson *l, uint32_t at)
{
	return &l->log->at[l->log->order[l->session->first + at]];
}

/** What happens in a step: sentences. */
void lesson_text(const struct lesson *l, const struct step *s, struct text *t);
/** Who A and B are: "A is 10.77.0.2 QP 0x12, B is ...". */
void lesson_title(const struct session *s, struct text *t);

#endif
