/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of rates and rules: numbers, chances, times, sizes. */
#include <string.h>

#include "base/util.h"
#include "fault/parse.h"

struct unit {
	const char *name;
	double factor;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* strtod() would take the locale's comma, "inf", "nan", hexadecimal and leading blanks. */
static bool decimal(const char **s, double *out)
{
	double value = 0, unit = 1;
	const char *p = *s;

	for (; is_digit(*p); p++)
		value = value * 10 + (*p - '0');
	if (*p == '.' && is_digit(p[1])) {
		for (p++; is_digit(*p); p++)
			value += (unit /= 10) * (*p - '0');
	}
	if (p == *s)
		return false;
	*s = p;
	*out = value;
	return true;
}

/* A decimal number with one of the units, the first that fits; rounded. */
static bool with_unit(const char **s, const struct unit *units, unsigned n, uint64_t max,
		      uint64_t *out)
{
	double v;

	if (!decimal(s, &v))
		return false;
	for (unsigned i = 0; i < n; i++) {
		const size_t len = strlen(units[i].name);

		if (strncmp(*s, units[i].name, len) != 0)
			continue;
		*s += len;
		v *= units[i].factor;
		if (v > (double)max)
			return false;
		*out = (uint64_t)(v + 0.5);
		return true;
	}
	return false;
}

/* One number at the front. */
static bool number(const char **s, uint64_t max, uint64_t *out)
{
	const bool hex = (*s)[0] == '0' && ((*s)[1] | 0x20) == 'x';
	const char *start = *s + (hex ? 2 : 0), *p = start;
	const unsigned base = hex ? 16 : 10;
	uint64_t v = 0;

	for (;; p++) {
		const char lower = (char)(*p | 0x20);
		unsigned digit;

		if (is_digit(*p))
			digit = (unsigned)(*p - '0');
		else if (hex && lower >= 'a' && lower <= 'f')
			digit = (unsigned)(lower - 'a') + 10;
		else
			break;
		if (digit > max || v > (max - digit) / base)
			return false;
		v = v * base + digit;
	}
	if (p == start)
		return false;
	*s = p;
	*out = v;
	return true;
}

bool fault_value_number(const char *s, uint64_t max, uint64_t *out)
{
	uint64_t v;

	if (!number(&s, max, &v) || *s)
		return false;
	*out = v;
	return true;
}

bool fault_value_range(const char *s, uint64_t max, struct fault_range *out)
{
	struct fault_range r = {.min = 0, .max = max};
	const bool from = strncmp(s, "..", 2) != 0;

	if (from && !number(&s, max, &r.min))
		return false;
	if (!*s) {
		r.max = r.min;
	} else {
		if (strncmp(s, "..", 2) != 0)
			return false;
		s += 2;
		/* ".." alone would match everything and is more likely a mistake. */
		if ((*s || !from) && (!number(&s, max, &r.max) || *s))
			return false;
	}
	if (r.min > r.max)
		return false;
	*out = r;
	return true;
}

bool fault_value_chance(const char *s, double *out)
{
	double v;

	if (!decimal(&s, &v))
		return false;
	if (!strcmp(s, "%"))
		v /= 100;
	else if (*s)
		return false;
	if (v > 1)
		return false;
	*out = v;
	return true;
}

static bool time_part(const char **s, uint64_t max_ns, uint64_t *out)
{
	static const struct unit units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

	return with_unit(s, units, ARRAY_LEN(units), max_ns, out);
}

bool fault_value_time(const char *s, uint64_t max_ns, uint64_t *out)
{
	return time_part(&s, max_ns, out) && !*s;
}

bool fault_value_span_part(const char **s, uint64_t max_ns, struct fault_range *out)
{
	if (!time_part(s, max_ns, &out->min))
		return false;
	out->max = out->min;
	if (!strncmp(*s, "..", 2)) {
		*s += 2;
		if (!time_part(s, max_ns, &out->max))
			return false;
	}
	return out->max >= out->min;
}

bool fault_value_span(const char *s, uint64_t max_ns, struct fault_range *out)
{
	return fault_value_span_part(&s, max_ns, out) && !*s;
}

bool fault_value_bytes(const char *s, uint64_t max, uint64_t *out)
{
	static const struct unit units[] = {{"k", 1 << 10}, {"M", 1 << 20}, {"", 1}};

	return with_unit(&s, units, ARRAY_LEN(units), max, out) && !*s;
}

bool fault_value_rate(const char *s, uint64_t max, uint64_t *out)
{
	static const struct unit units[] = {{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}};

	return with_unit(&s, units, ARRAY_LEN(units), max, out) && !*s && *out;
}
