/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports injected faults to the user: a summary on stderr when the process exits
 * (ROCEMU_IMPAIR_SUMMARY=off: none), and a file with a line for each decision (ROCEMU_IMPAIR_LOG).
 * One of each per process; a forked child begins with nothing. Each of the two libraries has its
 * own copy, so that a process which uses both reports twice: connection management apart.
 *
 * Thread-safe, with a lock of its own: a leaf.
 */
#ifndef FAULT_REPORT_H
#define FAULT_REPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault/fault.h"

/* clang-format off */
#define FAULT_COUNTS(X)                                             \
	X(SENT,      "packets sent")                                \
	X(RECEIVED,  "packets received")                            \
	X(LOST,      "lost by chance")                              \
	X(DUP,       "doubled by chance")                           \
	X(REORDER,   "reordered by chance")                         \
	X(CORRUPT,   "corrupted by chance")                         \
	X(DELAY,     "delayed")                                     \
	X(QUEUE,     "lost because the queue was full")             \
	X(MARK,      "marked by the queue")                         \
	X(HELD,      "lost because too many were held back")        \
	X(DOWN,      "not sent because the port was down")          \
	X(DOWN_RX,   "not taken because the port was down")         \
	X(FLAP,      "times a port went down")                      \
	X(RNR,       "receives not found")
/* clang-format on */

enum fault_count {
#define X(name, text) FAULT_COUNT_##name,
	FAULT_COUNTS(X)
#undef X
		FAULT_COUNT_COUNT
};

/** A rule's line of the summary; static memory, the same one for the same text. */
struct fault_total {
	char text[FAULT_RULE_TEXT_LEN];
	const char *unit; /* of what is counted: "packets" */
	_Atomic uint64_t matched, acted;
};

/**
 * Read the environment: to be called before the others, any number of times.
 * @return 0, or -errno with one line in errbuf: the log cannot be written.
 */
int fault_report_start(char *errbuf, size_t errlen);

/** A prefix for each line of the summary, such as "connection management: ". Static
 * text. */
void fault_report_name(const char *who);

void fault_report_add(enum fault_count what, uint64_t n);

/** unit: static text. Beyond some hundred texts all share the last one. */
struct fault_total *fault_total_get(const char *text, const char *unit);
void fault_total_add(struct fault_total *t, bool acted);

/** Is there a log? */
bool fault_log_on(void);
/** Add a line, which gets the time and the process ID in front of it. Written when the buffer is
 * full, or by a flush. */
void fault_log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/**
 * A line about a packet. by: the rule's text, or NULL for a rate; what: the action or rate; ns: the
 * delay, or 0.
 */
void fault_log_packet(const char *device, const struct fault_packet *p, const char *by,
		      const char *what, uint64_t ns);
void fault_log_flush(void);

/** The text of the summary; at most size bytes with the NUL. "": no faults. For the end of the
 * process, and tests. */
void fault_report_text(char *buf, size_t size);
/** For destructors: may this thread call the above? See mutex_lock_at_exit(). */
bool fault_report_works_at_exit(void);

#endif
