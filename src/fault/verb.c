/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/verb.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rocemu/endpoint.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

#define TIME_MAX_NS 86400000000000u /* a day */
#define ONCE	    1u
#define FOR_GOOD    UINT64_MAX

/* What a rule may have: bits. */
enum key {
	KEY_VERB = 1 << 0,
	KEY_ERRNO = 1 << 1,
	KEY_STATUS = 1 << 2,
	KEY_QP = 1 << 3,
	KEY_CQ = 1 << 4,
	KEY_INDEX = 1 << 5,
	KEY_NTH = 1 << 6,
	KEY_FIRST = 1 << 7,
	KEY_EVERY = 1 << 8,
	KEY_TIMES = 1 << 9,
	KEY_CHANCE = 1 << 10,
	KEY_PER = 1 << 11,
	KEY_AFTER = 1 << 12,
	KEY_FOR = 1 << 13,
	KEY_PERIOD = 1 << 14, /* "every" as a time */
	KEY_ONCE = 1 << 15,
	WHEN = KEY_NTH | KEY_FIRST | KEY_EVERY | KEY_TIMES | KEY_ONCE | KEY_CHANCE | KEY_PER,
	FLAGS = KEY_FIRST | KEY_ONCE,
	SPAN = KEY_AFTER | KEY_FOR | KEY_PERIOD,
};

static const struct {
	const char *name;
	unsigned may, must;
} actions[] = {
	[FAULT_FAIL] = {"fail", KEY_VERB | KEY_ERRNO | WHEN, KEY_VERB},
	[FAULT_WC_ERROR] = {"wc-error", KEY_STATUS | KEY_QP | WHEN, 0},
	[FAULT_CQ_OVERFLOW] = {"cq-overflow", KEY_CQ | KEY_NTH | KEY_EVERY | KEY_TIMES | KEY_ONCE,
			       0},
	[FAULT_DEVICE_FATAL] = {"device-fatal", KEY_VERB | WHEN | KEY_AFTER, 0},
	[FAULT_PORT_DOWN] = {"port-down", SPAN, KEY_AFTER},
	[FAULT_GID_REMOVE] = {"gid-remove", KEY_INDEX | SPAN, KEY_INDEX | KEY_AFTER},
};

static const struct {
	const char *name;
	unsigned key;
} keys[] = {
	{"verb", KEY_VERB},   {"errno", KEY_ERRNO},   {"status", KEY_STATUS},
	{"qp", KEY_QP},	      {"cq", KEY_CQ},	      {"index", KEY_INDEX},
	{"nth", KEY_NTH},     {"first", KEY_FIRST},   {"every", KEY_EVERY | KEY_PERIOD},
	{"times", KEY_TIMES}, {"chance", KEY_CHANCE}, {"per", KEY_PER},
	{"after", KEY_AFTER}, {"for", KEY_FOR},	      {"once", KEY_ONCE},
};

static const char *const verb_names[] = {
#define X(name, text) [FAULT_VERB_##name] = text,
	FAULT_VERBS(X)
#undef X
};

const char *fault_verb_name(enum fault_verb verb)
{
	return verb_names[verb];
}

/* ---- names ---- */

struct named {
	const char *name;
	int value;
};

/* clang-format off */
#define E(name) {#name, name}
/* clang-format on */
static const struct named errnos[] = {
	E(EPERM),	 E(ENOENT),	E(EINTR),	  E(EIO),	  E(ENXIO),
	E(EBADF),	 E(EAGAIN),	E(ENOMEM),	  E(EACCES),	  E(EFAULT),
	E(EBUSY),	 E(ENODEV),	E(EINVAL),	  E(EMFILE),	  E(ENOSPC),
	E(EOPNOTSUPP),	 E(ENOSYS),	E(EPROTO),	  E(ETIMEDOUT),	  E(ENOBUFS),
	E(ECONNREFUSED), E(EADDRINUSE), E(EADDRNOTAVAIL), E(ENETUNREACH), E(EHOSTUNREACH),
};
#undef E

/* clang-format off */
#define S(name) {#name, IBV_WC_##name}
/* clang-format on */
static const struct named statuses[] = {
	S(LOC_LEN_ERR),	   S(LOC_QP_OP_ERR), S(LOC_PROT_ERR),	S(WR_FLUSH_ERR),
	S(MW_BIND_ERR),	   S(BAD_RESP_ERR),  S(LOC_ACCESS_ERR), S(REM_INV_REQ_ERR),
	S(REM_ACCESS_ERR), S(REM_OP_ERR),    S(RETRY_EXC_ERR),	S(RNR_RETRY_EXC_ERR),
	S(REM_ABORT_ERR),  S(FATAL_ERR),     S(GENERAL_ERR),	S(RESP_TIMEOUT_ERR),
};
#undef S

static bool find_name(const struct named *table, unsigned n, const char *name, int *out)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(table[i].name, name)) {
			*out = table[i].value;
			return true;
		}
	return false;
}

static bool find_verb(const char *name, enum fault_verb *out)
{
	for (unsigned i = 0; i < FAULT_VERB_COUNT; i++)
		if (!strcmp(verb_names[i], name)) {
			*out = (enum fault_verb)i;
			return true;
		}
	return false;
}

/* The names of what an action may have, for a message. */
static const char *list_keys(unsigned may, char *text, size_t len)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < ARRAY_LEN(keys) && used < len; i++)
		if (keys[i].key & may)
			used += (size_t)snprintf(text + used, len - used, "%s%s%s",
						 used ? ", " : "", keys[i].name,
						 keys[i].key & FLAGS ? "" : "=");
	return text;
}

/* ---- parsing ---- */

/* @return NULL, or what was expected. */
static const char *parse_count(const struct fault_word *w, unsigned key, struct fault_when *when)
{
	switch (key) {
	case KEY_NTH:
		return fault_value_range(w->value, UINT64_MAX, &when->nth) && when->nth.min
			       ? NULL
			       : "nth=N or nth=A..B, counted from 1";
	case KEY_FIRST:
		when->nth = (struct fault_range){.min = 1, .max = 1};
		return NULL;
	case KEY_ONCE:
		when->times = ONCE;
		return NULL;
	case KEY_EVERY:
		return fault_value_number(w->value, UINT64_MAX, &when->every) && when->every
			       ? NULL
			       : "every=N, N from 1";
	case KEY_TIMES:
		return fault_value_number(w->value, UINT64_MAX, &when->times) && when->times
			       ? NULL
			       : "times=N, N from 1";
	default:
		return fault_value_chance(w->value, &when->chance)
			       ? NULL
			       : "a chance from 0% to 100%, such as chance=1.5%";
	}
}

static const char *parse_time(const struct fault_word *w, unsigned key, struct fault_span *span)
{
	uint64_t *out = key == KEY_AFTER ? &span->after_ns
			: key == KEY_FOR ? &span->length_ns
					 : &span->period_ns;

	return fault_value_time(w->value, TIME_MAX_NS, out) && (*out || key == KEY_AFTER)
		       ? NULL
		       : "a time with ns, us, ms or s, such as 200ms";
}

static const char *parse_object(const struct fault_word *w, unsigned key,
				struct fault_verb_rule *rule)
{
	uint64_t n;

	if (key == KEY_INDEX) {
		if (!fault_value_number(w->value, ROCEMU_MAX_GID - 1, &n))
			return "index=N, an index of the GID table from 0 to 63";
		rule->gid_index = (unsigned)n;
		return NULL;
	}
	rule->first_object = !strcmp(w->value, "first");
	if (rule->first_object)
		return NULL;
	if (key == KEY_CQ)
		return "cq=first";
	return fault_value_range(w->value, ROCEMU_QPN_MASK, &rule->qp)
		       ? NULL
		       : "qp=first, or the number of a QP or a range A..B, up to 0xffffff";
}

/* A condition whose key the action may have. */
static const char *parse_value(const struct fault_word *w, unsigned key,
			       struct fault_verb_rule *rule)
{
	uint64_t n;

	if (key == KEY_PER) {
		rule->per_qp = true;
		return strcmp(w->value, "qp") ? "per=qp" : NULL;
	}
	if (key & WHEN)
		return parse_count(w, key, &rule->when);
	if (key & SPAN)
		return parse_time(w, key, &rule->span);
	switch (key) {
	case KEY_VERB:
		return find_verb(w->value, &rule->verb)
			       ? NULL
			       : "the name of a call that can fail on purpose, such as ibv_reg_mr, "
				 "ibv_create_qp or "
				 "ibv_post_send";
	case KEY_ERRNO:
		if (find_name(errnos, ARRAY_LEN(errnos), w->value, &rule->error))
			return NULL;
		if (!fault_value_number(w->value, 133, &n) || !n)
			return "a name such as ENOMEM, EAGAIN or EIO, or a number from 1 to 133";
		rule->error = (int)n;
		return NULL;
	case KEY_STATUS:
		return find_name(statuses, ARRAY_LEN(statuses), w->value, &rule->status)
			       ? NULL
			       : "a status of a completion without IBV_WC_, such as "
				 "REM_ACCESS_ERR, "
				 "RETRY_EXC_ERR or LOC_PROT_ERR";
	default:
		return parse_object(w, key, rule);
	}
}

static int parse_word(const struct fault_reader *r, const struct fault_item *item,
		      const struct fault_word *w, struct fault_verb_rule *rule, unsigned *seen,
		      struct fault_error *e)
{
	const unsigned may = actions[rule->action].may;
	char text[512];
	const char *expected;
	unsigned key = 0;

	for (unsigned i = 0; i < ARRAY_LEN(keys); i++)
		if (!strcmp(keys[i].name, w->key))
			key = keys[i].key & may;
	if (w->comma)
		return fault_refuse(r, item, w, e,
				    "blanks between the conditions of a rule, not commas");
	if (!key || w->has_value == !!(key & FLAGS))
		return fault_refuse(r, item, w, e, "for \"%s\" one of %s",
				    actions[rule->action].name, list_keys(may, text, sizeof(text)));
	if (*seen & key)
		return fault_refuse(r, item, w, e, "\"%s\" once in a rule", w->key);
	*seen |= key;
	expected = parse_value(w, key, rule);
	return expected ? fault_refuse(r, item, w, e, "%s", expected) : 0;
}

/* Does the rule count calls on one QP? */
static bool has_qp(const struct fault_verb_rule *rule)
{
	return rule->action == FAULT_WC_ERROR || rule->verb == FAULT_VERB_MODIFY_QP ||
	       rule->verb == FAULT_VERB_QUERY_QP || rule->verb == FAULT_VERB_POST_SEND ||
	       rule->verb == FAULT_VERB_POST_RECV;
}

/* Check the combination of words. */
static int check_whole(const struct fault_reader *r, const struct fault_item *item,
		       struct fault_verb_rule *rule, unsigned seen, struct fault_error *e)
{
	const unsigned missing = actions[rule->action].must & ~seen;
	char text[512];

	if (missing)
		return fault_refuse_end(r, item, e, "%s", list_keys(missing, text, sizeof(text)));
	if (seen & KEY_NTH && seen & KEY_FIRST)
		return fault_refuse(r, item, fault_item_find(item, "first"), e,
				    "either nth= or first");
	if (seen & KEY_ONCE && seen & KEY_TIMES)
		return fault_refuse(r, item, fault_item_find(item, "once"), e,
				    "either once or times=");
	if (rule->action == FAULT_DEVICE_FATAL && !(seen & KEY_AFTER) == !(seen & KEY_VERB))
		return fault_refuse_end(r, item, e, "either after= or verb=");
	if (rule->action == FAULT_DEVICE_FATAL && seen & KEY_AFTER && seen & WHEN)
		return fault_refuse_end(r, item, e, "verb= where calls are counted");
	if (rule->per_qp && !has_qp(rule))
		return fault_refuse(
			r, item, fault_item_find(item, "per"), e,
			"per=qp only with ibv_modify_qp, ibv_query_qp, ibv_post_send or "
			"ibv_post_recv");
	if (seen & KEY_PERIOD &&
	    (!(seen & KEY_FOR) || rule->span.period_ns <= rule->span.length_ns))
		return fault_refuse(r, item, fault_item_find(item, "every"), e,
				    "every longer than for, which has to be given");
	return 0;
}

/* "first" counts per QP; overflow and device-fatal rules act once by default. */
static void set_defaults(struct fault_verb_rule *rule, unsigned seen)
{
	if (seen & KEY_FIRST && has_qp(rule))
		rule->per_qp = true;
	if ((rule->action == FAULT_CQ_OVERFLOW || rule->action == FAULT_DEVICE_FATAL) &&
	    !(seen & (KEY_TIMES | KEY_EVERY | KEY_NTH)))
		rule->when.times = ONCE;
}

static int find_action(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(actions); i++)
		if (!strcmp(actions[i].name, name))
			return (int)i;
	return -1;
}

bool fault_verb_is_rule(const struct fault_item *item)
{
	return !item->word[0].has_value && find_action(item->word[0].key) >= 0;
}

int fault_verb_parse(struct fault_verbs *v, const struct fault_reader *r,
		     const struct fault_item *item, struct fault_error *e)
{
	struct fault_verb_rule rule = {
		.action = (enum fault_verb_action)find_action(item->word[0].key),
		.number = item->number,
		.verb = FAULT_VERB_COUNT,
		.error = ENOMEM,
		.status = IBV_WC_REM_ACCESS_ERR,
		.qp = {.min = 0, .max = ROCEMU_QPN_MASK},
		.when = {.nth = {.min = 1, .max = UINT64_MAX},
			 .every = 1,
			 .times = UINT64_MAX,
			 .chance = 1},
		.span = {.length_ns = FOR_GOOD},
	};
	unsigned seen = 0;
	int err = 0;

	if (v->n == FAULT_VERB_RULES)
		return fault_refuse(r, item, &item->word[0], e, "at most %d such rules",
				    FAULT_VERB_RULES);
	for (unsigned i = 1; i < item->nwords && !err; i++)
		err = parse_word(r, item, &item->word[i], &rule, &seen, e);
	if (!err)
		err = check_whole(r, item, &rule, seen, e);
	if (err)
		return err;
	set_defaults(&rule, seen);
	snprintf(rule.text, sizeof(rule.text), "%.*s", (int)MIN(item->length, sizeof(rule.text)),
		 item->start);
	v->rule[v->n++] = rule;
	return 0;
}

/* ---- deciding ---- */

bool fault_when_hit(const struct fault_when *w, struct fault_counter *count, struct rng *rng)
{
	const uint64_t number = ++count->seen;
	/* Drawn for each match, so that the other conditions do not shift the sequence. */
	const bool luck = w->chance >= 1 || rng_chance(rng, w->chance);

	if (number < w->nth.min || number > w->nth.max || number % w->every || !luck ||
	    count->hits >= w->times)
		return false;
	count->hits++;
	return true;
}

/* Is the span on, and when does that change? */
static bool span_at(const struct fault_span *s, uint64_t now, uint64_t *next)
{
	uint64_t into;

	*next = UINT64_MAX;
	if (now < s->after_ns) {
		*next = s->after_ns;
		return false;
	}
	into = now - s->after_ns;
	if (s->period_ns)
		into %= s->period_ns;
	if (into < s->length_ns) {
		if (s->length_ns != FOR_GOOD)
			*next = now + (s->length_ns - into);
		return true;
	}
	if (s->period_ns)
		*next = now + (s->period_ns - into);
	return false;
}

static bool is_timed(const struct fault_verb_rule *rule)
{
	return rule->action == FAULT_PORT_DOWN || rule->action == FAULT_GID_REMOVE ||
	       (rule->action == FAULT_DEVICE_FATAL && rule->verb == FAULT_VERB_COUNT);
}

bool fault_verb_has_timed(const struct fault_verbs *v)
{
	for (unsigned i = 0; i < v->n; i++)
		if (is_timed(&v->rule[i]))
			return true;
	return false;
}

struct fault_now fault_now_at(const struct fault_verbs *v, uint64_t elapsed_ns)
{
	struct fault_now state = {.next_ns = UINT64_MAX};

	for (unsigned i = 0; i < v->n; i++) {
		const struct fault_verb_rule *rule = &v->rule[i];
		uint64_t next;

		if (!is_timed(rule))
			continue;
		if (span_at(&rule->span, elapsed_ns, &next)) {
			state.rules |= UINT64_C(1) << i;
			state.down |= rule->action == FAULT_PORT_DOWN;
			state.fatal |= rule->action == FAULT_DEVICE_FATAL;
			if (rule->action == FAULT_GID_REMOVE)
				state.gids |= UINT64_C(1) << rule->gid_index;
		}
		state.next_ns = MIN(state.next_ns, next);
	}
	return state;
}
