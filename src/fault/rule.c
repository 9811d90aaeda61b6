/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules by packet, from words. */
#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "fault/fault.h"

static const char *const action_names[] = {
#define X(name, text) [FAULT_##name] = text,
	FAULT_ACTIONS(X)
#undef X
};

static int action_find(const char *word)
{
	for (int i = 0; i < FAULT_ACTION_COUNT; i++)
		if (!strcmp(word, action_names[i]))
			return i;
	return -1;
}

bool fault_rule_is_action(const char *word)
{
	return action_find(word) >= 0;
}

/* ---- one function for each kind of value; false: not such a value ---- */

/* Names of opcodes, separated by "|", optionally with "*". Each must match at least one. */
static bool parse_opcodes(const char *s, struct fault_rule *rule)
{
	uint64_t set[4] = {0};

	for (;;) {
		const size_t len = strcspn(s, "|");
		char name[FAULT_VALUE_LEN];
		bool any = false;

		memcpy(name, s, len);
		name[len] = '\0';
		for (unsigned op = 0; op < 256; op++) {
			if (!rocemu_opcode_hdr_len((uint8_t)op) ||
			    fnmatch(name, rocemu_opcode_name((uint8_t)op), FNM_NOESCAPE) != 0)
				continue;
			set[op / 64] |= UINT64_C(1) << op % 64;
			any = true;
		}
		if (!any)
			return false;
		if (!s[len])
			break;
		s += len + 1;
	}
	memcpy(rule->opcodes, set, sizeof(set));
	return true;
}

static bool parse_qp(const char *s, struct fault_rule *rule)
{
	return fault_value_range(s, ROCEMU_QPN_MASK, &rule->qp);
}

static bool parse_dqp(const char *s, struct fault_rule *rule)
{
	return fault_value_range(s, ROCEMU_QPN_MASK, &rule->dqp);
}

static bool parse_psn(const char *s, struct fault_rule *rule)
{
	return fault_value_range(s, ROCEMU_PSN_MASK, &rule->psn);
}

static bool parse_len(const char *s, struct fault_rule *rule)
{
	return fault_value_range(s, ROCEMU_MAX_MTU, &rule->payload);
}

static bool parse_peer(const char *s, struct fault_rule *rule)
{
	rule->by_peer = true;
	rule->peer = (struct rocemu_gid){.raw = {[10] = 0xff, [11] = 0xff}};
	return inet_pton(AF_INET, s, rule->peer.raw + 12) == 1 ||
	       inet_pton(AF_INET6, s, rule->peer.raw) == 1;
}

static bool parse_dir(const char *s, struct fault_rule *rule)
{
	rule->dir = strcmp(s, "rx") ? FAULT_TX : FAULT_RX;
	return rule->dir == FAULT_RX || !strcmp(s, "tx");
}

static bool parse_message(const char *s, struct fault_rule *rule)
{
	return fault_value_range(s, UINT32_MAX, &rule->message) && rule->message.min;
}

static bool parse_nth(const char *s, struct fault_rule *rule)
{
	return fault_value_range(s, UINT64_MAX, &rule->nth) && rule->nth.min;
}

static bool parse_every(const char *s, struct fault_rule *rule)
{
	return fault_value_number(s, UINT64_MAX, &rule->every) && rule->every;
}

static bool parse_times(const char *s, struct fault_rule *rule)
{
	return fault_value_number(s, UINT64_MAX, &rule->times) && rule->times;
}

static bool parse_chance(const char *s, struct fault_rule *rule)
{
	return fault_value_chance(s, &rule->chance);
}

static bool parse_first(const char *s, struct fault_rule *rule)
{
	(void)s;
	return rule->first = true;
}

static bool parse_once(const char *s, struct fault_rule *rule)
{
	(void)s;
	rule->times = 1;
	return true;
}

static bool parse_time(const char *s, struct fault_rule *rule)
{
	return fault_value_span(s, FAULT_MAX_DELAY_NS, &rule->time) && rule->time.max;
}

static bool parse_bit(const char *s, struct fault_rule *rule)
{
	uint64_t bit;

	if (!fault_value_number(s, ROCEMU_MAX_PACKET * 8 - 1, &bit))
		return false;
	rule->bit = (uint32_t)bit;
	rule->field = FAULT_FIELD_BIT;
	return true;
}

static bool parse_field(const char *s, struct fault_rule *rule)
{
	rule->field = fault_field_find(s);
	return rule->field >= 0;
}

static bool parse_icrc(const char *s, struct fault_rule *rule)
{
	rule->icrc_right = !strcmp(s, "right");
	return rule->icrc_right || !strcmp(s, "wrong");
}

/* ---- words ---- */

#define ANY	     ((1u << FAULT_ACTION_COUNT) - 1)
#define ONLY(action) (1u << FAULT_##action)

struct term {
	const char *key;
	unsigned actions; /* actions whose rules may have it */
	bool flag;	  /* has no value */
	bool (*parse)(const char *s, struct fault_rule *rule);
	const char *expected;
};

/* clang-format off */
static const struct term terms[] = {
	{"opcode",  ANY, false, parse_opcodes, "names of opcodes, separated by \"|\", such as RC_ACK, RC_SEND_* or *_READ_REQUEST"},
	{"qp",      ANY, false, parse_qp,      "the number of a QP on this side, or a range A..B, up to 0xffffff"},
	{"dqp",     ANY, false, parse_dqp,     "the number of the destination QP, or a range A..B, up to 0xffffff"},
	{"psn",     ANY, false, parse_psn,     "a PSN or a range A..B, up to 0xffffff"},
	{"len",     ANY, false, parse_len,     "bytes of payload, or a range A..B, up to 4096"},
	{"peer",    ANY, false, parse_peer,    "an IPv4 or IPv6 address"},
	{"dir",     ANY, false, parse_dir,     "tx (packets that are sent) or rx (packets that are received)"},
	{"message", ANY, false, parse_message, "a number from 1 on, or a range A..B"},
	{"nth",     ANY, false, parse_nth,     "a number from 1 on, or a range A..B"},
	{"every",   ANY, false, parse_every,   "a number from 1 on"},
	{"times",   ANY, false, parse_times,   "a number from 1 on"},
	{"chance",  ANY, false, parse_chance,  "a chance from 0% to 100%, such as 1.5% or 0.015"},
	{"first",   ANY, true,  parse_first,   "\"first\" without a value"},
	{"once",    ANY, true,  parse_once,    "\"once\" without a value"},
	{"time",    ONLY(DELAY),   false, parse_time,  "a time or a range up to 10s with ns, us, ms or s, such as 50us or 10us..2ms"},
	{"bit",     ONLY(CORRUPT), false, parse_bit,   "the number of a bit, 0 being the first one of the BTH"},
	{"field",   ONLY(CORRUPT), false, parse_field, "a field"},
	{"icrc",    ONLY(CORRUPT), false, parse_icrc,  "right or wrong"},
};
/* clang-format on */

/* "opcode, qp, ...": the words that a rule with this action may have. */
static const char *term_names(enum fault_action action, char *buf, size_t size)
{
	size_t n = 0;

	for (unsigned i = 0; i < ARRAY_LEN(terms); i++)
		if (terms[i].actions & 1u << action)
			n += (size_t)snprintf(buf + n, size - n, "%s%s%s", n ? ", " : "",
					      terms[i].key, terms[i].flag ? "" : "=");
	return buf;
}

static const struct term *term_find(enum fault_action action, const char *key)
{
	for (unsigned i = 0; i < ARRAY_LEN(terms); i++)
		if ((terms[i].actions & 1u << action) && !strcmp(key, terms[i].key))
			return &terms[i];
	return NULL;
}

static int parse_word(struct fault_rule *rule, const struct fault_reader *r,
		      const struct fault_item *item, const struct fault_word *w,
		      struct fault_error *e)
{
	const struct term *t = term_find(rule->action, w->key);
	char names[256];

	if (w->comma)
		return fault_refuse(r, item, w, e,
				    "blanks between the conditions of a rule, not commas");
	if (!t)
		return fault_refuse(r, item, w, e, "for \"%s\" one of %s",
				    action_names[rule->action],
				    term_names(rule->action, names, sizeof(names)));
	if (fault_item_find(item, w->key) != w)
		return fault_refuse(r, item, w, e, "\"%s\" once in a rule", w->key);
	if (w->has_value != !t->flag || !t->parse(w->value, rule))
		return fault_refuse(r, item, w, e, "%s%s%s", t->flag ? "" : w->key,
				    t->flag ? "" : "=",
				    t->parse == parse_field ? fault_field_names() : t->expected);
	return 0;
}

/* Check the combination of words. */
static int check_whole(const struct fault_rule *rule, const struct fault_reader *r,
		       const struct fault_item *item, struct fault_error *e)
{
	const struct fault_word *bit = fault_item_find(item, "bit");

	if (rule->action == FAULT_DELAY && !rule->time.max)
		return fault_refuse_end(r, item, e, "time=, such as time=100us");
	if (bit && fault_item_find(item, "field"))
		return fault_refuse(r, item, bit, e, "either bit= or field=");
	if (fault_item_find(item, "once") && fault_item_find(item, "times"))
		return fault_refuse(r, item, fault_item_find(item, "once"), e,
				    "either once or times=");
	if (rule->icrc_right && rule->field == fault_field_find("icrc"))
		return fault_refuse(r, item, fault_item_find(item, "icrc"), e,
				    "icrc=wrong where the ICRC is what is corrupted");
	return 0;
}

int fault_rule_parse(struct fault_rule *rule, const struct fault_reader *r,
		     const struct fault_item *item, struct fault_error *e)
{
	int err;

	*rule = (struct fault_rule){
		.action = (enum fault_action)action_find(item->word[0].key),
		.field = FAULT_FIELD_ANY,
		.opcodes = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
		.qp = {0, ROCEMU_QPN_MASK},
		.dqp = {0, ROCEMU_QPN_MASK},
		.psn = {0, ROCEMU_PSN_MASK},
		.payload = {0, UINT64_MAX},
		.message = {0, UINT64_MAX},
		.nth = {1, UINT64_MAX},
		.every = 1,
		.times = UINT64_MAX,
		.chance = 1,
	};
	snprintf(rule->text, sizeof(rule->text), "%.*s", (int)MIN(item->length, sizeof(rule->text)),
		 item->start);
	for (unsigned i = 1; i < item->nwords; i++) {
		err = parse_word(rule, r, item, &item->word[i], e);
		if (err)
			return err;
	}
	return check_whole(rule, r, item, e);
}
