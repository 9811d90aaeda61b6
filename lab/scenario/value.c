/* SPDX-License-Identifier: BSD-2-Clause */
/* Words that are numbers, times, PSNs, and places in memory. */
#include <ctype.h>
#include <string.h>

#include "scenario/internal.h"

#include "base/util.h"
#include "fault/parse.h"

/* ---- numbers ---- */

static bool loop_value(const struct round *r, const char *name, size_t len, uint64_t *out)
{
	for (unsigned i = 0; i < r->loops; i++) {
		if (strlen(r->loop[i].name) == len && memcmp(r->loop[i].name, name, len) == 0) {
			*out = r->loop[i].number;
			return true;
		}
	}
	return false;
}

static bool of_end(struct round *r, const char **w, uint8_t *end)
{
	*end = (uint8_t)r->end;
	if ((*w)[0] != 'a' && (*w)[0] != 'b')
		return true;
	if ((*w)[1] != ':')
		return true;
	*end = (*w)[0] == 'b';
	*w += 2;
	return *end < r->setup.ends || refuse(r, "there is no end 'b': 'pair' makes two");
}

/** "srq2" */
static bool srq_value(struct round *r, const char *name, uint64_t *out)
{
	uint64_t which;
	uint32_t srqn;
	uint8_t end;

	if (!r->world || !r->b->srq_number || !of_end(r, &name, &end) ||
	    strncmp(name, "srq", 3) != 0 || !fault_value_number(name + 3, UINT32_MAX, &which) ||
	    !r->b->srq_number(r->world, end, (unsigned)which, &srqn))
		return false;
	*out = srqn;
	return true;
}

/** "mem.rkey" and its like; or an attribute of the QPs. */
static bool key_value(struct round *r, const char *name, uint64_t *out)
{
	struct scenario_setup setup = r->setup;
	uint32_t window;
	uint8_t end;

	if (!r->world || !of_end(r, &name, &end))
		return false;
	if (strcmp(name, "mw.rkey") == 0 && r->b->mw_key && r->b->mw_key(r->world, end, &window)) {
		*out = window;
		return true;
	}
	if (strcmp(name, "qpn") == 0 && r->b->qpn) {
		*out = r->b->qpn(r->world, end);
		return true;
	}
	if (strcmp(name, "comm_id") == 0 && r->b->comm_id) {
		*out = r->b->comm_id(r->world);
		return true;
	}
	if (r->b->actual)
		r->b->actual(r->world, end, &setup);
	if (setup_value(&setup, name, out))
		return true;
	if (!r->b->key)
		return false;
	for (size_t i = 0; i < SCENARIO_AREAS; i++) {
		const char *kind = name + strlen(area_names[i].text);
		bool remote;

		if (strncmp(area_names[i].text, name, strlen(area_names[i].text)) != 0)
			continue;
		remote = strcmp(kind, ".rkey") == 0;
		if (!remote && strcmp(kind, ".lkey") != 0)
			return false;
		*out = r->b->key(r->world, end, (enum scenario_area)area_names[i].value, remote);
		return true;
	}
	return false;
}

/** A number or the name of one, at the front of *p. */
static bool operand(struct round *r, const char **p, uint64_t *out)
{
	size_t len = strcspn(*p, "+-*/");
	char digits[SCENARIO_WORD_LEN];

	if (!len || len >= sizeof(digits))
		return false;
	memcpy(digits, *p, len);
	digits[len] = 0;
	if (!loop_value(r, *p, len, out) && !fault_value_number(digits, UINT64_MAX, out) &&
	    !last_value(r, digits, out) && !key_value(r, digits, out) && !srq_value(r, digits, out))
		return false;
	*p += len;
	return true;
}

static bool product(struct round *r, const char **p, uint64_t *out)
{
	if (!operand(r, p, out))
		return false;
	while (**p == '*' || **p == '/') {
		const bool times = *(*p)++ == '*';
		uint64_t v;

		if (!operand(r, p, &v) || (!times && !v))
			return false;
		*out = times ? *out * v : *out / v;
	}
	return true;
}

bool number_of(struct round *r, const char *text, uint64_t max, uint64_t *out)
{
	const char *p = text;
	uint64_t sum = 0;
	bool minus = *p == '-';

	p += minus;
	for (;;) {
		uint64_t v;

		if (!product(r, &p, &v))
			return refuse(r, "'%s' is not a number", text);
		sum = minus ? sum - v : sum + v;
		if (!*p)
			break;
		minus = *p++ == '-';
	}
	if (sum > max)
		return refuse(r, "'%s' is larger than %llu, or negative", text,
			      (unsigned long long)max);
	*out = sum;
	return true;
}

bool need_number(struct round *r, const char *what, uint64_t max, uint64_t *out)
{
	const char *w = need_word(r, what);

	return w && number_of(r, w, max, out);
}

bool need_time(struct round *r, uint64_t *ns)
{
	const char *w = need_word(r, "a time");

	return w && (fault_value_time(w, 3600ull * NS_PER_S, ns) ||
		     refuse(r, "'%s' is not a time of up to an hour, such as 10us", w));
}

bool need_hex(struct round *r, uint8_t to[SCENARIO_BYTES], unsigned *len)
{
	static const char digits[] = "0123456789abcdef";
	const char *text = need_word(r, "bytes");
	const size_t n = text ? strlen(text) : 0;

	if (!text)
		return false;
	if (n % 2 || strspn(text, digits) != n)
		return refuse(r, "'%s': a byte is two of 0..9 and a..f", text);
	memset(to, 0, SCENARIO_BYTES);
	for (size_t i = 0; i < n; i++)
		to[i / 2] = (uint8_t)(to[i / 2] << 4 | (strchr(digits, text[i]) - digits));
	*len = (unsigned)n / 2;
	return true;
}

bool need_psn(struct round *r, uint32_t *psn)
{
	const char *w = need_word(r, "a PSN");
	uint64_t v;

	if (!w || !number_of(r, w, UINT64_MAX, &v))
		return false;
	if (v > ROCEMU_PSN_MASK && -v > ROCEMU_PSN_MASK)
		return refuse(r, "'%s' is not a PSN of 24 bits", w);
	*psn = v & ROCEMU_PSN_MASK;
	return true;
}

/* ---- places ---- */

bool need_place(struct round *r, struct scenario_place *p)
{
	const char *w = need_word(r, "a place such as mem+8");
	uint64_t max = r->setup.area;

	if (!w || !of_end(r, &w, &p->end))
		return false;
	p->area = SCENARIO_NOWHERE;
	for (size_t i = 0; i < ARRAY_LEN(area_names); i++) {
		const size_t len = strlen(area_names[i].text);

		if (strncmp(w, area_names[i].text, len) != 0 || (w[len] && !strchr("+-", w[len])))
			continue;
		p->area = (uint8_t)area_names[i].value;
		p->offset = 0;
		w += len;
		if (!*w)
			return true;
		if (*w++ == '-') {
			if (!number_of(r, w, max, &p->offset))
				return false;
			p->offset = -p->offset;
			return true;
		}
	}
	if (p->area == SCENARIO_NOWHERE)
		max = UINT64_MAX;
	return number_of(r, w, max, &p->offset);
}

/* ---- commands ---- */

/** "NAME NUMBER": the name stands for it in the rest of the case. */
bool run_let(struct round *r)
{
	struct variable *v = &r->loop[r->loops];
	const char *name;

	if (r->loops > r->lets || r->loops == SCENARIO_LOOPS)
		return refuse(r, "'let' stands outside of 'for', up to %d times", SCENARIO_LOOPS);
	name = need_word(r, "a name");
	if (!name || !islower((unsigned char)*name))
		return name && refuse(r, "'%s' is not a name in small letters", name);
	snprintf(v->name, sizeof(v->name), "%s", name);
	if (!need_number(r, "a number", UINT64_MAX, &v->number) || !end_of_line(r))
		return false;
	r->lets = ++r->loops;
	return true;
}

/** "NUMBER > NUMBER" */
bool run_skip_if(struct round *r)
{
	uint64_t left, right;

	if (!need_number(r, "a number", UINT64_MAX, &left))
		return false;
	if (!take_word(r, ">"))
		return refuse(r, "'>' is expected");
	if (!need_number(r, "a number", UINT64_MAX, &right) || !end_of_line(r))
		return false;
	r->skip |= left > right;
	return true;
}
