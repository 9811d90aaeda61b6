/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager of the process, its connection to the agent, and two threads.
 *
 * Calls act on the caller's thread, under the lock, under which nothing is waited for. One thread
 * receives MADs and keeps time; what results are events, put on channels under the lock. The other
 * one follows devices and finds the next agent, which both take their time. QPs are moved when the
 * program takes an event and in rdma_accept(): on its thread and without the lock, so that no call
 * of verbs is made under it.
 */
#ifndef RDMACM_CORE_H
#define RDMACM_CORE_H

#include "base/prf.h"
#include "cm/cm.h"
#include "rdmacm/lock.h"

struct rcm_id;

/** What the core calls; its files are above it. */
struct rcm_core_ops {
	/** Act on an event of the connection manager. Under the lock. */
	void (*cm_event)(struct cm_event *ev);
	/** Devices have changed, or rcm_core_wake() was called. Without the lock. */
	void (*look)(void);
};

struct rcm_core {
	unsigned generation; /* counts forks and starts that failed; never 0 */
	bool starting;	     /* a thread waits for the agent, without the lock */
	bool running;
	bool driving;
	bool lost;			/* there is no agent: a thread looks for the next one */
	struct cm_mad mads[8];		/* of the thread that drives: too large for small stacks */
	const struct rcm_core_ops *ops; /* borrowed */
	struct cm *cm;			/* owned */
	int timer_fd, wake_fd;		/* owned */
	rocemu_ns_t armed;		/* what timer_fd is set to */
	struct prf prf;
};

/** Start CM, agent connection and threads if need be, for an ID; the lock may be given up
 * meanwhile. guid: see rcm_device_guid(). @return 0 or -errno, with a line on stderr. */
int rcm_core_start(struct rcm_id *id, uint64_t guid, const struct rcm_core_ops *ops)
	REQUIRES(rcm_lock);
/** Does what the ID has of CM and agent still exist? Not in a process forked since. */
bool rcm_core_has(const struct rcm_id *id) REQUIRES(rcm_lock);
/** Had it something in the process that this one was forked from? Nothing may be done with it but
 * to free it. */
bool rcm_core_orphaned(const struct rcm_id *id) REQUIRES(rcm_lock);
/** The ID is about to have something of the running core. */
void rcm_core_join(struct rcm_id *id) REQUIRES(rcm_lock);
/** The connection manager; only after rcm_core_start(). */
struct cm *rcm_core_cm(void) REQUIRES(rcm_lock);
/** Send what the CM has to send, hand its events out, set the timer. To be called after every call
 * of the CM. */
void rcm_drive(void) REQUIRES(rcm_lock);
/** Have the thread look around. */
void rcm_core_wake(void) REQUIRES(rcm_lock);
/** A random number, for PSNs and ports. */
uint32_t rcm_random(void) REQUIRES(rcm_lock);

#endif
