/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records the timeline of a process in the Trace Event Format that Perfetto and Chrome read (JSON,
 * an event a line), in the file that ROCEMU_TRACE names. Several processes may append to one file.
 *
 * Recording copies an event into a buffer. A thread writes full buffers at once and partly filled
 * ones every TRACE_FLUSH_MS. A recorder that finds both buffers full waits for it, so no event is
 * lost. The end of the process writes the rest, unless it is killed, calls _exit(), or calls exit()
 * in a signal's handler that interrupted the recording of an event.
 *
 * Any thread may record. The lock in here is a leaf.
 */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"

enum { TRACE_ARGS = 4, TRACE_FLUSH_MS = 100 };

/* Tracks, a row each in the viewer: a QP's number, or these. */
enum { TRACE_TRACK_GSI = 1, TRACE_TRACK_TIMERS = 1 << 24, TRACE_TRACK_LATE };

enum trace_phase {
	TRACE_INSTANT = 'i',
	TRACE_BEGIN = 'b', /* of something that lasts; its end has the same category and ID */
	TRACE_END = 'e',
};

/** What events of one kind have in common. */
struct trace_kind {
	const char *category;
	enum trace_phase phase;
	const char *prefix; /* of the names */
	/* Names of the arguments, the first NULL ends them. "x:NAME": in hexadecimal, "s:NAME": a
	 * pointer to a text that stays. */
	const char *arg[TRACE_ARGS];
};

extern atomic_bool trace_is_on;

/** Is a timeline being recorded? */
static inline bool trace_on(void)
{
	return unlikely(atomic_load_explicit(&trace_is_on, memory_order_relaxed));
}

/** Begin, if ROCEMU_TRACE is set and recording has not begun; failures are logged. */
void trace_start(void);
/** CLOCK_MONOTONIC in ns. */
uint64_t trace_now(void);
/** Record. kind and name are static; id: TRACE_BEGIN's and TRACE_END's; arg: as many as the kind
 * has. */
void trace_add(const struct trace_kind *kind, const char *name, uint64_t when_ns, uint32_t track,
	       uint64_t id, const uint64_t *arg);
/** The title of a track; the last one counts. Not for fast paths. */
void trace_title(uint32_t track, const char *title);
/** Write what was recorded. */
void trace_flush(void);
/** For destructors: may this thread record? See mutex_lock_at_exit(). */
bool trace_works_at_exit(void);

#endif
