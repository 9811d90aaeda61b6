/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finding and starting the agent. Several processes may do so at the same time: each spawned agent
 * tries to bind the realm's name, the kernel lets one of them, the others leave at once; everybody
 * then connects to that one.
 */
#ifndef AGENT_LAUNCH_H
#define AGENT_LAUNCH_H

#include <stddef.h>

#include "agent/protocol.h"

/** The descriptor on which a spawned agent reports one int: 0, or the errno it failed with. */
enum { SPAWN_REPORT_FD = 3 };

/**
 * Connect to a realm's agent and see that it is who it should be. Calls on the socket give up after
 * timeout_ms.
 * @return a descriptor, or -errno: -ECONNREFUSED there is none, -EPERM somebody else sits on the
 * name.
 */
int agent_connect(const struct agent_realm *realm, unsigned timeout_ms);

/**
 * Start an agent and wait until it, or one that was quicker, listens.
 * @return 0 or -errno with one line in errbuf.
 */
int agent_spawn(char *errbuf, size_t errlen);

/** Listen on the realm's name. @return a non-blocking descriptor, -EADDRINUSE: an agent is there,
 * or -errno. */
int agent_listen(const struct agent_realm *realm);

#endif
