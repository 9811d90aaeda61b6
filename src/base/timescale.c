/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/timescale.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Digits with at most one point among them: strtod() would take "inf", "nan", hexadecimal, blanks
 * and the locale's comma. */
static bool parse_digits(const char *s, double *out)
{
	double value = 0, unit = 1;
	bool digits = false, point = false;

	for (; *s; s++) {
		if (*s == '.' && !point) {
			point = true;
			continue;
		}
		if (*s < '0' || *s > '9')
			return false;
		digits = true;
		if (point)
			value += (unit /= 10) * (*s - '0');
		else
			value = value * 10 + (*s - '0');
	}
	*out = value;
	return digits;
}

bool timescale_parse(const char *text, double *out, char *errbuf, size_t errlen)
{
	double value = 1;

	/* Tolerance for the rounding error of 0.0001 as a binary fraction. */
	if (text && *text &&
	    (!parse_digits(text, &value) || value < TIMESCALE_MIN * 0.999999 ||
	     value > TIMESCALE_MAX)) {
		snprintf(errbuf, errlen,
			 "\"%.40s\" is not a time scale: expected a number from 0.0001 to 1000000, "
			 "such as 100 (protocol "
			 "timers 100 times shorter) or 0.01 (100 times longer)",
			 text);
		return false;
	}
	*out = value;
	return true;
}

int timescale_get(double *out, char *errbuf, size_t errlen)
{
	char text[256];

	if (timescale_parse(secure_getenv("ROCEMU_TIME_SCALE"), out, text, sizeof(text)))
		return 0;
	snprintf(errbuf, errlen, "ROCEMU_TIME_SCALE: %s", text);
	return -EINVAL;
}
