/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finding and starting the agent. It listens on an abstract name that follows from the instance.
 * Since anybody may take such a name, who listens there counts only if its user is right; when a
 * stranger has the name, the agent takes another one, the same with a random suffix, and clients
 * find it in the kernel's list of names. So nobody can stop an agent by names, or receive anything
 * by one.
 *
 * Several processes may start an agent at the same time: each looks for others once it listens
 * itself, and leaves when there is one. So at most one stays.
 */
#ifndef AGENT_LAUNCH_H
#define AGENT_LAUNCH_H

#include <stddef.h>

#include "agent/protocol.h"

/** The descriptor on which a spawned agent reports one int: 0, or the errno it failed with. */
enum { SPAWN_REPORT_FD = 3 };

/**
 * Connect to a instance's agent. Calls on the socket give up after timeout_ms; 0: never, and who
 * does not accept at once is not waited for.
 * @return a descriptor, or -errno: -ECONNREFUSED there is none.
 */
int agent_connect(const struct agent_instance *instance, unsigned timeout_ms);

/**
 * Start an agent and wait until it, or one that was quicker, listens.
 * @return 0 or -errno with one line in errbuf.
 */
int agent_spawn(char *errbuf, size_t errlen);

/** Listen for the instance's clients. @return a non-blocking descriptor, -EADDRINUSE: an agent is
 * there, or -errno. */
int agent_listen(const struct agent_instance *instance);

#endif
