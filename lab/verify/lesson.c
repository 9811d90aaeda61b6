/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets to steps: messages put together, repetitions found. */
#include "lesson.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PERIOD = 8, MIN_REPEATS = 3, MIN_HIDDEN = 4 };

enum { CLASS_REQUEST, CLASS_AGAIN, CLASS_RESPONSE, CLASSES };

struct builder {
	struct lesson *l;
	uint32_t open[2][CLASSES]; /* step + 1 of an unfinished message, by sender */
};

/* What must be alike in packets of one message. */
static uint32_t message_kind(uint8_t opcode)
{
	return rocemu_opcode_ops(opcode) &
	       (ROCEMU_OP_SEND | ROCEMU_OP_WRITE | ROCEMU_OP_READ_RESP | ROCEMU_OP_REQUEST);
}

static bool continues(const struct step *s, const struct logged *e)
{
	return e->decoded && (rocemu_opcode_ops(e->h.opcode) & ROCEMU_OP_FIRST) == 0 &&
	       message_kind(s->opcode) == message_kind(e->h.opcode);
}

/* Of the messages under way from one side. One packet that closes a gap stands alone. */
static uint32_t *message_of(struct builder *b, const struct logged *e, uint32_t ops)
{
	unsigned class = ops & ROCEMU_OP_RESPONSE ? CLASS_RESPONSE
			 : e->again		  ? CLASS_AGAIN
						  : CLASS_REQUEST;

	return e->late ? NULL : &b->open[e->back][class];
}

static void take(struct builder *b, uint32_t at)
{
	struct lesson *l = b->l;
	const struct logged *e = lesson_packet(l, at);
	uint32_t ops = e->decoded ? rocemu_opcode_ops(e->h.opcode) : 0;
	uint32_t *open = message_of(b, e, ops), step;
	struct step *s;

	if (open != NULL && *open != 0 && continues(&l->steps[*open - 1], e)) {
		step = *open - 1;
	} else {
		step = l->step_n++;
		l->steps[step] = (struct step){
			.first = at,
			.opcode = e->h.opcode,
			.back = e->back,
			.again = e->again,
			.late = e->late,
		};
	}
	s = &l->steps[step];
	l->step_of[at] = step;
	s->last = at;
	s->n++;
	s->bytes += e->payload_len;
	s->hides = s->hides || e->hides;
	s->missing += e->missing;
	s->opcode_last = e->h.opcode;
	if (open != NULL)
		*open = (ops & (ROCEMU_OP_FIRST | ROCEMU_OP_MIDDLE)) == 0 ||
					(ops & ROCEMU_OP_LAST) != 0
				? 0
				: step + 1;
}

/* ---- repetitions ---- */

static unsigned syndrome_class(const struct logged *e)
{
	if (!logged_has(e, ROCEMU_HDR_AETH))
		return 0;
	return e->h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK ? e->h.aeth.syndrome : 0;
}

static bool alike(const struct lesson *l, const struct step *a, const struct step *b)
{
	const struct logged *p = lesson_packet(l, a->first), *q = lesson_packet(l, b->first);

	return a->opcode == b->opcode && a->opcode_last == b->opcode_last && a->back == b->back &&
	       p->hint == q->hint && a->again == b->again && a->late == b->late && a->n == b->n &&
	       a->bytes == b->bytes && a->missing == 0 && b->missing == 0 && p->hdrs == q->hdrs &&
	       a->hides == b->hides && p->mad_attr == q->mad_attr && p->decoded == q->decoded &&
	       syndrome_class(p) == syndrome_class(q);
}

/* @return how often the period steps from `at` on follow each other. */
static uint32_t runs(const struct lesson *l, uint32_t at, uint32_t period)
{
	uint32_t i = at + period;

	while (i < l->step_n && alike(l, &l->steps[i], &l->steps[i - period]))
		i++;
	return (i - at) / period;
}

static void repetition(const struct lesson *l, uint32_t from, uint32_t period, uint32_t times,
		       struct step *out)
{
	*out = (struct step){.first = UINT32_MAX, .repeats = times, .period = period};
	for (uint32_t i = from; i < from + period * times; i++) {
		const struct step *s = &l->steps[i];

		out->n += s->n;
		out->bytes += s->bytes;
		out->first = s->first < out->first ? s->first : out->first;
		out->last = s->last > out->last ? s->last : out->last;
	}
}

/* The list grows no longer by it: a repetition takes the place of several. */
static void fold(struct lesson *l, uint32_t *new_index)
{
	uint32_t out = 0, at = 0;

	while (at < l->step_n) {
		uint32_t period = 0, times = 0;

		for (uint32_t p = 1; p <= MAX_PERIOD; p++) {
			uint32_t r = runs(l, at, p);

			if (r >= MIN_REPEATS && (r - 1) * p >= MIN_HIDDEN &&
			    r * p > period * times) {
				period = p;
				times = r;
			}
		}
		for (uint32_t i = 0; i < (times != 0 ? period : 1); i++) {
			new_index[at] = out;
			l->steps[out++] = l->steps[at++];
		}
		if (times != 0) {
			struct step s;

			repetition(l, at, period, times - 1, &s);
			for (uint32_t i = 0; i < period * (times - 1); i++)
				new_index[at++] = LESSON_HIDDEN;
			l->steps[out++] = s;
		}
	}
	l->step_n = out;
}

bool lesson_init(struct lesson *l, const struct packet_log *log, const struct session *s)
{
	struct builder b = {.l = l};
	uint32_t *new_index;

	*l = (struct lesson){.log = log, .session = s};
	l->steps = calloc((size_t)s->n + 1, sizeof(*l->steps));
	l->step_of = calloc((size_t)s->n + 1, sizeof(*l->step_of));
	if (l->steps == NULL || l->step_of == NULL)
		return false;
	for (uint32_t at = 0; at < s->n; at++)
		take(&b, at);
	new_index = calloc((size_t)l->step_n + 1, sizeof(*new_index));
	if (new_index == NULL)
		return false;
	fold(l, new_index);
	for (uint32_t at = 0; at < s->n; at++)
		l->step_of[at] = new_index[l->step_of[at]];
	free(new_index);
	return true;
}

void lesson_fini(struct lesson *l)
{
	free(l->steps);
	free(l->step_of);
}
