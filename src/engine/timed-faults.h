/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on purpose that come with time, for all devices of the process: ports go down, addresses
 * are removed, devices fail, as ROCEMU_IMPAIR says (fault/impair.h). netmon's thread is the clock,
 * and tells its listeners NETMON_TIMER at each change. Nothing is done to the interfaces.
 */
#ifndef ENGINE_TIMED_FAULTS_H
#define ENGINE_TIMED_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/** Before netmon_add(): have netmon's thread keep time. Any number of times. */
void timed_faults_enable(void);

struct timed_faults {
	bool down;     /* ports */
	bool fatal;    /* devices: for good */
	uint64_t gids; /* bits: GID table indices without their address */
};
/** As of the last change. None while netmon has no listener. */
struct timed_faults timed_faults_now(void);

/** The devices of the process fail, on purpose and for good: netmon's thread tells all listeners.
 */
void timed_faults_fail_devices(void);

#endif
