/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reasons of errors, for people: one line on stderr at the log level "why", which names the object,
 * the value, the rule and the remedy. A reason that repeats is printed once a minute for each
 * object and place, with the count of those between. Not for the packet path: only where an error
 * is made.
 */
#ifndef BASE_WHY_H
#define BASE_WHY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/util.h"

enum {
	WHY_INTERVAL_S = 60, /* a reason of an object is printed again after so long */
	WHY_OBJECTS = 16,    /* lines in that time of one reason, whichever their objects */
};

/** A place in the code, or a code of a table, that gives a reason. All zeros at first. */
struct why_site {
	_Atomic uint64_t since_ns; /* when the lines of this interval began */
	atomic_uint lines;	   /* in it */
};

/**
 * May a reason be printed at now_ns? object: which one it is about, by a number; 0: none. *held: of
 * the same site and object, what was held back since the line before. Safe to call from any thread;
 * threads that race may print a line too many.
 */
bool why_pass(struct why_site *site, uint64_t object, uint64_t now_ns, uint32_t *held);

/** why_pass() of now, or false where reasons are not requested. Leaves errno alone. */
bool why_begin(struct why_site *site, uint64_t object, uint32_t *held);

/** Print the line that why_begin() has let pass. Leaves errno alone. */
void why_print(uint32_t held, const char *fmt, ...) __attribute__((cold, format(printf, 2, 3)));

/**
 * Print why a call or an object fails. The arguments are evaluated only if the line is printed.
 */
#define why_say(object, ...)                                               \
	do {                                                               \
		static struct why_site why_site_;                          \
		uint32_t why_held_;                                        \
		if (unlikely(why_begin(&why_site_, (object), &why_held_))) \
			why_print(why_held_, __VA_ARGS__);                 \
	} while (0)

/** err, and why it is returned: return REFUSE(-EINVAL, 0, "ibv_create_cq: ..."). */
#define REFUSE(err, object, ...)                \
	({                                      \
		why_say((object), __VA_ARGS__); \
		(err);                          \
	})

#endif
