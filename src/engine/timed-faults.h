/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Applies faults by time of ROCEMU_IMPAIR (fault/impair.h) to all devices of the process: ports go
 * down, addresses are removed, devices fail. netmon's thread has the timer, and sends NETMON_TIMER
 * to its listeners at each change. The interfaces are not changed.
 */
#ifndef ENGINE_TIMED_FAULTS_H
#define ENGINE_TIMED_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/** Before netmon_add(): have netmon's thread run the timer. Idempotent. */
void timed_faults_enable(void);

struct timed_faults {
	bool down;     /* ports */
	bool fatal;    /* devices: permanently */
	uint64_t gids; /* bits: GID table indices without their address */
};
/** As of the last change. None while netmon has no listener. */
struct timed_faults timed_faults_now(void);

/** Fail the devices of the process permanently: netmon's thread notifies all listeners.
 */
void timed_faults_fail_devices(void);

#endif
