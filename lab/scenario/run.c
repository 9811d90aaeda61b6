/* SPDX-License-Identifier: BSD-2-Clause */
/* Carries a round of a case out, line by line. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "scenario/mad.h"

#include "base/util.h"

/** A command, or what has to come: the word it begins with, and what does it. */
struct command {
	const char *word;
	bool (*run)(struct round *r);
	bool (*can)(const struct scenario_backend *b); /* NULL: each back end */
};

/* ---- what is done ---- */

/** A network that loses, doubles or delays packets, or receives that are not found on purpose. */
static bool is_bad(const struct scenario_setup *s)
{
	return s->loss || s->dup || s->reorder || s->rnr_chance;
}

/** What only an endpoint in memory can be made to do. */
static bool has_traits(const struct scenario_setup *s)
{
#define X(name, member, max, value) | s->member
	return (0 SCENARIO_TRAITS(X)) != 0;
#undef X
}

static bool begin(struct round *r, unsigned ends)
{
	int error = 0;

	r->setup.ends = ends;
	if (r->world)
		return refuse(r, "there are queue pairs already");
	if (!read_setup(r))
		return false;
	if (is_bad(&r->setup) && !r->b->lose)
		return cannot(r, "a bad link");
	if (has_traits(&r->setup) && !r->b->lose)
		return cannot(r, "traits of another device");
	r->world = r->b->start(&r->setup, &error);
	if (error == -EOPNOTSUPP)
		return cannot(r, "such a queue pair");
	return r->world || refuse(r, "the queue pairs cannot be made: %s", strerror(-error));
}

static bool run_qp(struct round *r)
{
	return begin(r, 1);
}

static bool run_pair(struct round *r)
{
	return begin(r, 2);
}

static bool run_post_send(struct round *r)
{
	struct scenario_request q;
	int want;

	return read_send(r, &q, &want) &&
	       expect_result(r, r->b->post_send(r->world, r->end, &q), want);
}

static bool run_post_recv(struct round *r)
{
	struct scenario_request q;
	int want;

	return read_recv(r, &q, &want) &&
	       expect_result(r, r->b->post_recv(r->world, r->end, &q), want);
}

static bool run_modify(struct round *r)
{
	struct scenario_setup s;
	enum ibv_qp_state to;
	int mask, want;

	return read_modify(r, &to, &s, &mask, &want) &&
	       expect_result(r, r->b->modify(r->world, r->end, to, &s, mask), want);
}

/** "again" */
static bool read_again(struct round *r)
{
	r->sent.again = true;
	return r->any_sent ? end_of_line(r) : refuse(r, "no packet came before");
}

static bool send_packet(struct round *r)
{
	const int error = r->b->input(r->world, &r->sent);
	const char *why = r->b->why_not ? r->b->why_not(r->world) : NULL;

	if (error != -EOPNOTSUPP || !why)
		return expect_result(r, error, 0);
	refuse(r, "%s", why);
	r->r->verdict = SCENARIO_CANNOT;
	return false;
}

static bool run_input(struct round *r)
{
	if (r->setup.ends != 1)
		return refuse(r, "a pair gets its packets from each other");
	if (take_word(r, "again") ? !read_again(r)
	    : take_word(r, "mad") ? !read_mad(r, &r->sent)
				  : !read_packet(r, &r->sent))
		return false;
	r->any_sent = true;
	return send_packet(r);
}

static bool run_output(struct round *r)
{
	uint64_t n;

	if (!need_number(r, "a number of packets", 128, &n) || !end_of_line(r))
		return false;
	r->b->output(r->world, (unsigned)n);
	return true;
}

static bool run_wait(struct round *r)
{
	uint64_t ns;

	if (take_word(r, "deadline")) {
		if (!r->b->deadline(r->world, &ns))
			return fail(r, "no timer runs");
	} else if (!need_time(r, &ns)) {
		return false;
	}
	if (!end_of_line(r))
		return false;
	r->b->wait(r->world, ns);
	return true;
}

static bool run_run(struct round *r)
{
	if (!end_of_line(r))
		return false;
	r->b->wait(r->world, UINT64_MAX);
	return true;
}

/** "PATTERN", "all PATTERN", "mask MASK", "none" */
static bool run_lose(struct round *r)
{
	char pattern[SCENARIO_LINE_MAX] = "*";
	struct scenario_loss l = {.pattern = pattern, .times = 1, .mask = UINT64_MAX};
	bool good;

	if (take_word(r, "none")) {
		l.times = 0;
		good = end_of_line(r);
	} else if (take_word(r, "mask")) {
		l.times = 64;
		good = need_number(r, "a mask", UINT64_MAX, &l.mask) && end_of_line(r);
	} else {
		if (take_word(r, "all"))
			l.times = UINT32_MAX;
		good = r->next < r->nwords ? expected_text(r, pattern, sizeof(pattern))
					   : refuse(r, "a packet is expected behind 'lose'");
	}
	if (good && !r->b->lose)
		return !l.times || !l.mask || cannot(r, "lose");
	return good && expect_result(r, r->b->lose(r->world, r->end, &l), 0);
}

static bool run_until(struct round *r)
{
	char pattern[2 * SCENARIO_LINE_MAX];

	return expected_text(r, pattern, sizeof(pattern)) &&
	       (r->b->until(r->world, r->end, pattern) || fail(r, "this never came: %s", pattern));
}

/** Packets come and nothing leaves until a line looks at it: not so in real time. */
static bool run_virtual_time(struct round *r)
{
	return end_of_line(r);
}

static bool can_virtual_time(const struct scenario_backend *b)
{
	return !b->settle;
}

/* ---- a line ---- */

#define CAN(call)                                                \
	static bool can_##call(const struct scenario_backend *b) \
	{                                                        \
		return b->call;                                  \
	}
CAN(post_send)
CAN(post_recv)
CAN(modify)
CAN(state)
CAN(input)
CAN(output)
CAN(wait)
CAN(deadline)
CAN(last)
CAN(completions)
CAN(until)
CAN(events)
CAN(counter)
CAN(report)
CAN(why)
CAN(dereg)
CAN(reg)
CAN(mw)
CAN(arm)
CAN(srq)
CAN(destroy_qp)
CAN(cq_event)
CAN(kill)
CAN(answer)
CAN(latency)
CAN(interval)

static const struct command commands[] = {
	{"qp", run_qp, NULL},
	{"pair", run_pair, NULL},
	{"post_send", run_post_send, can_post_send},
	{"post_recv", run_post_recv, can_post_recv},
	{"modify", run_modify, can_modify},
	{"<", run_input, can_input},
	{"output", run_output, can_output},
	{"wait", run_wait, can_wait},
	{"run", run_run, can_wait},
	{"until", run_until, can_until},
	{"lose", run_lose, NULL},
	{"dereg", run_dereg, can_dereg},
	{"reg", run_reg, can_reg},
	{"mw", run_mw, can_mw},
	{"arm", run_arm, can_arm},
	{"srq", run_srq, can_srq},
	{"destroy_qp", run_destroy_qp, can_destroy_qp},
	{"kill", run_kill, can_kill},
	{"let", run_let, NULL},
	{"skip_if", run_skip_if, NULL},
	{"set", run_set, NULL},
	{"check", run_check, NULL},
	{"expect", run_expect, NULL},
	{"completions", run_completions, can_completions},
	{"send_cq", run_send_cq, can_completions},
	{"recv_cq", run_recv_cq, can_completions},
	{"cq_event", run_cq_event, can_cq_event},
	{"events", run_events, can_events},
	{"ignore", run_ignore, NULL},
	{"state", run_state, can_state},
	{"counter", run_counter, can_counter},
	{"report", run_report, can_report},
	{"why", run_why, can_why},
	{"vendor_err", run_vendor_err, NULL},
	{"deadline", run_deadline, can_deadline},
	{"last", run_last, can_last},
	{"virtual_time", run_virtual_time, can_virtual_time},
	{"conform", run_conform, NULL},
	{"answer", run_answer, can_answer},
	{"trait", run_trait, NULL},
	{"latency", run_latency, can_latency},
	{"interval", run_interval, can_interval},
	{"note", run_note, NULL},
};

/** NULL: none. */
static const struct command *command_of(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].word, word) == 0)
			return &commands[i];
	return NULL;
}

/** It may stand in front of "qp". */
static bool is_first(const struct command *c)
{
	return c->run == run_qp || c->run == run_pair || c->run == run_virtual_time ||
	       c->run == run_conform;
}

static bool run_command(struct round *r)
{
	const char *w = need_word(r, "a command");
	const struct command *c = w ? command_of(w) : NULL;

	if (!c)
		return w && refuse(r, "'%s' is not a command", w);
	if (c->can && !c->can(r->b))
		return cannot(r, w);
	if (!r->world && !is_first(c))
		return refuse(r, "'qp' or 'pair' comes first");
	/* Packets come one right behind the other; all else is done when they have come. */
	if (r->world && r->b->settle && c->run != run_input) {
		int error = r->b->settle(r->world);

		if (error)
			return fail(r, "the device does not answer: %s", strerror(-error));
	}
	if (r->world && r->b->line)
		r->b->line(r->world, r->line);
	return c->run(r);
}

static bool run_words(struct round *r);
static bool run_lines(struct round *r, unsigned to);

static bool step(struct round *r)
{
	return ++r->steps <= r->s->steps_max || refuse(r, "more than %u steps", r->s->steps_max);
}

/** Read "NAME FIRST..LAST" behind "for". */
static bool read_for(struct round *r, struct variable *v, uint64_t *first, uint64_t *last)
{
	const char *name = need_word(r, "a name");
	const char *range = name ? need_word(r, "FIRST..LAST") : NULL;

	if (!range)
		return false;
	if (!islower((unsigned char)*name)) {
		r->next--;
		return refuse(r, "'%s' is not a name in small letters", name);
	}
	snprintf(v->name, sizeof(v->name), "%s", name);
	return range_of(r, range, UINT32_MAX, first, last);
}

/** Where the "end" of a block is whose first line is r->at. false: nowhere. */
static bool find_end(struct round *r, unsigned *end)
{
	struct scenario_word word[SCENARIO_WORDS];
	unsigned depth = 1;

	for (*end = r->at; *end < r->to; ++*end) {
		const unsigned n = words_split(&r->s->line[*end], word, &r->r->error);

		if (n == 3 && strcmp(word[0].text, "for") == 0)
			depth++;
		else if (n == 1 && strcmp(word[0].text, "end") == 0 && !--depth)
			return true;
	}
	return refuse(r, "'end' is missing");
}

/** "for NAME FIRST..LAST" with a command behind it, or in front of lines up to "end". */
static bool run_for(struct round *r)
{
	struct variable *v = &r->loop[r->loops];
	const unsigned at = r->at;
	uint64_t first, last;
	unsigned body, end = 0;
	bool block;

	if (r->loops == SCENARIO_LOOPS)
		return refuse(r, "more than %d 'for' within each other", SCENARIO_LOOPS);
	if (!read_for(r, v, &first, &last))
		return false;
	body = r->next;
	block = body == r->nwords;
	if (block && !find_end(r, &end))
		return false;
	r->loops++;
	for (v->number = first; v->number <= last; v->number++) {
		r->at = at;
		r->next = body;
		if (!step(r) || !(block ? run_lines(r, end) : run_words(r)))
			return false;
	}
	r->loops--;
	if (block)
		r->at = end + 1;
	return true;
}

static bool run_words(struct round *r)
{
	if (!step(r))
		return false;
	if (take_word(r, "b:"))
		r->end = 1;
	else if (take_word(r, "a:"))
		r->end = 0;
	if (r->end >= r->setup.ends && r->end)
		return refuse(r, "there is no end 'b': 'pair' makes two");
	return take_word(r, "for") ? run_for(r) : run_command(r);
}

/** Put the values of the "with" lines into a word. */
static bool substitute(struct round *r, struct scenario_word *w)
{
	char out[SCENARIO_WORD_LEN];
	size_t n = 0;

	for (const char *p = w->text; *p;) {
		const char *text = p;
		size_t len = 1, used = 1;

		if (*p == '$') {
			used += strspn(p + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
			text = NULL;
			for (unsigned i = 0; i < r->withs && !text; i++)
				if (strlen(r->with[i].name) == used - 1 &&
				    memcmp(r->with[i].name, p + 1, used - 1) == 0)
					text = r->with[i].text;
			if (!text)
				return refuse(r, "'%.*s' has no value", (int)used, p);
			len = strlen(text);
		}
		if (n + len >= sizeof(out))
			return refuse(r, "the word with its values has %d bytes or more",
				      SCENARIO_WORD_LEN);
		memcpy(out + n, text, len);
		n += len;
		p += used;
	}
	memcpy(w->text, out, n);
	w->text[n] = 0;
	return true;
}

/** "$NAME" that stands for "-" is no word. @return how many are left. */
static unsigned leave_out(struct round *r, unsigned n, const bool *gone)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++)
		if (!gone[i])
			r->word[left++] = r->word[i];
	return left;
}

static bool run_line(struct round *r)
{
	unsigned n = words_split(r->line, r->word, &r->r->error);
	bool gone[SCENARIO_WORDS] = {false};

	r->end = 0;
	r->next = 0;
	r->nwords = n;
	if (!n) {
		r->r->verdict = SCENARIO_ERROR;
		return false;
	}
	for (unsigned i = 0; i < n; i++) {
		r->next = i + 1;
		gone[i] = r->word[i].text[0] == '$';
		if (!substitute(r, &r->word[i]))
			return false;
		gone[i] &= strcmp(r->word[i].text, "-") == 0;
	}
	r->next = 0;
	r->nwords = leave_out(r, n, gone);
	if (r->log)
		fprintf(r->log, "%4u  %s\n", r->line->number,
			r->line->text + strspn(r->line->text, " \t"));
	return run_words(r);
}

/** The line did not pass. @return the round goes on all the same. */
static bool go_on(struct round *r, unsigned loops)
{
	if (!r->s->differs || r->r->verdict != SCENARIO_FAIL)
		return false;
	r->s->differs(r->r);
	r->failed = true;
	r->r->verdict = SCENARIO_PASS;
	r->loops = loops;
	return true;
}

/** The lines from r->at on. */
static bool run_lines(struct round *r, unsigned to)
{
	const unsigned loops = r->loops;

	while (r->at < to && !r->skip) {
		r->line = &r->s->line[r->at++];
		if (!run_line(r) && !go_on(r, MAX(loops, r->lets)))
			return false;
	}
	return true;
}

/** Can the back end do each command of the case? */
static bool can_all(struct round *r)
{
	for (unsigned i = r->at; i < r->to; i++) {
		struct scenario_word word[SCENARIO_WORDS];
		unsigned n = words_split(&r->s->line[i], word, &r->r->error), at = 0;
		const struct command *c;

		while (at < n &&
		       (strcmp(word[at].text, "a:") == 0 || strcmp(word[at].text, "b:") == 0 ||
			strcmp(word[at].text, "for") == 0))
			at += strcmp(word[at].text, "for") == 0 ? 3 : 1;
		c = at < n ? command_of(word[at].text) : NULL;
		if (!c || !c->can || c->can(r->b))
			continue;
		r->line = &r->s->line[i];
		return cannot(r, c->word);
	}
	return true;
}

/** All that came was expected. */
static bool run_rest(struct round *r)
{
	if (!r->world) {
		r->next = 0;
		return refuse(r, "the case has no 'qp' or 'pair'");
	}
	for (r->end = 0; r->end < r->setup.ends; r->end++) {
		const char *got = with_kept(r, r->b->effects(r->world, r->end, 0));

		if (!*got || r->ignored[r->end])
			continue;
		fail(r, "the case ends, and this was not expected: %.7000s", got);
		if (!go_on(r, r->loops))
			return false;
	}
	return true;
}

static void name_values(struct round *r)
{
	size_t n = 0, size = sizeof(r->r->values);

	for (unsigned i = 0; i < r->withs && n < size; i++)
		n += (size_t)snprintf(r->r->values + n, size - n, "%s%s=%s", i ? " " : "",
				      r->with[i].name, r->with[i].text);
}

void scenario_run(const struct scenario *s, unsigned number, unsigned round,
		  const struct scenario_backend *b, FILE *log, struct scenario_result *result)
{
	const struct scenario_case *c = &s->cases[number];
	struct round r = {.s = s,
			  .b = b,
			  .r = result,
			  .log = log,
			  .line = &c->head,
			  .at = c->first,
			  .to = c->first + c->lines};

	*result = (struct scenario_result){.error = {.file = s->file, .line = c->head.number}};
	if (!with_values(c, round, r.with, &r.withs, &result->error)) {
		result->verdict = SCENARIO_ERROR;
		return;
	}
	name_values(&r);
	if (can_all(&r) && run_lines(&r, r.to))
		run_rest(&r);
	if (result->verdict == SCENARIO_FAIL && s->differs)
		s->differs(result);
	if (result->verdict == SCENARIO_PASS && r.failed)
		result->verdict = SCENARIO_FAIL;
	if (r.world)
		b->end(r.world);
}

void scenario_print_words(FILE *f)
{
	fprintf(f, "commands: case with for end");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(f, " %s", commands[i].word);
	putc('\n', f);
	print_words(f);
	print_packet_words(f);
	print_measure_words(f);
	print_mad_words(f);
}
