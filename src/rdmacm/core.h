/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager of the process, its connection to the agent, and the thread.
 *
 * Calls act on the caller's thread, under the lock, and wait for nothing but the agent's answers.
 * The core's thread receives MADs and keeps time; what results are events, put on channels under
 * the lock. QPs are moved when the program takes an event and in rdma_accept(): on its thread and
 * without the lock, so that no call of verbs is made under it.
 */
#ifndef RDMACM_CORE_H
#define RDMACM_CORE_H

#include "base/prf.h"
#include "cm/cm.h"
#include "rdmacm/device.h"
#include "rdmacm/lock.h"

struct rcm_id;

/** What the core calls; its files are above it. */
struct rcm_core_ops {
	/** Act on an event of the connection manager. Under the lock. */
	void (*cm_event)(struct cm_event *ev);
	/** Devices have changed, or rcm_core_wake() was called. On the thread, without the lock. */
	void (*look)(void);
};

struct rcm_core {
	unsigned generation; /* counts forks; never 0 */
	bool running;
	bool driving;
	struct cm_mad mads[8]; /* of the thread that drives: too large for small stacks */
	const struct rcm_core_ops *ops; /* borrowed */
	struct cm *cm;			/* owned */
	struct agent_gsi *client;	/* owned */
	struct rcm_local *opened;	/* owned: the addresses whose QP 1 we take part in */
	size_t nopened;
	int timer_fd, wake_fd; /* owned */
	int polled_fd;	       /* the client's descriptor that the thread watches */
	bool polled_out;       /* it watches for room there, too */
	rocemu_ns_t armed;     /* what timer_fd is set to */
	struct prf prf;
};

/** Start CM, agent connection and thread if need be, for an ID. guid: see rcm_device_guid().
 * @return 0 or -errno, with a line on stderr. */
int rcm_core_start(struct rcm_id *id, uint64_t guid, const struct rcm_core_ops *ops)
	REQUIRES(rcm_lock);
/** Does what the ID has of CM and agent still exist? Not in a process forked since. */
bool rcm_core_has(const struct rcm_id *id) REQUIRES(rcm_lock);
/** Had it something in the process that this one was forked from? Nothing may be done with it but to free it. */
bool rcm_core_orphaned(const struct rcm_id *id) REQUIRES(rcm_lock);
/** The ID is about to have something of the running core. */
void rcm_core_join(struct rcm_id *id) REQUIRES(rcm_lock);
/** The connection manager; only after rcm_core_start(). */
struct cm *rcm_core_cm(void) REQUIRES(rcm_lock);
/** Send what the CM has to send, hand its events out, set the timer. To be called after every call
 * of the CM. */
void rcm_drive(void) REQUIRES(rcm_lock);
/** Take part in QP 1 of addresses. @return 0: of one at least, or -errno. */
int rcm_core_open_all(const struct rcm_local *locals, int n) REQUIRES(rcm_lock);
/** The same for those that are not opened yet, as far as possible; failures are logged. */
void rcm_core_open_new(const struct rcm_local *locals, int n) REQUIRES(rcm_lock);
/** The device of an address that was opened. */
bool rcm_core_local(const struct rocemu_gid *gid, struct rcm_local *local) REQUIRES(rcm_lock);
/** A device is gone: its addresses are not opened any more. */
void rcm_core_close(const struct rcm_device *dev) REQUIRES(rcm_lock);
/** Have the thread look around. */
void rcm_core_wake(void) REQUIRES(rcm_lock);
/** Take a service ID, or any of its port space when its port is 0, at an IP address or wildcard;
 * listen on it; give it back. -errno. */
int rcm_core_bind(struct rcm_id *id, const struct sockaddr *sa, uint64_t *service_id)
	REQUIRES(rcm_lock);
int rcm_core_listen(struct rcm_id *id) REQUIRES(rcm_lock);
void rcm_core_unbind(struct rcm_id *id) REQUIRES(rcm_lock);
/** A random number, for PSNs and ports. */
uint32_t rcm_random(void) REQUIRES(rcm_lock);

#endif
