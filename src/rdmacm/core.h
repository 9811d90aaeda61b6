/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the connection manager of the process, its connection to the agent, and two threads.
 *
 * Calls run on the caller's thread, under the lock, under which nothing waits. One thread receives
 * MADs and handles timers; resulting events are posted to channels under the lock. The other one
 * follows devices and finds the next agent, which both may take long. QPs are moved when the
 * program takes an event and in rdma_accept(): on its thread and without the lock, so that no call
 * of verbs is made under it.
 */
#ifndef RDMACM_CORE_H
#define RDMACM_CORE_H

#include "base/prf.h"
#include "cm/cm.h"
#include "rdmacm/lock.h"

struct rcm_id;

/** Callbacks of the core, which are in files above it. */
struct rcm_core_ops {
	/** Act on an event of the connection manager. Under the lock. */
	void (*cm_event)(struct cm_event *ev);
	/** Devices have changed, or rcm_core_wake() was called. Without the lock. @return after how
	 * many ms it is to be called again; -1: not without such a reason. */
	int (*look)(void);
	/** A message came to an address whose device is not open. Without the lock. */
	void (*arrival)(const struct rocemu_gid *gid, uint32_t scope_id);
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

/**
 * Start CM, agent connection and threads if needed, for an ID; the lock may be released meanwhile.
 * guid: see rcm_device_guid(). @return 0 or -errno, with a line on stderr.
 */
int rcm_core_start(struct rcm_id *id, uint64_t guid, const struct rcm_core_ops *ops)
	REQUIRES(rcm_lock);
/** Do the ID's CM objects and agent registrations still exist? Not in a process forked since. */
bool rcm_core_has(const struct rcm_id *id) REQUIRES(rcm_lock);
/**
 * Did the ID have objects in the process that this one was forked from? Then it may only be freed.
 */
bool rcm_core_orphaned(const struct rcm_id *id) REQUIRES(rcm_lock);
/** The ID is about to use the running core. */
void rcm_core_join(struct rcm_id *id) REQUIRES(rcm_lock);
/** The connection manager; only after rcm_core_start(). */
struct cm *rcm_core_cm(void) REQUIRES(rcm_lock);
/** Send the CM's MADs, deliver its events, set the timer. To be called after every call
 * of the CM. */
void rcm_drive(void) REQUIRES(rcm_lock);
/**
 * As rcm_drive(), at the end of a program's call: drops the lock, and returns when the agent has
 * the MADs, as the kernel's calls do. A program may end at once, by _exit() or a signal: a peer
 * that never gets the RTU would not see the connection.
 */
void rcm_drive_out(void) RELEASE(rcm_lock);
/** Wake the thread that follows devices. */
void rcm_core_wake(void) REQUIRES(rcm_lock);
/** A random number, for PSNs and ports. */
uint32_t rcm_random(void) REQUIRES(rcm_lock);

#endif
