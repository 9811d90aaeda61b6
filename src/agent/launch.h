/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finding and starting the agent. It listens on an abstract name derived from the instance. Any
 * user can take such a name, so a listener is accepted only if its user is right. When another user
 * has the name, the agent adds a random suffix to it, and clients find it in the kernel's list of
 * names. So other users can not block an agent or receive messages by taking a name.
 *
 * Several processes may start an agent at the same time: each agent looks for others once it
 * listens, and ends when there is one. So at most one stays.
 */
#ifndef AGENT_LAUNCH_H
#define AGENT_LAUNCH_H

#include <stddef.h>

#include "agent/protocol.h"

/** The descriptor on which a spawned agent reports one int: 0, or the errno it failed with. */
enum { SPAWN_REPORT_FD = 3 };

/**
 * Connect to an instance's agent. Calls on the socket give up after timeout_ms; 0: never, and an
 * agent that does not accept at once is not waited for.
 * @return a descriptor, or -errno: -ECONNREFUSED there is none.
 */
int agent_connect(const struct agent_instance *instance, unsigned timeout_ms);

/**
 * Start an agent and wait until it, or one that was quicker, listens.
 * @return 0 or -errno with one line in errbuf.
 */
int agent_spawn(char *errbuf, size_t errlen);

/**
 * Listen for the instance's clients. @return a non-blocking descriptor, -EADDRINUSE: an agent
 * exists, or -errno.
 */
int agent_listen(const struct agent_instance *instance);

/** Does an agent of the instance listen, on any name but except? NULL: on any. */
bool agent_another_runs(const struct agent_instance *instance, const struct sockaddr_un *except);

#endif
