/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides whether a thread that waits for an event polls for packets for a while before it sleeps.
 * Decisions only, no clock, so that tests run in virtual time.
 *
 * An event that comes through the lane's thread costs two wakeups, that of the lane's thread and
 * that of the waiting one; each takes longer than a message. Polling costs CPU time instead, at
 * most SPIN_WAIT_NS for each wait. So it is done only after a number of waits in a row that were
 * shorter than that. The number grows with each vain poll, and shrinks again while polling
 * succeeds. A thread that waits for long sleeps.
 */
#ifndef ENGINE_SPIN_H
#define ENGINE_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SPIN_NEED_MAX = 32 };	/* at this number of waits per vain poll, polling costs little */
#define SPIN_WAIT_NS 100000u	/* a wait that is shorter is short */
#define SPIN_NEVER   UINT64_MAX /* a wait that ended without an event */

/* Of one place where threads wait. Threads that wait at once may lose counts, which does no harm.
 */
struct spin {
	_Atomic uint32_t run;  /* short waits in a row */
	_Atomic uint32_t need; /* number of them required */
	_Atomic uint32_t
		hits; /* waits that ended while the thread polled, since need was changed */
	_Atomic uint32_t since_vain; /* ... since one did not */
	uint32_t need_min;
};

/** need_min: the minimum of short waits required. */
void spin_init(struct spin *s, uint32_t need_min);
/** Should the next wait begin with polling? */
bool spin_pays(const struct spin *s);
/** A wait has ended. spun: it began with polling. */
void spin_waited(struct spin *s, uint64_t waited_ns, bool spun);

#endif
